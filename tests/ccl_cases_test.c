/* test: slow timeout=300 */
/* ccl_cases_test.c: runs rows of test cases (ccl_cases.h), each on every number of ranks, topology, layout, type and
 * memory that it lists, in real processes. Compares every element, and checks that no padding was written or read as
 * data.
 *
 * Rows come from ../shared/seeds/ccl_cases.csv, if that file exists, and from tests/data/ccl_cases.csv. What a row
 * leaves open is read as follows:
 *
 *   shape       the note says whether it is the output's or the input's. Without a note, an allgather's is its output,
 *               a reduce_scatter's its input. A shape that cannot be divided among the ranks is each rank's input.
 *   topology    ring: `bucket` and the bidirectional algorithms. line: `line`. 1D+2D fabric: a ring of that many ranks,
 *               and a mesh of two rows of that many ranks, whose rows run at the same time. (W also line): also `line`,
 *               for width-sharded tensors only.
 *   links       the number of lanes; auto: the algorithm's default.
 *   memory      DRAM: private memory, interleaved over 12 banks. L1: shared memory (tutti_alloc), over 64 banks. Shards
 *               are in L1 unless the row says DRAM. An intermediate is ignored. If a row has only one shard, the other
 *               tensor has shards of the same kind on as many cores, longer along the columns.
 *   dtype       bfp8_b is bfp8, which needs tiles. A row-major tensor of it must be refused; refusals are counted.
 *   layout      tiles are 32x32 with faces of 16x16.
 *
 * For interleaved tensors that take more than 8 MiB in all ranks together (2 GiB if TEST_LONG is set), the largest
 * dimension is halved until they fit. These rows are printed. */
#include "ccl_cases.h"

#include "tensors.h"
#include "troupe.h"

#define OWN_FILE SOURCE_DIR "/tests/data/ccl_cases.csv"
#define CASES_FILE SOURCE_DIR "/../shared/seeds/ccl_cases.csv"
enum { ROWS_MAX = 256, DRAM_BANKS = 12, L1_BANKS = 64, FILLED = 0xa5, PADDING = 0xff, TABLE = 64 };

/* ---- a run ---- */

struct run {
  const struct cases_row *row;
  uint32_t ranks, links;
  bool tiles, dram;
  tutti_datatype type;
  const char *algorithm;
  bool mesh;
};

/* Tensors of a run, without memory. */
struct laid {
  tutti_tensor in, out;
  uint32_t axis;              /* dimension along which blocks are laid, of TUTTI_DIMS */
  size_t global[TUTTI_DIMS];  /* shape of the longer tensor, in TUTTI_DIMS dimensions */
  bool refused, halved, good; /* refused: the library refused block floats without tiles, as it should */
};

static bool gathers(const struct run *run) { return run->row->collective == TUTTI_ALLGATHER; }
static bool is_grouped(tutti_datatype type) { return type == TUTTI_BFP8 || type == TUTTI_BFP4; }

static tutti_err make(const struct run *run, const struct cases_shards *shards, const size_t *shape, tutti_tensor *t) {
  static const tutti_tiles tiles = {32, 32, 16, 16};
  const tutti_tensor_of of = {.type = run->type, .dims = run->row->dims, .shape = shape};
  const tutti_tiles *used = run->tiles ? &tiles : NULL;
  uint32_t cores = shards->cores, down = 1;
  tutti_err err;
  switch (shards->kind) {
    case 'W': err = tutti_tensor_width_sharded(t, of, used, cores, shards->cols); break;
    case 'H': err = tutti_tensor_height_sharded(t, of, used, cores, shards->rows); break;
    case 'B':
      for (size_t rows = shape[of.dims - 2]; down * shards->rows < rows && down < cores; down++) continue;
      err = tutti_tensor_block_sharded(t, of, used,
                                       (tutti_grid){down, cores / down, shards->rows, shards->cols, shards->column});
      break;
    default: return tutti_tensor_interleaved(t, of, used, run->dram ? DRAM_BANKS : L1_BANKS);
  }
  if (shards->column) t->layout.column_orientation = true;
  return err;
}

/* Halves the largest dimension that can still be divided among the ranks; returns false if there is none. */
static bool halve(const struct run *run, size_t *shape, uint32_t dim) {
  uint32_t best = TUTTI_DIMS;
  for (uint32_t d = 0; d < run->row->dims; d++) {
    size_t unit = d == dim ? run->ranks : 1;
    if (d == dim && d + 1 == run->row->dims && is_grouped(run->type)) unit *= 16;
    if (shape[d] % (2 * unit) == 0 && (best == TUTTI_DIMS || shape[d] > shape[best])) best = d;
  }
  if (best < TUTTI_DIMS) shape[best] /= 2;
  return best < TUTTI_DIMS;
}

/* Returns the tensors of a run, halved until they take at most `limit` bytes in all ranks. */
static struct laid lay_out(const struct run *run, size_t limit) {
  const struct cases_row *row = run->row;
  struct laid p = {0};
  uint32_t dim = (uint32_t)(row->dim < 0 ? row->dim + (int)row->dims : row->dim);
  size_t longer[TUTTI_DIMS], shorter[TUTTI_DIMS];
  memcpy(longer, row->shape, sizeof longer);
  bool is_input = row->meaning == CASES_INPUT || (row->meaning == CASES_UNSAID && !gathers(run));
  bool is_longer = is_input != gathers(run);
  if (!is_longer || longer[dim] % run->ranks) longer[dim] *= run->ranks;
  p.axis = TUTTI_DIMS - row->dims + dim;
  for (;;) {
    memcpy(shorter, longer, sizeof shorter);
    shorter[dim] /= run->ranks;
    tutti_err err = make(run, &row->in, gathers(run) ? shorter : longer, &p.in);
    p.refused = err != TUTTI_OK && is_grouped(run->type) && !run->tiles &&
                test_contains(tutti_error_message(NULL), "block floats|tiles");
    if (err == TUTTI_OK) err = make(run, &row->out, gathers(run) ? longer : shorter, &p.out);
    p.good = err == TUTTI_OK;
    if (!p.good || row->in.kind || row->out.kind) break;
    size_t bytes = run->ranks * (tutti_tensor_bytes(&p.in) + tutti_tensor_bytes(&p.out)) * (run->mesh ? 2 : 1);
    if (bytes <= limit || !halve(run, longer, dim)) break;
    p.halved = true;
  }
  for (uint32_t d = 0; d < TUTTI_DIMS; d++) p.global[d] = 1;
  memcpy(p.global + TUTTI_DIMS - row->dims, longer, row->dims * sizeof *longer);
  return p;
}

/* ---- all runs ---- */

struct cases {
  struct cases_row rows[ROWS_MAX];
  uint32_t row_count;
  size_t limit;
};

typedef void visit_run(void *context, const struct run *run);

/* Visits all runs of a row with one algorithm: each combination of number of ranks, layout, type and memory. */
static void each_way(const struct cases_row *row, const char *algorithm, bool mesh, visit_run *visit, void *context) {
  struct run run = {.row = row, .algorithm = algorithm, .mesh = mesh};
  bool sharded = row->in.kind || row->out.kind;
  for (uint32_t w = 0; w < row->world_count; w++)
    for (int layout = 0; layout < 2; layout++)
      for (uint32_t t = 0; t < row->type_count; t++)
        for (int memory = 0; memory < 2; memory++) {
          if (!(layout ? row->rows : row->tiles)) continue;
          if (sharded ? memory > 0 : !(memory ? row->l1 : row->dram)) continue;
          run.ranks = row->worlds[w].ranks, run.links = row->worlds[w].links;
          run.tiles = layout == 0, run.type = row->types[t], run.dram = memory == 0;
          visit(context, &run);
        }
}

static void each_run(const struct cases *cases, visit_run *visit, void *context) {
  static const char *const rings[][3] = {{"bucket", "bidirectional_full", "bidirectional_split"},
                                         {"bucket", "bidirectional", NULL}};
  for (uint32_t i = 0; i < cases->row_count; i++) {
    const struct cases_row *row = &cases->rows[i];
    for (int k = 0; k < 3 && row->ring; k++) {
      const char *name = rings[row->collective == TUTTI_REDUCE_SCATTER][k];
      if (name) each_way(row, name, false, visit, context);
    }
    if (row->along_line) each_way(row, "line", false, visit, context);
    if (row->mesh) each_way(row, "bucket", true, visit, context);
  }
}

/* ---- values of elements ---- */

/* Values for an allgather: bits that follow from the element's position in the longer tensor. Values for a
 * reduce_scatter: integers from a table per rank, and a table of their sums, which every type holds exactly. */
static uint32_t mix(size_t position) { return (uint32_t)position * 0x9e3779b1u; }

static uint32_t given(tutti_datatype type, uint32_t rank, uint32_t k) {
  uint32_t most = type == TUTTI_BFP8 ? 16 : type == TUTTI_BFP4 ? 2 : 29;
  return (k * 5 + rank * 7 + k / 16) % most;
}

struct values {
  bool sums;
  uint32_t shift;        /* of an allgather: shift to the upper bits, which are mixed best */
  uint32_t table[TABLE]; /* of a reduce_scatter: the numbers; for bf16, their bits */
};

static struct values values_of(const struct run *run, uint32_t first_rank, uint32_t last_rank) {
  size_t item_bits = 8 * tutti_datatype_size(run->type);
  struct values v = {.sums = !gathers(run), .shift = item_bits < 32 ? 32 - (uint32_t)item_bits : 0};
  for (uint32_t k = 0; k < TABLE; k++) {
    for (uint32_t r = first_rank; r <= last_rank; r++) v.table[k] += given(run->type, r, k);
    float f = (float)v.table[k];
    if (run->type == TUTTI_BF16) memcpy(&v.table[k], &f, sizeof f), v.table[k] >>= 16;
  }
  return v;
}

static uint32_t bits_of(const struct values *v, size_t position) {
  return v->sums ? v->table[mix(position) >> 26] : mix(position) >> v->shift;
}

/* Makes an item, that is a group of `count` elements of a block float, as it is sent. A sum has the exponent and codes
 * that the conversion from f32 would give. */
static void item_of(const struct values *v, size_t position, size_t count, uint32_t magnitude_bits, bool is_result,
                    unsigned char item[17]) {
  uint32_t largest = 0, shift = 0, codes[16] = {0};
  for (size_t i = 0; i < count; i++) {
    codes[i] = v->sums ? bits_of(v, position + i) : mix(position + i) >> 8 & ((2u << magnitude_bits) - 1);
    largest = codes[i] > largest ? codes[i] : largest;
  }
  item[0] = (unsigned char)(v->sums ? 126 + magnitude_bits : mix(position) >> 24);
  while (v->sums && is_result && largest > 0 && largest << shift < 1u << (magnitude_bits - 1)) shift++;
  if (v->sums && is_result) item[0] = (unsigned char)(largest ? item[0] - shift : 0);
  memset(item + 1, 0, 16);
  for (size_t i = 0; i < count; i++) {
    if (magnitude_bits == 7) item[1 + i] = (unsigned char)(codes[i] << shift);
    else item[1 + i / 2] |= (unsigned char)(codes[i] << shift << (i % 2 ? 4 : 0));
  }
}

/* ---- all elements of a tensor ---- */

struct walk {
  struct player *player;
  const struct run *run;
  const struct values *values;
  const tutti_tensor *tensor;
  bool checks; /* true: compares elements and overwrites them with FILLED; false: writes elements */
  size_t wrong;
};

/* Visits `count` elements of one group of a block float, which are contiguous. */
static void visit_group(struct walk *w, const size_t index[TUTTI_DIMS], size_t count, size_t position) {
  unsigned char *data = w->tensor->data, item[17];
  struct tensors_code at = tensors_code_where(w->tensor, index);
  bool halves = w->run->type == TUTTI_BFP4;
  item_of(w->values, position, count, halves ? 3 : 7, w->checks, item);
  size_t whole = halves ? count / 2 : count;
  bool half = halves && count % 2;
  if (w->checks) {
    bool equal = data[at.exponent] == item[0] && memcmp(data + at.code, item + 1, whole) == 0;
    if (half) equal &= (data[at.code + whole] & 15) == (item[1 + whole] & 15);
    w->wrong += !equal;
    memset(item, FILLED, sizeof item);
  }
  data[at.exponent] = item[0];
  memcpy(data + at.code, item + 1, whole);
  if (half) data[at.code + whole] = (unsigned char)((data[at.code + whole] & 0xf0) | (item[1 + whole] & 15));
}

/* The type is may_alias, as memory of any type may be accessed through it. */
#define VISIT(bits)                                                                                \
  typedef uint##bits##_t any##bits __attribute__((may_alias));                                     \
  static void visit_##bits(struct walk *w, void *memory, size_t count, size_t position) {          \
    any##bits *data = memory;                                                                      \
    const struct values *v = w->values;                                                            \
    size_t differ = 0;                                                                             \
    if (!w->checks)                                                                                \
      for (size_t i = 0; i < count; i++) data[i] = (any##bits)bits_of(v, position + i);            \
    else                                                                                           \
      for (size_t i = 0; i < count; i++) differ += data[i] != (any##bits)bits_of(v, position + i); \
    if (w->checks) memset(data, FILLED, count * sizeof *data);                                     \
    w->wrong += differ;                                                                            \
  }
VISIT(8)
VISIT(16)
VISIT(32)

static void visit_segment(struct walk *w, size_t index[TUTTI_DIMS], size_t count, size_t position) {
  if (is_grouped(w->run->type)) {
    visit_group(w, index, count, position);
    return;
  }
  size_t item = tutti_datatype_size(w->run->type), at = tensors_where(w->tensor, index);
  size_t last[TUTTI_DIMS];
  memcpy(last, index, sizeof last);
  last[4] += count - 1;
  if (tensors_where(w->tensor, last) != at + count - 1) w->wrong += count; /* the elements are not contiguous */
  unsigned char *memory = (unsigned char *)w->tensor->data + at * item;
  if (item == 1) visit_8(w, memory, count, position);
  else if (item == 2) visit_16(w, memory, count, position);
  else visit_32(w, memory, count, position);
}

/* Visits all elements of the tensor, which is the block of the longer tensor that begins at `origin` along `axis`. */
static void walk(struct walk *w, const struct laid *p, size_t origin) {
  const tutti_tensor *t = w->tensor;
  const tutti_layout *l = &t->layout;
  size_t index[TUTTI_DIMS] = {0}, rows[TUTTI_DIMS], cols = t->shape[4];
  size_t most = l->tiles.rows ? 16 : l->placement == TUTTI_INTERLEAVED ? cols : l->shard_cols;
  memcpy(rows, t->shape, sizeof rows);
  rows[4] = 1;
  do {
    size_t position = 0;
    for (uint32_t d = 0; d < TUTTI_DIMS; d++)
      position = position * p->global[d] + index[d] + (d == p->axis ? origin : 0);
    for (size_t col = 0; col < cols; col += most) {
      size_t at[TUTTI_DIMS] = {index[0], index[1], index[2], index[3], col};
      visit_segment(w, at, tu_min(most, cols - col), position + col);
    }
  } while (tensors_next(rows, index));
}

/* ---- one rank ---- */

/* Memory for tensors of one kind, reused for the next run. */
struct arena {
  unsigned char *memory;
  size_t bytes;
  bool shared;
};

static unsigned char *take(struct player *p, struct arena *a, size_t bytes) {
  if (a->bytes >= bytes && a->memory) return a->memory;
  void *memory = NULL;
  if (!a->shared) free(a->memory), memory = malloc(bytes + 1);
  else if (good(p, tutti_free(p->comm, a->memory), "free")) good(p, tutti_alloc(p->comm, bytes + 1, &memory), "alloc");
  a->memory = memory, a->bytes = bytes;
  if (!memory) wrong(p, "rank %u: out of memory: %zu bytes", p->rank, bytes);
  return memory;
}

struct rank_part {
  struct player *player;
  tutti_comm *mesh_row;
  struct arena arenas[2][2]; /* [in, out][DRAM, L1] */
  const struct cases *cases;
};

static unsigned char *memory_for(struct rank_part *m, const struct run *run, const struct cases_shards *s, bool is_out,
                                 size_t bytes) {
  bool shared = s->kind ? !s->dram : !run->dram;
  m->arenas[is_out][shared].shared = shared;
  return take(m->player, &m->arenas[is_out][shared], bytes);
}

static bool is_all(const unsigned char *memory, size_t bytes, unsigned char byte) {
  return bytes == 0 || (memory[0] == byte && memcmp(memory, memory + 1, bytes - 1) == 0);
}

static void play_run(void *context, const struct run *run) {
  struct rank_part *m = context;
  struct player *p = m->player;
  struct laid laid = lay_out(run, m->cases->limit);
  if (run->ranks * (run->mesh ? 2 : 1) != p->ranks || p->stage->failures > 0 || laid.refused) return;
  if (!laid.good) {
    wrong(p, "line %d: %s (%s)", run->row->line, tutti_error_message(NULL), run->row->text);
    return;
  }
  tutti_comm *comm = run->mesh ? m->mesh_row : p->comm;
  uint32_t rank = tutti_rank(comm);
  size_t in_bytes = tutti_tensor_bytes(&laid.in), out_bytes = tutti_tensor_bytes(&laid.out);
  laid.in.data = memory_for(m, run, &run->row->in, false, in_bytes);
  laid.out.data = memory_for(m, run, &run->row->out, true, out_bytes);
  if (!laid.in.data || !laid.out.data) return;
  memset(laid.in.data, PADDING, in_bytes);
  memset(laid.out.data, FILLED, out_bytes);
  size_t begin = laid.global[laid.axis] / run->ranks * rank;
  const struct values given_values = values_of(run, rank, rank), wanted = values_of(run, 0, run->ranks - 1);
  struct walk in = {.player = p, .run = run, .values = &given_values, .tensor = &laid.in};
  struct walk out = {.player = p, .run = run, .values = &wanted, .tensor = &laid.out, .checks = true};
  walk(&in, &laid, gathers(run) ? begin : 0);
  const tutti_call call = {.collective = run->row->collective,
                           .in = &laid.in,
                           .out = &laid.out,
                           .dim = run->row->dim,
                           .op = TUTTI_SUM,
                           .algorithm = run->algorithm,
                           .lanes = run->links};
  tutti_request *request = NULL;
  tutti_err err = tutti_start(comm, &call, &request);
  if (err == TUTTI_OK) err = tutti_wait(&request);
  if (err == TUTTI_OK) walk(&out, &laid, gathers(run) ? 0 : begin);
  bool kept = is_all(laid.out.data, out_bytes, FILLED);
  if (err != TUTTI_OK || out.wrong || in.wrong || !kept)
    wrong(p, "rank %u of %u: line %d, %s of %s by %s: %s, %zu wrong%s (%s)", rank, run->ranks, run->row->line,
          run->tiles ? "tiles" : "rows", tutti_datatype_name(run->type), run->algorithm,
          err == TUTTI_OK ? "done" : tutti_error_message(comm), in.wrong + out.wrong, kept ? "" : ", padding written",
          run->row->text);
  else if (p->rank == 0) p->stage->counted++;
}

static const struct cases *played;
static void play_all(struct player *p) {
  struct rank_part m = {.player = p, .cases = played};
  if (p->ranks == 8 && !good(p, tutti_comm_split(p->comm, (int)(p->rank / 4), 0, &m.mesh_row), "rows of the mesh"))
    return;
  each_run(played, play_run, &m);
  free(m.arenas[0][0].memory), free(m.arenas[1][0].memory);
  for (int k = 0; k < 2; k++) good(p, tutti_free(p->comm, m.arenas[k][1].memory), "free");
  if (m.mesh_row && p->stage->failures == 0) good(p, tutti_comm_free(m.mesh_row), "free of the mesh's rows");
}

/* ---- the test ---- */

struct tally {
  const struct cases *cases;
  uint32_t runs, refused, halved, worlds[65];
  const struct cases_row *last;
};

static void print_shape(const struct laid *p, uint32_t dims) {
  for (uint32_t d = TUTTI_DIMS - dims; d < TUTTI_DIMS; d++)
    printf("%s%zu", d > TUTTI_DIMS - dims ? "x" : "", p->global[d]);
}

static void count_run(void *context, const struct run *run) {
  struct tally *t = context;
  struct laid p = lay_out(run, t->cases->limit);
  if (p.refused) {
    t->refused++;
    return;
  }
  t->runs++;
  t->worlds[run->ranks * (run->mesh ? 2 : 1)]++;
  if (!p.halved || t->last == run->row) return;
  t->last = run->row;
  t->halved++;
  printf("  halved, line %d: the longer tensor is ", run->row->line);
  print_shape(&p, run->row->dims);
  printf(" on %u ranks (%.80s)\n", run->ranks, run->row->text);
}

/* Reads all rows of a text. Each line except the first must be a row. */
static void read_rows(char *text, struct cases *cases) {
  uint32_t lines = 0;
  int number = 1;
  for (const char *c = text; *c; c++) lines += *c == '\n';
  for (char *line = text, *end; *line; line = end, number++) {
    end = line + strcspn(line, "\n");
    if (*end) *end++ = '\0';
    if (number == 1) continue;
    CHECK(cases->row_count < ROWS_MAX, "more than %d rows", ROWS_MAX);
    CHECK(cases_read(line, number, &cases->rows[cases->row_count]), "line %d cannot be read: %s", number, line);
    cases->row_count += cases->row_count < ROWS_MAX - 1;
  }
  CHECK(cases->row_count == lines - 1, "%u rows of %u lines", cases->row_count, lines);
}

#ifdef __SANITIZE_THREAD__
static void (*const over)(struct troupe *t) = troupe_over_loop;
#else
static void (*const over)(struct troupe *t) = troupe_over_shm;
#endif

static void perform(char *text) {
  static struct cases cases;
  cases = (struct cases){.limit = test_long() ? (size_t)2 << 30 : (size_t)8 << 20};
  read_rows(text, &cases);
  if (test_failures) return;
  struct tally tally = {.cases = &cases};
  each_run(&cases, count_run, &tally);
  uint64_t count = 0;
  played = &cases;
  for (uint32_t ranks = 1; ranks <= 64 && !test_failures; ranks++) {
    if (tally.worlds[ranks] == 0) continue;
    /* Shared memory for both tensors of a rank. The system allocates only pages that are used. */
    struct troupe troupe = {.run = play_all, .ranks = ranks, .slice_bytes = TROUPE_SLICE + 2 * cases.limit / ranks};
    uint64_t done = troupe_perform(troupe, over);
    CHECK(done == tally.worlds[ranks], "%u ranks: %llu runs, expected %u", ranks, (unsigned long long)done,
          tally.worlds[ranks]);
    count += done;
  }
  printf("  %u rows, %llu runs; %u row-major block floats refused; %u rows halved to %zu MiB in all ranks\n",
         cases.row_count, (unsigned long long)count, tally.refused, tally.halved, cases.limit >> 20);
  CHECK(count == tally.runs && count >= cases.row_count, "%llu runs, expected %u", (unsigned long long)count,
        tally.runs);
}

static void perform_file(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) {
    FAIL("no file %s", path);
    return;
  }
  static char text[1 << 16];
  size_t bytes = fread(text, 1, sizeof text - 1, file);
  text[bytes] = '\0';
  CHECK(bytes > 0 && bytes < sizeof text - 1, "%s has %zu bytes", path, bytes);
  fclose(file);
  perform(text);
}

static void test_own(void) { perform_file(OWN_FILE); }

static void test_file(void) {
  if (access(CASES_FILE, R_OK) == 0) perform_file(CASES_FILE);
  else SKIP("no file ../shared/seeds/ccl_cases.csv");
}

/* Rows with unknown words must be errors. */
static void test_reader(void) {
  static const char *const bad[] = {
      "",
      "all_gather,8,1,1x1x32x32,3,TILE,bf16,DRAM interleaved,ring",
      "all_gather,8,1,1x1x32x32,3,TILE,bf16,DRAM interleaved,ring,note,more",
      "all_scatter,8,1,1x1x32x32,3,TILE,bf16,DRAM interleaved,ring,",
      "all_gather,none,1,1x1x32x32,3,TILE,bf16,DRAM interleaved,ring,",
      "all_gather,8,1,1x1x32y32,3,TILE,bf16,DRAM interleaved,ring,",
      "all_gather,8,1,1x1x32x0,3,TILE,bf16,DRAM interleaved,ring,",
      "all_gather,8,1,1x1x1x1x1x32,3,TILE,bf16,DRAM interleaved,ring,",
      "all_gather,8,1,1x1x32x32,last,TILE,bf16,DRAM interleaved,ring,",
      "all_gather,8,1,1x1x32x32,3,FRACTAL,bf16,DRAM interleaved,ring,",
      "all_gather,8,1,1x1x32x32,3,TILE,bf16+f12,DRAM interleaved,ring,",
      "all_gather,8,1,1x1x32x32,3,TILE,bf16,DRAM,ring,",
      "all_gather,8,1,1x1x32x32,3,TILE,bf16,\"X(32,32)x1 -> W(32,32)x1\",ring,",
      "all_gather,8,1,1x1x32x32,3,TILE,bf16,\"W(32,32)x1 -> W(32)x1\",ring,",
      "all_gather,8,1,1x1x32x32,3,TILE,bf16,DRAM interleaved,torus,",
  };
  struct cases_row row;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    CHECK(!cases_read(bad[i], 1, &row), "'%s' was accepted", bad[i]);
  CHECK(
      cases_read(
          "all_gather,\"2,8 (1 link); 4 (2 links)\",,8x1x32x16,-1,TILE/RM,u8+bfp8_b,\"DRAM,L1 interleaved\",line,x\r\n",
          7, &row),
      "a valid row was refused");
  CHECK(row.world_count == 3 && row.worlds[1].ranks == 8 && row.worlds[1].links == 1 && row.worlds[2].ranks == 4 &&
            row.worlds[2].links == 2 && row.dims == 4 && row.shape[0] == 8 && row.dim == -1 && row.tiles && row.rows &&
            row.type_count == 2 && row.types[1] == TUTTI_BFP8 && row.dram && row.l1 && !row.ring && row.along_line,
        "a row was read wrongly");
  CHECK(cases_read(
            "reduce_scatter,8,1,1x1x32x256,3,TILE,bf16,\"W(32,64)x4 / intermediate W(32,9)x4 / DRAMH(16,32)x2\",ring,",
            1, &row) &&
            row.in.kind == 'W' && row.in.cols == 64 && row.in.cores == 4 && row.out.kind == 'H' && row.out.rows == 16 &&
            row.out.cores == 2 && row.out.dram && !row.in.dram && row.meaning == CASES_UNSAID,
        "shards were read wrongly");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"reader", test_reader}, {"own", test_own}, {"file", test_file}};
  ranks_clear_environment();
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
