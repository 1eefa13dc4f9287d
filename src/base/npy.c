/* npy.c: reader and writer of NumPy's .npy files. A file has a prefix (magic number, version, header length), a header
 * (a Python dictionary with three keys), and the elements of one array. */
#include "base/npy.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/types.h"

static const char magic[] = "\x93NUMPY";
enum {
  MAGIC_BYTES = 6,
  PREFIX_BYTES = 10, /* bytes of the prefix of version 1: magic number, version, 2 bytes of header length */
  ALIGNMENT = 64,    /* alignment of the elements in the file, in bytes */
};

/* NumPy's names of the datatypes; NULL: NumPy has no such datatype. */
static const char *const spellings[TU_DATATYPES] = {
    [TUTTI_I8] = "|i1",   [TUTTI_U8] = "|u1",  [TUTTI_I16] = "<i2", [TUTTI_U16] = "<u2",
    [TUTTI_I32] = "<i4",  [TUTTI_U32] = "<u4", [TUTTI_I64] = "<i8", [TUTTI_U64] = "<u8",
    [TUTTI_BOOL] = "|b1", [TUTTI_F16] = "<f2", [TUTTI_F32] = "<f4", [TUTTI_F64] = "<f8",
};

bool tu_npy_has(tutti_datatype type) { return (uint32_t)type < TU_DATATYPES && spellings[type]; }

/* ---- reading ---------------------------------------------------------------------------------------------------- */

struct reader {
  struct tu_scan scan; /* current position in the header's text */
  struct tu_error *error;
  struct tu_npy *npy;
};

static tutti_err expected(struct reader *r, const char *what) { return tu_scan_fail(&r->scan, r->error, what); }

/* Reads a Python string without escapes into `string`. If there is none, returns false and reads nothing. */
static bool take_string(struct reader *r, char *string, size_t string_bytes) {
  struct tu_scan before = r->scan;
  char quote = tu_scan_literal(&r->scan, "'") ? '\'' : tu_scan_literal(&r->scan, "\"") ? '"' : '\0';
  size_t length = 0;
  while (quote && r->scan.at < r->scan.end && *r->scan.at != quote && *r->scan.at != '\n' && length < string_bytes - 1)
    string[length++] = *r->scan.at++;
  string[length] = '\0';
  if (quote && r->scan.at < r->scan.end && *r->scan.at++ == quote) return true;
  r->scan = before;
  return false;
}

static tutti_err read_type(struct reader *r) {
  struct tu_scan before = r->scan;
  char type[16] = "";
  if (take_string(r, type, sizeof type))
    for (tutti_datatype i = 0; i < TU_DATATYPES; i = tu_datatype_next(i)) {
      bool same = spellings[i] && strcmp(type + 1, spellings[i] + 1) == 0;
      if (same && (type[0] == spellings[i][0] || (type[0] && strchr("<=|", type[0]) && spellings[i][0] == '|'))) {
        r->npy->type = (tutti_datatype)i;
        return TUTTI_OK;
      }
    }
  r->scan = before;
  return expected(r,
                  "a little-endian number ('|i1', '|u1', '<i2', '<u2', '<i4', '<u4', '<i8', '<u8', '<f2', '<f4' or "
                  "'<f8'; numpy's astype converts)");
}

static tutti_err read_order(struct reader *r) {
  if (tu_scan_literal(&r->scan, "False")) return TUTTI_OK;
  return expected(r, "False, which means elements in C order (numpy's ascontiguousarray converts)");
}

static bool take_size(struct reader *r, size_t *size) {
  tu_scan_blanks(&r->scan);
  const char *begin = r->scan.at;
  uint64_t value = 0;
  for (; r->scan.at < r->scan.end && *r->scan.at >= '0' && *r->scan.at <= '9'; r->scan.at++)
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, (uint64_t)(*r->scan.at - '0'), &value))
      break;
  *size = value;
  if (r->scan.at > begin && (r->scan.at == r->scan.end || *r->scan.at < '0' || *r->scan.at > '9')) return true;
  r->scan.at = begin;
  return false;
}

static tutti_err read_shape(struct reader *r) {
  if (!tu_scan_literal(&r->scan, "(")) return expected(r, "'(' and a shape");
  struct tu_npy *npy = r->npy;
  while (!tu_scan_literal(&r->scan, ")")) {
    if (npy->dims == TUTTI_DIMS) return expected(r, "at most 5 dimensions");
    if (!take_size(r, &npy->shape[npy->dims])) return expected(r, "a size below 2^64, or ')'");
    npy->dims++;
    if (tu_scan_literal(&r->scan, ",")) continue;
    if (!tu_scan_literal(&r->scan, ")")) return expected(r, "',' or ')'");
    break;
  }
  return TUTTI_OK;
}

/* Reads the header's dictionary. Its three keys may come in any order, and each must occur once. */
static tutti_err read_dictionary(struct reader *r) {
  static const struct {
    const char *name;
    tutti_err (*read)(struct reader *r);
  } keys[] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};
  enum { KEYS = sizeof keys / sizeof keys[0] };
  bool seen[KEYS] = {false};
  if (!tu_scan_literal(&r->scan, "{")) return expected(r, "'{' and a dictionary");
  for (int count = 0; count < KEYS; count++) {
    struct tu_scan before = r->scan;
    char name[16];
    int key = 0;
    if (!take_string(r, name, sizeof name)) key = KEYS;
    while (key < KEYS && (seen[key] || strcmp(name, keys[key].name) != 0)) key++;
    if (key == KEYS) {
      r->scan = before;
      return expected(r, "'descr', 'fortran_order' and 'shape', each once");
    }
    seen[key] = true;
    if (!tu_scan_literal(&r->scan, ":")) return expected(r, "':'");
    tutti_err err = keys[key].read(r);
    if (err != TUTTI_OK) return err;
    if (!tu_scan_literal(&r->scan, ",") && count < KEYS - 1) return expected(r, "','");
  }
  if (!tu_scan_literal(&r->scan, "}")) return expected(r, "'}'");
  return tu_scan_at_end(&r->scan) ? TUTTI_OK : expected(r, "the end of the header");
}

/* Finds the dictionary (the header's text) in the file: it begins at byte *at and ends before byte *end, where the
 * elements begin. */
static tutti_err find_dictionary(const unsigned char *file, size_t bytes, const char *name, size_t *at, size_t *end,
                                 struct tu_error *error) {
  if (bytes < PREFIX_BYTES || memcmp(file, magic, MAGIC_BYTES) != 0)
    return tu_fail(error, TUTTI_ERR_ARGUMENT,
                   "%s: expected a file of numpy.save, which begins with \\x93NUMPY, found %s", name,
                   bytes < PREFIX_BYTES ? "fewer than 10 bytes" : "other bytes there");
  uint32_t version = file[MAGIC_BYTES];
  if (version != 1 && version != 2)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: expected version 1 or 2 of the .npy format, found %u", name,
                   version);
  *at = version == 1 ? PREFIX_BYTES : PREFIX_BYTES + 2;
  uint64_t length = 0;
  for (size_t i = *at; i-- > MAGIC_BYTES + 2;) length = length << 8 | (i < bytes ? file[i] : 0);
  if (*at > bytes || length > bytes - *at)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: expected a header of %llu bytes, found the end of the file", name,
                   (unsigned long long)length);
  *end = *at + length;
  return TUTTI_OK;
}

/* Sets npy->bytes to the size of all elements, which is 0 if a dimension is 0. Returns false if the size overflows. */
static bool count_bytes(struct tu_npy *npy) {
  size_t bytes = tu_datatypes[npy->type].bytes;
  bool empty = false;
  for (uint32_t d = 0; d < npy->dims; d++) {
    empty |= npy->shape[d] == 0;
    if (!tu_multiply(bytes, tu_max(npy->shape[d], 1), &bytes)) return false;
  }
  npy->bytes = empty ? 0 : bytes;
  return true;
}

tutti_err tu_npy_read(const void *file, size_t bytes, const char *name, struct tu_npy *npy, struct tu_error *error) {
  const char *chars = file;
  size_t at = 0, end = 0;
  tutti_err err = find_dictionary(file, bytes, name, &at, &end, error);
  if (err != TUTTI_OK) return err;
  struct tu_npy found = {.data = chars + end};
  struct reader r = {.scan = {.at = chars + at, .end = chars + end, .line = 1, .name = name, .comment = "\n"},
                     .error = error,
                     .npy = &found};
  if ((err = read_dictionary(&r)) != TUTTI_OK) return err;
  if (!count_bytes(&found))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:1: expected an array that fits into memory, found a larger shape",
                   name);
  if (found.bytes != bytes - end)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: expected %zu bytes of elements, as its header says, found %zu", name,
                   found.bytes, bytes - end);
  *npy = found;
  return TUTTI_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

void tu_npy_header(const struct tu_npy *npy, struct tu_text *header) {
  tu_assert(tu_npy_has(npy->type) && npy->dims <= TUTTI_DIMS);
  struct tu_text words = {0};
  tu_text_print(&words, "{'descr': '%s', 'fortran_order': False, 'shape': (", spellings[npy->type]);
  for (uint32_t d = 0; d < npy->dims; d++) {
    tu_text_print(&words, "%zu%s", npy->shape[d], npy->dims == 1 ? "," : d + 1 < npy->dims ? ", " : "");
  }
  tu_text_print(&words, "), }");
  size_t length = tu_round_up(PREFIX_BYTES + words.length + 1, ALIGNMENT) - PREFIX_BYTES;
  /* The array has at most TUTTI_DIMS (five) dimensions, so the header is short, and the second byte of its length is
   * 0. */
  tu_assert(length < 256);
  tu_text_print(header, "%s%c%c%c%c%-*s\n", magic, 1, 0, (int)length, 0, (int)length - 1, words.chars);
  tu_text_fini(&words);
}

tutti_err tu_npy_write(const char *path, const struct tu_npy *npy, struct tu_error *error) {
  if (!tu_npy_has(npy->type))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: expected a datatype that NumPy has, found %s", path,
                   tutti_datatype_name(npy->type));
  struct tu_npy whole = *npy;
  if (!count_bytes(&whole))
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s: expected an array that fits into memory, found a larger shape",
                   path);
  FILE *file = fopen(path, "wbe");
  if (!file) return tu_fail_errno(error, "cannot write '%s'", path);
  struct tu_text header = {0};
  tu_npy_header(&whole, &header);
  bool written = fwrite(header.chars, 1, header.length, file) == header.length &&
                 (!whole.bytes || fwrite(whole.data, 1, whole.bytes, file) == whole.bytes);
  tu_text_fini(&header);
  written = fclose(file) == 0 && written;
  return written ? TUTTI_OK : tu_fail_errno(error, "cannot write '%s'", path);
}
