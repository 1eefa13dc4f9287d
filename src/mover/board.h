/* board.h: what ranks tell each other beside the data: which call each one is in, and the verdict if one fails.
 *
 * Each rank writes its last calls on lines of its own (one uncontended store a call). A rank whose wait has stalled
 * reads the others' and compares equal numbers: so ranks that never exchange a message are caught too. The verdict is one
 * place, first writer wins. */
#ifndef TU_BOARD_H
#define TU_BOARD_H

#include <stdatomic.h>

#include "base/base.h"

#define TU_BOARD_WORDS 7u /* with the number, a line; what is posted of a call; its meaning is the writer's */
#define TU_BOARD_CALLS 8u

struct tu_board {
  struct {
    _Alignas(TU_LINE_BYTES) _Atomic uint64_t number; /* 0: none, or being written */
    _Atomic uint64_t words[TU_BOARD_WORDS];
  } calls[TU_BOARD_CALLS];
  _Alignas(TU_LINE_BYTES) _Atomic uint64_t latest; /* number of the last call started; the first one is 1 */
  _Atomic uint32_t departed;                       /* the rank has freed the communicator, in order */
  _Atomic uint32_t ended;  /* of a communicator that has failed: the rank touches no memory of others for it any more */
  _Atomic uint32_t here;   /* the rank has made its side */
  _Atomic uint32_t missed; /* of a rank on another host: why it could not make its side of the communicator */
};

struct tu_verdict {
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t state; /* 0 none, 1 being written, 2 there */
  uint32_t code;
  char text[sizeof((struct tu_error *)0)->text];
};

void tu_board_post(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS]);
/* The same if the words are those of call number - TU_BOARD_CALLS, whose place the call takes. */
static inline void tu_board_repeat(struct tu_board *board, uint64_t number) {
  atomic_store_explicit(&board->calls[number % TU_BOARD_CALLS].number, number, memory_order_release);
  atomic_store_explicit(&board->latest, number, memory_order_release);
}
/* Of a rank on another host, as told by itself; several ranks of this host may have heard something, each at its own time. Number
 * 0: no call is told. */
void tu_board_hear(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS], uint64_t latest);
/* The rank's call of that number, if it is still (or already) on its board. */
bool tu_board_read(const struct tu_board *board, uint64_t number, uint64_t words[TU_BOARD_WORDS]);

/* Sets the verdict if there is none yet; else false. */
bool tu_verdict_post(struct tu_verdict *verdict, const struct tu_error *error);
/* Is there one? Copies it. A writer that died half way leaves one without a text. */
bool tu_verdict_read(struct tu_verdict *verdict, struct tu_error *error);

#endif
