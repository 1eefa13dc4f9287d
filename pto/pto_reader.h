/* pto_reader.h: the state of reading a module, and functions that the pto_read*.c files share. If the text has
 * something else at this position than a function reads, a function named tu_pto_take... returns false
 * (tu_pto_take_one_of: `count`), and a function named tu_pto_read... returns an error. */
#ifndef TU_PTO_READER_H
#define TU_PTO_READER_H

#include "pto/pto_internal.h"

struct tu_pto_reader {
  struct tu_scan scan;
  const char *begin; /* beginning of the text */
  const char *line_begin;
  uint32_t line; /* number of the line that begins at line_begin */
  struct tu_pto_module *module;
  struct tu_error *error;
};

/* ---- words and messages, see pto_read_words.c ---- */

/* Skips blanks, and returns the line and column of the next token. */
struct tu_pto_position tu_pto_position_of(struct tu_pto_reader *r);
/* Returns TUTTI_ERR_ARGUMENT with the message "expected ..., found ...". */
tutti_err tu_pto_expected(struct tu_pto_reader *r, const char *what);
/* Returns TUTTI_ERR_ARGUMENT with the message "expected ..., found ...; did you mean '...'?". The suggestion is
 * `prefix` and the most similar name of names[]. */
tutti_err tu_pto_expected_name(struct tu_pto_reader *r, const char *what, const char *prefix, const char *const names[],
                               size_t count);
/* Reads exactly the characters `chars`. Returns false and reads nothing if other characters come next. */
bool tu_pto_take(struct tu_pto_reader *r, const char *chars);
/* Reads a name (letters, digits, '_' and '.') into `name`. Returns false if there is none, or if it is too long. */
bool tu_pto_take_name(struct tu_pto_reader *r, char *name, size_t name_bytes);
/* Reads one of `words` and returns its index. Returns `count` if the next word is none of them. */
uint32_t tu_pto_take_one_of(struct tu_pto_reader *r, const char *const words[], uint32_t count);
bool tu_pto_take_word(struct tu_pto_reader *r, const char *word);
/* Reads a number. Returns false if there are no digits or if the number exceeds 2^TU_PTO_SIZE_MAX_LOG2. */
bool tu_pto_take_number(struct tu_pto_reader *r, int64_t *number);

/* ---- types, see pto_read_type.c ---- */

tutti_err tu_pto_read_type(struct tu_pto_reader *r, struct tu_pto_type *type);

/* ---- values and directives, see pto_read_value.c ---- */

/* Reads "%name", where the name must not be defined yet. */
tutti_err tu_pto_read_new_name(struct tu_pto_reader *r, char name[TU_PTO_NAME_BYTES], struct tu_pto_position *position);
/* Reads "%name", where the name must be that of a value defined earlier in the text. Sets *value to the value's
 * index. */
tutti_err tu_pto_read_value(struct tu_pto_reader *r, uint32_t *value);
/* Reads a directive: ".arg ..." or ".const ...". */
tutti_err tu_pto_read_directive(struct tu_pto_reader *r);

/* ---- instructions, see pto_read_instruction.c ---- */

/* Reads an instruction with its result and its signature, and adds it to the module. */
tutti_err tu_pto_read_instruction(struct tu_pto_reader *r);

#endif
