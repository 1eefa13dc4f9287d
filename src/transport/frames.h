/* frames.h: frames in a stream of bytes: what the wires have in common. A frame is a prefix (the number of bytes of its
 * body, and its head) and its body. The bodies of frames that are sent stay where they lie, until they are sent or
 * copied. */
#ifndef TU_FRAMES_H
#define TU_FRAMES_H

#include <sys/uio.h>

#include "transport/wire.h"

struct tu_frame_prefix {
  uint64_t body_bytes;
  unsigned char head[TU_FRAME_HEAD_BYTES];
};

struct tu_posted_frame;

/* The frames that leave on a stream. Zeros: there are none. */
struct tu_frames_out {
  /* The frame that is partly sent: its prefix, its body, and its bytes. sent == total: there is no such frame. */
  struct tu_frame_prefix prefix;
  const unsigned char *body;
  size_t sent, total;
  struct tu_posted_frame
      *leaving; /* the copied frame that is partly sent; NULL: the partly sent frame was not copied */
  struct tu_posted_frame *first, *last; /* copied frames that wait */
};

/* The frames that arrive on a stream. Zeros: nothing of the next one has arrived. */
struct tu_frames_in {
  struct tu_frame_prefix prefix;
  unsigned char *body; /* NULL: the body is skipped */
  size_t received;
};

/* ---- sending ---- */

/* Begins a frame. There must be no frame that is partly sent. */
void tu_frames_begin(struct tu_frames_out *out, const void *head, const void *body, size_t bytes);
/* Copies a frame, to be sent after those that wait. Returns false if out of memory. */
bool tu_frames_post(struct tu_frames_out *out, const void *head, const void *body, size_t bytes);
/* Writes a frame at `to`, which has room for tu_frames_bytes(bytes). */
void tu_frames_write(unsigned char *to, const void *head, const void *body, size_t bytes);
static inline size_t tu_frames_bytes(size_t body_bytes) { return sizeof(struct tu_frame_prefix) + body_bytes; }
/* Copies the last bytes of frames whose first bytes were sent, to be sent next. No frame may wait. Returns false if out of
 * memory. */
bool tu_frames_keep(struct tu_frames_out *out, const unsigned char *rest, size_t bytes);
/* Finds the bytes to be sent next: what is left of a frame. Begins the next copied frame if none is partly sent. Returns
 * the number of parts; 0: no frame is left. */
int tu_frames_parts(struct tu_frames_out *out, struct iovec parts[2]);
/* Counts bytes that were sent. */
void tu_frames_sent(struct tu_frames_out *out, size_t bytes);
static inline bool tu_frames_is_between(const struct tu_frames_out *out) { return out->sent == out->total; }
static inline bool tu_frames_is_empty(const struct tu_frames_out *out) {
  return out->sent == out->total && !out->first;
}
/* Returns true if the body of a frame that was not copied is partly sent. */
static inline bool tu_frames_reads(const struct tu_frames_out *out) { return out->sent < out->total && !out->leaving; }
/* Copies that body. Returns false if out of memory. */
bool tu_frames_detach(struct tu_frames_out *out);
/* Drops all frames. */
void tu_frames_drop(struct tu_frames_out *out);

/* ---- receiving ---- */

/* Takes bytes that have arrived: the rest of a prefix or of a body, or less, and calls the reader. Returns how many it has
 * taken. count: greater than 0. */
size_t tu_frames_take(struct tu_frames_in *in, struct tu_wire_reader *reader, uint32_t from, const unsigned char *bytes,
                      size_t count);
/* Counts bytes that were received into the body of the current frame, at in->body + tu_frames_at(in). */
void tu_frames_received(struct tu_frames_in *in, struct tu_wire_reader *reader, uint32_t from, size_t count);
/* Returns how many bytes of the current body have arrived, and how many are missing. in_body: it has begun. */
static inline bool tu_frames_in_body(const struct tu_frames_in *in) { return in->received >= sizeof in->prefix; }
static inline size_t tu_frames_at(const struct tu_frames_in *in) { return in->received - sizeof in->prefix; }
static inline size_t tu_frames_missing(const struct tu_frames_in *in) {
  return in->prefix.body_bytes - tu_frames_at(in);
}
/* The rest of the current frame will never arrive. */
void tu_frames_lose(struct tu_frames_in *in, struct tu_wire_reader *reader, uint32_t from);

#endif
