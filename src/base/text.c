/* text.c: a growing string, a scanner for the library's text formats, number parsers, and a search for the most similar
 * name in a list. If a scanner function does not find what it reads, it returns false; it has then skipped only
 * blanks. */
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- growing string --------------------------------------------------------------------------------------------- */

static void free_chars(struct tu_text *text) {
  if (text->arena) tu_arena_free(text->arena, text->chars);
  else free(text->chars);
}

void tu_text_print(struct tu_text *text, const char *format, ...) {
  for (;;) {
    size_t room = text->capacity - text->length;
    va_list arguments;
    va_start(arguments, format);
    int printed = vsnprintf(room ? text->chars + text->length : NULL, room, format, arguments);
    va_end(arguments);
    tu_assert(printed >= 0);
    if ((size_t)printed < room) {
      text->length += (size_t)printed;
      return;
    }
    size_t capacity = tu_max(256, tu_max(text->capacity * 2, text->length + (size_t)printed + 1));
    char *grown = text->arena ? tu_arena_allocate(text->arena, capacity, 1) : tu_allocate(capacity, 1);
    if (text->length) memcpy(grown, text->chars, text->length);
    free_chars(text);
    text->chars = grown;
    text->capacity = capacity;
  }
}

void tu_text_fini(struct tu_text *text) {
  free_chars(text);
  *text = (struct tu_text){.arena = text->arena};
}

/* ---- scanner ----------------------------------------------------------------------------------------------------- */

/* Returns true for an ASCII digit. The functions of <ctype.h> depend on the locale, so they are not used here. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_word_part(char c) { return is_word_start(c) || is_digit(c) || c == '.' || c == '-'; }
/* Returns true for a blank. A carriage return counts as a blank, so that files with CRLF line ends can be read. */
static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

void tu_scan_blanks(struct tu_scan *scan) {
  while (scan->at < scan->end && is_blank(*scan->at)) scan->at++;
  const char *comment = scan->comment ? scan->comment : "#";
  size_t length = strlen(comment);
  if ((size_t)(scan->end - scan->at) >= length && memcmp(scan->at, comment, length) == 0)
    while (scan->at < scan->end && *scan->at != '\n') scan->at++;
}

bool tu_scan_end_of_line(struct tu_scan *scan) {
  tu_scan_blanks(scan);
  if (scan->at == scan->end) return true;
  if (*scan->at != '\n') return false;
  scan->at++;
  scan->line++;
  return true;
}

bool tu_scan_at_end(struct tu_scan *scan) {
  do tu_scan_blanks(scan);
  while (scan->at < scan->end && tu_scan_end_of_line(scan));
  return scan->at == scan->end;
}

bool tu_scan_literal(struct tu_scan *scan, const char *chars) {
  tu_scan_blanks(scan);
  size_t length = strlen(chars);
  if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, chars, length) != 0) return false;
  scan->at += length;
  return true;
}

bool tu_scan_word(struct tu_scan *scan, char *word, size_t word_bytes) {
  tu_scan_blanks(scan);
  const char *end = scan->at;
  if (end == scan->end || !is_word_start(*end)) return false;
  while (end < scan->end && is_word_part(*end)) end++;
  size_t length = (size_t)(end - scan->at);
  if (length >= word_bytes) return false;
  memcpy(word, scan->at, length);
  word[length] = '\0';
  scan->at = end;
  return true;
}

bool tu_scan_token(struct tu_scan *scan, char *token, size_t token_bytes) {
  tu_scan_blanks(scan);
  const char *end = scan->at;
  while (end < scan->end && !is_blank(*end) && *end != '\n' && *end != '#') end++;
  size_t length = (size_t)(end - scan->at);
  if (length == 0 || length >= token_bytes) return false;
  memcpy(token, scan->at, length);
  token[length] = '\0';
  scan->at = end;
  return true;
}

bool tu_scan_uint(struct tu_scan *scan, uint32_t *number) {
  tu_scan_blanks(scan);
  const char *end = scan->at;
  uint64_t value = 0;
  for (; end < scan->end && is_digit(*end); end++) {
    value = value * 10 + (uint64_t)(*end - '0');
    if (value > UINT32_MAX) return false;
  }
  if (end == scan->at) return false;
  *number = (uint32_t)value;
  scan->at = end;
  return true;
}

tutti_err tu_scan_fail(const struct tu_scan *scan, struct tu_error *error, const char *expected) {
  struct tu_scan here = *scan;
  tu_scan_blanks(&here);
  const char *name = here.name ? here.name : "text";
  if (here.at == here.end || *here.at == '\n')
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: expected %s, found the end of the %s", name, here.line, expected,
                   here.at == here.end ? "text" : "line");
  char found[32];
  size_t length = 0;
  for (; here.at < here.end && length < sizeof found - 1 && !is_blank(*here.at) && *here.at != '\n'; here.at++)
    found[length++] = *here.at < ' ' || *here.at > '~' ? '?' : *here.at;
  found[length] = '\0';
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: expected %s, found '%s'", name, here.line, expected, found);
}

/* ---- nearest name ----------------------------------------------------------------------------------------------- */

/* Names are compared by their first 63 characters only. This suffices to find typing errors. */
enum { NEAR_CHARS = 63 };

/* Returns the number of edits (insert, delete, change, swap two neighbours) from a to b. Both are at most NEAR_CHARS
 * characters long. */
static uint32_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  uint32_t rows[3][NEAR_CHARS + 1];
  uint32_t *before = rows[0], *last = rows[1], *row = rows[2];
  for (uint32_t j = 0; j <= b_length; j++) before[j] = last[j] = j;
  for (uint32_t i = 1; i <= a_length; i++) {
    row[0] = i;
    for (uint32_t j = 1; j <= b_length; j++) {
      size_t best = tu_min(tu_min(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) best = tu_min(best, before[j - 2] + 1);
      row[j] = (uint32_t)best;
    }
    uint32_t *spare = before;
    before = last;
    last = row;
    row = spare;
  }
  return last[b_length];
}

const char *tu_nearest(const char *word, const char *const names[], size_t count) {
  const char *nearest = NULL;
  size_t nearest_edits = SIZE_MAX, word_length = strnlen(word, NEAR_CHARS);
  for (size_t i = 0; i < count; i++) {
    size_t length = strnlen(names[i], NEAR_CHARS), longer = tu_max(length, word_length);
    size_t edits = edit_distance(word, word_length, names[i], length);
    /* Skip this name in three cases: more than a third of the longer name's characters, plus one, must be edited; or as
     * many as the longer name has; or an earlier name needs no more edits. */
    if (edits > longer / 3 + 1 || edits >= longer || edits >= nearest_edits) continue;
    nearest = names[i];
    nearest_edits = edits;
  }
  return nearest;
}

/* ---- numbers and files ------------------------------------------------------------------------------------------ */

/* Reads a decimal number of at most `max` at *at and moves *at behind its digits. Returns false if there is no number,
 * or if the number is larger than `max`. */
static bool take_digits(const char **at, uint64_t max, uint64_t *number) {
  uint64_t value = 0;
  const char *begin = *at;
  for (; is_digit(**at); ++*at)
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value))
      return false;
  if (*at == begin || value > max) return false;
  *number = value;
  return true;
}

bool tu_parse_uint(const char *chars, uint64_t max, uint64_t *number) {
  uint64_t value;
  if (!take_digits(&chars, max, &value) || *chars) return false;
  *number = value;
  return true;
}

bool tu_parse_bytes(const char *chars, uint64_t *bytes) {
  uint64_t value;
  if (!take_digits(&chars, UINT64_MAX, &value)) return false;
  static const char suffixes[] = "KMG";
  const char *suffix = *chars ? strchr(suffixes, *chars) : NULL;
  uint32_t shift = suffix ? 10 * (uint32_t)(suffix - suffixes + 1) : 0;
  if (chars[suffix ? 1 : 0] || value > UINT64_MAX >> shift) return false;
  *bytes = value << shift;
  return true;
}

bool tu_parse_number(const char *chars, double *number) {
  /* Check the characters first, because strtod also accepts blanks, signs, infinities, NaN and hexadecimal numbers. */
  if (chars[strspn(chars, "0123456789.eE+-")] || (!is_digit(*chars) && *chars != '.')) return false;
  char *end;
  double value = strtod(chars, &end);
  if (*end || end == chars || value > DBL_MAX) return false;
  *number = value;
  return true;
}

/* Reads the rest of `file`, at most bytes_max + 1 bytes, into malloc'ed memory, and appends a NUL. Returns NULL and
 * sets errno on failure. */
static char *read_all(int file, size_t bytes_max, size_t *bytes) {
  size_t capacity = 4096, length = 0;
  char *data = malloc(capacity);
  while (data) {
    ssize_t got = read(file, data + length, tu_min(capacity - 1 - length, bytes_max + 1 - length));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      int number = errno;
      free(data);
      errno = number;
      return NULL;
    }
    length += (size_t)got;
    if (got == 0 || length > bytes_max) {
      data[length] = '\0';
      *bytes = length;
      return data;
    }
    if (length < capacity - 1) continue;
    char *grown = realloc(data, capacity *= 2);
    if (!grown) free(data);
    data = grown;
  }
  errno = ENOMEM;
  return NULL;
}

/* Returns TUTTI_ERR_SYSTEM with the message that the input is larger than bytes_max. `found` is the size of the input;
 * UINT64_MAX if reading stopped at the limit. */
static tutti_err refuse_size(const char *name, size_t bytes_max, uint64_t found, struct tu_error *error) {
  if (found > bytes_max && found <= INT64_MAX)
    return tu_fail(error, TUTTI_ERR_SYSTEM, "cannot read '%s': expected at most %zu MiB, found %llu bytes", name,
                   bytes_max >> 20, (unsigned long long)found);
  return tu_fail(error, TUTTI_ERR_SYSTEM, "cannot read '%s': expected at most %zu MiB, found more", name,
                 bytes_max >> 20);
}

/* Returns an error if `file` is not a regular file, or has more than bytes_max bytes. Reads from a pipe or device might
 * block, or never end. */
static tutti_err check_file(const char *path, int file, size_t bytes_max, struct tu_error *error) {
  struct stat status;
  if (fstat(file, &status) != 0) return tu_fail_errno(error, "cannot read '%s'", path);
  if (S_ISREG(status.st_mode))
    return (uint64_t)status.st_size > bytes_max ? refuse_size(path, bytes_max, (uint64_t)status.st_size, error)
                                                : TUTTI_OK;
  const char *kind = S_ISDIR(status.st_mode)                              ? "a folder"
                     : S_ISFIFO(status.st_mode)                           ? "a pipe"
                     : S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) ? "a device"
                                                                          : "a socket";
  return tu_fail(error, TUTTI_ERR_SYSTEM, "cannot read '%s': expected a regular file, found %s", path, kind);
}

tutti_err tu_read_file_of(const char *path, size_t bytes_max, char **data, size_t *bytes, struct tu_error *error) {
  bool standard_input = strcmp(path, "-") == 0;
  const char *name = standard_input ? "standard input" : path;
  /* O_NONBLOCK is needed because open() of a FIFO without a writer would block otherwise. */
  int file = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return tu_fail_errno(error, "cannot open '%s'", path);
  tutti_err err = standard_input ? TUTTI_OK : check_file(path, file, bytes_max, error);
  char *all = err == TUTTI_OK ? read_all(file, bytes_max, bytes) : NULL;
  if (err == TUTTI_OK && !all) err = tu_fail_errno(error, "cannot read '%s'", name);
  if (err == TUTTI_OK && *bytes > bytes_max) err = refuse_size(name, bytes_max, UINT64_MAX, error);
  if (err == TUTTI_OK) *data = all;
  else free(all);
  if (!standard_input) close(file);
  return err;
}

tutti_err tu_read_file(const char *path, char **data, size_t *bytes, struct tu_error *error) {
  return tu_read_file_of(path, TU_TEXT_BYTES, data, bytes, error);
}
