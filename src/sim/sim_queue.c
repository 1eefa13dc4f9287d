/* sim_queue.c: queues of nodes that are ready, and sets of ranks that must be checked at the end of a moment. */
#include <stdlib.h>

#include "sim/sim_internal.h"

void tu_sim_queue_init(struct tu_sim_queue *queue) { *queue = (struct tu_sim_queue){TU_NONE, TU_NONE, TU_NONE}; }

void tu_sim_queue_put(struct tu_sim_course *course, struct tu_sim_queue *queue, uint32_t node) {
  struct tu_sim_state *states = course->states;
  /* most nodes arrive in ascending order, so first try whether the node belongs behind the tail */
  uint32_t before = queue->tail;
  if (queue->tail != queue->settled && queue->tail > node) {
    before = queue->settled;
    for (;;) {
      uint32_t next = before == TU_NONE ? queue->head : states[before].next;
      if (next > node) break;
      before = next;
    }
  }
  uint32_t *link = before == TU_NONE ? &queue->head : &states[before].next;
  states[node].next = before == queue->tail ? TU_NONE : *link;
  *link = node;
  if (before == queue->tail) queue->tail = node;
}

uint32_t tu_sim_queue_take(struct tu_sim_course *course, struct tu_sim_queue *queue) {
  uint32_t node = queue->head;
  queue->head = course->states[node].next;
  if (queue->head == TU_NONE) queue->tail = queue->settled = TU_NONE;
  return node;
}

void tu_sim_marks_init(struct tu_sim_marks *marks, uint32_t ranks) {
  marks->ranks = tu_allocate(ranks, sizeof *marks->ranks);
  marks->marked = tu_allocate(ranks, sizeof *marks->marked);
}

void tu_sim_marks_fini(struct tu_sim_marks *marks) {
  free(marks->ranks);
  free(marks->marked);
}

static int compare_ranks(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

void tu_sim_marks_list(struct tu_sim_marks *marks) {
  if (marks->count > 1) qsort(marks->ranks, marks->count, sizeof *marks->ranks, compare_ranks);
  for (uint32_t i = 0; i < marks->count; i++) marks->marked[marks->ranks[i]] = false;
}
