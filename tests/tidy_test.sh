#!/bin/bash
# tidy_test.sh SOURCE BUILD: tests tools/tidy on small source trees: it accepts a correct one, and reports each mistake.
set -u
. "$1/tests/shell.sh"
source=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# Begins a new tree without mistakes: src/top calls src/low, through an inline function.
new_tree() {
  rm -rf tree
  mkdir -p tree/tools tree/src/top tree/src/low
  cp "$source/tools/tidy" "$source"/tools/*.awk tree/tools
  cp "$source/.clang-format" tree
  write tools/layers.txt <<'END'
top: low
low:
END
  write src/low/low.h <<'END'
/* low.h: a header. */
int tu_low_add(int a);
END
  write src/low/low.c <<'END'
/* low.c: a file. */
#include "low/low.h"

int tu_low_add(int a) { return a + 1; }
END
  write src/top/top.h <<'END'
/* top.h: a header. */
#include "low/low.h"

int tu_top_add(int a);
static inline int tu_top_add_twice(int a) { return tu_top_add(tu_low_add(a)); }
END
  write src/top/top.c <<'END'
/* top.c: a file. */
#include "top/top.h"

int tu_top_add(int a) { return tu_low_add(a); }
END
}
write() { cat >"tree/$1"; }   # PATH; the text is standard input
append() { cat >>"tree/$1"; } # PATH; the text is standard input

# reports FACTS: tools/tidy fails, and prints all FACTS, which are separated by '|'.
reports() {
  run_tool 1 tree/tools/tidy
  has_facts "tools/tidy" "$out" "$1"
}

test_a_correct_tree() {
  new_tree
  run_tool 0 tree/tools/tidy
  is "standard output" "$out" ""
}

test_layers() {
  new_tree
  append src/low/low.h <<<'#include "top/top.h"'
  reports "layers|src/low/low.h:3: low may not include top/top.h"
  new_tree
  append tools/layers.txt <<<$'more:\nlow/low.c: more'
  mkdir tree/src/more
  reports "layers|tools/layers.txt:4: low/low.c includes nothing of more"
  write src/more/more.h <<<'/* more.h: a header. */'
  sed -i 's|#include.*|&\n#include "more/more.h"|' tree/src/low/low.c
  run_tool 0 tree/tools/tidy
  # A single header is enough; the rest of its folder is not included then.
  sed -i 's|^low/low.c: more|& more/more.h|' tree/tools/layers.txt
  reports "layers|tools/layers.txt:4: low/low.c includes nothing of more"
  # A line for the file replaces the one for its folder.
  sed -i 's|^low/low.c:.*|low/low.h:|; s|^low:|low: more|' tree/tools/layers.txt
  run_tool 0 tree/tools/tidy
  sed -i 's|^low/low.h:|low/low.c:|' tree/tools/layers.txt
  reports "layers|src/low/low.c:3: low/low.c may not include more/more.h|tools/layers.txt:2: low includes nothing of more"
}

# of_lines LINES: writes a test with a function of so many lines, and with a struct of 82 lines.
of_lines() {
  write src/low/low_test.c <<<$'/* low_test.c: a test. */\nstruct numbers {'
  seq -f '  int a%g;' 80 >>tree/src/low/low_test.c
  append src/low/low_test.c <<<$'};\nstatic int first(int a) {'
  seq -f '  a += %g;' $(($1 - 3)) >>tree/src/low/low_test.c
  append src/low/low_test.c <<<$'  return a;\n}'
}

test_long_functions() {
  new_tree
  append tools/layers.txt <<<'tests:'
  of_lines 60
  run_tool 0 tree/tools/tidy
  of_lines 61
  reports "function|60 lines|src/low/low_test.c:84: 61 lines"
}

# Words that are wrong in every file. They are cut in two here, as tools/tidy reads this file, too.
test_words() {
  local path text check
  while IFS='|' read -r path text check; do
    new_tree
    mkdir -p "$(dirname "tree/$path")"
    append "$path" <<<"${text//_/}"
    reports "$check|$path:"
  done <<'END'
README.md|No_body reads this.|a vague word
tools/check|# A TO_DO.|work that is left
pto/pto.txt|It is who_ever sends first.|a vague word
tests/a_test.sh|# any_body|a vague word
docs/DRAW.md|There is no memory to be h_ad.|a vague word
cmake/tests.cmake|set(a /ho_me/a)|a path
END
}

test_circles() {
  new_tree
  append src/low/low.c <<<'int tu_low_call(int a) { return tu_top_add(a); }'
  reports "circles|src/low/low.c src/top/top.c|src/low/low.c -> src/top/top.c: tu_top_add|src/top/top.c -> src/low/low.c: tu_low_add"
  # One of the calls is in an inline function of a header, which no .c file of its folder calls.
  new_tree
  write src/top/top.c <<'END'
/* top.c: a file. */
#include "top/top.h"

int tu_top_add(int a) { return a; }
END
  append tools/layers.txt <<<'low/low.c: top'
  write src/low/low.c <<'END'
/* low.c: a file. */
#include "low/low.h"
#include "top/top.h"

int tu_low_add(int a) { return a + 1; }
END
  reports "circles|src/low/low.c src/top/top.h|src/top/top.h -> src/low/low.c: tu_low_add|src/low/low.c -> src/top/top.h: its header"
  # Over several lines.
  sed -i '/tu_top_add_twice/d' tree/src/top/top.h
  append src/top/top.h <<'END'
static inline int tu_top_add_three_times(int this_is_the_number_to_which_one_is_added_three_times,
                                         int this_number_is_not_used) {
  return tu_low_add(this_is_the_number_to_which_one_is_added_three_times);
}
END
  reports "circles|src/top/top.h -> src/low/low.c: tu_low_add"
  # Without the inline function there is no circle.
  sed -i '/^static/,$d' tree/src/top/top.h
  run_tool 0 tree/tools/tidy
  append tools/layers.txt <<<'circle src/low/low.c src/top/top.h: no longer'
  reports "circles|circle src/low/low.c src/top/top.h: there is no such circle"
}

test_names_defined_twice() {
  local path text fact
  while IFS='|' read -r path text fact; do
    new_tree
    append src/low/low.h <<<$'#define TU_LOW_LIMIT(a) a\nenum {\n  LOW_FIRST, /* the first: */\n  LOW_SECOND = LOW_FIRST + 1\n};'
    append src/low/low.h <<<$'#define LOW_HELPER 1\n#undef LOW_HELPER\n#define LOW_DEFAULT 1\nstruct low {\n  int a;\n};'
    append src/low/low.c <<<$'struct tu_low {\n  int a;\n};\nstruct helper {\n  int a;\n};\nenum { HELPERS = 1 };'
    mkdir -p tree/pto tree/cli tree/bench tree/tests
    append tools/layers.txt <<<$'pto:\ncli:\nbench:\ntests:'
    write "$path" <<<"/* a header, or a file */"
    append "$path" <<<"$(printf '%b' "$text")"
    if [ -n "$fact" ]; then
      reports "defined twice|$path:|src/low/low.|: $fact is also defined at "
    else
      run_tool 0 tree/tools/tidy
      is "$path" "$out" ""
    fi
  done <<'END'
pto/pto.h|#define TU_LOW_LIMIT 2|TU_LOW_LIMIT
cli/cli.h|enum { CLI_FIRST, LOW_SECOND };|LOW_SECOND
bench/bench.h|#define LOW_FIRST 7|LOW_FIRST
tests/helper.h|struct low {\n  int b;\n};|struct low
cli/cli.c|struct tu_low {\n  int b;\n};|struct tu_low
cli/cli.c|struct low {\n  int b;\n};|
tests/helper.h|struct helper {\n  int b;\n};\nenum { HELPERS = 2 };|
pto/pto.h|#define LOW_HELPER 2|
src/low/more.h|#include "low/low.h"\n#define LOW_DEFAULT 2|
pto/pto.h|/* enum { LOW_FIRST } */ enum { PTO_FIRST /* LOW_SECOND */ };|
END
  new_tree
  append src/low/low.h <<<$'#ifndef TU_LOW_H\n#define TU_LOW_H\n#endif'
  append src/top/top.h <<<$'#ifndef TU_LOW_H\n#define TU_LOW_H\n#endif'
  reports "defined twice|src/top/top.h:6: TU_LOW_H is also defined at src/low/low.h:3"
}

run_tests
