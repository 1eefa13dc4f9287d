/* relay_parts.h: what relay.c and relay_stream.c share. */
#ifndef TU_RELAY_PARTS_H
#define TU_RELAY_PARTS_H

#include <pthread.h>

#include "mover/mover.h"
#include "mover/reliable.h"

enum tu_relay_kind { TU_RELAY_SLICE = 1, TU_RELAY_TAKEN, TU_RELAY_LINE, TU_RELAY_COUNTS };

struct tu_relay_message {
  uint32_t kind;
  uint32_t lane;  /* SLICE, TAKEN */
  uint32_t taken; /* TAKEN: of the channel that the link's other end sends on; SLICE: what its line says */
  uint32_t bytes; /* SLICE, LINE: of it all */
  uint32_t at;    /* ... where this part of it begins */
  uint32_t part;  /* ... its bytes, which follow */
  union {
    uint64_t tag; /* SLICE */
    uint64_t key; /* LINE, COUNTS: of the stream */
  };
  union {
    uint64_t message_bytes; /* SLICE */
    struct {
      uint32_t slot, last; /* LINE */
    };
    struct {
      uint32_t done, acked; /* COUNTS */
    };
  };
};

/* A channel that this rank sends on. */
struct tu_relay_outgoing {
  const struct tu_sender *_Atomic sender; /* NULL: not open */
  uint32_t carried;                       /* slices */
  uint32_t part_at;                       /* how much of the next one */
};

/* A channel's copy, at its receiver. */
struct tu_relay_incoming {
  struct tu_line *lines; /* NULL: nothing has come yet */
  struct tu_credit_line *credit;
  unsigned char *slots;
  uint64_t place, slots_place;
  uint32_t arrived;
  uint32_t told; /* how many were taken, as the sender knows */
};

struct tu_relay {
  struct tu_mover *mover;
  struct tu_channel_shape shape;
  struct tu_reliable *links;          /* [ranks] */
  uint64_t *since;                    /* [ranks]: when the peer's relay was there; 0: it is not yet */
  struct tu_relay_outgoing *outgoing; /* [ranks * TU_MOVER_LANES] */
  struct tu_relay_incoming *incoming; /* ... */
  _Atomic bool *quiet;                /* [ranks] */
  _Atomic uint32_t asked;             /* 1: somebody wants to know whether all is quiet */
  _Atomic uint32_t answered;          /* 1: a round that began later has found it so */
  unsigned char *packet;              /* that comes off the wire */
  _Atomic uint64_t patience_ns;       /* 0: for ever */
  _Atomic bool stops;
  bool stopped, failed;
  pthread_mutex_t lock; /* of the list */
  struct tu_relay_stream *streams;
  pthread_t thread;
};

/* ---- relay_stream.c; the relay's thread ---- */
void tu_relay_take_line(struct tu_relay *r, uint32_t peer, const struct tu_relay_message *m, const unsigned char *part);
void tu_relay_take_counts(struct tu_relay *r, uint32_t peer, const struct tu_relay_message *m);
/* What has been committed and released on streams with that peer; true if anything was. */
bool tu_relay_carry_streams(struct tu_relay *r, uint32_t peer);

#endif
