/* pto_test.c: tests how PTO assembly is read, written and lowered, and the messages of errors. */
#include "pto/pto.h"

#include "base/types.h"
#include "test.h"

static struct tu_pto_module *read_text(const char *text, struct tu_error *error) {
  struct tu_pto_module *module = NULL;
  *error = (struct tu_error){0};
  return tu_pto_read(text, strlen(text), "x.pto", &module, error) == TUTTI_OK ? module : NULL;
}

static bool same_type(const struct tu_pto_type *a, const struct tu_pto_type *b) {
  bool same = a->kind == b->kind && a->elided == b->elided && (a->kind != TU_PTO_GROUP || a->count == b->count);
  if (!same || a->elided || (a->kind >= TU_PTO_INDEX && a->kind <= TU_PTO_EVENT)) return same;
  if (a->element != b->element) return false;
  if (a->kind == TU_PTO_SCALAR) return true;
  if (a->kind == TU_PTO_TILE)
    return a->rows == b->rows && a->cols == b->cols && a->valid_rows.count == b->valid_rows.count &&
           a->valid_rows.open == b->valid_rows.open && a->valid_cols.count == b->valid_cols.count &&
           a->valid_cols.open == b->valid_cols.open;
  return a->dims == b->dims && memcmp(a->shape, b->shape, sizeof a->shape) == 0 && a->strided == b->strided &&
         (!a->strided || memcmp(a->strides, b->strides, sizeof a->strides) == 0);
}

/* Returns true if two values are equal, except for their indices: arguments are written first, which may change
 * indices. */
static bool same_value(const struct tu_pto_module *a, uint32_t i, const struct tu_pto_module *b, uint32_t j) {
  if (i == TU_PTO_NONE || j == TU_PTO_NONE) return i == j;
  const struct tu_pto_value *x = &a->values[i], *y = &b->values[j];
  return strcmp(x->name, y->name) == 0 && x->origin == y->origin && same_type(&x->type, &y->type) &&
         x->number == y->number && memcmp(&x->fraction, &y->fraction, sizeof x->fraction) == 0;
}

static bool same_operand(const struct tu_pto_module *a, const struct tu_pto_operand *x, const struct tu_pto_module *b,
                         const struct tu_pto_operand *y) {
  bool same = same_value(a, x->value, b, y->value) && x->index_count == y->index_count;
  for (uint32_t i = 0; same && i < x->index_count; i++)
    same = same_value(a, x->indices[i].value, b, y->indices[i].value) && x->indices[i].number == y->indices[i].number;
  return same;
}

static bool same_instruction(const struct tu_pto_module *a, const struct tu_pto_instruction *x,
                             const struct tu_pto_module *b, const struct tu_pto_instruction *y) {
  bool same = x->opcode == y->opcode && same_value(a, x->result, b, y->result) && x->choice == y->choice &&
              x->rank == y->rank && x->shape_dims == y->shape_dims && x->operand_count == y->operand_count &&
              memcmp(x->shape, y->shape, sizeof x->shape) == 0;
  for (uint32_t i = 0; same && i < x->operand_count; i++)
    same = same_operand(a, &a->operands[x->operand_first + i], b, &b->operands[y->operand_first + i]);
  return same;
}

static bool same_module(const struct tu_pto_module *a, const struct tu_pto_module *b) {
  bool same = a->value_count == b->value_count && a->instruction_count == b->instruction_count;
  for (uint32_t i = 0; same && i < a->value_count; i++) same = same_value(a, i, b, tu_pto_find(b, a->values[i].name));
  for (uint32_t i = 0; same && i < a->instruction_count; i++)
    same = same_instruction(a, &a->instructions[i], b, &b->instructions[i]);
  return same;
}

/* Writes the module as text, checks that the text reads as the same module, and returns the text. The caller frees the
 * text. */
static char *write_text(const struct tu_pto_module *module, const char *of) {
  struct tu_text text = {0};
  struct tu_error error;
  tu_pto_write(module, &text);
  struct tu_pto_module *again = read_text(text.chars, &error);
  CHECK(again && same_module(module, again), "%s\nis written as\n%s\nwhich is not the same: %s", of, text.chars,
        error.text);
  tu_pto_destroy(again);
  return text.chars;
}

#define M "!pto.memref<16x32xf32>"
#define G "!pto.group<4x!pto.memref<16x32xf32>>"
#define D "!pto.memref<64x32xf32>"

/* Texts that are written as they were read. */
static const char *const kept_texts[] = {
    "",
    ".arg %g : " G "\n.arg %d : " D "\ntgather %g, %d : (" G ", " D ")\n",
    ".arg %group : !pto.group<...>\n.arg %dst : !pto.memref<...>\n"
    "tgather %group, %dst : (!pto.group<...>, !pto.memref<...>)\n",
    ".arg %group : !pto.group<...>\n.arg %src : !pto.memref<...>\n"
    "tscatter %group, %src : (!pto.group<...>, !pto.memref<...>)\n"
    "tbroadcast %group, %src : (!pto.group<...>, !pto.memref<...>)\n"
    "treduce %group, %src {op = #pto.reduce_op<Sum>} : (!pto.group<...>, !pto.memref<...>)\n"
    "tput %group[1], %src : (!pto.group<...>, index, !pto.memref<...>)\n"
    "tget %src, %group[2] : (!pto.memref<...>, !pto.group<...>, index)\n",
    ".arg %signal_remote : !pto.memref<i32>\n.const %value = 1 : i32\n"
    "tnotify %signal_remote, %value {op = #pto.notify_op<Set>} : (!pto.memref<i32>, i32)\n"
    "tnotify %signal_remote, %value {op = #pto.notify_op<AtomicAdd>} : (!pto.memref<i32>, i32)\n",
    ".arg %g : !pto.group<Nx!pto.memref<?x8xi32>>\n.arg %d : !pto.memref<?x8xi32, strided<[16, 2]>>\n"
    ".const %r = 3 : index\n%e = tput %g[%r], %d {atomic = #pto.atomic<Add>, rank = 2} : "
    "(!pto.group<Nx!pto.memref<?x8xi32>>, index, !pto.memref<?x8xi32, strided<[16, 2]>>) -> !pto.event\n"
    "%f = tgather %g, %d[4, 0] {root = 1} : (!pto.group<Nx!pto.memref<?x8xi32>>, "
    "!pto.memref<?x8xi32, strided<[16, 2]>>, index, index) -> !pto.event\ntsync %e, %f : (!pto.event, !pto.event)\n",
    ".const %i = -128 : i8\n.const %u = 255 : u8\n.const %f = -0.1 : f32\n.const %t = 1 : i1\n"
    ".const %l = -9223372036854775808 : i64\n.const %h = 1e+300 : f64\n.const %0 = 9223372036854775807 : index\n",
    ".arg %t : !pto.tile<16x32xf32>\n.arg %u : !pto.tile<5x8xf32, valid=?x7?>\n"
    ".arg %v : !pto.tile<16x32xf32, valid=?x32>\n.arg %w : !pto.tile<...>\n",
    ".arg %g : !pto.group<4>\n.arg %s : !pto.memref<1x1x1x0x8xu8>\n",
    /* The destination may be larger than needed, and may begin at an index. */
    ".arg %g : " G "\n.arg %d : !pto.memref<80x40xf32>\ntgather %g, %d[10, 8] : (" G
    ", !pto.memref<80x40xf32>, index, index)\ntbroadcast %g, %d[0, 0] : (" G
    ", !pto.memref<80x40xf32>, index, index)\ntput %g[3, 1, 2], %d[5, 5] {shape = #pto.shape<15x30>} : (" G
    ", index, index, index, !pto.memref<80x40xf32>, index, index)\n",
    ".arg %s : !pto.memref<16x16xi32>\n.const %v = 1 : i32\n"
    "tnotify %s[3, 4], %v {op = #pto.notify_op<Set>, rank = 0} : (!pto.memref<16x16xi32>, index, index, i32)\n"
    "twait %s[2, 4], %v {cmp = #pto.cmp<NE>, shape = #pto.shape<4x8>} : (!pto.memref<16x16xi32>, index, index, "
    "i32)\n"
    "%t = ttest %s[1], %v {cmp = #pto.cmp<GT>, rank = 1} : (!pto.memref<16x16xi32>, index, i32) -> i1\n",
};

/* Texts that are written in another form. */
static const struct {
  const char *text, *written;
} rewritten_texts[] = {
    {" \t\r\n// nothing\n;;\n", ""},
    {".arg %dst_remote : !pto.memref<...>; .arg %src_local : !pto.memref<...>;\n"
     "tput %dst_remote, %src_local : (!pto.memref<...>, !pto.memref<...>);tget %dst_remote,%src_local\n",
     ".arg %dst_remote : !pto.memref<...>\n.arg %src_local : !pto.memref<...>\n"
     "tput %dst_remote, %src_local : (!pto.memref<...>, !pto.memref<...>)\n"
     "tget %dst_remote, %src_local : (!pto.memref<...>, !pto.memref<...>)\n"},
    {".arg %signal : !pto.memref<i32>\n.arg %signal_matrix : !pto.memref<i32, MxN>\n.arg %cmp_value : i32\n"
     "twait %signal, %cmp_value {cmp = #pto.cmp<EQ>} : (!pto.memref<i32>, i32)\n"
     "twait %signal_matrix, %cmp_value {cmp = #pto.cmp<GE>} : (!pto.memref<i32, MxN>, i32)\n"
     "%result = ttest %signal, %cmp_value {cmp = #pto.cmp<LT>} : (!pto.memref<i32>, i32) -> i1\n",
     ".arg %signal : !pto.memref<i32>\n.arg %signal_matrix : !pto.memref<MxNxi32>\n.arg %cmp_value : i32\n"
     "twait %signal, %cmp_value {cmp = #pto.cmp<EQ>} : (!pto.memref<i32>, i32)\n"
     "twait %signal_matrix, %cmp_value {cmp = #pto.cmp<GE>} : (!pto.memref<MxNxi32>, i32)\n"
     "%result = ttest %signal, %cmp_value {cmp = #pto.cmp<LT>} : (!pto.memref<i32>, i32) -> i1\n"},
    /* The opcode may have the prefix "pto.", the attribute may stand among the operands, and the signature may be a
     * single type or missing. */
    {".arg %g : " G "\n.arg %m : " M
     "\npto.treduce %g, %m, #pto.reduce_op<Max>\n%e=tget_async %m[0,0],%g[1,2,3]{shape=#"
     "pto.shape<1x4>}\ntsync %e : !pto.event\n",
     ".arg %g : " G "\n.arg %m : " M "\ntreduce %g, %m {op = #pto.reduce_op<Max>} : (" G ", " M
     ")\n%e = tget_async %m[0, 0], %g[1, 2, 3] {shape = #pto.shape<1x4>} : (" M ", index, index, " G
     ", index, index, index) -> !pto.event\ntsync %e : (!pto.event)\n"},
    {".const %a = 00 : u64\n.const %b = -0 : f16 // minus zero\r\n.arg %c : bf16\n",
     ".arg %c : bf16\n.const %a = 0 : u64\n.const %b = -0 : f16\n"},
    {".arg %t : !pto.tile < 16 x 32 x f32 , valid = 16? x 31? >\n", ".arg %t : !pto.tile<16x32xf32, valid=?x31?>\n"},
    {".arg %a : !pto.memref<i32, 4x8>\n.arg %b : !pto.memref<i32, 4x8, strided<[9, 1]>>\n",
     ".arg %a : !pto.memref<4x8xi32>\n.arg %b : !pto.memref<4x8xi32, strided<[9, 1]>>\n"},
    /* Signatures fill unknown parts of arguments; names of sizes become numbers everywhere. */
    {".arg %a : !pto.memref<...>\n.arg %b : !pto.memref<?x8xf32>\n.arg %c : !pto.memref<NxMxf32>\n"
     "tput %a, %b : (!pto.memref<4x8xf32>, !pto.memref<4x8xf32>)\ntput %c, %b : (!pto.memref<4x?xf32>, "
     "!pto.memref<?xMxf32>)\n",
     ".arg %a : !pto.memref<4x8xf32>\n.arg %b : !pto.memref<4x8xf32>\n.arg %c : !pto.memref<4x8xf32>\n"
     "tput %a, %b : (!pto.memref<4x8xf32>, !pto.memref<4x8xf32>)\n"
     "tput %c, %b : (!pto.memref<4x8xf32>, !pto.memref<4x8xf32>)\n"},
};

static void check_written(const char *text, const char *expected) {
  struct tu_error error;
  struct tu_pto_module *module = read_text(text, &error);
  CHECK(module, "%s\n%s", text, error.text);
  if (!module) return;
  char *written = write_text(module, text);
  CHECK(strcmp(written, expected) == 0, "written as\n%s\nexpected\n%s", written, expected);
  free(written);
  tu_pto_destroy(module);
}

static void test_texts(void) {
  for (size_t i = 0; i < sizeof kept_texts / sizeof kept_texts[0]; i++) check_written(kept_texts[i], kept_texts[i]);
  for (size_t i = 0; i < sizeof rewritten_texts / sizeof rewritten_texts[0]; i++)
    check_written(rewritten_texts[i].text, rewritten_texts[i].written);
}

#define T "!pto.tile<8x32xf32, valid=?x?>"

/* lowered: NULL if lowering changes nothing. */
static const struct lowering {
  struct tu_pto_lowering how;
  const char *text, *lowered;
} lowerings[] = {
    {{8, 32, false},
     ".arg %g : " G "\n.arg %d : " D "\ntgather %g, %d\n",
     ".arg %g : " G "\n.arg %d : " D "\n.arg %tile0 : " T "\ntgather %g, %d, %tile0 : (" G ", " D ", " T ")\n"},
    {{8, 32, true},
     ".arg %g : " G "\n.arg %d : " D "\ntscatter %g, %d\n",
     ".arg %g : " G "\n.arg %d : " D "\n.arg %tile0 : " T "\n.arg %tile1 : " T "\ntscatter %g, %d, %tile0, %tile1 : (" G
     ", " D ", " T ", " T ")\n"},
    {{8, 32, false},
     ".arg %g : " G "\n.arg %m : " M "\ntreduce %g, %m {op = #pto.reduce_op<Min>}\n",
     ".arg %g : " G "\n.arg %m : " M "\n.arg %tile0 : " T "\n.arg %tile1 : " T
     "\ntreduce %g, %m, %tile0, %tile1 {op = #pto.reduce_op<Min>} : (" G ", " M ", " T ", " T ")\n"},
    {{8, 32, true},
     ".arg %g : " G "\n.arg %m : " M "\ntreduce %g, %m {op = #pto.reduce_op<Min>}\n%e = tbroadcast %g, %m\n",
     ".arg %g : " G "\n.arg %m : " M "\n.arg %tile0 : " T "\n.arg %tile1 : " T "\n.arg %tile2 : " T
     "\ntreduce %g, %m, %tile0, %tile1, %tile2 {op = #pto.reduce_op<Min>} : (" G ", " M ", " T ", " T ", " T
     ")\n%e = tbroadcast %g, %m, %tile0, %tile1 : (" G ", " M ", " T ", " T ") -> !pto.event\n"},
    /* 7 columns of f32 (28 bytes) are padded to 32 bytes; the name tile0 is in use; two element types need two
     * tiles. */
    {{5, 7, false},
     ".arg %tile0 : !pto.memref<7x10xf32>\n.arg %b : !pto.memref<7x10xf32>\n.arg %c : !pto.memref<3xf64>\n"
     ".arg %d : !pto.memref<3xf64>\ntput %tile0, %b\ntget %d, %c\n",
     ".arg %tile0 : !pto.memref<7x10xf32>\n.arg %b : !pto.memref<7x10xf32>\n.arg %c : !pto.memref<3xf64>\n"
     ".arg %d : !pto.memref<3xf64>\n.arg %tile1 : !pto.tile<5x8xf32, valid=?x7?>\n"
     ".arg %tile2 : !pto.tile<5x8xf64, valid=?x7?>\n"
     "tput %tile0, %b, %tile1 : (!pto.memref<7x10xf32>, !pto.memref<7x10xf32>, !pto.tile<5x8xf32, valid=?x7?>)\n"
     "tget %d, %c, %tile2 : (!pto.memref<3xf64>, !pto.memref<3xf64>, !pto.tile<5x8xf64, valid=?x7?>)\n"},
    /* Existing tiles are kept; instructions that need no tiles get none. */
    {{8, 32, true},
     ".arg %a : " M "\n.arg %b : " M "\n.arg %t : !pto.tile<4x8xf32>\n.arg %s : !pto.memref<i32>\n"
     ".const %v = 1 : i32\ntput %a, %b, %t : (" M ", " M ", !pto.tile<4x8xf32>)\n"
     "tnotify %s, %v {op = #pto.notify_op<Set>} : (!pto.memref<i32>, i32)\n",
     NULL},
    /* The fixed size of a tile need not divide the size of the data if all data fits into the tile at once. */
    {{8, 32, true},
     ".arg %a : !pto.memref<2x2x3xf32>\n.arg %b : !pto.memref<2x2x3xf32>\n.arg %t : !pto.tile<5x8xf32>\n"
     "tget %a, %b, %t : (!pto.memref<2x2x3xf32>, !pto.memref<2x2x3xf32>, !pto.tile<5x8xf32>)\n",
     NULL},
    {{1, 1, false},
     ".arg %a : !pto.memref<8xi8>\n.arg %b : !pto.memref<8xi8>\n"
     "%e = tput_async %a, %b : (!pto.memref<8xi8>, !pto.memref<8xi8>) -> !pto.event\ntsync %e : (!pto.event)\n",
     NULL},
    {{1 << 20, 1, false},
     ".arg %a : !pto.memref<...>\n.arg %b : !pto.memref<8xi8>\ntget %a, %b\n",
     ".arg %a : !pto.memref<...>\n.arg %b : !pto.memref<8xi8>\n.arg %tile0 : !pto.tile<1048576x32xi8, valid=?x1?>\n"
     "tget %a, %b, %tile0 : (!pto.memref<...>, !pto.memref<8xi8>, !pto.tile<1048576x32xi8, valid=?x1?>)\n"},
};

static void check_lowered(const struct lowering *l) {
  struct tu_error error;
  struct tu_pto_module *module = read_text(l->text, &error);
  CHECK(module && tu_pto_lower(module, &l->how, &error) == TUTTI_OK && tu_pto_check(module, &error) == TUTTI_OK,
        "%s\n%s", l->text, error.text);
  if (!module) return;
  const char *expected = l->lowered ? l->lowered : l->text;
  char *written = write_text(module, l->text);
  CHECK(strcmp(written, expected) == 0, "lowered to\n%s\nexpected\n%s", written, expected);
  /* A second lowering of the module changes nothing. */
  CHECK(tu_pto_lower(module, &l->how, &error) == TUTTI_OK, "again: %s", error.text);
  char *again = write_text(module, written);
  CHECK(strcmp(written, again) == 0, "lowered again, it is\n%s", again);
  free(written);
  free(again);
  tu_pto_destroy(module);
}

static void test_lowered(void) {
  for (size_t i = 0; i < sizeof lowerings / sizeof lowerings[0]; i++) check_lowered(&lowerings[i]);
}

static void test_not_lowered(void) {
  static const struct {
    struct tu_pto_lowering how;
    const char *text, *facts;
  } table[] = {
      {{8, 8, false},
       ".arg %a : !pto.memref<...>\n.arg %b : !pto.memref<...>\n  tput %a, %b\n",
       "x.pto:3:3: |element type|none|tput"},
      {{1 << 20, 1 << 20, false},
       ".arg %a : !pto.memref<8xi8>\n.arg %b : !pto.memref<8xi8>\ntput %a, %b\n",
       "x.pto:3:1: |1 GiB|found 1048576x1048576|i8"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_error error;
    struct tu_pto_module *module = read_text(table[i].text, &error);
    CHECK(module && tu_pto_lower(module, &table[i].how, &error) == TUTTI_ERR_ARGUMENT &&
              test_contains(error.text, table[i].facts),
          "'%s', expected '%s'", error.text, table[i].facts);
    tu_pto_destroy(module);
  }
}

static void test_bind(void) {
  static const char text[] =
      ".arg %g : !pto.group<Px!pto.memref<MxNxf32>>\n.arg %d : !pto.memref<?xNxf32>\n.arg %x : !pto.memref<...>\n"
      "tgather %g, %d\ntput %x, %g[0]\n";
  const struct tu_pto_type part = {
      .kind = TU_PTO_GROUP, .element = TUTTI_F32, .dims = 2, .shape = {1, 1, 1, 5, 6}, .count = 4};
  struct tu_pto_type whole = {.kind = TU_PTO_MEMREF, .element = TUTTI_F32, .dims = 2, .shape = {1, 1, 1, 20, 6}};
  struct tu_error error;
  struct tu_pto_module *module = read_text(text, &error);
  if (!module) {
    FAIL("%s", error.text);
    return;
  }
  CHECK(!tu_pto_is_closed(&module->values[0].type) && !tu_pto_is_closed(&module->values[1].type) &&
            !tu_pto_is_closed(&module->values[2].type),
        "open types are closed");
  CHECK(tu_pto_bind(module, 0, &part, &error) == TUTTI_OK, "%s", error.text);
  CHECK(module->values[1].type.shape[4] == 6, "N is %lld", (long long)module->values[1].type.shape[4]);
  struct tu_pto_type narrow = whole;
  narrow.shape[4] = 7;
  CHECK(tu_pto_bind(module, 1, &narrow, &error) == TUTTI_ERR_ARGUMENT &&
            test_contains(error.text, "x.pto:2:6: |!pto.memref<?x6xf32>|%d|!pto.memref<20x7xf32>"),
        "%s", error.text);
  CHECK(tu_pto_bind(module, 1, &whole, &error) == TUTTI_OK, "%s", error.text);
  CHECK(tu_pto_check(module, &error) == TUTTI_OK, "%s", error.text);
  CHECK(tu_pto_bind(module, 2, &whole, &error) == TUTTI_OK && tu_pto_is_closed(&module->values[2].type), "%s",
        error.text);
  CHECK(tu_pto_check(module, &error) == TUTTI_ERR_ARGUMENT &&
            test_contains(error.text, "x.pto:5:10: |expected 1x1x1x20x6|other memref|found 1x1x1x5x6"),
        "%s", error.text);
  tu_pto_destroy(module);
}

static void test_bind_number(void) {
  static const char text[] =
      ".arg %g : " G "\n.arg %m : " M "\n.arg %r : i8\n.arg %i : index\n.arg %f : f32\ntput %g[%r], %m[%i, 0]\n";
  struct tu_error error;
  struct tu_pto_module *module = read_text(text, &error);
  if (!module) {
    FAIL("%s", error.text);
    return;
  }
  static const struct {
    uint32_t value;
    int64_t number;
    const char *facts;
  } table[] = {
      {2, 128, "x.pto:3:6: |i8 for %r|found 128"},
      {2, -129, "x.pto:3:6: |i8 for %r|found -129"},
      {3, INT64_MIN, "x.pto:4:6: |index for %i|found -9223372036854775808"},
      {4, 1, "x.pto:5:6: |f32 for %f|found 1"},
      {0, 1, "x.pto:1:6: |" G " for %g|found 1"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    CHECK(tu_pto_bind_number(module, table[i].value, table[i].number, &error) == TUTTI_ERR_ARGUMENT &&
              test_contains(error.text, table[i].facts),
          "'%s', expected '%s'", error.text, table[i].facts);
  CHECK(tu_pto_bind_number(module, 2, 3, &error) == TUTTI_OK && tu_pto_check(module, &error) == TUTTI_OK, "%s",
        error.text);
  CHECK(tu_pto_bind_number(module, 3, 16, &error) == TUTTI_OK && tu_pto_check(module, &error) == TUTTI_ERR_ARGUMENT &&
            test_contains(error.text, "x.pto:6:14: |index below 16|found 16"),
        "%s", error.text);
  tu_pto_destroy(module);
}

static void test_extent(void) {
  static const struct {
    const char *text;
    int64_t shape[TUTTI_DIMS];
  } table[] = {
      {".arg %g : " G "\n.arg %d : !pto.memref<99x32xf32>\ntgather %g, %d\n", {1, 1, 1, 64, 32}},
      {".arg %g : " G "\n.arg %m : " M "\ntbroadcast %g, %m\n", {1, 1, 1, 16, 32}},
      {".arg %a : " M "\n.arg %b : !pto.memref<20x40xf32>\ntput %b[4, 8], %a\n", {1, 1, 1, 16, 32}},
      {".arg %a : " M "\n.arg %b : !pto.memref<20x40xf32>\ntget %a, %b[1, 1]\n", {1, 1, 1, 16, 32}},
      {".arg %a : " M "\n.arg %b : " M "\ntget %a[8, 8], %b[1, 1] {shape = #pto.shape<2x3>}\n", {1, 1, 1, 2, 3}},
      {".arg %a : !pto.memref<...>\n.arg %b : !pto.memref<3x?xf32>\ntget %a, %b\n", {1, 1, 1, 3, TU_PTO_OPEN}},
      {".arg %s : !pto.memref<7x13xi32>\n.const %v = 1 : i32\ntwait %s, %v {cmp = #pto.cmp<EQ>}\n", {1, 1, 1, 7, 13}},
      {".arg %s : !pto.memref<7x13xi32>\n.const %v = 1 : i32\ntwait %s[2, 3], %v {cmp = #pto.cmp<EQ>}\n",
       {1, 1, 1, 1, 1}},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_error error;
    struct tu_pto_module *module = read_text(table[i].text, &error);
    CHECK(module, "%s\n%s", table[i].text, error.text);
    if (!module) continue;
    int64_t shape[TUTTI_DIMS];
    tu_pto_extent(module, &module->instructions[0], shape);
    CHECK(memcmp(shape, table[i].shape, sizeof shape) == 0, "%s: %lldx%lld", table[i].text, (long long)shape[3],
          (long long)shape[4]);
    tu_pto_destroy(module);
  }
}

/* The time to read a module is linear in its length. A linear search for each name would take an hour here. */
static void test_many_names(void) {
  enum { NAMES = 400000 };
  struct tu_text text = {0};
  struct tu_error error;
  struct tu_pto_module *module;
  for (int i = 0; i < NAMES; i++) tu_text_print(&text, ".arg %%a%d : !pto.memref<f32, N%dx8>\n", i, i);
  tu_text_print(&text, "tput %%a%d, %%a0\n", NAMES - 1);
  bool read = tu_pto_read(text.chars, text.length, "x.pto", &module, &error) == TUTTI_OK;
  CHECK(read, "%s", error.text);
  if (read) {
    CHECK(module->value_count == NAMES && module->name_count == NAMES, "%u values", module->value_count);
    for (uint32_t i = 0; i < NAMES; i += 9999)
      CHECK(tu_pto_find(module, module->values[i].name) == i, "%s is another one", module->values[i].name);
    CHECK(tu_pto_find(module, "b") == TU_PTO_NONE, "found what is not there");
    tu_pto_destroy(module);
  }
  /* Two definitions of a name are found even if many others are between them. */
  tu_text_print(&text, ".arg %%a7 : index\n");
  CHECK(tu_pto_read(text.chars, text.length, "x.pto", &module, &error) == TUTTI_ERR_ARGUMENT &&
            strncmp(error.text, "x.pto:400002:6: ", 16) == 0,
        "%s", error.text);
  tu_text_fini(&text);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"texts", test_texts},
                                      {"lowered", test_lowered},
                                      {"not_lowered", test_not_lowered},
                                      {"bind", test_bind},
                                      {"bind_number", test_bind_number},
                                      {"extent", test_extent},
                                      {"many_names", test_many_names}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
