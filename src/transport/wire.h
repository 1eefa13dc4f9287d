/* wire.h: a wire carries frames between the ranks of a job that share no memory, because they run on different hosts.
 * There is one path to each rank. Frames on a path stay in order. No frame is lost or duplicated, except when the rank
 * is gone (has closed or died).
 *
 * A wire has no lock: one thread at a time uses it (mover/remote.h ensures that). Only close waits. */
#ifndef TU_WIRE_H
#define TU_WIRE_H

#include "base/base.h"

struct tu_wire;

#define TU_FRAME_HEAD_BYTES 88u

/* Callbacks that receive the frames of a wire. */
struct tu_wire_reader {
  /* Called when the head of a frame has arrived. Returns the buffer for the body; NULL: the body is skipped. */
  void *(*begin)(struct tu_wire_reader *reader, uint32_t from, const void *head, size_t body_bytes);
  /* Called when the whole frame has arrived. `body` is the result of begin. */
  void (*end)(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t body_bytes);
  /* Called instead of end if the rank is gone, and the rest of the frame will never arrive. */
  void (*lost)(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body);
};

struct tu_wire_ops {
  const char *name;
  /* Sends a frame (head and body) to that rank; returns false if the frame cannot be sent now. The head is copied. The
   * body must stay unchanged until the receiver has it. A frame to a rank that is gone is dropped. */
  bool (*send)(struct tu_wire *w, uint32_t rank, const void *head, const void *body, size_t body_bytes);
  /* Sends a frame like `send`, or copies it to send it later. Returns false if out of memory. */
  bool (*post)(struct tu_wire *w, uint32_t rank, const void *head, const void *body, size_t body_bytes);
  /* Continues frames that are partly sent, and receives what has arrived. Returns true if a socket was ready to send or
   * receive. */
  bool (*look)(struct tu_wire *w);
  bool (*alive)(const struct tu_wire *w, uint32_t rank);
  /* For tests: from now on sends and receives nothing, as if this process had been killed. */
  void (*cut)(struct tu_wire *w);
  /* Sends all posted frames, waits at most timeout_ms ms until the hosts of their receivers have them, and frees the
   * wire. */
  void (*close)(struct tu_wire *w, int timeout_ms);
};

struct tu_wire {
  const struct tu_wire_ops *ops;
  struct tu_wire_reader *reader; /* set before the first call of look */
  int descriptor;                /* file descriptor that is readable when `look` can send or receive something */
};

/* Creates a wire over connected stream sockets. sockets[rank] leads to a rank of another host; -1: no socket (for
 * example for a rank of this host). The wire becomes the owner of the sockets, even if the call fails. */
tutti_err tu_wire_sockets(uint32_t ranks, const int sockets[], struct tu_wire **wire, struct tu_error *error);

#endif
