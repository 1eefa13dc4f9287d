/* proto_text.h: reads protobuf's text format into a tree, without a schema. The tree is that of yaml.h:
 * - A message is a map. A field that occurs several times is a key that occurs several times.
 * - [a, b] is a list.
 * - A string is a scalar that is `quoted`. Whole numbers are converted to decimal.
 *
 * Each node knows its line. Extensions and Any ([name] as the name of a field) are errors. So are all string escapes
 * except \\ \' \" \n \r \t \x41 \101. Time is linear in the size of the text. The tree takes at most 36 bytes for each
 * byte of text. */
#ifndef TU_PROTO_TEXT_H
#define TU_PROTO_TEXT_H

#include "topology/yaml.h"

/* maximum size of a text; real files have a few kilobytes */
#define TU_PROTO_TEXT_BYTES_MAX ((size_t)4 << 20)

/* Returns true if the text looks like protobuf's text format: its name ends with .textproto, or the text begins with
 * a word and '{'. No cluster file in YAML begins with these. */
bool tu_proto_text_is(const char *data, size_t bytes, const char *name);

/* Reads a text into a tree whose root is node 0, a map. The caller frees the tree with tu_yaml_fini. Error:
 * TUTTI_ERR_ARGUMENT, with the message "name:line: expected ..., found ...". */
tutti_err tu_proto_text_read(const char *data, size_t bytes, const char *name, struct tu_yaml *tree,
                             struct tu_error *error);

#endif
