/* slices.c: a reduce_scatter around a ring, written by hand, with two small buffers.
 *
 *   tutti run -n 4 -- slices ROWS COLUMNS ELEMENTS
 *
 * Each rank has a matrix of ROWS x COLUMNS. Rank r receives the sum of all matrices in its own columns, the r-th share.
 * tutti_slices_at returns the next part of the matrix: a slice of at most ELEMENTS elements. The same slice of all
 * ranks' shares is visited in turn, in descending order of the ranks. So in every step a rank adds its elements to the
 * slice that its left neighbour has just sent, and its own share comes last. Only one slice is in transit at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tensor.h>

struct ring {
  tutti_comm *comm;
  uint32_t rank, ranks;
  size_t rows, cols;
  double *matrix;
  double *mine, *theirs; /* one slice each: `mine` is the slice to send, `theirs` the received slice */
};

static int fail(const char *what) {
  fprintf(stderr, "slices: %s: %s\n", what, tutti_error_message(NULL));
  return 1;
}

/* Returns an integer value of an element; sums of integers are exact in any order. */
static double value(uint32_t rank, size_t i) { return (double)((rank + 1) * (i % 1009)); }

/* Copies a slice of the matrix into `mine`, and adds the received slice if this is not the first step. */
static void take(const struct ring *r, const tutti_slice *s) {
  for (size_t row = 0, k = 0; row < s->extent[3]; row++)
    for (size_t col = 0; col < s->extent[4]; col++, k++)
      r->mine[k] = r->matrix[(s->origin[3] + row) * r->cols + s->origin[4] + col] + (s->step > 0 ? r->theirs[k] : 0);
}

static void put(const struct ring *r, const tutti_slice *s) {
  for (size_t row = 0, k = 0; row < s->extent[3]; row++, k += s->extent[4])
    memcpy(&r->matrix[(s->origin[3] + row) * r->cols + s->origin[4]], &r->mine[k], s->extent[4] * sizeof(double));
}

/* Runs one step: adds, sends the sum, and receives the slice of the next step. The last step stores this rank's own
 * share of the result. */
static tutti_err step(const struct ring *r, const tutti_slice *s) {
  const size_t count = s->extent[3] * s->extent[4];
  take(r, s);
  if (s->step == r->ranks - 1) {
    put(r, s);
    return TUTTI_OK;
  }
  tutti_request *sending;
  const tutti_call send = {
      .collective = TUTTI_SEND, .send = r->mine, .count = count, .type = TUTTI_F64, .peer = (r->rank + 1) % r->ranks};
  tutti_err err = tutti_start(r->comm, &send, &sending);
  if (err != TUTTI_OK) return err;
  err = tutti_recv(r->comm, r->theirs, count, TUTTI_F64, (r->rank + r->ranks - 1) % r->ranks, 0);
  tutti_err sent = tutti_wait(&sending);
  return err != TUTTI_OK ? err : sent;
}

static tutti_err reduce_scatter(const struct ring *r, size_t elements, size_t *slices) {
  const tutti_slicing how = {.shape = {1, 1, 1, r->rows, r->cols},
                             .dim = 4,
                             .ranks = r->ranks,
                             .pages_max = elements,
                             .first = (r->rank + r->ranks - 1) % r->ranks,
                             .down = true};
  size_t count;
  tutti_err err = tutti_slices_count(&how, 0, &count);
  *slices = count / r->ranks;
  for (size_t i = 0; i < count && err == TUTTI_OK; i++) {
    tutti_slice slice;
    err = tutti_slices_at(&how, 0, i, &slice);
    if (err == TUTTI_OK) err = step(r, &slice);
  }
  return err;
}

static size_t count_wrong(const struct ring *r) {
  size_t wrong = 0, share = r->cols / r->ranks;
  for (size_t i = 0; i < r->rows * r->cols; i++) {
    double sum = 0;
    for (uint32_t rank = 0; rank < r->ranks; rank++) sum += value(rank, i);
    const double wanted = i % r->cols / share == r->rank ? sum : value(r->rank, i);
    wrong += r->matrix[i] < wanted || r->matrix[i] > wanted;
  }
  return wrong;
}

int main(int argc, char **argv) {
  size_t sizes[] = {64, 96, 100};
  for (int i = 1; i < argc; i++) {
    char *end;
    unsigned long number = i < 4 ? strtoul(argv[i], &end, 10) : 0;
    if (number == 0 || number > 4096 || *end != '\0') {
      fprintf(stderr, "slices: expected ROWS COLUMNS ELEMENTS, 1 to 4096 each, found '%s'\n", argv[i]);
      return 2;
    }
    sizes[i - 1] = number;
  }
  struct ring r = {.rows = sizes[0], .cols = sizes[1]};
  if (tutti_init(NULL, &r.comm) != TUTTI_OK) return fail("tutti_init");
  r.rank = tutti_rank(r.comm);
  r.ranks = tutti_ranks(r.comm);
  r.matrix = malloc(r.rows * r.cols * sizeof *r.matrix);
  r.mine = malloc(sizes[2] * sizeof *r.mine);
  r.theirs = malloc(sizes[2] * sizeof *r.theirs);
  if (!r.matrix || !r.mine || !r.theirs) return fail("out of memory");
  for (size_t i = 0; i < r.rows * r.cols; i++) r.matrix[i] = value(r.rank, i);
  size_t slices;
  if (reduce_scatter(&r, sizes[2], &slices) != TUTTI_OK) return fail("reduce_scatter");
  size_t wrong = count_wrong(&r);
  if (r.rank == 0) printf("%zu slices of up to %zu elements, %zu wrong\n", slices, sizes[2], wrong);
  else if (wrong > 0) fprintf(stderr, "slices: rank %u has %zu wrong elements\n", r.rank, wrong);
  free(r.matrix);
  free(r.mine);
  free(r.theirs);
  return tutti_comm_free(r.comm) != TUTTI_OK || wrong > 0;
}
