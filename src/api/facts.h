/* facts.h: what a rank tells the others of a call: enough to compare, and to name it in a message. */
#ifndef TU_FACTS_H
#define TU_FACTS_H

#include "mover/board.h"

/* The facts of a call that ranks must agree on, and some for the reader. */
struct tu_call_facts {
  uint8_t collective, type;
  uint16_t algorithm; /* index in the table */
  uint32_t root;      /* or the peer */
  uint16_t op;
  uint16_t lanes;       /* 0: none were stated */
  uint32_t hash;        /* of what must be equal on all ranks; see tu_facts_hash */
  uint64_t count;       /* elements; of the vector variants, this rank's own */
  uint64_t counts_hash; /* allgatherv, reduce_scatterv: of all counts; tensors: of a block's shape and the dimension */
  uint64_t plan;        /* hash of the user's plan; 0: the algorithm is one of the table */
  char plan_name[16];   /* cut to fit */
};
_Static_assert(sizeof(struct tu_call_facts) == TU_BOARD_WORDS * sizeof(uint64_t), "facts fill the words of a board");

/* Hash of what all ranks must agree on in this call. */
uint32_t tu_facts_hash(const struct tu_call_facts *facts);
/* As "allreduce(count 4, f32, algorithm ring, sum)", or "plan mine 0123456789abcdef" for the algorithm. */
void tu_facts_print(const struct tu_call_facts *facts, char *text, size_t text_bytes);

#endif
