/* engine.h: carries out a program. One poll moves it as far as it can go and returns: no thread, clock or sleep in here. */
#ifndef TU_ENGINE_H
#define TU_ENGINE_H

#include "engine/copy.h"
#include "engine/kernels.h"
#include "engine/parts.h"
#include "engine/program.h"

/* How a message crosses; see mover/channel.h. */
enum tu_way { TU_WAY_OPEN, TU_WAY_INLINE, TU_WAY_STAGED, TU_WAY_LENT, TU_WAY_STORED, TU_WAYS };

struct tu_progress {
  size_t done;    /* bytes */
  uint64_t place; /* send: of the next slice, if it is staged */
  uint32_t afters_finished;
  uint8_t way; /* send: enum tu_way */
  bool finished;
  bool posted; /* recv: its sender knows the target */
};

struct tu_early; /* a message that came before its receive; see matching.c */

/* A point-to-point message that is to be received; from start to end it is with the matching of its channel. */
struct tu_expected {
  struct tu_expected *next;
  struct tu_early *early;
  uint32_t tag;
  bool posted;
};

/* One run of a program; made once, started often. */
struct tu_execution {
  struct tu_arena arena; /* of what is owned, where nothing else is said */
  const struct tu_program *program;
  struct tu_mover *mover;
  struct tu_arithmetic arithmetic;
  unsigned char *base[3]; /* IN, OUT, TMP */
  unsigned char *tmp;     /* owned, not the arena's */
  unsigned char *scratch; /* owned: scaled first loads */
  unsigned char
      *folded; /* owned, not the arena's: fold_bytes each of a result and of operands that do not lie as they cross */
  size_t fold_bytes;
  size_t slot_bytes;       /* of a staged slice: in whole items, as all slices are */
  const void **sources;    /* owned: of one reduction */
  unsigned char **targets; /* owned: where the next bytes go */
  uint32_t *chosen;        /* owned: sends that go on with an instruction */
  struct tu_progress *progress;
  struct tu_hop *hops; /* owned, not the arena's; of straight.c, for these buffers, once it has been prepared */
  const void *hops_in, *hops_out;
  uint32_t *sequences; /* owned; of each message of a send: its last slice's number */
  uint64_t places[3];  /* of IN, OUT and TMP in memory that all ranks map; 0: nobody else sees it */
  size_t direct_bytes; /* shorter messages are neither lent nor stored */
  enum tu_past past;   /* how the slice in hand is written */
  uint64_t *tickets;   /* [ring_count]: of the program's first message there */
  uint64_t cast_ticket;
  uint64_t tag;
  uint32_t head; /* all instructions before it are finished */
  uint32_t unfinished;
  /* A message that does not fit this call: its ring's peer, and what it said. */
  bool mismatch;
  bool no_memory; /* for a message that came before its receive: it is the mismatch */
  uint32_t mismatch_peer;
  uint64_t mismatch_tag, mismatch_bytes, expected_bytes;
  struct tu_expected *expected;    /* owned; [ring_count] of a point-to-point receive, else NULL */
  struct tu_parts_progress *parts; /* owned; NULL: the call is made as a whole */
};

/* Allocates what the program needs; MEMORY. */
tutti_err tu_execution_init(struct tu_execution *e, const struct tu_program *program, struct tu_mover *mover,
                            struct tu_error *error);
void tu_execution_fini(struct tu_execution *e);

/* Draws the tickets; from here on polls move it. in and out may be NULL where the program touches none. */
void tu_execution_start(struct tu_execution *e, const void *in, void *out, uint64_t tag);

/* Moves on; true if anything moved. Finished when e->unfinished == 0; stuck for good when e->mismatch. */
bool tu_execution_poll(struct tu_execution *e);

/* ---- straight.c: the same for a program of short messages, in less time ---- */
/* May this execution go straight, with these buffers? Then, once it is prepared for them, and while no other one of its
 * communicator is open, it may be started and moved so, again and again. */
bool tu_execution_goes_straight(const struct tu_execution *e, const void *in, const void *out);
bool tu_execution_prepare_straight(struct tu_execution *e, const void *in, void *out); /* false: no memory */
void tu_execution_start_straight(struct tu_execution *e, uint64_t tag);
/* Moves on, instruction by instruction; looks for a message at most `looks` times. True: finished. */
bool tu_execution_poll_straight(struct tu_execution *e, uint32_t looks);
/* From here on polls move it as any other. */
void tu_execution_leave_straight(struct tu_execution *e);

/* Marks the ranks of the mover that this execution waits for. */
void tu_execution_blockers(const struct tu_execution *e, bool *waits_for);

/* ---- sending.c: where the next slice of a send goes, by the way that its message crosses ---- */
#define TU_STREAM_BYTES 2048u /* shorter slices are never written past the caches */
/* Asks for room for a slice of *bytes; false: not now. Adds its targets (one, or one for each receiver) to e->targets
 * at *count. *bytes may become less; it is 0 if the slice is lent and nothing is to be written. */
bool tu_send_room(struct tu_execution *e, uint32_t instruction, size_t *bytes, uint32_t *count);
/* The slice is there: its receivers may have it. */
void tu_send_publish(struct tu_execution *e, uint32_t instruction, size_t bytes);
/* Has everything been taken that was lent? */
bool tu_send_returned(struct tu_execution *e, uint32_t instruction);

/* ---- matching.c: receives of one pair are matched with messages of a channel by tag, in order ---- */

/* What a line says of a point-to-point message: its tag, by which it is matched, and over how many lanes (less one) it
 * goes, each of which carries one part. Both ends must say the same, but matching does not see it: so they find out. */
static inline uint64_t tu_p2p_tag(uint32_t tag, uint32_t lanes) {
  return (uint64_t)(lanes > 1 ? lanes - 1 : 0) << 32 | tag;
}
static inline uint32_t tu_p2p_lanes(uint64_t tag) { return (uint32_t)(tag >> 32) + 1; }

/* Before the first of them: false without memory. */
bool tu_matching_prepare(struct tu_receiver *r);
void tu_matching_post(struct tu_expected *e, uint32_t tag, struct tu_receiver *r);
/* Is its message at the head of the channel, or has it been set aside before? NO_MEMORY: another one is at the head, and there
 * is no memory to set it aside. */
enum tu_match { TU_MATCH_NONE, TU_MATCH_HEAD, TU_MATCH_EARLY, TU_MATCH_NO_MEMORY };
enum tu_match tu_matching_poll(struct tu_mover *mover, struct tu_expected *e, struct tu_receiver *r);
/* The message that was set aside: its bytes, and what its lines said; freed by tu_matching_end. */
const void *tu_matching_early(const struct tu_expected *e, size_t *bytes, uint64_t *tag);
void tu_matching_end(struct tu_expected *e, struct tu_receiver *r);
/* It will not be received any more. */
void tu_matching_cancel(struct tu_expected *e, struct tu_receiver *r);
void tu_matching_destroy(struct tu_matching *m);

#endif
