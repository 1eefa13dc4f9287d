/* remote_internal.h: definitions that the remote*.c files share: frames, and the ends of channels to other hosts. All
 * functions are called with tu_remote.lock held. */
#ifndef TU_REMOTE_INTERNAL_H
#define TU_REMOTE_INTERNAL_H

#include <pthread.h>

#include "mover/remote.h"

#define TU_SLOT_BYTES_MAX (1u << 30)
#define TU_REMOTE_BUCKETS 1024u

/* ---- frames ---- */

enum tu_frame_kind {
  TU_FRAME_SLICE,
  /* credits without a slice: `taken` is the number of slices that the sender of this frame has taken */
  TU_FRAME_CREDIT,
  /* a call of the sender, in the body (struct tu_call_note); if `code` is 1, the receiver is to answer with its own call */
  TU_FRAME_CALL,
  TU_FRAME_VERDICT,  /* the communicator's verdict (its first failure): `code` is the error, the body its message */
  TU_FRAME_WORDS,    /* data from rank 0, which is in the body */
  TU_FRAME_HERE,     /* the sender has made its side of the communicator */
  TU_FRAME_DEPARTED, /* the sender has departed in order */
  TU_FRAME_MISSED,   /* the sender could not make its side of the communicator; `code` is the reason */
  TU_FRAME_CLOSED,   /* the sender has closed the communicator; this is its last frame for it */
  /* `code` 1: asks the receiver for which ranks it waits; 0: the answer, in the body (comm_id has no meaning) */
  TU_FRAME_WAITS,
  TU_FRAME_MEMORY, /* a request that concerns memory of the receiver, or an answer (remote_memory.h) */
  TU_FRAME_LINK,   /* what the peer has written for a link (control.h, struct tu_link_hearer) */
  /* Of slices that are lent (remote_lent.c): a slice whose payload the receiver is to read; the sender of this frame has all
   * slices up to `sequence`; it cannot read the slice `sequence`, and asks for it */
  TU_FRAME_LENT,
  TU_FRAME_RETURNED,
  TU_FRAME_WANTED
};

/* The head of a frame. The fields from credits_log2 on, but for `code`, are those of slices, whose payload is the body. */
struct tu_frame {
  uint64_t comm_id;
  uint8_t kind, lane;
  uint8_t credits_log2;
  uint8_t again; /* 1: a slice that was lent, and that the receiver has asked for */
  union {
    uint32_t code;
    uint32_t slot_bytes;
  };
  uint64_t tag, message_bytes;
  uint32_t sequence, taken;
};
_Static_assert(sizeof(struct tu_frame) == TU_FRAME_HEAD_BYTES, "no padding");
_Static_assert(sizeof(struct tu_link_head) == TU_FRAME_HEAD_BYTES, "no padding");

/* The body of TU_FRAME_CALL. */
struct tu_call_note {
  uint64_t number, latest; /* number of the call, and number of the sender's last call (0: none) */
  uint64_t words[TU_BOARD_WORDS];
};

/* ---- state ---- */

/* A frame that arrived before this rank had made the communicator. */
struct tu_held {
  struct tu_held *next;
  uint32_t from;
  struct tu_frame frame;
  size_t bytes;
  unsigned char body[];
};

/* What a rank of another host has told about its waits. Times are those of this host's clock. */
struct tu_remote_waits {
  struct tu_remote_waits *next;
  uint32_t rank;
  uint64_t at; /* time of arrival, in ns */
  struct tu_waits notes[TU_WAITS_THREADS];
};

struct tu_remote_comm {
  struct tu_remote_comm *chain;
  uint64_t number;
  struct tu_control *control; /* the communicator on this rank; NULL: not made yet, or closed */
  /* true: this rank has departed. It handles only departures of other ranks, because the shared block of its host may
   * have been freed. */
  bool deaf;
  bool withdrawn; /* true: the communicator has failed on this rank, and no memory of its calls is used any more */
  bool closed;
  struct tu_error lost; /* first error that occurred before this rank had made the communicator */
  /* Ranks of the job. Before this rank has closed: members that have closed. Afterwards: members that may still send
   * frames, because they have a path to this rank and have not closed. */
  uint32_t *others;
  uint32_t other_count;
  struct tu_held *first, *last;
  struct tu_remote_end *ends;
};

/* This process's end of the channels to and from one rank of another host, on one lane. */
struct tu_remote_end {
  struct tu_remote_end *chain; /* next end in the same hash bucket */
  struct tu_remote_end *next;  /* next end of the same communicator */
  struct tu_remote_end *after; /* next end in tu_remote.left, the list of ends with unsent data */
  bool left;                   /* true: the end is in tu_remote.left, the list of ends with unsent data */
  struct tu_remote_comm *comm;
  uint32_t peer; /* the peer's rank in the job */
  uint32_t lane;
  struct tu_sender *sender; /* this rank's sender to the peer; NULL: none */
  uint32_t sent;            /* number of published slices that have been sent, or lent */
  uint32_t last_lent;       /* number of the last slice that was lent; 0: none */
  uint32_t returned;        /* the peer has reported that it has all slices up to this one */
  bool lends_not;           /* true: the peer could not read a slice */
  /* Lines of the copy of the peer's channel; NULL: nothing has arrived. */
  struct tu_line *lines;
  unsigned char *slots;
  uint32_t credits, slot_bytes;
  uint32_t came;                /* number of slices that have arrived; of lent ones, the frame */
  uint32_t published;           /* number of slices that this rank's receiver can see */
  struct tu_lent *lent;         /* [credits]: slices that are lent to this rank; NULL: there were none */
  uint32_t next_slot;           /* slot for the next slice that is not received into a target */
  uint64_t messages;            /* number of messages that have arrived completely */
  struct tu_aim aims[TU_POSTS]; /* targets that the receiver has posted */
  /* message_bytes: size of the message that is partly received; message_left: number of its bytes that are missing */
  uint64_t message_bytes, message_left;
  uint32_t told; /* number of slices that this rank has reported to the peer as taken */
  /* counted_bytes: total bytes of the slices that this rank has taken and counts as not yet reported to the peer.
   * counted: number of the first slice that is not counted yet. */
  uint32_t counted, counted_bytes;
  bool filling;        /* true: the body of a slice is partly received */
  unsigned char *body; /* where: in a slot, in a target, or in a line */
  struct tu_credit_line credit;
};

/* The body of TU_FRAME_LENT: where the payload lies. */
struct tu_lent_note {
  uint64_t address, key, bytes;
};

/* A slice that this rank reads from the sender's memory. */
struct tu_lent {
  struct tu_wire_transfer transfer;
  struct tu_remote *remote;
  struct tu_remote_end *end;
  uint32_t sequence;
  enum {
    TU_LENT_NOT,    /* the payload is in its place */
    TU_LENT_READ,   /* the transfer is open */
    TU_LENT_WANTED, /* a frame will bring the payload */
  } state;
};

/* The body of a frame about memory (remote_memory.h), a link or a lent slice that is partly received from a rank: where it
 * goes. */
struct tu_filling {
  uint64_t link_of;              /* into a message of a link of this communicator; 0: of none */
  struct tu_request_to *request; /* into the answer of this request */
  uint32_t window;               /* into memory of the window of this number; 0: of none */
  void *buffer;                  /* into this buffer, which is freed after the frame */
  struct tu_lent_note note;      /* that of TU_FRAME_LENT */
};

struct tu_remote {
  struct tu_hosts hosts; /* base struct; must be the first field */
  struct tu_wire_reader reader;
  struct tu_transport *transport;
  struct tu_wire *wire;
  pthread_mutex_t lock; /* protects the wire and all fields below */
  struct tu_remote_comm *comms[TU_REMOTE_BUCKETS];
  struct tu_remote_end *buckets[TU_REMOTE_BUCKETS];
  struct tu_remote_end *left; /* list of ends that have something left to send */
  struct tu_remote_waits *waits;
  struct tu_request_to *requests; /* list of this rank's requests without an answer (remote_memory.h) */
  uint64_t requests_made;
  struct tu_letter *letters;             /* remote_letters.c */
  struct tu_exposed *exposed;            /* remote_exposed.c */
  struct tu_filling *filling;            /* [ranks of the job] */
  const struct tu_memory_server *server; /* carries out requests to this rank; NULL: there were no windows yet */
};

/* ---- remote_state.c ---- */

struct tu_remote_comm *tu_remote_find_comm(struct tu_remote *r, uint64_t number);
/* Returns the state of a communicator, created on first use; NULL: out of memory. tu_remote_get_end does the same for
 * this process's end of a channel. */
struct tu_remote_comm *tu_remote_get_comm(struct tu_remote *r, uint64_t number);
struct tu_remote_end *tu_remote_find_end(struct tu_remote *r, const struct tu_remote_comm *s, uint32_t peer,
                                         uint32_t lane);
struct tu_remote_end *tu_remote_get_end(struct tu_remote *r, struct tu_remote_comm *s, uint32_t peer, uint32_t lane);

/* Frees an end of a channel. Its communicator must not list the end any more. */
void tu_remote_free_end(struct tu_remote_end *e);
/* Frees the frames that arrived before the communicator was made. */
void tu_remote_free_held(struct tu_remote_comm *s);
void tu_remote_free_comm(struct tu_remote_comm *s);
/* Records that a member has closed; after it, no frame of it arrives. */
void tu_remote_note_closed(struct tu_remote_comm *s, uint32_t job_rank);
/* Marks the state as closed by this rank. */
void tu_remote_mark_closed(struct tu_remote *r, struct tu_remote_comm *s);
/* Frees the ends of a closed communicator. Also frees its state, once no more frames for it can arrive. */
void tu_remote_sweep(struct tu_remote *r, struct tu_remote_comm *s);
/* Posts a frame to all members on other hosts; how: values of enum tu_order. Returns false if out of memory. */
bool tu_remote_post(struct tu_remote *r, const struct tu_control *c, unsigned how, const struct tu_frame *f,
                    const void *body, size_t bytes);
void tu_remote_post_verdict(struct tu_remote *r, const struct tu_control *c, const struct tu_error *error);
/* Fails the communicator on this rank. If the communicator is not made yet, it fails as soon as it is made. */
void tu_remote_fail(struct tu_remote *r, struct tu_remote_comm *s, const struct tu_error *error);

/* ---- remote_slices.c ---- */

/* Sends the published slices of the communicator's channels, and the credits that are due (all_credits: all credits).
 * Ends of channels that cannot send everything now are added to r->left. Returns true if anything moved. */
bool tu_remote_serve_comm(struct tu_remote *r, const struct tu_remote_comm *s, bool all_credits);
bool tu_remote_serve_left(struct tu_remote *r, bool all_credits);
/* Returns true if one of the ends in r->left has published slices that are not sent. */
bool tu_remote_has_slices_left(const struct tu_remote *r);
/* Sends all published slices and letters, and the credits that are due, before the frames that this rank sends next. What
 * cannot be sent now is copied and sent later, because its memory may be freed. */
void tu_remote_post_rest(struct tu_remote *r, const struct tu_remote_comm *s);
/* Sends no more slices of the communicator, and neither reads nor writes memory of its calls from now on. Slices that are
 * lent must be settled (tu_remote_settle_lent). */
void tu_remote_let_go(struct tu_remote *r, struct tu_remote_comm *s);
/* Called when the head (struct tu_frame) of a slice has arrived. Returns the end of the channel to which the slice
 * belongs, whose field `body` is the buffer for the body. NULL: there is no such end, and the body is skipped. */
struct tu_remote_end *tu_remote_begin_slice(struct tu_remote *r, uint32_t from, const struct tu_frame *f,
                                            size_t body_bytes);
void tu_remote_end_slice(struct tu_remote_end *e, const struct tu_frame *f, size_t bytes);
/* Shows the slices to the receiver that have arrived, up to one that is away. */
void tu_remote_publish(struct tu_remote_end *e);
/* Records which slices the wire has read, or the peer has returned, and wakes the threads that may wait for that. Returns
 * false if the wire reads the payload of the last slice. */
bool tu_remote_note_dispatched(struct tu_remote *r, const struct tu_remote_end *e);
/* Posts a slice once more that was lent. Returns false if out of memory. */
bool tu_remote_send_again(struct tu_remote *r, struct tu_remote_end *e, uint32_t sequence);
/* Records that the peer has taken that many slices. */
void tu_remote_note_taken(struct tu_remote_end *e, uint32_t taken);

/* ---- remote_lent.c ---- */

/* Lends a slice. `slice`: the head of the frame that would bring it. Returns false if it must be sent. */
bool tu_remote_lend(struct tu_remote *r, struct tu_remote_end *e, const struct tu_frame *slice, const void *payload,
                    size_t bytes);
/* Returns true if the peer has not returned all slices that were lent. */
bool tu_remote_is_owed(const struct tu_remote_end *e);
/* e->lent is not NULL. */
static inline struct tu_lent *tu_remote_lent_at(const struct tu_remote_end *e, uint32_t sequence) {
  return &e->lent[(sequence - 1) & (e->credits - 1)];
}
/* Returns true if the payload of a slice that has arrived is not in its place yet. */
bool tu_remote_is_away(const struct tu_remote_end *e, uint32_t sequence);
/* Returns where the payload of a slice goes that this rank has asked for; NULL: it is skipped. */
void *tu_remote_begin_wanted(const struct tu_remote_end *e, uint32_t sequence, size_t bytes);

/* ---- remote_reads.c ---- */

/* Handle frames about lent slices. */
void tu_remote_hear_lent(struct tu_remote *r, uint32_t from, const struct tu_frame *f, const struct tu_lent_note *note);
void tu_remote_hear_returned(struct tu_remote *r, struct tu_remote_end *e, uint32_t sequence);
void tu_remote_hear_wanted(struct tu_remote *r, struct tu_remote_end *e, uint32_t sequence);
/* The payload of a slice that this rank has asked for has arrived. */
void tu_remote_end_wanted(struct tu_remote *r, struct tu_remote_end *e, uint32_t sequence);
/* Ends the reading of slices that are lent to this rank, and makes sure that no rank reads those that it has lent itself.
 * May look at the wire for a while, so it is not called while a frame is handled. */
void tu_remote_settle_lent(struct tu_remote *r, struct tu_remote_comm *s);

/* ---- remote_exposed.c ---- */

/* Returns true if ranks of other hosts can read the memory, by that address and key. Exposes the allocation or registration
 * of the program to which it belongs, if it is not exposed yet. */
bool tu_remote_exposed(struct tu_remote *r, const void *memory, size_t bytes, uint64_t *address, uint64_t *key);
/* Ends that for the allocation or registration that begins there. */
void tu_remote_forget(struct tu_remote *r, const void *base);
/* Ends that for all memory; in_order: as of conceal in wire.h. */
void tu_remote_conceal_all(struct tu_remote *r, bool in_order);

/* ---- remote_letters.c ---- */

/* Sends a frame now, or as soon as it is possible; frames of this function to one rank stay in order. The head is copied.
 * The body must stay unchanged until it is sent, or recalled. owned: freed then, also on failure; may be NULL. Returns
 * false if out of memory. */
bool tu_remote_write(struct tu_remote *r, uint32_t to, const void *head, const void *body, size_t bytes, void *owned);
/* Sends what waits. Returns true if anything was sent. */
bool tu_remote_send_letters(struct tu_remote *r);
/* Returns true if a letter could not be sent yet. */
bool tu_remote_has_letters(const struct tu_remote *r);
/* Drops the letters for which the function returns true, so that their bodies may change. What is sent of them is
 * complete: the wire copies what it has still to read. */
void tu_remote_recall(struct tu_remote *r, bool (*is_one)(const void *head, uint64_t key), uint64_t key);
/* Copies the letters of the communicator that could not be sent yet, and sends them before the frames that are posted
 * next. */
void tu_remote_post_letters(struct tu_remote *r, const struct tu_remote_comm *s);
/* Drops all letters of the communicator. */
void tu_remote_recall_all(struct tu_remote *r, const struct tu_remote_comm *s);
void tu_remote_free_letters(struct tu_remote *r);

/* ---- remote_memory.c ---- */

/* The functions of the wire's reader (wire.h), for frames about memory. The frame of a rank that is lost ends with
 * tu_remote_lose_memory. */
void *tu_remote_begin_memory(struct tu_remote *r, uint32_t from, const void *head, size_t bytes);
void tu_remote_end_memory(struct tu_remote *r, uint32_t from, const void *head, const void *body, size_t bytes);
void tu_remote_lose_memory(struct tu_remote *r, uint32_t from);
void tu_remote_free_fillings(struct tu_remote *r);

/* ---- remote_waits.c ---- */

/* Handles a frame about waits, from rank `from` of the job. */
void tu_remote_hear_waits(struct tu_remote *r, uint32_t from, const struct tu_frame *f, const void *body, size_t bytes);
void tu_remote_free_waits(struct tu_remote *r);

/* ---- remote_control.c ---- */

/* Handles a control frame (a frame without a slice) from rank `from` of the job: stores its content in the shared block
 * of this host, or a departure in c->departed. */
void tu_remote_hear(struct tu_remote *r, struct tu_control *c, uint32_t from, const struct tu_frame *f, void *body,
                    size_t bytes);

#endif
