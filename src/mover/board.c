/* board.c: the board of a rank (its latest calls) and the communicator's verdict (its first failure), in shared
 * memory. */
#include "mover/board.h"

#include <stdio.h>

static void write_words(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS]) {
  for (uint32_t i = 0; i < TU_BOARD_WORDS; i++)
    atomic_store_explicit(&board->calls[number % TU_BOARD_CALLS].words[i], words[i], memory_order_release);
}

/* Publishes a call of this rank. While its words change, the slot's number is 0. Each word is stored with release
 * order. So a reader that sees a new word and then reads the number again sees that the number has changed. */
void tu_board_post(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS]) {
  _Atomic uint64_t *slot = &board->calls[number % TU_BOARD_CALLS].number;
  atomic_store_explicit(slot, 0, memory_order_relaxed);
  write_words(board, number, words);
  atomic_store_explicit(slot, number, memory_order_release);
  atomic_store_explicit(&board->latest, number, memory_order_release);
}

/* Stores a call of a rank on another host. The slot's number is UINT64_MAX while its words change. A call that is
 * older than the stored one is dropped. */
void tu_board_hear(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS], uint64_t latest) {
  _Atomic uint64_t *slot = &board->calls[number % TU_BOARD_CALLS].number;
  uint64_t before = atomic_load(slot), known = atomic_load(&board->latest);
  if (before < number && atomic_compare_exchange_strong(slot, &before, UINT64_MAX)) {
    write_words(board, number, words);
    atomic_store(slot, number);
  }
  while (known < latest && !atomic_compare_exchange_weak(&board->latest, &known, latest)) {}
}

bool tu_board_read(const struct tu_board *board, uint64_t number, uint64_t words[TU_BOARD_WORDS]) {
  const _Atomic uint64_t *slot = &board->calls[number % TU_BOARD_CALLS].number;
  if (atomic_load_explicit(slot, memory_order_acquire) != number) return false;
  for (uint32_t i = 0; i < TU_BOARD_WORDS; i++)
    words[i] = atomic_load_explicit(&board->calls[number % TU_BOARD_CALLS].words[i], memory_order_acquire);
  return atomic_load_explicit(slot, memory_order_relaxed) == number;
}

bool tu_verdict_post(struct tu_verdict *verdict, uint32_t rank, const struct tu_error *error) {
  uint32_t none = 0;
  if (!atomic_compare_exchange_strong(&verdict->state, &none, TU_VERDICT_BY + rank)) return false;
  verdict->code = (uint32_t)error->code;
  snprintf(verdict->text, sizeof verdict->text, "%s", error->text);
  atomic_store_explicit(&verdict->state, 1, memory_order_release);
  return true;
}

bool tu_verdict_read(struct tu_verdict *verdict, struct tu_error *error) {
  uint32_t state = atomic_load_explicit(&verdict->state, memory_order_acquire);
  if (state == 0) return false;
  uint64_t deadline = 0;
  /* Another rank is writing the verdict. That takes nanoseconds; if it takes longer, that rank has died or is stopped. */
  while (state >= TU_VERDICT_BY) {
    uint64_t now = tu_clock_ns();
    if (deadline == 0) deadline = now + 100000000u;
    if (now > deadline) {
      tu_fail(error, TUTTI_ERR_PEER,
              "the communicator failed, and rank %u died or was stopped while it was writing the reason",
              state - TU_VERDICT_BY);
      return true;
    }
    state = atomic_load_explicit(&verdict->state, memory_order_acquire);
  }
  error->code = (tutti_err)verdict->code;
  snprintf(error->text, sizeof error->text, "%s", verdict->text);
  return true;
}
