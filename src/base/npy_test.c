/* npy_test.c: tests of NumPy files: reading and writing all datatypes and shapes, and the messages of refusals. */
#include "base/npy.h"

#include "base/text.h"
#include "base/types.h"
#include "test.h"

/* Makes the content of a .npy file from its version, its dictionary and `bytes` bytes of elements; returns the file's
 * size. */
static size_t make_file(char *file, int version, const char *dictionary, size_t bytes) {
  size_t length = strlen(dictionary), at = 8;
  memcpy(file, "\x93NUMPY", 6);
  file[6] = (char)version, file[7] = 0;
  for (int i = 0; i < (version == 1 ? 2 : 4); i++) file[at++] = (char)(length >> 8 * i);
  memcpy(file + at, dictionary, length);
  for (size_t i = 0; i < bytes; i++) file[at + length + i] = (char)i;
  return at + length + bytes;
}

static void test_forms(void) {
  static const struct {
    const char *dictionary;
    size_t bytes;
    tutti_datatype type;
    uint32_t dims;
    size_t shape[TUTTI_DIMS];
  } table[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }       \n", 48, TUTTI_F32, 2, {3, 4}},
      {"{'shape': (5,), 'fortran_order': False, 'descr': '|u1'}", 5, TUTTI_U8, 1, {5}},
      {"{\"descr\":\"<i8\",\"fortran_order\":False,\"shape\":()}\n", 8, TUTTI_I64, 0, {0}},
      {" { 'descr' : '<i1' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } ", 6, TUTTI_I8, 2, {2, 3}},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (7, 0, 18446744073709551615), }",
       0,
       TUTTI_F64,
       3,
       {7, 0, UINT64_MAX}},
      {"{'descr': '<f2', 'fortran_order': False, 'shape': (1, 1, 2, 2, 3), }", 24, TUTTI_F16, 5, {1, 1, 2, 2, 3}},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (0,), }", 0, TUTTI_U16, 1, {0}},
      {"{'descr': '=u1', 'fortran_order': False, 'shape': (1,), }", 1, TUTTI_U8, 1, {1}},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    for (int version = 1; version <= 2; version++) {
      char file[256];
      size_t bytes = make_file(file, version, table[i].dictionary, table[i].bytes);
      struct tu_npy npy;
      struct tu_error error = {0};
      if (i == 4) {
        CHECK(tu_npy_read(file, bytes, "file", &npy, &error) == TUTTI_ERR_ARGUMENT &&
                  test_contains(error.text, "array|memory"),
              "a size of 2^64-1: %s", error.text);
        continue;
      }
      if (tu_npy_read(file, bytes, "file", &npy, &error) != TUTTI_OK) {
        FAIL("%s: %s", table[i].dictionary, error.text);
        continue;
      }
      CHECK(npy.type == table[i].type && npy.dims == table[i].dims, "%s: read as %s, %u dimensions",
            table[i].dictionary, tutti_datatype_name(npy.type), npy.dims);
      CHECK(memcmp(npy.shape, table[i].shape, npy.dims * sizeof *npy.shape) == 0, "%s: another shape",
            table[i].dictionary);
      CHECK(npy.bytes == table[i].bytes && (const char *)npy.data == file + bytes - npy.bytes, "%s: %zu bytes",
            table[i].dictionary, npy.bytes);
    }
  }
}

#define TYPES "file:1: |'<i2'|'<f8'|astype|"

static void test_refusals(void) {
  static const struct {
    const char *dictionary;
    size_t bytes;
    const char *facts;
  } table[] = {
      {"", 0, "file:1: |'{'|dictionary|the text"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (), }", 4, TYPES "''>f4','"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (), }", 8, TYPES "''<c8','"},
      {"{'descr': '|S1', 'fortran_order': False, 'shape': (), }", 1, TYPES "''|S1','"},
      {"{'descr': '<V2', 'fortran_order': False, 'shape': (), }", 2, TYPES "''<V2','"},
      {"{'descr': '', 'fortran_order': False, 'shape': (), }", 2, TYPES "''','"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", 4, TYPES "'[('a','"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16, "file:1: |False|ascontiguousarray|'True,'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': 3, }", 12, "file:1: |'('|shape|'3,'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", 12, "file:1: |2^64|')'|'-3,),'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }", 12,
       "file:1: |2^64|')'|'18446744073709551616,),'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 4), }", 12, "file:1: |',' or ')'|'4),'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1), }", 4,
       "file:1: |at most 5|dimensions|'1),'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 4,
       "file:1: |array|memory|larger"},
      {"{'descr': '<f4', 'descr': '<f4', 'shape': (), }", 4,
       "file:1: |'descr', 'fortran_order' and 'shape'|once|''descr':'"},
      {"{'descr': '<f4', 'fortran_order': False, }", 4, "file:1: |'descr', 'fortran_order' and 'shape'|once|'}'"},
      {"{'descr' '<f4', 'fortran_order': False, 'shape': (), }", 4, "file:1: |':'|''<f4','"},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (), }", 4, "file:1: |','|''fortran_order':'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}", 4, "file:1: |'}'|''more':'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", 4, "file:1: |header|'x'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11, "file: |expected 12 bytes|elements|found 11"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 13, "file: |expected 12 bytes|elements|found 13"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    char file[256];
    size_t bytes = make_file(file, 1, table[i].dictionary, table[i].bytes);
    struct tu_npy npy;
    struct tu_error error = {0};
    tutti_err err = tu_npy_read(file, bytes, "file", &npy, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT && test_contains(error.text, table[i].facts), "%s: '%s', expected '%s'",
          table[i].dictionary, error.text, table[i].facts);
  }
}

static void test_beginnings(void) {
  static const struct {
    const char *chars;
    size_t bytes;
    const char *facts;
  } table[] = {
      {"", 0, "file: |numpy.save|\\x93NUMPY|10 bytes"},
      {"PK\3\4 an archive", 14, "file: |numpy.save|\\x93NUMPY|other bytes"},
      {"\x93NUMPY\3\0\4\0\0\0", 12, "file: |1 or 2|.npy|found 3"},
      {"\x93NUMPY\1\0\377\377", 10, "file: |header of 65535 bytes|the file"},
      {"\x93NUMPY\2\0\0\0", 10, "file: |header of 0 bytes|the file"},
      {"\x93NUMPY\2\0\0\0\0\1{}", 14, "file: |header of 16777216 bytes|the file"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    char *exact = malloc(tu_max(table[i].bytes, 1)); /* no spare bytes, so that sanitizers see reads beyond the end */
    memcpy(exact, table[i].chars, table[i].bytes);
    struct tu_npy npy;
    struct tu_error error = {0};
    CHECK(tu_npy_read(exact, table[i].bytes, "file", &npy, &error) == TUTTI_ERR_ARGUMENT &&
              test_contains(error.text, table[i].facts),
          "'%s', expected '%s'", error.text, table[i].facts);
    free(exact);
  }
}

/* The bytes that numpy.save wrote for numpy.arange(6, dtype='<i2').reshape(2, 3). */
static void test_written(void) {
  const int16_t values[] = {0, 1, 2, 3, 4, 5};
  struct tu_text header = {0};
  tu_npy_header(&(struct tu_npy){.type = TUTTI_I16, .dims = 2, .shape = {2, 3}, .data = values}, &header);
  char expected[129];
  snprintf(expected, sizeof expected, "%-127s\n",
           "??????????{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }");
  memcpy(expected, "\x93NUMPY\1\0v\0", 10);
  CHECK(header.length == 128 && memcmp(header.chars, expected, 128) == 0, "another header, of %zu bytes",
        header.length);
  tu_text_fini(&header);
}

/* Files of all datatypes and numbers of dimensions read back as they were written. */
static void test_round_trip(void) {
  char path[] = "/tmp/npy_test.XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) abort();
  close(fd);
  uint64_t seed = test_seed();
  uint32_t files = 0;
  for (tutti_datatype type = 0; type < TU_DATATYPES; type = tu_datatype_next(type)) {
    struct tu_error error = {0};
    if (!tu_npy_has((tutti_datatype)type)) {
      const struct tu_npy npy = {.type = (tutti_datatype)type};
      CHECK(tu_npy_write(path, &npy, &error) == TUTTI_ERR_ARGUMENT, "numpy has no %s", tu_datatypes[type].name);
      continue;
    }
    for (uint32_t dims = 0; dims <= TUTTI_DIMS; dims++) {
      unsigned char values[32 * 8];
      struct tu_npy npy = {.type = (tutti_datatype)type, .dims = dims, .data = values}, again;
      size_t count = 1;
      for (uint32_t d = 0; d < dims; d++) count *= npy.shape[d] = tu_random(&seed) % 3;
      for (size_t i = 0; i < sizeof values; i++) values[i] = (unsigned char)tu_random(&seed);
      char *file = NULL;
      size_t bytes;
      if (tu_npy_write(path, &npy, &error) != TUTTI_OK || tu_read_file(path, &file, &bytes, &error) != TUTTI_OK ||
          tu_npy_read(file, bytes, path, &again, &error) != TUTTI_OK) {
        FAIL("%s, %u dimensions: %s", tu_datatypes[type].name, dims, error.text);
        free(file);
        continue;
      }
      CHECK(again.type == npy.type && again.dims == dims && memcmp(again.shape, npy.shape, sizeof npy.shape) == 0 &&
                again.bytes == count * tu_datatypes[type].bytes && memcmp(again.data, values, again.bytes) == 0 &&
                (bytes - again.bytes) % 64 == 0,
            "%s, %u dimensions: read back different", tu_datatypes[type].name, dims);
      free(file);
      files++;
    }
  }
  CHECK(files == 12 * (TUTTI_DIMS + 1), "%u files were written", files);
  unlink(path);
  struct tu_error error = {0};
  CHECK(tu_npy_write("/no/such/folder/x.npy", &(struct tu_npy){.type = TUTTI_I8}, &error) == TUTTI_ERR_SYSTEM &&
            test_contains(error.text, "'/no/such/folder/x.npy'|No such file or directory"),
        "%s", error.text);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"forms", test_forms},
                                      {"refusals", test_refusals},
                                      {"beginnings", test_beginnings},
                                      {"written", test_written},
                                      {"round_trip", test_round_trip}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
