/* sim_test.c: compares simulated times, messages and bytes with the closed forms of the literature;
 * compares the time of one rank with that of all ranks, if one can stand for all; and checks small plans
 * whose times were computed by hand. */
#include "sim/sim.h"

#include <math.h>
#include <sys/resource.h>

#include "algo/algo.h"
#include "base/text.h"
#include "check/check.h"
#include "test.h"

static struct tu_sim_report simulate(const struct tu_build *what, double bytes, const struct tu_sim_cost *cost) {
  struct tu_sim *sim = tu_sim_build(what);
  struct tu_sim_report report;
  tu_sim_run(sim, bytes, cost, &report);
  tu_sim_destroy(sim);
  return report;
}

/* ---- closed forms of time, messages and bytes ---- */

struct given {
  double n;       /* number of ranks */
  double rounds;  /* ceil(log2 n) */
  double part;    /* (n - 1) / n */
  double largest; /* ranks in the largest subtree of a binomial tree */
};

/* The simulated time must be messages * alpha + size * (sent * beta + reduced * gamma). */
struct form {
  double messages, sent, reduced;
  double messages_all; /* number of messages of all ranks */
  double sent_max;     /* bytes sent by the rank that sends the most, as a multiple of the collective's size */
};

/* One rank exchanges a message with each of the others, one after the other. `each`: size of a message, as a fraction
 * of the collective's size. */
static struct form one_by_one(struct given g, double each, bool reduces) {
  return (struct form){g.n - 1, (g.n - 1) * each, reduces ? (g.n - 1) * each : 0, g.n - 1, 0};
}
static struct form tree_reduce(struct given g) { return (struct form){g.rounds, g.rounds, g.rounds, g.n - 1, 1}; }
static struct form tree_broadcast(struct given g) { return (struct form){g.rounds, g.rounds, 0, g.n - 1, g.rounds}; }
static struct form tree_scatter(struct given g) { return (struct form){g.rounds, g.part, 0, g.n - 1, g.part}; }
static struct form tree_gather(struct given g) { return (struct form){g.rounds, g.part, 0, g.n - 1, g.largest / g.n}; }
static struct form direct_reduce(struct given g) {
  struct form f = one_by_one(g, 1, true);
  f.sent_max = 1;
  return f;
}
static struct form direct_broadcast(struct given g) {
  struct form f = one_by_one(g, 1, false);
  f.sent_max = g.n - 1;
  return f;
}
static struct form direct_gather(struct given g) {
  struct form f = one_by_one(g, 1 / g.n, false);
  f.sent_max = 1 / g.n;
  return f;
}
static struct form direct_scatter(struct given g) {
  struct form f = one_by_one(g, 1 / g.n, false);
  f.sent_max = g.part;
  return f;
}
static struct form then(struct form a, struct form b) {
  return (struct form){a.messages + b.messages, a.sent + b.sent, a.reduced + b.reduced, a.messages_all + b.messages_all,
                       a.sent_max + b.sent_max};
}

/* Algorithms in which all ranks work alike: N - 1 rounds of one block, or log2 N rounds in which the number of blocks
 * doubles (or halves). */
static struct form bucket(struct given g) { return (struct form){g.n - 1, g.part, 0, g.n * (g.n - 1), g.part}; }
static struct form bucket_reduce(struct given g) {
  return (struct form){g.n - 1, g.part, g.part, g.n * (g.n - 1), g.part};
}
static struct form doubling(struct given g) { return (struct form){g.rounds, g.part, 0, g.n * g.rounds, g.part}; }
static struct form halving(struct given g) { return (struct form){g.rounds, g.part, g.part, g.n * g.rounds, g.part}; }
static struct form exchange(struct given g) {
  return (struct form){g.rounds, g.rounds, g.rounds, g.n * g.rounds, g.rounds};
}
static struct form ring(struct given g) { return then(bucket_reduce(g), bucket(g)); }
static struct form halving_doubling(struct given g) { return then(halving(g), doubling(g)); }
static struct form scatter_bucket(struct given g) { return then(tree_scatter(g), bucket(g)); }
static struct form tree_reduce_broadcast(struct given g) {
  struct form f = then(tree_reduce(g), tree_broadcast(g));
  /* that is what the root sends; another rank also sends to its parent, but broadcasts to fewer ranks */
  f.sent_max = g.rounds;
  return f;
}
static struct form tree_gather_broadcast(struct given g) {
  struct form f = then(tree_gather(g), tree_broadcast(g));
  f.sent_max = g.rounds;
  return f;
}
/* With one port per rank, the two directions of a bidirectional algorithm take turns: it takes as long as one
 * direction, but has twice as many messages. */
static struct form twice_as_many(struct form f) {
  f.messages *= 2;
  f.messages_all *= 2;
  return f;
}
static struct form halves(struct given g) { return twice_as_many(bucket(g)); }
static struct form halves_reduce(struct given g) { return twice_as_many(bucket_reduce(g)); }
static struct form halves_ring(struct given g) { return twice_as_many(ring(g)); }

static struct form neighbours(struct given g) { return (struct form){g.n / 2, g.part, 0, g.n * g.n / 2, g.part}; }
/* Allgather on a line: a rank that is not at an end sends its own block in both directions, and passes on each other
 * block once. */
static struct form line(struct given g) {
  return (struct form){g.n - 1, g.part, 0, g.n * (g.n - 1), g.n > 2 ? (g.n + 1) / g.n : g.part};
}
static struct form halving_gather(struct given g) { return then(halving(g), tree_gather(g)); }
/* A chain of ranks through which the data passes in 8 pieces. */
static struct form pipeline(struct given g) { return (struct form){g.n + 6, (g.n + 6) / 8, 0, 8 * (g.n - 1), 1}; }
/* Alltoall round a ring: in round k, a rank passes on N - k of the N blocks. */
static struct form ring_alltoall(struct given g) {
  return (struct form){g.n - 1, (g.n - 1) / 2, 0, g.n * (g.n - 1), (g.n - 1) / 2};
}
static struct form all_to_one_and_back(struct given g) {
  return (struct form){2 * (g.n - 1), 2 * (g.n - 1), 0, 2 * (g.n - 1), g.n - 1};
}
/* Bruck's alltoall: in every round, a rank sends half of the blocks. */
static struct form bruck_alltoall(struct given g) {
  return (struct form){g.rounds, g.rounds / 2, 0, g.n * g.rounds, g.rounds / 2};
}
/* All ranks send to rank 0 first, then to rank 1, and so on. The rank that rank 0 receives from last still has N - 2
 * messages to send then. */
static struct form same_order(struct given g, double each) {
  return (struct form){2 * g.n - 3, (2 * g.n - 3) * each, (g.n - 1) * each, g.n * (g.n - 1), (g.n - 1) * each};
}
static struct form same_order_blocks(struct given g) { return same_order(g, 1 / g.n); }
static struct form same_order_vectors(struct given g) { return same_order(g, 1); }

static struct form barrier_rounds(struct given g) { return (struct form){g.rounds, 0, 0, g.n * g.rounds, 0}; }
static struct form barrier_all(struct given g) { return (struct form){g.n - 1, 0, 0, g.n * (g.n - 1), 0}; }
static struct form barrier_tree(struct given g) { return (struct form){2 * g.rounds, 0, 0, 2 * (g.n - 1), 0}; }

static struct form chain_scan(struct given g) { return (struct form){g.n - 1, g.n - 1, g.n - 1, g.n - 1, 1}; }
static struct form chain_exscan(struct given g) { return (struct form){g.n - 1, g.n - 1, g.n - 2, g.n - 1, 1}; }
static struct form direct_scan(struct given g) {
  return (struct form){g.n - 1, g.n - 1, g.n - 1, g.n * (g.n - 1) / 2, g.n - 1};
}
static struct form direct_exscan(struct given g) {
  return (struct form){g.n - 1, g.n - 1, g.n - 2, g.n * (g.n - 1) / 2, g.n - 1};
}
static struct form doubling_scan(struct given g) {
  return (struct form){g.rounds, g.rounds, g.rounds, g.n * g.rounds - (pow(2, g.rounds) - 1), g.rounds};
}
static struct form doubling_exscan(struct given g) {
  double rounds = log2(g.n - 1);
  return (struct form){1 + rounds, 1 + rounds, rounds, (g.n - 1) * (1 + rounds) - (g.n - 2), 1 + rounds};
}
static struct form pair(struct given g) { return (struct form){1, 1, 0, g.n - 1, 1}; }

/* Conditions under which the formula of a row gives the simulated time. On the one-port network, reductions overlap
 * with the next message; the formulas of trees over incomplete subtrees do not take this into account. The formulas of
 * messages and bytes hold without these conditions, except with COUNTS_TOO. */
enum {
  POWER = 1,       /* the number of ranks N is a power of two */
  POWER_PLUS = 2,  /* the number of ranks minus 1 is a power of two */
  GAMMA_POWER = 4, /* reductions take no time (gamma = 0), or N is a power of two */
  NO_GAMMA = 8,    /* reductions take no time (gamma = 0) */
  COUNTS_TOO = 16, /* the formulas of messages and bytes, too, hold only under these conditions */
  NEVER = 32       /* the time never agrees: the formula is that of a network with a port for each direction */
};

static const struct {
  const char *name;
  struct form (*form)(struct given g);
  int when;
} forms[] = {
    {"reduce.binomial", tree_reduce, GAMMA_POWER},
    {"reduce.rs_gather", halving_gather, POWER | COUNTS_TOO},
    {"reduce.direct", direct_reduce, 0},
    {"broadcast.binomial", tree_broadcast, 0},
    {"broadcast.direct", direct_broadcast, 0},
    {"broadcast.scatter_allgather", scatter_bucket, 0},
    {"broadcast.chain", pipeline, 0},
    {"scatter.naive", direct_scatter, 0},
    {"scatter.direct", direct_scatter, 0},
    {"scatter.binomial", tree_scatter, 0},
    {"gather.naive", direct_gather, 0},
    {"gather.direct", direct_gather, 0},
    {"gather.binomial", tree_gather, 0},
    {"allgather.bucket", bucket, 0},
    {"allgather.direct", bucket, 0},
    {"allgather.recursive_doubling", doubling, POWER | COUNTS_TOO},
    {"allgather.bruck", doubling, 0},
    {"allgather.gather_broadcast", tree_gather_broadcast, 0},
    {"allgather.bidirectional_full", bucket, 0},
    {"allgather.bidirectional_split", halves, 0},
    {"allgather.line", line, NEVER},
    {"allgather.neighbor_exchange", neighbours, 0},
    {"reduce_scatter.bucket", bucket_reduce, 0},
    {"reduce_scatter.line", bucket_reduce, NEVER},
    {"reduce_scatter.bidirectional", halves_reduce, NO_GAMMA},
    {"reduce_scatter.pairwise", bucket_reduce, NO_GAMMA},
    {"reduce_scatter.direct", same_order_blocks, 0},
    {"reduce_scatter.recursive_halving", halving, POWER | COUNTS_TOO},
    {"allreduce.ring", ring, 0},
    {"allreduce.rabenseifner", halving_doubling, POWER | COUNTS_TOO},
    {"allreduce.swing", halving_doubling, POWER | COUNTS_TOO},
    {"allreduce.bine", halving_doubling, POWER | COUNTS_TOO},
    {"allreduce.bidirectional_ring", halves_ring, NO_GAMMA},
    {"allreduce.recursive_doubling", exchange, POWER | COUNTS_TOO},
    {"allreduce.reduce_broadcast", tree_reduce_broadcast, GAMMA_POWER},
    {"allreduce.direct", same_order_vectors, 0},
    {"alltoall.direct", bucket, 0},
    {"alltoall.pairwise", bucket, 0},
    {"alltoall.bruck", bruck_alltoall, POWER | COUNTS_TOO},
    {"alltoall.ring", ring_alltoall, 0},
    {"alltoall.gather_scatter", all_to_one_and_back, 0},
    {"barrier.dissemination", barrier_rounds, 0},
    {"barrier.direct", barrier_all, 0},
    {"barrier.tree", barrier_tree, 0},
    {"scan.chain", chain_scan, 0},
    {"scan.direct", direct_scan, 0},
    {"scan.recursive_doubling", doubling_scan, POWER},
    {"exscan.chain", chain_exscan, 0},
    {"exscan.direct", direct_exscan, 0},
    {"exscan.recursive_doubling", doubling_exscan, POWER_PLUS | COUNTS_TOO},
    {"send.direct", pair, 0},
};

static const struct tu_algorithm *find(const char *name) {
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    char full[128];
    snprintf(full, sizeof full, "%s.%s", tu_collectives[a->collective].name, a->name);
    if (strcmp(full, name) == 0) return a;
  }
  return NULL;
}

static bool holds(int when, uint32_t ranks, double gamma) {
  if (when & NEVER) return false;
  bool power = tu_pow2_floor(ranks) == ranks;
  if (when & POWER && !power) return false;
  if (when & POWER_PLUS && tu_pow2_floor(ranks - 1) != ranks - 1) return false;
  if (when & GAMMA_POWER && !power && gamma > 0) return false;
  return !(when & NO_GAMMA) || gamma <= 0;
}

static const struct tu_sim_cost costs[] = {
    {1e-6, 8e-11, 5e-11}, {1e-6, 8e-11, 0}, {3e-5, 1e-9, 7e-9}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1},
};
enum { COSTS = sizeof costs / sizeof costs[0] };

static void compare_form(size_t row, const struct tu_algorithm *a, uint32_t ranks, uint32_t root) {
  const double bytes = 1000003; /* not a multiple of any number of ranks in this test */
  uint32_t rounds = tu_log2_ceil(ranks);
  double half = (double)(1u << (rounds - 1)), rest = ranks - half;
  struct given g = {ranks, rounds, (ranks - 1.0) / ranks, fmax(half / 2, rest)};
  struct form f = forms[row].form(g);
  char name[64];
  snprintf(name, sizeof name, "%s, root %u", forms[row].name, root);
  struct tu_sim *sim =
      tu_sim_build(&(struct tu_build){.algorithm = a, .ranks = ranks, .root = root, .rank = TU_ALL_RANKS});
  for (size_t i = 0; i < COSTS; i++) {
    const struct tu_sim_cost *c = &costs[i];
    struct tu_sim_report r;
    tu_sim_run(sim, bytes, c, &r);
    bool time_holds = holds(forms[row].when, ranks, c->gamma);
    if (time_holds || !(forms[row].when & COUNTS_TOO)) {
      CHECK(test_near((double)r.messages, f.messages_all), "%s, %u ranks: %llu messages, expected %g", name, ranks,
            (unsigned long long)r.messages, f.messages_all);
      CHECK(test_near(r.bytes_sent_max, f.sent_max * bytes), "%s, %u ranks: one sends %.12g bytes, expected %.12g",
            name, ranks, r.bytes_sent_max, f.sent_max * bytes);
    }
    if (!time_holds) continue;
    double time = f.messages * c->alpha + bytes * (f.sent * c->beta + f.reduced * c->gamma);
    CHECK(test_near(r.time_s, time), "%s, %u ranks, cost %zu: %.12g s, expected %.12g", name, ranks, i, r.time_s, time);
    /* Messages or bytes that cost nothing may or may not be on the critical path, so they are not compared. */
    if (c->alpha <= 0 || c->beta <= 0) continue;
    CHECK(test_near((double)r.critical_messages, f.messages), "%s, %u ranks: a chain of %llu messages, expected %g",
          name, ranks, (unsigned long long)r.critical_messages, f.messages);
    CHECK(test_near(r.critical_bytes, f.sent * bytes), "%s, %u ranks: %.12g bytes on the chain, expected %.12g", name,
          ranks, r.critical_bytes, f.sent * bytes);
    CHECK(c->gamma <= 0 || test_near(r.critical_reduced_bytes, f.reduced * bytes),
          "%s, %u ranks: %.12g bytes reduced on the chain, expected %.12g", name, ranks, r.critical_reduced_bytes,
          f.reduced * bytes);
  }
  tu_sim_destroy(sim);
}

static void test_closed_forms(void) {
  for (size_t row = 0; row < sizeof forms / sizeof forms[0]; row++) {
    const struct tu_algorithm *a = find(forms[row].name);
    if (!a) {
      FAIL("there is no %s", forms[row].name);
      continue;
    }
    for (uint32_t ranks = 2; ranks <= 33; ranks++)
      if (tu_algorithm_fits(a, ranks)) compare_form(row, a, ranks, 0);
  }
}

/* The result must not depend on the root: blocks that wrap past rank N - 1 cause no extra message. */
static void test_every_root(void) {
  for (size_t row = 0; row < sizeof forms / sizeof forms[0]; row++) {
    const struct tu_algorithm *a = find(forms[row].name);
    if (!a || !tu_collectives[a->collective].rooted || a->collective == TUTTI_SEND) continue;
    for (uint32_t ranks = 2; ranks <= 40; ranks++)
      for (uint32_t root = 1; root < ranks && tu_algorithm_fits(a, ranks); root++) compare_form(row, a, ranks, root);
  }
}

/* ---- properties of all algorithms ---- */

/* Compares the counts of a plan's simulation with those of tu_check. Returns the number of messages that tu_check
 * counts. */
static uint64_t compare_all(const struct tu_algorithm *a, uint32_t ranks, uint32_t root, bool in_place) {
  struct tu_plan *plan = tu_plan_build(
      &(struct tu_build){.algorithm = a, .ranks = ranks, .root = root, .in_place = in_place, .rank = TU_ALL_RANKS});
  struct tu_check_report checked;
  bool proved = tu_check(plan, 1, &checked);
  struct tu_sim *sim = tu_sim_create(plan);
  tu_plan_destroy(plan);
  const char *collective = tu_collectives[a->collective].name;
  for (size_t i = 0; i < COSTS; i++) {
    const struct tu_sim_cost *c = &costs[i];
    struct tu_sim_report r, again;
    tu_sim_run(sim, 12345, c, &r);
    tu_sim_run(sim, 12345, c, &again);
    CHECK(memcmp(&r, &again, sizeof r) == 0, "%s.%s, %u ranks: two runs differ", collective, a->name, ranks);
    CHECK(proved && r.messages == checked.messages, "%s.%s, %u ranks: %llu messages, tu_check says %llu", collective,
          a->name, ranks, (unsigned long long)r.messages, (unsigned long long)checked.messages);
    double time = (double)r.critical_messages * c->alpha + r.critical_bytes * c->beta;
    time += r.critical_reduced_bytes * c->gamma;
    CHECK(test_near(r.time_s, time), "%s.%s, %u ranks, cost %zu: %.12g s, but its chain takes %.12g", collective,
          a->name, ranks, i, r.time_s, time);
  }
  tu_sim_destroy(sim);
  return checked.messages;
}

/* In binomial trees, blocks that wrap past rank N - 1 must not need a message of their own. Tests every root. */
static void test_wrapped_trees(void) {
  static const char *const names[] = {"gather.binomial", "scatter.binomial"};
  for (size_t i = 0; i < 2; i++) {
    const struct tu_algorithm *a = find(names[i]);
    for (uint32_t ranks = 1; ranks <= 40; ranks++)
      for (uint32_t root = 0; root < ranks; root++) {
        uint64_t messages = compare_all(a, ranks, root, root % 2 == 1);
        CHECK(messages == ranks - 1, "%s, %u ranks, root %u: tu_check counts %llu messages, expected %u", names[i],
              ranks, root, (unsigned long long)messages, ranks - 1);
      }
  }
}

static void test_all(void) {
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    bool rooted = tu_collectives[a->collective].rooted && a->collective != TUTTI_SEND;
    for (uint32_t ranks = 1; ranks <= 13; ranks++) {
      if (!tu_algorithm_fits(a, ranks)) continue;
      compare_all(a, ranks, 0, false);
      compare_all(a, ranks, rooted ? ranks / 2 : 0, true);
    }
  }
}

/* ---- algorithms in which one rank can stand for all (TU_ROTATES) ---- */

/* A one-to-one map between the chunks of a buffer at rank 0 and the corresponding chunks at another rank. */
struct pairing {
  uint32_t *there, *back; /* number of the corresponding chunk + 1; 0: not mapped yet */
};

struct alike {
  const struct tu_plan *plan;
  uint32_t rank;
  struct pairing pairings[3]; /* [buffer]: the map of the buffer's chunks */
  uint64_t *names[2];         /* [0]: names of the steps of rank 0; [1]: names of the steps of the other rank */
};

/* Gives each step a name that does not depend on where receives stand among the other steps: the k-th send, the k-th
 * local step, or the receive of the k-th message of a FIFO (messages from one rank on one lane). */
static void name_steps(const struct tu_plan *plan, uint32_t rank, uint64_t *names) {
  const struct tu_rank_plan *p = &plan->rank[rank];
  uint64_t sends = 0, locals = 0;
  uint32_t *taken = tu_allocate((size_t)plan->ranks * TU_LANES_MAX, sizeof *taken);
  for (uint32_t s = 0; s < p->step_count; s++) {
    const struct tu_step *step = &p->steps[s];
    names[s] = step->kind == TU_SEND ? sends++ : 1ull << 60 | locals;
    locals += step->kind == TU_COPY || step->kind == TU_REDUCE;
    if (step->kind != TU_RECV && step->kind != TU_RECV_REDUCE) continue;
    for (uint32_t i = 0; i < (step->kind == TU_RECV ? 1 : step->operand_count); i++) {
      uint32_t peer = step->kind == TU_RECV ? p->peers[step->peer_first] : p->operands[step->operand_first + i].peer;
      if (peer == TU_LOCAL) continue;
      uint32_t ring = (peer + plan->ranks - rank) % plan->ranks * TU_LANES_MAX + step->lane;
      names[s] = 2ull << 60 | (uint64_t)ring << 32 | taken[ring]++;
    }
  }
  free(taken);
}

static bool pair_spans(struct alike *a, struct tu_span here, struct tu_span there) {
  if (here.buffer != there.buffer || here.count != there.count) return false;
  struct pairing *p = &a->pairings[here.buffer];
  for (uint32_t i = 0; i < here.count; i++) {
    uint32_t x = here.first + i, y = there.first + i;
    if (p->there[x] == 0 && p->back[y] == 0) p->there[x] = y + 1, p->back[y] = x + 1;
    if (p->there[x] != y + 1 || p->back[y] != x + 1) return false;
  }
  return true;
}

static bool same_peer(const struct alike *a, uint32_t here, uint32_t there) {
  if (here == TU_LOCAL || there == TU_LOCAL) return here == there;
  return (here + a->rank) % a->plan->ranks == there;
}

static bool pair_steps(struct alike *a, uint32_t here, uint32_t there) {
  const struct tu_rank_plan *p = &a->plan->rank[0], *q = &a->plan->rank[a->rank];
  const struct tu_step *s = &p->steps[here], *t = &q->steps[there];
  bool same = s->kind == t->kind && s->lane == t->lane && s->joined == t->joined && s->first == t->first &&
              s->final == t->final && s->peer_count == t->peer_count && s->operand_count == t->operand_count &&
              s->after_count == t->after_count;
  if (same && (s->kind == TU_SEND || s->kind == TU_COPY)) same = pair_spans(a, s->source, t->source);
  if (same && s->kind != TU_SEND) same = pair_spans(a, s->target, t->target);
  for (uint32_t i = 0; same && i < s->peer_count; i++)
    same = same_peer(a, p->peers[s->peer_first + i], q->peers[t->peer_first + i]);
  for (uint32_t i = 0; same && i < s->operand_count; i++) {
    const struct tu_operand *o = &p->operands[s->operand_first + i], *r = &q->operands[t->operand_first + i];
    same = same_peer(a, o->peer, r->peer) && o->first == r->first && o->joined == r->joined;
    if (same && o->peer == TU_LOCAL) same = pair_spans(a, o->span, r->span);
  }
  for (uint32_t i = 0; same && i < s->after_count; i++) {
    uint64_t name = a->names[0][p->afters[s->after_first + i]];
    bool found = false;
    for (uint32_t k = 0; k < t->after_count; k++) found |= a->names[1][q->afters[t->after_first + k]] == name;
    same = found;
  }
  return same;
}

/* Returns true if the plan of `rank` equals the plan of rank 0 after `rank` is added to all rank numbers (modulo N) and
 * chunks are renumbered. */
static bool rotated(const struct tu_plan *plan, uint32_t rank) {
  uint32_t steps = plan->rank[0].step_count;
  if (plan->rank[rank].step_count != steps) return false;
  struct alike a = {.plan = plan, .rank = rank};
  bool same = true;
  for (uint32_t b = 0; b < 3; b++) {
    uint32_t chunks = tu_plan_chunks(plan, 0, (enum tu_buffer)b);
    same = same && tu_plan_chunks(plan, rank, (enum tu_buffer)b) == chunks;
    a.pairings[b].there = tu_allocate(chunks, sizeof *a.pairings[b].there);
    a.pairings[b].back = tu_allocate(chunks, sizeof *a.pairings[b].back);
  }
  for (uint32_t i = 0; i < 2; i++) {
    a.names[i] = tu_allocate(steps, sizeof *a.names[i]);
    name_steps(plan, i == 0 ? 0 : rank, a.names[i]);
  }
  for (uint32_t here = 0; same && here < steps; here++) {
    uint32_t there = 0;
    while (there < steps && a.names[1][there] != a.names[0][here]) there++;
    same = there < steps && pair_steps(&a, here, there);
  }
  for (uint32_t b = 0; b < 3; b++) {
    free(a.pairings[b].there);
    free(a.pairings[b].back);
  }
  free(a.names[0]);
  free(a.names[1]);
  return same;
}

static bool rotates(const struct tu_algorithm *a, uint32_t ranks, bool in_place) {
  struct tu_plan *plan =
      tu_plan_build(&(struct tu_build){.algorithm = a, .ranks = ranks, .in_place = in_place, .rank = TU_ALL_RANKS});
  bool same = true;
  for (uint32_t rank = 1; same && rank < ranks; rank++) same = rotated(plan, rank);
  tu_plan_destroy(plan);
  return same;
}

static void compare_one_with_all(const struct tu_algorithm *a, uint32_t ranks, bool in_place) {
  struct tu_build what = {.algorithm = a, .ranks = ranks, .in_place = in_place};
  for (size_t i = 0; i < COSTS; i++) {
    what.rank = TU_ALL_RANKS;
    struct tu_sim_report all = simulate(&what, 12345, &costs[i]);
    what.rank = 0;
    struct tu_sim_report one = simulate(&what, 12345, &costs[i]);
    CHECK(memcmp(&all, &one, sizeof all) == 0,
          "%s.%s, %u ranks, cost %zu: one rank says %.17g s, all say %.17g; %llu and %llu messages",
          tu_collectives[a->collective].name, a->name, ranks, i, one.time_s, all.time_s,
          (unsigned long long)one.messages, (unsigned long long)all.messages);
  }
}

static void test_rotates(void) {
  for (size_t i = 0; i < tu_algorithm_count; i++) {
    const struct tu_algorithm *a = tu_algorithms[i];
    bool all = true, tried = false;
    for (uint32_t ranks = 2; ranks <= 9; ranks++) {
      if (!tu_algorithm_fits(a, ranks)) continue;
      tried |= ranks > 2;
      for (int in_place = 0; in_place < 2; in_place++) {
        bool same = rotates(a, ranks, in_place);
        all &= same;
        if (!(a->flags & TU_ROTATES)) continue;
        CHECK(same, "%s.%s, %u ranks: it has TU_ROTATES, but ranks differ", tu_collectives[a->collective].name, a->name,
              ranks);
        compare_one_with_all(a, ranks, in_place);
      }
    }
    if (all && tried && !(a->flags & TU_ROTATES))
      printf("  hint: %s.%s could have TU_ROTATES\n", tu_collectives[a->collective].name, a->name);
  }
  CHECK(!rotates(find("broadcast.binomial"), 4, false) && !rotates(find("scan.chain"), 3, true),
        "trees and chains rotate: this test sees nothing");
}

/* ---- small plans, computed by hand ---- */

/* Plans for 4 ranks whose times were computed by hand. They are called alltoall, but need not do an alltoall. A chunk
 * is one byte. */
static const struct {
  const char *what;
  const char *steps;
  struct tu_sim_cost cost;
  double time_s;
  uint32_t critical_messages;
} examples[] = {
    {"nothing", "rank 0\nrank 1\nrank 2\nrank 3", {1, 1, 1}, 0, 0},
    {"a copy is free", "rank 0\n0: copy in[0] into out[0]\nrank 1\nrank 2\nrank 3", {1, 1, 1}, 0, 0},
    {"both ways at once",
     "rank 0\n0: send in[0] to 1\n1: recv from 1 into out[0]\nrank 1\n0: send in[0] to 0\n1: recv from 0 into out[0]\n"
     "rank 2\nrank 3",
     {2, 3, 0},
     5,
     1},
    {"a multicast is one message after the other",
     "rank 0\n0: send in[0] to 3, 1, 2\nrank 1\n0: recv from 0 into out[0]\n1: send out[0] to 2 after 0\n"
     "rank 2\n0: recv from 0 into out[0]\n1: recv from 1 into out[1]\nrank 3\n0: recv from 0 into out[0]",
     {1, 1, 0},
     8, /* rank 0's messages end at t = 2 (to rank 3), 4 (to 1) and 6 (to 2); rank 1's message to rank 2 ends at 8 */
     4},
    {"a multicast is done when all of it has left",
     "rank 0\n0: send in[0] to 1, 2\n1: copy in[1] into in[0] after 0\n2: send in[0] to 1 after 1\n"
     "rank 1\n0: recv from 0 into out[0]\n1: recv from 0 into out[1]\nrank 2\n0: recv from 0 into out[0]\nrank 3",
     {1, 0, 0},
     3,
     3},
    {"joined: alpha once, when all parts may go; all parts come together",
     "rank 0\n0: send in[0] to 1\n1: recv from 2 into in[1]\n2: send in[1] to 1 joined after 1\n"
     "rank 1\n0: recv from 0 into out[0]\n1: recv from 0 joined into out[1]\n2: send out[0] to 3 after 0\n"
     "rank 2\n0: send in[0] to 0\nrank 3\n0: recv from 1 into out[0]",
     {10, 1, 0},
     34, /* the message to rank 0 takes 11, both parts to rank 1 together take 12, the message to rank 3 takes 11 */
     3},
    {"an in-port takes who comes first, then by rank",
     "rank 0\n0: recv from 3 into out[3]\n1: recv from 1 into out[1]\n2: recv from 2 into out[2]\n"
     "rank 1\n0: send in[0:3] to 2\n1: send in[0] to 0 after 0\nrank 2\n0: recv from 1 into out[0:3]\n"
     "1: send in[0] to 0\nrank 3\n0: send in[0] to 0\n",
     {0, 1, 0},
     4, /* ranks 2 and 3 occupy rank 0's in-port until t = 2; the message of rank 1 is ready only at t = 3 */
     2},
    {"at one moment, by rank",
     "rank 0\n0: recv from 3 into out[3]\n1: recv from 2 into out[2]\n2: send out[3] to 1 after 0\n"
     "rank 1\n0: recv from 0 into out[0]\nrank 2\n0: send in[0] to 0\nrank 3\n0: send in[0] to 0\n",
     {0, 1, 0},
     3, /* rank 2's message arrives at t = 1, rank 3's at 2, and rank 0's at 3 */
     3},
    {"who stands in front waits, and who is behind waits too",
     "rank 0\n0: recv from 3 into out[3]\n1: send in[0] to 2 after 0\n2: send in[0] to 3 after 0\n"
     "rank 1\n0: send in[0:4] to 2\nrank 2\n0: recv from 1 into out[0:4]\n1: recv from 0 into out[0] after 0\n"
     "rank 3\n0: send in[0] to 0\n1: recv from 0 into out[0]",
     {0, 1, 0},
     6, /* rank 1's message occupies rank 2's in-port until t = 4 */
     3},
    {"ready first goes first",
     "rank 0\n0: recv from 1 into out[0]\n1: send out[0] to 2 after 0\n2: send in[0:3] to 3\n"
     "rank 1\n0: send in[0] to 0\nrank 2\n0: recv from 0 into out[0]\nrank 3\n0: recv from 0 into out[0:3]",
     {0, 1, 0},
     4, /* step 2 of rank 0 is ready at t = 0, step 1 only at t = 1 */
     2},
    {"a ring keeps its order",
     "rank 0\n0: recv from 1 into out[0]\n1: send out[0] to 2 after 0\n2: send in[0:3] to 2\n"
     "rank 1\n0: send in[0] to 0\nrank 2\n0: recv from 0 into out[0]\n1: recv from 0 into out[1:4]\nrank 3",
     {0, 1, 0},
     5, /* step 2 of rank 0 is ready at t = 0, but waits for step 1, which is earlier in the FIFO */
     3},
    {"lanes are rings of their own",
     "rank 0\n0: recv from 1 into out[0]\n1: send out[0] to 2 after 0\n2: send in[0:3] to 2 lane 1\n"
     "rank 1\n0: send in[0] to 0\nrank 2\n0: recv from 0 into out[0]\n1: recv from 0 into out[1:4] lane 1\nrank 3",
     {0, 1, 0},
     4,
     2},
    {"reductions hold no port, and come one after the other",
     "rank 0\n0: recv_reduce in[0] + @1 into out[0]\n1: recv_reduce in[1] + @2 into out[1]\n"
     "2: recv_reduce in[2] + @3 into out[2]\nrank 1\n0: send in[0] to 0\nrank 2\n0: send in[0] to 0\n"
     "rank 3\n0: send in[0] to 0",
     {0, 2, 3},
     11, /* the messages arrive at t = 2, 4 and 6; the first two reductions keep the arithmetic unit busy until 8 */
     1},
    {"k operands are k - 1 additions",
     "rank 0\n0: recv_reduce in[0] + @1 + in[1] + @2 into out[0]\n1: reduce in[2] + in[3] into out[1]\n"
     "rank 1\n0: send in[0] to 0\nrank 2\n0: send in[0] to 0\nrank 3",
     {0, 1, 1},
     5, /* both messages have arrived at t = 2; three additions follow */
     2},
    {"messages that take no time",
     "rank 0\n0: send in[0] to 1\nrank 1\n0: recv_reduce in[0] + @0 into out[0]\nrank 2\nrank 3",
     {0, 0, 4},
     4,
     1},
};

static void test_examples(void) {
  for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
    struct tu_text text = {0};
    tu_text_print(&text, "tutti-plan 1\ncollective alltoall\nalgorithm test\nranks 4\nroot 0\nsplit 1\n");
    tu_text_print(&text, "in_place no\nequal_blocks no\nrank_order no\n%s", examples[i].steps);
    struct tu_plan *plan;
    struct tu_error error;
    tutti_err err = tu_plan_read(text.chars, text.length, examples[i].what, &plan, &error);
    tu_text_fini(&text);
    if (err != TUTTI_OK) {
      FAIL("%s", error.text);
      continue;
    }
    struct tu_sim *sim = tu_sim_create(plan);
    tu_plan_destroy(plan);
    struct tu_sim_report r;
    tu_sim_run(sim, 4, &examples[i].cost, &r);
    CHECK(test_near(r.time_s, examples[i].time_s), "%s: %.12g s, expected %g", examples[i].what, r.time_s,
          examples[i].time_s);
    CHECK(r.critical_messages == examples[i].critical_messages, "%s: a chain of %llu messages, expected %u",
          examples[i].what, (unsigned long long)r.critical_messages, examples[i].critical_messages);
    tu_sim_destroy(sim);
  }
}

/* ---- many ranks ---- */

/* Returns the CPU time of this process in seconds. Elapsed time would be wrong if the machine is busy with other
 * processes. */
static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void test_large(void) {
  uint32_t ranks = test_long() ? 1024 : 256;
  const struct tu_sim_cost cost = costs[0];
  double start = cpu_seconds();
  struct tu_build what = {.algorithm = find("allreduce.ring"), .ranks = ranks, .rank = TU_ALL_RANKS};
  struct tu_sim_report r = simulate(&what, 1 << 20, &cost);
  double seconds = cpu_seconds() - start;
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("  a ring of %u, all ranks: %.2f s, %ld MiB\n", ranks, seconds, usage.ru_maxrss / 1024);
  double time = 2 * (ranks - 1) * cost.alpha;
  time += (1 << 20) * (ranks - 1.0) / ranks * (2 * cost.beta + cost.gamma);
  CHECK(test_near(r.time_s, time), "%.12g s, expected %.12g", r.time_s, time);
  CHECK(seconds < 10 && usage.ru_maxrss < 2 << 20, "expected under 10 s and 2 GiB");
  start = cpu_seconds();
  what = (struct tu_build){.algorithm = find("barrier.dissemination"), .ranks = 4096, .rank = 0};
  r = simulate(&what, 1 << 20, &cost);
  printf("  dissemination over 4096, one for all: %.3f s\n", cpu_seconds() - start);
  CHECK(test_near(r.time_s, 12 * cost.alpha) && r.messages == 12 * 4096, "%.12g s, %llu messages", r.time_s,
        (unsigned long long)r.messages);
}

/* Tests the critical path of PAT with a power of two of ranks: delta - 1 messages down the trees of the steps, and
 * log2(aggregate) messages through the branches. */
static void test_pat(void) {
  const tutti_collective both[] = {TUTTI_REDUCE_SCATTER, TUTTI_ALLGATHER};
  for (uint32_t n = 2; n <= 64; n *= 2) {
    for (uint32_t pieces = 1; pieces <= n; pieces *= 2) {
      for (int k = 0; k < 2; k++) {
        struct tu_build what = {
            .algorithm = tu_algorithm_find(both[k], "pat"), .ranks = n, .slot_pieces = pieces, .depth = 1};
        struct tu_sim *sim = tu_sim_build(&what);
        struct tu_sim_report r;
        tu_sim_run(sim, n, &(struct tu_sim_cost){.alpha = 1}, &r);
        tu_sim_destroy(sim);
        uint32_t aggregate = (uint32_t)tu_min(pieces, tu_max(n / 2, 1)), delta = n / aggregate;
        uint32_t path = delta - 1 + tu_log2_ceil(aggregate);
        CHECK(test_near(r.time_s, path) && r.critical_messages == path,
              "%s, %u ranks, %u pieces: %llu messages, expected %u", tu_collectives[both[k]].name, n, pieces,
              (unsigned long long)r.critical_messages, path);
      }
    }
  }
}

static uint64_t seen_ended, seen_calls;

static void see(uint64_t ended, uint64_t nodes) {
  CHECK(ended >= seen_ended && ended <= nodes && nodes > 0, "%llu of %llu after %llu", (unsigned long long)ended,
        (unsigned long long)nodes, (unsigned long long)seen_ended);
  seen_ended = ended;
  seen_calls++;
}

/* The watch sees more and more nodes end. */
static void test_watch(void) {
  const struct tu_algorithm *chain = tu_algorithm_find(TUTTI_SCAN, "chain");
  struct tu_sim *sim = tu_sim_build(&(struct tu_build){.algorithm = chain, .ranks = 2000, .rank = TU_ALL_RANKS});
  struct tu_sim_report r;
  tu_sim_watch(sim, see);
  tu_sim_run(sim, 8, &(struct tu_sim_cost){.alpha = 1}, &r);
  tu_sim_destroy(sim);
  CHECK(seen_calls > 4 && seen_ended > 1000, "%llu calls, %llu nodes", (unsigned long long)seen_calls,
        (unsigned long long)seen_ended);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"examples", test_examples},
      {"closed_forms", test_closed_forms},
      {"every_root", test_every_root},
      {"wrapped_trees", test_wrapped_trees},
      {"all", test_all},
      {"rotates", test_rotates},
      {"large", test_large},
      {"pat", test_pat},
      {"watch", test_watch},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
