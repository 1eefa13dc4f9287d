/* pto_read_words.c: reads words and numbers from the text of a module, and makes error messages with the position of a
 * mistake. */
#include <stdio.h>
#include <string.h>

#include "pto/pto_reader.h"

struct tu_pto_position tu_pto_position_of(struct tu_pto_reader *r) {
  tu_scan_blanks(&r->scan);
  if (r->line != r->scan.line) {
    const char *begin = r->scan.at;
    while (begin > r->begin && begin[-1] != '\n') begin--;
    r->line_begin = begin;
    r->line = r->scan.line;
  }
  return (struct tu_pto_position){r->scan.line, (uint32_t)(r->scan.at - r->line_begin) + 1};
}

static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

enum { NEXT_BYTES = 48 };

/* Describes the next token for an error message: a word, with a leading %, !, # or - if it has one, or a single
 * character. */
static void spell_next(struct tu_pto_reader *r, char spelled[NEXT_BYTES]) {
  tu_scan_blanks(&r->scan);
  const char *at = r->scan.at, *end = r->scan.end;
  if (at == end || *at == '\n') {
    snprintf(spelled, NEXT_BYTES, "the end of the %s", at == end ? "text" : "line");
    return;
  }
  char word[NEXT_BYTES - 2];
  size_t length = 0;
  do word[length++] = *at < ' ' || *at > '~' ? '?' : *at;
  while ((length > 1 || is_name_char(*at) || strchr("%!#-", *at)) && ++at < end && is_name_char(*at) &&
         length < sizeof word - 1);
  word[length] = '\0';
  snprintf(spelled, NEXT_BYTES, "'%s'", word);
}

tutti_err tu_pto_expected(struct tu_pto_reader *r, const char *what) {
  char found[NEXT_BYTES];
  spell_next(r, found);
  return tu_pto_fail(r->module, tu_pto_position_of(r), r->error, "expected %s, found %s", what, found);
}

tutti_err tu_pto_expected_name(struct tu_pto_reader *r, const char *what, const char *prefix, const char *const names[],
                               size_t count) {
  char found[NEXT_BYTES], word[NEXT_BYTES];
  spell_next(r, found);
  snprintf(word, sizeof word, "%s", found + 1);
  word[strcspn(word, "'")] = '\0';
  size_t skip = strncmp(word, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
  const char *near = found[0] == '\'' ? tu_nearest(word + skip, names, count) : NULL;
  if (!near) return tu_pto_fail(r->module, tu_pto_position_of(r), r->error, "expected %s, found %s", what, found);
  return tu_pto_fail(r->module, tu_pto_position_of(r), r->error, "expected %s, found %s; did you mean '%s%s'?", what,
                     found, prefix, near);
}

bool tu_pto_take(struct tu_pto_reader *r, const char *chars) { return tu_scan_literal(&r->scan, chars); }

bool tu_pto_take_name(struct tu_pto_reader *r, char *name, size_t name_bytes) {
  tu_scan_blanks(&r->scan);
  size_t length = 0, left = (size_t)(r->scan.end - r->scan.at);
  while (length < left && is_name_char(r->scan.at[length])) length++;
  if (length == 0 || length >= name_bytes) return false;
  memcpy(name, r->scan.at, length);
  name[length] = '\0';
  r->scan.at += length;
  return true;
}

uint32_t tu_pto_take_one_of(struct tu_pto_reader *r, const char *const words[], uint32_t count) {
  struct tu_scan before = r->scan;
  char word[TU_PTO_NAME_BYTES];
  uint32_t i = count;
  if (tu_pto_take_name(r, word, sizeof word))
    for (i = 0; i < count && strcmp(word, words[i]) != 0;) i++;
  if (i == count) r->scan = before;
  return i;
}

bool tu_pto_take_number(struct tu_pto_reader *r, int64_t *number) {
  tu_scan_blanks(&r->scan);
  const char *at = r->scan.at;
  int64_t value = 0;
  for (; at < r->scan.end && *at >= '0' && *at <= '9'; at++) {
    value = value * 10 + (*at - '0');
    if (value > (int64_t)1 << TU_PTO_SIZE_MAX_LOG2) return false;
  }
  if (at == r->scan.at) return false;
  r->scan.at = at;
  *number = value;
  return true;
}

bool tu_pto_take_word(struct tu_pto_reader *r, const char *word) { return tu_pto_take_one_of(r, &word, 1) == 0; }
