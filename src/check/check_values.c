/* check_values.c: records what every cell (chunk of memory) holds, as an expression over the inputs of the ranks.
 *
 * A value is a number:
 *  - NOTHING: not yet written;
 *  - RAW | i: the i-th chunk among the input chunks of all ranks, not yet scaled;
 *  - otherwise the index of a sum.
 *
 * A sum adds up the scaled input chunk number `chunk` of some ranks, in the order of a tree (check_trees.h). (Only
 * premul_sum changes a chunk when it scales it.) The sum also records whether it is divided (avg). Equal sums have the same
 * index. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "check/check_internal.h"
#include "check/check_trees.h"
#include "plan/plan_text.h"

#define NOTHING 0u
#define RAW (1u << 31)

/* Where a sum is divided by the number of ranks. Only AT_ROOT is canonical: narrow floats are then divided before the sum is
 * rounded. */
enum divided { UNDIVIDED, AT_ROOT, LATER };

struct sum {
  /* index of the input chunk that is added; each rank contributes the chunk of its input with this index */
  uint32_t chunk;
  uint32_t tree;
  enum divided divided;
};

struct tu_values {
  struct tu_arena *arena;
  struct tu_trees *trees;
  uint32_t *cells;
  uint32_t *sent;   /* values of the chunks of all messages, as they were when the send read them */
  struct sum *sums; /* all different sums; a value that is a sum is its index here, from 1 on */
  uint32_t sum_count, sum_capacity;
  uint32_t *table; /* hash table of `sums`: each entry is an index in `sums`; 0: free */
  uint32_t table_mask;
  /* [ranks + 1]: of the first output that sums so many ranks: its tree; TU_NO_TREE: none was seen */
  uint32_t *output_trees;
  bool canonical, uniform; /* so are the outputs that were seen */
};

static bool follows_values(const struct tu_checking *c) {
  return tu_collectives[c->plan->collective].promise != TU_NOTHING;
}

void tu_values_create(struct tu_checking *c) {
  if (!follows_values(c)) return;
  struct tu_values *v = c->values = tu_arena_allocate(c->arena, 1, sizeof *v);
  v->arena = c->arena;
  v->trees = tu_trees_create(c->arena, c->plan->ranks);
  v->cells = tu_arena_allocate(c->arena, tu_check_cells(c), sizeof *v->cells);
  for (uint32_t r = 0; r < c->plan->ranks; r++) {
    uint32_t in = tu_plan_chunks(c->plan, r, TU_IN);
    uint32_t cell = in ? tu_check_cell(c, r, (struct tu_span){TU_IN, 0, in}) : 0;
    for (uint32_t i = 0; i < in; i++) v->cells[cell + i] = RAW | (c->ranks[r].in_base + i);
  }
  uint32_t sent = 0;
  for (uint32_t s = 0; s < tu_check_steps(c); s++) {
    const struct tu_step *step = tu_check_step_at(c, s);
    c->steps[s].snapshot = sent;
    if (step->kind == TU_SEND) sent += step->source.count;
  }
  v->sent = tu_arena_allocate(c->arena, sent, sizeof *v->sent);
  v->sum_count = 1;
  v->sum_capacity = 8;
  v->sums = tu_arena_allocate(c->arena, v->sum_capacity, sizeof *v->sums);
  v->table_mask = 63;
  v->table = tu_arena_allocate(c->arena, 64, sizeof *v->table);
  v->output_trees = tu_arena_allocate(c->arena, (size_t)c->plan->ranks + 1, sizeof *v->output_trees);
  for (uint32_t i = 0; i <= c->plan->ranks; i++) v->output_trees[i] = TU_NO_TREE;
  v->canonical = v->uniform = true;
}

static const struct tu_tree *tree_of(const struct tu_checking *c, const struct sum *sum) {
  return tu_tree_at(c->values->trees, sum->tree);
}

/* ---- the table of sums ------------------------------------------------------------------------------------------ */

static uint64_t hash_sum(const struct sum *s) {
  uint64_t key = ((uint64_t)s->chunk << 32 | s->tree) * 3 + (uint64_t)s->divided;
  /* Fibonacci hashing (multiplication by 2^64 / golden ratio) */
  uint64_t hash = (key ^ key >> 29) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

static void grow_table(struct tu_values *v) {
  v->table_mask = v->table_mask * 2 + 1;
  tu_arena_free(v->arena, v->table);
  v->table = tu_arena_allocate(v->arena, (size_t)v->table_mask + 1, sizeof *v->table);
  for (uint32_t i = 1; i < v->sum_count; i++) {
    uint32_t at = (uint32_t)hash_sum(&v->sums[i]) & v->table_mask;
    while (v->table[at]) at = (at + 1) & v->table_mask;
    v->table[at] = i;
  }
}

/* Returns the value that stands for a sum: its index in v->sums. A new sum is added there. */
static uint32_t intern(struct tu_values *v, const struct sum *sum) {
  uint32_t at = (uint32_t)hash_sum(sum) & v->table_mask;
  for (; v->table[at]; at = (at + 1) & v->table_mask) {
    const struct sum *known = &v->sums[v->table[at]];
    if (known->chunk == sum->chunk && known->tree == sum->tree && known->divided == sum->divided) return v->table[at];
  }
  v->sums = tu_arena_grow(v->arena, v->sums, v->sum_count, &v->sum_capacity, sizeof *v->sums);
  v->sums[v->sum_count] = *sum;
  v->table[at] = v->sum_count;
  uint32_t value = v->sum_count++;
  if (v->sum_count > v->table_mask / 2) grow_table(v);
  return value;
}

static uint32_t rank_of_input(const struct tu_checking *c, uint32_t input) {
  uint32_t low = 0, high = c->plan->ranks;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (c->ranks[middle].in_base <= input) low = middle;
    else high = middle;
  }
  return low;
}

/* ---- the text of values, for error messages --------------------------------------------------------------------- */

struct sentence {
  char chars[160];
};

static struct sentence shorten(struct tu_text *text) {
  struct sentence said;
  snprintf(said.chars, sizeof said.chars, "%.120s%s", text->chars, text->length > 120 ? "..." : "");
  tu_text_fini(text);
  return said;
}

static struct sentence say_sum(const struct tu_checking *c, const struct sum *sum) {
  struct tu_text text = {.arena = c->arena};
  tu_text_print(&text, "the %ssum of in[%u] of ranks ", sum->divided ? "divided " : "", sum->chunk);
  tu_tree_print_ranks(c->values->trees, sum->tree, &text);
  return shorten(&text);
}

static struct sentence say(const struct tu_checking *c, uint32_t value) {
  struct sentence said = {"nothing yet"};
  if (value == NOTHING) return said;
  if (!(value & RAW)) return say_sum(c, &c->values->sums[value]);
  uint32_t rank = rank_of_input(c, value & ~RAW);
  snprintf(said.chars, sizeof said.chars, "in[%u] of rank %u%s", (value & ~RAW) - c->ranks[rank].in_base, rank,
           tu_reduces(c->plan->collective) ? ", not marked first" : "");
  return said;
}

/* ---- how a step changes the values of chunks -------------------------------------------------------------------- */

/* Checks chunk i of the data that a step reads; *value is the chunk's value. Refuses the plan if the chunk was never
 * written. If the step marks the chunk as raw input (`first`), the chunk must be input of the step's rank. Then *value
 * becomes the sum of this rank's input alone. */
static bool load(struct tu_checking *c, uint32_t step, uint32_t i, bool first, uint32_t *value) {
  struct tu_values *v = c->values;
  if (*value == NOTHING) return tu_check_refuse_step(c, step, "chunk %u of the step's source has not been written", i);
  if (!first) return true;
  if (!(*value & RAW))
    return tu_check_refuse_step(c, step, "chunk %u of the step's source is marked as unscaled input, but holds %s", i,
                                say(c, *value).chars);
  uint32_t input = *value & ~RAW, rank = rank_of_input(c, input);
  if (rank != c->steps[step].rank)
    return tu_check_refuse_step(
        c, step,
        "chunk %u of the step's source is marked as unscaled input, but is input of rank %u, which alone can scale it",
        i, rank);
  *value = intern(v, &(struct sum){.chunk = input - c->ranks[rank].in_base, .tree = tu_tree_leaf(v->trees, rank)});
  return true;
}

/* Combines two values by the reduction: *value becomes *value op right, rounded to the datatype or not. */
static bool combine(struct tu_checking *c, uint32_t step, uint32_t *value, uint32_t right, bool rounded) {
  struct tu_values *v = c->values;
  uint32_t bad = *value & RAW ? *value : right & RAW ? right : NOTHING;
  if (bad != NOTHING)
    return tu_check_refuse_step(c, step, "the step reduces input that no step has scaled yet: %s", say(c, bad).chars);
  const struct sum *a = &v->sums[*value], *b = &v->sums[right];
  if (a->divided || b->divided)
    return tu_check_refuse_step(c, step, "the step reduces %s, which is already final",
                                say_sum(c, a->divided ? a : b).chars);
  if (a->chunk != b->chunk)
    return tu_check_refuse_step(c, step, "the step reduces %s with %s; expected the same chunk", say_sum(c, a).chars,
                                say_sum(c, b).chars);
  uint32_t doubled;
  const struct sum sum = {.chunk = a->chunk, .tree = tu_tree_join(v->trees, a->tree, b->tree, rounded, &doubled)};
  if (sum.tree == TU_NO_TREE)
    return tu_check_refuse_step(c, step, "the step adds rank %u's in[%u] a second time", doubled, a->chunk);
  *value = intern(v, &sum);
  return true;
}

static bool divide(struct tu_checking *c, uint32_t step, uint32_t *value) {
  if (*value & RAW)
    return tu_check_refuse_step(c, step, "the step is marked final, but its result is %s", say(c, *value).chars);
  struct sum sum = c->values->sums[*value];
  const uint8_t kind = tu_check_step_at(c, step)->kind;
  if (sum.divided || tree_of(c, &sum)->ranks.count != c->plan->ranks)
    return tu_check_refuse_step(
        c, step, "the step is marked final, but its result is %s; expected the undivided sum of all ranks",
        say_sum(c, &sum).chars);
  sum.divided = c->plan->ranks == 1 || kind == TU_REDUCE || kind == TU_RECV_REDUCE ? AT_ROOT : LATER;
  *value = intern(c->values, &sum);
  return true;
}

void tu_values_send(struct tu_checking *c, uint32_t step) {
  if (!follows_values(c)) return;
  const struct tu_step *s = tu_check_step_at(c, step);
  uint32_t cell = tu_check_cell(c, c->steps[step].rank, s->source);
  memcpy(c->values->sent + c->steps[step].snapshot, c->values->cells + cell, s->source.count * sizeof(uint32_t));
}

/* Stores in *value the value of chunk i of the step's message number `message`, as the sender had it when it read the
 * chunk. */
static bool load_message(struct tu_checking *c, uint32_t step, uint32_t message, uint32_t i, uint32_t *value) {
  uint32_t sender = c->messages[c->step_messages[c->steps[step].message_first + message]].send;
  *value = c->values->sent[c->steps[sender].snapshot + i];
  return load(c, sender, i, tu_check_step_at(c, sender)->first, value);
}

/* Stores in *value the value of chunk i of operand k of a reduction. *message counts the operands that are messages. */
static bool load_operand(struct tu_checking *c, uint32_t step, uint32_t k, uint32_t i, uint32_t *message,
                         uint32_t *value) {
  const struct tu_operand *o = &tu_check_rank_of(c, step)->operands[tu_check_step_at(c, step)->operand_first + k];
  if (o->peer != TU_LOCAL) return load_message(c, step, (*message)++, i, value);
  *value = c->values->cells[tu_check_cell(c, c->steps[step].rank, o->span) + i];
  return load(c, step, i, o->first, value);
}

/* Combines the operands `first` to `first + count` - 1 of a step that is marked as a tree. */
static bool combine_tree(struct tu_checking *c, uint32_t step, uint32_t first, uint32_t count, uint32_t i,
                         uint32_t *message, uint32_t *value) {
  if (count == 1) return load_operand(c, step, first, i, message, value);
  const uint32_t half = tu_pow2_floor(count - 1);
  uint32_t right;
  return combine_tree(c, step, first, half, i, message, value) &&
         combine_tree(c, step, first + half, count - half, i, message, &right) && combine(c, step, value, right, true);
}

static bool result_of(struct tu_checking *c, uint32_t step, uint32_t i, uint32_t *value) {
  const struct tu_step *s = tu_check_step_at(c, step);
  uint32_t message = 0;
  if (s->kind == TU_RECV) return load_message(c, step, 0, i, value);
  if (s->kind == TU_COPY) {
    *value = c->values->cells[tu_check_cell(c, c->steps[step].rank, s->source) + i];
    return load(c, step, i, s->first, value);
  }
  if (s->tree) return combine_tree(c, step, 0, s->operand_count, i, &message, value);
  for (uint32_t k = 0; k < s->operand_count; k++) {
    uint32_t operand;
    if (!load_operand(c, step, k, i, &message, &operand)) return false;
    if (k == 0) *value = operand;
    else if (!combine(c, step, value, operand, k + 1 == s->operand_count)) return false;
  }
  return true;
}

bool tu_values_apply(struct tu_checking *c, uint32_t step) {
  if (!follows_values(c)) return true;
  const struct tu_step *s = tu_check_step_at(c, step);
  uint32_t cell = tu_check_cell(c, c->steps[step].rank, s->target), value = NOTHING;
  for (uint32_t i = 0; i < s->target.count; i++) {
    if (!result_of(c, step, i, &value)) return false;
    if (s->final && !divide(c, step, &value)) return false;
    c->values->cells[cell + i] = value;
  }
  return true;
}

/* ---- checking the outputs of the collective --------------------------------------------------------------------- */

static struct sentence say_tree(const struct tu_checking *c, uint32_t tree) {
  struct tu_text text = {.arena = c->arena};
  tu_tree_print(c->values->trees, tree, &text);
  return shorten(&text);
}

static struct sentence say_canonical(const struct tu_checking *c, uint32_t count) {
  struct tu_text text = {.arena = c->arena};
  tu_tree_print_canonical(0, count, &text);
  return shorten(&text);
}

/* Notes in which order an output is reduced, and refuses a plan that claims another order. */
static bool check_order(struct tu_checking *c, uint32_t rank, uint32_t chunk, const struct sum *s) {
  const struct tu_plan *p = c->plan;
  struct tu_values *v = c->values;
  const struct tu_tree *tree = tree_of(c, s);
  const uint32_t count = tree->ranks.count;
  uint32_t *first = &v->output_trees[count];
  c->report->rank_order &= tree->ordered;
  if (p->rank_order && !tree->ordered)
    return tu_check_refuse(c, "rank %u: out[%u] is not reduced in rank order, but the plan claims rank order", rank,
                           chunk);
  if (*first == TU_NO_TREE) *first = s->tree;
  v->uniform &= *first == s->tree;
  v->canonical &= tree->canonical && s->divided != LATER;
  c->report->order = v->canonical ? TU_CANONICAL : v->uniform ? TU_UNIFORM : TU_BY_CHUNK;
  if (c->report->order >= p->order) return true;
  if (p->order == TU_CANONICAL)
    return tu_check_refuse(
        c, "rank %u: out[%u] is reduced as %s%s, but the plan claims the canonical order, which is %s", rank, chunk,
        say_tree(c, s->tree).chars, s->divided == LATER ? ", and divided later" : "", say_canonical(c, count).chars);
  return tu_check_refuse(c, "rank %u: out[%u] is reduced as %s, but the plan claims one order, and begins with %s",
                         rank, chunk, say_tree(c, s->tree).chars, say_tree(c, *first).chars);
}

static bool check_output(struct tu_checking *c, uint32_t rank, uint32_t chunk, uint32_t value) {
  const struct tu_plan *p = c->plan;
  struct tu_promised promised = tu_promise_of(p->collective, p->ranks, p->root, rank, chunk / p->split);
  uint32_t in = promised.in_block * p->split + chunk % p->split;
  if (!tu_reduces(p->collective)) {
    if (value == (RAW | (c->ranks[promised.from].in_base + in))) return true;
    return tu_check_refuse(c, "rank %u: at the end out[%u] holds %s; expected in[%u] of rank %u", rank, chunk,
                           say(c, value).chars, in, promised.from);
  }
  const bool divided = tu_collectives[p->collective].promise == TU_SUM_OF_ALL;
  const struct sum *s = value == NOTHING || value & RAW ? NULL : &c->values->sums[value];
  const bool whole =
      s && s->chunk == in && tu_tree_is_of(c->values->trees, s->tree, promised.from, promised.to - promised.from);
  if (whole && (s->divided != UNDIVIDED) == divided) return check_order(c, rank, chunk, s);
  return tu_check_refuse(c, "rank %u: at the end out[%u] holds %s; expected the %ssum of in[%u] of ranks %u-%u%s", rank,
                         chunk, say(c, value).chars, divided ? "divided " : "", in, promised.from, promised.to - 1,
                         whole && divided ? ": the step that completes a sum must be marked final" : "");
}

bool tu_check_outputs(struct tu_checking *c) {
  c->report->rank_order = true;
  c->report->order = TU_CANONICAL;
  if (!follows_values(c)) return true;
  for (uint32_t r = 0; r < c->plan->ranks; r++) {
    uint32_t out = tu_plan_chunks(c->plan, r, TU_OUT);
    uint32_t cell = out ? tu_check_cell(c, r, (struct tu_span){TU_OUT, 0, out}) : 0;
    for (uint32_t i = 0; i < out; i++)
      if (!check_output(c, r, i, c->values->cells[cell + i])) return false;
  }
  return true;
}
