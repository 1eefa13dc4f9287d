/* json.c: writes JSON. The caller is responsible for the order of calls: items within an object have keys, items within
 * a list have none. */
#include "cli/json.h"

#include <math.h>
#include <stdio.h>

#define HEAD "{\"version\": %d, \"verb\": \"%s\""

static void print_string(struct json *j, const char *chars) {
  tu_text_print(&j->text, "\"");
  for (; *chars; chars++) {
    const unsigned char c = (unsigned char)*chars;
    if (c < ' ') tu_text_print(&j->text, "\\u%04x", c);
    else tu_text_print(&j->text, c == '"' || c == '\\' ? "\\%c" : "%c", *chars);
  }
  tu_text_print(&j->text, "\"");
}

/* Writes what stands before the value of an item: comma, line end, key. */
static void begin_item(struct json *j, const char *key) {
  if (j->comma) tu_text_print(&j->text, j->new_line ? "," : ", ");
  if (j->new_line) tu_text_print(&j->text, "\n");
  j->comma = true;
  j->new_line = false;
  if (!key) return;
  print_string(j, key);
  tu_text_print(&j->text, ": ");
}

void json_begin(struct json *j, const char *verb) {
  json_head(verb, &j->text);
  j->comma = true;
}

void json_end(struct json *j) {
  fputs(j->text.chars, stdout);
  fputs("}\n", stdout);
  json_drop(j);
}

void json_drop(struct json *j) {
  tu_text_fini(&j->text);
  *j = (struct json){0};
}

void json_head(const char *verb, struct tu_text *text) { tu_text_print(text, HEAD, JSON_VERSION, verb); }
void json_print_head(const char *verb) { printf(HEAD, JSON_VERSION, verb); }

void json_text(struct json *j, const char *key, const char *chars) {
  begin_item(j, key);
  if (chars) print_string(j, chars);
  else tu_text_print(&j->text, "null");
}

void json_count(struct json *j, const char *key, uint64_t count) {
  begin_item(j, key);
  tu_text_print(&j->text, "%llu", (unsigned long long)count);
}

void json_number(struct json *j, const char *key, double number) {
  begin_item(j, key);
  if (isfinite(number)) tu_text_print(&j->text, "%.15g", number);
  else tu_text_print(&j->text, "null");
}

void json_bool(struct json *j, const char *key, bool value) {
  begin_item(j, key);
  tu_text_print(&j->text, value ? "true" : "false");
}

void json_null(struct json *j, const char *key) { json_text(j, key, NULL); }

void json_open(struct json *j, const char *key, enum json_kind kind) {
  begin_item(j, key);
  tu_text_print(&j->text, kind == JSON_OBJECT ? "{" : "[");
  j->comma = false;
}

void json_close(struct json *j, enum json_kind kind) {
  tu_text_print(&j->text, kind == JSON_OBJECT ? "}" : "]");
  j->comma = true;
  j->new_line = false;
}

void json_line(struct json *j) { j->new_line = true; }
