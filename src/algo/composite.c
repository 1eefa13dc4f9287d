/* composite.c: algorithms put together by name, as "rs:pat+ag:bucket"; algo.h says what the names mean.
 *
 * Phases work on ever smaller shares of the vector and then on larger ones again, or carry everything to one rank of a group
 * and back. The ranks of a group follow each other (rank = group * size + index), so that shares are runs of chunks. */
#include "algo/composite.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { PHASES_MAX = 6 };
/* Ranks of a group whose size the communicator will say: that of its groups by caches or NUMA nodes, or of its hosts. */
#define OPEN UINT32_MAX
#define OPEN_HOSTS (UINT32_MAX - 1)

enum kind { RS, AG, AR, RE, BC, GA, SC, KINDS };
static const struct {
  const char *name;
  tutti_collective collective;
  int closes; /* the kind of the phase that it undoes, or -1 */
} kinds[KINDS] = {
    [RS] = {"rs", TUTTI_REDUCE_SCATTER, -1}, [AG] = {"ag", TUTTI_ALLGATHER, RS}, [AR] = {"ar", TUTTI_ALLREDUCE, -1},
    [RE] = {"re", TUTTI_REDUCE, -1},         [BC] = {"bc", TUTTI_BROADCAST, RE}, [GA] = {"ga", TUTTI_GATHER, RS},
    [SC] = {"sc", TUTTI_SCATTER, -1}};

/* Who takes part together. */
enum scope {
  ALL,    /* all ranks */
  INNER,  /* the ranks of a group */
  BETWEEN /* one of each group: those of one index, every index for itself; or the leaders */
};

struct phase {
  const struct tu_algorithm *algorithm;
  enum kind kind;
  enum scope scope;
  bool leaders; /* only the leaders of the groups have anything left to do */
};

struct composite {
  struct tu_algorithm algorithm; /* first, so that the one is found from the other */
  struct composite *next;
  char name[TU_NAME_BYTES];
  struct phase phases[PHASES_MAX];
  uint32_t phase_count;
  uint32_t group; /* ranks of a group; 0: no groups; or one of the open ones */
};

static const struct composite *composite_of(const struct tu_algorithm *a) { return (const struct composite *)a; }
static bool is_open(const struct composite *c) { return c->group >= OPEN_HOSTS; }

/* ---- who ---- */

static uint32_t groups_of(const struct composite *c, uint32_t ranks) {
  return c->group ? (ranks + c->group - 1) / c->group : 1;
}

/* The rank of a group that speaks for it: the one at the root's place in its own group (in the same column of a mesh); the
 * first one where a shorter group has no such place. */
static uint32_t leader_of(const struct composite *c, uint32_t ranks, uint32_t root, uint32_t group) {
  uint32_t first = group * c->group, leader = first + root % c->group;
  return leader < ranks ? leader : first;
}

/* The members of set number `set` that a phase has; 0 if there is none of that number. */
static uint32_t members_of(const struct composite *c, const struct phase *p, const struct tu_build *what, uint32_t set,
                           uint32_t *members) {
  uint32_t count = 0, ranks = what->ranks;
  if (p->scope == ALL) {
    for (uint32_t r = 0; set == 0 && r < ranks; r++) members[count++] = r;
  } else if (p->scope == INNER) {
    for (uint32_t r = set * c->group; r < ranks && r / c->group == set; r++) members[count++] = r;
  } else if (p->leaders) {
    for (uint32_t g = 0; set == 0 && g < groups_of(c, ranks); g++)
      members[count++] = leader_of(c, ranks, what->root, g);
  } else {
    for (uint32_t r = set; set < c->group && r < ranks; r += c->group) members[count++] = r;
  }
  return count;
}

/* Which member of a set is its root. */
static uint32_t root_of(const struct composite *c, const struct phase *p, const struct tu_build *what, uint32_t set) {
  if (p->scope == ALL) return what->root;
  if (p->scope == INNER) return leader_of(c, what->ranks, what->root, set) - set * c->group;
  return what->root / c->group;
}

/* Sizes that a phase's sets have: the first one's, and the last one's if that differs. */
static uint32_t set_sizes(const struct composite *c, const struct phase *p, uint32_t ranks, uint32_t sizes[2]) {
  sizes[0] = p->scope == ALL ? ranks : p->scope == INNER ? (uint32_t)tu_min(c->group, ranks) : groups_of(c, ranks);
  sizes[1] = p->scope == INNER ? ranks % c->group : 0;
  return sizes[1] > 0 && ranks > c->group ? 2 : 1;
}

/* ---- how many chunks ---- */

/* More than can be counted is UINT32_MAX. */
static uint32_t product(uint32_t a, uint32_t b) { return (uint32_t)tu_min((uint64_t)a * b, UINT32_MAX); }
static uint32_t least_multiple(uint32_t a, uint32_t b) { return product(a / tu_divisor(a, b), b); }

/* Chunks that the shares of one block are cut into: every phase must find its own number in its share. */
static uint32_t split(const struct tu_build *what) {
  const struct composite *c = composite_of(what->algorithm);
  bool rows = tu_collectives[c->algorithm.collective].in != tu_collectives[c->algorithm.collective].out;
  uint32_t chunks = 1, sizes[2];
  for (uint32_t i = c->phase_count; i-- > 0;) {
    const struct phase *p = &c->phases[i];
    for (uint32_t k = 0; k < set_sizes(c, p, what->ranks, sizes); k++)
      chunks = least_multiple(chunks, tu_build_sub_split(what, p->algorithm, sizes[k]));
  }
  for (uint32_t i = 0; i < c->phase_count && !rows; i++) {
    if (c->phases[i].kind != RS && c->phases[i].kind != SC) continue;
    set_sizes(c, &c->phases[i], what->ranks, sizes);
    chunks = product(chunks, sizes[0]);
  }
  return chunks;
}

static bool fits(const struct tu_algorithm *a, uint32_t ranks) {
  const struct composite *c = composite_of(a);
  if (is_open(c)) return false;
  for (uint32_t i = 0; i < c->phase_count; i++) {
    uint32_t sizes[2], count = set_sizes(c, &c->phases[i], ranks, sizes);
    for (uint32_t k = 0; k < count; k++)
      if (!tu_algorithm_fits(c->phases[i].algorithm, sizes[k])) return false;
  }
  return a->multiple_of == 0 || ranks % a->multiple_of == 0;
}

/* ---- building ---- */

/* Where the phases so far have brought the data. */
struct course {
  struct tu_builder *b;
  const struct composite *c;
  struct tu_span *have;           /* [ranks]: what a rank works on */
  struct tu_span *in, *out, *row; /* [ranks]: of a sub-collective */
  uint32_t *members;
};

/* The i-th of `count` shares of a span. */
static struct tu_span share_of(struct tu_span span, uint32_t i, uint32_t count) {
  return tu_part(span, i * (span.count / count), span.count / count);
}

/* Where a phase leaves its result at a rank: in its place in OUT if the rank has that, else in scratch. `like` is a span of
 * the rank's with as many bytes. */
static struct tu_span room(const struct course *k, uint32_t rank, struct tu_span like) {
  tutti_collective c = k->c->algorithm.collective;
  bool has_out = c != TUTTI_REDUCE_SCATTER && (c != TUTTI_REDUCE || rank == tu_build_root(k->b));
  return has_out ? tu_out(like.first, like.count) : tu_tmp(k->b, rank, like, 1);
}

/* What member i of a set gets from the phase. */
static struct tu_span result_of(const struct course *k, const struct phase *p, uint32_t i, uint32_t count, bool last) {
  uint32_t rank = k->members[i];
  struct tu_span have = k->have[rank];
  tutti_collective c = k->c->algorithm.collective;
  switch (p->kind) {
    case RS:
      if (c == TUTTI_REDUCE_SCATTER && last) return tu_out_blocks_at(k->b, 0, 1);
      return room(k, rank, share_of(have, i, count));
    case AG: {
      uint32_t first = k->have[k->members[0]].first;
      if (c == TUTTI_ALLGATHER && have.buffer == TU_IN) first = k->members[0] * have.count;
      return tu_out(first, have.count * count);
    }
    case SC: return share_of(tu_out_blocks_at(k->b, 0, 1), i, count);
    default: return room(k, rank, have);
  }
}

/* All sets of one phase, side by side. */
static void run_phase(struct course *k, const struct phase *p, bool last) {
  const struct tu_build *what = tu_build_what(k->b);
  uint32_t count;
  for (uint32_t set = 0; (count = members_of(k->c, p, what, set, k->members)) > 0; set++) {
    uint32_t root = root_of(k->c, p, what, set);
    bool to_root = p->kind == RE || p->kind == GA;
    for (uint32_t i = 0; i < count; i++) {
      uint32_t rank = k->members[i];
      k->in[i] = k->have[rank];
      k->row[i] = tu_out_blocks_at(k->b, 0, 1);
      if (p->kind == GA) k->row[i] = tu_in_blocks_at(k->b, 0, 1);
      if (to_root && i != root) k->out[i] = k->have[rank];
      else if (p->kind == GA) k->out[i] = tu_out_blocks_at(k->b, 0, 1);
      else k->out[i] = result_of(k, p, i, count, last);
    }
    tu_build_sub(k->b, &(struct tu_sub){.algorithm = p->algorithm,
                                        .ranks = count,
                                        .root = root,
                                        .members = k->members,
                                        .in = k->in,
                                        .out = k->out,
                                        .row = p->kind == GA || p->kind == SC ? k->row : NULL});
    for (uint32_t i = 0; i < count; i++) k->have[k->members[i]] = k->out[i];
  }
}

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct course k = {.b = b, .c = composite_of(tu_build_what(b)->algorithm)};
  tutti_collective collective = k.c->algorithm.collective;
  k.have = tu_build_memory(b, (size_t)n * 4, sizeof *k.have);
  k.in = k.have + n, k.out = k.in + n, k.row = k.out + n;
  k.members = tu_build_memory(b, n, sizeof *k.members);
  for (uint32_t rank = 0; rank < n; rank++) {
    k.have[rank] = tu_in_blocks_at(b, 0, collective == TUTTI_REDUCE_SCATTER ? n : 1);
    if (collective == TUTTI_BROADCAST && rank != tu_build_root(b)) k.have[rank] = tu_out_blocks_at(b, 0, 1);
  }
  for (uint32_t i = 0; i < k.c->phase_count; i++) run_phase(&k, &k.c->phases[i], i + 1 == k.c->phase_count);
}

/* ---- names ---- */

static tutti_err refuse(struct tu_error *error, const char *name, const char *sentence) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "algorithm '%s': %s", name, sentence);
}

/* What follows '/': one size of groups, the same in all phases. */
static bool read_group(struct composite *c, const char *text) {
  uint64_t size = strcmp(text, "h") == 0 ? OPEN_HOSTS : OPEN;
  if (strcmp(text, "g") != 0 && strcmp(text, "h") != 0 && (!tu_parse_uint(text, TU_RANKS_MAX, &size) || size == 0))
    return false;
  if (c->group && c->group != size) return false;
  c->group = (uint32_t)size;
  return true;
}

/* "rs:pat/4" */
static tutti_err read_phase(struct composite *c, const char *text, size_t length, struct tu_error *error) {
  char word[TU_NAME_BYTES];
  memcpy(word, text, length);
  word[length] = '\0';
  if (c->phase_count == PHASES_MAX) return refuse(error, c->name, "at most 6 phases are possible");
  struct phase *p = &c->phases[c->phase_count++];
  char *name = strchr(word, ':'), *group = strchr(word, '/');
  if (!name) return refuse(error, c->name, "expected phases as 'rs:NAME', joined by '+'");
  *name++ = '\0';
  if (group) {
    *group++ = '\0';
    if (!read_group(c, group))
      return refuse(error, c->name,
                    "expected one number of ranks a group, or g, or h, after '/', the same in all phases");
    p->scope = INNER;
  }
  while (p->kind < KINDS && strcmp(kinds[p->kind].name, word) != 0) p->kind++;
  if (p->kind == KINDS) return refuse(error, c->name, "phases are rs, ag, ar, re, bc, ga and sc");
  p->algorithm = tu_algorithm_find(kinds[p->kind].collective, name);
  if (p->algorithm) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "algorithm '%s': there is no %s.%s", c->name,
                 tu_collectives[kinds[p->kind].collective].name, name);
}

/* Is each phase possible after those before it? What is cut is put together again in the opposite order, and every rank's
 * data meets every other's once. */
static tutti_err check_allreduce(struct composite *c, struct tu_error *error) {
  const struct phase *open[PHASES_MAX];
  uint32_t depth = 0;
  bool reduced[3] = {false}, closing = false;
  for (uint32_t i = 0; i < c->phase_count; i++) {
    struct phase *p = &c->phases[i];
    for (uint32_t k = 0; k < depth; k++) p->leaders |= open[k]->kind == RE && open[k]->scope == INNER;
    if (p->kind == AG || p->kind == BC) {
      closing = true;
      if (depth == 0 || open[depth - 1]->scope != p->scope || (int)open[depth - 1]->kind != kinds[p->kind].closes)
        return refuse(error, c->name, "ag must undo the last rs, and bc the last re, of the same ranks");
      depth--;
      p->leaders = open[depth]->leaders;
      continue;
    }
    if (p->kind == GA || p->kind == SC || closing || reduced[p->scope] || reduced[ALL])
      return refuse(error, c->name, "an allreduce is rs+ag, re+bc, or these around an ar, each over other ranks");
    if (p->kind == RE && p->scope == BETWEEN && i == 0)
      return refuse(error, c->name, "re between groups comes after a phase within groups");
    reduced[p->scope] = true;
    closing = p->kind == AR;
    if (p->kind != AR) open[depth++] = p;
  }
  if (depth > 0) return refuse(error, c->name, "what rs cut needs an ag, and what re collected a bc");
  bool whole = reduced[ALL] ? !reduced[INNER] && !reduced[BETWEEN] : reduced[INNER] && reduced[BETWEEN];
  return whole ? TUTTI_OK : refuse(error, c->name, "it must reduce within the groups and between them");
}

/* The other collectives have two phases: of these kinds and scopes. */
static tutti_err check_pair(struct composite *c, struct tu_error *error) {
  static const struct {
    tutti_collective collective;
    enum kind kinds[2];
    enum scope scopes[2];
    bool leaders;
    const char *sentence;
  } pairs[] = {
      {TUTTI_REDUCE, {RS, GA}, {ALL, ALL}, false, NULL},
      {TUTTI_REDUCE, {RE, RE}, {INNER, BETWEEN}, true, "a reduce is rs:A+ga:B or re:A/G+re:B"},
      {TUTTI_BROADCAST, {SC, AG}, {ALL, ALL}, false, NULL},
      {TUTTI_BROADCAST, {BC, BC}, {BETWEEN, INNER}, true, "a broadcast is sc:A+ag:B or bc:A+bc:B/G"},
      {TUTTI_REDUCE_SCATTER,
       {RS, RS},
       {BETWEEN, INNER},
       false,
       "a reduce_scatter is rs:A+rs:B/G, between groups first"},
      {TUTTI_ALLGATHER, {AG, AG}, {INNER, BETWEEN}, false, "an allgather is ag:A/G+ag:B, within groups first"},
  };
  const char *sentence = "only allreduce, reduce, broadcast, reduce_scatter and allgather are put together";
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    if (pairs[i].collective != c->algorithm.collective) continue;
    bool right = c->phase_count == 2;
    for (uint32_t k = 0; k < 2 && right; k++)
      right = c->phases[k].kind == pairs[i].kinds[k] && c->phases[k].scope == pairs[i].scopes[k];
    sentence = pairs[i].sentence;
    if (!right) continue;
    for (uint32_t k = 0; k < 2; k++) c->phases[k].leaders = pairs[i].leaders;
    return TUTTI_OK;
  }
  return refuse(error, c->name, sentence);
}

static void set_requirements(struct composite *c) {
  const struct phase *last = NULL; /* that reduces */
  if (is_open(c)) c->algorithm.flags |= TU_OPEN_GROUPS;
  if (c->group == OPEN_HOSTS) c->algorithm.flags |= TU_BY_HOSTS;
  bool rank_order = true, equal_blocks = false,
       rows = c->algorithm.collective == TUTTI_REDUCE_SCATTER || c->algorithm.collective == TUTTI_ALLGATHER;
  for (uint32_t i = 0; i < c->phase_count; i++) {
    const struct phase *p = &c->phases[i];
    bool cuts = p->kind == RS || p->kind == AG || (p->kind == AR && !p->leaders);
    if (cuts && p->scope != ALL && !p->leaders && !is_open(c)) c->algorithm.multiple_of = c->group;
    equal_blocks |= (p->algorithm->flags & TU_EQUAL_BLOCKS) != 0;
    c->algorithm.flags |= p->algorithm->flags & TU_AGGREGATES;
    c->algorithm.lanes = (uint32_t)tu_max(c->algorithm.lanes, p->algorithm->lanes);
    if (p->kind != RS && p->kind != AR && p->kind != RE) continue;
    /* Groups hold neighbours: sums within them come first. */
    rank_order &= (p->algorithm->flags & TU_RANK_ORDER) && (!last || last->scope == INNER);
    last = p;
  }
  if (last && rank_order) c->algorithm.flags |= TU_RANK_ORDER;
  if (rows && equal_blocks) c->algorithm.flags |= TU_EQUAL_BLOCKS;
}

static tutti_err read_name(struct composite *c, struct tu_error *error) {
  for (const char *at = c->name; at;) {
    const char *plus = strchr(at, '+');
    tutti_err err = read_phase(c, at, plus ? (size_t)(plus - at) : strlen(at), error);
    if (err != TUTTI_OK) return err;
    at = plus ? plus + 1 : NULL;
  }
  for (uint32_t i = 0; i < c->phase_count; i++)
    if (c->phases[i].scope == ALL && c->group) c->phases[i].scope = BETWEEN;
  tutti_err err = c->algorithm.collective == TUTTI_ALLREDUCE ? check_allreduce(c, error) : check_pair(c, error);
  if (err == TUTTI_OK) set_requirements(c);
  return err;
}

/* All that were ever asked for: as the table's own, they live as long as the process. */
static _Atomic(struct composite *) known;

const struct tu_algorithm *tu_composite_find(tutti_collective collective, const char *name, struct tu_error *error) {
  collective = tu_collectives[collective].family;
  for (const struct composite *c = atomic_load(&known); c; c = c->next)
    if (c->algorithm.collective == collective && strcmp(c->name, name) == 0) return &c->algorithm;
  if (strlen(name) >= TU_NAME_BYTES) {
    tu_fail(error, TUTTI_ERR_ARGUMENT, "algorithm '%.40s...': a name has at most %u characters", name,
            TU_NAME_BYTES - 1);
    return NULL;
  }
  struct composite *c = tu_try_allocate(1, sizeof *c);
  if (!c) tu_arena_refuse(1, sizeof *c);
  snprintf(c->name, sizeof c->name, "%s", name);
  c->algorithm = (struct tu_algorithm){.collective = collective,
                                       .name = c->name,
                                       .summary = "put together of the phases in its name",
                                       .split = split,
                                       .fits = fits,
                                       .build = build};
  if (read_name(c, error) != TUTTI_OK) {
    free(c);
    return NULL;
  }
  c->next = atomic_load(&known);
  while (!atomic_compare_exchange_weak(&known, &c->next, c)) continue;
  return &c->algorithm;
}

uint32_t tu_composite_group(const struct tu_algorithm *a) {
  return a->build == build && !is_open(composite_of(a)) ? composite_of(a)->group : 0;
}

const struct tu_algorithm *tu_composite_in_groups(const struct tu_algorithm *a, uint32_t group) {
  char name[TU_NAME_BYTES + 16]; /* longer ones end here, and are too long for a name */
  size_t length = 0;
  for (const char *at = a->name; *at && length < TU_NAME_BYTES;) {
    size_t until = strcspn(at, "/");
    length += (size_t)snprintf(name + length, sizeof name - length, "%.*s", (int)until, at);
    at += until;
    if (!*at || length >= TU_NAME_BYTES) break;
    length +=
        (size_t)snprintf(name + length, sizeof name - length, "/%u", group); /* all groups of a name are of one size */
    at += strcspn(at, "+");
  }
  struct tu_error error;
  const struct tu_algorithm *found = tu_composite_find(a->collective, name, &error);
  return found ? found : a;
}

void tu_composite_build(struct tu_builder *b, const char *name) {
  const struct tu_build *what = tu_build_what(b);
  struct tu_error error;
  const struct tu_algorithm *a = tu_composite_find(what->algorithm->collective, name, &error);
  tu_assert(a && tu_build_split(b) == tu_build_sub_split(what, a, what->ranks));
  struct tu_span *in = tu_build_memory(b, 2 * (size_t)what->ranks, sizeof *in), *out = in + what->ranks;
  for (uint32_t rank = 0; rank < what->ranks; rank++) {
    in[rank] = tu_in_blocks_at(b, 0, tu_in_blocks(a->collective, what->ranks, what->root, rank));
    out[rank] = tu_out_blocks_at(b, 0, tu_out_blocks(a->collective, what->ranks, what->root, rank));
  }
  tu_build_sub(
      b,
      &(struct tu_sub){
          .algorithm = a, .ranks = what->ranks, .root = what->root, .in = in, .out = out, .in_place = what->in_place});
}

const struct tu_composite_example tu_composite_examples[] = {
    {TUTTI_ALLREDUCE, "rs:pat+ag:bucket"},
    {TUTTI_ALLREDUCE, "rs:recursive_halving+ag:recursive_doubling"},
    {TUTTI_ALLREDUCE, "rs:line+ag:line"},
    {TUTTI_ALLREDUCE, "rs:bidirectional+ag:bidirectional_split"},
    {TUTTI_ALLREDUCE, "rs:direct+ag:gather_broadcast"},
    {TUTTI_ALLREDUCE, "rs:pairwise+ag:neighbor_exchange"},
    {TUTTI_ALLREDUCE, "re:rs_gather+bc:scatter_allgather"},
    {TUTTI_ALLREDUCE, "rs:direct/4+ar:ring+ag:direct/4"},
    {TUTTI_ALLREDUCE, "rs:bucket/3+rs:pat+ag:bruck+ag:bucket/3"},
    {TUTTI_ALLREDUCE, "rs:bucket+rs:bucket/5+ag:bucket/5+ag:bucket"},
    {TUTTI_ALLREDUCE, "rs:recursive_halving/6+re:binomial+bc:chain+ag:pat/6"},
    {TUTTI_ALLREDUCE, "re:binomial/7+ar:swing+bc:binomial/7"},
    {TUTTI_ALLREDUCE, "re:rs_gather/5+rs:pat+ag:bruck+bc:direct/5"},
    {TUTTI_ALLREDUCE, "re:direct/3+re:binomial+bc:binomial+bc:direct/3"},
    {TUTTI_REDUCE, "rs:pat+ga:direct"},
    {TUTTI_REDUCE, "re:direct/3+re:binomial"},
    {TUTTI_REDUCE, "re:rs_gather/7+re:rs_gather"},
    {TUTTI_BROADCAST, "sc:naive+ag:pat"},
    {TUTTI_BROADCAST, "bc:binomial+bc:direct/3"},
    {TUTTI_BROADCAST, "bc:chain+bc:scatter_allgather/7"},
    {TUTTI_REDUCE_SCATTER, "rs:bucket+rs:bucket/4"},
    {TUTTI_REDUCE_SCATTER, "rs:pat+rs:line/3"},
    {TUTTI_REDUCE_SCATTER, "rs:pairwise+rs:pat/5"},
    {TUTTI_ALLGATHER, "ag:bucket/4+ag:bucket"},
    {TUTTI_ALLGATHER, "ag:pat/3+ag:bidirectional_full"},
    {TUTTI_ALLGATHER, "ag:recursive_doubling/5+ag:pat"},
};
const size_t tu_composite_example_count = sizeof tu_composite_examples / sizeof tu_composite_examples[0];
