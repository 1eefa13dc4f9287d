/* text_test.c: tests of text.h (growing string, scanner, numbers, nearest name, files) and of the utilities in
 * base.h. */
#include "base/text.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/types.h"
#include "test.h"

static void test_print(void) {
  struct tu_text text = {0};
  char expected[4000] = "";
  size_t length = 0;
  for (int i = 0; i < 500; i++) {
    tu_text_print(&text, "%d,", i);
    length += (size_t)snprintf(expected + length, sizeof expected - length, "%d,", i);
  }
  CHECK(text.length == length && strcmp(text.chars, expected) == 0, "500 numbers came out as '%.60s...'", text.chars);
  tu_text_fini(&text);
  tu_text_print(&text, "%s", "");
  CHECK(text.chars && text.length == 0 && text.chars[0] == '\0', "printing nothing must leave an empty string");
  tu_text_fini(&text);
  CHECK(!text.chars && !text.capacity, "a finished string must be empty");
}

static struct tu_scan scan_of(const char *chars) {
  return (struct tu_scan){.at = chars, .end = chars + strlen(chars), .line = 1, .name = "plan"};
}

static void test_scan(void) {
  struct tu_scan scan = scan_of("# head\r\n\n  send lane.0-a 17+4 # tail\n x4294967295 \n 4294967296");
  char word[16];
  uint32_t number = 7;
  CHECK(!tu_scan_at_end(&scan) && scan.line == 3, "the first words stand in line 3, not %u", scan.line);
  CHECK(!tu_scan_literal(&scan, "recv"), "'send' is not 'recv'");
  CHECK(tu_scan_literal(&scan, "send"), "'send' was not seen");
  CHECK(!tu_scan_uint(&scan, &number) && number == 7, "'lane' is no number");
  CHECK(!tu_scan_word(&scan, word, 8), "'lane.0-a' and its end need 9 bytes");
  CHECK(tu_scan_word(&scan, word, 9) && strcmp(word, "lane.0-a") == 0, "word '%s'", word);
  CHECK(!tu_scan_word(&scan, word, sizeof word), "a word does not begin with a digit");
  CHECK(tu_scan_uint(&scan, &number) && number == 17, "number %u", number);
  CHECK(!tu_scan_end_of_line(&scan), "the line goes on");
  CHECK(tu_scan_literal(&scan, "+") && tu_scan_uint(&scan, &number) && number == 4, "number %u", number);
  CHECK(tu_scan_end_of_line(&scan) && scan.line == 4, "line %u", scan.line);
  CHECK(tu_scan_literal(&scan, "x") && tu_scan_uint(&scan, &number) && number == UINT32_MAX, "number %u", number);
  CHECK(tu_scan_end_of_line(&scan), "only a blank is left in line 4");
  CHECK(!tu_scan_uint(&scan, &number), "2^32 does not fit");
  CHECK(!tu_scan_literal(&scan, "42949672960"), "the text ends before this");
  CHECK(tu_scan_literal(&scan, "4294967296") && tu_scan_at_end(&scan), "the text ends here");
  CHECK(tu_scan_end_of_line(&scan), "the end of the text ends its last line");
}

static void test_scan_comment(void) {
  struct tu_scan scan = scan_of("// head #\n #1 / 2 // tail");
  uint32_t number = 0;
  scan.comment = "//";
  CHECK(!tu_scan_at_end(&scan) && scan.line == 2, "the first words stand in line 2, not %u", scan.line);
  CHECK(tu_scan_literal(&scan, "#") && tu_scan_uint(&scan, &number) && number == 1, "# starts no comment here");
  CHECK(tu_scan_literal(&scan, "/") && tu_scan_uint(&scan, &number) && number == 2, "one / starts none");
  CHECK(tu_scan_at_end(&scan), "the text ends here");
}

static void test_scan_fail(void) {
  static const struct {
    const char *text, *facts;
  } table[] = {
      {"  wrong 1", "plan:1: |a step|'wrong'"},
      {" # c\nnext", "plan:1: |a step|the line"},
      {"", "plan:1: |a step|the text"},
      {"a\x01\xff",
       "plan:1: |a step|'a?"
       "?'"},
      {"0123456789012345678901234567890123456789", "plan:1: |a step|'0123456789012345678901234567890'"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct tu_scan scan = scan_of(table[i].text);
    struct tu_error error = {0};
    CHECK(tu_scan_fail(&scan, &error, "a step") == TUTTI_ERR_ARGUMENT, "code %d", (int)error.code);
    CHECK(test_contains(error.text, table[i].facts), "'%s', expected '%s'", error.text, table[i].facts);
  }
}

static void test_scan_token(void) {
  struct tu_scan scan = scan_of(" rs:a+ag:b/2# note\n<=8K\tlonger_than_room");
  char token[16];
  CHECK(tu_scan_token(&scan, token, sizeof token) && strcmp(token, "rs:a+ag:b/2") == 0, "'%s'", token);
  CHECK(!tu_scan_token(&scan, token, sizeof token) && tu_scan_end_of_line(&scan), "a comment is no token");
  CHECK(tu_scan_token(&scan, token, sizeof token) && strcmp(token, "<=8K") == 0, "'%s'", token);
  CHECK(!tu_scan_token(&scan, token, sizeof token) && *scan.at == 'l', "16 characters and a NUL have no room");
}

/* Checks that the scanner stays within the text and terminates if the text is random bytes. */
static void test_scan_noise(void) {
  static const char alphabet[] = "ab_09.-# \t\r\n+=\x80";
  uint64_t seed = test_seed();
  for (int round = 0; round < (test_long() ? 1000000 : 20000); round++) {
    size_t length = tu_random(&seed) % 40;
    char *text = malloc(length ? length : 1); /* no spare bytes, so that sanitizers see reads beyond the end */
    for (size_t i = 0; i < length; i++) text[i] = alphabet[tu_random(&seed) % (sizeof alphabet - 1)];
    struct tu_scan scan = {.at = text, .end = text + length, .line = 1, .name = "noise"};
    uint32_t lines = 1;
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
    while (!tu_scan_at_end(&scan)) {
      char word[64];
      uint32_t number;
      if (tu_scan_word(&scan, word, sizeof word) || tu_scan_uint(&scan, &number)) continue;
      if (!tu_scan_end_of_line(&scan)) scan.at++;
    }
    CHECK(scan.at == text + length && scan.line == lines, "round %d: line %u of %u", round, scan.line, lines);
    free(text);
  }
}

static void test_nearest(void) {
  static const char *const names[] = {"allreduce", "reduce", "broadcast", "alltoall", "allgather", "min", "max", "sum"};
  static const struct {
    const char *word, *nearest;
  } table[] = {
      {"allreduce", "allreduce"},
      {"alreduce", "allreduce"},
      {"redcue", "reduce"},
      {"brodcast", "broadcast"},
      {"all2all", "alltoall"},
      {"Allgather", "allgather"},
      {"mni", "min"},
      {"sun", "sum"},
      {"xylophone", NULL},
      {"", NULL},
      {"q", NULL},
      {"allred", "allreduce"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    const char *got = tu_nearest(table[i].word, names, sizeof names / sizeof names[0]);
    bool same = got && table[i].nearest ? strcmp(got, table[i].nearest) == 0 : got == table[i].nearest;
    CHECK(same, "nearest to '%s' is '%s', expected '%s'", table[i].word, got ? got : "(none)",
          table[i].nearest ? table[i].nearest : "(none)");
  }
  char longest[2000];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  CHECK(!tu_nearest(longest, names, sizeof names / sizeof names[0]), "nothing is near 1,999 times a");
}

static void test_parse(void) {
  static const struct {
    const char *chars;
    bool is_uint, is_bytes;
    uint64_t uint, bytes;
  } table[] = {
      {"0", true, true, 0, 0},
      {"18446744073709551615", true, true, UINT64_MAX, UINT64_MAX},
      {"18446744073709551616", false, false, 0, 0},
      {"64K", false, true, 0, 65536},
      {"3G", false, true, 0, 3221225472},
      {"2M", false, true, 0, 2097152},
      {"17179869183G", false, true, 0, 18446744072635809792u},
      {"17179869184G", false, false, 0, 0},
      {"64k", false, false, 0, 0},
      {"64KB", false, false, 0, 0},
      {"", false, false, 0, 0},
      {"K", false, false, 0, 0},
      {" 1", false, false, 0, 0},
      {"+1", false, false, 0, 0},
      {"-1", false, false, 0, 0},
      {"1 ", false, false, 0, 0},
      {"0x10", false, false, 0, 0},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    uint64_t uint = 0, bytes = 0;
    CHECK(tu_parse_uint(table[i].chars, UINT64_MAX, &uint) == table[i].is_uint && uint == table[i].uint,
          "number '%s' gives %llu", table[i].chars, (unsigned long long)uint);
    CHECK(tu_parse_bytes(table[i].chars, &bytes) == table[i].is_bytes && bytes == table[i].bytes,
          "bytes '%s' give %llu", table[i].chars, (unsigned long long)bytes);
  }
  uint64_t number = 1;
  CHECK(tu_parse_uint("65535", 65535, &number) && !tu_parse_uint("65536", 65535, &number) && number == 65535,
        "a maximum of 65535 gives %llu", (unsigned long long)number);
}

static void test_parse_number(void) {
  static const struct {
    const char *chars;
    bool is_number;
    double number;
  } table[] = {
      {"0", true, 0},       {"12", true, 12},       {"0.5", true, 0.5},   {".5", true, 0.5},   {"5.", true, 5},
      {"1e-6", true, 1e-6}, {"8E-11", true, 8e-11}, {"1e+3", true, 1000}, {"1e-999", true, 0}, {"1e999", false, -1},
      {"", false, -1},      {".", false, -1},       {"-1", false, -1},    {"+1", false, -1},   {" 1", false, -1},
      {"1 ", false, -1},    {"1us", false, -1},     {"0x10", false, -1},  {"inf", false, -1},  {"nan", false, -1},
      {"1e", false, -1},    {"1e5e", false, -1},    {"1.2.3", false, -1}, {"e5", false, -1},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    double number = -1;
    CHECK(tu_parse_number(table[i].chars, &number) == table[i].is_number, "'%s': is it a number?", table[i].chars);
    CHECK(!(number < table[i].number || number > table[i].number), "'%s' gives %g", table[i].chars, number);
  }
}

static void test_read_file(void) {
  char path[] = "/tmp/text_test_XXXXXX";
  int file = mkstemp(path);
  char written[10000];
  for (size_t i = 0; i < sizeof written; i++) written[i] = (char)(i * 7);
  CHECK(file >= 0 && write(file, written, sizeof written) == (ssize_t)sizeof written, "no file to test with");
  close(file);
  char *data = NULL;
  size_t bytes = 0;
  struct tu_error error = {0};
  CHECK(tu_read_file(path, &data, &bytes, &error) == TUTTI_OK, "'%s'", error.text);
  CHECK(bytes == sizeof written && data && memcmp(data, written, bytes) == 0, "%zu bytes came back", bytes);
  free(data);
  unlink(path);
  CHECK(tu_read_file(path, &data, &bytes, &error) == TUTTI_ERR_SYSTEM && strstr(error.text, path), "'%s'", error.text);
  CHECK(tu_read_file("/", &data, &bytes, &error) == TUTTI_ERR_SYSTEM && strstr(error.text, "'/'"), "'%s'", error.text);
}

/* Checks that paths which are no regular file are refused without waiting. A FIFO without a writer would block open();
 * with a writer, read(). */
static void test_what_is_not_read(void) {
  char folder[] = "/tmp/text_test_XXXXXX", path[sizeof folder + 8];
  CHECK(mkdtemp(folder) != NULL, "no folder to test in");
  snprintf(path, sizeof path, "%s/file", folder);
  char *data = NULL;
  size_t bytes = 0;
  struct tu_error error = {0};
  CHECK(mkfifo(path, 0600) == 0, "no pipe to test with");
  CHECK(tu_read_file(path, &data, &bytes, &error) == TUTTI_ERR_SYSTEM && strstr(error.text, "found a pipe"), "'%s'",
        error.text);
  int writer = open(path, O_RDWR);
  CHECK(tu_read_file(path, &data, &bytes, &error) == TUTTI_ERR_SYSTEM && strstr(error.text, "found a pipe"), "'%s'",
        error.text);
  close(writer);
  unlink(path);
  CHECK(tu_read_file("/dev/zero", &data, &bytes, &error) == TUTTI_ERR_SYSTEM && strstr(error.text, "found a device"),
        "'%s'", error.text);
  int file = open(path, O_RDWR | O_CREAT, 0600);
  CHECK(file >= 0 && ftruncate(file, (off_t)1 << 30) == 0, "no sparse file to test with");
  CHECK(tu_read_file(path, &data, &bytes, &error) == TUTTI_ERR_SYSTEM &&
            test_contains(error.text, "64 MiB|1073741824 bytes"),
        "'%s'", error.text);
  CHECK(ftruncate(file, (off_t)TU_TABLE_BYTES) == 0, "no file of 1 MiB");
  CHECK(tu_read_file_of(path, TU_TABLE_BYTES, &data, &bytes, &error) == TUTTI_OK && bytes == TU_TABLE_BYTES, "'%s'",
        error.text);
  free(data);
  CHECK(tu_read_file_of(path, TU_TABLE_BYTES - 1, &data, &bytes, &error) == TUTTI_ERR_SYSTEM, "a byte too many");
  close(file);
  /* stat() reports size 0 for files in /proc, which must be read nevertheless. */
  CHECK(tu_read_file("/proc/self/status", &data, &bytes, &error) == TUTTI_OK && bytes > 100, "'%s'", error.text);
  free(data);
  CHECK(tu_read_file_of("/proc/self/status", 10, &data, &bytes, &error) == TUTTI_ERR_SYSTEM &&
            strstr(error.text, "found more"),
        "'%s'", error.text);
  /* Standard input may be a device; reading then stops at the limit. */
  int kept = dup(STDIN_FILENO), zero = open("/dev/zero", O_RDONLY);
  dup2(zero, STDIN_FILENO);
  CHECK(tu_read_file_of("-", TU_TABLE_BYTES, &data, &bytes, &error) == TUTTI_ERR_SYSTEM &&
            test_contains(error.text, "'standard input'|1 MiB|more"),
        "'%s'", error.text);
  dup2(kept, STDIN_FILENO);
  close(kept);
  close(zero);
  unlink(path);
  rmdir(folder);
}

static void test_base(void) {
  uint32_t capacity = 0, *numbers = NULL;
  for (uint32_t i = 0; i < 1000; i++) {
    numbers = tu_grow(numbers, i, &capacity, sizeof *numbers);
    CHECK(numbers[i] == 0, "grown memory is not zeroed at %u", i);
    numbers[i] = i + 1;
  }
  for (uint32_t i = 0; i < 1000; i++) CHECK(numbers[i] == i + 1, "number %u is %u", i, numbers[i]);
  free(numbers);
  struct tu_error error = {0};
  tu_fail(&error, TUTTI_ERR_PEER, "rank %d", 3);
  tu_fail(&error, error.code, "%s left", error.text);
  CHECK(error.code == TUTTI_ERR_PEER && strcmp(error.text, "rank 3 left") == 0, "'%s'", error.text);
  for (uint32_t parts = 1; parts <= 9; parts++)
    for (size_t total = 0; total < 40; total++)
      for (uint32_t n = 0; n < parts; n++)
        CHECK(tu_part_begin(total, parts, n, 4) <= tu_part_begin(total, parts, n + 1, 4), "%zu in %u: part %u", total,
              parts, n);
  /* Each changed bit, and each length of zeros, must give a different hash. */
  unsigned char data[40] = {0};
  uint64_t seen[40 * 8 + 41];
  size_t count = 0;
  for (size_t bit = 0; bit < sizeof data * 8; bit++) {
    data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    seen[count++] = tu_hash(data, sizeof data, 5);
    data[bit / 8] = 0;
  }
  for (size_t bytes = 0; bytes <= sizeof data; bytes++) seen[count++] = tu_hash(data, bytes, 5);
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++) CHECK(seen[i] != seen[k], "hashes %zu and %zu are equal", i, k);
  CHECK(tu_hash(data, 40, 5) != tu_hash(data, 40, 6), "the seed must matter");
}

static void test_types(void) {
  for (tutti_datatype i = 0; i < TU_DATATYPES; i = tu_datatype_next(i)) {
    tutti_datatype type;
    const char *name = tutti_datatype_name((tutti_datatype)i);
    CHECK(tu_datatype_find(name, &type) && type == (tutti_datatype)i, "type '%s' is not found", name);
    if (type == TUTTI_BOOL) continue; /* its name tells no size */
    size_t bits = strtoull(name + strcspn(name, "0123456789"), NULL, 10);
    if (tu_item_elements(type) > 1) bits = bits * tu_item_elements(type) + 8; /* the item's exponent has 8 bits */
    CHECK(tutti_datatype_size(type) * 8 == bits, "%s has %zu bytes", name, tutti_datatype_size(type));
  }
  for (tutti_op i = 0; i < TU_OPS; i++) {
    tutti_op op;
    CHECK(tu_operation_find(tu_operations[i].name, &op) && op == i, "operation %u is not found", i);
  }
  tutti_datatype type;
  CHECK(!tu_datatype_find("f33", &type) && tutti_datatype_size((tutti_datatype)99) == 0, "there is no such type");
  for (tutti_err err = TUTTI_OK; err <= TUTTI_ERR_UNSUPPORTED; err++)
    CHECK(strncmp(tutti_err_name(err), "TUTTI_", 6) == 0, "error %d has no name", (int)err);
  CHECK(strcmp(tutti_err_name((tutti_err)-1), "TUTTI_ERR_UNKNOWN") == 0, "error -1 has a name");
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"print", test_print},
      {"scan", test_scan},
      {"scan_comment", test_scan_comment},
      {"scan_fail", test_scan_fail},
      {"scan_token", test_scan_token},
      {"scan_noise", test_scan_noise},
      {"nearest", test_nearest},
      {"parse", test_parse},
      {"parse_number", test_parse_number},
      {"read_file", test_read_file},
      {"what_is_not_read", test_what_is_not_read},
      {"what_is_not_read", test_what_is_not_read},
      {"base", test_base},
      {"types", test_types},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
