/* test: slow timeout=300 */
/* as_execute_test.c: `tutti as --execute` on four real processes: programs with every instruction, executed directly
 * and through tiles, on buffers read from and written to NumPy files; and error messages. */
#include <unistd.h>

#include "base/npy.h"
#include "base/text.h"
#include "base/types.h"
#include "ranks.h"
#include "test.h"

enum { RANKS = 4, SAID = 4096 };
#define TUTTI BUILD_DIR "/tutti"

static char folder[] = "/tmp/as_execute.XXXXXX";

/* ---- files ---- */

typedef double values_of(uint32_t rank, size_t i);

/* Stores `value` as element i of a buffer of this type. */
static void store(tutti_datatype type, void *data, size_t i, double value) {
  switch (type) {
    case TUTTI_F32: ((float *)data)[i] = (float)value; break;
    case TUTTI_F64: ((double *)data)[i] = value; break;
    case TUTTI_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    default: ((uint8_t *)data)[i] = (uint8_t)(int64_t)value; break;
  }
}

static size_t count_of(const struct tu_npy *npy) {
  size_t count = 1;
  for (uint32_t d = 0; d < npy->dims; d++) count *= npy->shape[d];
  return count;
}

static void file_name(char path[64], const char *name, uint32_t rank) { snprintf(path, 64, "%s_%u.npy", name, rank); }

/* Writes NAME_RANK.npy, of rows x cols, for all ranks. */
static void give(const char *name, tutti_datatype type, size_t rows, size_t cols, values_of *values) {
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct tu_npy npy = {.type = type, .dims = 2, .shape = {rows, cols}};
    struct tu_error error;
    char path[64];
    void *data = calloc(rows * cols + 1, tu_datatypes[type].bytes);
    for (size_t i = 0; i < rows * cols; i++) store(type, data, i, values(rank, i));
    npy.data = data;
    file_name(path, name, rank);
    CHECK(tu_npy_write(path, &npy, &error) == TUTTI_OK, "%s", error.text);
    free(data);
  }
}

/* Checks that the rank's file has this type and shape, and that each element is as `values` says. */
static void expect(const char *name, tutti_datatype type, size_t rows, size_t cols, uint32_t rank, values_of *values) {
  struct tu_npy npy;
  struct tu_error error;
  char path[64], *file;
  size_t bytes;
  file_name(path, name, rank);
  if (tu_read_file(path, &file, &bytes, &error) != TUTTI_OK) {
    FAIL("%s", error.text);
    return;
  }
  if (tu_npy_read(file, bytes, path, &npy, &error) != TUTTI_OK) {
    FAIL("%s", error.text);
  } else if (npy.type != type || npy.dims != 2 || npy.shape[0] != rows || npy.shape[1] != cols) {
    FAIL("%s: %s of %zux%zu", path, tutti_datatype_name(npy.type), npy.shape[0], npy.shape[1]);
  } else {
    void *wanted = calloc(count_of(&npy) + 1, tu_datatypes[type].bytes);
    for (size_t i = 0; i < count_of(&npy); i++) store(type, wanted, i, values(rank, i));
    size_t item = tu_datatypes[type].bytes, at = 0;
    while (at < npy.bytes && memcmp((const char *)npy.data + at, (char *)wanted + at, item) == 0) at += item;
    CHECK(at == npy.bytes, "%s: element %zu (row %zu, column %zu) is wrong", path, at / item, at / item / cols,
          at / item % cols);
    free(wanted);
  }
  free(file);
}

/* ---- the command ---- */

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "we");
  if (!file) abort();
  fputs(text, file);
  fclose(file);
}

/* Runs a shell command, puts its output into `said`, and returns its exit status. */
static int run_command(const char *command, char said[SAID]) {
  FILE *pipe = popen(command, "re");
  if (!pipe) abort();
  size_t length = fread(said, 1, SAID - 1, pipe);
  said[length] = '\0';
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Writes the program to a file and runs it on all ranks. */
static int execute(const char *program, const char *options, char said[SAID]) {
  char command[2048];
  write_text("program.pto", program);
  snprintf(command, sizeof command, "timeout 60 " TUTTI " run -n %d -- " TUTTI " as --execute program.pto %s 2>&1",
           RANKS, options);
  return run_command(command, said);
}

static const char *const ways[] = {"", "--lower", "--tiles 5x7", "--tiles 5x7 --ping-pong",
                                   "--tiles 3x1000 --ping-pong"};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bool run_well(const char *program, const char *way, const char *options) {
  char said[SAID], all[1024];
  snprintf(all, sizeof all, "%s %s", way, options);
  int status = execute(program, all, said);
  CHECK(status == 0 && said[0] == '\0', "%s\n%s: status %d: %s", program, all, status, said);
  return status == 0;
}

/* ---- collectives ---- */

enum { ROWS = 7, COLS = 10, SIZE = ROWS * COLS };

static double own(uint32_t rank, size_t i) { return (double)i + 10000.0 * rank; }
static double minus_one(uint32_t rank, size_t i) {
  (void)rank, (void)i;
  return -1;
}

static double gathered(uint32_t rank, size_t i) {
  size_t from = i / SIZE;
  return rank == 2 && from < RANKS ? own((uint32_t)from, i % SIZE) : -1;
}

static void test_gather(void) {
  static const char program[] =
      ".arg %group : !pto.group<...>\n.arg %dst : !pto.memref<...>\n"
      "tgather %group, %dst : (!pto.group<...>, !pto.memref<...>)\n";
  for (int w = 0; w < WAYS; w++) {
    give("src", TUTTI_F32, ROWS, COLS, own);
    give("dst", TUTTI_F32, ROWS * RANKS + 3, COLS, minus_one);
    if (!run_well(program, ways[w], "--root 2 --arg group=src_%r.npy --arg dst=dst_%r.npy --out dst=out_%r.npy"))
      return;
    for (uint32_t r = 0; r < RANKS; r++) expect("out", TUTTI_F32, ROWS * RANKS + 3, COLS, r, gathered);
  }
}

static double scattered(uint32_t rank, size_t i) { return own(1, rank * SIZE + i); }

static void test_scatter(void) {
  static const char program[] =
      ".arg %group : !pto.group<Px!pto.memref<7x10xi32>>\n.arg %src : !pto.memref<30x10xi32>\n"
      "tscatter %group, %src {root = 1}\n";
  for (int w = 0; w < WAYS; w++) {
    give("src", TUTTI_I32, 30, COLS, own);
    give("dst", TUTTI_I32, ROWS, COLS, minus_one);
    if (!run_well(program, ways[w], "--arg src=src_%r.npy --arg group=dst_%r.npy --out %group=out_%r.npy")) return;
    for (uint32_t r = 0; r < RANKS; r++) expect("out", TUTTI_I32, ROWS, COLS, r, scattered);
  }
}

static double of_rank_3(uint32_t rank, size_t i) {
  (void)rank;
  return own(3, i);
}

static void test_broadcast(void) {
  static const char program[] =
      ".arg %group : !pto.group<4x!pto.memref<MxNxf64>>\n.arg %src : !pto.memref<MxNxf64>\n"
      "%e = tbroadcast %group, %src {root = 3}\ntsync %e\n";
  for (int w = 0; w < WAYS; w++) {
    give("src", TUTTI_F64, ROWS, COLS, own);
    if (!run_well(program, ways[w], "--arg src=src_%r.npy --out group=out_%r.npy")) return;
    for (uint32_t r = 0; r < RANKS; r++) expect("out", TUTTI_F64, ROWS, COLS, r, of_rank_3);
  }
}

static double uneven(uint32_t rank, size_t i) { return (double)((i * 7 + rank * 13) % 31) + rank; }
static double reduced(uint32_t rank, size_t i, int op) {
  double sum = 0, low = uneven(0, i), high = low;
  for (uint32_t r = 0; r < RANKS; r++) {
    double value = uneven(r, i);
    sum += value;
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  return rank != 0 ? 0 : op == 0 ? sum : op == 1 ? high : low;
}
static double sum_of_all(uint32_t rank, size_t i) { return reduced(rank, i, 0); }
static double max_of_all(uint32_t rank, size_t i) { return reduced(rank, i, 1); }
static double min_of_all(uint32_t rank, size_t i) { return reduced(rank, i, 2); }

static void test_reduce(void) {
  static const char program[] =
      ".arg %group : !pto.group<...>\n.arg %s : !pto.memref<7x10xi32>\n.arg %h : !pto.memref<7x10xi32>\n"
      ".arg %l : !pto.memref<7x10xi32>\ntreduce %group, %s {op = #pto.reduce_op<Sum>}\n"
      "treduce %group, %h {op = #pto.reduce_op<Max>}\ntreduce %group, %l, #pto.reduce_op<Min>\n";
  for (int w = 0; w < WAYS; w++) {
    give("src", TUTTI_I32, ROWS, COLS, uneven);
    if (!run_well(program, ways[w], "--arg group=src_%r.npy --out s=sum_%r.npy --out h=max_%r.npy --out l=min_%r.npy"))
      return;
    for (uint32_t r = 0; r < RANKS; r++) {
      expect("sum", TUTTI_I32, ROWS, COLS, r, sum_of_all);
      expect("max", TUTTI_I32, ROWS, COLS, r, max_of_all);
      expect("min", TUTTI_I32, ROWS, COLS, r, min_of_all);
    }
  }
}

/* Gathers a group of tensors without rows: nothing is moved. */
static void test_empty(void) {
  static const char program[] =
      ".arg %group : !pto.group<...>\n.arg %dst : !pto.memref<...>\ntgather %group, %dst\n"
      "treduce %group, %dst[3, 0] {op = #pto.reduce_op<Sum>}\n";
  for (int w = 0; w < WAYS; w++) {
    give("src", TUTTI_F32, 0, COLS, own);
    give("dst", TUTTI_F32, ROWS, COLS, minus_one);
    if (!run_well(program, ways[w],
                  "--arg group=src_%r.npy --arg dst=dst_%r.npy --out dst=out_%r.npy --out group=g_%r.npy"))
      return;
    for (uint32_t r = 0; r < RANKS; r++) {
      expect("out", TUTTI_F32, ROWS, COLS, r, minus_one);
      expect("g", TUTTI_F32, 0, COLS, r, own);
    }
  }
}

/* ---- two ranks ---- */

static double before(uint32_t rank, size_t i) { return own((rank + RANKS - 1) % RANKS, i); }
static double after(uint32_t rank, size_t i) { return own((rank + 1) % RANKS, i); }

/* Three ways to name the memory of another rank: a member of a group; an argument that stands for its own part on
 * another rank (--at dst_remote=...); an argument that stands for another argument's part on another rank (--at
 * src_remote=src@...). */
static void test_ring(void) {
  static const struct {
    const char *program, *options;
    values_of *values;
  } table[] = {
      {".arg %dst : !pto.group<...>\n.arg %src : !pto.memref<7x10xf32>\n.arg %next : i32\ntput %dst[%next], %src\n",
       "--arg dst=dst_%r.npy --arg src=src_%r.npy --arg 'next=(rank+1)%ranks' --out dst=out_%r.npy", before},
      {".arg %dst_remote : !pto.memref<...>\n.arg %src_local : !pto.memref<...>\n"
       "tput %dst_remote, %src_local : (!pto.memref<...>, !pto.memref<...>)\n",
       "--arg dst_remote=dst_%r.npy --arg src_local=src_%r.npy --at 'dst_remote=(rank + 1) % ranks' "
       "--out dst_remote=out_%r.npy",
       before},
      {".arg %dst_local : !pto.memref<...>\n.arg %src_remote : !pto.memref<...>\n.arg %src : !pto.memref<...>\n"
       "tget %dst_local, %src_remote : (!pto.memref<...>, !pto.memref<...>)\n",
       "--arg dst_local=dst_%r.npy --arg src=src_%r.npy --at 'src_remote=src@(rank + ranks - 3) % ranks' "
       "--out dst_local=out_%r.npy",
       after},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    for (int w = 0; w < WAYS; w++) {
      give("src", TUTTI_F32, ROWS, COLS, own);
      give("dst", TUTTI_F32, ROWS, COLS, minus_one);
      if (!run_well(table[i].program, ways[w], table[i].options)) break;
      for (uint32_t r = 0; r < RANKS; r++) expect("out", TUTTI_F32, ROWS, COLS, r, table[i].values);
    }
}

/* Expected result: the part of 4x5 elements from row 2, column 3 of the source, a memref with gaps, is at row 1, column
 * 4 on the next rank. */
static double part_of(uint32_t rank, size_t i) {
  size_t row = i / COLS, col = i % COLS;
  bool inside = row >= 1 && row < 5 && col >= 4 && col < 9;
  return inside ? own((rank + RANKS - 1) % RANKS, (row + 1) * COLS + col - 1) : -1;
}

static void test_parts(void) {
  static const char program[] =
      ".arg %dst : !pto.group<...>\n.arg %src : !pto.memref<7x10xi32, strided<[32, 3]>>\n.arg %next : index\n"
      ".const %one = 1 : index\ntput %dst[%next, %one, 4], %src[2, 3] {shape = #pto.shape<4x5>}\n";
  for (int w = 0; w < WAYS; w++) {
    give("src", TUTTI_I32, ROWS, COLS, own);
    give("dst", TUTTI_I32, ROWS, COLS, minus_one);
    if (!run_well(program, ways[w],
                  "--arg dst=dst_%r.npy --arg src=src_%r.npy --arg 'next=(rank+1)%ranks' --out dst=out_%r.npy "
                  "--out src=same_%r.npy"))
      return;
    for (uint32_t r = 0; r < RANKS; r++) {
      expect("out", TUTTI_I32, ROWS, COLS, r, part_of);
      expect("same", TUTTI_I32, ROWS, COLS, r, own);
    }
  }
}

static double added(uint32_t rank, size_t i) {
  return rank == 0 ? (double)(RANKS * i) + 10000.0 * RANKS * (RANKS - 1) / 2 : 0;
}

static void test_atomic_add(void) {
  static const char program[] =
      ".arg %sum : !pto.group<4x!pto.memref<7x10xi32>>\n.arg %src : !pto.memref<...>\n"
      "tput %sum[0], %src {atomic = #pto.atomic<Add>}\n";
  for (int w = 0; w < WAYS; w++) {
    give("src", TUTTI_I32, ROWS, COLS, own);
    if (!run_well(program, ways[w], "--arg src=src_%r.npy --out sum=out_%r.npy")) return;
    for (uint32_t r = 0; r < RANKS; r++) expect("out", TUTTI_I32, ROWS, COLS, r, added);
  }
}

static double twice(uint32_t rank, size_t i) { return i < 2 * COLS ? before(rank, i) : -1; }

static void test_async(void) {
  static const char program[] =
      ".arg %dst : !pto.group<...>\n.arg %src : !pto.memref<...>\n.arg %back : !pto.memref<1x10xf32>\n.arg %next : u8\n"
      "%a = tput_async %dst[%next, 0, 0], %src[0, 0] {shape = #pto.shape<10>}\n"
      "%b = tput_async %dst[%next, 1, 0], %src[1, 0] {shape = #pto.shape<1x10>}\ntsync %b : !pto.event\n"
      "%c = tget_async %back, %dst[%next, 1, 0]\ntsync %a, %c\n";
  give("src", TUTTI_F32, ROWS, COLS, own);
  give("dst", TUTTI_F32, ROWS, COLS, minus_one);
  if (!run_well(program, "",
                "--arg dst=dst_%r.npy --arg src=src_%r.npy --arg 'next=(rank+1)%ranks' --out dst=out_%r.npy "
                "--out back=back_%r.npy"))
    return;
  for (uint32_t r = 0; r < RANKS; r++) expect("out", TUTTI_F32, ROWS, COLS, r, twice);
}

/* ---- signals ---- */

static double of_rank_0(uint32_t rank, size_t i) {
  (void)rank;
  return own(0, i);
}
static double row_of_ones(uint32_t rank, size_t i) { return rank == 0 && i / COLS == 1 && i % COLS < RANKS ? 1 : 0; }

/* Rank 0's data goes round the ring of ranks. Each rank waits for the signal that the data has arrived, and signals the
 * next rank. Then all ranks signal rank 0. */
static void test_signals(void) {
  static const char program[] =
      ".arg %data : !pto.group<4x!pto.memref<7x10xf64>>\n.arg %told : !pto.group<4x!pto.memref<i32>>\n"
      ".arg %board : !pto.group<4x!pto.memref<7x10xi32>>\n.arg %me : i32; .arg %next : i32; .arg %first : i32\n"
      ".const %one = 1 : i32\n.const %none = 0 : i32\n"
      "tnotify %told[0], %first {op = #pto.notify_op<AtomicAdd>}\n" /* adds 1 on rank 0, 0 on the others */
      "twait %told[%me], %none {cmp = #pto.cmp<GT>}\n"
      "tput %data[%next], %data[%me]\n"
      "tnotify %told[%next], %one {op = #pto.notify_op<Set>}\n"
      "tnotify %board[0, 1, %me], %one {op = #pto.notify_op<Set>}\n"
      "twait %board[%me, 1, 0], %one {cmp = #pto.cmp<EQ>, shape = #pto.shape<1x4>, rank = 0}\n"
      "%all = ttest %board[%me, 1, 0], %one {cmp = #pto.cmp<EQ>, shape = #pto.shape<1x4>, rank = 0}\n"
      "%none_told = ttest %board[%me, 2, 0], %one {cmp = #pto.cmp<GE>, shape = #pto.shape<5x10>, rank = 0}\n";
  for (int w = 0; w < WAYS; w++) {
    give("data", TUTTI_F64, ROWS, COLS, own);
    unlink("all_0.npy");
    unlink("all_1.npy");
    if (!run_well(program, ways[w],
                  "--arg data=data_%r.npy --arg me=rank --arg 'next=(rank+1)%ranks' --arg 'first=(ranks-rank)/ranks' "
                  "--out data=out_%r.npy --out board=board_%r.npy --out all=all_%r.npy --out none_told=none_%r.npy"))
      return;
    for (uint32_t r = 0; r < RANKS; r++) {
      expect("out", TUTTI_F64, ROWS, COLS, r, of_rank_0);
      expect("board", TUTTI_I32, ROWS, COLS, r, row_of_ones);
    }
    static const char *const names[] = {"none_0.npy", "all_0.npy"};
    for (uint8_t i = 0; i < 2; i++) {
      char *file = NULL;
      size_t bytes;
      struct tu_npy npy;
      struct tu_error error;
      bool read = tu_read_file(names[i], &file, &bytes, &error) == TUTTI_OK &&
                  tu_npy_read(file, bytes, names[i], &npy, &error) == TUTTI_OK;
      CHECK(read && npy.type == TUTTI_U8 && npy.dims == 0 && *(const uint8_t *)npy.data == i, "%s is not %u", names[i],
            i);
      free(file);
    }
    CHECK(access("all_1.npy", F_OK) != 0, "rank 1 wrote the result of a test that it did not execute");
  }
}

/* ---- errors ---- */

#define G ".arg %g : !pto.group<...>\n.arg %m : !pto.memref<...>\n"

/* `said`: facts of the error message. */
static const struct refusal {
  const char *program, *options, *said;
} refusals[] = {
    {"tgathr %a\n", "", "rank 0: program.pto:1:1:|'tgathr'|'tgather'"},
    {G, "--arg f=src_%r.npy", "rank 0|--arg|program.pto|'f'"},
    {G, "--arg mm=src_%r.npy", "'mm'|'m'"},
    {G, "--arg m", "rank 0|--arg|NAME=|'m'"},
    {G, "--arg m=src_%x.npy", "rank 0|--arg|%r|%n|%%|'src_%x.npy'"},
    {G, "--arg m=none_such.npy", "rank 0|'none_such.npy'|No such file or directory"},
    {".arg %m : !pto.memref<...>\n", "--arg m=only_0_of_%r.npy", "rank 1|'only_0_of_1.npy'|No such file or directory"},
    {G, "--arg m=program.pto", "rank 0|program.pto|numpy.save"},
    {G, "--arg m=src_%r.npy --arg m=src_%r.npy", "rank 0|--arg|once|'m=src_%r.npy'"},
    {G, "--arg m=src_%r.npy", "rank 0|%g|--arg g=FILE|!pto.group<4>"},
    {".arg %m : !pto.memref<7x11xf32>\n", "--arg m=src_%r.npy",
     "rank 0|src_0.npy|program.pto:1:6:|!pto.memref<7x11xf32>|%m|!pto.memref<7x10xf32>"},
    {".arg %m : !pto.memref<7x10xf64>\n", "--arg m=src_%r.npy", "found !pto.memref<7x10xf32>"},
    {".arg %n : i32\n", "", "rank 0|%n|--arg n=NUMBER"},
    {".arg %n : i32\n", "--arg n=1+", "rank 0|--arg n=1+|number:1:|rank, ranks or '('"},
    {".arg %n : i32\n", "--arg n=7/rank", "rank 0|--arg n=7/rank|number:1:|division by 0|'rank'"},
    {".arg %n : i32\n", "--arg 'n=(1'", "number:1:|(+ - * / %) or ')'|the text"},
    {".arg %n : i32\n", "--arg 'n=1 2'", "number:1:|(+ - * / %)|found '2'"},
    {".arg %n : i32\n", "--arg 'n=((((((((((((((((((1))))))))))))))))))'", "number:1:|16|parentheses"},
    {".arg %n : u8\n", "--arg 'n=rank*100'", "rank 3: program.pto:1:6:|u8|%n|found 300"},
    {".arg %n : i32\n", "--root 4 --arg n=1", "rank 0|--root|below 4|found 4"},
    {".arg %g : !pto.group<3x!pto.memref<4xf32>>\n", "",
     "rank 0: program.pto:1:6:|!pto.group<3x!pto.memref<4xf32>>|%g|!pto.group<4>"},
    {".arg %m : !pto.memref<4xf32>\n.arg %n : index\ntget %m, %m {rank = 4}\n", "--arg n=0",
     "rank 0: program.pto:3:1: |below 4|found 4"},
    {G ".arg %i : index\ntput %g[%i], %m\n", "--arg g=src_%r.npy --arg m=src_%r.npy --arg i=rank+1",
     "rank 3: program.pto:4:6:|below 4|index|%g|found 4"},
    {G "tgather %g, %m\n", "--arg g=src_%r.npy --arg m=src_%r.npy",
     "rank 0: program.pto:3:13:|1x1x1x28x10|found 1x1x1x7x10"},
    {G, "--arg g=src_%r.npy --arg m=src_%r.npy --at m=4", "rank 0|--at m=4|below 4|found 4"},
    {G, "--arg g=src_%r.npy --arg m=src_%r.npy --at g=1", "rank 0|--at g=1|memrefs"},
    {G ".arg %k : !pto.memref<...>\n", "--arg g=src_%r.npy --arg m=src_%r.npy --at m=k@0", "rank 0|--at m=k@0|buffer"},
    {".arg %a : !pto.memref<4xf32>\n.arg %b : !pto.memref<4xf32>\n.arg %c : !pto.memref<4xf32>\n",
     "--at a=b@0 --at b=c@0", "rank 0|--at b=c@0|buffer"},
    {".arg %a : !pto.memref<4xf32>\n.arg %b : !pto.memref<5xf32>\n", "--at a=b@0",
     "rank 0: program.pto:1:6:|!pto.memref<4xf32>|%a|found !pto.memref<5xf32>"},
    {".arg %a : !pto.memref<4xbf16>\n", "--out a=a.npy", "rank 0|--out|NumPy|'a=a.npy'|bf16"},
    {".const %a = 1 : i32\n", "--out a=a.npy", "rank 0|--out|ttest|'a=a.npy'"},
    {".arg %a : !pto.memref<4xf32>\n", "--out a=/no/such/folder/a.npy",
     "rank 0|'/no/such/folder/a.npy'|No such file or directory"},
    {".arg %g : !pto.group<...>\n", "--arg g=other_%r.npy",
     "rank 0: |%g|f32 of 1x1x1x7x10 on rank 0|f32 of 1x1x1x7x11 on rank 3"},
    {".arg %m : !pto.memref<...>\ntput %m[0, 0], %m[1, 0] {shape = #pto.shape<2x3>}\n", "--arg m=src_%r.npy",
     "program.pto:2:1: tutti_put: "},
    {".arg %s : !pto.group<4x!pto.memref<i32>>\n.const %one = 1 : i32\ntwait %s[0], %one {cmp = #pto.cmp<EQ>, rank = "
     "0}\n",
     /* another rank may fail first, as its time-out in a barrier is equally long */
     "", "rank 0: program.pto:3:1: "},
};

/* Writes src_R.npy of all ranks; other_R.npy, which has another size on rank 3; and only_0_of_R.npy of rank 0 alone. */
static void write_files(void) {
  give("src", TUTTI_F32, ROWS, COLS, own);
  give("other", TUTTI_F32, ROWS, COLS + 1, own);
  for (int r = 0; r < 3; r++) {
    char from[64], to[64];
    file_name(from, "src", 0);
    file_name(to, "other", (uint32_t)r);
    unlink(to);
    CHECK(link(from, to) == 0, "link");
  }
  unlink("only_0_of_0.npy");
  CHECK(link("src_0.npy", "only_0_of_0.npy") == 0, "link");
}

static void check_refusal(const struct refusal *refusal) {
  char said[SAID];
  int status = execute(refusal->program, refusal->options, said);
  CHECK(status == 1 && test_contains(said, refusal->said), "%s%s: status %d, '%s', expected the facts '%s'",
        refusal->program, refusal->options, status, said, refusal->said);
  const char *first = strstr(said, "tutti as: "), *second = first ? strstr(first + 1, "tutti as: ") : NULL;
  /* Errors before the program runs are printed by one rank. After that, each rank prints its own. */
  bool locally = strstr(refusal->said, "tutti_put") || strstr(refusal->said, "program.pto:3:1: ");
  CHECK(first && (!second || locally), "%s%s: printed by several ranks: %s", refusal->program, refusal->options, said);
}

static void test_refusals(void) {
  write_files();
  setenv("TUTTI_TIMEOUT_MS", "1000", 1);
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) check_refusal(&refusals[i]);
  unsetenv("TUTTI_TIMEOUT_MS");
}

/* Ranks may run different programs, if these have the same arguments. */
static void test_programs_that_differ(void) {
  static const char of_others[] = ".arg %s : !pto.group<4x!pto.memref<4xi32>>\n";
  static const char first[] =
      ".arg %s : !pto.group<4x!pto.memref<4xi32>>\n.const %one = 1 : i32\n"
      "tnotify %s[2, 3], %one {op = #pto.notify_op<Set>}\n";
  static const struct {
    const char *of_rank_2, *said;
  } table[] = {
      {of_others, NULL},
      {"", "rank 0: |memref|found 1 on rank 0|0 on rank 2"},
      {".arg %t : !pto.group<4x!pto.memref<4xi32>>\n", "rank 0: |%s|on rank 2"},
      {".arg %s : !pto.group<4x!pto.memref<5xi32>>\n",
       "rank 0: |%s|i32 of 1x1x1x1x4 on rank 0|i32 of 1x1x1x1x5 on rank 2"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    char said[SAID];
    write_text("program_0.pto", first);
    write_text("program_1.pto", of_others);
    write_text("program_2.pto", table[i].of_rank_2);
    write_text("program_3.pto", of_others);
    int status = run_command(
        "timeout 60 " TUTTI " run -n 4 -- sh -c 'exec " TUTTI " as --execute program_$TUTTI_RANK.pto' 2>&1", said);
    if (table[i].said) CHECK(status == 1 && test_contains(said, table[i].said), "status %d: %s", status, said);
    else CHECK(status == 0 && !said[0], "status %d: %s", status, said);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"gather", test_gather},   {"scatter", test_scatter},       {"broadcast", test_broadcast},
      {"reduce", test_reduce},   {"empty", test_empty},           {"ring", test_ring},
      {"parts", test_parts},     {"atomic_add", test_atomic_add}, {"async", test_async},
      {"signals", test_signals}, {"refusals", test_refusals},     {"programs_that_differ", test_programs_that_differ}};
  ranks_clear_environment();
  if (!mkdtemp(folder) || chdir(folder) != 0) abort();
  int status = test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
  if (system("rm -rf \"$PWD\"") != 0) status = 1;
  return status;
}
