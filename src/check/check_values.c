/* check_values.c: what every cell holds, as an expression over the ranks' inputs.
 *
 * A value is a number: NOTHING; RAW | i, the i-th chunk of the row of all input, as it came; or a sum. A sum is one
 * input chunk number, taken from a set of ranks, each once, scaled; it remembers whether its operands stand in rank
 * order and whether it is divided (avg). Equal sums are one sum. Sets of neighbouring ranks (around the end too) are
 * kept as first and count, which is all that rings and trees need; others as bits. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "check/check_parts.h"
#include "plan/plan_text.h"

#define NOTHING 0u
#define RAW (1u << 31)
#define NO_BITS UINT32_MAX

struct sum {
  uint32_t chunk;
  uint32_t first, count; /* ranks; with bits, first is 0 */
  uint32_t bits;         /* where they lie in tu_values.words; NO_BITS */
  bool ordered;          /* operands from left to right are first, first + 1, ... */
  bool divided;
};

struct tu_values {
  struct tu_arena *arena;
  uint32_t *cells;
  uint32_t *sent;   /* what sends have read */
  struct sum *sums; /* from 1 */
  uint32_t sum_count, sum_capacity;
  uint32_t *table; /* of sums, by hash; 0: free */
  uint32_t table_mask;
  uint64_t *words;
  uint32_t word_count, word_capacity;
  uint32_t set_words;     /* of one set of ranks */
  uint64_t *left, *right; /* sets in the making */
};

static bool follows_values(const struct tu_checking *c) {
  return tu_collectives[c->plan->collective].promise != TU_NOTHING;
}

void tu_values_create(struct tu_checking *c) {
  if (!follows_values(c)) return;
  struct tu_values *v = c->values = tu_arena_allocate(c->arena, 1, sizeof *v);
  v->arena = c->arena;
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
  v->set_words = (c->plan->ranks + 63) / 64;
  v->left = tu_arena_allocate(c->arena, v->set_words, sizeof *v->left);
  v->right = tu_arena_allocate(c->arena, v->set_words, sizeof *v->right);
}

/* ---- sets of ranks ---------------------------------------------------------------------------------------------- */

static bool has_bit(const uint64_t *set, uint32_t rank) { return set[rank / 64] >> (rank % 64) & 1; }

static void spread(const struct tu_checking *c, const struct sum *sum, uint64_t *set) {
  const struct tu_values *v = c->values;
  if (sum->bits != NO_BITS) {
    memcpy(set, v->words + sum->bits, v->set_words * sizeof *set);
    return;
  }
  memset(set, 0, v->set_words * sizeof *set);
  for (uint32_t i = 0, rank = sum->first; i < sum->count; i++, rank = rank + 1 == c->plan->ranks ? 0 : rank + 1)
    set[rank / 64] |= 1ull << (rank % 64);
}

/* Gives the sum the set, as a run of neighbours if it is one; else its bits are put at the end of the words. */
static void adopt(struct tu_checking *c, struct sum *sum, const uint64_t *set) {
  struct tu_values *v = c->values;
  uint32_t ranks = c->plan->ranks, starts = 0;
  sum->first = sum->count = 0;
  sum->bits = NO_BITS;
  for (uint32_t i = 0, last = ranks - 1; i < ranks; last = i++) {
    if (!has_bit(set, i)) continue;
    sum->count++;
    if (has_bit(set, last)) continue;
    starts++;
    sum->first = i;
  }
  if (starts <= 1) return; /* none: all ranks, from 0 */
  sum->first = 0;
  sum->bits = v->word_count;
  for (uint32_t i = 0; i < v->set_words; i++) {
    v->words = tu_arena_grow(c->arena, v->words, v->word_count, &v->word_capacity, sizeof *v->words);
    v->words[v->word_count++] = set[i];
  }
}

/* ---- sums ------------------------------------------------------------------------------------------------------- */

static uint64_t hash_sum(const struct tu_values *v, const struct sum *s) {
  uint64_t from = (uint64_t)s->chunk << 32 | s->first;
  uint64_t what = (uint64_t)s->count << 2 | (uint64_t)s->ordered << 1 | (uint64_t)s->divided;
  uint64_t hash = (from ^ what << 40 ^ what >> 24) * 0x9e3779b97f4a7c15u + what; /* Fibonacci: its high bits are good */
  hash ^= hash >> 32;
  return s->bits == NO_BITS ? hash : tu_hash(v->words + s->bits, v->set_words * sizeof *v->words, hash);
}

static bool equal_sums(const struct tu_values *v, const struct sum *a, const struct sum *b) {
  if (a->chunk != b->chunk || a->first != b->first || a->count != b->count || a->ordered != b->ordered ||
      a->divided != b->divided || (a->bits == NO_BITS) != (b->bits == NO_BITS))
    return false;
  return a->bits == NO_BITS || memcmp(v->words + a->bits, v->words + b->bits, v->set_words * sizeof *v->words) == 0;
}

static void grow_table(struct tu_values *v) {
  v->table_mask = v->table_mask * 2 + 1;
  tu_arena_free(v->arena, v->table);
  v->table = tu_arena_allocate(v->arena, (size_t)v->table_mask + 1, sizeof *v->table);
  for (uint32_t i = 1; i < v->sum_count; i++) {
    uint32_t at = (uint32_t)hash_sum(v, &v->sums[i]) & v->table_mask;
    while (v->table[at]) at = (at + 1) & v->table_mask;
    v->table[at] = i;
  }
}

/* The value that is this sum. Bits that were put at the end of the words for it go if the sum is known. */
static uint32_t intern(struct tu_values *v, const struct sum *sum) {
  uint32_t at = (uint32_t)hash_sum(v, sum) & v->table_mask;
  for (; v->table[at]; at = (at + 1) & v->table_mask) {
    const struct sum *known = &v->sums[v->table[at]];
    if (!equal_sums(v, known, sum)) continue;
    if (known->bits != sum->bits && sum->bits + v->set_words == v->word_count) v->word_count = sum->bits;
    return v->table[at];
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

/* ---- saying what a value is ------------------------------------------------------------------------------------- */

struct sentence {
  char chars[160];
};

static struct sentence say_sum(const struct tu_checking *c, const struct sum *sum) {
  struct tu_text text = {.arena = c->arena};
  uint32_t ranks = c->plan->ranks;
  uint64_t *set = tu_arena_allocate(c->arena, (ranks + 63) / 64, sizeof *set);
  spread(c, sum, set);
  tu_text_print(&text, "the %ssum of in[%u] of ranks ", sum->divided ? "divided " : "", sum->chunk);
  const char *comma = "";
  for (uint32_t i = 0; i < ranks; i++) {
    if (!has_bit(set, i)) continue;
    uint32_t end = i;
    while (end + 1 < ranks && has_bit(set, end + 1)) end++;
    tu_text_print(&text, end > i ? "%s%u-%u" : "%s%u", comma, i, end);
    comma = ",";
    i = end;
  }
  struct sentence said;
  snprintf(said.chars, sizeof said.chars, "%.120s%s", text.chars, text.length > 120 ? "..." : "");
  tu_text_fini(&text);
  tu_arena_free(c->arena, set);
  return said;
}

static struct sentence say(const struct tu_checking *c, uint32_t value) {
  struct sentence said = {"nothing yet"};
  if (value == NOTHING) return said;
  if (!(value & RAW)) return say_sum(c, &c->values->sums[value]);
  uint32_t rank = rank_of_input(c, value & ~RAW);
  snprintf(said.chars, sizeof said.chars, "in[%u] of rank %u%s", (value & ~RAW) - c->ranks[rank].in_base, rank,
           tu_reduces(c->plan->collective) ? ", not marked as first loaded" : "");
  return said;
}

/* ---- carrying out a step ---------------------------------------------------------------------------------------- */

/* Chunk i of what a step reads has been found to be *value: loads it, or refuses. */
static bool load(struct tu_checking *c, uint32_t step, uint32_t i, bool first, uint32_t *value) {
  struct tu_values *v = c->values;
  if (*value == NOTHING) return tu_check_refuse_step(c, step, "chunk %u of what it reads has not been written", i);
  if (!first) return true;
  if (!(*value & RAW))
    return tu_check_refuse_step(c, step, "it marks chunk %u as raw input, which is %s", i, say(c, *value).chars);
  uint32_t input = *value & ~RAW, rank = rank_of_input(c, input);
  if (rank != c->steps[step].rank)
    return tu_check_refuse_step(
        c, step, "it marks chunk %u as raw input, which is rank %u's: only that rank can scale it", i, rank);
  *value = intern(
      v, &(struct sum){
             .chunk = input - c->ranks[rank].in_base, .first = rank, .count = 1, .bits = NO_BITS, .ordered = true});
  return true;
}

/* A rank that is in both sets, or UINT32_MAX; else the union goes to `sum`. */
static uint32_t unite(struct tu_checking *c, const struct sum *a, const struct sum *b, struct sum *sum) {
  struct tu_values *v = c->values;
  uint32_t ranks = c->plan->ranks;
  if (a->bits == NO_BITS && b->bits == NO_BITS) {
    uint32_t ahead = (b->first + ranks - a->first) % ranks, behind = (a->first + ranks - b->first) % ranks;
    if (ahead < a->count) return b->first;
    if (behind < b->count) return a->first;
    sum->count = a->count + b->count;
    sum->bits = NO_BITS;
    if (ahead == a->count || behind == b->count) {
      sum->first = sum->count == ranks ? 0 : ahead == a->count ? a->first : b->first;
      return UINT32_MAX;
    }
  }
  spread(c, a, v->left);
  spread(c, b, v->right);
  for (uint32_t i = 0; i < v->set_words; i++) {
    if (v->left[i] & v->right[i]) return i * 64 + (uint32_t)__builtin_ctzll(v->left[i] & v->right[i]);
    v->left[i] |= v->right[i];
  }
  adopt(c, sum, v->left);
  return UINT32_MAX;
}

/* *value = *value op right. */
static bool combine(struct tu_checking *c, uint32_t step, uint32_t *value, uint32_t right) {
  struct tu_values *v = c->values;
  uint32_t bad = *value & RAW ? *value : right & RAW ? right : NOTHING;
  if (bad != NOTHING) return tu_check_refuse_step(c, step, "it reduces %s", say(c, bad).chars);
  const struct sum *a = &v->sums[*value], *b = &v->sums[right];
  if (a->divided || b->divided)
    return tu_check_refuse_step(c, step, "it reduces %s, which is final", say_sum(c, a->divided ? a : b).chars);
  if (a->chunk != b->chunk)
    return tu_check_refuse_step(c, step, "it reduces %s with %s: not the same chunk", say_sum(c, a).chars,
                                say_sum(c, b).chars);
  struct sum sum = {.chunk = a->chunk, .ordered = a->ordered && b->ordered && a->first + a->count == b->first};
  uint32_t doubled = unite(c, a, b, &sum);
  if (doubled != UINT32_MAX)
    return tu_check_refuse_step(c, step, "it adds rank %u's in[%u] a second time", doubled, a->chunk);
  *value = intern(v, &sum);
  return true;
}

static bool divide(struct tu_checking *c, uint32_t step, uint32_t *value) {
  if (*value & RAW)
    return tu_check_refuse_step(c, step, "it is marked final, and its result is %s", say(c, *value).chars);
  struct sum sum = c->values->sums[*value];
  if (sum.divided || sum.count != c->plan->ranks)
    return tu_check_refuse_step(c, step, "it is marked final, and its result is %s: expected that of all ranks, once",
                                say_sum(c, &sum).chars);
  sum.divided = true;
  *value = intern(c->values, &sum);
  return true;
}

void tu_values_send(struct tu_checking *c, uint32_t step) {
  if (!follows_values(c)) return;
  const struct tu_step *s = tu_check_step_at(c, step);
  uint32_t cell = tu_check_cell(c, c->steps[step].rank, s->source);
  memcpy(c->values->sent + c->steps[step].snapshot, c->values->cells + cell, s->source.count * sizeof(uint32_t));
}

/* Chunk i of the message-th message of the step, as its sender loaded it. */
static bool load_message(struct tu_checking *c, uint32_t step, uint32_t message, uint32_t i, uint32_t *value) {
  uint32_t sender = c->messages[c->step_messages[c->steps[step].message_first + message]].send;
  *value = c->values->sent[c->steps[sender].snapshot + i];
  return load(c, sender, i, tu_check_step_at(c, sender)->first, value);
}

static bool result_of(struct tu_checking *c, uint32_t step, uint32_t i, uint32_t *value) {
  const struct tu_step *s = tu_check_step_at(c, step);
  const struct tu_rank_plan *r = tu_check_rank_of(c, step);
  const uint32_t *cells = c->values->cells;
  uint32_t rank = c->steps[step].rank, message = 0;
  if (s->kind == TU_RECV) return load_message(c, step, 0, i, value);
  if (s->kind == TU_COPY) {
    *value = cells[tu_check_cell(c, rank, s->source) + i];
    return load(c, step, i, s->first, value);
  }
  for (uint32_t k = 0; k < s->operand_count; k++) {
    const struct tu_operand *o = &r->operands[s->operand_first + k];
    uint32_t operand;
    if (o->peer != TU_LOCAL) {
      if (!load_message(c, step, message++, i, &operand)) return false;
    } else {
      operand = cells[tu_check_cell(c, rank, o->span) + i];
      if (!load(c, step, i, o->first, &operand)) return false;
    }
    if (k == 0) *value = operand;
    else if (!combine(c, step, value, operand)) return false;
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

/* ---- the promise ------------------------------------------------------------------------------------------------ */

static bool check_output(struct tu_checking *c, uint32_t rank, uint32_t chunk, uint32_t value) {
  const struct tu_plan *p = c->plan;
  struct tu_promised promised = tu_promise_of(p->collective, p->ranks, p->root, rank, chunk / p->split);
  uint32_t in = promised.in_block * p->split + chunk % p->split;
  if (!tu_reduces(p->collective)) {
    if (value == (RAW | (c->ranks[promised.from].in_base + in))) return true;
    return tu_check_refuse(c, "rank %u: at the end out[%u] holds %s; expected in[%u] of rank %u", rank, chunk,
                           say(c, value).chars, in, promised.from);
  }
  bool divided = tu_collectives[p->collective].promise == TU_SUM_OF_ALL;
  const struct sum expected = {in, promised.from, promised.to - promised.from, NO_BITS, true, divided};
  const struct sum *s = value == NOTHING || value & RAW ? NULL : &c->values->sums[value];
  if (!s || s->chunk != in || s->first != promised.from || s->count != expected.count || s->bits != NO_BITS ||
      s->divided != divided)
    return tu_check_refuse(c, "rank %u: at the end out[%u] holds %s; expected %s", rank, chunk, say(c, value).chars,
                           say_sum(c, &expected).chars);
  c->report->rank_order &= s->ordered;
  if (p->rank_order && !s->ordered)
    return tu_check_refuse(c, "rank %u: out[%u] is not reduced in rank order, as the plan claims", rank, chunk);
  return true;
}

bool tu_check_outputs(struct tu_checking *c) {
  c->report->rank_order = true;
  if (!follows_values(c)) return true;
  for (uint32_t r = 0; r < c->plan->ranks; r++) {
    uint32_t out = tu_plan_chunks(c->plan, r, TU_OUT);
    uint32_t cell = out ? tu_check_cell(c, r, (struct tu_span){TU_OUT, 0, out}) : 0;
    for (uint32_t i = 0; i < out; i++)
      if (!check_output(c, r, i, c->values->cells[cell + i])) return false;
  }
  return true;
}
