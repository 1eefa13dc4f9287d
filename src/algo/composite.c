/* composite.c: algorithms composed of phases by name, for example "rs:pat+ag:bucket". composite.h defines the names.
 *
 * In some composites, the phases work on smaller and smaller shares of the vector, then on larger ones again. In
 * others, they collect everything at one rank per group and distribute it again.
 *
 * Groups may nest: ranks, locality groups, hosts. A *unit* of level 0 is a rank, a unit of level 1 a group of the first
 * kind in the name, and so on; the unit of the highest level is all ranks. Units are ranges of consecutive ranks, so
 * that shares are contiguous chunks. A phase of level L runs between the units of level L that lie in one unit of level
 * L + 1, with one rank of each. */
#include "algo/composite.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/placement.h"

enum { PHASES_MAX = 6, GROUPS_MAX = 2 };
/* Sizes of groups that are no numbers. OPEN: the size will be that of the communicator's groups by caches or NUMA
 * nodes. HOSTS: a group is the ranks of a host. */
#define OPEN UINT32_MAX
#define HOSTS (UINT32_MAX - 1)

enum kind { RS, AG, AR, RE, BC, GA, SC, KINDS };
static const struct {
  const char *name;
  tutti_collective collective;
  int closes; /* kind of the earlier phase that a phase of this kind undoes (ag undoes rs); -1: none */
} kinds[KINDS] = {
    [RS] = {"rs", TUTTI_REDUCE_SCATTER, -1}, [AG] = {"ag", TUTTI_ALLGATHER, RS}, [AR] = {"ar", TUTTI_ALLREDUCE, -1},
    [RE] = {"re", TUTTI_REDUCE, -1},         [BC] = {"bc", TUTTI_BROADCAST, RE}, [GA] = {"ga", TUTTI_GATHER, RS},
    [SC] = {"sc", TUTTI_SCATTER, -1}};

struct phase {
  const struct tu_algorithm *algorithm;
  enum kind kind;
  uint32_t size;  /* size of the groups within which the phase runs; 0: it runs between the largest groups */
  uint32_t level; /* level of the units between which the phase runs */
  /* Bit l, for levels l below `level`: which ranks of a unit of level l + 1 take part. 1: those of one unit of level l,
   * which acts for the others (re, bc). 0: each has a share of the vector (rs, ag), and the ranks with the same index
   * in their units run the phase together. */
  uint32_t leads;
};

struct composite {
  struct tu_algorithm algorithm; /* must be the first member, so that composite_of can cast its address */
  struct composite *next;
  char name[TU_NAME_BYTES];
  struct phase phases[PHASES_MAX];
  uint32_t phase_count;
  /* [level - 1]: number of ranks of a unit of levels 1 to group_levels: a number, OPEN or HOSTS */
  uint32_t sizes[GROUPS_MAX], group_levels;
  uint32_t even; /* bit l: every unit of level l + 1 must have the same number of units of level l */
};

static const struct composite *composite_of(const struct tu_algorithm *a) { return (const struct composite *)a; }
static bool is_open(const struct composite *c) { return c->group_levels > 0 && c->sizes[0] == OPEN; }

/* ---- units: ranks, groups of ranks, all ranks ---- */

/* The ranks for which a composite is built. */
struct ground {
  const struct composite *c;
  const struct tu_placement *placement;
  uint32_t ranks, root;
  uint32_t turn; /* for composites by hosts without root: turns the work of leaders over the ranks of a host */
};

static struct ground ground_of(const struct tu_build *what) {
  return (struct ground){
      .c = composite_of(what->algorithm), .placement = what->placement, .ranks = what->ranks, .root = what->root};
}

/* The ranks `first` to `end` - 1. */
struct unit {
  uint32_t first, end;
};

static uint32_t size_of(const struct ground *g, uint32_t level) { return level > 0 ? g->c->sizes[level - 1] : 1; }

/* Returns the number of units of a level in a unit of the next level. */
static uint32_t units_in(const struct ground *g, uint32_t level, struct unit unit) {
  uint32_t size = size_of(g, level);
  return size == HOSTS ? g->placement->hosts : (unit.end - unit.first + size - 1) / size;
}

/* Returns unit number `index` of a level in a unit of the next level. If the size does not divide the number of ranks,
 * the last unit is shorter. */
static struct unit unit_in(const struct ground *g, uint32_t level, struct unit unit, uint32_t index) {
  uint32_t size = size_of(g, level);
  if (size == HOSTS) return (struct unit){tu_placement_first(g->placement, index), g->placement->end[index]};
  uint32_t first = unit.first + index * size;
  return (struct unit){first, (uint32_t)tu_min((uint64_t)first + size, unit.end)};
}

/* Returns the index of the unit of a level that contains the rank, in a unit of the next level. */
static uint32_t index_in(const struct ground *g, uint32_t level, struct unit unit, uint32_t rank) {
  uint32_t size = size_of(g, level);
  return size == HOSTS ? tu_placement_host(g->placement, rank) : (rank - unit.first) / size;
}

/* Returns the unit of a level that contains the rank. */
static struct unit unit_at(const struct ground *g, uint32_t level, uint32_t rank) {
  struct unit unit = {0, g->ranks};
  for (uint32_t l = g->c->group_levels + 1; l-- > level;) unit = unit_in(g, l, unit, index_in(g, l, unit, rank));
  return unit;
}

/* Returns the index of the unit of a level that acts for a unit of the next level. With a root: the index that the
 * root's unit has in its own larger unit; if the larger unit is shorter and has no such index, 0. */
static uint32_t leader_in(const struct ground *g, uint32_t level, struct unit unit) {
  uint32_t count = units_in(g, level, unit);
  if (!tu_collectives[g->c->algorithm.collective].rooted) return g->turn % count;
  uint32_t index = index_in(g, level, unit_at(g, level + 1, g->root), g->root);
  return index < count ? index : 0;
}

/* ---- the sets of ranks in which a phase runs ---- */

/* A set of ranks that run a phase together: one rank of each unit of the phase's level, in one unit of the next level.
 * `choice` numbers the possible choices of ranks: each share of the vector has its own. */
struct set {
  uint32_t choice;
  struct unit unit;
};

/* Returns the number of choices of ranks in a unit of the phase's level. */
static uint32_t choices_in(const struct ground *g, const struct phase *p, struct unit unit) {
  uint32_t choices = 1;
  for (uint32_t l = p->level; l-- > 0; unit = unit_in(g, l, unit, 0))
    if (!(p->leads >> l & 1)) choices *= units_in(g, l, unit);
  return choices;
}

static struct set first_set(const struct ground *g, const struct phase *p) {
  return (struct set){0, unit_at(g, p->level + 1, 0)};
}

/* Moves on to the next set. Returns false after the last one. */
static bool next_set(const struct ground *g, const struct phase *p, struct set *s) {
  if (++s->choice < choices_in(g, p, unit_in(g, p->level, s->unit, 0))) return true;
  if (s->unit.end == g->ranks) return false;
  *s = (struct set){0, unit_at(g, p->level + 1, s->unit.end)};
  return true;
}

static uint32_t set_size(const struct ground *g, const struct phase *p, const struct set *s) {
  return units_in(g, p->level, s->unit);
}

/* Returns the rank that takes part in the set for its unit number `index`. */
static uint32_t member_of(const struct ground *g, const struct phase *p, const struct set *s, uint32_t index) {
  struct unit unit = unit_in(g, p->level, s->unit, index);
  uint32_t choice = s->choice;
  for (uint32_t l = p->level; l-- > 0;) {
    uint32_t count = units_in(g, l, unit);
    bool leads = p->leads >> l & 1;
    unit = unit_in(g, l, unit, leads ? leader_in(g, l, unit) : choice % count);
    if (!leads) choice /= count;
  }
  return unit.first;
}

/* ---- the number of chunks per block ---- */

/* Multiplies two numbers. The product stops at UINT32_MAX instead of overflowing. */
static uint32_t product(uint32_t a, uint32_t b) { return (uint32_t)tu_min((uint64_t)a * b, UINT32_MAX); }
static uint32_t least_multiple(uint32_t a, uint32_t b) { return product(a / tu_divisor(a, b), b); }

/* Returns the number of chunks per block. Each phase works on a part of the vector. The number of chunks of this part
 * must be a multiple of the number that the phase's algorithm needs. */
static uint32_t split(const struct tu_build *what) {
  const struct ground g = ground_of(what);
  bool rows = tu_collectives[g.c->algorithm.collective].in != tu_collectives[g.c->algorithm.collective].out;
  uint32_t chunks = 1;
  for (uint32_t i = g.c->phase_count; i-- > 0;) {
    const struct phase *p = &g.c->phases[i];
    struct set s = first_set(&g, p);
    uint32_t known = 0;
    do {
      uint32_t size = set_size(&g, p, &s);
      if (size != known) chunks = least_multiple(chunks, tu_build_sub_split(what, p->algorithm, size));
      known = size;
    } while (next_set(&g, p, &s));
  }
  for (uint32_t i = 0; i < g.c->phase_count && !rows; i++) {
    const struct phase *p = &g.c->phases[i];
    const struct set s = first_set(&g, p);
    if (p->kind == RS || p->kind == SC) chunks = product(chunks, set_size(&g, p, &s));
  }
  return chunks;
}

/* Returns true if the phase's algorithm supports all sets of ranks, and these have equal sizes where that is needed. */
static bool phase_fits(const struct ground *g, const struct phase *p) {
  struct set s = first_set(g, p);
  uint32_t known = 0;
  do {
    uint32_t size = set_size(g, p, &s);
    if (known && size != known && (g->c->even >> p->level & 1)) return false;
    if (size != known && !tu_algorithm_fits(p->algorithm, size)) return false;
    known = size;
  } while (next_set(g, p, &s));
  return true;
}

static bool fits(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  const struct ground g = {.c = composite_of(a), .placement = placement, .ranks = ranks};
  if (is_open(g.c) || ((a->flags & TU_BY_HOSTS) && !placement)) return false;
  if (a->multiple_of > 0 && ranks % a->multiple_of > 0) return false;
  for (uint32_t i = 0; i < g.c->phase_count; i++)
    if (!phase_fits(&g, &g.c->phases[i])) return false;
  return true;
}

/* Returns true if the units of a phase's set are blocks of the canonical tree: runs of 2^k ranks that begin at a multiple
 * of their length, of which the last may be shorter. */
static bool are_blocks(const struct ground *g, const struct phase *p, const struct set *s) {
  const uint32_t count = set_size(g, p, s);
  const struct unit first = unit_in(g, p->level, s->unit, 0);
  const uint32_t length = first.end - first.first;
  bool blocks = (length & (length - 1)) == 0 && first.first % ((uint64_t)length << tu_log2_ceil(count)) == 0;
  for (uint32_t i = 1; i < count && blocks; i++) {
    const struct unit unit = unit_in(g, p->level, s->unit, i);
    blocks = unit.end - unit.first == length || (i + 1 == count && unit.end - unit.first < length);
  }
  return blocks;
}

/* A composite is canonical if the phases that reduce go from the smallest units to the largest, and each does so in the
 * canonical order. */
static bool canonical(const struct tu_algorithm *a, uint32_t ranks, const struct tu_placement *placement) {
  const struct ground g = {.c = composite_of(a), .placement = placement, .ranks = ranks};
  const struct phase *last = NULL;
  for (uint32_t i = 0; i < g.c->phase_count; i++) {
    const struct phase *p = &g.c->phases[i];
    if (p->kind != RS && p->kind != AR && p->kind != RE) continue;
    if (last && last->level >= p->level) return false;
    struct set s = first_set(&g, p);
    do {
      const uint32_t size = set_size(&g, p, &s);
      if (!are_blocks(&g, p, &s) || (size > 1 && !tu_algorithm_is_canonical(p->algorithm, size, NULL))) return false;
    } while (next_set(&g, p, &s));
    last = p;
  }
  return true;
}

/* ---- building the phases ---- */

/* State while a composite is built: for each rank, where its data is after the phases that are already built. */
struct course {
  struct tu_builder *b;
  struct ground g;
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
  tutti_collective c = k->g.c->algorithm.collective;
  bool has_out = c != TUTTI_REDUCE_SCATTER && (c != TUTTI_REDUCE || rank == tu_build_root(k->b));
  return has_out ? tu_out(like.first, like.count) : tu_tmp(k->b, rank, like, 1);
}

/* Returns the span where the phase stores its result at the i-th of the `count` ranks that run it together. `last`:
 * this is the last phase. */
static struct tu_span result_of(const struct course *k, const struct phase *p, uint32_t i, uint32_t count, bool last) {
  uint32_t rank = k->members[i];
  struct tu_span have = k->have[rank];
  tutti_collective c = k->g.c->algorithm.collective;
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

/* Builds an inner collective (tu_build_sub) for a set of ranks. */
static void run_set(struct course *k, const struct phase *p, const struct set *s, bool last) {
  uint32_t count = set_size(&k->g, p, s), root = leader_in(&k->g, p->level, s->unit);
  bool to_root = p->kind == RE || p->kind == GA;
  for (uint32_t i = 0; i < count; i++) k->members[i] = member_of(&k->g, p, s, i);
  /* A rank alone already has the result: its data. After the last phase, this must be in its output. */
  if (count == 1 && !last) return;
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

static void build(struct tu_builder *b) {
  uint32_t n = tu_build_ranks(b);
  struct course k = {.b = b, .g = ground_of(tu_build_what(b))};
  const struct composite *c = k.g.c;
  if (c->algorithm.flags & TU_BY_HOSTS) k.g.turn = tu_build_part(b);
  k.have = tu_build_memory(b, (size_t)n * 4, sizeof *k.have);
  k.in = k.have + n, k.out = k.in + n, k.row = k.out + n;
  k.members = tu_build_memory(b, n, sizeof *k.members);
  for (uint32_t rank = 0; rank < n; rank++) {
    k.have[rank] = tu_in_blocks_at(b, 0, c->algorithm.collective == TUTTI_REDUCE_SCATTER ? n : 1);
    if (c->algorithm.collective == TUTTI_BROADCAST && rank != tu_build_root(b))
      k.have[rank] = tu_out_blocks_at(b, 0, 1);
  }
  for (uint32_t i = 0; i < c->phase_count; i++) {
    struct set s = first_set(&k.g, &c->phases[i]);
    do run_set(&k, &c->phases[i], &s, i + 1 == c->phase_count);
    while (next_set(&k.g, &c->phases[i], &s));
  }
}

/* ---- parsing and checking names ---- */

static tutti_err refuse(struct tu_error *error, const char *name, const char *sentence) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "algorithm '%s': %s", name, sentence);
}

/* Parses the text after '/' in the name of a composite: a group size, g or h. */
static bool read_group(struct phase *p, const char *text) {
  uint64_t size = strcmp(text, "g") == 0 ? OPEN : strcmp(text, "h") == 0 ? HOSTS : 0;
  if (!size && (!tu_parse_uint(text, TU_RANKS_MAX, &size) || size == 0)) return false;
  p->size = (uint32_t)size;
  return true;
}

/* Finds the levels of the phases. Locality groups, or groups of a given size, may lie within hosts. Other groups do not
 * nest: all phases of the name must have the same. Returns false if this is not so. */
static bool find_levels(struct composite *c) {
  uint32_t small = 0, large = 0;
  for (uint32_t i = 0; i < c->phase_count; i++) {
    uint32_t size = c->phases[i].size, *known = size == HOSTS ? &large : &small;
    if (size && *known && size != *known) return false;
    if (size) *known = size;
  }
  if (small) c->sizes[c->group_levels++] = small;
  if (large) c->sizes[c->group_levels++] = large;
  for (uint32_t i = 0; i < c->phase_count; i++) {
    struct phase *p = &c->phases[i];
    p->level = p->size == 0 ? c->group_levels : p->size == small ? 0 : c->group_levels - 1;
  }
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
    if (!read_group(p, group))
      return refuse(error, c->name,
                    "invalid group size after '/'; expected a number of ranks, g (ranks that share a cache or a NUMA "
                    "node) or h (ranks of a host)");
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
 * other rank exactly once: on each level, one phase reduces. */
static tutti_err check_allreduce(struct composite *c, struct tu_error *error) {
  const struct phase *open[PHASES_MAX];
  uint32_t depth = 0, reduced = 0; /* reduced: bit l: a phase of level l reduces */
  bool closing = false;
  for (uint32_t i = 0; i < c->phase_count; i++) {
    struct phase *p = &c->phases[i];
    for (uint32_t k = 0; k < depth; k++)
      if (open[k]->kind == RE && open[k]->level < p->level) p->leads |= 1u << open[k]->level;
    if (p->kind == AG || p->kind == BC) {
      closing = true;
      if (depth == 0 || open[depth - 1]->level != p->level || (int)open[depth - 1]->kind != kinds[p->kind].closes)
        return refuse(error, c->name,
                      "expected each allgather (ag) to complete the last open reduce_scatter (rs), and each broadcast "
                      "(bc) the last open reduce (re), over the same ranks");
      p->leads = open[--depth]->leads;
      continue;
    }
    if (p->kind == GA || p->kind == SC || closing || (reduced >> p->level & 1))
      return refuse(error, c->name,
                    "invalid phases for allreduce; expected rs+ag (reduce_scatter, allgather) or re+bc (reduce, "
                    "broadcast), or these around an ar (allreduce), each over different ranks");
    if (p->kind == RE && reduced != (1u << p->level) - 1)
      return refuse(error, c->name,
                    "invalid order; expected a phase within groups before a reduce (re) between groups");
    reduced |= 1u << p->level;
    closing = p->kind == AR;
    if (p->kind != AR) open[depth++] = p;
  }
  if (depth > 0)
    return refuse(error, c->name,
                  "missing phases; expected an allgather (ag) for each reduce_scatter (rs), and a broadcast (bc) for "
                  "each reduce (re)");
  return reduced == (2u << c->group_levels) - 1
             ? TUTTI_OK
             : refuse(error, c->name, "missing phases; expected reductions both within the groups and between them");
}

/* Checks the phases of other collectives than allreduce: a pair of phases over all ranks, or one phase for each level,
 * in ascending or descending order. */
static tutti_err check_others(struct composite *c, struct tu_error *error) {
  static const struct {
    tutti_collective collective;
    enum kind pair[2]; /* kinds of the pair of phases over all ranks; equal: there is no such pair */
    enum kind kind;    /* kind of the phases of every level */
    bool descends;
    uint32_t leads; /* phase.leads of these phases, in the bits of lower levels */
    const char *sentence;
  } forms[] = {
      {TUTTI_REDUCE,
       {RS, GA},
       RE,
       false,
       UINT32_MAX,
       "invalid phases for reduce; expected rs:A+ga:B or re:A/G+re:B, with algorithms A and B and group size G"},
      {TUTTI_BROADCAST,
       {SC, AG},
       BC,
       true,
       UINT32_MAX,
       "invalid phases for broadcast; expected sc:A+ag:B or bc:A+bc:B/G, with algorithms A and B and group size G"},
      {TUTTI_REDUCE_SCATTER,
       {RS, RS},
       RS,
       true,
       0,
       "invalid phases for reduce_scatter; expected rs:A+rs:B/G, between groups first, with algorithms A and B and "
       "group size G"},
      {TUTTI_ALLGATHER,
       {AG, AG},
       AG,
       false,
       0,
       "invalid phases for allgather; expected ag:A/G+ag:B, within groups first, with algorithms A and B and group "
       "size G"},
  };
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    if (forms[i].collective != c->algorithm.collective) continue;
    const enum kind *pair = forms[i].pair;
    if (c->group_levels == 0 && c->phase_count == 2 && pair[0] != pair[1] && c->phases[0].kind == pair[0] &&
        c->phases[1].kind == pair[1])
      return TUTTI_OK;
    bool right = c->group_levels > 0 && c->phase_count == c->group_levels + 1;
    for (uint32_t k = 0; k < c->phase_count && right; k++) {
      struct phase *p = &c->phases[k];
      right = p->kind == forms[i].kind && p->level == (forms[i].descends ? c->group_levels - k : k);
      p->leads = forms[i].leads & ((1u << p->level) - 1);
    }
    return right ? TUTTI_OK : refuse(error, c->name, forms[i].sentence);
  }
  return refuse(error, c->name,
                "no composites of this collective; expected allreduce, reduce, broadcast, reduce_scatter or allgather");
}

static void set_requirements(struct composite *c) {
  const struct phase *last = NULL; /* the last phase so far that reduces; NULL: none */
  uint32_t largest = c->group_levels > 0 ? c->sizes[c->group_levels - 1] : 0;
  if (is_open(c)) c->algorithm.flags |= TU_OPEN_GROUPS;
  if (largest == HOSTS) c->algorithm.flags |= TU_BY_HOSTS;
  bool rank_order = true, equal_blocks = false,
       rows = c->algorithm.collective == TUTTI_REDUCE_SCATTER || c->algorithm.collective == TUTTI_ALLGATHER;
  for (uint32_t i = 0; i < c->phase_count; i++) {
    const struct phase *p = &c->phases[i];
    if ((p->kind == RS || p->kind == AG) && p->level < c->group_levels) c->even |= 1u << p->level;
    equal_blocks |= (p->algorithm->flags & TU_EQUAL_BLOCKS) != 0;
    c->algorithm.flags |= p->algorithm->flags & TU_AGGREGATES;
    c->algorithm.lanes = (uint32_t)tu_max(c->algorithm.lanes, p->algorithm->lanes);
    if (p->kind != RS && p->kind != AR && p->kind != RE) continue;
    /* Groups are consecutive ranks. So rank order holds only if sums within groups are made before sums between
     * groups. */
    rank_order &= (p->algorithm->flags & TU_RANK_ORDER) && (!last || last->level < p->level);
    last = p;
  }
  if (c->even && largest < HOSTS) c->algorithm.multiple_of = largest;
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
  if (!find_levels(c))
    return refuse(
        error, c->name,
        "invalid groups; expected the same size after each '/', or one size and h: these groups within hosts");
  tutti_err err = c->algorithm.collective == TUTTI_ALLREDUCE ? check_allreduce(c, error) : check_others(c, error);
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
                                       .canonical = canonical,
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
  const struct composite *c = composite_of(a);
  return a->build == build && c->group_levels > 0 && c->sizes[0] < HOSTS ? c->sizes[0] : 0;
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
    /* Every phase with groups gets the new size, because these have the same size in all phases; hosts stay hosts. */
    length += (size_t)(at[1] == 'h' ? snprintf(name + length, sizeof name - length, "/h")
                                    : snprintf(name + length, sizeof name - length, "/%u", group));
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
    /* on several hosts */
    {TUTTI_ALLREDUCE, "rs:direct/h+ar:ring+ag:direct/h"},
    {TUTTI_ALLREDUCE, "re:direct/h+ar:recursive_doubling+bc:direct/h"},
    {TUTTI_ALLREDUCE, "rs:direct/2+rs:direct/h+ar:ring+ag:direct/h+ag:direct/2"},
    {TUTTI_REDUCE, "re:direct/2+re:direct/h+re:binomial"},
    {TUTTI_BROADCAST, "bc:chain+bc:direct/h"},
    {TUTTI_ALLGATHER, "ag:direct/h+ag:bucket"},
    {TUTTI_REDUCE_SCATTER, "rs:bucket+rs:direct/h"},
};
const size_t tu_composite_example_count = sizeof tu_composite_examples / sizeof tu_composite_examples[0];
