/* random_calls.c: one random collective: its memory, its call, and what it must give. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_programs.h"

enum { GUARD_BYTES = 64 };
enum memory { FROM_MALLOC, FROM_ALLOC_MEM, FROM_STACK, FROM_STATIC };

/* A buffer: blocks of items of a layout, with guard bytes around. */
struct side {
  bool used;
  struct layout layout;
  int blocks;
  int *counts, *displs; /* [blocks] in items */
  MPI_Count *counts_c;
  MPI_Aint *displs_c;
  size_t *lengths; /* [blocks] in elements */
  enum memory from;
  char *memory, *base; /* displacement 0 is at `base` */
  size_t bytes;
  bool bottom; /* the call gets MPI_BOTTOM, and a datatype with absolute addresses */
};

struct arguments {
  const void *send;
  void *recv;
  MPI_Count send_count, recv_count;
  MPI_Datatype send_type, recv_type;
  const int *send_counts, *send_displs, *recv_counts, *recv_displs;
  const MPI_Count *send_counts_c, *recv_counts_c;
  const MPI_Aint *send_displs_c, *recv_displs_c;
  MPI_Op op;
  int root;
  MPI_Comm comm;
};

struct call {
  struct program *program;
  enum kind kind;
  enum form form;
  int size, rank, root;
  bool in_place, real, large;
  bool strict; /* the MPI carries out nothing of it, so its errors do not matter */
  const struct row *row;
  const struct operation *operation; /* NULL: a move */
  MPI_Datatype type;                 /* of a reduction: that of the row, or a duplicate */
  size_t unit, scale;                /* blocks have unit * scale elements; v-forms: at most */
  int empty;                         /* number of items if they have no elements */
  uint64_t key;
  int round;
  bool free_early; /* datatypes and operations are freed right after the start */
  struct arguments arguments;
  struct side send, recv;
};

/* ---- tables ---- */

static const struct {
  const char *name;
  bool reduces, rooted, by_counts;
  bool send_has_all, recv_has_all; /* one block per rank */
  bool has_in_place;
} kinds[KINDS] = {
    [K_Allreduce] = {"Allreduce", true, false, false, false, false, true},
    [K_Reduce] = {"Reduce", true, true, false, false, false, true},
    [K_Scan] = {"Scan", true, false, false, false, false, true},
    [K_Exscan] = {"Exscan", true, false, false, false, false, true},
    [K_Reduce_scatter] = {"Reduce_scatter", true, false, true, false, false, true},
    [K_Reduce_scatter_block] = {"Reduce_scatter_block", true, false, false, false, false, true},
    [K_Bcast] = {"Bcast", false, true, false, false, false, false},
    [K_Gather] = {"Gather", false, true, false, false, true, true},
    [K_Gatherv] = {"Gatherv", false, true, true, false, true, true},
    [K_Scatter] = {"Scatter", false, true, false, true, false, true},
    [K_Scatterv] = {"Scatterv", false, true, true, true, false, true},
    [K_Allgather] = {"Allgather", false, false, false, false, true, true},
    [K_Allgatherv] = {"Allgatherv", false, false, true, false, true, true},
    [K_Alltoall] = {"Alltoall", false, false, false, true, true, true},
    [K_Alltoallv] = {"Alltoallv", false, false, true, true, true, true},
    [K_Barrier] = {"Barrier", false, false, false, false, false, false},
};

/* The arguments of the functions. N: type of a count; S: suffix of the arrays. */
#define REDUCING(N, S) a->send, a->recv, (N)a->send_count, a->send_type, a->op, a->comm
#define REDUCING_ROOTED(N, S) a->send, a->recv, (N)a->send_count, a->send_type, a->op, a->root, a->comm
#define REDUCING_COUNTS(N, S) a->send, a->recv, a->recv_counts##S, a->send_type, a->op, a->comm
#define BARRIER(N, S) a->comm
#define BCAST(N, S) a->recv, (N)a->recv_count, a->recv_type, a->root, a->comm
#define BOTH(N) a->send, (N)a->send_count, a->send_type, a->recv, (N)a->recv_count, a->recv_type
#define ALL(N, S) BOTH(N), a->comm
#define ROOTED(N, S) BOTH(N), a->root, a->comm
#define SENT(N) a->send, (N)a->send_count, a->send_type
#define SENT_V(S) a->send, a->send_counts##S, a->send_displs##S, a->send_type
#define RECEIVED_V(S) a->recv, a->recv_counts##S, a->recv_displs##S, a->recv_type
#define GATHERV(N, S) SENT(N), RECEIVED_V(S), a->root, a->comm
#define SCATTERV(N, S) SENT_V(S), a->recv, (N)a->recv_count, a->recv_type, a->root, a->comm
#define ALLGATHERV(N, S) SENT(N), RECEIVED_V(S), a->comm
#define ALLTOALLV(N, S) SENT_V(S), RECEIVED_V(S), a->comm

#ifdef OPEN_MPI
#define INIT_NAME(Name) MPIX_##Name##_init
#else
#define INIT_NAME(Name) MPI_##Name##_init
#endif
/* clang-format off */
#define RUN(Name, name, arguments) case K_##Name: MPI_##Name(arguments(int, )); break;
#define START(Name, name, arguments) case K_##Name: MPI_I##name(arguments(int, ), request); break;
#define INIT(Name, name, arguments) case K_##Name: INIT_NAME(Name)(arguments(int, ), MPI_INFO_NULL, request); break;
#define RUN_C(Name, name, arguments) case K_##Name: MPI_##Name##_c(arguments(MPI_Count, _c)); break;
#define START_C(Name, name, arguments) case K_##Name: MPI_I##name##_c(arguments(MPI_Count, _c), request); break;
#define INIT_C(Name, name, arguments) \
  case K_##Name: MPI_##Name##_init_c(arguments(MPI_Count, _c), MPI_INFO_NULL, request); break;
/* clang-format on */

static void issue_small(const struct call *c, MPI_Request *request) {
  const struct arguments *a = &c->arguments;
  if (c->form == BLOCKING) {
    switch (c->kind) {
      RP_COLLECTIVES(RUN)
      default: break;
    }
  } else if (c->form == NONBLOCKING) {
    switch (c->kind) {
      RP_COLLECTIVES(START)
      default: break;
    }
  } else {
    switch (c->kind) {
      RP_COLLECTIVES(INIT)
      default: break;
    }
  }
}
#ifdef OPEN_MPI /* 4.1 has no MPI_Name_c */
static void issue_large(const struct call *c, MPI_Request *request) { issue_small(c, request); }
#else
static void issue_large(const struct call *c, MPI_Request *request) {
  const struct arguments *a = &c->arguments;
  if (c->form == BLOCKING) {
    switch (c->kind) {
      RP_COUNTING(RUN_C)
      default: break;
    }
  } else if (c->form == NONBLOCKING) {
    switch (c->kind) {
      RP_COUNTING(START_C)
      default: break;
    }
  } else {
    switch (c->kind) {
      RP_COUNTING(INIT_C)
      default: break;
    }
  }
}
#endif

/* ---- how much, and which values ---- */

/* Number of elements of the block from rank `from` to rank `to`. v-forms in which only one of them matters get it as both. */
static size_t length_of(const struct call *c, int from, int to) {
  if (!kinds[c->kind].by_counts) return c->unit * c->scale;
  if (c->kind == K_Alltoallv && c->in_place && from > to) { /* both directions have equal counts */
    const int other = from;
    from = to;
    to = other;
  }
  return c->unit * (rp_mix(c->key, (uint64_t)(from * 1000 + to)) % (c->scale + 1));
}
static size_t own_length(const struct call *c, int rank) { return length_of(c, rank, rank); }

static size_t total_length(const struct call *c) {
  size_t total = 0;
  for (int i = 0; i < c->size; i++) total += own_length(c, i);
  return total;
}

static struct value input_of(const struct call *c, int from, int to, size_t index) {
  const uint64_t key = rp_mix(c->key + (uint64_t)c->round * 7919, (uint64_t)to);
  return rp_input(c->operation, c->row, key, from, index);
}

/* Returns the reduction of the input of ranks first to last. */
static struct value reduced(const struct call *c, int first, int last, size_t index) {
  struct value v = input_of(c, first, 0, index);
  for (int i = first + 1; i <= last; i++) v = c->operation->apply(c->row->class, v, input_of(c, i, 0, index));
  return v;
}

/* ---- drawing ---- */

static void draw_lengths(struct call *c, struct random *r) {
  const uint32_t percent = rp_below(r, 1000);
  const bool all = kinds[c->kind].send_has_all || kinds[c->kind].recv_has_all || c->kind == K_Reduce_scatter_block ||
                   c->kind == K_Reduce_scatter;
  c->unit = rp_chance(r, 50) ? 1 : rp_chance(r, 70) ? 12 : 8;
  if (percent < 60) c->scale = 0;
  else if (percent < 150) c->unit = c->scale = 1;
  else if (percent < 700) c->scale = 1 + rp_below(r, 24 / (uint32_t)c->unit);
  else if (percent < 990) c->scale = 1 + rp_below(r, 5000 / (uint32_t)c->unit);
  else c->scale = (100000 + rp_below(r, 50000)) / c->unit / (all ? (size_t)c->size : 1);
}

static void draw_agreed(struct call *c, struct random *r) {
  c->kind = (enum kind)rp_below(r, KINDS);
  if (rp_skips(kinds[c->kind].name)) c->kind = K_Barrier;
  c->root = (int)rp_below(r, (uint32_t)c->size);
  c->in_place = rp_chance(r, 25) && kinds[c->kind].has_in_place;
  c->real = rp_chance(r, 15);
  c->key = rp_next(r);
  draw_lengths(c, r);
  c->empty = (int)rp_below(r, 4);
  if (kinds[c->kind].reduces) c->operation = rp_any_operation(r, &c->row);
  else c->row = rp_any_row(r, c->strict);
  c->real = c->real && c->row->class == OF_FLOAT;
}

#ifndef OPEN_MPI
/* Returns true if an element has gaps, or is composed of several. */
static bool is_composed(const struct row *row) {
  int size, integers, addresses, datatypes, combiner;
  MPI_Type_size(row->type, &size);
  MPI_Type_get_envelope(row->type, &integers, &addresses, &datatypes, &combiner);
  return size < row->extent || combiner != MPI_COMBINER_NAMED;
}
#endif

/* Changes what is right, but what the MPI would carry out wrongly. */
static void avoid_errors(struct call *c) {
#ifdef OPEN_MPI
  /* Open MPI 4.1.4: a rank on which all counts are 0 takes no tag in MPI_Ialltoallv in place. The collectives that it starts
   * later get messages of others. */
  if (c->kind == K_Alltoallv && c->form != BLOCKING) c->in_place = false;
#else
  /* MPICH 4.0.2: MPI_Reduce_scatter and MPI_Reduce_scatter_block with an operation that does not commute write over the end
   * of their memory if the elements have gaps. */
  if ((c->kind == K_Reduce_scatter || c->kind == K_Reduce_scatter_block) && !c->operation->commutes &&
      c->row->gaps_kept)
    c->kind = K_Allreduce;
  /* MPICH 4.0.2: a long message that is sent as bytes and received as composed elements is "truncated", or its bytes come
   * into the gaps. MPI_Gather, MPI_Scatter, and MPI_Alltoall in place send such messages. */
  const bool composed = is_composed(c->row);
  if ((c->kind == K_Gather || c->kind == K_Scatter) && composed) c->kind = K_Allgather;
  if ((c->kind == K_Alltoall || c->kind == K_Alltoallv) && composed) c->in_place = false;
  /* MPICH 4.0.2: wrong results of MPI_Ialltoall in place, and MPI_Reduce in place reads at the address MPI_IN_PLACE. */
  if ((c->kind == K_Alltoall || c->kind == K_Alltoallv) && c->form != BLOCKING) c->in_place = false;
  if (c->kind == K_Reduce) c->in_place = false;
  /* MPICH 4.0.2: MPI_Ireduce_scatter in place copies a long block of a rank to the beginning of its buffer with memcpy, also
   * if both overlap, and its check of that ends the program. */
  if (c->kind == K_Reduce_scatter && c->form != BLOCKING) c->in_place = false;
#endif
}

/* ---- memory of a side ---- */

static size_t common_divisor(size_t a, size_t b) { return b == 0 ? a : common_divisor(b, a % b); }

/* Each rank chooses how it carries out some collectives by the size of its own datatype. Ranks with datatypes of different
 * sizes hang, or put data in wrong places. Open MPI 4.1.4: the algorithm of MPI_Allgatherv, the segments of MPI_Bcast and
 * MPI_Gather. MPICH 4.0.2: the segments of MPI_Allgatherv. */
static bool sizes_must_agree(const struct call *c) {
#ifdef OPEN_MPI
  return !c->strict && (c->kind == K_Allgatherv || c->kind == K_Bcast || c->kind == K_Gather);
#else
  return !c->strict && c->kind == K_Allgatherv;
#endif
}

/* Returns the number of elements of an item. */
static int draw_elements(const struct call *c, const struct side *s, struct random *r) {
  size_t common = 0;
  for (int i = 0; i < s->blocks; i++) common = common_divisor(common, s->lengths[i]);
  /* Open MPI 4.1.4 returns at once if a count is 0, without a tag. So all ranks count 0, or none does. */
  if (c->scale == 0) return c->empty > 0 ? 0 : 1;
  if (common == 0 || sizes_must_agree(c)) return 1;
  int elements = 1 + (int)rp_below(r, ITEM_ELEMENTS_MAX);
  while (common % (size_t)elements != 0) elements--;
  return elements;
}

/* Sets counts and displacements. Returns the number of items from displacement 0 to the end. */
static int64_t place_blocks(struct side *s, int elements, int empty, bool anywhere, struct random *r) {
  int *order = malloc((size_t)s->blocks * sizeof *order), at = 0;
  rp_shuffle(r, order, s->blocks);
  if (anywhere && rp_chance(r, 20)) at = -(int)rp_below(r, 6);
  for (int i = 0; i < s->blocks; i++) {
    const int b = anywhere ? order[i] : i;
    s->counts_c[b] = s->counts[b] = elements > 0 ? (int)(s->lengths[b] / (size_t)elements) : empty;
    s->displs_c[b] = s->displs[b] = at;
    at += s->counts[b] + (anywhere ? (int)rp_below(r, 4) : 0);
  }
  free(order);
  return at;
}

static void take_pool(struct side *s, struct pool *pool, enum memory from) {
  if (s->memory || pool->taken || s->bytes > POOL_BYTES || !pool->memory) return;
  s->memory = pool->memory;
  s->from = from;
  pool->taken = true;
}

static void take_memory(struct side *s, struct program *p, struct random *r) {
  const struct layout *l = &s->layout;
  int64_t low = 0, high = 0;
  for (int b = 0; b < s->blocks; b++)
    for (int end = 0; end < 2 && s->counts[b] > 0; end++)
      for (int i = 0; i < l->elements; i++) {
        const int64_t at = (s->displs[b] + (end ? s->counts[b] - 1 : 0)) * l->extent + l->at[i];
        if (at < low) low = at;
        if (at + l->row->extent > high) high = at + l->row->extent;
      }
  const int64_t before = (GUARD_BYTES - low + 15) / 16 * 16;
  s->bytes = (size_t)(before + high + GUARD_BYTES);
  const uint32_t choice = rp_below(r, 8);
  if (choice == 0) take_pool(s, &p->stack, FROM_STACK);
  if (choice == 1) take_pool(s, &p->fixed, FROM_STATIC);
  if (choice == 2 && MPI_Alloc_mem((MPI_Aint)s->bytes, MPI_INFO_NULL, &s->memory) == MPI_SUCCESS)
    s->from = FROM_ALLOC_MEM;
  if (!s->memory) s->memory = malloc(s->bytes);
  s->base = s->memory + before;
}

/* Makes a buffer of blocks of lengths[i] elements, which are s->lengths. */
static void make_side(struct call *c, struct side *s, int blocks, struct random *r) {
  const bool reduces = kinds[c->kind].reduces;
  const size_t room = (size_t)blocks;
  s->used = true;
  s->blocks = blocks;
  s->counts = calloc(room, sizeof *s->counts);
  s->displs = calloc(room, sizeof *s->displs);
  s->counts_c = calloc(room, sizeof *s->counts_c);
  s->displs_c = calloc(room, sizeof *s->displs_c);
  const int elements = reduces ? 1 : draw_elements(c, s, r);
  const int64_t items = place_blocks(s, elements, c->empty, kinds[c->kind].by_counts && blocks > 1, r);
  if (reduces) s->layout = (struct layout){.row = c->row, .type = c->type, .elements = 1, .extent = c->row->extent};
  else rp_layout_make(&s->layout, c->row, elements, items + 8, r);
  take_memory(s, c->program, r);
  if (!reduces && s->layout.elements > 0 && rp_chance(r, 6)) {
    s->bottom = true;
    rp_layout_move(&s->layout, s->base);
  }
}

static void free_side(struct call *c, struct side *s) {
  if (!s->used) return;
  rp_layout_free(&s->layout);
  if (s->from == FROM_MALLOC) free(s->memory);
  else if (s->from == FROM_ALLOC_MEM) MPI_Free_mem(s->memory);
  else if (s->from == FROM_STACK) c->program->stack.taken = false;
  else c->program->fixed.taken = false;
  free(s->counts);
  free(s->displs);
  free(s->counts_c);
  free(s->displs_c);
  free(s->lengths);
}

/* ---- contents of a side ---- */

static void fill_pattern(const struct call *c, char *memory, size_t bytes) {
  uint32_t state = (uint32_t)c->key + (uint32_t)c->round * 977 + (uint32_t)c->rank;
  for (size_t i = 0; i < bytes; i++) memory[i] = (char)((state = state * 1664525 + 1013904223) >> 24);
}

static char *element_at(const struct side *s, char *base, int block, size_t index) {
  const struct layout *l = &s->layout;
  const int64_t item = s->displs[block] + (int64_t)(index / (size_t)l->elements);
  return base + item * l->extent + l->at[index % (size_t)l->elements];
}

/* Writes the block that goes from rank `from` to rank `to`. */
static void put_block(const struct call *c, const struct side *s, char *memory, int block, int from, int to) {
  char *base = memory + (s->base - s->memory);
  const size_t length = s->lengths[block];
  if (!kinds[c->kind].send_has_all) to = 0; /* all ranks get the same */
  for (size_t i = 0; i < length; i++)
    rp_encode(c->row, input_of(c, from, to, i), c->real, element_at(s, base, block, i));
}

/* Writes what the program puts into its buffers before the call. */
static void put_send(const struct call *c, char *memory) {
  const struct side *s = &c->send;
  fill_pattern(c, memory, s->bytes);
  for (int i = 0; i < s->blocks; i++) put_block(c, s, memory, i, c->rank, i);
}

static bool is_root(const struct call *c) { return c->rank == c->root; }

static void put_recv(const struct call *c, char *memory) {
  const struct side *s = &c->recv;
  fill_pattern(c, memory, s->bytes);
  if (c->kind == K_Bcast && is_root(c)) put_block(c, s, memory, 0, c->rank, 0);
  if (!c->in_place || (kinds[c->kind].rooted && !is_root(c))) return;
  if (kinds[c->kind].reduces) put_block(c, s, memory, 0, c->rank, 0);
  else if (c->kind == K_Alltoall || c->kind == K_Alltoallv)
    for (int i = 0; i < c->size; i++) put_block(c, s, memory, i, c->rank, i);
  else put_block(c, s, memory, c->rank, c->rank, 0);
}

/* Ends the image of a received element with what MPI may choose. */
static void excuse(const struct call *c, char *image, const char *actual, bool undefined) {
  const bool ordered = c->real && (c->operation && (c->operation->op == MPI_SUM || c->operation->op == MPI_PROD));
  if (undefined || ordered) memcpy(image, actual, (size_t)c->row->extent);
  else if (!c->row->gaps_kept) rp_copy_gaps(c->row, actual, image);
}

static void put_reduction(const struct call *c, char *image) {
  const struct side *s = &c->recv;
  int first = 0, last = c->size - 1;
  size_t from = 0, length = s->lengths[0];
  if (c->kind == K_Scan) last = c->rank;
  if (c->kind == K_Exscan) last = c->rank - 1;
  if (c->kind == K_Reduce_scatter || c->kind == K_Reduce_scatter_block) {
    length = own_length(c, c->rank);
    for (int i = 0; i < c->rank; i++) from += own_length(c, i);
  }
  const ptrdiff_t base = s->base - s->memory;
  for (size_t i = 0; i < s->lengths[0]; i++) {
    char *at = element_at(s, image + base, 0, i);
    const char *actual = element_at(s, s->base, 0, i);
    const bool defined = i < length && last >= 0;
    if (defined) rp_encode(c->row, reduced(c, first, last, from + i), c->real, at);
    excuse(c, at, actual, !defined);
  }
}

/* Writes what the receive buffer must hold after the call. */
static void put_result(const struct call *c, char *image) {
  const struct side *s = &c->recv;
  put_recv(c, image);
  if (kinds[c->kind].reduces) {
    put_reduction(c, image);
    return;
  }
  for (int i = 0; i < s->blocks; i++) {
    put_block(c, s, image, i, kinds[c->kind].recv_has_all ? i : c->root, c->rank);
    for (size_t k = 0; k < s->lengths[i]; k++)
      excuse(c, element_at(s, image + (s->base - s->memory), i, k), element_at(s, s->base, i, k), false);
  }
}

/* ---- the call ---- */

/* Sets the number of blocks of a side, and their lengths. Returns false if this rank does not have the side. */
static bool draw_side(struct call *c, struct side *s, bool sends, struct random *r) {
  const bool root = !kinds[c->kind].rooted || is_root(c), in_place = c->in_place && root;
  const bool scatters = c->kind == K_Scatter || c->kind == K_Scatterv;
  const bool has_all = sends ? kinds[c->kind].send_has_all : kinds[c->kind].recv_has_all;
  if (c->kind == K_Barrier || (c->kind == K_Bcast && sends)) return false;
  if (in_place && sends != scatters) return false;
  if (has_all && !root) return false;
  if (c->kind == K_Reduce && !sends && !root) return false;
  const int blocks = has_all ? c->size : 1;
  s->lengths = calloc((size_t)blocks, sizeof *s->lengths);
  if (kinds[c->kind].reduces) {
    const bool blockwise = c->kind == K_Reduce_scatter || c->kind == K_Reduce_scatter_block;
    s->lengths[0] = !blockwise ? c->unit * c->scale : sends || in_place ? total_length(c) : own_length(c, c->rank);
  } else {
    for (int i = 0; i < blocks; i++) {
      const int peer = has_all ? i : c->rank;
      if (c->kind == K_Alltoallv) s->lengths[i] = sends ? length_of(c, c->rank, i) : length_of(c, i, c->rank);
      else s->lengths[i] = own_length(c, peer);
    }
  }
  make_side(c, s, blocks, r);
  return true;
}

static void *buffer_of(const struct side *s) { return s->bottom ? MPI_BOTTOM : s->base; }

static void set_send(struct call *c, struct random *r) {
  struct arguments *a = &c->arguments;
  const struct side *s = &c->send;
  const bool junk = rp_chance(r, 50);
  if (!s->used) {
    /* What is significant only at the root may be anything elsewhere. */
    a->send_type = junk ? MPI_DATATYPE_NULL : MPI_INT;
    const bool scatters = c->kind == K_Scatter || c->kind == K_Scatterv;
    if (c->in_place && !scatters) a->send = MPI_IN_PLACE;
    return;
  }
  a->send = buffer_of(s);
  a->send_count = s->counts[0];
  a->send_type = s->layout.type;
  a->send_counts = s->counts, a->send_counts_c = s->counts_c;
  a->send_displs = s->displs, a->send_displs_c = s->displs_c;
}

static void set_recv(struct call *c, struct random *r) {
  struct arguments *a = &c->arguments;
  const struct side *s = &c->recv;
  const bool junk = rp_chance(r, 50);
  if (!s->used) {
    a->recv_type = junk ? MPI_DATATYPE_NULL : MPI_INT;
    if (c->in_place && (c->kind == K_Scatter || c->kind == K_Scatterv)) a->recv = MPI_IN_PLACE;
    return;
  }
  a->recv = buffer_of(s);
  a->recv_count = s->counts[0];
  a->recv_type = s->layout.type;
  a->recv_counts = s->counts, a->recv_counts_c = s->counts_c;
  a->recv_displs = s->displs, a->recv_displs_c = s->displs_c;
}

/* The arguments that reductions have in addition. */
static void set_reduction(struct call *c) {
  struct arguments *a = &c->arguments;
  const struct operation *o = c->operation;
  a->send_type = c->type;
  a->send_count = (MPI_Count)(c->unit * c->scale);
  a->op = o->op;
  if (o->function) MPI_Op_create(o->function, o->commutes, &a->op);
  if (c->kind != K_Reduce_scatter) return;
  int *counts = calloc((size_t)c->size, sizeof *counts);
  MPI_Count *counts_c = calloc((size_t)c->size, sizeof *counts_c);
  for (int i = 0; i < c->size; i++) counts_c[i] = counts[i] = (int)own_length(c, i);
  a->recv_counts = counts;
  a->recv_counts_c = counts_c;
}

struct call *rp_call_make(struct program *p, const struct spot *spot, uint64_t seed, enum form form) {
  struct random agreed = {seed}, *local = &p->local;
  struct call *c = calloc(1, sizeof *c);
  c->program = p;
  c->form = form;
  c->size = spot->size;
  c->rank = spot->rank;
  c->strict = rp_strict() && !spot->by_idup;
  draw_agreed(c, &agreed);
  if (!c->strict) avoid_errors(c);
  /* Both MPIs use datatypes and operations of persistent collectives after the program has freed them. */
  c->free_early = rp_chance(local, 50) && !rp_skips("early") && (form != PERSISTENT || rp_strict());
  c->large = rp_chance(local, 25) && c->kind != K_Barrier;
  c->type = c->row->type;
  if (kinds[c->kind].reduces && c->operation->function && rp_chance(local, 30)) MPI_Type_dup(c->row->type, &c->type);
  draw_side(c, &c->send, true, local);
  draw_side(c, &c->recv, false, local);
  c->arguments.comm = spot->comm;
  c->arguments.root = c->root;
  c->arguments.op = MPI_OP_NULL;
  set_send(c, local);
  set_recv(c, local);
  if (kinds[c->kind].reduces) set_reduction(c);
  return c;
}

void rp_call_fill(struct call *c) {
  if (c->send.used) put_send(c, c->send.memory);
  if (c->recv.used) put_recv(c, c->recv.memory);
}

void rp_call_again(struct call *c) {
  c->round++;
  rp_call_fill(c);
}

/* Frees the handles that the call needs only when it starts. */
static void free_handles(struct call *c) {
  rp_layout_free(&c->send.layout);
  rp_layout_free(&c->recv.layout);
  if (c->operation && c->operation->function && c->arguments.op != MPI_OP_NULL) MPI_Op_free(&c->arguments.op);
  if (c->type != c->row->type) MPI_Type_free(&c->type);
  c->type = c->row->type;
}

void rp_call_issue(struct call *c, MPI_Request *request) {
  if (c->large) issue_large(c, request);
  else issue_small(c, request);
  if (c->free_early) free_handles(c);
}

static void check_side(const struct call *c, const struct side *s, const char *image, const char *what) {
  for (size_t i = 0; i < s->bytes; i++) {
    if (image[i] == s->memory[i]) continue;
    char text[300];
    rp_call_describe(c, text, sizeof text);
    rp_fail(c->program, "%s: byte %zd of the %s buffer is %d, expected %d (%zu bytes from the first)", text,
            (ptrdiff_t)i - (s->base - s->memory), what, s->memory[i], image[i],
            s->bytes - (size_t)(s->base - s->memory) - GUARD_BYTES);
    return;
  }
}

void rp_call_check(struct call *c) {
  const size_t most = c->send.bytes > c->recv.bytes ? c->send.bytes : c->recv.bytes;
  char *image = malloc(most + 1);
  if (c->send.used) {
    put_send(c, image);
    check_side(c, &c->send, image, "send");
  }
  if (c->recv.used) {
    put_result(c, image);
    check_side(c, &c->recv, image, "receive");
  }
  free(image);
}

void rp_call_free(struct call *c) {
  free_handles(c);
  if (c->kind == K_Reduce_scatter) {
    free((void *)(uintptr_t)c->arguments.recv_counts);
    free((void *)(uintptr_t)c->arguments.recv_counts_c);
  }
  free_side(c, &c->send);
  free_side(c, &c->recv);
  free(c);
}

void rp_call_describe(const struct call *c, char *text, size_t bytes) {
  static const char *const forms[] = {"blocking", "nonblocking", "persistent"};
  snprintf(text, bytes,
           "%s MPI_%s%s, rank %d of %d, root %d, %s%s%s, %zu x %zu elements%s%s, round %d, send: %d per item%s; "
           "receive: %d per item%s%s",
           forms[c->form], kinds[c->kind].name, c->large ? "_c" : "", c->rank, c->size, c->root, c->row->name,
           c->operation ? ", " : "", c->operation ? c->operation->name : "", c->unit, c->scale,
           c->in_place ? ", in place" : "", c->real ? ", real" : "", c->round, c->send.layout.elements,
           c->send.bottom ? " MPI_BOTTOM" : "", c->recv.layout.elements, c->recv.bottom ? " MPI_BOTTOM" : "",
           c->free_early ? ", handles freed early" : "");
}
