/* slices.c: a reduce_scatter round a ring, by hand, through two small buffers: `tutti run -n 4 -- slices ROWS COLUMNS ELEMENTS`.
 *
 * Each rank has a matrix of ROWS x COLUMNS; rank r is to have the sum of all of them over its own columns, the r-th share.
 * tutti_slices_at says which part comes next: slices of at most ELEMENTS elements, each from the columns of all ranks, in
 * descending order, so that in every step a rank adds to what its left neighbour has just sent, and its own share comes last.
 * Nothing but one slice is ever on the way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tensor.h>

struct ring {
  tutti_comm *comm;
  uint32_t rank, ranks;
  size_t rows, cols;
  double *matrix;
  double *mine, *theirs; /* a slice each: what goes, what comes */
};

static int fail(const char *what) {
  fprintf(stderr, "slices: %s: %s\n", what, tutti_error_message(NULL));
  return 1;
}

/* Whole numbers, so that sums are exact in any order. */
static double value(uint32_t rank, size_t i) { return (double)((rank + 1) * (i % 1009)); }

/* The slice of the matrix, row by row, into the buffer, added to what came if something did; or out of it. */
static void take(const struct ring *r, const tutti_slice *s) {
  for (size_t row = 0, k = 0; row < s->extent[3]; row++)
    for (size_t col = 0; col < s->extent[4]; col++, k++)
      r->mine[k] = r->matrix[(s->origin[3] + row) * r->cols + s->origin[4] + col] + (s->step > 0 ? r->theirs[k] : 0);
}

static void put(const struct ring *r, const tutti_slice *s) {
  for (size_t row = 0, k = 0; row < s->extent[3]; row++, k += s->extent[4])
    memcpy(&r->matrix[(s->origin[3] + row) * r->cols + s->origin[4]], &r->mine[k], s->extent[4] * sizeof(double));
}

/* One step: add; send it on, and take what comes for the next step; in the last step it is this rank's own. */
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
      fprintf(stderr, "slices: expected ROWS COLUMNS ELEMENTS, from 1 to 4096 each, found '%s'\n", argv[i]);
      return 2;
    }
    sizes[i - 1] = number;
  }
  struct ring r = {.rows = sizes[0], .cols = sizes[1]};
  if (tutti_init(NULL, &r.comm) != TUTTI_OK) return fail("cannot join");
  r.rank = tutti_rank(r.comm);
  r.ranks = tutti_ranks(r.comm);
  r.matrix = malloc(r.rows * r.cols * sizeof *r.matrix);
  r.mine = malloc(sizes[2] * sizeof *r.mine);
  r.theirs = malloc(sizes[2] * sizeof *r.theirs);
  if (!r.matrix || !r.mine || !r.theirs) return fail("no memory");
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
