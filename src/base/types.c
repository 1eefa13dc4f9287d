/* types.c: the tables of datatypes and operations, and the names of the errors. */
#include "base/types.h"

#include <string.h>

const struct tu_datatype tu_datatypes[TU_DATATYPES] = {
    [TUTTI_I8] = {.name = "i8", .bytes = 1, .is_signed = true},
    [TUTTI_U8] = {.name = "u8", .bytes = 1},
    [TUTTI_I16] = {.name = "i16", .bytes = 2, .is_signed = true},
    [TUTTI_U16] = {.name = "u16", .bytes = 2},
    [TUTTI_I32] = {.name = "i32", .bytes = 4, .is_signed = true},
    [TUTTI_U32] = {.name = "u32", .bytes = 4},
    [TUTTI_I64] = {.name = "i64", .bytes = 8, .is_signed = true},
    [TUTTI_U64] = {.name = "u64", .bytes = 8},
    [TUTTI_BOOL] = {.name = "bool", .bytes = 1, .boolean = true},
    [TUTTI_F16] = {.name = "f16", .bytes = 2, .floating = true, .is_signed = true},
    [TUTTI_BF16] = {.name = "bf16", .bytes = 2, .floating = true, .is_signed = true},
    [TUTTI_F32] = {.name = "f32", .bytes = 4, .floating = true, .is_signed = true},
    [TUTTI_F64] = {.name = "f64", .bytes = 8, .floating = true, .is_signed = true},
    [TUTTI_F8E4M3] = {.name = "f8e4m3", .bytes = 1, .floating = true, .is_signed = true},
    [TUTTI_F8E5M2] = {.name = "f8e5m2", .bytes = 1, .floating = true, .is_signed = true},
    [TUTTI_BFP8] = {.name = "bfp8", .bytes = 17, .elements = 16, .floating = true, .is_signed = true},
    [TUTTI_BFP4] = {.name = "bfp4", .bytes = 9, .elements = 16, .floating = true, .is_signed = true},
};

const struct tu_operation tu_operations[TU_OPS] = {
    [TUTTI_SUM] = {"sum", false}, [TUTTI_PROD] = {"prod", false}, [TUTTI_MIN] = {"min", false},
    [TUTTI_MAX] = {"max", false}, [TUTTI_AVG] = {"avg", false},   [TUTTI_BAND] = {"band", true},
    [TUTTI_BOR] = {"bor", true},  [TUTTI_BXOR] = {"bxor", true},  [TUTTI_LAND] = {"land", true},
    [TUTTI_LOR] = {"lor", true},  [TUTTI_LXOR] = {"lxor", true},  [TUTTI_PREMUL_SUM] = {"premul_sum", false},
};

bool tu_datatype_find(const char *name, tutti_datatype *type) {
  for (tutti_datatype t = 0; t < TU_DATATYPES; t = tu_datatype_next(t)) {
    if (strcmp(tu_datatypes[t].name, name) != 0) continue;
    *type = t;
    return true;
  }
  return false;
}

bool tu_operation_find(const char *name, tutti_op *op) {
  for (tutti_op i = 0; i < TU_OPS; i++) {
    if (strcmp(tu_operations[i].name, name) != 0) continue;
    *op = i;
    return true;
  }
  return false;
}

size_t tutti_datatype_size(tutti_datatype type) { return tu_is_datatype(type) ? tu_datatypes[type].bytes : 0; }

const char *tutti_datatype_name(tutti_datatype type) {
  if (type == TUTTI_BYTES) return "bytes";
  return tu_is_datatype(type) ? tu_datatypes[type].name : "unknown";
}

const char *tutti_err_name(tutti_err err) {
  static const char *const names[] = {
      [TUTTI_OK] = "TUTTI_OK",
      [TUTTI_ERR_ARGUMENT] = "TUTTI_ERR_ARGUMENT",
      [TUTTI_ERR_ENVIRONMENT] = "TUTTI_ERR_ENVIRONMENT",
      [TUTTI_ERR_MISMATCH] = "TUTTI_ERR_MISMATCH",
      [TUTTI_ERR_PEER] = "TUTTI_ERR_PEER",
      [TUTTI_ERR_TIMEOUT] = "TUTTI_ERR_TIMEOUT",
      [TUTTI_ERR_ABORTED] = "TUTTI_ERR_ABORTED",
      [TUTTI_ERR_MEMORY] = "TUTTI_ERR_MEMORY",
      [TUTTI_ERR_SYSTEM] = "TUTTI_ERR_SYSTEM",
      [TUTTI_ERR_UNSUPPORTED] = "TUTTI_ERR_UNSUPPORTED",
  };
  return (uint32_t)err < sizeof names / sizeof names[0] ? names[err] : "TUTTI_ERR_UNKNOWN";
}
