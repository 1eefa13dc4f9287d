/* check_play.c: plays all ranks with bounded rings, and follows the values as it goes. A message is put when its send
 * has started, the ring's earlier messages are put, and there is room; a step that receives starts when all of its
 * messages are put and the rings' earlier ones taken, and takes them then. Every event is counted once. Joined messages
 * are played as if they were not: check_length.c sees to what more they wait for when they cross as one.
 *
 * One play speaks for all: steps that touch one cell are ordered (check_order.c), so each step reads the same whenever
 * it runs, and no event is ever taken back, so what can move in one order can move in every other. */
#include "check/check_parts.h"

struct play {
  struct tu_checking *c;
  uint32_t *follower_first, *followers; /* of each step: who has it in `after` */
  uint32_t started, queued;             /* c->order is also the queue of the steps that may start */
};

static struct tu_check_message *on_ring(const struct tu_checking *c, uint32_t message, uint32_t distance) {
  if (distance >= c->message_count - message) return NULL;
  struct tu_check_message *m = &c->messages[message], *other = m + distance;
  return other->place == m->place + distance ? other : NULL; /* else that is another ring's */
}

static void list_followers(struct play *p) {
  struct tu_checking *c = p->c;
  uint32_t steps = tu_check_steps(c);
  size_t afters = 0;
  p->follower_first = tu_arena_allocate(c->arena, (size_t)steps + 2, sizeof *p->follower_first);
  uint32_t *fill = p->follower_first + 1; /* one place on, so that filling leaves it right */
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t s = 0; s < steps; s++) {
      const struct tu_step *step = tu_check_step_at(c, s);
      uint32_t base = c->ranks[c->steps[s].rank].step_base;
      const uint32_t *after = tu_check_rank_of(c, s)->afters;
      for (uint32_t i = 0; i < step->after_count; i++) {
        uint32_t before = base + after[step->after_first + i];
        if (pass == 0) fill[before + 1]++;
        else p->followers[fill[before]++] = s;
      }
      afters += pass == 0 ? step->after_count : 0;
    }
    if (pass == 1) return;
    tu_assert(afters < UINT32_MAX);
    for (uint32_t s = 1; s <= steps; s++) fill[s] += fill[s - 1];
    p->followers = tu_arena_allocate(c->arena, afters, sizeof *p->followers);
  }
}

/* One of the events that the step waits for has happened. */
static void less_pending(struct play *p, uint32_t step) {
  if (--p->c->steps[step].pending == 0) p->c->order[p->queued++] = step;
}

static void finish(struct play *p, uint32_t step) {
  p->c->steps[step].done = true;
  for (uint32_t i = p->follower_first[step]; i < p->follower_first[step + 1]; i++) less_pending(p, p->followers[i]);
}

/* One of the events that the message waits for has happened. Putting it may let the next one follow. */
static void less_need(struct play *p, struct tu_check_message *m) {
  struct tu_checking *c = p->c;
  while (m && --m->need == 0) {
    less_pending(p, m->recv);
    if (--c->steps[m->send].unsent == 0) finish(p, m->send);
    m = on_ring(c, (uint32_t)(m - c->messages), 1);
  }
}

static void take(struct play *p, uint32_t message) {
  struct tu_check_message *next = on_ring(p->c, message, 1);
  if (next) less_pending(p, next->recv);
  less_need(p, on_ring(p->c, message, p->c->credits));
}

static void set_up(struct play *p) {
  struct tu_checking *c = p->c;
  for (uint32_t i = 0; i < c->message_count; i++) {
    struct tu_check_message *m = &c->messages[i];
    m->need = 1u + (m->place > 0) + (m->place >= c->credits);
    c->steps[m->send].unsent++;
    c->steps[m->recv].pending += 1u + (m->place > 0);
  }
  uint32_t steps = tu_check_steps(c);
  for (uint32_t s = 0; s < steps; s++) {
    c->steps[s].pending += tu_check_step_at(c, s)->after_count;
    if (c->steps[s].pending == 0) c->order[p->queued++] = s;
  }
}

/* What a step that cannot end waits for; all of its `after` are done. */
static bool refuse_stuck(struct tu_checking *c, uint32_t step) {
  const struct tu_check_step *s = &c->steps[step];
  bool sends = tu_check_step_at(c, step)->kind == TU_SEND;
  for (uint32_t i = 0; i < s->message_count; i++) {
    const struct tu_check_message *m = &c->messages[c->step_messages[s->message_first + i]];
    if (m->need > 0 && !sends)
      return tu_check_refuse_step(c, step, "deadlock: it waits for a message that rank %u has not sent in its %s",
                                  c->steps[m->send].rank, tu_check_name(c, m->send).chars);
    if (m->need > 0)
      return tu_check_refuse_step(c, step,
                                  "deadlock: it waits for room in the ring to rank %u, which has not got to %s",
                                  c->steps[m->recv].rank, tu_check_name(c, m->recv).chars);
    if (!sends && m->place > 0 && !c->steps[(m - 1)->recv].done)
      return tu_check_refuse_step(c, step, "deadlock: it waits for %s to take the message before its own",
                                  tu_check_name(c, (m - 1)->recv).chars);
  }
  return tu_check_refuse_step(c, step, "deadlock: it never starts");
}

/* The first step of a rank that is not done has all of its `after` behind it. */
static bool refuse_deadlock(struct tu_checking *c) {
  uint32_t step = 0;
  while (c->steps[step].done) step++;
  return refuse_stuck(c, step);
}

/* Barrier: does every rank's end come after every rank's start? 64 ranks' starts are followed at a time. */
static bool check_barrier(struct tu_checking *c) {
  uint32_t ranks = c->plan->ranks, steps = tu_check_steps(c);
  uint64_t *knows = tu_arena_allocate(c->arena, steps, sizeof *knows),
           *end = tu_arena_allocate(c->arena, ranks, sizeof *end);
  bool good = true;
  for (uint32_t low = 0; good && low < ranks; low += 64) {
    for (uint32_t r = 0; r < ranks; r++) end[r] = r - low < 64 ? 1ull << (r - low) : 0;
    for (uint32_t i = 0; i < steps; i++) {
      uint32_t s = c->order[i], rank = c->steps[s].rank;
      const struct tu_step *step = tu_check_step_at(c, s);
      uint64_t known = rank - low < 64 ? 1ull << (rank - low) : 0;
      for (uint32_t k = 0; k < step->after_count; k++)
        known |= knows[c->ranks[rank].step_base + tu_check_rank_of(c, s)->afters[step->after_first + k]];
      for (uint32_t k = 0; step->kind != TU_SEND && k < c->steps[s].message_count; k++)
        known |= knows[c->messages[c->step_messages[c->steps[s].message_first + k]].send];
      knows[s] = known;
      end[rank] |= known;
    }
    uint64_t all = ranks - low >= 64 ? UINT64_MAX : (1ull << (ranks - low)) - 1;
    for (uint32_t r = 0; good && r < ranks; r++)
      if (end[r] != all)
        good = tu_check_refuse(c, "rank %u can leave the barrier before rank %u has come to it", r,
                               low + (uint32_t)__builtin_ctzll(~end[r]));
  }
  tu_arena_free(c->arena, knows);
  tu_arena_free(c->arena, end);
  return good;
}

bool tu_check_play(struct tu_checking *c) {
  struct play p = {.c = c};
  uint32_t steps = tu_check_steps(c);
  c->order = tu_arena_allocate(c->arena, steps, sizeof *c->order);
  tu_values_create(c);
  list_followers(&p);
  set_up(&p);
  bool good = true;
  for (; good && p.started < p.queued; p.started++) {
    uint32_t s = c->order[p.started];
    const struct tu_check_step *step = &c->steps[s];
    const uint32_t *messages = c->step_messages + step->message_first;
    if (tu_check_step_at(c, s)->kind == TU_SEND) {
      tu_values_send(c, s);
      for (uint32_t i = 0; i < step->message_count; i++) less_need(&p, &c->messages[messages[i]]);
      continue;
    }
    good = tu_values_apply(c, s);
    for (uint32_t i = 0; good && i < step->message_count; i++) take(&p, messages[i]);
    if (good) finish(&p, s);
  }
  tu_arena_free(c->arena, p.follower_first);
  tu_arena_free(c->arena, p.followers);
  if (!good) return false;
  for (uint32_t s = 0; s < steps; s++)
    if (!c->steps[s].done) return refuse_deadlock(c);
  return tu_collectives[c->plan->collective].promise != TU_NOTHING || check_barrier(c);
}
