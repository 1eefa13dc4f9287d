/* proto_text_test.c: tests the reader of protobuf's text format with all forms that the format allows, and with errors
 * and their lines. */
#include "topology/proto_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "test.h"

/* Prints the tree as text: name=value, name{...}, name[...], with a line number where it changes. */
static const char *shown(const struct tu_yaml *y, uint32_t node, struct tu_text *t) {
  const struct tu_yaml_node *n = &y->nodes[node];
  if (n->kind == TU_YAML_SCALAR) tu_text_print(t, n->quoted ? "'%s'" : "%s", n->chars);
  if (n->kind == TU_YAML_LIST) {
    tu_text_print(t, "[");
    for (uint32_t i = n->first; i != TU_YAML_NONE; i = tu_yaml_next(y, i))
      tu_text_print(t, i == n->first ? "" : " "), shown(y, i, t);
    tu_text_print(t, "]");
  }
  if (n->kind == TU_YAML_MAP) {
    tu_text_print(t, "{");
    for (uint32_t k = n->first; k != TU_YAML_NONE; k = tu_yaml_next(y, tu_yaml_next(y, k))) {
      tu_text_print(t, k == n->first ? "%s=" : " %s=", y->nodes[k].chars);
      shown(y, tu_yaml_next(y, k), t);
    }
    tu_text_print(t, "}");
  }
  return t->chars;
}

static void trees(void) {
  static const char *const cases[][2] = {
      {"", "{}"},
      {"# nothing\n\n", "{}"},
      {"a: 1", "{a=1}"},
      {"a { b: 2 } c: { d: x }", "{a={b=2} c={d=x}}"},
      {"a < b: 2 > c: < >", "{a={b=2} c={}}"},
      {"a: 1, b: 2; c: 3", "{a=1 b=2 c=3}"},
      {"a { b: 1; } , c { }", "{a={b=1} c={}}"},
      {"a: [1, 2 ,3] b: []", "{a=[1 2 3] b=[]}"},
      {"a [ { b: 1 }, < > ]", "{a=[{b=1} {}]}"},
      {"a: 1 a: [2, 3] a: 4", "{a=1 a=[2 3] a=4}"},
      {"a: 0x1F b: 017 c: 0 d: -12 e: - 3 f: 1.5e+3f g: -inf", "{a=31 b=15 c=0 d=-12 e=-3 f=1.5e+3f g=-inf}"},
      {"a: \"b\" 'c' # more\n \"\\\\ \\\" \\x41\\102\" b: ''", "{a='bc\\ \" AB' b=''}"},
      {"a#b\n:#c\n1#d", "{a=1}"},
      {"a:TRUE\tb:\r\n_x9", "{a=TRUE b=_x9}"},
      {"a: 99999999999999999999 b: 0xfffffffffffffffffff b2: 09",
       "{a=99999999999999999999 b=0xfffffffffffffffffff b2=09}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tu_yaml tree;
    struct tu_error error = {.text = ""};
    struct tu_text t = {0};
    if (tu_proto_text_read(cases[i][0], strlen(cases[i][0]), "x", &tree, &error) != TUTTI_OK) {
      FAIL("'%s': %s", cases[i][0], error.text);
      continue;
    }
    CHECK(strcmp(shown(&tree, 0, &t), cases[i][1]) == 0, "'%s': '%s', not '%s'", cases[i][0], t.chars, cases[i][1]);
    tu_text_fini(&t);
    tu_yaml_fini(&tree);
  }
}

static void lines(void) {
  struct tu_yaml tree;
  const char *text = "# one\na {\n  b: [ 1,\n 2 ]\n}\nc:\n'x'";
  if (tu_proto_text_read(text, strlen(text), "x", &tree, NULL) != TUTTI_OK) {
    FAIL("not read");
    return;
  }
  uint32_t a = tu_yaml_find(&tree, 0, "a"), b = tu_yaml_find(&tree, a, "b"), c = tu_yaml_find(&tree, 0, "c");
  uint32_t last = tu_yaml_next(&tree, tu_yaml_first(&tree, b));
  CHECK(tree.nodes[a].line == 2 && tree.nodes[b].line == 3 && tree.nodes[last].line == 4 && tree.nodes[c].line == 7,
        "%u %u %u %u", tree.nodes[a].line, tree.nodes[b].line, tree.nodes[last].line, tree.nodes[c].line);
  tu_yaml_fini(&tree);
}

static void refuse(const char *text, size_t bytes, const char *facts) {
  struct tu_yaml tree;
  struct tu_error error = {.text = ""};
  CHECK(tu_proto_text_read(text, bytes, "x", &tree, &error) == TUTTI_ERR_ARGUMENT && test_contains(error.text, facts),
        "'%.40s': '%s', not '%s'", text, error.text, facts);
}

static void refusals(void) {
  static const char *const cases[][2] = {
      {"a", "x:1: |':' or '{'|the text"},
      {"a 1", "x:1: |':' or '{'|'1'"},
      {"a:\n", "x:2: |a value|{ or [|the text"},
      {"a: }", "x:1: |a value|{ or [|'}'"},
      {"1: 2", "x:1: |field's name|'1:'"},
      {"a {\nb: 1\n", "x:3: |'}'|close|line 1|the text"},
      {"a {\nb: 1\n>", "x:3: |field's name|'>'"},
      {"a: 1 }", "x:1: |field's name|'}'"},
      {"a: [1 2]", "x:1: |',' or ']'|'2]'"},
      {"a: [1,]", "x:1: |a value|{ or [|']'"},
      {"a: [1; 2]", "x:1: |',' or ']'|';'"},
      {"a: [[1]]", "x:1: |an item|not itself a list|'[1]]'"},
      {"a: [1,\n2", "x:2: |']'|close|line 1|the text"},
      {"a: 1,, b: 2", "x:1: |field's name|','"},
      {"[a.b]: 2", "x:1: |field's name|[name]|'[a.b]:'"},
      {"a: 'b\n'", "x:1: |string|the line"},
      {"a: \"b", "x:1: |string|the text"},
      {"a: '\\u0041'", "x:1: |an escape|x41|'\\u0041''"},
      {"a: '\\x00'", "x:1: |an escape|x41|'\\x00''"},
      {"a: '\\", "x:1: |an escape|x41|'\\'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) refuse(cases[i][0], strlen(cases[i][0]), cases[i][1]);
  refuse("a: 'b\0c'", 8, "x:1: |text|NUL|'?c''");
  struct tu_text deep = {0};
  for (int i = 0; i < 40; i++) tu_text_print(&deep, "a {\n");
  refuse(deep.chars, deep.length, "x:32: |32 levels|'{'");
  tu_text_fini(&deep);
  char *large = tu_allocate(TU_PROTO_TEXT_BYTES_MAX + 1, 1);
  memset(large, ' ', TU_PROTO_TEXT_BYTES_MAX + 1);
  refuse(large, TU_PROTO_TEXT_BYTES_MAX + 1, "x:1: |4194304 bytes|found 4194305");
  struct tu_yaml tree;
  CHECK(tu_proto_text_read(large, TU_PROTO_TEXT_BYTES_MAX, "x", &tree, NULL) == TUTTI_OK, "as large as may be");
  tu_yaml_fini(&tree);
  free(large);
}

/* Checks which files are recognised as protobuf's text format. */
static void recognised(void) {
  static const struct {
    const char *text, *name;
    bool is;
  } cases[] = {
      {"mesh_descriptors {", "x", true},
      {"# a\n\n  top_level_instance\n{ }", "x", true},
      {"", "x.textproto", true},
      {"a: 1", "a/x.textproto", true},
      {"ChipSpec: {", "x.yaml", false},
      {"{a: 1}", "x", false},
      {"arch: {0: a}\n", "textproto", false},
      {"", "x", false},
      {"a", "x", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    CHECK(tu_proto_text_is(cases[i].text, strlen(cases[i].text), cases[i].name) == cases[i].is, "'%s' in %s",
          cases[i].text, cases[i].name);
}

static const struct test tests[] = {
    {"trees", trees},
    {"lines", lines},
    {"refusals", refusals},
    {"recognised", recognised},
};
int main(int argc, char **argv) { return test_main(tests, sizeof tests / sizeof tests[0], argc, argv); }
