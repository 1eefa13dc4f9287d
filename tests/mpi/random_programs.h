/* random_programs.h: what the files of random_programs share. A random program is drawn from numbers on which all ranks
 * agree, and from numbers of each rank where MPI lets ranks differ. All input is a function of the operation, the rank and
 * the index, so each rank computes what it has to receive. */
#ifndef RANDOM_PROGRAMS_H
#define RANDOM_PROGRAMS_H

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- random numbers: splitmix64 ---- */

struct random {
  uint64_t state;
};
static inline uint64_t rp_mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9E3779B97F4A7C15u + b + 0x632BE59BD9B4E019u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static inline uint64_t rp_next(struct random *r) { return rp_mix(r->state += 0x9E3779B97F4A7C15u, 0); }
static inline uint32_t rp_below(struct random *r, uint32_t count) { return (uint32_t)((rp_next(r) >> 32) % count); }
static inline bool rp_chance(struct random *r, uint32_t percent) { return rp_below(r, 100) < percent; }
/* Sets order[i] to a random permutation of 0 to count - 1. */
void rp_shuffle(struct random *r, int *order, int count);

/* ---- elements (random_types.c) ---- */

enum { PARTS_MAX = 4, ITEM_ELEMENTS_MAX = 12 };
enum part { I8, U8, I16, U16, I32, U32, I64, U64, F32, F64, F80, BOOL };
enum class {
  OF_INTEGER,
  OF_FLOAT,
  OF_COMPLEX,
  OF_LOGICAL,
  OF_BYTES,
  OF_PAIR,
  OF_MOVED,
  OF_USER_ONE,
  OF_USER_TWO,
  OF_USER_FOUR
};

/* A datatype of which messages consist: one to four numbers. */
struct row {
  const char *name;
  MPI_Datatype type;
  enum class class;
  int parts;
  enum part part[PARTS_MAX];
  int at[PARTS_MAX]; /* offsets in bytes */
  int extent;
  bool gaps_kept; /* bytes between the parts may not be written */
};

struct value {
  int64_t x[PARTS_MAX];
};

/* A reduction. */
struct operation {
  const char *name;
  MPI_Op op;
  MPI_User_function *function; /* NULL: `op` is predefined */
  bool commutes;
  uint32_t classes; /* bits of enum class */
  struct value (*apply)(enum class class, struct value left, struct value right);
  struct value (*draw)(const struct row *row, uint64_t hash, int rank);
};

void rp_types_begin(void);
void rp_types_end(void);
/* Draws a datatype for a collective that moves data. strict: the MPI carries out nothing of it, so its errors do not matter. */
const struct row *rp_any_row(struct random *r, bool strict);
/* Draws a reduction and a datatype for it. */
const struct operation *rp_any_operation(struct random *r, const struct row **row);
/* Returns the input of element `index`. operation NULL: of a move. */
struct value rp_input(const struct operation *operation, const struct row *row, uint64_t key, int rank, size_t index);
/* Writes an element. `real`: floats get values that are not integers. */
void rp_encode(const struct row *row, struct value value, bool real, char *at);
/* Copies the bytes of an element that belong to no number. */
void rp_copy_gaps(const struct row *row, const char *from, char *to);

/* ---- layouts (random_types.c): derived datatypes of equal elements ---- */

struct layout {
  const struct row *row;
  MPI_Datatype type;
  bool owned;                        /* rp_layout_free frees `type` */
  int elements;                      /* number of elements of an item */
  int64_t at[2 * ITEM_ELEMENTS_MAX]; /* their offsets in bytes */
  MPI_Aint extent;
};
/* Draws a datatype of `elements` elements. `items`: how many of them lie in one buffer at most. */
void rp_layout_make(struct layout *l, const struct row *row, int elements, int64_t items, struct random *r);
/* Replaces the datatype by the same one at an absolute address. */
void rp_layout_move(struct layout *l, const void *to);
void rp_layout_free(struct layout *l);

/* ---- collectives (random_calls.c) ---- */

/* clang-format off */
#define RP_COUNTING(X)                                                                                          \
  X(Allreduce, allreduce, REDUCING) X(Reduce, reduce, REDUCING_ROOTED) X(Scan, scan, REDUCING)                  \
  X(Exscan, exscan, REDUCING) X(Reduce_scatter, reduce_scatter, REDUCING_COUNTS)                                \
  X(Reduce_scatter_block, reduce_scatter_block, REDUCING) X(Bcast, bcast, BCAST)                                \
  X(Gather, gather, ROOTED) X(Gatherv, gatherv, GATHERV) X(Scatter, scatter, ROOTED)                            \
  X(Scatterv, scatterv, SCATTERV) X(Allgather, allgather, ALL) X(Allgatherv, allgatherv, ALLGATHERV)            \
  X(Alltoall, alltoall, ALL) X(Alltoallv, alltoallv, ALLTOALLV)
#define RP_COLLECTIVES(X) RP_COUNTING(X) X(Barrier, barrier, BARRIER)
/* clang-format on */
#define RP_ENUM(Name, name, arguments) K_##Name,
enum kind { RP_COLLECTIVES(RP_ENUM) KINDS };
#undef RP_ENUM

enum form { BLOCKING, NONBLOCKING, PERSISTENT };

/* Where a program runs: a communicator and this rank in it. */
struct spot {
  MPI_Comm comm;
  int size, rank;
  bool by_idup; /* nonblocking collectives before the first blocking one are left to the MPI */
};

struct program;
struct call;
/* Draws a call from an agreed seed, takes its memory, and creates its datatypes. */
struct call *rp_call_make(struct program *p, const struct spot *spot, uint64_t seed, enum form form);
/* Calls MPI: runs, starts or initialises. */
void rp_call_issue(struct call *c, MPI_Request *request);
/* Gives the call its input. */
void rp_call_fill(struct call *c);
/* Another round of a persistent call. */
void rp_call_again(struct call *c);
/* Compares all memory of a complete call with what it must be. */
void rp_call_check(struct call *c);
void rp_call_free(struct call *c);
/* Prints the call for a trace. */
void rp_call_describe(const struct call *c, char *text, size_t bytes);

/* ---- programs (random_programs.c) ---- */

enum { POOL_BYTES = 1 << 15 };
/* Memory that one buffer at a time may use. */
struct pool {
  char *memory;
  bool taken;
};

struct program {
  uint64_t seed;
  int number, thread, step;
  bool is_threaded; /* other threads run programs, too */
  int world_rank;
  struct random agreed, local;
  struct pool stack, fixed;
  struct slots *slots;
  struct items *items;
};
/* Returns true if steps or calls of this name are left out. */
bool rp_skips(const char *name);
/* Returns true if the programs do all that MPI allows, although both MPIs have errors there. */
bool rp_strict(void);
/* Returns true if the nonblocking collectives that the door leaves to the MPI are used. Open MPI 4.1.4: those of several
 * threads hang, or read freed memory. */
bool rp_leaves_nonblocking(const struct program *p);
/* Counts a failure, and prints it. */
__attribute__((format(printf, 2, 3))) void rp_fail(const struct program *p, const char *format, ...);
__attribute__((format(printf, 2, 3))) void rp_trace(const struct program *p, const char *format, ...);

#endif
