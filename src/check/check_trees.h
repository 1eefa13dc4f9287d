/* check_trees.h: trees of operands: in which order a value was summed from the inputs of ranks.
 *
 * A leaf is the input of one rank. Equal trees have the same number, so trees can be compared without being walked. A
 * tree does not know chunks: every chunk that is summed in this order has the same tree. */
#ifndef TU_CHECK_TREES_H
#define TU_CHECK_TREES_H

#include "base/arena.h"
#include "base/text.h"

#define TU_NO_TREE UINT32_MAX

/* A set of ranks. Consecutive ranks (modulo N), which are all that rings and trees need, are stored as first and count;
 * other sets as bits, and their `first` is 0. */
struct tu_rank_set {
  uint32_t first, count;
  uint32_t bits; /* index of the bits in the memory of the trees; UINT32_MAX: the ranks are consecutive */
};

struct tu_tree {
  uint32_t left, right; /* the operands; TU_NO_TREE: a leaf */
  struct tu_rank_set ranks;
  bool rounded; /* the sum is rounded to the datatype before it is used again; not so within a step of many operands */
  bool ordered; /* the leaves, from left to right, are the ranks first, first + 1, ... */
  bool canonical; /* this is a node of the canonical tree (docs/ORDER.md); operands may be swapped */
};

struct tu_trees;

struct tu_trees *tu_trees_create(struct tu_arena *arena, uint32_t ranks);
const struct tu_tree *tu_tree_at(const struct tu_trees *trees, uint32_t tree);
/* Returns the tree of a rank's own input. */
uint32_t tu_tree_leaf(struct tu_trees *trees, uint32_t rank);
/* Returns the tree of the sum of two trees. If a rank contributes to both, returns TU_NO_TREE, and sets *doubled to that
 * rank. */
uint32_t tu_tree_join(struct tu_trees *trees, uint32_t left, uint32_t right, bool rounded, uint32_t *doubled);
/* Returns true if these ranks, and no others, contribute. */
bool tu_tree_is_of(const struct tu_trees *trees, uint32_t tree, uint32_t first, uint32_t count);
/* Prints the ranks that contribute, for example "0-3,6". */
void tu_tree_print_ranks(const struct tu_trees *trees, uint32_t tree, struct tu_text *text);
/* Prints the operands, for example "((0 1) (2 3))". Operands that are summed without rounding have no parentheses of
 * their own: "(0 1 2)". Of a long text only the beginning is printed. */
void tu_tree_print(const struct tu_trees *trees, uint32_t tree, struct tu_text *text);
/* Prints the canonical tree of the ranks first to first + count - 1. */
void tu_tree_print_canonical(uint32_t first, uint32_t count, struct tu_text *text);

#endif
