/* slices_test.c: checks that slices cover every fracture once, in the same way, within their limit, and dealt to
 * workers in turn; and that they are those in the figures of the multi-chip guide. */
#include "tensor/slices.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static size_t items_of(const size_t shape[TUTTI_DIMS]) {
  size_t items = 1;
  for (int d = 0; d < TUTTI_DIMS; d++) items *= shape[d];
  return items;
}

/* ---- slices by their definition ---- */

struct sight {
  const tutti_slicing *how;
  struct tu_slices slices;
  uint32_t *seen;                  /* [items]: number of slices that contain each item */
  size_t (*lines)[2 * TUTTI_DIMS]; /* [slice]: origin and extent of each slice within its fracture (a rank's share) */
  bool *known;
};

static void see_items(struct sight *v, const tutti_slice *s) {
  size_t i[TUTTI_DIMS] = {0}, all = items_of(s->extent);
  for (size_t k = 0; k < all; k++) {
    size_t at = 0;
    for (int d = 0; d < TUTTI_DIMS; d++) at = at * v->how->shape[d] + s->origin[d] + i[d];
    v->seen[at]++;
    for (int d = TUTTI_DIMS - 1; d >= 0 && ++i[d] == s->extent[d]; d--) i[d] = 0;
  }
}

/* Checks the slice within its fracture (a rank's share): on page boundaries, not too long, and the same in all
 * fractures. */
static void see_lines(struct sight *v, const tutti_slice *s) {
  const tutti_slicing *how = v->how;
  const size_t unit[TUTTI_DIMS] = {1, 1, 1, how->page_rows ? how->page_rows : 1, how->page_cols ? how->page_cols : 1};
  size_t lines[2 * TUTTI_DIMS], pages = 1;
  for (uint32_t d = 0; d < TUTTI_DIMS; d++) {
    size_t fracture = d == how->dim ? how->shape[d] / how->ranks : how->shape[d];
    size_t begin = s->origin[d] - (d == how->dim ? s->fracture * fracture : 0), end = begin + s->extent[d];
    CHECK(s->extent[d] > 0 && end <= fracture, "slice %zu: %zu to %zu of %zu along %u", s->number, begin, end, fracture,
          d);
    CHECK(begin % unit[d] == 0 && (end % unit[d] == 0 || end == fracture), "slice %zu cuts a page along %u", s->number,
          d);
    pages *= (s->extent[d] + unit[d] - 1) / unit[d];
    lines[d] = begin;
    lines[TUTTI_DIMS + d] = s->extent[d];
  }
  CHECK(!how->pages_max || pages <= how->pages_max, "slice %zu has %zu pages", s->number, pages);
  CHECK(!how->slice_rows || pages <= how->slice_rows * how->slice_cols, "slice %zu has %zu pages", s->number, pages);
  if (v->known[s->number])
    CHECK(memcmp(lines, v->lines[s->number], sizeof lines) == 0, "slice %zu of fracture %u has other lines", s->number,
          s->fracture);
  memcpy(v->lines[s->number], lines, sizeof lines);
  v->known[s->number] = true;
}

static void see_all(struct sight *v) {
  const tutti_slicing *how = v->how;
  size_t all = 0, count = tu_slices_count(&v->slices);
  for (uint32_t w = 0; w < how->workers; w++) {
    size_t dealt = tu_slices_dealt(&v->slices, w), order = 0;
    all += dealt;
    for (size_t k = 0; k < dealt; k++)
      for (uint32_t t = 0; t < how->ranks; t++, order++) {
        tutti_slice s = tu_slices_at(&v->slices, w, order);
        uint32_t fracture = (how->first + (how->down ? how->ranks - t : t)) % how->ranks;
        CHECK(s.number == w + k * how->workers && s.step == t && s.fracture == fracture,
              "worker %u, order %zu: slice %zu, step %u, fracture %u", w, order, s.number, s.step, s.fracture);
        see_lines(v, &s);
        see_items(v, &s);
      }
  }
  CHECK(all == count, "%zu slices are dealt out, of %zu", all, count);
  for (size_t s = 1; s < count; s++) { /* in order: matrix by matrix, row by row */
    int d = 0;
    while (d < TUTTI_DIMS - 1 && v->lines[s][d] == v->lines[s - 1][d]) d++;
    CHECK(v->lines[s][d] > v->lines[s - 1][d], "slice %zu comes before slice %zu", s, s - 1);
  }
  for (size_t i = 0; i < items_of(how->shape); i++) CHECK(v->seen[i] == 1, "item %zu is in %u slices", i, v->seen[i]);
}

static void see(const tutti_slicing *how) {
  struct sight v = {.how = how};
  struct tu_error error;
  if (tu_slices_init(&v.slices, how, &error) != TUTTI_OK) {
    FAIL("%s", error.text);
    return;
  }
  size_t count = tu_slices_count(&v.slices);
  v.seen = calloc(items_of(how->shape) + 1, sizeof *v.seen);
  v.lines = calloc(count + 1, sizeof *v.lines);
  v.known = calloc(count + 1, sizeof *v.known);
  see_all(&v);
  if (test_failures)
    printf("  %zux%zux%zux%zux%zu, dim %u, ranks %u, workers %u, pages %zux%zu, slices %zux%zu, at most %zu\n",
           how->shape[0], how->shape[1], how->shape[2], how->shape[3], how->shape[4], how->dim, how->ranks,
           how->workers, how->page_rows, how->page_cols, how->slice_rows, how->slice_cols, how->pages_max);
  free(v.seen);
  free(v.lines);
  free(v.known);
}

static void cover_everything_once(void) {
  uint64_t seed = test_seed();
  for (int k = 0; k < 3000 && !test_failures; k++) {
    tutti_slicing how = {.dim = (uint32_t)(tu_random(&seed) % TUTTI_DIMS),
                         .ranks = (uint32_t)(1 + tu_random(&seed) % 4),
                         .workers = (uint32_t)(1 + tu_random(&seed) % 4),
                         .down = tu_random(&seed) % 2};
    for (int d = 0; d < TUTTI_DIMS; d++) how.shape[d] = 1 + tu_random(&seed) % (d < 3 ? 3 : 12);
    if (tu_random(&seed) % 20 == 0) how.shape[tu_random(&seed) % TUTTI_DIMS] = 0;
    how.shape[how.dim] *= how.ranks;
    how.first = (uint32_t)(tu_random(&seed) % how.ranks);
    if (tu_random(&seed) % 2) how.page_rows = 1 + tu_random(&seed) % 5, how.page_cols = 1 + tu_random(&seed) % 5;
    if (tu_random(&seed) % 2) how.pages_max = 1 + tu_random(&seed) % 30;
    if (tu_random(&seed) % 3 == 0) {
      how.slice_rows = 1 + tu_random(&seed) % 4, how.slice_cols = 1 + tu_random(&seed) % 4;
      if (how.pages_max) how.pages_max = how.slice_rows * how.slice_cols + tu_random(&seed) % 3;
    }
    see(&how);
  }
}

/* Tests that every worker gets a slice by default, if there are at least as many pages as workers. */
static void nobody_is_idle(void) {
  for (size_t rows = 1; rows < 8; rows++)
    for (size_t cols = 1; cols < 8; cols++)
      for (uint32_t workers = 1; workers <= 2 * rows * cols; workers++) {
        struct tu_slices s;
        struct tu_error error;
        const tutti_slicing how = {.shape = {1, 2, 1, rows, cols}, .ranks = 1, .workers = workers};
        tutti_err err = tu_slices_init(&s, &how, &error);
        CHECK(err == TUTTI_OK && tu_slices_dealt(&s, workers - 1) > 0, "%zux%zu: worker %u has nothing to do", rows,
              cols, workers - 1);
      }
}

/* ---- the figures of the multi-chip guide ---- */

struct origin {
  size_t row, col;
};

static void check_worker(const struct tu_slices *s, uint32_t worker, const struct origin want[], size_t count) {
  CHECK(tu_slices_dealt(s, worker) * s->how.ranks == count, "worker %u has %zu slices", worker,
        tu_slices_dealt(s, worker));
  for (size_t i = 0; i < count && i < tu_slices_dealt(s, worker) * s->how.ranks; i++) {
    tutti_slice at = tu_slices_at(s, worker, i);
    CHECK(at.origin[3] == want[i].row && at.origin[4] == want[i].col, "worker %u, order %zu: %zu,%zu, expected %zu,%zu",
          worker, i, at.origin[3], at.origin[4], want[i].row, want[i].col);
  }
}

static struct tu_slices cut(const tutti_slicing *how) {
  struct tu_slices s;
  struct tu_error error;
  if (tu_slices_init(&s, how, &error) != TUTTI_OK) FAIL("%s", error.text);
  return s;
}

/* Tests a tensor of 2 x 12 pages, slices of 2 x 6 for a rank, and pieces of 1 x 1 for two workers who take turns. */
static void two_workers_take_turns(void) {
  struct tu_slices s = cut(&(tutti_slicing){
      .shape = {1, 1, 1, 2, 12}, .dim = 4, .ranks = 2, .workers = 2, .slice_rows = 1, .slice_cols = 1});
  CHECK(s.fracture[3] == 2 && s.fracture[4] == 6, "a fracture is %zux%zu", s.fracture[3], s.fracture[4]);
  const struct origin even[] = {{0, 0}, {0, 6}, {0, 2}, {0, 8}, {0, 4}, {0, 10},
                                {1, 0}, {1, 6}, {1, 2}, {1, 8}, {1, 4}, {1, 10}};
  const struct origin odd[] = {{0, 1}, {0, 7}, {0, 3}, {0, 9}, {0, 5}, {0, 11},
                               {1, 1}, {1, 7}, {1, 3}, {1, 9}, {1, 5}, {1, 11}};
  check_worker(&s, 0, even, 12);
  check_worker(&s, 1, odd, 12);
  /* In the guide's figure, a rank's share has two rows of three cells, so the second worker begins the second row. */
  s = cut(&(tutti_slicing){
      .shape = {1, 1, 1, 2, 12}, .dim = 4, .ranks = 2, .workers = 2, .slice_rows = 1, .slice_cols = 2});
  const struct origin purple[] = {{0, 0}, {0, 6}, {0, 4}, {0, 10}, {1, 2}, {1, 8}};
  const struct origin red[] = {{0, 2}, {0, 8}, {1, 0}, {1, 6}, {1, 4}, {1, 10}};
  check_worker(&s, 0, purple, 6);
  check_worker(&s, 1, red, 6);
  /* A share of 2 x 12 for one rank is cut into two slices of 2 x 6, one per worker. */
  s = cut(&(tutti_slicing){
      .shape = {1, 1, 1, 2, 12}, .dim = 4, .ranks = 1, .workers = 2, .slice_rows = 2, .slice_cols = 6});
  check_worker(&s, 0, (const struct origin[]){{0, 0}}, 1);
  check_worker(&s, 1, (const struct origin[]){{0, 6}}, 1);
}

/* Tests the order (slice, step) = (0, 0), (0, 1), ..., (1, 0), ... of chip 3 in a ring of four. In each slice, the chip
 * goes up from fracture (rank's share) 0 to its own fracture, 3. */
static void slices_outside_steps_inside(void) {
  struct tu_slices s = cut(
      &(tutti_slicing){.shape = {1, 1, 1, 2, 8}, .dim = 4, .ranks = 4, .workers = 1, .slice_rows = 1, .slice_cols = 1});
  const struct origin order[] = {{0, 0}, {0, 2}, {0, 4}, {0, 6}, {0, 1}, {0, 3}, {0, 5}, {0, 7},
                                 {1, 0}, {1, 2}, {1, 4}, {1, 6}, {1, 1}, {1, 3}, {1, 5}, {1, 7}};
  check_worker(&s, 0, order, 16);
  for (size_t i = 0; i < 16; i++) {
    tutti_slice at = tu_slices_at(&s, 0, i);
    CHECK(at.number == i / 4 && at.step == i % 4 && at.fracture == i % 4, "order %zu: s=%zu,t=%u", i, at.number,
          at.step);
  }
}

/* Tests descending order: chip i sends fracture i - 1 first, and its own fracture comes last. */
static void every_chip_ends_with_its_own(void) {
  static const uint32_t fractures[4][4] = {{3, 2, 1, 0}, {0, 3, 2, 1}, {1, 0, 3, 2}, {2, 1, 0, 3}};
  for (uint32_t chip = 0; chip < 4; chip++) {
    struct tu_slices s = cut(&(tutti_slicing){.shape = {1, 1, 1, 2, 8},
                                              .dim = 4,
                                              .ranks = 4,
                                              .workers = 1,
                                              .slice_rows = 1,
                                              .slice_cols = 1,
                                              .first = (chip + 3) % 4,
                                              .down = true});
    for (size_t i = 0; i < 16; i++)
      CHECK(tu_slices_at(&s, 0, i).fracture == fractures[chip][i % 4], "chip %u, order %zu", chip, i);
  }
}

static void buffers_limit_slices(void) {
  CHECK(tu_slice_max(8, 3, 4, 2) == 9, "8 against 3 + 4, and 2: %zu", tu_slice_max(8, 3, 4, 2));
  CHECK(tu_slice_max(5, 3, 4, 2) == 7, "5 against 3 + 4, and 2: %zu", tu_slice_max(5, 3, 4, 2));
}

/* ---- refusals ---- */

static void nonsense_is_refused(void) {
  static const struct {
    tutti_slicing how;
    const char *says;
  } cases[] = {
      {{.shape = {1, 1, 1, 2, 12}, .dim = 5, .ranks = 1, .workers = 1}, "dim is 5|0 to 4"},
      {{.shape = {1, 1, 1, 2, 12}, .dim = 4, .ranks = 0, .workers = 1}, "0 ranks|1 workers"},
      {{.shape = {1, 1, 1, 2, 12}, .dim = 4, .ranks = 1, .workers = 0}, "1 ranks|0 workers"},
      {{.shape = {1, 1, 1, 2, 12}, .dim = 4, .ranks = 5, .workers = 1}, "dimension 4|12 items|5 ranks"},
      {{.shape = {1, 1, 1, 2, 12}, .dim = 4, .ranks = 2, .workers = 1, .first = 2}, "first is 2|2 fractures"},
      {{.shape = {1, 1, 1, 2, 12}, .ranks = 1, .workers = 1, .page_rows = 4}, "page|rows and columns"},
      {{.shape = {1, 1, 1, 2, 12}, .ranks = 1, .workers = 1, .slice_cols = 4}, "a slice|rows and columns"},
      {{.shape = {1, 1, 1, 2, 12}, .ranks = 1, .workers = 1, .slice_rows = 2, .slice_cols = 6, .pages_max = 11},
       "2x6 pages|11 pages"},
      {{.shape = {1, 1, 1, 2, 12},
        .ranks = 1,
        .workers = 1,
        .slice_rows = SIZE_MAX,
        .slice_cols = 2,
        .pages_max = SIZE_MAX - 1},
       "18446744073709551615x2 pages|18446744073709551614 pages"},
      {{.shape = {1, 1, 1, SIZE_MAX, 2}, .ranks = 1, .workers = 1}, "items|memory"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_slices s;
    struct tu_error error = {0};
    tutti_err err = tu_slices_init(&s, &cases[i].how, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, cases[i].says), "case %zu: %s", i, error.text);
  }
}

/* ---- public functions ---- */

/* Tests that the public functions return the same as the internal functions, for each worker, also if ranks and workers
 * are left out. */
static void users_see_the_same(void) {
  for (uint32_t ranks = 1; ranks <= 4; ranks++)
    for (uint32_t workers = 1; workers <= 3; workers++) {
      const tutti_slicing how = {
          .shape = {1, 2, 1, 5, 12}, .dim = 4, .ranks = ranks, .workers = workers, .pages_max = 4};
      tutti_slicing users = how;
      if (ranks == 1) users.ranks = 0;
      if (workers == 1) users.workers = 0;
      struct tu_slices s = cut(&how);
      for (uint32_t w = 0; w < workers; w++) {
        size_t count;
        CHECK(tutti_slices_count(&users, w, &count) == TUTTI_OK && count == tu_slices_dealt(&s, w) * ranks,
              "%u ranks, worker %u: %zu", ranks, w, count);
        for (size_t i = 0; i < count; i++) {
          tutti_slice got, wanted = tu_slices_at(&s, w, i);
          CHECK(tutti_slices_at(&users, w, i, &got) == TUTTI_OK, "%s", tutti_error_message(NULL));
          CHECK(got.number == wanted.number && got.step == wanted.step && got.fracture == wanted.fracture &&
                    memcmp(got.origin, wanted.origin, sizeof got.origin) == 0 &&
                    memcmp(got.extent, wanted.extent, sizeof got.extent) == 0,
                "%u ranks, worker %u, %zu: another slice", ranks, w, i);
        }
      }
    }
}

static void users_mistakes(void) {
  const tutti_slicing how = {.shape = {1, 1, 1, 2, 12}, .dim = 4, .ranks = 5}, good = {.shape = {1, 1, 1, 2, 12}};
  size_t count;
  tutti_slice slice;
  CHECK(tutti_slices_count(NULL, 0, &count) == TUTTI_ERR_ARGUMENT &&
            test_contains(tutti_error_message(NULL), "how is NULL"),
        "NULL: %s", tutti_error_message(NULL));
  CHECK(tutti_slices_count(&how, 0, &count) == TUTTI_ERR_ARGUMENT &&
            test_contains(tutti_error_message(NULL), "12 items|5 ranks"),
        "ranks that do not divide: %s", tutti_error_message(NULL));
  CHECK(tutti_slices_count(&good, 1, &count) == TUTTI_ERR_ARGUMENT &&
            test_contains(tutti_error_message(NULL), "worker is 1|below 1"),
        "another worker: %s", tutti_error_message(NULL));
  CHECK(tutti_slices_count(&good, 0, NULL) == TUTTI_ERR_ARGUMENT, "no count");
  CHECK(tutti_slices_at(&good, 0, 0, NULL) == TUTTI_ERR_ARGUMENT, "no slice");
  CHECK(tutti_slices_at(&good, 0, 0, &slice) == TUTTI_OK && slice.extent[3] == 2 && slice.extent[4] == 12, "all of it");
  CHECK(tutti_slices_at(&good, 0, 1, &slice) == TUTTI_ERR_ARGUMENT &&
            test_contains(tutti_error_message(NULL), "order is 1|worker 0|1 work items"),
        "beyond: %s", tutti_error_message(NULL));
}

static const struct test tests[] = {
    {"users_see_the_same", users_see_the_same},
    {"users_mistakes", users_mistakes},
    {"cover_everything_once", cover_everything_once},
    {"nobody_is_idle", nobody_is_idle},
    {"two_workers_take_turns", two_workers_take_turns},
    {"slices_outside_steps_inside", slices_outside_steps_inside},
    {"every_chip_ends_with_its_own", every_chip_ends_with_its_own},
    {"buffers_limit_slices", buffers_limit_slices},
    {"nonsense_is_refused", nonsense_is_refused},
};

int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
