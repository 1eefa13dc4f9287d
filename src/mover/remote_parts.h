/* remote_parts.h: what the files of remote.h have in common: frames, and the ends of channels. All of it under the lock. */
#ifndef TU_REMOTE_PARTS_H
#define TU_REMOTE_PARTS_H

#include <pthread.h>

#include "mover/mover.h"

#define TU_SLOT_BYTES_MAX (1u << 30)
#define TU_REMOTE_BUCKETS 1024u

/* ---- frames ---- */

enum tu_frame_kind {
  TU_FRAME_SLICE,
  TU_FRAME_CREDIT,   /* slice.taken */
  TU_FRAME_CALL,     /* code 1: asks for one */
  TU_FRAME_VERDICT,  /* code; the body is the sentence */
  TU_FRAME_WORDS,    /* of rank 0; the body */
  TU_FRAME_HERE,     /* has made its side */
  TU_FRAME_DEPARTED, /* in order */
  TU_FRAME_MISSED,   /* could not make its side */
  TU_FRAME_CLOSED    /* the last one of its session from that rank */
};

struct tu_frame {
  uint64_t session;
  uint8_t kind, lane;
  uint16_t reserved;
  uint32_t code;
  union {
    struct {
      uint64_t tag, message_bytes;
      uint32_t sequence, taken, bytes, credits, slot_bytes, reserved;
      unsigned char payload[TU_INLINE_BYTES];
    } slice;
    struct {
      uint64_t number, latest; /* 0: none */
      uint64_t words[TU_BOARD_WORDS];
    } call;
  } of;
};
_Static_assert(sizeof(struct tu_frame) == TU_FRAME_HEAD_BYTES, "no padding");

/* ---- state ---- */

/* Came before this rank had made the communicator. */
struct tu_held {
  struct tu_held *next;
  uint32_t from;
  struct tu_frame frame;
  size_t bytes;
  unsigned char body[];
};

struct tu_remote_session {
  struct tu_remote_session *chain;
  uint64_t number;
  struct tu_control *control; /* NULL: not made yet, or closed */
  bool deaf;                  /* this rank has departed: what the ranks of its host share may be gone */
  bool closed;
  struct tu_error lost;                  /* what went wrong before there was a control */
  uint32_t closed_there, remote_members; /* the latter once it is made */
  struct tu_held *first, *last;
  struct tu_remote_end *ends;
};

/* This process's end of the channels between it and a rank of another host, on one lane. */
struct tu_remote_end {
  struct tu_remote_end *chain; /* of its bucket */
  struct tu_remote_end *next;  /* of its session */
  struct tu_remote_end *after; /* of those that have something left to send */
  bool left;                   /* it is one of these */
  struct tu_remote_session *session;
  uint32_t peer; /* rank of the job */
  uint32_t lane;
  struct tu_sender *sender; /* NULL: none */
  uint32_t sent;            /* slices, of those that it has published */
  /* The copy of the peer's channel; no lines: nothing has come. */
  struct tu_line *lines;
  unsigned char *slots;
  uint32_t credits, slot_bytes;
  uint32_t came;                        /* slices */
  uint64_t message_bytes, message_left; /* of the message in the midst of which it is */
  uint32_t told;                        /* taken, as the peer knows */
  uint32_t counted, counted_bytes;      /* up to that slice: bytes of those taken since */
  bool filling;                         /* a slice is half received */
  struct tu_credit_line credit;
};

struct tu_remote {
  struct tu_hosts hosts; /* first */
  struct tu_wire_reader reader;
  struct tu_transport *transport;
  struct tu_wire *wire;
  pthread_mutex_t lock; /* of all that follows, and of the wire */
  struct tu_remote_session *sessions[TU_REMOTE_BUCKETS];
  struct tu_remote_end *buckets[TU_REMOTE_BUCKETS];
  struct tu_remote_end *left; /* ends that have something left to send */
};

/* ---- remote.c ---- */

struct tu_remote_session *tu_remote_find_session(struct tu_remote *r, uint64_t number);
/* NULL without memory; as the next but one. */
struct tu_remote_session *tu_remote_get_session(struct tu_remote *r, uint64_t number);
struct tu_remote_end *tu_remote_find_end(struct tu_remote *r, const struct tu_remote_session *s, uint32_t peer,
                                         uint32_t lane);
struct tu_remote_end *tu_remote_get_end(struct tu_remote *r, struct tu_remote_session *s, uint32_t peer, uint32_t lane);

/* ---- remote_slices.c ---- */

/* Sends what this rank has published on the session's channels, and credits that are due, or all; what cannot go now is noted
 * in r->left. True if anything moved. */
bool tu_remote_serve_session(struct tu_remote *r, const struct tu_remote_session *s, bool all_credits);
bool tu_remote_serve_left(struct tu_remote *r, bool all_credits);
/* posts: what cannot go now is copied, for its memory goes. */
bool tu_remote_send_slices(struct tu_remote *r, struct tu_remote_end *e, bool posts);
/* The head of a slice has come: the end that it belongs to; NULL: none, it is passed over. Its body goes to tu_remote_slot. */
struct tu_remote_end *tu_remote_begin_slice(struct tu_remote *r, uint32_t from, const struct tu_frame *f,
                                            size_t body_bytes);
unsigned char *tu_remote_slot(const struct tu_remote_end *e);
void tu_remote_end_slice(struct tu_remote_end *e, const struct tu_frame *f);
/* The peer has taken so many slices. */
void tu_remote_note_taken(struct tu_remote_end *e, uint32_t taken);

/* ---- remote_control.c ---- */

/* To the ranks of other hosts in the communicator; whom NULL: to all of them. False without memory. */
bool tu_remote_post(struct tu_remote *r, const struct tu_control *c, const bool whom[], const struct tu_frame *f,
                    const void *body, size_t bytes);
/* What a rank has said comes to this one's host. */
void tu_remote_hear(struct tu_remote *r, struct tu_control *c, uint32_t from, const struct tu_frame *f, void *body,
                    size_t bytes);
/* The communicator has failed here; or will, once it is made. */
void tu_remote_fail(struct tu_remote *r, struct tu_remote_session *s, const struct tu_error *error);

#endif
