/* call.h: a call after it has been checked and resolved: where its input and output lie in memory, and its settings. */
#ifndef TU_CALL_H
#define TU_CALL_H

#include "engine/engine.h"

/* Signature of a call. Two calls with equal signatures can use the same program. Signatures are compared as bytes. For
 * a vector variant the counts and displacements are compared, too, because the signature contains only their hash. */
struct tu_signature {
  uint8_t collective, type;
  bool in_place;
  uint8_t lanes; /* number of lanes that the caller requested; 0: none requested */
  uint32_t op;
  uint32_t root; /* the root; for send and recv: the peer */
  /* bits that change the program of a call, but not the plan from which the program is made (TU_ORDERED changes both) */
  uint32_t form : 8;
  uint32_t element_bytes : 24; /* TUTTI_BYTES: bytes of an element; 0 for all other datatypes */
  uint64_t count;
  double scale;
  const char *algorithm; /* name of the forced algorithm, as in the table of algorithms; NULL: no algorithm is forced */
  uint64_t counts_hash;
  uint64_t plan;    /* hash of the user's plan; 0: the call names no plan */
  uint64_t tensors; /* hash of the tensors' layouts; 0: no tensors */
};
/* Bits of tu_signature.form. TU_FILLS: the input is partitioned; TU_TELLS: the output is partitioned. TU_SEND_BLOCKS,
 * TU_RECV_BLOCKS: the blocks of the input, of the output have addresses of their own. TU_ORDERED: the reduction has the
 * canonical order, and its bits depend on it. */
#define TU_FILLS 1u
#define TU_TELLS 2u
#define TU_SEND_BLOCKS 4u
#define TU_RECV_BLOCKS 8u
#define TU_ORDERED 16u
_Static_assert(sizeof(struct tu_signature) == 64, "a signature must fill one cache line");

/* The tensors of a call. `users` counts the pointers to this struct that are in use; the last user frees it. */
struct tu_call_tensors {
  uint32_t users;
  tutti_tensor in, out; /* all zero: this rank has no such tensor */
  struct tu_map *in_map, *out_map;
  struct tu_fold in_fold, out_fold;
  /* hash of what must be equal on all ranks: the shape of a block, and the dimension along which tensors are cut into
   * blocks */
  uint64_t facts;
};

/* A checked and resolved call. */
struct tu_call {
  struct tu_signature signature;
  /* Views of both buffers: which bytes are which block. Their counts, offsets and addresses point to the caller's arrays. Their
   * `split` (chunks per block) is set later, once the algorithm is known. */
  struct tu_view in, out;
  /* start of the buffers; if the blocks have addresses of their own: the lowest of these */
  const void *in_data;
  void *out_data;
  const struct tu_algorithm *forced;
  const struct tu_plan *plan; /* the user's plan, or NULL; the plan must stay valid until the request is created */
  /* tensors of the call, or NULL; owned by the communicator's memo (its last resolved call) */
  struct tu_call_tensors *tensors;
  /* tutti_call.leaves and .folded. operands: this rank adds up so many buffers, which lie one after the other from
   * in_data on, before the call begins; 0 or 1: none. Then the call is not in place, and the views are those of one. */
  uint32_t leaves, operands;
  bool folded;
  bool point_to_point;
  uint32_t tag;
};

#endif
