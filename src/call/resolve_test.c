/* resolve_test.c: tests which buffers a call may have: which calls are refused, and which count as in place. The
 * expected result comes from a map of every byte that the call reads and writes on this rank. */
#include "call/resolve.h"
#include "test.h"

enum { RANKS_MAX = 6, ARENA = 1024 };
#define NO_BLOCK UINT32_MAX

/* The blocks of one buffer: where they begin in the array `arena`, and their lengths, in bytes. */
struct side {
  uint32_t blocks;
  size_t begin[RANKS_MAX], bytes[RANKS_MAX];
};

/* A random call, and its blocks. */
struct given {
  uint32_t rank, ranks;
  tutti_call call;
  size_t counts[RANKS_MAX], offsets[RANKS_MAX], recv_counts[RANKS_MAX], recv_offsets[RANKS_MAX];
  void *send_blocks[RANKS_MAX], *recv_blocks[RANKS_MAX];
  struct side in, out;
  bool marked; /* the call passes TUTTI_IN_PLACE instead of one of the two buffers */
};

static unsigned char arena[ARENA];
static uint64_t seed;
static uint32_t below(uint32_t n) { return (uint32_t)(tu_random(&seed) % n); }

/* ---- the bytes that a call touches, from the manual's table ---- */

static bool is_vector(tutti_collective c) { return c >= TUTTI_GATHERV && c <= TUTTI_ALLTOALLV; }

static void count_blocks(tutti_collective c, const struct given *g, uint32_t *in, uint32_t *out) {
  bool root = g->rank == g->call.root;
  *in = *out = 1;
  switch (c) {
    case TUTTI_REDUCE: *out = root; break;
    case TUTTI_BROADCAST: *in = root; break;
    case TUTTI_GATHER:
    case TUTTI_GATHERV: *out = root ? g->ranks : 0; break;
    case TUTTI_SCATTER:
    case TUTTI_SCATTERV: *in = root ? g->ranks : 0; break;
    case TUTTI_ALLGATHER:
    case TUTTI_ALLGATHERV: *out = g->ranks; break;
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_REDUCE_SCATTERV: *in = g->ranks; break;
    case TUTTI_ALLTOALL:
    case TUTTI_ALLTOALLV: *in = *out = g->ranks; break;
    case TUTTI_EXSCAN: *out = g->rank > 0; break;
    default: break;
  }
}

/* Computes where the blocks lie, for a buffer that begins at byte `base` of the arena. */
static void lay_side(struct side *s, uint32_t blocks, size_t base, size_t item, const size_t *counts,
                     const size_t *offsets, size_t count) {
  size_t packed = 0;
  s->blocks = blocks;
  for (uint32_t b = 0; b < blocks; b++) {
    size_t items = counts ? counts[b] : count;
    s->begin[b] = base + (offsets ? offsets[b] : packed) * item;
    s->bytes[b] = items * item;
    packed += items;
  }
}

static bool same_bytes(const struct side *a, uint32_t i, const struct side *b, uint32_t k) {
  return a->bytes[i] == b->bytes[k] && (a->bytes[i] == 0 || a->begin[i] == b->begin[k]);
}

/* Returns true if a byte of `a`, except block `but`, is also in `b`. */
static bool touch(const struct side *a, uint32_t but, const struct side *b) {
  bool map[ARENA] = {false};
  bool found = false;
  for (uint32_t i = 0; i < b->blocks; i++)
    for (size_t at = 0; at < b->bytes[i]; at++) map[b->begin[i] + at] = true;
  for (uint32_t i = 0; i < a->blocks; i++)
    for (size_t at = 0; at < a->bytes[i] && i != but; at++) found |= map[a->begin[i] + at];
  return found;
}

static bool apart_by_itself(const struct side *s) {
  bool map[ARENA] = {false};
  bool good = true;
  for (uint32_t i = 0; i < s->blocks; i++)
    for (size_t at = 0; at < s->bytes[i]; at++) {
      good &= !map[s->begin[i] + at];
      map[s->begin[i] + at] = true;
    }
  return good;
}

/* Returns true if the call is valid. *in_place: the rank's own block, or every block, is the same bytes in both
 * buffers. *empty: the call has no bytes, so *in_place does not matter. */
static bool admits(const struct given *g, bool *in_place, bool *empty) {
  const struct side *in = &g->in, *out = &g->out;
  tutti_collective c = g->call.collective;
  bool longer_in = in->blocks > out->blocks, longer_out = out->blocks > in->blocks;
  *in_place = false;
  *empty = true;
  if (!apart_by_itself(out)) return false;
  if (in->blocks == 0 || out->blocks == 0) return true;
  bool same = true;
  for (uint32_t b = 0; b < tu_max(in->blocks, out->blocks); b++) {
    if ((longer_in || longer_out) && b != g->rank) continue;
    uint32_t i = longer_out ? 0 : b, k = longer_in ? 0 : b;
    same &= same_bytes(in, i, out, k);
    *empty &= in->bytes[i] == 0 && out->bytes[k] == 0;
  }
  *in_place = same && !*empty;
  bool sums = c == TUTTI_REDUCE_SCATTER || c == TUTTI_REDUCE_SCATTERV;
  if (*in_place) return !(sums && touch(in, g->rank, out));
  return !(g->marked && !same) && !touch(in, NO_BLOCK, out);
}

/* Returns true if the address ranges of the two buffers intersect. */
static bool reach_into(const struct side *a, const struct side *b) {
  size_t low[2] = {ARENA, ARENA}, high[2] = {0, 0};
  const struct side *both[] = {a, b};
  for (int k = 0; k < 2; k++)
    for (uint32_t i = 0; i < both[k]->blocks; i++) {
      if (both[k]->bytes[i] == 0) continue;
      low[k] = tu_min(low[k], both[k]->begin[i]);
      high[k] = tu_max(high[k], both[k]->begin[i] + both[k]->bytes[i]);
    }
  return low[0] < high[1] && low[1] < high[0];
}

/* ---- calls ---- */

static tutti_collective pick(void) {
  static const tutti_collective known[] = {
      TUTTI_ALLREDUCE, TUTTI_REDUCE,   TUTTI_BROADCAST, TUTTI_GATHER,     TUTTI_SCATTER,    TUTTI_ALLGATHER,
      TUTTI_ALLTOALL,  TUTTI_SCAN,     TUTTI_EXSCAN,    TUTTI_GATHERV,    TUTTI_SCATTERV,   TUTTI_REDUCE_SCATTER,
      TUTTI_GATHERV,   TUTTI_SCATTERV, TUTTI_ALLTOALLV, TUTTI_ALLTOALLV,  TUTTI_ALLTOALLV,  TUTTI_REDUCE_SCATTERV,
      TUTTI_GATHERV,   TUTTI_SCATTERV, TUTTI_ALLTOALLV, TUTTI_ALLGATHERV, TUTTI_ALLGATHERV, TUTTI_REDUCE_SCATTERV,
  };
  return known[below(sizeof known / sizeof known[0])];
}

/* Makes offsets: blocks one after the other with gaps, in any order; or blocks anywhere. */
static void make_offsets(size_t offsets[], const size_t counts[], uint32_t ranks) {
  uint32_t kind = below(5), first = below(ranks), step = below(2) ? 1 : ranks - 1, gap = below(6);
  size_t at = 0;
  for (uint32_t i = 0; i < ranks; i++) {
    uint32_t b = (first + i * (step ? step : 1)) % ranks;
    offsets[b] = kind == 0 ? below(10) : at;
    at += counts[b] + (kind < 3 ? gap : below(3));
  }
}

static void make_vector(struct given *g) {
  tutti_call *c = &g->call;
  uint32_t most = 1 + below(3);
  for (uint32_t r = 0; r < g->ranks; r++) {
    g->counts[r] = below(4) ? most : below(4);
    g->recv_counts[r] = below(3) ? g->counts[r] : below(4);
  }
  make_offsets(g->offsets, g->counts, g->ranks);
  make_offsets(g->recv_offsets, g->recv_counts, g->ranks);
  if (below(3) == 0) {
    memcpy(g->recv_counts, g->counts, sizeof g->counts);
    memcpy(g->recv_offsets, g->offsets, sizeof g->offsets);
    for (uint32_t r = 0; r < g->ranks; r++) g->recv_offsets[r] += (size_t)(below(6) == 0);
  }
  c->counts = g->counts;
  c->offsets = below(4) ? g->offsets : NULL;
  if (c->collective != TUTTI_ALLTOALLV) return;
  c->recv_counts = g->recv_counts;
  c->recv_offsets = below(4) ? g->recv_offsets : NULL;
}

/* Gives the addresses of the blocks of a buffer, some of which it moves. */
static void point_side(struct side *s, void *addresses[]) {
  for (uint32_t b = 0; b < s->blocks; b++) {
    if (below(8) == 0) s->begin[b] += below(12);
    addresses[b] = s->bytes[b] > 0 || below(2) ? arena + s->begin[b] : NULL;
  }
}

/* In some calls, gives addresses of blocks instead of buffers. */
static void make_pointers(struct given *g) {
  tutti_call *c = &g->call;
  const bool both = c->collective == TUTTI_ALLTOALL || c->collective == TUTTI_ALLTOALLV;
  const bool gathers = c->collective == TUTTI_GATHER || c->collective == TUTTI_GATHERV ||
                       c->collective == TUTTI_ALLGATHER || c->collective == TUTTI_ALLGATHERV;
  const bool deals = c->collective == TUTTI_SCATTER || c->collective == TUTTI_SCATTERV ||
                     c->collective == TUTTI_REDUCE_SCATTER || c->collective == TUTTI_REDUCE_SCATTERV;
  if ((both || gathers) && g->out.blocks == g->ranks && below(2)) {
    point_side(&g->out, g->recv_blocks);
    c->recv = NULL, c->recv_blocks = g->recv_blocks;
    if (both) c->recv_offsets = NULL;
    else c->offsets = NULL;
    if (g->marked && both) memcpy(g->in.begin, g->out.begin, sizeof g->in.begin);
    if (g->marked && gathers && g->in.blocks > 0) g->in.begin[0] = g->out.begin[g->rank];
  }
  if ((both || deals) && g->in.blocks == g->ranks && c->send != TUTTI_IN_PLACE && below(2)) {
    point_side(&g->in, g->send_blocks);
    c->send = NULL, c->send_blocks = (const void *const *)g->send_blocks, c->offsets = NULL;
    if (g->marked && deals) g->out.begin[0] = g->in.begin[g->rank];
  }
}

static void make_call(struct given *g) {
  static const tutti_datatype types[] = {TUTTI_U8, TUTTI_I16, TUTTI_I32};
  uint32_t type = below(3), in_blocks, out_blocks;
  *g = (struct given){.ranks = 1 + below(RANKS_MAX)};
  g->rank = below(g->ranks);
  tutti_call *c = &g->call;
  *c = (tutti_call){.collective = pick(), .type = types[type], .count = below(5)};
  c->root = below(2) ? g->rank : below(g->ranks);
  if (is_vector(c->collective)) make_vector(g);
  count_blocks(c->collective, g, &in_blocks, &out_blocks);
  bool both = c->collective == TUTTI_ALLTOALLV, vector = is_vector(c->collective);
  bool in_each = both || c->collective == TUTTI_SCATTERV || c->collective == TUTTI_REDUCE_SCATTERV;
  bool out_each = both || c->collective == TUTTI_GATHERV || c->collective == TUTTI_ALLGATHERV;
  const size_t *out_counts = both ? c->recv_counts : c->counts, *out_offsets = both ? c->recv_offsets : c->offsets;
  size_t item = (size_t)1 << type, own = vector && !both ? g->counts[g->rank] : c->count;
  if (vector && !both && c->root != g->rank && (c->collective == TUTTI_GATHERV || c->collective == TUTTI_SCATTERV))
    c->count = own;
  size_t send = 400 + below(32), recv = below(3) ? send + below(12) : 400 + below(64);
  lay_side(&g->in, in_blocks, send, item, in_each ? c->counts : NULL, in_each ? c->offsets : NULL, own);
  lay_side(&g->out, out_blocks, recv, item, out_each ? out_counts : NULL, out_each ? out_offsets : NULL, own);
  /* In some calls, moves recv so that the rank's own block lies as in a call in place, or up to 3 bytes behind. */
  if (below(3) == 0 && in_blocks > 0 && out_blocks > 0) {
    size_t there = g->in.begin[in_blocks > out_blocks ? g->rank : 0];
    size_t here = g->out.begin[out_blocks > in_blocks ? g->rank : 0], wanted = there + (below(3) ? 0 : below(4));
    recv = recv + wanted - here;
    lay_side(&g->out, out_blocks, recv, item, out_each ? out_counts : NULL, out_each ? out_offsets : NULL, own);
    g->marked = wanted == there && below(2);
  }
  c->send = arena + send;
  c->recv = arena + recv;
  bool deals = c->collective == TUTTI_SCATTER || c->collective == TUTTI_SCATTERV ||
               c->collective == TUTTI_REDUCE_SCATTER || c->collective == TUTTI_REDUCE_SCATTERV;
  if (g->marked && deals) c->recv = TUTTI_IN_PLACE;
  else if (g->marked) c->send = TUTTI_IN_PLACE;
  if (g->marked && both && g->in.blocks == g->out.blocks) /* in place, send begins where recv does */
    lay_side(&g->in, in_blocks, recv, item, c->counts, c->offsets, own);
  make_pointers(g);
}

static void print_side(const char *name, const struct side *s) {
  printf("  %s:", name);
  for (uint32_t b = 0; b < s->blocks; b++) printf(" %zu..%zu", s->begin[b], s->begin[b] + s->bytes[b]);
  printf("\n");
}

static void test_buffers(void) {
  uint64_t admitted = 0, refused = 0, woven = 0, in_places = 0;
  seed = test_seed();
  for (uint32_t round = 0; round < (test_long() ? 3000000 : 200000) && test_failures < 3; round++) {
    struct given g;
    bool in_place, empty;
    int before = test_failures;
    make_call(&g);
    struct tu_memo memo = {0};
    struct tutti_comm comm = {.rank = g.rank, .ranks = g.ranks, .memo = &memo};
    struct tu_error error = {0};
    bool good = admits(&g, &in_place, &empty);
    tutti_err err = tu_call_resolve(&comm, &g.call, &error);
    const struct tu_call *found = &memo.resolved;
    CHECK(err == (good ? TUTTI_OK : TUTTI_ERR_ARGUMENT), "round %u: %s, expected it %s: %s", round, tutti_err_name(err),
          good ? "admitted" : "refused", error.text);
    CHECK(err != TUTTI_OK || empty || found->signature.in_place == in_place, "round %u: %staken as in place", round,
          in_place ? "not " : "");
    if (test_failures > before) {
      printf("  %s, rank %u of %u, root %u, %s\n", tutti_collective_name(g.call.collective), g.rank, g.ranks,
             g.call.root, g.marked ? "TUTTI_IN_PLACE" : "two pointers");
      print_side("send", &g.in);
      print_side("recv", &g.out);
    }
    admitted += good;
    refused += !good;
    in_places += good && in_place;
    woven += good && !in_place && reach_into(&g.in, &g.out);
  }
  printf("  %llu admitted, of which %llu in place and %llu woven into each other; %llu refused\n",
         (unsigned long long)admitted, (unsigned long long)in_places, (unsigned long long)woven,
         (unsigned long long)refused);
  CHECK(in_places > 1000 && woven > 1000 && refused > 1000, "the cases are of one kind");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"buffers", test_buffers}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
