/* text.h: a growing string, a scanner for the library's text formats, number parsers, file reading, and a search for
 * the most similar name in a list. */
#ifndef TU_TEXT_H
#define TU_TEXT_H

#include "base/arena.h"

/* A string that grows. Initialise all fields but `arena` with zeros. tu_text_fini frees the string. After the first
 * tu_text_print, `chars` is NUL-terminated. */
struct tu_text {
  /* Arena (arena.h) that `chars` is allocated from; NULL: `chars` is allocated with tu_allocate. */
  struct tu_arena *arena;
  char *chars;
  size_t length;
  size_t capacity;
};
void tu_text_print(struct tu_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tu_text_fini(struct tu_text *text);

/* A position in a text that is being read. The text need not be NUL-terminated. */
struct tu_scan {
  const char *at;
  const char *end;
  uint32_t line;       /* line number of `at`, from 1 */
  const char *name;    /* name of the input, for error messages */
  const char *comment; /* string that starts a comment; the comment ends at the line end. NULL: "#" */
};
/* Skips blanks and a comment, but not the line end. */
void tu_scan_blanks(struct tu_scan *scan);
/* Skips blanks and consumes the line end. Returns true also at the end of the text; returns false if something else
 * follows the blanks. */
bool tu_scan_end_of_line(struct tu_scan *scan);
/* Skips blanks, comments and empty lines; returns true if the end of the text is reached. */
bool tu_scan_at_end(struct tu_scan *scan);
/* Skips blanks and consumes exactly these characters. Returns false if other characters follow the blanks. */
bool tu_scan_literal(struct tu_scan *scan, const char *chars);
/* Skips blanks and reads a word, [A-Za-z_][A-Za-z0-9_.-]*; returns false if there is no word, or if the word is too
 * long for `word`. */
bool tu_scan_word(struct tu_scan *scan, char *word, size_t word_bytes);
/* Skips blanks and reads all characters up to a blank, '#' or the line end; returns false if there are none, or too
 * many for `token`. */
bool tu_scan_token(struct tu_scan *scan, char *token, size_t token_bytes);
bool tu_scan_uint(struct tu_scan *scan, uint32_t *number);
/* Returns TUTTI_ERR_ARGUMENT with the message "NAME:LINE: expected ..., found '...'". */
tutti_err tu_scan_fail(const struct tu_scan *scan, struct tu_error *error, const char *expected);

/* Returns the name in names[count] with the smallest edit distance from `word`, or NULL if no name is similar
 * enough. */
const char *tu_nearest(const char *word, const char *const names[], size_t count);

/* Parses a string of decimal digits; returns false if it has other characters, or if the number is larger than
 * `max`. */
bool tu_parse_uint(const char *chars, uint64_t max, uint64_t *number);
/* Parses decimal digits with or without a suffix K, M or G (powers of 1024); returns false if the string is anything
 * else. */
bool tu_parse_bytes(const char *chars, uint64_t *bytes);
/* Parses a decimal number that is 0 or more, such as 3, 0.5 or 1e-6; returns false if the string is anything else. */
bool tu_parse_number(const char *chars, double *number);

#define TU_TABLE_BYTES ((size_t)1 << 20)  /* maximum bytes of a hand-written table, such as a selection table */
#define TU_TEXT_BYTES ((size_t)64 << 20)  /* maximum bytes of a description file or program file */
#define TU_DATA_BYTES ((size_t)256 << 20) /* maximum bytes of a plan file or array file */

/* Reads a whole file of at most `bytes_max` bytes into malloc'ed memory, and appends a NUL. The caller frees *data. The
 * path "-" is standard input, which may be a pipe or a device. Any other path must name a regular file: a FIFO, device
 * or directory is refused at once, and a file that is too large is refused before it is read. Errors: TUTTI_ERR_SYSTEM,
 * TUTTI_ERR_MEMORY. */
tutti_err tu_read_file_of(const char *path, size_t bytes_max, char **data, size_t *bytes, struct tu_error *error);
/* Reads a file of at most TU_TEXT_BYTES, as tu_read_file_of does. */
tutti_err tu_read_file(const char *path, char **data, size_t *bytes, struct tu_error *error);

#endif
