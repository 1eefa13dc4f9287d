/* pto_refusals_test.c: every way to go wrong in PTO assembly, and the exact sentence for it; and texts damaged by chance. */
#include "pto/pto.h"
#include "test.h"

/* Stands before every text that does not begin with a directive. */
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

/* Line 1, or line 9 behind the head. */
static const struct {
  const char *text, *sentence;
} refusals[] = {
    {"arg %a : index", "1:1: expected an instruction, found 'arg'"},
    {".arc %a : index", "1:1: expected .arg or .const, found '.arc'; did you mean '.arg'?"},
    {".argument %a : index", "1:1: expected .arg or .const, found '.argument'"},
    {".arg a : index",
     "1:6: expected a value to define, % and a name of at most 63 letters, digits, _ and ., found 'a'"},
    {".arg % : index",
     "1:6: expected a value to define, % and a name of at most 63 letters, digits, _ and ., found '%'"},
    {".arg %a = 3 : index", "1:9: expected ':' and a type, found '='"},
    {".arg %a : indxe",
     "1:11: expected a type (!pto.memref<...>, !pto.group<...>, !pto.tile<...>, !pto.event, index, i1, i32, ...), "
     "found 'indxe'; did you mean 'index'?"},
    {".arg %a : !pto.memrf<...>",
     "1:11: expected !pto.memref, !pto.group, !pto.tile or !pto.event, found '!pto.memrf'; did you mean "
     "'!pto.memref'?"},
    {".arg %a : !pto", "1:11: expected !pto.memref, !pto.group, !pto.tile or !pto.event, found '!pto'"},
    {".arg %a : !pto.event",
     "1:11: expected a type that an argument can have, found !pto.event, which only instructions give"},
    {".arg %a : !pto.memref", "1:22: expected '<', found the end of the text"},
    {".arg %a : !pto.memref<",
     "1:23: expected a size: a number of at most 2^46, ?, or a name of at most 15 capitals, found the end of the text"},
    {".arg %a : !pto.memref<16x>",
     "1:26: expected a size: a number of at most 2^46, ?, or a name of at most 15 capitals, found '>'"},
    {".arg %a : !pto.memref<16x32>", "1:28: expected 'x' and a size, or 'x' and a type of elements, found '>'"},
    {".arg %a : !pto.memref<16x32xf23>", "1:29: expected a type of elements, found 'f23'; did you mean 'f32'?"},
    {".arg %a : !pto.memref<16x32xf32", "1:32: expected '>', found the end of the text"},
    {".arg %a : !pto.memref<1x1x1x1x1x1xf32>", "1:33: expected at most 5 dimensions, found '1xf32'"},
    {".arg %a : !pto.memref<-1x4xf32>",
     "1:23: expected a size: a number of at most 2^46, ?, or a name of at most 15 capitals, found '-1x4xf32'"},
    {".arg %a : !pto.memref<70368744177665xi8>",
     "1:23: expected a size: a number of at most 2^46, ?, or a name of at most 15 capitals, found '70368744177665xi8'"},
    {".arg %a : !pto.memref<4194304x4194304xf64>",
     "1:11: expected a memref of at most 64 TiB, found !pto.memref<4194304x4194304xf64>"},
    {".arg %a : !pto.memref<TOOLONGTOBEANAMExf32>",
     "1:23: expected a size: a number of at most 2^46, ?, or a name of at most 15 capitals, found "
     "'TOOLONGTOBEANAMExf32'"},
    {".arg %a : !pto.memref<mxnxf32>", "1:23: expected a type of elements, found 'mxnxf32'"},
    {".arg %a : !pto.memref<i32, 4x8xf32>", "1:32: expected a size, found 'f32'"},
    {".arg %a : !pto.memref<i32, strided<[1]>>", "1:28: expected sizes, as in i32, 4x8, found 'strided'"},
    {".arg %a : !pto.memref<4x8xi32, dense<[8, 1]>>", "1:32: expected 'strided<[...]>', found 'dense'"},
    {".arg %a : !pto.memref<4x8xi32, strided<[8]>>",
     "1:42: expected ',': there is a stride for each dimension, found ']'"},
    {".arg %a : !pto.memref<4x8xi32, strided<[8, 1, 1]>>", "1:45: expected ']>', found ','"},
    {".arg %a : !pto.memref<4x8xi32, strided[8, 1]>", "1:39: expected '<[', as in strided<[64, 1]>, found '['"},
    {".arg %a : !pto.memref<4x8xi32, strided<[7, 1]>>",
     "1:11: expected strides that put no two elements on one place, found !pto.memref<4x8xi32, strided<[7, 1]>>"},
    {".arg %a : !pto.memref<4x8xi32, strided<[0, 1]>>",
     "1:11: expected strides that put no two elements on one place, found !pto.memref<4x8xi32, strided<[0, 1]>>"},
    {".arg %a : !pto.memref<4x8xi32, strided<[?, 1]>>",
     "1:41: expected a stride for each dimension, a number of at most 2^46, found '?'"},
    {".arg %a : !pto.memref<4x8xi32, strided<[70368744177664, 1]>>",
     "1:11: expected a memref of at most 64 TiB, found !pto.memref<4x8xi32, strided<[70368744177664, 1]>>"},
    {".arg %a : !pto.group<0>", "1:11: expected a group of one memref at least, found !pto.group<0>"},
    {".arg %a : !pto.group<>",
     "1:22: expected a size: a number of at most 2^46, ?, or a name of at most 15 capitals, found '>'"},
    {".arg %a : !pto.group<4xf32>", "1:24: expected '!pto.memref<', found 'f32'"},
    {".arg %a : !pto.group<4x!pto.memref<4xf32>", "1:42: expected '>', found the end of the text"},
    {".arg %a : !pto.tile<0x8xf32>",
     "1:11: expected a tile of one row and one column at least, found !pto.tile<0x8xf32>"},
    {".arg %a : !pto.tile<4x7xf32>", "1:11: expected columns of a multiple of 32 bytes, found !pto.tile<4x7xf32>"},
    {".arg %a : !pto.tile<4x8>", "1:24: expected 'x' and a type of elements, found '>'"},
    {".arg %a : !pto.tile<?x8xf32>", "1:21: expected a number of at most 2^20, found '?'"},
    {".arg %a : !pto.tile<4x8xf32, valid=5x8>",
     "1:11: expected valid rows that the tile has, found !pto.tile<4x8xf32, valid=5x8>"},
    {".arg %a : !pto.tile<4x8xf32, valid=4x9?>",
     "1:11: expected valid columns that the tile has, found !pto.tile<4x8xf32, valid=4x9?>"},
    {".arg %a : !pto.tile<4x8xf32, valid=0x8>",
     "1:11: expected valid rows that the tile has, found !pto.tile<4x8xf32, valid=0x8>"},
    {".arg %a : !pto.tile<4x8xf32, vaild=4x8>", "1:30: expected 'valid=', found 'vaild'"},
    {".arg %a : !pto.tile<1048576x1048576xf32>",
     "1:11: expected a tile of at most 1 GiB, found !pto.tile<1048576x1048576xf32>"},
    {".arg %a : !pto.tile<1048577x8xf32>", "1:21: expected a number of at most 2^20, found '1048577x8xf32'"},
    {".arg %a : index index", "1:17: expected ';' or the end of the line, found 'index'"},
    {".arg %a : index; .arg %a : i32", "1:23: expected a new name, found '%a', which line 1 defines"},
    {".const %a : i32", "1:11: expected '=', found ':'"},
    {".const %a = x : i32", "1:13: expected a number of at most 62 characters, found 'x'"},
    {".const %a = 0", "1:14: expected ':' and a type, found the end of the text"},
    {".const %a = 2147483648 : i32", "1:13: expected a number that i32 holds, found '2147483648'"},
    {".const %a = -2147483649 : i32", "1:13: expected a number that i32 holds, found '-2147483649'"},
    {".const %a = -1 : u8", "1:13: expected a number that u8 holds, found '-1'"},
    {".const %a = 256 : u8", "1:13: expected a number that u8 holds, found '256'"},
    {".const %a = -1 : index", "1:13: expected a number that index holds, found '-1'"},
    {".const %a = 1.5 : i32", "1:13: expected a number that i32 holds, found '1.5'"},
    {".const %a = 2 : i1", "1:13: expected a number that i1 holds, found '2'"},
    {".const %a = 1e999 : f64", "1:13: expected a number that f64 holds, found '1e999'"},
    {".const %a = 1 : !pto.memref<...>", "1:13: expected a constant of a number's type, found !pto.memref<...>"},
    {".const %a = 11111111111111111111111111111111111111111111111111111111111111111 : i32",
     "1:13: expected a number of at most 62 characters, found '111111111111111111111111111111111111111111111'"},
    {"tgathr %g, %d", "9:1: expected an instruction, found 'tgathr'; did you mean 'tgather'?"},
    {"tgather", "9:8: expected a value that is defined above, found the end of the text"},
    {"tgather %h, %d", "9:9: expected a value that is defined above, found '%h'; did you mean '%h64'?"},
    {"tgather %g %d", "9:12: expected ';' or the end of the line, found '%d'"},
    {"tgather %g, %d, %a", "9:17: expected a tile, found %a : !pto.memref<16x32xf32>"},
    {"tgather %g", "9:1: expected 2 operands of tgather, or 3 or 4 with its tiles, found 1"},
    {"tgather %g, %d : (!pto.group<...>)", "9:18: expected 2 types, one for each operand and index, found fewer"},
    {"tgather %g, %d : (!pto.group<...>, !pto.memref<...>, index)",
     "9:18: expected 2 types, one for each operand and index, found more"},
    {"tgather %g, %d : ()", "9:18: expected 2 types, one for each operand and index, found none"},
    {"tgather %g, %d : !pto.group<...>", "9:18: expected 2 types, one for each operand and index, found fewer"},
    {"tgather %g, %d : (!pto.group<3>, !pto.memref<...>)",
     "9:19: expected !pto.group<4x!pto.memref<16x32xf32>>, the type of %g, found !pto.group<3>"},
    {"tgather %g, %d : (!pto.memref<...>, !pto.memref<...>)",
     "9:19: expected !pto.group<4x!pto.memref<16x32xf32>>, the type of %g, found !pto.memref<...>"},
    {"tgather %g, %d : (!pto.group<...>, !pto.memref<64x33xf32>)",
     "9:36: expected !pto.memref<64x32xf32>, the type of %d, found !pto.memref<64x33xf32>"},
    {"tgather %g, %d : (!pto.group<...>, !pto.memref<...>) -> !pto.event",
     "9:57: expected no type, as nothing takes a result of this instruction"},
    {"tgather %g, %d : (!pto.group<...>, !pto.memref<...>) -> () x",
     "9:60: expected ';' or the end of the line, found 'x'"},
    {"%e = tgather %g, %d : (!pto.group<...>, !pto.memref<...>) -> i1",
     "9:62: expected !pto.event, the type of %e, found i1"},
    {"%e = tgather %g, %d : (!pto.group<...>, !pto.memref<...>) -> ()",
     "9:64: expected the type of the result, found the end of the text"},
    {"%e, %f = tgather %g, %d", "9:3: expected '=' and an instruction, which has one result at most, found ','"},
    {"%a = tgather %g, %d", "9:1: expected a new name, found '%a', which line 1 defines"},
    {"%e = tgather %g, %e", "9:18: expected a value that is defined above, found '%e'"},
    {"tgather %d, %g", "9:9: expected a group, found %d : !pto.memref<64x32xf32>"},
    {"tgather %g, %a", "9:13: expected 1x1x1x64x32, the rows of all ranks, found 1x1x1x16x32"},
    {"tgather %g, %i", "9:13: expected a memref, found %i : index"},
    {"tgather %g[0], %d", "9:9: expected a group, found %g : !pto.group<4x!pto.memref<16x32xf32>>"},
    {"tgather %g, %short", "9:13: expected 1x1x1x64x32, the rows of all ranks, found 1x1x1x63x32"},
    {"tgather %g, %wide", "9:13: expected 1x1x1x64x32, the rows of all ranks, found 1x1x1x64x40"},
    {"tgather %g, %wide[0, 9]", "9:13: expected at least 1x1x1x64x32, the rows of all ranks, found 1x1x1x64x31"},
    {"tgather %g, %d[1, 0]", "9:13: expected at least 1x1x1x64x32, the rows of all ranks, found 1x1x1x63x32"},
    {"tgather %g, %d[64, 0]", "9:13: expected an index below 64, found 64"},
    {"tgather %g, %d[0, 0, 0]", "9:13: expected at most 2 indices of %d, one for each dimension, found 3"},
    {"tgather %g, %h64", "9:13: expected elements of f32, as %g has, found %h64 : !pto.memref<64x32xf64>"},
    {"tgather %g, %d {root = 4}", "9:1: expected a root below 4, the size of the group, found 4"},
    {"tgather %g, %d {rank = 0}", "9:17: expected root =, found 'rank'"},
    {"tgather %g, %d {root = 0, root = 1}", "9:27: expected each attribute once, found another 'root'"},
    {"tgather %g, %d {root 0}", "9:22: expected '=', found '0'"},
    {"tgather %g, %d {root = -1}", "9:24: expected the number of a rank, found '-1'"},
    {"tgather %g, %d {root = 0", "9:25: expected ',' or '}', found the end of the text"},
    {"tgather %g, %d {}}", "9:18: expected ';' or the end of the line, found '}'"},
    {"tgather %g, %d {shape = #pto.shape<4>}", "9:17: expected root =, found 'shape'"},
    {"tgather %g, %d, #pto.reduce_op<Sum>", "9:17: expected a value that is defined above, found '#pto.reduce_op'"},
    {"tgather %g, %d, %t, %t", "9:21: expected tiles that do not overlap, found %t : !pto.tile<8x32xf32, valid=?x?>"},
    {"tgather %g, %d, %t, %u",
     "9:21: expected tiles of one type, !pto.tile<8x32xf32, valid=?x?>, found %u : !pto.tile<8x32xf32>"},
    {"tgather %g, %d, %v8", "9:17: expected a tile of f32, found %v8 : !pto.tile<8x32xf64>"},
    {"tgather %g, %d, %w",
     "9:17: expected valid columns that divide the 32 there are, found 31 fixed ones; use dynamic ones (31?)"},
    {"tgather %g, %d, %x",
     "9:17: expected valid rows that divide the 16 there are, found 5 fixed ones; use dynamic ones (5?)"},
    {"tgather %g, %d, %t, %t2, %t3", "9:1: expected 2 operands of tgather, or 3 or 4 with its tiles, found 5"},
    {"treduce %g, %a", "9:1: expected {op = #pto.reduce_op<...>} with treduce, found none"},
    {"treduce %g, %a {op = #pto.reduce_op<Summ>}", "9:37: expected Sum, Max or Min, found 'Summ'; did you mean 'Sum'?"},
    {"treduce %g, %a {op = #pto.reduce<Sum>}",
     "9:22: expected #pto.reduce_op<...>, found '#pto.reduce'; did you mean '#pto.reduce_op'?"},
    {"treduce %g, %a {op = Sum}", "9:22: expected #pto.reduce_op<...>, found 'Sum'"},
    {"treduce %g, %a {po = #pto.reduce_op<Sum>}", "9:17: expected op = or root =, found 'po'; did you mean 'op'?"},
    {"treduce %g, %a, #pto.reduce_op<Sum> {op = #pto.reduce_op<Sum>}",
     "9:38: expected each attribute once, found another 'op'"},
    {"treduce %g, %a, %t {op = #pto.reduce_op<Sum>}",
     "9:1: expected 2 operands of treduce, or 4 or 5 with its tiles, found 3"},
    {"tput %a, %b", "9:10: expected 1x1x1x16x32, as the other memref has, found 1x1x1x16x31"},
    {"tput %a", "9:1: expected 2 operands of tput, or 3 or 4 with its tiles, found 1"},
    {"tput %g, %a",
     "9:6: expected a memref, or one of a group, as %group[0], found %g : !pto.group<4x!pto.memref<16x32xf32>>"},
    {"tput %g[4], %a", "9:6: expected a rank below 4 as the first index of %g, found 4"},
    {"tput %g[%c4], %a", "9:6: expected a rank below 4 as the first index of %g, found 4"},
    {"tput %g[%n], %a", "9:9: expected an index of 0 or more, found %n = -1"},
    {"tput %g[%f], %a", "9:9: expected an index, found %f : f32"},
    {"tput %g[%a], %a", "9:9: expected an index, found %a : !pto.memref<16x32xf32>"},
    {"tput %g[-1], %a", "9:9: expected an index, a value or a number of at most 2^46, found '-1'"},
    {"tput %g[0, 1, 1, 1, 1, 1, 1], %a", "9:27: expected at most 6 indices, found '1'"},
    {"tput %g[], %a", "9:9: expected an index, a value or a number of at most 2^46, found ']'"},
    {"tput %g[0, 1, 1], %a", "9:6: expected at least 1x1x1x16x32, as the other memref has, found 1x1x1x15x31"},
    {"tput %g[0", "9:10: expected ',' or ']', found the end of the text"},
    {"tput %g[0, 1], %a[1]", "9:1: expected {shape = #pto.shape<...>}, as both memrefs are indexed, found none"},
    {"tput %a, %b[0, 0] {shape = #pto.shape<2x3>}", "9:6: expected 1x1x1x2x3, as shape says, found 1x1x1x16x32"},
    {"tput %a[0, 0], %b[0, 0] {shape = #pto.shape<17x3>}",
     "9:16: expected at least 1x1x1x17x3, as shape says, found 1x1x1x16x31"},
    {"tput %a[0, 0], %b[0, 0] {shape = #pto.shape<2x?>}", "9:47: expected a size, a number of at most 2^46, found '?'"},
    {"tput %a[0, 0], %b[0, 0] {shape = #pto.shape<1x1x1x1x1x1>}", "9:55: expected at most 5 dimensions, found '1'"},
    {"tput %a, %i8 {atomic = #pto.atomic<Add>}",
     "9:10: expected elements of f32, as %a has, found %i8 : !pto.memref<16x32xi8>"},
    {"tput %i8, %i8 {atomic = #pto.atomic<Add>}",
     "9:6: expected elements that can be added to atomically (i32, u32, i64, u64, f16, bf16, f32, f64), found %i8 : "
     "!pto.memref<16x32xi8>"},
    {"tput %i8, %i8 {atomic = #pto.atomic<Sub>}", "9:37: expected None or Add, found 'Sub'"},
    {"tget %a, %a {atomic = #pto.atomic<Add>}", "9:14: expected rank = or shape =, found 'atomic'"},
    {"tput_async %a, %a",
     "9:12: expected a flat memref, of one dimension and without gaps, with tput_async, found 1x1x1x16x32"},
    {"tput_async %gap, %gap",
     "9:12: expected a flat memref, of one dimension and without gaps, with tput_async, found 1x1x1x1x8 with gaps"},
    {"tput_async %flat, %flat, %t", "9:1: expected 2 operands of tput_async, found 3"},
    {"tnotify %s, %v", "9:1: expected {op = #pto.notify_op<...>} with tnotify, found none"},
    {"tnotify %a[0, 0], %v {op = #pto.notify_op<Set>}",
     "9:9: expected signals, a memref of i32, found %a : !pto.memref<16x32xf32>"},
    {"tnotify %s, %v {op = #pto.notify_op<Set>}",
     "9:9: expected 1x1x1x1x1, one signal; an index picks it, found 1x1x1x4x8"},
    {"tnotify %s[0, 0], %i {op = #pto.notify_op<Set>}", "9:19: expected a value of i32, found %i : index"},
    {"tnotify %s[0, 0], %v {op = #pto.notify_op<Add>}", "9:43: expected Set or AtomicAdd, found 'Add'"},
    {"%e = tnotify %s[0, 0], %v {op = #pto.notify_op<Set>}",
     "9:1: expected no result, as tnotify has none, found '%e'"},
    {"twait %s, %v {cmp = #pto.cmp<EG>}", "9:30: expected EQ, NE, GT, GE, LT or LE, found 'EG'; did you mean 'EQ'?"},
    {"twait %s, %v {cmp = #pto.cmp<EQ>, shape = #pto.shape<2x2>}",
     "9:7: expected 1x1x1x2x2, as shape says, found 1x1x1x4x8"},
    {"twait %s[3, 7], %v {cmp = #pto.cmp<EQ>, shape = #pto.shape<2x2>}",
     "9:7: expected at least 1x1x1x2x2, as shape says, found 1x1x1x1x1"},
    {"ttest %s, %v {cmp = #pto.cmp<EQ>}", "9:1: expected a result, as in %all = ttest, found none"},
    {"twait %s, %v {cmp = #pto.cmp<EQ>} : (!pto.memref<4x8xi32>, i64)",
     "9:60: expected i32, the type of %v, found i64"},
    {"tsync %a", "9:7: expected an event, found %a : !pto.memref<16x32xf32>"},
    {"tsync", "9:6: expected a value that is defined above, found the end of the text"},
    {"tput %a, %b @", "9:13: expected ';' or the end of the line, found '@'"},
    {"tput %a, %b ~", "9:13: expected ';' or the end of the line, found '~'"},
    {".arg %a : !pto.memrfe",
     "1:11: expected !pto.memref, !pto.group, !pto.tile or !pto.event, found '!pto.memrfe'; did you mean "
     "'!pto.memref'?"},
    {".arg %a : !", "1:11: expected !pto.memref, !pto.group, !pto.tile or !pto.event, found '!'"},
    {".arg %q : !pto.memref<KxJxf32>; .arg %z : !pto.memref<4xKxf32>; tget %q, %z : (!pto.memref<3x5xf32>, "
     "!pto.memref<4x5xf32>)",
     "1:102: expected !pto.memref<4x3xf32>, the type of %z, found !pto.memref<4x5xf32>"},
};
enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

static tutti_err read_text(const char *begin, const char *text, size_t bytes, struct tu_error *error) {
  size_t length = strlen(begin);
  char *whole = malloc(length + bytes + 1); /* exactly as long, for the sanitizers */
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
    char sentence[sizeof error.text];
    snprintf(sentence, sizeof sentence, "x:%s", refusals[i].sentence);
    tutti_err err = read_text(begin, text, strlen(text), &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && strcmp(error.text, sentence) == 0, "%s: '%s', expected '%s'", text,
          err == TUTTI_OK ? "no fault" : error.text, sentence);
  }
  struct tu_error error;
  CHECK(read_text(head, "", 0, &error) == TUTTI_OK, "%s", error.text);
}

/* Places are those of the text, whatever stands before on the line and above. */
static void test_places(void) {
  static const struct {
    const char *text, *sentence;
  } table[] = {
      {"// one\r\n\r\n \t; ; .arg q",
       "x:3:12: expected a value to define, % and a name of at most 63 letters, digits, "
       "_ and ., found 'q'"},
      {".arg %a : index // .arg %a : index\n\t.arg %a : index",
       "x:2:7: expected a new name, found '%a', which line 1 "
       "defines"},
      {".arg %a : index\n\n.arg %b : i32 /", "x:3:15: expected ';' or the end of the line, found '/'"},
      {".arg %a", "x:1:8: expected ':' and a type, found the end of the text"},
      {".arg %a\n", "x:1:8: expected ':' and a type, found the end of the line"},
      {".arg %a // : index\n", "x:1:19: expected ':' and a type, found the end of the line"},
      {"\x80\n", "x:1:1: expected an instruction, found '?'"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_error error;
    tutti_err err = read_text("", table[i].text, strlen(table[i].text), &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && strcmp(error.text, table[i].sentence) == 0, "'%s', expected '%s'", error.text,
          table[i].sentence);
  }
}

/* A sentence has a place and what was expected, whatever is wrong; what is read is written and read to the same text. */
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
  static const struct test tests[] = {{"refusals", test_refusals}, {"places", test_places}, {"damage", test_damage}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
