/* remote_memory.h: requests to ranks of other hosts that concern their memory: read it, write it, or change it. A frame
 * carries a request, and a frame the answer. The rank that has the memory carries out requests, in order of arrival,
 * while any of its threads receives frames: in a call, or the thread of the library (call/progress.h).
 *
 * What requests mean is known to their server (onesided/served.c). Here, they only have a body, an answer, and a number,
 * by which the answer finds its request. */
#ifndef TU_REMOTE_MEMORY_H
#define TU_REMOTE_MEMORY_H

#include "mover/remote.h"

/* The head of a frame of this kind. Its first two fields are those of struct tu_frame (remote_internal.h). */
struct tu_memory_frame {
  uint64_t comm_id;
  uint8_t kind;
  uint8_t what;    /* what is requested; 0: this is an answer */
  uint16_t code;   /* of an answer: tutti_err */
  uint32_t window; /* the window's number, on the rank that has the memory */
  uint64_t number; /* the request's number, on the rank that makes it */
  uint64_t offset; /* first byte of the memory, counted from the beginning of the rank's part of the window */
  uint32_t value;  /* of a request: bytes to read, or a number; of an answer: a number */
  uint32_t reserved;
};
_Static_assert(sizeof(struct tu_memory_frame) == TU_FRAME_HEAD_BYTES, "no padding");

/* A request. The call that makes it owns it, and must not free it before it is done, or withdrawn. If it only moves bytes,
 * and the wire has direct access to the memory, it is a transfer of the wire (wire.h), and no frame is sent. If the
 * transfer fails, the frame is sent after all. */
struct tu_request_to {
  struct tu_request_to *next; /* next open request of this rank */
  uint32_t peer;              /* rank in the job to which the request goes */
  struct tu_memory_frame frame;
  void *answer;        /* where the body of the answer goes; NULL: the answer has none */
  size_t answer_bytes; /* number of bytes that the answer's body must have */
  /* reads, here, bytes, address and key are set by the caller; bytes 0: the request needs a frame. */
  struct tu_wire_transfer transfer;
  bool transfers; /* true: the transfer is not done */
  /* For the frame, if the transfer fails. */
  struct tu_remote *remote;
  const void *body;
  size_t body_bytes;
  _Atomic bool done; /* true: the answer has arrived */
  tutti_err code;    /* of the answer; valid once done is true */
  uint32_t value;
};

/* Makes a request. The caller sets `peer`, the frame but for its first fields and its number, the answer, and the
 * transfer. The body (of `bytes` bytes) must stay unchanged until the request is done. Errors: TUTTI_ERR_MEMORY. Any
 * thread. */
tutti_err tu_memory_request(struct tu_control *c, struct tu_request_to *request, const void *body, size_t bytes,
                            struct tu_error *error);
/* Gives up a request that is not done. When this returns, no memory of the request is used any more. Any thread. */
void tu_memory_withdraw(struct tu_control *c, struct tu_request_to *request);
/* When this returns, no request to this rank that concerns the window is carried out, and no answer reads its memory. The
 * server must already refuse new requests. */
void tu_memory_close_window(struct tu_control *c, uint32_t window);

/* Lets ranks of other hosts read and write memory directly, if the wire can; otherwise memory->region becomes NULL. In
 * remote_exposed.c, as the next one. */
void tu_memory_expose(struct tu_control *c, void *base, size_t bytes, struct tu_wire_memory *memory);
/* Ends that; as conceal in wire.h. */
void tu_memory_conceal(struct tu_control *c, struct tu_wire_memory *memory, bool in_order);

/* The answer to a request. */
struct tu_memory_answer {
  tutti_err code;
  uint32_t value;
  const void *body; /* sent from here, and stays unchanged until tu_memory_close_window; or, if it equals `owned`: */
  size_t bytes;
  void *owned; /* memory from malloc, which is freed when the answer is sent; NULL: none */
};

/* What carries out requests that arrive (onesided/served.c). Called with a lock held under which frames are received. */
struct tu_memory_server {
  /* Returns where the body of a request goes; NULL: into a buffer that the caller allocates. */
  void *(*place)(const struct tu_transport *t, const struct tu_memory_frame *f, size_t bytes);
  /* Carries out a request. body: the result of place, or the buffer; NULL: there is no body, or no memory for it. */
  void (*carry_out)(const struct tu_transport *t, uint32_t from, const struct tu_memory_frame *f, const void *body,
                    size_t bytes, struct tu_memory_answer *answer);
};
/* Sets what carries out the requests to this rank; before that, they are refused. */
void tu_memory_serve(const struct tu_control *c, const struct tu_memory_server *server);

#endif
