/* proto_text.h: a text in protobuf's text format as a tree, with the line of everything in it, without a schema. The tree is
 * the one of yaml.h: a message is a map, in which a field that is given again stands again; [a, b] is a list; a string is a
 * scalar that is `quoted`; whole numbers are decimal, however the text spells them.
 *
 * Not understood, and refused: extensions and Any ([name] as a field's name), escapes beyond \\ \' \" \n \r \t \x41 \101 in
 * strings. Linear in the text's size; at most 36 bytes of tree for each byte of text. */
#ifndef TU_PROTO_TEXT_H
#define TU_PROTO_TEXT_H

#include "topology/yaml.h"

/* Larger texts are refused. Real ones have a few kilobytes. */
#define TU_PROTO_TEXT_BYTES_MAX ((size_t)4 << 20)

/* Does the text look like one? Its name ends with .textproto, or its first word opens a message (word {), which no cluster
 * file in YAML does. */
bool tu_proto_text_is(const char *data, size_t bytes, const char *name);

/* The root is node 0, a map. Freed with tu_yaml_fini. ARGUMENT, "name:line: expected ..., found ...". */
tutti_err tu_proto_text_read(const char *data, size_t bytes, const char *name, struct tu_yaml *tree,
                             struct tu_error *error);

#endif
