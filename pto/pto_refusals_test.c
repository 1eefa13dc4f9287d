/* pto_refusals_test.c: tests all errors of PTO assembly, and randomly damaged texts. */
#include "pto/pto.h"
#include "test.h"

/* This head is put before each text that does not begin with a directive. */
static const char head[] =
    ".arg %g : !pto.group<4x!pto.memref<16x32xf32>>; .arg %d : !pto.memref<64x32xf32>; .arg %a : "
    "!pto.memref<16x32xf32>\n"
    ".arg %b : !pto.memref<16x31xf32>; .arg %short : !pto.memref<63x32xf32>; .arg %wide : !pto.memref<64x40xf32>\n"
    ".arg %h64 : !pto.memref<64x32xf64>; .arg %i8 : !pto.memref<16x32xi8>; .arg %s : !pto.memref<4x8xi32>\n"
    ".arg %gap : !pto.memref<8xf32, strided<[2]>>; .arg %flat : !pto.memref<8xf32>\n"
    ".arg %t : !pto.tile<8x32xf32, valid=?x?>; .arg %u : !pto.tile<8x32xf32>; .arg %v8 : !pto.tile<8x32xf64>\n"
    ".arg %x : !pto.tile<8x32xf32, valid=5x32>; .arg %w : !pto.tile<8x32xf32, valid=8x31>\n"
    ".arg %t2 : !pto.tile<8x32xf32, valid=?x?>; .arg %t3 : !pto.tile<8x32xf32, valid=?x?>\n"
    ".const %v = 1 : i32; .const %i = 0 : index; .const %c4 = 4 : i32; .const %n = -1 : i32; .const %f = 1 : f32\n";

/* The messages name line 1, or line 9 if the head (8 lines) is put before the text. */
static const struct {
  const char *text, *facts;
} refusals[] = {
    {"arg %a : index", "1:1: |instruction|'arg'"},
    {".arc %a : index", "1:1: |.arg|.const|'.arc'|'.arg'"},
    {".argument %a : index", "1:1: |.arg|.const|'.argument'"},
    {".arg a : index", "1:6: |new value|63|'a'"},
    {".arg % : index", "1:6: |new value|63|'%'"},
    {".arg %a = 3 : index", "1:9: |':'|type|'='"},
    {".arg %a : indxe", "1:11: |a type|!pto.memref|index|'indxe'|'index'"},
    {".arg %a : !pto.memrf<...>", "1:11: |!pto.memref, !pto.group|!pto.event|'!pto.memrf'|'!pto.memref'"},
    {".arg %a : !pto", "1:11: |!pto.memref, !pto.group|!pto.event|'!pto'"},
    {".arg %a : !pto.event", "1:11: |type|argument|!pto.event"},
    {".arg %a : !pto.memref", "1:22: |'<'|the text"},
    {".arg %a : !pto.memref<", "1:23: |size|2^46|15|the text"},
    {".arg %a : !pto.memref<16x>", "1:26: |size|2^46|15|'>'"},
    {".arg %a : !pto.memref<16x32>", "1:28: |'x'|size|element type|'>'"},
    {".arg %a : !pto.memref<16x32xf23>", "1:29: |element type|'f23'|'f32'"},
    {".arg %a : !pto.memref<16x32xf32", "1:32: |'>'|the text"},
    {".arg %a : !pto.memref<1x1x1x1x1x1xf32>", "1:33: |at most 5|dimensions|'1xf32'"},
    {".arg %a : !pto.memref<-1x4xf32>", "1:23: |size|2^46|15|'-1x4xf32'"},
    {".arg %a : !pto.memref<70368744177665xi8>", "1:23: |size|2^46|15|'70368744177665xi8'"},
    {".arg %a : !pto.memref<4194304x4194304xf64>", "1:11: |64 TiB|!pto.memref<4194304x4194304xf64>"},
    {".arg %a : !pto.memref<TOOLONGTOBEANAMExf32>", "1:23: |size|2^46|15|'TOOLONGTOBEANAMExf32'"},
    {".arg %a : !pto.memref<mxnxf32>", "1:23: |element type|'mxnxf32'"},
    {".arg %a : !pto.memref<i32, 4x8xf32>", "1:32: |size|'f32'"},
    {".arg %a : !pto.memref<i32, strided<[1]>>", "1:28: |sizes|i32, 4x8|'strided'"},
    {".arg %a : !pto.memref<4x8xi32, dense<[8, 1]>>", "1:32: |'strided<[...]>'|'dense'"},
    {".arg %a : !pto.memref<4x8xi32, strided<[8]>>", "1:42: |','|stride|']'"},
    {".arg %a : !pto.memref<4x8xi32, strided<[8, 1, 1]>>", "1:45: |']>'|','"},
    {".arg %a : !pto.memref<4x8xi32, strided[8, 1]>", "1:39: |'<['|strided<[64, 1]>|'['"},
    {".arg %a : !pto.memref<4x8xi32, strided<[7, 1]>>", "1:11: |strides|overlap|!pto.memref<4x8xi32, strided<[7, 1]>>"},
    {".arg %a : !pto.memref<4x8xi32, strided<[0, 1]>>", "1:11: |strides|overlap|!pto.memref<4x8xi32, strided<[0, 1]>>"},
    {".arg %a : !pto.memref<4x8xi32, strided<[?, 1]>>", "1:41: |stride|2^46|'?'"},
    {".arg %a : !pto.memref<4x8xi32, strided<[70368744177664, 1]>>",
     "1:11: |64 TiB|!pto.memref<4x8xi32, strided<[70368744177664, 1]>>"},
    {".arg %a : !pto.group<0>", "1:11: |one memref|!pto.group<0>"},
    {".arg %a : !pto.group<>", "1:22: |size|2^46|15|'>'"},
    {".arg %a : !pto.group<4xf32>", "1:24: |'!pto.memref<'|'f32'"},
    {".arg %a : !pto.group<4x!pto.memref<4xf32>", "1:42: |'>'|the text"},
    {".arg %a : !pto.tile<0x8xf32>", "1:11: |one row|one column|!pto.tile<0x8xf32>"},
    {".arg %a : !pto.tile<4x7xf32>", "1:11: |rows|multiple|32 bytes|!pto.tile<4x7xf32>"},
    {".arg %a : !pto.tile<4x8>", "1:24: |'x'|element type|'>'"},
    {".arg %a : !pto.tile<?x8xf32>", "1:21: |2^20|'?'"},
    {".arg %a : !pto.tile<4x8xf32, valid=5x8>", "1:11: |valid rows|!pto.tile<4x8xf32, valid=5x8>"},
    {".arg %a : !pto.tile<4x8xf32, valid=4x9?>", "1:11: |valid columns|!pto.tile<4x8xf32, valid=4x9?>"},
    {".arg %a : !pto.tile<4x8xf32, valid=0x8>", "1:11: |valid rows|!pto.tile<4x8xf32, valid=0x8>"},
    {".arg %a : !pto.tile<4x8xf32, vaild=4x8>", "1:30: |'valid='|'vaild'"},
    {".arg %a : !pto.tile<1048576x1048576xf32>", "1:11: |1 GiB|!pto.tile<1048576x1048576xf32>"},
    {".arg %a : !pto.tile<1048577x8xf32>", "1:21: |2^20|'1048577x8xf32'"},
    {".arg %a : index index", "1:17: |';'|the line|'index'"},
    {".arg %a : index; .arg %a : i32", "1:23: |new name|'%a'|line 1"},
    {".const %a : i32", "1:11: |'='|':'"},
    {".const %a = x : i32", "1:13: |62 characters|'x'"},
    {".const %a = 0", "1:14: |':'|type|the text"},
    {".const %a = 2147483648 : i32", "1:13: |fits|type i32|'2147483648'"},
    {".const %a = -2147483649 : i32", "1:13: |fits|type i32|'-2147483649'"},
    {".const %a = -1 : u8", "1:13: |fits|type u8|'-1'"},
    {".const %a = 256 : u8", "1:13: |fits|type u8|'256'"},
    {".const %a = -1 : index", "1:13: |fits|type index|'-1'"},
    {".const %a = 1.5 : i32", "1:13: |fits|type i32|'1.5'"},
    {".const %a = 2 : i1", "1:13: |fits|type i1|'2'"},
    {".const %a = 1e999 : f64", "1:13: |fits|type f64|'1e999'"},
    {".const %a = 1 : !pto.memref<...>", "1:13: |constant|numeric|!pto.memref<...>"},
    {".const %a = 11111111111111111111111111111111111111111111111111111111111111111 : i32",
     "1:13: |62 characters|'111111111111111111111111111111111111111111111'"},
    {"tgathr %g, %d", "9:1: |instruction|'tgathr'|'tgather'"},
    {"tgather", "9:8: |value|defined above|the text"},
    {"tgather %h, %d", "9:9: |value|defined above|'%h'|'%h64'"},
    {"tgather %g %d", "9:12: |';'|the line|'%d'"},
    {"tgather %g, %d, %a", "9:17: |a tile|%a : !pto.memref<16x32xf32>"},
    {"tgather %g", "9:1: |2 operands|tgather|3 or 4|found 1"},
    {"tgather %g, %d : (!pto.group<...>)", "9:18: |2 types|fewer"},
    {"tgather %g, %d : (!pto.group<...>, !pto.memref<...>, index)", "9:18: |2 types|more"},
    {"tgather %g, %d : ()", "9:18: |2 types|none"},
    {"tgather %g, %d : !pto.group<...>", "9:18: |2 types|fewer"},
    {"tgather %g, %d : (!pto.group<3>, !pto.memref<...>)",
     "9:19: |!pto.group<4x!pto.memref<16x32xf32>>|%g|!pto.group<3>"},
    {"tgather %g, %d : (!pto.memref<...>, !pto.memref<...>)",
     "9:19: |!pto.group<4x!pto.memref<16x32xf32>>|%g|!pto.memref<...>"},
    {"tgather %g, %d : (!pto.group<...>, !pto.memref<64x33xf32>)",
     "9:36: |!pto.memref<64x32xf32>|%d|!pto.memref<64x33xf32>"},
    {"tgather %g, %d : (!pto.group<...>, !pto.memref<...>) -> !pto.event", "9:57: |result type|assigned"},
    {"tgather %g, %d : (!pto.group<...>, !pto.memref<...>) -> () x", "9:60: |';'|the line|'x'"},
    {"%e = tgather %g, %d : (!pto.group<...>, !pto.memref<...>) -> i1", "9:62: |!pto.event|%e|found i1"},
    {"%e = tgather %g, %d : (!pto.group<...>, !pto.memref<...>) -> ()", "9:64: |type|result|the text"},
    {"%e, %f = tgather %g, %d", "9:3: |'='|one result|','"},
    {"%a = tgather %g, %d", "9:1: |new name|'%a'|line 1"},
    {"%e = tgather %g, %e", "9:18: |value|defined above|'%e'"},
    {"tgather %d, %g", "9:9: |a group|%d : !pto.memref<64x32xf32>"},
    {"tgather %g, %a", "9:13: |expected 1x1x1x64x32|all ranks|found 1x1x1x16x32"},
    {"tgather %g, %i", "9:13: |a memref|%i : index"},
    {"tgather %g[0], %d", "9:9: |a group|%g : !pto.group<4x!pto.memref<16x32xf32>>"},
    {"tgather %g, %short", "9:13: |expected 1x1x1x64x32|all ranks|found 1x1x1x63x32"},
    {"tgather %g, %wide", "9:13: |expected 1x1x1x64x32|all ranks|found 1x1x1x64x40"},
    {"tgather %g, %wide[0, 9]", "9:13: |at least 1x1x1x64x32|all ranks|found 1x1x1x64x31"},
    {"tgather %g, %d[1, 0]", "9:13: |at least 1x1x1x64x32|all ranks|found 1x1x1x63x32"},
    {"tgather %g, %d[64, 0]", "9:13: |index below 64|found 64"},
    {"tgather %g, %d[0, 0, 0]", "9:13: |at most 2|indices of %d|found 3"},
    {"tgather %g, %h64", "9:13: |elements of f32|%g|%h64 : !pto.memref<64x32xf64>"},
    {"tgather %g, %d {root = 4}", "9:1: |root below 4|found 4"},
    {"tgather %g, %d {rank = 0}", "9:17: |root =|'rank'"},
    {"tgather %g, %d {root = 0, root = 1}", "9:27: |attribute|second 'root'"},
    {"tgather %g, %d {root 0}", "9:22: |'='|'0'"},
    {"tgather %g, %d {root = -1}", "9:24: |rank number|'-1'"},
    {"tgather %g, %d {root = 0", "9:25: |',' or '}'|the text"},
    {"tgather %g, %d {}}", "9:18: |';'|the line|'}'"},
    {"tgather %g, %d {shape = #pto.shape<4>}", "9:17: |root =|'shape'"},
    {"tgather %g, %d, #pto.reduce_op<Sum>", "9:17: |value|defined above|'#pto.reduce_op'"},
    {"tgather %g, %d, %t, %t", "9:21: |tiles|overlap|%t : !pto.tile<8x32xf32, valid=?x?>"},
    {"tgather %g, %d, %t, %u", "9:21: |one type|!pto.tile<8x32xf32, valid=?x?>|%u : !pto.tile<8x32xf32>"},
    {"tgather %g, %d, %v8", "9:17: |tile of f32|%v8 : !pto.tile<8x32xf64>"},
    {"tgather %g, %d, %w", "9:17: |valid columns|divides 32|found 31|31?"},
    {"tgather %g, %d, %x", "9:17: |valid rows|divides 16|found 5|5?"},
    {"tgather %g, %d, %t, %t2, %t3", "9:1: |2 operands|tgather|3 or 4|found 5"},
    {"treduce %g, %a", "9:1: |{op = #pto.reduce_op<...>}|treduce|none"},
    {"treduce %g, %a {op = #pto.reduce_op<Summ>}", "9:37: |Sum|Max|Min|'Summ'|'Sum'"},
    {"treduce %g, %a {op = #pto.reduce<Sum>}", "9:22: |#pto.reduce_op<...>|'#pto.reduce'|'#pto.reduce_op'"},
    {"treduce %g, %a {op = Sum}", "9:22: |#pto.reduce_op<...>|'Sum'"},
    {"treduce %g, %a {po = #pto.reduce_op<Sum>}", "9:17: |op =|root =|'po'|'op'"},
    {"treduce %g, %a, #pto.reduce_op<Sum> {op = #pto.reduce_op<Sum>}", "9:38: |attribute|second 'op'"},
    {"treduce %g, %a, %t {op = #pto.reduce_op<Sum>}", "9:1: |2 operands|treduce|4 or 5|found 3"},
    {"tput %a, %b", "9:10: |expected 1x1x1x16x32|other memref|found 1x1x1x16x31"},
    {"tput %a", "9:1: |2 operands|tput|3 or 4|found 1"},
    {"tput %g, %a", "9:6: |one memref|%group[0]|%g : !pto.group<4x!pto.memref<16x32xf32>>"},
    {"tput %g[4], %a", "9:6: |rank below 4|%g|found 4"},
    {"tput %g[%c4], %a", "9:6: |rank below 4|%g|found 4"},
    {"tput %g[%n], %a", "9:9: |index|0 or more|%n = -1"},
    {"tput %g[%f], %a", "9:9: |an index|%f : f32"},
    {"tput %g[%a], %a", "9:9: |an index|%a : !pto.memref<16x32xf32>"},
    {"tput %g[-1], %a", "9:9: |index|2^46|'-1'"},
    {"tput %g[0, 1, 1, 1, 1, 1, 1], %a", "9:27: |at most 6|indices|'1'"},
    {"tput %g[], %a", "9:9: |index|2^46|']'"},
    {"tput %g[0, 1, 1], %a", "9:6: |at least 1x1x1x16x32|other memref|found 1x1x1x15x31"},
    {"tput %g[0", "9:10: |',' or ']'|the text"},
    {"tput %g[0, 1], %a[1]", "9:1: |{shape = #pto.shape<...>}|both memrefs|none"},
    {"tput %a, %b[0, 0] {shape = #pto.shape<2x3>}", "9:6: |expected 1x1x1x2x3|shape|found 1x1x1x16x32"},
    {"tput %a[0, 0], %b[0, 0] {shape = #pto.shape<17x3>}", "9:16: |at least 1x1x1x17x3|shape|found 1x1x1x16x31"},
    {"tput %a[0, 0], %b[0, 0] {shape = #pto.shape<2x?>}", "9:47: |size|2^46|'?'"},
    {"tput %a[0, 0], %b[0, 0] {shape = #pto.shape<1x1x1x1x1x1>}", "9:55: |at most 5|dimensions|'1'"},
    {"tput %a, %i8 {atomic = #pto.atomic<Add>}", "9:10: |elements of f32|%a|%i8 : !pto.memref<16x32xi8>"},
    {"tput %i8, %i8 {atomic = #pto.atomic<Add>}",
     "9:6: |atomic addition|i32, u32, i64, u64, f16, bf16, f32, f64|%i8 : !pto.memref<16x32xi8>"},
    {"tput %i8, %i8 {atomic = #pto.atomic<Sub>}", "9:37: |None or Add|'Sub'"},
    {"tget %a, %a {atomic = #pto.atomic<Add>}", "9:14: |rank =|shape =|'atomic'"},
    {"tput_async %a, %a", "9:12: |flat memref|tput_async|found 1x1x1x16x32"},
    {"tput_async %gap, %gap", "9:12: |flat memref|tput_async|found 1x1x1x1x8|with gaps"},
    {"tput_async %flat, %flat, %t", "9:1: |2 operands|tput_async|found 3"},
    {"tnotify %s, %v", "9:1: |{op = #pto.notify_op<...>}|tnotify|none"},
    {"tnotify %a[0, 0], %v {op = #pto.notify_op<Set>}", "9:9: |signals|i32|%a : !pto.memref<16x32xf32>"},
    {"tnotify %s, %v {op = #pto.notify_op<Set>}", "9:9: |expected 1x1x1x1x1|one signal|found 1x1x1x4x8"},
    {"tnotify %s[0, 0], %i {op = #pto.notify_op<Set>}", "9:19: |value|type i32|%i : index"},
    {"tnotify %s[0, 0], %v {op = #pto.notify_op<Add>}", "9:43: |Set or AtomicAdd|'Add'"},
    {"%e = tnotify %s[0, 0], %v {op = #pto.notify_op<Set>}", "9:1: |no result|tnotify|'%e'"},
    {"twait %s, %v {cmp = #pto.cmp<EG>}", "9:30: |EQ, NE, GT, GE, LT or LE|'EG'|'EQ'"},
    {"twait %s, %v {cmp = #pto.cmp<EQ>, shape = #pto.shape<2x2>}", "9:7: |expected 1x1x1x2x2|shape|found 1x1x1x4x8"},
    {"twait %s[3, 7], %v {cmp = #pto.cmp<EQ>, shape = #pto.shape<2x2>}",
     "9:7: |at least 1x1x1x2x2|shape|found 1x1x1x1x1"},
    {"ttest %s, %v {cmp = #pto.cmp<EQ>}", "9:1: |a result|ttest|none"},
    {"twait %s, %v {cmp = #pto.cmp<EQ>} : (!pto.memref<4x8xi32>, i64)", "9:60: |i32|%v|found i64"},
    {"tsync %a", "9:7: |an event|%a : !pto.memref<16x32xf32>"},
    {"tsync", "9:6: |value|defined above|the text"},
    {"tput %a, %b @", "9:13: |';'|the line|'@'"},
    {"tput %a, %b ~", "9:13: |';'|the line|'~'"},
    {".arg %a : !pto.memrfe", "1:11: |!pto.memref, !pto.group|!pto.event|'!pto.memrfe'|'!pto.memref'"},
    {".arg %a : !", "1:11: |!pto.memref, !pto.group|!pto.event|'!'"},
    {".arg %q : !pto.memref<KxJxf32>; .arg %z : !pto.memref<4xKxf32>; tget %q, %z : (!pto.memref<3x5xf32>, "
     "!pto.memref<4x5xf32>)",
     "1:102: |!pto.memref<4x3xf32>|%z|!pto.memref<4x5xf32>"},
};
enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

static tutti_err read_text(const char *begin, const char *text, size_t bytes, struct tu_error *error) {
  size_t length = strlen(begin);
  char *whole = malloc(length + bytes + 1); /* no spare bytes, so that sanitizers see reads beyond the end */
  memcpy(whole, begin, length);
  memcpy(whole + length, text, bytes);
  struct tu_pto_module *module = NULL;
  *error = (struct tu_error){0};
  tutti_err err = tu_pto_read(whole, length + bytes, "x", &module, error);
  if (err == TUTTI_OK) tu_pto_destroy(module);
  free(whole);
  return err;
}

static void test_refusals(void) {
  for (size_t i = 0; i < REFUSALS; i++) {
    struct tu_error error;
    const char *text = refusals[i].text, *begin = text[0] == '.' || text[0] == 'a' ? "" : head;
    char facts[sizeof error.text];
    snprintf(facts, sizeof facts, "x:%s", refusals[i].facts);
    tutti_err err = read_text(begin, text, strlen(text), &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, facts), "%s: '%s', expected '%s'", text,
          err == TUTTI_OK ? "no fault" : error.text, facts);
  }
  struct tu_error error;
  CHECK(read_text(head, "", 0, &error) == TUTTI_OK, "%s", error.text);
}

/* Messages must name the right line and column, whatever stands before them in the line and in the lines above. */
static void test_positions(void) {
  static const struct {
    const char *text, *facts;
  } table[] = {
      {"// one\r\n\r\n \t; ; .arg q", "x:3:12: |new value|63|'q'"},
      {".arg %a : index // .arg %a : index\n\t.arg %a : index", "x:2:7: |new name|'%a'|line 1"},
      {".arg %a : index\n\n.arg %b : i32 /", "x:3:15: |';'|the line|'/'"},
      {".arg %a", "x:1:8: |':'|type|the text"},
      {".arg %a\n", "x:1:8: |':'|type|the line"},
      {".arg %a // : index\n", "x:1:19: |':'|type|the line"},
      {"\x80\n", "x:1:1: |instruction|'?'"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_error error;
    tutti_err err = read_text("", table[i].text, strlen(table[i].text), &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, table[i].facts), "'%s', expected '%s'", error.text,
          table[i].facts);
  }
}

/* Reads a text that may be invalid. If it is refused, the message must have a position and tell what was expected;
 * otherwise, reading and writing what was written must give the same text. */
static void check_text(const char *text, size_t bytes, uint32_t *read) {
  struct tu_pto_module *module, *again;
  struct tu_error error = {0};
  struct tu_text first = {0}, second = {0};
  if (tu_pto_read(text, bytes, "x", &module, &error) != TUTTI_OK) {
    CHECK(strncmp(error.text, "x:", 2) == 0 && strstr(error.text, ": expected "), "%s", error.text);
    return;
  }
  ++*read;
  tu_pto_write(module, &first);
  if (tu_pto_read(first.chars, first.length, "again", &again, &error) != TUTTI_OK) {
    FAIL("%s\n%s", first.chars, error.text);
  } else {
    tu_pto_write(again, &second);
    CHECK(strcmp(first.chars, second.chars) == 0, "%s\nread and written is\n%s", first.chars, second.chars);
    tu_pto_destroy(again);
  }
  tu_pto_destroy(module);
  tu_text_fini(&first);
  tu_text_fini(&second);
}

static void test_damage(void) {
  static const char body[] =
      "%e = tgather %g, %d {root = 1} : (!pto.group<4>, !pto.memref<...>) -> !pto.event\ntreduce %g, %a, %t, %t2 "
      "{op = #pto.reduce_op<Max>}\ntput %g[%i, 1, 2], %d[5, %i] {shape = #pto.shape<15x30>, atomic = "
      "#pto.atomic<Add>}\n"
      "%q = tput_async %flat, %flat[0] ;%r = ttest %s[1, 2], %v {cmp = #pto.cmp<EQ>}; tsync %e // and %q\n"
      ".arg %m : !pto.memref<MxNxf32>\ntget %m, %a : (!pto.memref<16xNxf32>, !pto.memref<Mx32xf32>)\n";
  uint64_t seed = test_seed();
  uint32_t read = 0, rounds = test_long() ? 2000000 : 20000;
  char whole[sizeof head + sizeof body];
  size_t length = (size_t)snprintf(whole, sizeof whole, "%s%s", head, body);
  struct tu_error error;
  CHECK(read_text("", whole, length, &error) == TUTTI_OK, "%s", error.text);
  for (uint32_t round = 0; round < rounds; round++) {
    char *copy = malloc(length);
    memcpy(copy, whole, length);
    for (uint64_t k = tu_random(&seed) % 3; k > 0; k--) {
      size_t at = tu_random(&seed) % length;
      if (tu_random(&seed) % 4 == 0) copy[at] = (char)tu_random(&seed);
      else copy[at] = whole[tu_random(&seed) % length];
    }
    check_text(copy, length, &read);
    free(copy);
  }
  CHECK(read > rounds / 4, "only %u of %u damaged texts were read", read, rounds);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"refusals", test_refusals}, {"positions", test_positions}, {"damage", test_damage}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
