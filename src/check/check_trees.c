/* check_trees.c: trees of operands. */
#include "check/check_trees.h"

#include <string.h>

#define NO_BITS UINT32_MAX
/* A tree is printed up to this depth, and so many characters. */
enum { DEPTH_MAX = 60, TEXT_MAX = 120 };

struct tu_trees {
  struct tu_arena *arena;
  uint32_t ranks;
  uint32_t *leaves;      /* [rank]: its leaf; TU_NO_TREE: not made yet */
  struct tu_tree *trees; /* all different trees */
  uint32_t count, capacity;
  uint32_t *table; /* hash table of sums: each entry is an index in `trees`, plus 1; 0: free */
  uint32_t table_mask;
  uint64_t *words; /* sets of ranks that are stored as bits */
  uint32_t word_count, word_capacity;
  uint32_t set_words;     /* number of words of a set */
  uint64_t *left, *right; /* two temporary sets of ranks */
};

struct tu_trees *tu_trees_create(struct tu_arena *arena, uint32_t ranks) {
  struct tu_trees *t = tu_arena_allocate(arena, 1, sizeof *t);
  *t = (struct tu_trees){
      .arena = arena, .ranks = ranks, .capacity = 8, .table_mask = 63, .set_words = (ranks + 63) / 64};
  t->leaves = tu_arena_allocate(arena, ranks, sizeof *t->leaves);
  for (uint32_t r = 0; r < ranks; r++) t->leaves[r] = TU_NO_TREE;
  t->trees = tu_arena_allocate(arena, t->capacity, sizeof *t->trees);
  t->table = tu_arena_allocate(arena, 64, sizeof *t->table);
  t->left = tu_arena_allocate(arena, t->set_words, sizeof *t->left);
  t->right = tu_arena_allocate(arena, t->set_words, sizeof *t->right);
  return t;
}

const struct tu_tree *tu_tree_at(const struct tu_trees *t, uint32_t tree) { return &t->trees[tree]; }

static uint32_t add(struct tu_trees *t, const struct tu_tree *tree) {
  t->trees = tu_arena_grow(t->arena, t->trees, t->count, &t->capacity, sizeof *t->trees);
  t->trees[t->count] = *tree;
  return t->count++;
}

uint32_t tu_tree_leaf(struct tu_trees *t, uint32_t rank) {
  if (t->leaves[rank] == TU_NO_TREE)
    t->leaves[rank] = add(t, &(struct tu_tree){.left = TU_NO_TREE,
                                               .right = TU_NO_TREE,
                                               .ranks = {rank, 1, NO_BITS},
                                               .rounded = true,
                                               .ordered = true,
                                               .canonical = true});
  return t->leaves[rank];
}

/* ---- sets of ranks ---- */

static bool has_bit(const uint64_t *set, uint32_t rank) { return set[rank / 64] >> (rank % 64) & 1; }

/* Writes a set as one bit per rank. */
static void spread(const struct tu_trees *t, const struct tu_rank_set *from, uint64_t *set) {
  if (from->bits != NO_BITS) {
    memcpy(set, t->words + from->bits, t->set_words * sizeof *set);
    return;
  }
  memset(set, 0, t->set_words * sizeof *set);
  for (uint32_t i = 0, rank = from->first; i < from->count; i++, rank = rank + 1 == t->ranks ? 0 : rank + 1)
    set[rank / 64] |= 1ull << (rank % 64);
}

/* Stores a set of ranks that is given as bits. */
static struct tu_rank_set store(struct tu_trees *t, const uint64_t *set) {
  struct tu_rank_set stored = {.bits = NO_BITS};
  uint32_t starts = 0;
  for (uint32_t i = 0, last = t->ranks - 1; i < t->ranks; last = i++) {
    if (!has_bit(set, i)) continue;
    stored.count++;
    if (has_bit(set, last)) continue;
    starts++;
    stored.first = i;
  }
  /* at most one range of ranks: they are consecutive (modulo N), or are all ranks; no bits are needed */
  if (starts <= 1) return stored;
  stored.first = 0;
  stored.bits = t->word_count;
  for (uint32_t i = 0; i < t->set_words; i++) {
    t->words = tu_arena_grow(t->arena, t->words, t->word_count, &t->word_capacity, sizeof *t->words);
    t->words[t->word_count++] = set[i];
  }
  return stored;
}

/* Stores the union of two sets. Returns a rank that is in both; UINT32_MAX: there is none. */
static uint32_t unite(struct tu_trees *t, const struct tu_rank_set *a, const struct tu_rank_set *b,
                      struct tu_rank_set *both) {
  if (a->bits == NO_BITS && b->bits == NO_BITS) {
    const uint32_t ahead = (b->first + t->ranks - a->first) % t->ranks,
                   behind = (a->first + t->ranks - b->first) % t->ranks;
    if (ahead < a->count) return b->first;
    if (behind < b->count) return a->first;
    const uint32_t count = a->count + b->count;
    if (ahead == a->count || behind == b->count) {
      const uint32_t first = count == t->ranks ? 0 : ahead == a->count ? a->first : b->first;
      *both = (struct tu_rank_set){first, count, NO_BITS};
      return UINT32_MAX;
    }
  }
  spread(t, a, t->left);
  spread(t, b, t->right);
  for (uint32_t i = 0; i < t->set_words; i++) {
    if (t->left[i] & t->right[i]) return i * 64 + (uint32_t)__builtin_ctzll(t->left[i] & t->right[i]);
    t->left[i] |= t->right[i];
  }
  *both = store(t, t->left);
  return UINT32_MAX;
}

bool tu_tree_is_of(const struct tu_trees *t, uint32_t tree, uint32_t first, uint32_t count) {
  const struct tu_rank_set *set = &t->trees[tree].ranks;
  return set->bits == NO_BITS && set->first == first && set->count == count;
}

/* ---- sums ---- */

/* Returns true if the sum of two nodes of the canonical tree is a node, too: [a, a + 2^k) and [a + 2^k, e), where a is a
 * multiple of 2^(k+1), and e at most a + 2^(k+1). */
static bool are_halves(const struct tu_tree *left, const struct tu_tree *right) {
  if (!left->canonical || !right->canonical || !left->rounded || !right->rounded) return false;
  const struct tu_rank_set *low = left->ranks.first < right->ranks.first ? &left->ranks : &right->ranks;
  const struct tu_rank_set *high = low == &left->ranks ? &right->ranks : &left->ranks;
  const bool is_power = (low->count & (low->count - 1)) == 0;
  return is_power && low->first % (2 * (uint64_t)low->count) == 0 && high->first == low->first + low->count &&
         high->count <= low->count;
}

static uint32_t place_of(const struct tu_trees *t, uint32_t left, uint32_t right, bool rounded) {
  const uint64_t key = ((uint64_t)left << 32 | right) * 2 + rounded;
  /* Fibonacci hashing (multiplication by 2^64 / golden ratio) */
  const uint64_t hash = (key ^ key >> 29) * 0x9e3779b97f4a7c15u;
  uint32_t at = (uint32_t)(hash >> 32) & t->table_mask;
  for (; t->table[at]; at = (at + 1) & t->table_mask) {
    const struct tu_tree *known = &t->trees[t->table[at] - 1];
    if (known->left == left && known->right == right && known->rounded == rounded) break;
  }
  return at;
}

static void grow_table(struct tu_trees *t) {
  t->table_mask = t->table_mask * 2 + 1;
  tu_arena_free(t->arena, t->table);
  t->table = tu_arena_allocate(t->arena, (size_t)t->table_mask + 1, sizeof *t->table);
  for (uint32_t i = 0; i < t->count; i++) {
    const struct tu_tree *tree = &t->trees[i];
    if (tree->left != TU_NO_TREE) t->table[place_of(t, tree->left, tree->right, tree->rounded)] = i + 1;
  }
}

uint32_t tu_tree_join(struct tu_trees *t, uint32_t left, uint32_t right, bool rounded, uint32_t *doubled) {
  const uint32_t at = place_of(t, left, right, rounded);
  if (t->table[at]) return t->table[at] - 1;
  const struct tu_tree *a = &t->trees[left], *b = &t->trees[right];
  struct tu_tree sum = {.left = left,
                        .right = right,
                        .rounded = rounded,
                        .ordered = a->ordered && b->ordered && a->ranks.first + a->ranks.count == b->ranks.first,
                        .canonical = are_halves(a, b)};
  *doubled = unite(t, &a->ranks, &b->ranks, &sum.ranks);
  if (*doubled != UINT32_MAX) return TU_NO_TREE;
  const uint32_t made = add(t, &sum);
  t->table[at] = made + 1;
  if (t->count > t->table_mask / 2) grow_table(t);
  return made;
}

/* ---- text ---- */

void tu_tree_print_ranks(const struct tu_trees *t, uint32_t tree, struct tu_text *text) {
  uint64_t *set = tu_arena_allocate(t->arena, t->set_words, sizeof *set);
  spread(t, &t->trees[tree].ranks, set);
  const char *comma = "";
  for (uint32_t i = 0; i < t->ranks; i++) {
    if (!has_bit(set, i)) continue;
    uint32_t end = i;
    while (end + 1 < t->ranks && has_bit(set, end + 1)) end++;
    tu_text_print(text, end > i ? "%s%u-%u" : "%s%u", comma, i, end);
    comma = ",";
    i = end;
  }
  tu_arena_free(t->arena, set);
}

/* Prints a tree, unless the text has become too long already. */
static void print(const struct tu_trees *t, uint32_t tree, struct tu_text *text, size_t end, int depth) {
  const struct tu_tree *node = &t->trees[tree];
  if (text->length >= end) return;
  if (node->left == TU_NO_TREE || depth == DEPTH_MAX) {
    if (node->left == TU_NO_TREE) tu_text_print(text, "%u", node->ranks.first);
    else tu_text_print(text, "...");
    return;
  }
  if (node->rounded) tu_text_print(text, "(");
  print(t, node->left, text, end, depth + 1);
  tu_text_print(text, " ");
  print(t, node->right, text, end, depth + 1);
  if (node->rounded) tu_text_print(text, ")");
}

static void print_canonical(uint32_t first, uint32_t count, struct tu_text *text, size_t end) {
  if (text->length >= end) return;
  if (count == 1) {
    tu_text_print(text, "%u", first);
    return;
  }
  const uint32_t half = tu_pow2_floor(count - 1);
  tu_text_print(text, "(");
  print_canonical(first, half, text, end);
  tu_text_print(text, " ");
  print_canonical(first + half, count - half, text, end);
  tu_text_print(text, ")");
}

static void cut(struct tu_text *text, size_t end) {
  if (text->length < end) return;
  text->length = end;
  tu_text_print(text, "...");
}

void tu_tree_print(const struct tu_trees *t, uint32_t tree, struct tu_text *text) {
  const size_t end = text->length + TEXT_MAX;
  print(t, tree, text, end, 0);
  cut(text, end);
}

void tu_tree_print_canonical(uint32_t first, uint32_t count, struct tu_text *text) {
  const size_t end = text->length + TEXT_MAX;
  print_canonical(first, count, text, end);
  cut(text, end);
}
