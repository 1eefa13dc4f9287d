/* control_block.c: reads and writes the block of memory that the ranks of a communicator share on this host. Here: the
 * verdict (first failure), and data of rank 0. Both may come from a rank of this host or of another host. */
#include <string.h>

#include "mover/control.h"

void tu_control_wake_all(const struct tu_control *c) {
  for (uint32_t i = 0; i < c->ranks; i++)
    if (tu_control_local(c, i) != TU_REMOTE) tu_bell_wake(c->transport, tu_control_local(c, i));
}

bool tu_control_verdict(const struct tu_control *c, struct tu_error *error) {
  return tu_control_failed(c) && tu_verdict_read(&c->block->verdict, error);
}

tutti_err tu_control_keep_words(struct tu_control *c, const void *words, size_t bytes, struct tu_error *error) {
  struct tu_block *block = c->block;
  if (bytes > 0) {
    void *to = tu_transport_acquire(c->transport, bytes, &block->words_offset, error);
    if (!to) return error->code;
    memcpy(to, words, bytes);
    block->words_bytes = bytes;
  }
  atomic_store_explicit(&block->told, 1, memory_order_release);
  tu_control_wake_all(c);
  return TUTTI_OK;
}

tutti_err tu_control_hear_words(struct tu_control *c, const void *words, size_t bytes, struct tu_error *error) {
  if (c->rank != c->leader || atomic_load(&c->block->told)) return TUTTI_OK;
  return tu_control_keep_words(c, words, bytes, error);
}
