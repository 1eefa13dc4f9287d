/* wire.h: a wire carries frames between the ranks of a job that share no memory, because they run on different hosts.
 * There is a path to each rank, which is made when one of the two ranks first uses it. Frames on a path stay in order. No
 * frame is lost or duplicated, except when the rank is gone (has closed or died). There may be a second path to a rank,
 * for urgent frames.
 *
 * A wire has no lock: one thread at a time uses it (mover/remote.h ensures that). Only close waits. */
#ifndef TU_WIRE_H
#define TU_WIRE_H

#include "boot/dialer.h"

struct tu_wire;

#define TU_FRAME_HEAD_BYTES 40u
/* The byte of a head that tells what the frame is, and its value in frames that wires send to each other. */
#define TU_FRAME_KIND_AT 8u
#define TU_FRAME_OF_WIRE 255u

/* Callbacks that receive the frames of a wire. */
struct tu_wire_reader {
  /* Called when the head of a frame has arrived. Returns the buffer for the body; NULL: the body is skipped. */
  void *(*begin)(struct tu_wire_reader *reader, uint32_t from, const void *head, size_t body_bytes);
  /* Called when the whole frame has arrived. `body` is the result of begin. */
  void (*end)(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body, size_t body_bytes);
  /* Called instead of end if the rank is gone, and the rest of the frame will never arrive. */
  void (*lost)(struct tu_wire_reader *reader, uint32_t from, const void *head, void *body);
};

/* How a frame is posted; several values are combined with |. */
enum tu_order {
  TU_IN_ORDER = 0,
  TU_URGENT = 1, /* the frame need not stay in order: it may overtake, and be overtaken by, other frames */
  TU_IF_MET = 2  /* if there is no path to the rank, and none is being made, the frame is dropped */
};

/* Memory of a rank that other ranks read and write directly. address and key are for them; 0: they cannot. */
struct tu_wire_memory {
  uint64_t address, key;
  void *region; /* the wire's; NULL: not exposed */
};

enum { TU_TRANSFER_BYTES = 128 };

/* A transfer between memory of this rank and exposed memory of another one. The caller owns it, until it is done or
 * recalled. */
struct tu_wire_transfer {
  bool reads; /* true: from the other rank; false: to it */
  void *here;
  size_t bytes;
  uint64_t address, key; /* of the first byte there */
  /* Called in `look`. carried_out: the data is in its place; false: it may be there in part. */
  void (*done)(struct tu_wire_transfer *transfer, bool carried_out);
  void *context;                                       /* the caller's */
  _Alignas(16) unsigned char state[TU_TRANSFER_BYTES]; /* the wire's */
};

struct tu_wire_ops {
  const char *name;
  /* Sends a frame (head and body) to that rank; returns false if the frame cannot be sent now. The head is copied. The
   * body must stay unchanged while `reads` returns true. A frame to a rank that is gone is dropped. */
  bool (*send)(struct tu_wire *w, uint32_t rank, const void *head, const void *body, size_t body_bytes);
  /* Returns true if the wire still reads the body of the last frame that `send` has sent to that rank. It reads no body
   * of earlier frames. */
  bool (*reads)(const struct tu_wire *w, uint32_t rank);
  /* Copies what the wire has not read of that body, so that its memory may change. If out of memory, the rank is gone
   * for this wire. */
  void (*detach)(struct tu_wire *w, uint32_t rank);
  /* Discards the rest of the body of the frame from that rank that is partly received, and does not write to its buffer
   * any more. reader->end is called with body NULL. */
  void (*skip)(struct tu_wire *w, uint32_t rank);
  /* Sends a frame like `send`, or copies it to send it later. how: values of enum tu_order. Returns false if out of
   * memory. */
  bool (*post)(struct tu_wire *w, uint32_t rank, unsigned how, const void *head, const void *body, size_t body_bytes);
  /* Between gather(w, true) and gather(w, false), short frames to the same rank may wait, so that one system call sends
   * them; their bodies are copied. */
  void (*gather)(struct tu_wire *w, bool begins);
  /* Continues frames that are partly sent, and receives what has arrived. Returns true if a socket was ready to send or
   * receive. */
  bool (*look)(struct tu_wire *w);
  /* Called before a thread sleeps on the descriptor. NULL: not needed. */
  void (*arm)(struct tu_wire *w);
  /* Returns false if the rank is gone. The end of a rank to which there is no path may be unknown. If a host does not
   * answer, its ranks are found to be gone if this function is called several times per second. */
  bool (*alive)(struct tu_wire *w, uint32_t rank);
  /* Returns true if there is a path to the rank, or one is being made. */
  bool (*met)(const struct tu_wire *w, uint32_t rank);
  /* Returns true if frames to and from the rank go over a fabric now, and sets `text` to its PROVIDER/DOMAIN. NULL:
   * never. */
  bool (*fabric)(const struct tu_wire *w, uint32_t rank, char *text, size_t text_bytes);
  /* For tests: from now on sends and receives nothing, as if this process had been killed. */
  void (*cut)(struct tu_wire *w);
  /* The next four are NULL if the wire has no direct access to memory.
   * expose: lets other ranks read memory, and write it if `writable`. Returns false if they cannot. */
  bool (*expose)(struct tu_wire *w, void *base, size_t bytes, bool writable, struct tu_wire_memory *memory);
  /* Ends that. in_order: no rank uses the memory any more. Otherwise transfers of other ranks may fail. Does nothing if the
   * memory is not exposed. */
  void (*conceal)(struct tu_wire *w, struct tu_wire_memory *memory, bool in_order);
  /* Begins a transfer. Returns false if there is no direct access to that rank, or not from that memory of this rank. */
  bool (*transfer)(struct tu_wire *w, uint32_t rank, struct tu_wire_transfer *transfer);
  /* Gives up a transfer that is not done. When this returns, it uses no memory of this rank any more. */
  void (*recall)(struct tu_wire *w, struct tu_wire_transfer *transfer);
  /* Sends all posted frames, waits at most timeout_ms ms until the hosts of their receivers have them, and frees the
   * wire. */
  void (*close)(struct tu_wire *w, int timeout_ms);
};

struct tu_wire {
  const struct tu_wire_ops *ops;
  const uint32_t *host;          /* [ranks]: the lowest rank on the host of each rank */
  struct tu_wire_reader *reader; /* set before the first call of look */
  uint32_t losses;               /* number of connections that have ended */
  uint32_t unsent;               /* number of connections with a frame that is partly sent, or posted and not sent */
  int descriptor;                /* file descriptor that is readable when `look` can send or receive something */
};

/* Creates a wire over stream sockets, which the dialer makes. The wire becomes the owner of the dialer, even if the call
 * fails. */
tutti_err tu_wire_sockets(uint32_t ranks, struct tu_dialer *dialer, struct tu_wire **wire, struct tu_error *error);

#endif
