/* facts.h: the facts of a call that a rank publishes: enough to compare two calls, and to name a call in a message. */
#ifndef TU_FACTS_H
#define TU_FACTS_H

#include "comm/operations.h"
#include "mover/board.h"
#include "plan/builder.h"

/* TUTTI_BYTES: the bits of counts_hash that hold the bytes of an element. Such calls have no tensors. */
#define TU_FACT_ELEMENT_BYTES 0x1ffffu

/* The facts (properties) of a call. Some must be equal on all ranks; the others are only for error messages. */
struct tu_call_facts {
  uint8_t collective : 7;
  uint8_t canonical : 1; /* 1: the reduction has the canonical order */
  uint8_t type;
  uint16_t algorithm : 11; /* index of the algorithm in the table tu_algorithms */
  uint16_t leaves : 5; /* binary logarithm of tutti_call.leaves; 0 also if a single rank has another number of them */
  uint32_t root;       /* the root; for send and recv: the peer */
  uint32_t op : 27;
  uint32_t rank_order : 1; /* 1: operands must combine in rank order, so the plan depends on it */
  uint32_t lanes : 4;      /* number of lanes that the caller requested; 0: none requested */
  uint32_t hash;           /* hash of the facts that must be equal on all ranks; see tu_facts_hash */
  uint64_t count;          /* number of elements; for vector variants: this rank's own number */
  /* allgatherv, reduce_scatterv: hash of the counts of all ranks. Calls with tensors: hash of the shape of one rank's
   * block and of the dimension that is divided into blocks. TUTTI_BYTES: its lowest bits are the bytes of an element */
  uint64_t counts_hash;
  /* hash that identifies the user's plan, or an algorithm outside the table tu_algorithms; 0: `algorithm` identifies
   * the plan */
  uint64_t plan;
  char plan_name[16]; /* name of the plan, shortened to fit */
};
/* 27 bits hold ids of operations: TU_OPS_END is the first that they do not hold. */
_Static_assert(TU_LANES_MAX < 1u << 4 && TUTTI_ELEMENT_BYTES_MAX <= TU_FACT_ELEMENT_BYTES,
               "the bits of facts hold their values");
_Static_assert(sizeof(struct tu_call_facts) == TU_BOARD_WORDS * sizeof(uint64_t), "facts fill the words of a board");

/* Returns a hash of the facts that all ranks must agree on. */
uint32_t tu_facts_hash(const struct tu_call_facts *facts);
/* Returns the bytes of one rank's call: its number of elements times their size. */
uint64_t tu_facts_bytes(const struct tu_call_facts *facts);
/* Returns true if the numbers that are looked up in tables are in them: facts that another process has written may be
 * damaged. */
bool tu_facts_are_valid(const struct tu_call_facts *facts);
/* Prints a call on the communicator, for example "allreduce(count 4, f32, algorithm ring, sum)". A user's plan is
 * printed as "plan mine 0123456789abcdef". comm NULL: the reader is no rank. */
void tu_facts_print(const struct tutti_comm *comm, const struct tu_call_facts *facts, char *text, size_t text_bytes);

#endif
