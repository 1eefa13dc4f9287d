/* board.h: what ranks publish besides data: each rank's current call, and the communicator's verdict (its first
 * failure).
 *
 * Each rank has a board: cache lines into which only this rank writes its latest calls, with one uncontended store per
 * call. A rank whose wait stalls reads the boards of the other ranks, and compares their calls with its own calls of
 * the same number. So a mismatch is found even between ranks that never exchange a message. There is one verdict; the
 * first rank that writes it wins. */
#ifndef TU_BOARD_H
#define TU_BOARD_H

#include <stdatomic.h>

#include "base/base.h"

/* Number of 64-bit words posted per call. The words and the call's number fill a cache line. The caller defines the
 * meaning of the words. */
#define TU_BOARD_WORDS 7u
#define TU_BOARD_CALLS 8u

/* Values of tu_board.departed. */
enum tu_departure {
  TU_PRESENT,
  TU_DEPARTED, /* the rank may reuse its memory: other ranks have taken all its messages, or will take none of them */
  TU_DEPARTED_EARLY, /* the rank never reuses its memory: its messages stay for the ranks that have not taken them */
};

struct tu_board {
  struct {
    /* Number of the call; 0: the slot is empty, or is being written. */
    _Alignas(TU_LINE_BYTES) _Atomic uint64_t number;
    _Atomic uint64_t words[TU_BOARD_WORDS];
  } calls[TU_BOARD_CALLS];
  /* Number of the last call that was started. The first call has number 1. */
  _Alignas(TU_LINE_BYTES) _Atomic uint64_t latest;
  _Atomic uint32_t departed; /* enum tu_departure; not 0: the rank has freed the communicator or closed it in order */
  /* 1: the communicator has failed, and the rank no longer accesses other ranks' memory for it */
  _Atomic uint32_t ended;
  _Atomic uint32_t here; /* 1: the rank has made its side of the communicator */
  /* For a rank on another host: the reason why it could not make its side of the communicator (enum tutti_err). */
  _Atomic uint32_t missed;
  /* Messages and bytes that the rank has sent and received point to point, and how long it has waited in collectives, in
   * ns. For a rank on another host: 0. */
  _Atomic uint64_t messages, message_bytes, waited_ns;
};

#define TU_VERDICT_BY 2u

struct tu_verdict {
  /* State of the verdict (the communicator's first failure). 0: no verdict, 1: complete, TU_VERDICT_BY + r: being
   * written by rank r. */
  _Alignas(TU_LINE_BYTES) _Atomic uint32_t state;
  uint32_t code;
  char text[sizeof((struct tu_error *)0)->text];
};

void tu_board_post(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS]);
/* Publishes a call that has the same words as the call with number - TU_BOARD_CALLS. That earlier call used the same
 * slot of the board, so only the slot's number changes. */
static inline void tu_board_repeat(struct tu_board *board, uint64_t number) {
  atomic_store_explicit(&board->calls[number % TU_BOARD_CALLS].number, number, memory_order_release);
  atomic_store_explicit(&board->latest, number, memory_order_release);
}
/* Stores on the board a call that a rank on another host has reported about itself. Several ranks of this host may
 * store the same call, at different times. number 0: stores `latest` only. */
void tu_board_hear(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS], uint64_t latest);
/* Copies the rank's call of that number. Returns false if the board does not contain the call (not yet, or not any
 * more). */
bool tu_board_read(const struct tu_board *board, uint64_t number, uint64_t words[TU_BOARD_WORDS]);

/* Sets the communicator's verdict (its first failure); `rank` is the caller. Returns false if a verdict was set
 * before. */
bool tu_verdict_post(struct tu_verdict *verdict, uint32_t rank, const struct tu_error *error);
/* Returns true if the communicator has a verdict (its first failure), and copies it. If the writer of the verdict died
 * while writing, *error is TUTTI_ERR_PEER and names it. */
bool tu_verdict_read(struct tu_verdict *verdict, struct tu_error *error);

#endif
