/* board.c: calls and verdicts in shared memory. */
#include "mover/board.h"

#include <stdio.h>

/* The number is zero while the words change; each word is released, so that who reads a new word sees the number
 * gone, too. */
void tu_board_post(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS]) {
  _Atomic uint64_t *slot = &board->calls[number % TU_BOARD_CALLS].number;
  atomic_store_explicit(slot, 0, memory_order_relaxed);
  for (uint32_t i = 0; i < TU_BOARD_WORDS; i++)
    atomic_store_explicit(&board->calls[number % TU_BOARD_CALLS].words[i], words[i], memory_order_release);
  atomic_store_explicit(slot, number, memory_order_release);
  atomic_store_explicit(&board->latest, number, memory_order_release);
}

/* The place is taken while its words change: by a number that is none. What is older than what stands there is not told. */
void tu_board_hear(struct tu_board *board, uint64_t number, const uint64_t words[TU_BOARD_WORDS], uint64_t latest) {
  _Atomic uint64_t *slot = &board->calls[number % TU_BOARD_CALLS].number;
  uint64_t before = atomic_load(slot), known = atomic_load(&board->latest);
  if (before < number && atomic_compare_exchange_strong(slot, &before, UINT64_MAX)) {
    for (uint32_t i = 0; i < TU_BOARD_WORDS; i++)
      atomic_store_explicit(&board->calls[number % TU_BOARD_CALLS].words[i], words[i], memory_order_release);
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

bool tu_verdict_post(struct tu_verdict *verdict, const struct tu_error *error) {
  uint32_t none = 0;
  if (!atomic_compare_exchange_strong(&verdict->state, &none, 1)) return false;
  verdict->code = (uint32_t)error->code;
  snprintf(verdict->text, sizeof verdict->text, "%s", error->text);
  atomic_store_explicit(&verdict->state, 2, memory_order_release);
  return true;
}

bool tu_verdict_read(struct tu_verdict *verdict, struct tu_error *error) {
  uint32_t state = atomic_load_explicit(&verdict->state, memory_order_acquire);
  if (state == 0) return false;
  uint64_t deadline = 0;
  while (state == 1) { /* a matter of nanoseconds, unless its writer has died */
    uint64_t now = tu_clock_ns();
    if (deadline == 0) deadline = now + 100000000u;
    if (now > deadline) {
      tu_fail(error, TUTTI_ERR_PEER, "the communicator failed, and the rank that was about to say why died over it");
      return true;
    }
    state = atomic_load_explicit(&verdict->state, memory_order_acquire);
  }
  error->code = (tutti_err)verdict->code;
  snprintf(error->text, sizeof error->text, "%s", verdict->text);
  return true;
}
