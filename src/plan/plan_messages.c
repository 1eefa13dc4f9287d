/* plan_messages.c: lists the messages of a plan, in time linear in the number of steps. */
#include "plan/plan_messages.h"

#include <stdlib.h>

struct list {
  struct tu_plan_message *items;
  size_t count;
};

static size_t most_messages(const struct tu_plan *plan) {
  size_t most = 0;
  for (uint32_t i = 0; i < plan->rank_count; i++)
    for (uint32_t s = 0; s < plan->rank[i].step_count; s++)
      if (plan->rank[i].steps[s].kind == TU_SEND) most += plan->rank[i].steps[s].peer_count;
  return most;
}

/* Adds the messages of a send to the list. last[peer * TU_LANES_MAX + lane] refers to the rank's last message to the
 * peer on the lane: it is 1 plus the index of the message in the list. If there is no such message, it is 0. */
static void add_send(struct list *list, const struct tu_rank_plan *p, const struct tu_step *s, uint32_t rank,
                     size_t *last) {
  for (uint32_t k = 0; k < s->peer_count; k++) {
    uint32_t to = p->peers[s->peer_first + k];
    size_t *ring = &last[(size_t)to * TU_LANES_MAX + s->lane];
    if (s->joined) {
      tu_assert(*ring > 0);
      list->items[*ring - 1].chunks += s->source.count;
      continue;
    }
    list->items[list->count++] = (struct tu_plan_message){rank, to, s->lane, s->source.count};
    *ring = list->count;
  }
}

struct tu_plan_message *tu_plan_messages(const struct tu_plan *plan, size_t *count) {
  struct list list = {.items = tu_allocate(most_messages(plan) + 1, sizeof *list.items)};
  size_t *last = tu_allocate((size_t)plan->ranks * TU_LANES_MAX, sizeof *last);
  for (uint32_t i = 0; i < plan->rank_count; i++) {
    const struct tu_rank_plan *p = &plan->rank[i];
    for (uint32_t s = 0; s < p->step_count; s++)
      if (p->steps[s].kind == TU_SEND) add_send(&list, p, &p->steps[s], plan->rank_first + i, last);
    for (uint32_t k = 0; k < p->peer_count; k++)
      for (uint32_t lane = 0; lane < TU_LANES_MAX; lane++) last[(size_t)p->peers[k] * TU_LANES_MAX + lane] = 0;
  }
  free(last);
  *count = list.count;
  return list.items;
}
