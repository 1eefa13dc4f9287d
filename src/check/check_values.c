/* check_values.c: records what every cell (chunk of memory) holds, as an expression over the inputs of the ranks.
 *
 * A value is a number:
 *  - NOTHING: not yet written;
 *  - RAW | i: the i-th chunk among the input chunks of all ranks, not yet scaled;
 *  - otherwise the index of a sum.
 *
 * A sum adds up the scaled input chunk number `chunk` of each rank in a set of ranks. (Only premul_sum changes a chunk
 * when it scales it.) The sum also records whether its operands are in rank order, and whether it is divided (avg).
 * Equal sums have the same index.
 *
 * A set of consecutive ranks (modulo N) is stored as first and count, which is all that rings and trees need. Other
 * sets are stored as bits. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "check/check_internal.h"
#include "plan/plan_text.h"

#define NOTHING 0u
#define RAW (1u << 31)
#define NO_BITS UINT32_MAX

struct sum {
  /* index of the input chunk that is added; each rank contributes the chunk of its input with this index */
  uint32_t chunk;
  uint32_t first, count; /* first rank and number of ranks that contribute; first is 0 if the set is stored as bits */
  uint32_t bits; /* index in tu_values.words of the set of ranks, stored as bits; NO_BITS: stored as first and count */
  bool ordered;  /* the operands, from left to right, come from the ranks first, first + 1, ... */
  bool divided;
};

struct tu_values {
  struct tu_arena *arena;
  uint32_t *cells;
  uint32_t *sent;   /* values of the chunks of all messages, as they were when the send read them */
  struct sum *sums; /* all different sums; a value that is a sum is its index here, from 1 on */
  uint32_t sum_count, sum_capacity;
  uint32_t *table; /* hash table of `sums`: each entry is an index in `sums`; 0: free */
  uint32_t table_mask;
  uint64_t *words;
  uint32_t word_count, word_capacity;
  uint32_t set_words;     /* number of 64-bit words for a set of ranks that is stored as bits */
  uint64_t *left, *right; /* two temporary sets of ranks */
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

/* Writes to `set`, as one bit per rank, the ranks that contribute to a sum. */
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

/* Stores a set of ranks in the sum. Consecutive ranks are stored as first and count. Other sets are stored as bits,
 * which are appended to v->words. */
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
  /* at most one range of ranks: they are consecutive (modulo N), or are all ranks, or none; no bits are needed */
  if (starts <= 1) return;
  sum->first = 0;
  sum->bits = v->word_count;
  for (uint32_t i = 0; i < v->set_words; i++) {
    v->words = tu_arena_grow(c->arena, v->words, v->word_count, &v->word_capacity, sizeof *v->words);
    v->words[v->word_count++] = set[i];
  }
}

/* ---- the table of sums ------------------------------------------------------------------------------------------ */

static uint64_t hash_sum(const struct tu_values *v, const struct sum *s) {
  uint64_t from = (uint64_t)s->chunk << 32 | s->first;
  uint64_t what = (uint64_t)s->count << 2 | (uint64_t)s->ordered << 1 | (uint64_t)s->divided;
  /* Fibonacci hashing (multiplication by 2^64 / golden ratio) */
  uint64_t hash = (from ^ what << 40 ^ what >> 24) * 0x9e3779b97f4a7c15u + what;
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

/* Returns the value that stands for a sum: its index in v->sums. A new sum is added there. If an equal sum is there
 * already, the bits of this sum's set of ranks are removed again from the end of v->words. */
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

/* ---- the text of values, for error messages --------------------------------------------------------------------- */

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
  *value = intern(
      v, &(struct sum){
             .chunk = input - c->ranks[rank].in_base, .first = rank, .count = 1, .bits = NO_BITS, .ordered = true});
  return true;
}

/* Returns a rank that contributes to both sums a and b. If there is none, stores the union of their ranks in `sum` and
 * returns UINT32_MAX. */
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

/* Combines two values by the reduction: *value becomes *value op right. */
static bool combine(struct tu_checking *c, uint32_t step, uint32_t *value, uint32_t right) {
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
  struct sum sum = {.chunk = a->chunk, .ordered = a->ordered && b->ordered && a->first + a->count == b->first};
  uint32_t doubled = unite(c, a, b, &sum);
  if (doubled != UINT32_MAX)
    return tu_check_refuse_step(c, step, "the step adds rank %u's in[%u] a second time", doubled, a->chunk);
  *value = intern(v, &sum);
  return true;
}

static bool divide(struct tu_checking *c, uint32_t step, uint32_t *value) {
  if (*value & RAW)
    return tu_check_refuse_step(c, step, "the step is marked final, but its result is %s", say(c, *value).chars);
  struct sum sum = c->values->sums[*value];
  if (sum.divided || sum.count != c->plan->ranks)
    return tu_check_refuse_step(
        c, step, "the step is marked final, but its result is %s; expected the undivided sum of all ranks",
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

/* Stores in *value the value of chunk i of the step's message number `message`, as the sender had it when it read the
 * chunk. */
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

/* ---- checking the outputs of the collective --------------------------------------------------------------------- */

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
    return tu_check_refuse(c, "rank %u: out[%u] is not reduced in rank order, but the plan claims rank order", rank,
                           chunk);
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
