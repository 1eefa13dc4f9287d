/* proto_text.c: reads protobuf's text format into a tree. Open messages and lists are kept on an explicit stack, so
 * that no text can cause deep recursion. */
#include "topology/proto_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* DEPTH_MAX: maximum nesting depth; real files nest six deep. NUMBER_CHARS: buffer size for a number. */
enum { DEPTH_MAX = 32, NUMBER_CHARS = 64 };

/* A message or a list that is still open. */
struct open {
  uint32_t node, last; /* node of the message or list, and its last child */
  uint32_t children;
  char end;      /* character that closes the message or list; '\0': the end of the text closes it */
  bool complete; /* true: a field or an item has just ended, so a separator (comma or semicolon) may follow */
};

struct reading {
  struct tu_yaml *tree;
  struct tu_error *error;
  struct tu_scan scan;
  struct tu_text text; /* texts of all scalars, each with a terminating NUL */
  struct open open[DEPTH_MAX];
  uint32_t depth;
};

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static tutti_err refuse(const struct reading *r, const char *expected) {
  return tu_scan_fail(&r->scan, r->error, expected);
}

/* Skips blanks, comments and line ends, and returns the next character; '\0' at the end of the text. */
static char peek(struct reading *r) {
  while (!tu_scan_at_end(&r->scan) && (*r->scan.at == '\f' || *r->scan.at == '\v')) r->scan.at++;
  return r->scan.at < r->scan.end ? *r->scan.at : '\0';
}

/* Adds a node to the tree, as a child of the innermost open message or list. */
static uint32_t add(struct reading *r, enum tu_yaml_kind kind) {
  struct tu_yaml *y = r->tree;
  struct tu_yaml_node *nodes = tu_try_grow(y->nodes, y->node_count, &y->node_capacity, sizeof *nodes);
  if (!nodes) tu_arena_refuse(y->node_count, 2 * sizeof *nodes);
  y->nodes = nodes;
  uint32_t node = y->node_count++;
  y->nodes[node] =
      (struct tu_yaml_node){.kind = kind, .line = r->scan.line, .first = TU_YAML_NONE, .next = TU_YAML_NONE};
  if (r->depth == 0) return node;
  struct open *above = &r->open[r->depth - 1];
  if (above->children++ == 0) y->nodes[above->node].first = node;
  else y->nodes[above->last].next = node;
  above->last = node;
  bool map = y->nodes[above->node].kind == TU_YAML_MAP;
  y->nodes[above->node].count = map ? above->children / 2 : above->children;
  return node;
}

static tutti_err open_node(struct reading *r, enum tu_yaml_kind kind, char end) {
  if (r->depth == DEPTH_MAX) return refuse(r, "no more than 32 levels of messages and lists");
  uint32_t node = add(r, kind);
  r->open[r->depth++] = (struct open){.node = node, .end = end};
  if (end) r->scan.at++;
  return TUTTI_OK;
}

/* Adds a scalar to the tree. For now, its field `count` holds the offset of its text. The pointer to the text is set at
 * the end, because the buffer of texts moves when it grows. */
static void begin_scalar(struct reading *r) {
  uint32_t node = add(r, TU_YAML_SCALAR);
  r->tree->nodes[node].count = (uint32_t)r->text.length;
}
static void end_scalar(struct reading *r) { tu_text_print(&r->text, "%c", '\0'); }

static void take_word(struct reading *r) {
  const char *begin = r->scan.at;
  while (r->scan.at < r->scan.end && (is_letter(*r->scan.at) || is_digit(*r->scan.at))) r->scan.at++;
  tu_text_print(&r->text, "%.*s", (int)(r->scan.at - begin), begin);
}

/* Reads a number. A hexadecimal or octal number is converted to decimal. Any other number is copied; code that expects
 * a whole number checks it later. */
static tutti_err take_number(struct reading *r) {
  char chars[NUMBER_CHARS];
  size_t length = 0;
  for (char last = '\0'; r->scan.at < r->scan.end; last = *r->scan.at++) {
    char c = *r->scan.at;
    bool exponent = (c == '+' || c == '-') && (last == 'e' || last == 'E');
    if (!is_letter(c) && !is_digit(c) && c != '.' && !exponent) break;
    if (length == sizeof chars - 1) return refuse(r, "a number of no more than 63 characters");
    chars[length++] = c;
  }
  chars[length] = '\0';
  bool hex = chars[0] == '0' && (chars[1] == 'x' || chars[1] == 'X');
  bool octal = !hex && length > 1 && chars[0] == '0';
  char *end = chars;
  unsigned long long number = 0;
  if ((hex && length < 19) || (octal && length < 22)) number = strtoull(chars, &end, hex ? 16 : 8);
  if (end > chars && *end == '\0') tu_text_print(&r->text, "%llu", number);
  else tu_text_print(&r->text, "%s", chars);
  return TUTTI_OK;
}

/* Reads an escape sequence of a string: \n, \x41, \101, ... */
static tutti_err take_escape(struct reading *r) {
  static const char names[] = "\\'\"nrt", values[] = "\\'\"\n\r\t";
  const char *expected = "an escape: \\\\ \\' \\\" \\n \\r \\t, \\x41 or \\101", *at = r->scan.at + 1;
  if (at == r->scan.end) return refuse(r, expected);
  const char *name = *at ? strchr(names, *at) : NULL;
  if (name) {
    tu_text_print(&r->text, "%c", values[name - names]);
    r->scan.at = at + 1;
    return TUTTI_OK;
  }
  unsigned value = 0, digits = 0, base = *at == 'x' ? 16 : 8;
  at += base == 16;
  for (; at < r->scan.end && digits < (base == 16 ? 2 : 3); at++, digits++) {
    const char *all = "0123456789abcdef", *digit = strchr(all, *at >= 'A' && *at <= 'F' ? *at + ('a' - 'A') : *at);
    if (*at == '\0' || !digit || digit - all >= (int)base) break;
    value = value * base + (unsigned)(digit - all);
  }
  if (digits == 0 || value == 0 || value > 255) return refuse(r, expected);
  tu_text_print(&r->text, "%c", (int)value);
  r->scan.at = at;
  return TUTTI_OK;
}

/* Reads a string. Adjacent string literals are concatenated. */
static tutti_err take_string(struct reading *r) {
  tutti_err err = TUTTI_OK;
  for (char quote = peek(r); err == TUTTI_OK && (quote == '"' || quote == '\''); quote = peek(r)) {
    for (r->scan.at++; err == TUTTI_OK;) {
      const char *begin = r->scan.at;
      while (r->scan.at < r->scan.end && *r->scan.at != quote && *r->scan.at != '\\' && *r->scan.at != '\n' &&
             *r->scan.at != '\0')
        r->scan.at++;
      tu_text_print(&r->text, "%.*s", (int)(r->scan.at - begin), begin);
      if (r->scan.at == r->scan.end || *r->scan.at == '\n') return refuse(r, "the end of the string");
      if (*r->scan.at == '\0') return refuse(r, "text, not a NUL character");
      if (*r->scan.at == quote) break;
      err = take_escape(r);
    }
    if (err == TUTTI_OK) r->scan.at++;
  }
  return err;
}

static tutti_err take_scalar(struct reading *r, char first) {
  tutti_err err = TUTTI_OK;
  begin_scalar(r);
  if (first == '"' || first == '\'') {
    r->tree->nodes[r->tree->node_count - 1].quoted = true;
    err = take_string(r);
  } else {
    if (first == '-') {
      tu_text_print(&r->text, "-");
      r->scan.at++;
      first = peek(r);
    }
    if (is_digit(first) || first == '.') err = take_number(r);
    else if (is_letter(first)) take_word(r);
    else err = refuse(r, "a value: a number, a word, a string, { or [");
  }
  end_scalar(r);
  return err;
}

/* Reads the value of a field, or an item of a list. The colon before a message or a list is optional. */
static tutti_err take_value(struct reading *r, bool colon) {
  struct open *here = &r->open[r->depth - 1];
  bool in_list = here->end == ']';
  char first = peek(r);
  here->complete = true;
  if (first == '{') return open_node(r, TU_YAML_MAP, '}');
  if (first == '<') return open_node(r, TU_YAML_MAP, '>');
  if (first == '[' && in_list) return refuse(r, "an item of the list that is not itself a list");
  if (first == '[') return open_node(r, TU_YAML_LIST, ']');
  if (!colon) return refuse(r, "':' or '{' after a field's name");
  return take_scalar(r, first);
}

static tutti_err take_field(struct reading *r) {
  char first = peek(r);
  if (first == '[') return refuse(r, "a field's name (extensions such as [name] are not supported)");
  if (!is_letter(first)) return refuse(r, "a field's name");
  begin_scalar(r);
  take_word(r);
  end_scalar(r);
  bool colon = peek(r) == ':';
  if (colon) r->scan.at++;
  return take_value(r, colon);
}

static tutti_err refuse_end(struct reading *r) {
  const struct open *here = &r->open[r->depth - 1];
  char expected[80];
  snprintf(expected, sizeof expected, "'%c' to close what line %u opens", here->end, r->tree->nodes[here->node].line);
  return refuse(r, expected);
}

/* Reads one field, one item, or the end of the innermost message or list. */
static tutti_err take(struct reading *r, bool *done) {
  struct open *here = &r->open[r->depth - 1];
  char next = peek(r);
  bool list = here->end == ']', separator = next == ',' || (next == ';' && !list);
  if (here->complete && separator) {
    here->complete = false;
    r->scan.at++;
    if (list) return take_value(r, true);
    return TUTTI_OK;
  }
  if (r->scan.at == r->scan.end) {
    if (here->end) return refuse_end(r);
    *done = true;
    return TUTTI_OK;
  }
  if (here->end && next == here->end) {
    r->scan.at++;
    r->depth--;
    return TUTTI_OK;
  }
  if (!list) return take_field(r);
  return here->complete ? refuse(r, "',' or ']' after an item of a list") : take_value(r, true);
}

bool tu_proto_text_is(const char *data, size_t bytes, const char *name) {
  static const char ending[] = ".textproto";
  size_t length = strlen(name), end = sizeof ending - 1;
  if (length >= end && strcmp(name + length - end, ending) == 0) return true;
  struct tu_scan scan = {.at = data, .end = data + bytes, .line = 1};
  tu_scan_at_end(&scan);
  const char *begin = scan.at;
  while (scan.at < scan.end && (is_letter(*scan.at) || is_digit(*scan.at))) scan.at++;
  return scan.at > begin && !tu_scan_at_end(&scan) && *scan.at == '{';
}

tutti_err tu_proto_text_read(const char *data, size_t bytes, const char *name, struct tu_yaml *tree,
                             struct tu_error *error) {
  *tree = (struct tu_yaml){.name = name};
  if (bytes > TU_PROTO_TEXT_BYTES_MAX)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:1: expected no more than %zu bytes of text, found %zu", name,
                   TU_PROTO_TEXT_BYTES_MAX, bytes);
  struct reading r = {.tree = tree, .error = error};
  r.scan = (struct tu_scan){.at = data, .end = data + bytes, .line = 1, .name = name};
  tutti_err err = open_node(&r, TU_YAML_MAP, '\0');
  for (bool done = false; err == TUTTI_OK && !done;) err = take(&r, &done);
  tree->chars = r.text.chars;
  for (uint32_t n = 0; n < tree->node_count; n++) {
    struct tu_yaml_node *node = &tree->nodes[n];
    if (node->kind != TU_YAML_SCALAR) continue;
    node->chars = tree->chars + node->count;
    node->count = 0;
  }
  if (err != TUTTI_OK) tu_yaml_fini(tree);
  return err;
}
