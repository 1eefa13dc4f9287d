/* json.h: writes the data of a verb as JSON (--json). Each object begins with the version of the schema and the verb.
 * tutti(1), DATA, says when the version changes; the man page of each verb describes its fields. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "base/text.h"

enum { JSON_VERSION = 1 };

/* An object that is being written. Initialise it with zeros. Nothing is printed before json_end, so that a verb that
 * fails prints no part of an object. */
struct json {
  struct tu_text text;
  bool comma;    /* the next item comes after another one */
  bool new_line; /* the next item begins on a new line */
};

/* Begins an object with the fields "version" and "verb"; ends it with a line end, prints it and frees it; frees it
 * without printing it. */
void json_begin(struct json *j, const char *verb);
void json_end(struct json *j);
void json_drop(struct json *j);

/* Writes the head of an object: {"version": 1, "verb": "VERB", without a comma. The caller writes the rest. */
void json_head(const char *verb, struct tu_text *text);
/* Prints such a head at once. */
void json_print_head(const char *verb);

/* One item: a field, if `key` is given, or an item of a list (key NULL). A text that is NULL, and a number that is not
 * finite, are written as null. */
void json_text(struct json *j, const char *key, const char *chars);
void json_count(struct json *j, const char *key, uint64_t count);
void json_number(struct json *j, const char *key, double number);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

/* An object or a list as an item, until json_close with the same kind. */
enum json_kind { JSON_OBJECT, JSON_LIST };
void json_open(struct json *j, const char *key, enum json_kind kind);
void json_close(struct json *j, enum json_kind kind);

/* The next item begins on a new line, for long outputs that people read, too. */
void json_line(struct json *j);

#endif
