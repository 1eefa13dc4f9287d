/* mutation_test.c: changes every step of every plan in every way of a list, one change at a time. The checker must
 * refuse each changed plan, or the change must be harmless: then a simple interpreter runs the plan many times in
 * random order, and every run must give the result of the collective. The unchanged plans must be proved, and pass the
 * same runs. TEST_LONG: up to 8 ranks instead of 5, and more runs. */
/* test: fast timeout=300 */
#include "algo/algo.h"
#include "check/check.h"
#include "plan/plan_text.h"
#include "plan_interpreter.h"
#include "test.h"

/* The steps of one rank, each with its own lists, so that they are easy to change. */
enum { STEPS_MAX = 160, LIST_MAX = 96 };

struct edit_step {
  struct tu_step s;
  uint32_t peers[VM_RANKS + 1];
  struct tu_operand operands[VM_RANKS + 1];
  uint32_t afters[LIST_MAX];
};

struct edit {
  uint32_t ranks, rank, count;
  struct edit_step steps[STEPS_MAX];
};

static void edit_open(struct edit *e, const struct tu_plan *plan, uint32_t rank) {
  const struct tu_rank_plan *r = &plan->rank[rank];
  e->ranks = plan->ranks;
  e->rank = rank;
  e->count = r->step_count;
  tu_assert(e->count < STEPS_MAX);
  for (uint32_t i = 0; i < e->count; i++) {
    struct edit_step *t = &e->steps[i];
    *t = (struct edit_step){.s = r->steps[i]};
    tu_assert(t->s.peer_count <= VM_RANKS && t->s.operand_count <= VM_RANKS && t->s.after_count < LIST_MAX);
    for (uint32_t k = 0; k < t->s.peer_count; k++) t->peers[k] = r->peers[t->s.peer_first + k];
    for (uint32_t k = 0; k < t->s.operand_count; k++) t->operands[k] = r->operands[t->s.operand_first + k];
    for (uint32_t k = 0; k < t->s.after_count; k++) t->afters[k] = r->afters[t->s.after_first + k];
  }
}

/* Writes the edited rank to `r`, whose arrays have room for it. */
static void edit_close(const struct edit *e, struct tu_rank_plan *r) {
  r->step_count = e->count;
  r->peer_count = r->operand_count = r->after_count = 0;
  for (uint32_t i = 0; i < e->count; i++) {
    const struct edit_step *t = &e->steps[i];
    struct tu_step *s = &r->steps[i];
    *s = t->s;
    s->peer_first = r->peer_count;
    s->operand_first = r->operand_count;
    s->after_first = r->after_count;
    for (uint32_t k = 0; k < s->peer_count; k++) r->peers[r->peer_count++] = t->peers[k];
    for (uint32_t k = 0; k < s->operand_count; k++) r->operands[r->operand_count++] = t->operands[k];
    for (uint32_t k = 0; k < s->after_count; k++) r->afters[r->after_count++] = t->afters[k];
  }
}

static void drop_after(struct edit_step *t, uint32_t index) {
  t->s.after_count--;
  for (uint32_t k = index; k < t->s.after_count; k++) t->afters[k] = t->afters[k + 1];
}

/* ---- changes of step `at`; each function knows variants 0, 1, ... and returns false for a variant beyond its last
 * ---- */

static bool damage_delete(struct edit *e, uint32_t at, uint32_t variant) {
  if (variant > 0) return false;
  e->count--;
  for (uint32_t i = at; i < e->count; i++) e->steps[i] = e->steps[i + 1];
  for (uint32_t i = at; i < e->count; i++) {
    struct edit_step *t = &e->steps[i];
    for (uint32_t k = t->s.after_count; k-- > 0;) {
      if (t->afters[k] == at) drop_after(t, k);
      else if (t->afters[k] > at) t->afters[k]--;
    }
  }
  return true;
}

/* Variant 0: no step waits for the copy; variant 1: all steps that wait for the original wait for the copy, too. */
static bool damage_duplicate(struct edit *e, uint32_t at, uint32_t variant) {
  if (variant > 1) return false;
  for (uint32_t i = e->count++; i > at; i--) e->steps[i] = e->steps[i - 1];
  for (uint32_t i = at + 2; i < e->count; i++) {
    struct edit_step *t = &e->steps[i];
    uint32_t afters = t->s.after_count;
    for (uint32_t k = 0; k < afters; k++) {
      if (t->afters[k] == at && variant == 1 && t->s.after_count < LIST_MAX) t->afters[t->s.after_count++] = at + 1;
      else if (t->afters[k] > at) t->afters[k]++;
    }
  }
  return true;
}

/* Changes the step into each other kind; what that kind needs is taken from the step. */
static bool damage_kind(struct edit *e, uint32_t at, uint32_t variant) {
  if (variant >= 4) return false;
  struct edit_step *t = &e->steps[at];
  struct tu_step *s = &t->s;
  bool combined = s->kind == TU_RECV_REDUCE || s->kind == TU_REDUCE;
  uint32_t peer = s->peer_count ? t->peers[0] : (e->rank + 1) % e->ranks;
  struct tu_span local = s->kind == TU_SEND ? s->source : s->target;
  bool first = s->first;
  for (uint32_t i = 0; combined && i < s->operand_count; i++) {
    if (t->operands[i].peer != TU_LOCAL) peer = t->operands[i].peer;
    else local = t->operands[i].span, first = t->operands[i].first;
  }
  if (s->kind == TU_COPY) local = s->source;
  if (s->kind == TU_SEND) s->target = local;
  s->kind = (uint8_t)((s->kind + 1 + variant) % 5);
  s->source = local;
  bool combines = s->kind == TU_RECV_REDUCE || s->kind == TU_REDUCE;
  s->first = first && !combines && s->kind != TU_RECV;
  if (combines && !combined) {
    s->operand_count = 2;
    t->operands[0] = (struct tu_operand){TU_LOCAL, local, first, false};
    t->operands[1] = (struct tu_operand){peer, {0}, false, false};
  }
  for (uint32_t i = 0; s->kind == TU_REDUCE && i < s->operand_count; i++)
    if (t->operands[i].peer != TU_LOCAL) t->operands[i] = (struct tu_operand){TU_LOCAL, s->target, false, false};
  if (!combines) s->operand_count = 0;
  if (s->kind == TU_SEND && s->peer_count > 0) return true;
  s->peer_count = s->kind == TU_SEND || s->kind == TU_RECV;
  t->peers[0] = peer;
  return true;
}

/* Changes each peer, by one up or down. */
static bool damage_peer(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  uint32_t index = variant / 2, by = variant % 2 ? e->ranks - 1 : 1;
  if (index < t->s.peer_count) {
    t->peers[index] = (t->peers[index] + by) % e->ranks;
    return true;
  }
  index -= t->s.peer_count;
  if (index >= t->s.operand_count) return false;
  uint32_t *peer = &t->operands[index].peer;
  *peer = *peer == TU_LOCAL ? (e->rank + by) % e->ranks : (*peer + by) % e->ranks;
  return true;
}

static bool damage_peer_list(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  if (t->s.kind != TU_SEND || variant > t->s.peer_count) return false;
  if (variant == t->s.peer_count) {
    t->peers[t->s.peer_count++] = (t->peers[0] + 1) % e->ranks;
    return true;
  }
  t->s.peer_count--;
  for (uint32_t k = variant; k < t->s.peer_count; k++) t->peers[k] = t->peers[k + 1];
  return true;
}

/* Returns the index-th span that the step uses, or NULL beyond the last. */
static struct tu_span *span_of(struct edit_step *t, uint32_t index) {
  if (t->s.kind == TU_SEND || t->s.kind == TU_COPY)
    if (index-- == 0) return &t->s.source;
  if (t->s.kind != TU_SEND)
    if (index-- == 0) return &t->s.target;
  for (uint32_t i = 0; i < t->s.operand_count; i++)
    if (t->operands[i].peer == TU_LOCAL && index-- == 0) return &t->operands[i].span;
  return NULL;
}

static bool damage_span(struct edit *e, uint32_t at, uint32_t variant) {
  struct tu_span *span = span_of(&e->steps[at], variant / 6);
  if (!span) return false;
  switch (variant % 6) {
    case 0: span->buffer = (span->buffer + 1) % 3; break;
    case 1: span->buffer = (span->buffer + 2) % 3; break;
    case 2: span->first++; break;
    case 3: span->first--; break;
    case 4: span->count++; break;
    default: span->count--; break;
  }
  return true;
}

/* Exchanges two spans of the step. */
static bool damage_swap_spans(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  struct tu_span *a = span_of(t, 0), *b = span_of(t, variant + 1);
  if (!b) return false;
  struct tu_span spare = *a;
  *a = *b;
  *b = spare;
  return true;
}

static bool damage_after(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  if (variant >= t->s.after_count) return false;
  drop_after(t, variant);
  return true;
}

static bool damage_drop_operand(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  if (variant >= t->s.operand_count) return false;
  t->s.operand_count--;
  for (uint32_t k = variant; k < t->s.operand_count; k++) t->operands[k] = t->operands[k + 1];
  return true;
}

static bool damage_swap_operands(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  if (variant + 1 >= t->s.operand_count) return false;
  struct tu_operand spare = t->operands[variant];
  t->operands[variant] = t->operands[variant + 1];
  t->operands[variant + 1] = spare;
  return true;
}

static bool damage_first(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  if (variant > t->s.operand_count) return false;
  bool *first = variant == 0 ? &t->s.first : &t->operands[variant - 1].first;
  *first = !*first;
  return true;
}

static bool damage_final(struct edit *e, uint32_t at, uint32_t variant) {
  e->steps[at].s.final = !e->steps[at].s.final;
  return variant == 0;
}

static bool damage_joined(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  if (variant > t->s.operand_count) return false;
  bool *joined = variant == 0 ? &t->s.joined : &t->operands[variant - 1].joined;
  *joined = !*joined;
  return true;
}

static bool damage_lane(struct edit *e, uint32_t at, uint32_t variant) {
  e->steps[at].s.lane = (uint8_t)((e->steps[at].s.lane + 1) % TU_LANES_MAX);
  return variant == 0;
}

/* Exchanges the step and the next one. Steps that wait for one of them still do, if it still comes before. */
static bool damage_swap_steps(struct edit *e, uint32_t at, uint32_t variant) {
  if (variant > 0 || at + 1 >= e->count) return false;
  struct edit_step spare = e->steps[at];
  e->steps[at] = e->steps[at + 1];
  e->steps[at + 1] = spare;
  for (uint32_t k = e->steps[at].s.after_count; k-- > 0;)
    if (e->steps[at].afters[k] == at) drop_after(&e->steps[at], k);
  for (uint32_t i = at + 2; i < e->count; i++) {
    for (uint32_t k = 0; k < e->steps[i].s.after_count; k++) {
      uint32_t *after = &e->steps[i].afters[k];
      if (*after == at || *after == at + 1) *after = at + at + 1 - *after;
    }
  }
  return true;
}

/* Another shape: the operands combine from left to right, or as a tree. */
static bool damage_tree(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  if (variant > 0) return false;
  t->s.tree = !t->s.tree;
  return true;
}

/* Another split: other operands are combined first. */
static bool damage_rotate_operands(struct edit *e, uint32_t at, uint32_t variant) {
  struct edit_step *t = &e->steps[at];
  if (variant + 1 >= t->s.operand_count) return false;
  for (uint32_t turn = 0; turn <= variant; turn++) {
    const struct tu_operand first = t->operands[0];
    for (uint32_t k = 0; k + 1 < t->s.operand_count; k++) t->operands[k] = t->operands[k + 1];
    t->operands[t->s.operand_count - 1] = first;
  }
  return true;
}

static const struct damage {
  const char *name;
  bool (*apply)(struct edit *e, uint32_t at, uint32_t variant);
} damages[] = {
    {"step deleted", damage_delete},
    {"step duplicated", damage_duplicate},
    {"kind changed", damage_kind},
    {"peer changed", damage_peer},
    {"peer list changed", damage_peer_list},
    {"span changed", damage_span},
    {"spans swapped", damage_swap_spans},
    {"after dropped", damage_after},
    {"operand dropped", damage_drop_operand},
    {"operands swapped", damage_swap_operands},
    {"first flipped", damage_first},
    {"final flipped", damage_final},
    {"tree flipped", damage_tree},
    {"operands rotated", damage_rotate_operands},
    {"joined flipped", damage_joined},
    {"lane changed", damage_lane},
    {"steps swapped", damage_swap_steps},
};
enum { DAMAGES = sizeof damages / sizeof damages[0] };

/* ---- changes of both ends of a message; applied twice, each change undoes itself ---- */

struct message {
  uint32_t from, to;
  uint8_t lane;
  struct tu_step *send, *recv;
  bool *send_joined, *recv_joined;
};

enum { MESSAGES_MAX = 4096 };
struct messages {
  uint32_t count;
  struct message list[MESSAGES_MAX];
};

static void add_end(struct messages *all, struct message end) {
  for (uint32_t i = 0; !end.send && i < all->count; i++) {
    struct message *m = &all->list[i];
    if (m->recv || m->from != end.from || m->to != end.to || m->lane != end.lane) continue;
    m->recv = end.recv;
    m->recv_joined = end.recv_joined;
    return;
  }
  tu_assert(end.send && all->count < MESSAGES_MAX);
  all->list[all->count++] = end;
}

/* Lists all messages, in the order of the senders' steps. */
static void list_messages(const struct tu_plan *plan, struct messages *all) {
  all->count = 0;
  for (int sends = 1; sends >= 0; sends--) {
    for (uint32_t rank = 0; rank < plan->ranks; rank++) {
      const struct tu_rank_plan *r = &plan->rank[rank];
      for (uint32_t i = 0; i < r->step_count; i++) {
        struct tu_step *s = &r->steps[i];
        struct message end = {.lane = s->lane, .from = rank, .to = rank};
        if (sends) end.send = s, end.send_joined = &s->joined;
        else end.recv = s, end.recv_joined = &s->joined;
        uint32_t *peer = sends ? &end.to : &end.from;
        for (uint32_t k = 0; s->kind == (sends ? TU_SEND : TU_RECV) && k < s->peer_count; k++) {
          *peer = r->peers[s->peer_first + k];
          add_end(all, end);
        }
        for (uint32_t k = 0; !sends && s->kind == TU_RECV_REDUCE && k < s->operand_count; k++) {
          struct tu_operand *o = &r->operands[s->operand_first + k];
          end.from = o->peer;
          end.recv_joined = &o->joined;
          if (o->peer != TU_LOCAL) add_end(all, end);
        }
      }
    }
  }
}

static void flip_joined(const struct message *m) {
  *m->send_joined = !*m->send_joined;
  *m->recv_joined = !*m->recv_joined;
}

static bool one_ring(const struct message *a, const struct message *b) {
  return a->from == b->from && a->to == b->to && a->lane == b->lane;
}

/* Adds or removes the join of a message at both ends. */
static bool pair_joined(struct message *a, struct message *b) {
  if (a != b) return false;
  flip_joined(a);
  return true;
}

static bool pair_move_joined(struct message *a, struct message *b) {
  if (a == b || !one_ring(a, b) || *a->send_joined == *b->send_joined) return false;
  flip_joined(a);
  flip_joined(b);
  return true;
}

static void swap_steps(struct tu_step *a, struct tu_step *b, bool *a_joined, bool *b_joined) {
  struct tu_step spare = *a;
  *a = *b;
  *b = spare;
  bool joined = *a_joined; /* the join marks stay where they are */
  *a_joined = *b_joined;
  *b_joined = joined;
}

/* Exchanges the contents of two messages at the sender. */
static bool pair_swap_sends(struct message *a, struct message *b) {
  if (a >= b || !one_ring(a, b) || a->send->peer_count != 1 || b->send->peer_count != 1) return false;
  swap_steps(a->send, b->send, a->send_joined, b->send_joined);
  return true;
}

static bool pair_swap_recvs(struct message *a, struct message *b) {
  if (a >= b || !one_ring(a, b) || a->recv->kind != b->recv->kind) return false;
  if (a->recv->operand_count != b->recv->operand_count) return false;
  swap_steps(a->recv, b->recv, a->recv_joined, b->recv_joined);
  return true;
}

static bool pair_swap(struct message *a, struct message *b) { return pair_swap_recvs(a, b) && pair_swap_sends(a, b); }

static const struct pair_damage {
  const char *name;
  bool (*apply)(struct message *a, struct message *b);
} pair_damages[] = {
    {"joined, both ends", pair_joined},    {"joined moved", pair_move_joined}, {"sends swapped", pair_swap_sends},
    {"receives swapped", pair_swap_recvs}, {"messages swapped", pair_swap},
};
enum { PAIR_DAMAGES = sizeof pair_damages / sizeof pair_damages[0], ALL_DAMAGES = DAMAGES + PAIR_DAMAGES };

static const char *damage_name(uint32_t d) { return d < DAMAGES ? damages[d].name : pair_damages[d - DAMAGES].name; }

/* ---- the test --------------------------------------------------------------------------------------------------- */

struct tally {
  uint64_t mutants[ALL_DAMAGES], harmless[ALL_DAMAGES];
  uint64_t seed;
};

static void print_plan(const struct tu_plan *plan) {
  struct tu_text text = {0};
  tu_plan_write(plan, &text);
  printf("%s", text.chars);
  tu_text_fini(&text);
}

/* Runs the plan several times, with rings of one slot and of four in turn. */
static const char *play(const struct tu_plan *plan, uint32_t games, uint64_t *seed) {
  for (uint32_t i = 0; i < games; i++) {
    const char *fault = vm_play(plan, i % 2 ? 4 : 1, seed);
    if (fault) return fault;
  }
  return NULL;
}

/* Copies a rank's steps into arrays with room for any edit. */
static struct tu_rank_plan room_for(const struct tu_rank_plan *r) {
  uint32_t steps = r->step_count + 1;
  struct tu_rank_plan copy = *r;
  copy.steps = tu_allocate(steps, sizeof *copy.steps);
  copy.peers = tu_allocate((size_t)steps * (VM_RANKS + 1), sizeof *copy.peers);
  copy.operands = tu_allocate((size_t)steps * (VM_RANKS + 1), sizeof *copy.operands);
  copy.afters = tu_allocate((size_t)steps * LIST_MAX, sizeof *copy.afters);
  return copy;
}

/* Checks a changed plan, which must be refused or harmless. Returns what went wrong, or NULL. */
static const char *judge(const struct tu_plan *mutant, uint32_t damage, struct tally *t) {
  struct tu_check_report report;
  t->mutants[damage]++;
  if (!tu_check(mutant, 1, &report)) {
    CHECK(strlen(report.text) > 10, "a plan was refused without a message");
    return NULL;
  }
  t->harmless[damage]++;
  return play(mutant, test_long() ? 64 : 16, &t->seed);
}

/* Tries all changes of both ends on every pair of messages of a ring. */
static void damage_messages(struct tu_plan *plan, struct tally *t) {
  static struct messages all;
  list_messages(plan, &all);
  for (uint32_t i = 0; i < all.count * all.count; i++) {
    struct message *a = &all.list[i / all.count], *b = &all.list[i % all.count];
    for (uint32_t d = 0; one_ring(a, b) && d < PAIR_DAMAGES; d++) {
      if (!pair_damages[d].apply(a, b)) continue;
      const char *fault = judge(plan, DAMAGES + d, t);
      if (fault) {
        FAIL("messages %u and %u, from %u to %u: %s: proved, but fails: %s", i / all.count, i % all.count, a->from,
             a->to, pair_damages[d].name, fault);
        print_plan(plan);
      }
      pair_damages[d].apply(a, b);
    }
  }
}

static void damage_rank(const struct tu_plan *plan, uint32_t rank, struct tally *t) {
  static struct edit whole, edit;
  edit_open(&whole, plan, rank);
  struct tu_plan mutant = *plan;
  mutant.rank = tu_allocate(plan->ranks, sizeof *mutant.rank);
  for (uint32_t r = 0; r < plan->ranks; r++) mutant.rank[r] = plan->rank[r];
  mutant.rank[rank] = room_for(&plan->rank[rank]);
  for (uint32_t at = 0; at < whole.count; at++) {
    for (uint32_t d = 0; d < DAMAGES; d++) {
      for (uint32_t variant = 0;; variant++) {
        edit.ranks = whole.ranks, edit.rank = whole.rank, edit.count = whole.count;
        memcpy(edit.steps, whole.steps, whole.count * sizeof edit.steps[0]);
        if (!damages[d].apply(&edit, at, variant)) break;
        edit_close(&edit, &mutant.rank[rank]);
        const char *fault = judge(&mutant, d, t);
        if (!fault) continue;
        FAIL("rank %u, step %u: %s (%u): proved, but fails: %s", rank, at, damages[d].name, variant, fault);
        print_plan(&mutant);
      }
    }
  }
  free(mutant.rank[rank].steps);
  free(mutant.rank[rank].peers);
  free(mutant.rank[rank].operands);
  free(mutant.rank[rank].afters);
  free(mutant.rank);
}

static void damage_plan(const struct tu_algorithm *a, uint32_t ranks, uint32_t root, bool in_place, bool canonical,
                        struct tally *t) {
  /* Plans that aggregate slices do so in place. */
  struct tu_plan *plan = tu_plan_build(&(struct tu_build){.algorithm = a,
                                                          .ranks = ranks,
                                                          .root = root,
                                                          .in_place = in_place,
                                                          .rank = TU_ALL_RANKS,
                                                          .slot_pieces = in_place ? 4 : 1,
                                                          .canonical = canonical});
  struct tu_check_report report;
  int failures = test_failures;
  CHECK(tu_check(plan, 1, &report), "not proved: %s", report.text);
  const char *fault = play(plan, test_long() ? 256 : 32, &t->seed);
  CHECK(!fault, "the unchanged plan fails: %s", fault);
  for (uint32_t r = 0; r < ranks; r++) damage_rank(plan, r, t);
  damage_messages(plan, t);
  if (test_failures > failures)
    printf("  ^ %s.%s, %u ranks, root %u%s%s\n", tu_collectives[a->collective].name, a->name, ranks, root,
           in_place ? ", in place" : "", canonical ? ", canonical" : "");
  tu_plan_destroy(plan);
}

static void test_damage(void) {
  struct tally t = {.seed = test_seed()};
  uint32_t ranks_max = test_long() ? 8 : 5;
  const struct tu_algorithm *a;
  for (size_t i = 0; (a = tu_algorithm_at(i)) != NULL; i++) {
    bool rooted = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND;
    /* For composite algorithms one number of ranks is enough, as their parts are tested by themselves. */
    bool composite = i >= tu_algorithm_count;
    for (uint32_t ranks = composite ? 4 : 1; ranks <= (composite ? 4 : ranks_max); ranks++) {
      if (!tu_algorithm_fits(a, ranks)) continue;
      for (uint32_t root = 0; root < (rooted ? ranks : 1); root++) {
        damage_plan(a, ranks, root, false, false, &t);
        damage_plan(a, ranks, root, true, false, &t);
        if (!tu_algorithm_is_canonical(a, ranks, NULL)) continue;
        damage_plan(a, ranks, root, false, true, &t);
        damage_plan(a, ranks, root, true, true, &t);
      }
    }
  }
  uint64_t mutants = 0, harmless = 0;
  for (uint32_t d = 0; d < ALL_DAMAGES; d++) {
    printf("  %-18s %8llu mutants %8llu refused %6llu harmless\n", damage_name(d), (unsigned long long)t.mutants[d],
           (unsigned long long)(t.mutants[d] - t.harmless[d]), (unsigned long long)t.harmless[d]);
    mutants += t.mutants[d];
    harmless += t.harmless[d];
  }
  printf("  %-18s %8llu mutants %8llu refused %6llu harmless\n", "in all", (unsigned long long)mutants,
         (unsigned long long)(mutants - harmless), (unsigned long long)harmless);
  /* Guards against a mistake in this test, by which changes would not be applied. */
  for (uint32_t d = 0; d < ALL_DAMAGES; d++) CHECK(t.mutants[d] > 100, "%s: applied 100 times at most", damage_name(d));
  CHECK(mutants > 10000, "only %llu mutants", (unsigned long long)mutants);
  CHECK(harmless < mutants / 5, "%llu of %llu mutants are harmless", (unsigned long long)harmless,
        (unsigned long long)mutants);
}

/* The interpreter must find what the checker finds: a plan that hangs only if some joined messages cross together and
 * others do not. */
static void test_mixed_joins(void) {
  static const char text[] =
      "tutti-plan 1\ncollective alltoall\nalgorithm mixed\nranks 2\nroot 0\nsplit 6\nin_place no\nequal_blocks yes\n"
      "rank_order no\nrank 0\n0: copy in[0:6] into out[0:6]\n1: send in[6] to 1\n"
      "2: recv from 1 into out[10:12] lane 1\n3: recv from 1 into out[6:8] after 2\n"
      "4: recv from 1 joined into out[8:10]\n5: send in[7] to 1 joined after 4\n6: send in[8:12] to 1 after 5\n"
      "rank 1\n0: copy in[6:12] into out[6:12]\n1: send in[0:2] to 0\n2: send in[2:4] to 0 joined\n"
      "3: recv from 0 into out[0]\n4: send in[4:6] to 0 lane 1 after 3\n5: recv from 0 joined into out[1]\n"
      "6: recv from 0 into out[2:6]\n";
  uint64_t seed = test_seed();
  struct tu_plan *plan;
  struct tu_error error;
  struct tu_check_report report;
  tu_assert(tu_plan_read(text, sizeof text - 1, "mixed", &plan, &error) == TUTTI_OK);
  CHECK(!tu_check(plan, 1, &report), "proved");
  uint32_t stuck = 0;
  for (uint32_t i = 0; i < 1000; i++) stuck += vm_play(plan, 1 + i % 4, &seed) != NULL;
  CHECK(stuck > 20 && stuck < 500, "the plan hung in %u of 1000 runs, expected 21 to 499", stuck);
  tu_plan_destroy(plan);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"damage", test_damage}, {"mixed_joins", test_mixed_joins}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
