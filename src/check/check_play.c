/* check_play.c: simulates all ranks with bounded channels, and follows the values of all chunks.
 *
 * A message is put into its channel when three things have happened: its send has started, all earlier messages of the
 * channel are put, and a slot is free. A step that receives starts when all of its messages are put into their
 * channels, and all earlier messages of these channels are received. It then receives its messages. Joined messages are
 * simulated like separate ones; check_length.c checks the additional waits of joined messages that cross as one.
 *
 * One simulation covers all timings. Steps that touch one cell are ordered (check_order.c), so each step reads the same
 * values at whatever time it runs. No event is ever undone, so a step that can proceed in one order of events can
 * proceed in every other. */
#include "check/check_internal.h"

struct play {
  struct tu_checking *c;
  /* follower_first[step]: where the step's followers begin in `followers`. The followers of a step are the steps that
   * name it in their `after`. */
  uint32_t *follower_first, *followers;
  /* number of steps started, and number of steps put into the queue; the array c->order is the queue */
  uint32_t started, queued;
};

/* Returns the message that is `distance` positions later in the same channel, or NULL if there is none. */
static struct tu_check_message *on_ring(const struct tu_checking *c, uint32_t message, uint32_t distance) {
  if (distance >= c->message_count - message) return NULL;
  struct tu_check_message *m = &c->messages[message], *other = m + distance;
  /* if the position in the channel is not that of m plus the distance, the message is in another channel */
  return other->ordinal == m->ordinal + distance ? other : NULL;
}

static void list_followers(struct play *p) {
  struct tu_checking *c = p->c;
  uint32_t steps = tu_check_steps(c);
  size_t afters = 0;
  p->follower_first = tu_arena_allocate(c->arena, (size_t)steps + 2, sizeof *p->follower_first);
  /* In the last pass, fill[s] is the index where the next follower of step s is stored. After this pass, it is the
   * index where the list of step s + 1 begins. follower_first is one element before `fill`, so follower_first[s] is
   * then the index where the list of step s begins. */
  uint32_t *fill = p->follower_first + 1;
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

/* Counts one of the events that the step was waiting for. After the last such event, the step is queued to start. */
static void less_pending(struct play *p, uint32_t step) {
  if (--p->c->steps[step].pending == 0) p->c->order[p->queued++] = step;
}

static void finish(struct play *p, uint32_t step) {
  p->c->steps[step].done = true;
  for (uint32_t i = p->follower_first[step]; i < p->follower_first[step + 1]; i++) less_pending(p, p->followers[i]);
}

/* Counts one of the events that the message was waiting for. After the last such event, the message is put into its
 * channel, and the next message may follow. */
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
    m->need = 1u + (m->ordinal > 0) + (m->ordinal >= c->credits);
    c->steps[m->send].unsent++;
    c->steps[m->recv].pending += 1u + (m->ordinal > 0);
  }
  uint32_t steps = tu_check_steps(c);
  for (uint32_t s = 0; s < steps; s++) {
    c->steps[s].pending += tu_check_step_at(c, s)->after_count;
    if (c->steps[s].pending == 0) c->order[p->queued++] = s;
  }
}

/* Refuses the plan because a step never starts or never ends although all steps in its `after` are done. The message
 * says what the step waits for. */
static bool refuse_stuck(struct tu_checking *c, uint32_t step) {
  const struct tu_check_step *s = &c->steps[step];
  bool sends = tu_check_step_at(c, step)->kind == TU_SEND;
  for (uint32_t i = 0; i < s->message_count; i++) {
    const struct tu_check_message *m = &c->messages[c->step_messages[s->message_first + i]];
    if (m->need > 0 && !sends)
      return tu_check_refuse_step(c, step,
                                  "deadlock: the step waits for a message from rank %u, but rank %u never reaches %s",
                                  c->steps[m->send].rank, c->steps[m->send].rank, tu_check_name(c, m->send).chars);
    if (m->need > 0)
      return tu_check_refuse_step(
          c, step, "deadlock: the step waits for a free slot in the channel to rank %u, but rank %u never reaches %s",
          c->steps[m->recv].rank, c->steps[m->recv].rank, tu_check_name(c, m->recv).chars);
    if (!sends && m->ordinal > 0 && !c->steps[(m - 1)->recv].done)
      return tu_check_refuse_step(c, step,
                                  "deadlock: the step waits for %s to receive the previous message of the channel",
                                  tu_check_name(c, (m - 1)->recv).chars);
  }
  return tu_check_refuse_step(c, step, "deadlock: the step never starts");
}

/* Reports the deadlock at the first step that is not done. All steps in its `after` are done, because they have lower
 * numbers in the same rank. */
static bool refuse_deadlock(struct tu_checking *c) {
  uint32_t step = 0;
  while (c->steps[step].done) step++;
  return refuse_stuck(c, step);
}

/* Checks that no rank can end a barrier before every rank has started it. Each pass checks this for the starts of 64
 * ranks. */
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
        good = tu_check_refuse(c, "rank %u can leave the barrier before rank %u has entered it", r,
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
