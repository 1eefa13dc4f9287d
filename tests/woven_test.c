/* test: timeout=120 */
/* woven_test.c: calls in which blocks of send lie in the gaps of recv, and tensors in each other's gaps. They must give
 * the same results as with separate buffers, on threads and on processes. All memory is compared, including bytes that
 * belong to no block. (For errors, see src/call/resolve_test.c.) */
#include <tutti/tensor.h>

#include "troupe.h"

enum { SIDE_MAX = TROUPE_MAX, GAP_MAX = 4 };

struct block {
  size_t items, apart, woven; /* apart, woven: first item in the separate buffer, and in the common one */
};

/* Buffers of a rank for one call, both separate and woven into one. */
struct weave {
  tutti_call call;
  size_t item;
  struct block in[SIDE_MAX], out[SIDE_MAX];
  uint32_t in_blocks, out_blocks;
  size_t counts[SIDE_MAX], recv_counts[SIDE_MAX], offsets[SIDE_MAX], recv_offsets[SIDE_MAX];
  unsigned char *apart_in, *apart_out, *memory, *wanted, *both; /* `both` begins at any byte of `memory` */
  size_t bytes;
};

/* Returns the number of items that a rank sends to another, or, with to = 0, of a rank's block. */
static size_t items_of(uint64_t seed, uint32_t from, uint32_t to) {
  uint64_t state = seed + from * 1000u + to, random = ranks_random(&state);
  return random % 5 == 0 ? 0 : random % 7 == 0 ? random % 3000 : random % 40;
}

static void lay_blocks(struct weave *w, const struct player *p, uint64_t seed) {
  tutti_collective c = w->call.collective;
  bool root = p->rank == w->call.root, all = c == TUTTI_ALLTOALLV;
  bool in_each = all || c == TUTTI_SCATTERV || c == TUTTI_REDUCE_SCATTERV;
  bool out_each = all || c == TUTTI_GATHERV || c == TUTTI_ALLGATHERV;
  w->in_blocks = in_each ? p->ranks : 1;
  w->out_blocks = out_each ? p->ranks : 1;
  if (c == TUTTI_SCATTERV && !root) w->in_blocks = 0;
  if (c == TUTTI_GATHERV && !root) w->out_blocks = 0;
  for (uint32_t b = 0; b < w->in_blocks; b++)
    w->in[b].items = all ? items_of(seed, p->rank, b) : items_of(seed, in_each ? b : p->rank, 0);
  for (uint32_t b = 0; b < w->out_blocks; b++)
    w->out[b].items = all ? items_of(seed, b, p->rank) : items_of(seed, out_each ? b : p->rank, 0);
  w->call.count = items_of(seed, p->rank, 0);
}

/* Lays all blocks of both sides into the common buffer, in random order, with gaps. */
static size_t lay_woven(struct weave *w, uint64_t *own) {
  struct block *blocks[2 * SIDE_MAX];
  uint32_t count = 0;
  size_t at = 0;
  for (uint32_t b = 0; b < w->in_blocks; b++) blocks[count++] = &w->in[b];
  for (uint32_t b = 0; b < w->out_blocks; b++) blocks[count++] = &w->out[b];
  for (uint32_t left = count; left > 0; left--) {
    uint32_t which = (uint32_t)(ranks_random(own) % left);
    struct block *b = blocks[which];
    blocks[which] = blocks[left - 1];
    at += ranks_random(own) % GAP_MAX;
    b->woven = at;
    at += b->items;
  }
  return at + 1;
}

static size_t lay_apart(struct block blocks[], uint32_t count) {
  size_t at = 0;
  for (uint32_t b = 0; b < count; b++) {
    blocks[b].apart = at;
    at += blocks[b].items;
  }
  return at + 1;
}

static unsigned char *memory_of(size_t bytes) {
  unsigned char *memory = malloc(bytes);
  if (!memory) abort();
  return memset(memory, 0x5a, bytes);
}

static void fill(const struct weave *w, uint64_t *own) {
  for (uint32_t b = 0; b < w->in_blocks; b++)
    for (size_t i = 0; i < w->in[b].items; i++) {
      uint64_t random = ranks_random(own) % 100;
      double number = (double)random;
      const void *value = w->call.type == TUTTI_F64 ? (const void *)&number : (const void *)&random;
      memcpy(w->apart_in + (w->in[b].apart + i) * w->item, value, w->item);
    }
}

static bool run(struct player *p, const tutti_call *call, const char *what) {
  tutti_request *request = NULL;
  return good(p, tutti_start(p->comm, call, &request), what) && good(p, tutti_wait(&request), what);
}

/* Sets the displacements of one side, relative to the common buffer or to the side's first block, so that addresses of
 * the two sides are equal or not. Returns the address they are relative to. */
static const void *woven_side(const struct weave *w, const struct block blocks[], uint32_t count, size_t offsets[],
                              bool from_first) {
  size_t first = count == 1 || from_first ? SIZE_MAX : 0;
  for (uint32_t b = 0; b < count && first > 0; b++)
    if (blocks[b].woven < first) first = blocks[b].woven;
  if (count == 0) first = 0;
  for (uint32_t b = 0; b < count; b++) offsets[b] = blocks[b].woven - first;
  return w->both + first * w->item;
}

static void weave_one(struct player *p, tutti_collective collective, uint64_t seed) {
  static const tutti_datatype types[] = {TUTTI_U8, TUTTI_I16, TUTTI_I32, TUTTI_F64};
  uint64_t state = seed, own = seed + 77 * p->rank + 1;
  struct weave w = {.call = {.collective = collective, .type = types[ranks_random(&state) % 4]}};
  w.item = tutti_datatype_size(w.call.type);
  w.call.root = (uint32_t)(ranks_random(&state) % p->ranks);
  lay_blocks(&w, p, seed);
  w.apart_in = memory_of(lay_apart(w.in, w.in_blocks) * w.item);
  w.apart_out = memory_of(lay_apart(w.out, w.out_blocks) * w.item);
  size_t shift = ranks_random(&own) % 2 ? ranks_random(&own) % w.item : 0;
  w.bytes = lay_woven(&w, &own) * w.item + shift;
  w.memory = memory_of(w.bytes);
  w.wanted = memory_of(w.bytes);
  w.both = w.memory + shift;
  fill(&w, &own);
  for (uint32_t b = 0; b < w.in_blocks; b++) w.counts[b] = w.in[b].items;
  for (uint32_t b = 0; b < w.out_blocks; b++) w.recv_counts[b] = w.out[b].items;
  bool longer_in = collective == TUTTI_SCATTERV || collective == TUTTI_REDUCE_SCATTERV;
  bool all = collective == TUTTI_ALLTOALLV;
  w.call.counts = longer_in || all ? w.counts : w.recv_counts;
  w.call.recv_counts = all ? w.recv_counts : NULL;
  w.call.send = w.apart_in;
  w.call.recv = w.apart_out;
  bool went = run(p, &w.call, "apart");

  for (uint32_t b = 0; b < w.in_blocks; b++)
    memcpy(w.both + w.in[b].woven * w.item, w.apart_in + w.in[b].apart * w.item, w.in[b].items * w.item);
  memcpy(w.wanted, w.memory, w.bytes);
  for (uint32_t b = 0; b < w.out_blocks; b++)
    memcpy(w.wanted + shift + w.out[b].woven * w.item, w.apart_out + w.out[b].apart * w.item, w.out[b].items * w.item);
  bool from_first = ranks_random(&own) % 2;
  w.call.send = woven_side(&w, w.in, w.in_blocks, w.offsets, from_first);
  w.call.recv = (void *)(uintptr_t)woven_side(&w, w.out, w.out_blocks, w.recv_offsets, from_first);
  w.call.offsets = longer_in || all ? w.offsets : w.recv_offsets;
  w.call.recv_offsets = all ? w.recv_offsets : NULL;
  went = went && run(p, &w.call, "woven");
  if (went && memcmp(w.memory, w.wanted, w.bytes) != 0) {
    size_t at = 0;
    while (w.memory[at] == w.wanted[at]) at++;
    wrong(p, "rank %u of %u: %s, seed %llu: byte %zu of %zu is %02x, wanted %02x", p->rank, p->ranks,
          tutti_collective_name(collective), (unsigned long long)seed, at, w.bytes, w.memory[at], w.wanted[at]);
  }
  free(w.apart_in);
  free(w.apart_out);
  free(w.memory);
  free(w.wanted);
}

static void vectors(struct player *p) {
  static const tutti_collective known[] = {TUTTI_GATHERV, TUTTI_SCATTERV, TUTTI_ALLGATHERV, TUTTI_REDUCE_SCATTERV,
                                           TUTTI_ALLTOALLV};
  uint64_t state = p->seed;
  for (int i = 0; i < (test_long() ? 2000 : 100) && p->stage->failures == 0; i++)
    weave_one(p, known[i % 5], ranks_random(&state));
}

/* Sums the left half of a matrix into its right half, then the odd columns into the even ones. */
static void tensors(struct player *p) {
  enum { ROWS = 50, COLS = 24 };
  for (int odd = 0; odd < 2; odd++) {
    int32_t matrix[ROWS][COLS];
    const size_t shape[] = {ROWS, COLS / 2}, strides[] = {COLS, odd ? 2 : 1};
    tutti_tensor in, out;
    for (int r = 0; r < ROWS; r++)
      for (int c = 0; c < COLS; c++) matrix[r][c] = (int32_t)(p->rank + 1) * (r * COLS + c);
    if (!good(p, tutti_tensor_strided(&in, (tutti_tensor_of){&matrix[0][odd], TUTTI_I32, 2, shape}, strides), "in") ||
        !good(
            p,
            tutti_tensor_strided(&out, (tutti_tensor_of){&matrix[0][odd ? 0 : COLS / 2], TUTTI_I32, 2, shape}, strides),
            "out"))
      return;
    if (!run(p, &(tutti_call){.collective = TUTTI_ALLREDUCE, .in = &in, .out = &out}, "tensors")) return;
    int32_t all = (int32_t)(p->ranks * (p->ranks + 1) / 2);
    for (int r = 0; r < ROWS; r++)
      for (int c = 0; c < COLS; c++) {
        bool is_out = odd ? c % 2 == 0 : c >= COLS / 2;
        int from = !is_out ? c : odd ? c + 1 : c - COLS / 2;
        int32_t wanted = (r * COLS + from) * (is_out ? all : (int32_t)(p->rank + 1));
        if (matrix[r][c] != wanted)
          wrong(p, "rank %u: row %d, column %d is %d, wanted %d", p->rank, r, c, matrix[r][c], wanted);
      }
  }
}

/* One element is in both `in` and `out`, which must be an error. */
static void tensors_that_share(struct player *p) {
  int32_t numbers[16] = {0};
  const size_t shape[] = {4}, strides[] = {2};
  tutti_tensor in, out;
  tutti_comm *dup;
  if (!good(p, tutti_comm_dup(p->comm, &dup), "dup") ||
      !good(p, tutti_tensor_strided(&in, (tutti_tensor_of){numbers, TUTTI_I32, 1, shape}, strides), "in") ||
      !good(p, tutti_tensor_strided(&out, (tutti_tensor_of){numbers + 6, TUTTI_I32, 1, shape}, strides), "out"))
    return;
  tutti_request *request = NULL;
  tutti_err err = tutti_start(dup, &(tutti_call){.collective = TUTTI_ALLREDUCE, .in = &in, .out = &out}, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (err != TUTTI_ERR_ARGUMENT || !strstr(tutti_error_message(dup), "overlap"))
    wrong(p, "rank %u: %s: %s", p->rank, tutti_err_name(err), tutti_error_message(dup));
  tutti_comm_free(dup);
}

static const struct troupe_case cases[] = {
    {TROUPE_CASE(vectors)},
    {TROUPE_CASE(tensors)},
    {TROUPE_CASE(tensors_that_share)},
};

int main(int argc, char **argv) {
  return troupe_main(cases, sizeof cases / sizeof cases[0], TROUPE_TRANSPORTS(1, 2, 3, 5), argc, argv);
}
