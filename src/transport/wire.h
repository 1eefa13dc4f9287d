/* wire.h: a wire carries frames between ranks of a job that share no memory: those of several hosts. To each rank there is one
 * way, on which frames stay in order, none is lost and none comes twice, until the rank is gone.
 *
 * A wire has no lock: one thread at a time uses it (mover/remote.h sees to that). Nothing of it waits. */
#ifndef TU_WIRE_H
#define TU_WIRE_H

#include "base/base.h"

struct tu_wire;

#define TU_FRAME_HEAD_BYTES 88u

/* Who takes what arrives. */
struct tu_wire_reader {
  /* The head of a frame has come: where does its body go? NULL: it is passed over. */
  void *(*begin)(struct tu_wire_reader *reader, uint32_t from, const void *head, size_t body_bytes);
  /* All of it is there; body as begin said. */
  void (*end)(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t body_bytes);
  /* Or the rank is gone, and the rest will never come. */
  void (*lost)(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body);
};

struct tu_wire_ops {
  const char *name;
  /* Sends a frame to that rank; false: not now. The head is copied; the body must stay until the receiver has it. What is
   * sent to a rank that is gone is lost. */
  bool (*send)(struct tu_wire *w, uint32_t rank, const void *head, const void *body, size_t body_bytes);
  /* The same, of a frame that is copied if it cannot go now. False without memory. */
  bool (*post)(struct tu_wire *w, uint32_t rank, const void *head, const void *body, size_t body_bytes);
  /* Moves on what is half sent, and takes what has come. True if anything moved. */
  bool (*look)(struct tu_wire *w);
  bool (*alive)(const struct tu_wire *w, uint32_t rank);
  /* For tests: nothing leaves or comes any more, as if this process had been killed. */
  void (*cut)(struct tu_wire *w);
  /* What has been posted leaves first, and the other ends close, too; or so many ms have passed. */
  void (*close)(struct tu_wire *w, int timeout_ms);
};

struct tu_wire {
  const struct tu_wire_ops *ops;
  struct tu_wire_reader *reader; /* set before anything is looked at */
  int descriptor;                /* readable when look would move something */
};

/* A wire over connected stream sockets, one to each rank of another host: sockets[rank]; -1: there is none, as of ranks of this
 * host. They belong to the wire from now on. */
tutti_err tu_wire_sockets(uint32_t ranks, const int sockets[], struct tu_wire **wire, struct tu_error *error);

#endif
