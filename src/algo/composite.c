/* composite.c: algorithms composed of phases by name, for example "rs:pat+ag:bucket". composite.h defines the names.
 *
 * In some composites, the phases work on smaller and smaller shares of the vector, then on larger ones again. In
 * others, they collect everything at one rank per group and distribute it again. Groups are consecutive ranks (rank =
 * group * size + index), so that shares are contiguous chunks. */
#include "algo/composite.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { PHASES_MAX = 6 };
/* Values of composite.group while the group size is not known. OPEN: the size will be that of the communicator's groups
 * by caches or NUMA nodes. OPEN_HOSTS: it will be the number of ranks per host. */
#define OPEN UINT32_MAX
#define OPEN_HOSTS (UINT32_MAX - 1)

enum kind { RS, AG, AR, RE, BC, GA, SC, KINDS };
static const struct {
  const char *name;
  tutti_collective collective;
  int closes; /* kind of the earlier phase that a phase of this kind undoes (ag undoes rs); -1: none */
} kinds[KINDS] = {
    [RS] = {"rs", TUTTI_REDUCE_SCATTER, -1}, [AG] = {"ag", TUTTI_ALLGATHER, RS}, [AR] = {"ar", TUTTI_ALLREDUCE, -1},
    [RE] = {"re", TUTTI_REDUCE, -1},         [BC] = {"bc", TUTTI_BROADCAST, RE}, [GA] = {"ga", TUTTI_GATHER, RS},
    [SC] = {"sc", TUTTI_SCATTER, -1}};

/* Scope of a phase: which ranks take part in the phase together. */
enum scope {
  ALL,    /* all ranks */
  INNER,  /* the ranks of one group */
  BETWEEN /* one rank per group: either the ranks with the same index in their groups, or the leaders of the groups */
};

struct phase {
  const struct tu_algorithm *algorithm;
  enum kind kind;
  enum scope scope;
  /* Only for a phase between groups: which ranks take part. True: the leaders of all groups, each of which acts for its
   * group. False: the ranks that have the same index in their groups. */
  bool leaders;
};

struct composite {
  struct tu_algorithm algorithm; /* must be the first member, so that composite_of can cast its address */
  struct composite *next;
  char name[TU_NAME_BYTES];
  struct phase phases[PHASES_MAX];
  uint32_t phase_count;
  uint32_t group; /* ranks per group; 0: no groups; OPEN or OPEN_HOSTS: the size is not known yet */
};

static const struct composite *composite_of(const struct tu_algorithm *a) { return (const struct composite *)a; }
static bool is_open(const struct composite *c) { return c->group >= OPEN_HOSTS; }

/* ---- the sets of ranks in which a phase runs ---- */

static uint32_t groups_of(const struct composite *c, uint32_t ranks) {
  return c->group ? (ranks + c->group - 1) / c->group : 1;
}

/* Returns the leader of a group: the rank that has the same index in the group as the root has in its own group. If the
 * last group is shorter and has no such index, its first rank is the leader. */
static uint32_t leader_of(const struct composite *c, uint32_t ranks, uint32_t root, uint32_t group) {
  uint32_t first = group * c->group, leader = first + root % c->group;
  return leader < ranks ? leader : first;
}

/* Several sets of ranks may run a phase side by side, for example every group. Writes the ranks of set number `set` to
 * `members` and returns their number; 0 if there is no such set. */
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

/* Returns an index in set number `set` of the ranks that run the phase: the index of the root or, if the root is not in
 * the set, of the rank that acts for it. */
static uint32_t root_of(const struct composite *c, const struct phase *p, const struct tu_build *what, uint32_t set) {
  if (p->scope == ALL) return what->root;
  if (p->scope == INNER) return leader_of(c, what->ranks, what->root, set) - set * c->group;
  return what->root / c->group;
}

/* Writes the sizes of the sets of ranks in which a phase runs: the size of the first set and, if different, that of
 * the last set. Returns how many sizes were written (1 or 2). */
static uint32_t set_sizes(const struct composite *c, const struct phase *p, uint32_t ranks, uint32_t sizes[2]) {
  sizes[0] = p->scope == ALL ? ranks : p->scope == INNER ? (uint32_t)tu_min(c->group, ranks) : groups_of(c, ranks);
  sizes[1] = p->scope == INNER ? ranks % c->group : 0;
  return sizes[1] > 0 && ranks > c->group ? 2 : 1;
}

/* ---- the number of chunks per block ---- */

/* Multiplies two numbers. The product stops at UINT32_MAX instead of overflowing. */
static uint32_t product(uint32_t a, uint32_t b) { return (uint32_t)tu_min((uint64_t)a * b, UINT32_MAX); }
static uint32_t least_multiple(uint32_t a, uint32_t b) { return product(a / tu_divisor(a, b), b); }

/* Returns the number of chunks per block. Each phase works on a part of the vector. The number of chunks of this part
 * must be a multiple of the number that the phase's algorithm needs. */
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

/* ---- building the phases ---- */

/* State while a composite is built: for each rank, where its data is after the phases that are already built. */
struct course {
  struct tu_builder *b;
  const struct composite *c;
  struct tu_span *have; /* [rank]: the span that the rank works on next */
  /* Arguments for tu_build_sub, which builds a phase as an inner collective. For their meaning see tu_sub. They are
   * indexed by the ranks of the inner collective. */
  struct tu_span *in, *out, *row;
  uint32_t *members;
};

/* Returns the i-th of `count` equal shares of a span. */
static struct tu_span share_of(struct tu_span span, uint32_t i, uint32_t count) {
  return tu_part(span, i * (span.count / count), span.count / count);
}

/* Returns the span for a phase's result at a rank: in OUT if the rank has an OUT for this part of the data, else in new
 * scratch. `like` is a span of the rank with the same number of bytes. */
static struct tu_span room(const struct course *k, uint32_t rank, struct tu_span like) {
  tutti_collective c = k->c->algorithm.collective;
  bool has_out = c != TUTTI_REDUCE_SCATTER && (c != TUTTI_REDUCE || rank == tu_build_root(k->b));
  return has_out ? tu_out(like.first, like.count) : tu_tmp(k->b, rank, like, 1);
}

/* Returns the span where the phase stores its result at the i-th of the `count` ranks that run it together. `last`:
 * this is the last phase. */
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

/* Builds one phase: an inner collective (tu_build_sub) for every set of ranks. */
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

/* ---- parsing and checking names ---- */

static tutti_err refuse(struct tu_error *error, const char *name, const char *sentence) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "algorithm '%s': %s", name, sentence);
}

/* Parses the text after '/' in the name of a composite: a group size, g or h. It must be the same in all phases. */
static bool read_group(struct composite *c, const char *text) {
  uint64_t size = strcmp(text, "h") == 0 ? OPEN_HOSTS : OPEN;
  if (strcmp(text, "g") != 0 && strcmp(text, "h") != 0 && (!tu_parse_uint(text, TU_RANKS_MAX, &size) || size == 0))
    return false;
  if (c->group && c->group != size) return false;
  c->group = (uint32_t)size;
  return true;
}

/* Parses one phase of a composite's name, for example "rs:pat/4". */
static tutti_err read_phase(struct composite *c, const char *text, size_t length, struct tu_error *error) {
  char word[TU_NAME_BYTES];
  memcpy(word, text, length);
  word[length] = '\0';
  if (c->phase_count == PHASES_MAX) return refuse(error, c->name, "too many phases; expected at most 6");
  struct phase *p = &c->phases[c->phase_count++];
  char *name = strchr(word, ':'), *group = strchr(word, '/');
  if (!name)
    return refuse(error, c->name, "expected phases KIND:ALGORITHM joined by '+', for example rs:pat+ag:bucket");
  *name++ = '\0';
  if (group) {
    *group++ = '\0';
    if (!read_group(c, group))
      return refuse(error, c->name,
                    "invalid group size after '/'; expected a number of ranks, g (ranks that share a cache or a NUMA "
                    "node) or h (ranks of a host), the same in all phases");
    p->scope = INNER;
  }
  while (p->kind < KINDS && strcmp(kinds[p->kind].name, word) != 0) p->kind++;
  if (p->kind == KINDS)
    return refuse(error, c->name,
                  "unknown phase; expected rs (reduce_scatter), ag (allgather), ar (allreduce), re (reduce), bc "
                  "(broadcast), ga (gather) or sc (scatter)");
  p->algorithm = tu_algorithm_listed(kinds[p->kind].collective, name);
  if (p->algorithm) return TUTTI_OK;
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "algorithm '%s': unknown algorithm %s.%s", c->name,
                 tu_collectives[kinds[p->kind].collective].name, name);
}

/* Checks the phases of an allreduce. As brackets close, each allgather or broadcast (ag, bc) must undo the last
 * reduce-scatter or reduce (rs, re) that is not undone yet. The data of every rank must be combined with that of every
 * other rank exactly once. */
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
        return refuse(error, c->name,
                      "expected each allgather (ag) to complete the last open reduce_scatter (rs), and each broadcast "
                      "(bc) the last open reduce (re), over the same ranks");
      depth--;
      p->leaders = open[depth]->leaders;
      continue;
    }
    if (p->kind == GA || p->kind == SC || closing || reduced[p->scope] || reduced[ALL])
      return refuse(error, c->name,
                    "invalid phases for allreduce; expected rs+ag (reduce_scatter, allgather) or re+bc (reduce, "
                    "broadcast), or these around an ar (allreduce), each over different ranks");
    if (p->kind == RE && p->scope == BETWEEN && i == 0)
      return refuse(error, c->name,
                    "invalid order; expected a phase within groups before a reduce (re) between groups");
    reduced[p->scope] = true;
    closing = p->kind == AR;
    if (p->kind != AR) open[depth++] = p;
  }
  if (depth > 0)
    return refuse(error, c->name,
                  "missing phases; expected an allgather (ag) for each reduce_scatter (rs), and a broadcast (bc) for "
                  "each reduce (re)");
  bool whole = reduced[ALL] ? !reduced[INNER] && !reduced[BETWEEN] : reduced[INNER] && reduced[BETWEEN];
  return whole ? TUTTI_OK
               : refuse(error, c->name, "missing phases; expected reductions both within the groups and between them");
}

/* Checks the phases of other collectives than allreduce. There must be two phases, with the kinds and scopes (sets of
 * ranks) in this table. */
static tutti_err check_pair(struct composite *c, struct tu_error *error) {
  static const struct {
    tutti_collective collective;
    enum kind kinds[2];
    enum scope scopes[2];
    bool leaders;
    const char *sentence;
  } pairs[] = {
      {TUTTI_REDUCE, {RS, GA}, {ALL, ALL}, false, NULL},
      {TUTTI_REDUCE,
       {RE, RE},
       {INNER, BETWEEN},
       true,
       "invalid phases for reduce; expected rs:A+ga:B or re:A/G+re:B, with algorithms A and B and group size G"},
      {TUTTI_BROADCAST, {SC, AG}, {ALL, ALL}, false, NULL},
      {TUTTI_BROADCAST,
       {BC, BC},
       {BETWEEN, INNER},
       true,
       "invalid phases for broadcast; expected sc:A+ag:B or bc:A+bc:B/G, with algorithms A and B and group size G"},
      {TUTTI_REDUCE_SCATTER,
       {RS, RS},
       {BETWEEN, INNER},
       false,
       "invalid phases for reduce_scatter; expected rs:A+rs:B/G, between groups first, with algorithms A and B and "
       "group size G"},
      {TUTTI_ALLGATHER,
       {AG, AG},
       {INNER, BETWEEN},
       false,
       "invalid phases for allgather; expected ag:A/G+ag:B, within groups first, with algorithms A and B and group "
       "size G"},
  };
  const char *sentence =
      "no composites of this collective; expected allreduce, reduce, broadcast, reduce_scatter or allgather";
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
  const struct phase *last = NULL; /* the last phase so far that reduces; NULL: none */
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
    /* Groups are consecutive ranks. So rank order holds only if sums within groups are made before sums between
     * groups. */
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

/* List of all composites found so far. Like the algorithms of the table, they live as long as the process. */
static _Atomic(struct composite *) known;

const struct tu_algorithm *tu_composite_find(tutti_collective collective, const char *name, struct tu_error *error) {
  collective = tu_collectives[collective].family;
  for (const struct composite *c = atomic_load(&known); c; c = c->next)
    if (c->algorithm.collective == collective && strcmp(c->name, name) == 0) return &c->algorithm;
  if (strlen(name) >= TU_NAME_BYTES) {
    tu_fail(error, TUTTI_ERR_ARGUMENT, "algorithm '%.40s...': the name is too long; expected at most %u characters",
            name, TU_NAME_BYTES - 1);
    return NULL;
  }
  struct composite *c = tu_try_allocate(1, sizeof *c);
  if (!c) tu_arena_refuse(1, sizeof *c);
  snprintf(c->name, sizeof c->name, "%s", name);
  c->algorithm = (struct tu_algorithm){.collective = collective,
                                       .name = c->name,
                                       .summary = "composed of the phases in its name",
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
  /* room for every valid name; a longer name is cut here, and then refused because it is too long */
  char name[TU_NAME_BYTES + 16];
  size_t length = 0;
  for (const char *at = a->name; *at && length < TU_NAME_BYTES;) {
    size_t until = strcspn(at, "/");
    length += (size_t)snprintf(name + length, sizeof name - length, "%.*s", (int)until, at);
    at += until;
    if (!*at || length >= TU_NAME_BYTES) break;
    length +=
        /* Every phase with groups gets the new size, because all phases of a name have the same group size. */
        (size_t)snprintf(name + length, sizeof name - length, "/%u", group);
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
