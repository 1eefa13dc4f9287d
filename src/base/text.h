/* text.h: a growing string, a scanner for the small text formats, and the nearest of a list of names. */
#ifndef TU_TEXT_H
#define TU_TEXT_H

#include "base/arena.h"

/* A string that grows. Zero-initialise but for the arena; free with tu_text_fini. `chars` is always NUL-terminated once printed
 * to. */
struct tu_text {
  struct tu_arena *arena; /* what it comes from; NULL: tu_allocate */
  char *chars;
  size_t length;
  size_t capacity;
};
void tu_text_print(struct tu_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tu_text_fini(struct tu_text *text);

/* A place in a text that is being read: lines count from 1. The input need not be NUL-terminated. */
struct tu_scan {
  const char *at;
  const char *end;
  uint32_t line;
  const char *name;    /* of the input, for messages */
  const char *comment; /* what starts a comment, which ends with the line; NULL: "#" */
};
void tu_scan_blanks(struct tu_scan *scan);                     /* skips blanks and a comment, not the line end */
bool tu_scan_end_of_line(struct tu_scan *scan);                /* skips blanks; takes the line end or the end of text */
bool tu_scan_at_end(struct tu_scan *scan);                     /* skips blanks and empty lines; is nothing left? */
bool tu_scan_literal(struct tu_scan *scan, const char *chars); /* takes exactly these characters, after blanks */
bool tu_scan_word(struct tu_scan *scan, char *word, size_t word_bytes); /* [A-Za-z_][A-Za-z0-9_.-]* */
/* Takes all characters up to a blank, a comment or the line end; false if there are none, or too many for `token`. */
bool tu_scan_token(struct tu_scan *scan, char *token, size_t token_bytes);
bool tu_scan_uint(struct tu_scan *scan, uint32_t *number);
/* ARGUMENT, "name:line: expected ..., found '...'" */
tutti_err tu_scan_fail(const struct tu_scan *scan, struct tu_error *error, const char *expected);

/* The name in names[count] that is most like `word` (edit distance), or NULL if none is near. */
const char *tu_nearest(const char *word, const char *const names[], size_t count);

/* Reads decimal digits only, the whole string; false otherwise or when it is over max. */
bool tu_parse_uint(const char *chars, uint64_t max, uint64_t *number);
/* As tu_parse_uint, with a suffix K, M or G (powers of 1024) allowed. */
bool tu_parse_bytes(const char *chars, uint64_t *bytes);
/* Reads a decimal number, 0 or more, the whole string: 3, 0.5, 1e-6. */
bool tu_parse_number(const char *chars, double *number);

/* How large a file may be: tables that a person writes; descriptions and programs; plans and arrays. */
#define TU_TABLE_BYTES ((size_t)1 << 20)
#define TU_TEXT_BYTES ((size_t)64 << 20)
#define TU_DATA_BYTES ((size_t)256 << 20)

/* Reads a whole file, of at most `bytes_max` bytes, into malloc'ed memory with a NUL behind it. A path "-" is standard input, in
 * which a pipe or a device will do. Anything else must be a regular file: a pipe, a device or a folder is refused without
 * waiting for it, and a file that is too large before it is read. TUTTI_ERR_SYSTEM, with a sentence. */
tutti_err tu_read_file_of(const char *path, size_t bytes_max, char **data, size_t *bytes, struct tu_error *error);
/* Of at most TU_TEXT_BYTES. */
tutti_err tu_read_file(const char *path, char **data, size_t *bytes, struct tu_error *error);

#endif
