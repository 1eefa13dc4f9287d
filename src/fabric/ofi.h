/* ofi.h: definitions that the files of the wire over libfabric share (wire_ofi.h). */
#ifndef TU_OFI_H
#define TU_OFI_H

#include "fabric/fabric.h"
#include "transport/frames.h"

/* The simulated world (tests/world) has shorter rings. */
#ifndef TU_OFI_SLOTS
#define TU_OFI_SLOTS 16              /* in a ring; a power of 2 */
#define TU_OFI_SLOT_BYTES (64 << 10) /* with the head */
#endif

/* ---- what ranks tell each other ---- */

struct tu_ofi_slot {
  uint32_t number; /* of the slot, from 1 */
  uint32_t bytes;  /* of frames, after the head */
  uint32_t taken;  /* number of slots that the sender has taken itself */
  uint32_t reserved;
};
#define TU_OFI_PAYLOAD_BYTES (TU_OFI_SLOT_BYTES - sizeof(struct tu_ofi_slot))

/* The data of a completion: number of a slot that was written, or number of slots that were taken, modulo TU_OFI_NUMBERS; whether
 * it is the second; and the rank that sends it. */
#define TU_OFI_NUMBERS 256u
#define TU_OFI_IS_CREDIT TU_OFI_NUMBERS
#define TU_OFI_RANK_UNIT (2u * TU_OFI_NUMBERS)
_Static_assert(TU_OFI_NUMBERS % TU_OFI_SLOTS == 0 && TU_OFI_NUMBERS >= 4 * TU_OFI_SLOTS,
               "a number tells its slot, and is not taken for an old one");

/* Frames over the sockets. */
enum { TU_OFI_GREETING = 1, TU_OFI_SLOT, TU_OFI_CREDIT, TU_OFI_CLOSED /* the sender uses the fabric no more */ };
struct tu_ofi_frame {
  uint64_t reserved;
  uint8_t kind; /* TU_FRAME_OF_WIRE */
  uint8_t what;
  uint16_t refuses; /* of a greeting, 1: this rank cannot use the fabric */
  uint32_t number;  /* of a slot, or of slots that were taken */
  uint64_t unused[3];
};
_Static_assert(sizeof(struct tu_ofi_frame) == TU_FRAME_HEAD_BYTES, "no padding");
_Static_assert(offsetof(struct tu_ofi_frame, kind) == TU_FRAME_KIND_AT, "where the mover has it");

/* The body of a greeting: where the sender's ring is. */
struct tu_ofi_greeting {
  uint64_t address, key;
  unsigned char name[TU_FABRIC_NAME_BYTES];
};

/* ---- state ---- */

enum tu_ofi_state {
  TU_OFI_APART,   /* the two ranks have not used the wire */
  TU_OFI_GREETED, /* this rank has sent its greeting, and waits for the peer's */
  TU_OFI_OPEN,    /* frames go over the fabric */
  TU_OFI_DIVERTED /* frames go over the sockets */
};

struct tu_ofi;
struct tu_ofi_path;

struct tu_ofi_write {
  struct tu_fabric_op op; /* must be the first member */
  struct tu_ofi_path *path;
  bool open;
};

/* What this rank has with one other rank. */
struct tu_ofi_path {
  struct tu_ofi *ofi;
  struct tu_ofi_path *next_waiting;
  uint32_t rank;
  enum tu_ofi_state state;
  bool waits; /* in ofi.waiting: something could not be sent yet */
  bool gone;
  uint64_t refused_ns; /* time since when the fabric refuses posts for this path; 0: it does not */
  tu_fi_addr peer;
  struct tu_ofi_greeting there; /* the peer's */
  /* Slots that this rank writes: filled, given to the fabric, and taken by the peer. */
  unsigned char *outgoing;
  struct tu_fabric_region outgoing_region;
  uint32_t written, begun, credited;
  struct tu_ofi_write writes[TU_OFI_SLOTS], credit;
  struct tu_frames_out out;
  /* Slots that the peer writes. arrived: bit i is slot i of the ring. told: slots of which the peer knows. */
  unsigned char *incoming;
  struct tu_fabric_region incoming_region;
  uint32_t taken, told, arrived;
  bool diverted; /* the peer's slots come over the sockets */
  struct tu_frames_in in;
  bool hears; /* a frame of this wire is partly received over the sockets */
};

struct tu_ofi {
  struct tu_wire wire;
  struct tu_wire_reader reader; /* of the sockets */
  struct tu_wire *sockets;
  struct tu_fabric *fabric;          /* NULL: it was given up */
  struct tu_ofi_transfer *transfers; /* list of transfers that are not done */
  uint32_t rank, ranks;
  struct tu_ofi_path *waiting; /* list of paths with something that could not be sent */
  uint32_t lost;               /* number of paths that have ended */
  uint32_t seen_losses;        /* of the sockets */
  uint64_t sockets_ns;         /* time of the last look at the sockets */
  bool sockets_busy;           /* that look has found something */
  int timer;
  bool is_set;                /* the timer is set */
  bool refused;               /* the fabric has refused an operation for lack of room */
  bool cut;                   /* for tests */
  struct tu_ofi_path **paths; /* [ranks]; NULL: the rank does not speak the fabric */
};

/* A transfer that is not done, in the `state` of its struct tu_wire_transfer. */
struct tu_ofi_transfer {
  struct tu_fabric_op op; /* must be the first member */
  struct tu_wire_transfer *transfer;
  struct tu_ofi_path *path;
  struct tu_ofi_transfer *next;
  enum { TU_OFI_WAITS, TU_OFI_BEGUN, TU_OFI_CARRIED_OUT, TU_OFI_FAILED } step;
};
_Static_assert(sizeof(struct tu_ofi_transfer) <= TU_TRANSFER_BYTES, "its place");

static inline struct tu_ofi *tu_ofi_of(struct tu_wire *w) { return (struct tu_ofi *)(void *)w; }

/* ---- ofi_path.c ---- */

struct tu_ofi_path *tu_ofi_make_path(struct tu_ofi *o, uint32_t rank); /* NULL: out of memory */
void tu_ofi_free_path(struct tu_ofi_path *p);
/* Sends this rank's greeting, unless it is sent. */
void tu_ofi_greet(struct tu_ofi_path *p);
/* Sends the frames of the path, as far as possible. Returns true if no frame is left. */
bool tu_ofi_drain(struct tu_ofi_path *p);
/* Tells the peer how many of its slots were taken, if that is due. */
void tu_ofi_send_credit(struct tu_ofi_path *p);
/* The next looks try again to send what the path has. */
void tu_ofi_try_later(struct tu_ofi_path *p);
/* From now on, frames to this rank go over the sockets: first the slots that it may not have, and the frames that wait. The
 * ring stays as it is, because the fabric may still write from it. */
void tu_ofi_divert(struct tu_ofi_path *p);
/* The peer is gone. */
void tu_ofi_end_path(struct tu_ofi_path *p);
/* Records whether the fabric has accepted an operation for this path. */
void tu_ofi_note_post(struct tu_ofi_path *p, bool accepted);
/* Returns true if frames wait for the fabric, or for a credit. */
bool tu_ofi_has_frames(const struct tu_ofi_path *p);
/* A frame of this wire has come over the sockets. */
void tu_ofi_hear(struct tu_ofi_path *p, const struct tu_ofi_frame *f, const void *body, size_t bytes);
/* Sends a frame of this wire over the sockets. Returns false if out of memory. */
bool tu_ofi_tell(struct tu_ofi_path *p, struct tu_ofi_frame f, const void *body, size_t bytes);
/* A write of another endpoint has completed; arrived_late hears only credits. context: struct tu_ofi. */
void tu_ofi_arrived(void *context, uint32_t data);
void tu_ofi_arrived_late(void *context, uint32_t data);

/* ---- ofi_transfer.c: as in wire.h ---- */

bool tu_ofi_expose(struct tu_wire *w, void *base, size_t bytes, bool writable, struct tu_wire_memory *memory);
void tu_ofi_conceal(struct tu_wire *w, struct tu_wire_memory *memory, bool in_order);
bool tu_ofi_transfer(struct tu_wire *w, uint32_t rank, struct tu_wire_transfer *transfer);
void tu_ofi_recall(struct tu_wire *w, struct tu_wire_transfer *transfer);
/* Begins transfers that wait, and ends those that are done. Called in look. */
void tu_ofi_serve_transfers(struct tu_ofi *o);
/* Closes the fabric. All frames go over the sockets, and no operation uses memory of this process any more. */
void tu_ofi_give_up(struct tu_ofi *o);

#endif
