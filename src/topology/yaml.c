/* yaml.c: makes a tree from libyaml's events. */
#include "topology/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"

/* DEPTH_MAX: maximum nesting depth; real files nest five deep. FOUND_CHARS: maximum number of characters that an
 * error message quotes. */
enum { DEPTH_MAX = 16, FOUND_CHARS = 40 };

/* State of the reader, with the open lists and maps, outermost first. */
struct reading {
  struct tu_yaml *yaml;
  struct tu_error *error;
  /* length and capacity of yaml->chars, which contains all scalars with their NULs */
  uint32_t length, capacity;
  /* open[d]: node of the list or map that is open at depth d; last[d]: its last child so far */
  uint32_t open[DEPTH_MAX], last[DEPTH_MAX];
  uint32_t children[DEPTH_MAX];
  uint32_t depth;
  bool done;
};

static tutti_err refuse_at(const struct reading *r, uint32_t line, const char *why) {
  return tu_fail(r->error, TUTTI_ERR_ARGUMENT, "%s:%u: %s", r->yaml->name, line, why);
}

/* Returns TUTTI_ERR_MEMORY. Other files allocate from an arena, which leaves the function when memory is lacking. This
 * file must not be left in that way, because it has to delete libyaml's parser, so it checks each allocation itself. */
static tutti_err no_memory(const struct reading *r) {
  return tu_fail(r->error, TUTTI_ERR_MEMORY, "%s: out of memory while reading it; " TU_MORE_MEMORY, r->yaml->name);
}

/* Adds a node to the tree, as a child of the innermost open list or map. */
static tutti_err add(struct reading *r, enum tu_yaml_kind kind, uint32_t line, uint32_t *node) {
  struct tu_yaml *y = r->yaml;
  if (r->depth > 0) {
    const struct tu_yaml_node *above = &y->nodes[r->open[r->depth - 1]];
    if (above->kind == TU_YAML_MAP && r->children[r->depth - 1] % 2 == 0 && kind != TU_YAML_SCALAR)
      return refuse_at(r, line, "expected a word or a number as key, found a list or a map");
  }
  struct tu_yaml_node *nodes = tu_try_grow(y->nodes, y->node_count, &y->node_capacity, sizeof *nodes);
  if (!nodes) return no_memory(r);
  y->nodes = nodes;
  *node = y->node_count++;
  y->nodes[*node] = (struct tu_yaml_node){.kind = kind, .line = line, .first = TU_YAML_NONE, .next = TU_YAML_NONE};
  if (r->depth == 0) return TUTTI_OK;
  uint32_t level = r->depth - 1, above = r->open[level];
  if (r->children[level]++ == 0) y->nodes[above].first = *node;
  else y->nodes[r->last[level]].next = *node;
  r->last[level] = *node;
  y->nodes[above].count = y->nodes[above].kind == TU_YAML_MAP ? r->children[level] / 2 : r->children[level];
  return TUTTI_OK;
}

static tutti_err open_node(struct reading *r, enum tu_yaml_kind kind, uint32_t line) {
  uint32_t node;
  if (r->depth == DEPTH_MAX) return refuse_at(r, line, "expected no more than 16 levels of lists and maps");
  tutti_err err = add(r, kind, line, &node);
  if (err != TUTTI_OK) return err;
  r->open[r->depth] = node;
  r->children[r->depth++] = 0;
  return TUTTI_OK;
}

static tutti_err add_scalar(struct reading *r, const yaml_event_t *event, uint32_t line) {
  const char *chars = (const char *)event->data.scalar.value;
  size_t length = event->data.scalar.length;
  uint32_t node;
  if (memchr(chars, '\0', length)) return refuse_at(r, line, "expected text, found a NUL character");
  tutti_err err = add(r, TU_YAML_SCALAR, line, &node);
  if (err != TUTTI_OK) return err;
  /* For now, the field `count` holds the offset of the text. The pointer to the text is set at the end, because the
   * buffer of texts moves when it grows. */
  r->yaml->nodes[node].count = r->length;
  while (r->capacity - r->length <= length) {
    char *grown = tu_try_grow(r->yaml->chars, r->capacity, &r->capacity, 1);
    if (!grown) return no_memory(r);
    r->yaml->chars = grown;
  }
  memcpy(r->yaml->chars + r->length, chars, length);
  /* new memory of the buffer is filled with zeros, so the text ends with a NUL */
  r->length += (uint32_t)length + 1;
  return TUTTI_OK;
}

static tutti_err take(struct reading *r, const yaml_event_t *event) {
  uint32_t line = (uint32_t)event->start_mark.line + 1;
  switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
      return r->yaml->node_count ? refuse_at(r, line, "expected the end of the file, found a second document")
                                 : TUTTI_OK;
    case YAML_SEQUENCE_START_EVENT: return open_node(r, TU_YAML_LIST, line);
    case YAML_MAPPING_START_EVENT: return open_node(r, TU_YAML_MAP, line);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: r->depth--; return TUTTI_OK;
    case YAML_SCALAR_EVENT: return add_scalar(r, event, line);
    case YAML_ALIAS_EVENT: return refuse_at(r, line, "expected no alias (*name): aliases are not supported");
    case YAML_STREAM_END_EVENT: r->done = true; return TUTTI_OK;
    default: return TUTTI_OK;
  }
}

/* Returns the number of the line that contains the byte at offset `byte`. */
static size_t line_of(const char *data, size_t byte) {
  size_t line = 1;
  for (size_t i = 0; i < byte; i++) line += data[i] == '\n';
  return line;
}

static tutti_err refuse_syntax(const struct reading *r, const yaml_parser_t *parser, const char *data, size_t bytes) {
  if (parser->error == YAML_MEMORY_ERROR || !parser->problem) return no_memory(r);
  if (parser->error == YAML_READER_ERROR)
    return tu_fail(r->error, TUTTI_ERR_ARGUMENT, "%s:%zu: expected UTF-8 text: %s at byte %zu", r->yaml->name,
                   line_of(data, tu_min(parser->problem_offset, bytes)), parser->problem, parser->problem_offset);
  return tu_fail(r->error, TUTTI_ERR_ARGUMENT, "%s:%zu: expected YAML: %s%s%s", r->yaml->name,
                 parser->problem_mark.line + 1, parser->problem, parser->context ? ", " : "",
                 parser->context ? parser->context : "");
}

tutti_err tu_yaml_read(const char *data, size_t bytes, const char *name, struct tu_yaml *yaml, struct tu_error *error) {
  *yaml = (struct tu_yaml){.name = name};
  struct reading r = {.yaml = yaml, .error = error};
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return no_memory(&r);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  /* byte order mark, which some editors write; libyaml would treat the mark as text */
  static const char mark[] = "\xef\xbb\xbf";
  if (bytes >= 3 && memcmp(data, mark, 3) == 0) data += 3, bytes -= 3;
  yaml_parser_set_input_string(&parser, (const unsigned char *)data, bytes);
  tutti_err err = TUTTI_OK;
  while (err == TUTTI_OK && !r.done) {
    yaml_event_t event;
    if (!yaml_parser_parse(&parser, &event)) {
      err = refuse_syntax(&r, &parser, data, bytes);
      break;
    }
    err = take(&r, &event);
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
  if (err == TUTTI_OK && yaml->node_count == 0)
    err = tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:1: expected a description, found nothing", name);
  for (uint32_t n = 0; n < yaml->node_count; n++) {
    struct tu_yaml_node *node = &yaml->nodes[n];
    if (node->kind != TU_YAML_SCALAR) continue;
    node->chars = yaml->chars + node->count;
    node->count = 0;
  }
  if (err != TUTTI_OK) tu_yaml_fini(yaml);
  return err;
}

void tu_yaml_fini(struct tu_yaml *yaml) {
  free(yaml->nodes);
  free(yaml->chars);
  *yaml = (struct tu_yaml){0};
}

uint32_t tu_yaml_find(const struct tu_yaml *yaml, uint32_t map, const char *key) {
  if (map == TU_YAML_NONE || yaml->nodes[map].kind != TU_YAML_MAP) return TU_YAML_NONE;
  for (uint32_t k = tu_yaml_first(yaml, map); k != TU_YAML_NONE; k = tu_yaml_next(yaml, tu_yaml_next(yaml, k)))
    if (strcmp(yaml->nodes[k].chars, key) == 0) return tu_yaml_next(yaml, k);
  return TU_YAML_NONE;
}

tutti_err tu_yaml_refuse(const struct tu_yaml *yaml, uint32_t node, struct tu_error *error, const char *expected) {
  static const char *const kinds[][2] = {[TU_YAML_LIST] = {"list", "entries"}, [TU_YAML_MAP] = {"map", "keys"}};
  const struct tu_yaml_node *n = &yaml->nodes[node];
  if (n->kind != TU_YAML_SCALAR)
    return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: expected %s, found a %s of %u %s", yaml->name, n->line, expected,
                   kinds[n->kind][0], n->count, kinds[n->kind][1]);
  /* Shorten the text for the error message, and replace characters that are not printable. */
  char found[FOUND_CHARS + 4] = "";
  size_t length = strnlen(n->chars, FOUND_CHARS);
  for (size_t i = 0; i < length; i++) found[i] = n->chars[i] < ' ' || n->chars[i] > '~' ? '?' : n->chars[i];
  if (n->chars[length]) memcpy(found + length, "...", 4);
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: expected %s, found '%s'", yaml->name, n->line, expected, found);
}

tutti_err tu_yaml_fail(const struct tu_yaml *yaml, uint32_t node, struct tu_error *error, const char *problem) {
  return tu_fail(error, TUTTI_ERR_ARGUMENT, "%s:%u: %s", yaml->name, yaml->nodes[node].line, problem);
}

tutti_err tu_yaml_uint(const struct tu_yaml *yaml, uint32_t node, uint64_t max, const char *what, uint64_t *number,
                       struct tu_error *error) {
  const struct tu_yaml_node *n = &yaml->nodes[node];
  if (n->kind == TU_YAML_SCALAR && tu_parse_uint(n->chars, max, number)) return TUTTI_OK;
  char expected[120];
  snprintf(expected, sizeof expected, "%s (a whole number up to %llu)", what, (unsigned long long)max);
  return tu_yaml_refuse(yaml, node, error, expected);
}

tutti_err tu_yaml_is(const struct tu_yaml *yaml, uint32_t node, enum tu_yaml_kind kind, const char *expected,
                     struct tu_error *error) {
  return yaml->nodes[node].kind == kind ? TUTTI_OK : tu_yaml_refuse(yaml, node, error, expected);
}
