#!/bin/bash
# coming_from_test.sh SOURCE BUILD: tests docs/COMING_FROM.md: every name of tutti on the page exists: in the public headers,
# in the package of Python, or as a variable of the environment; every verb has a page; every link leads somewhere.
# test: fast
set -u
. "$1/tests/shell.sh"
source=$(cd "$1" && pwd)
page=$source/docs/COMING_FROM.md
stub=$source/python/tutti/__init__.pyi
cd "$source" || exit 1

# found PATTERN: prints what the page has that matches this expression of Perl, each once.
found() { grep -oP "$1" "$page" | sort -u; }

# check_names WHAT LEAST PATTERN FUNCTION: FUNCTION must hold for each name that matches; the page has LEAST of them.
check_names() {
  local name count=0
  while read -r name; do
    count=$((count + 1))
    "$4" "$name" || complain "$1 '$name' does not exist"
  done < <(found "$3")
  [ "$count" -ge "$2" ] || complain "found $count $1, expected at least $2"
}

# A declaration, a constant, or a type; a mere comment does not count.
code_of_headers() { sed 's|/\*.*\*/||; /^ *\/\*/,/\*\//d' include/tutti/*.h; }
is_in_headers() { grep -qw -- "$1" <<<"$headers"; }
is_variable() { grep -rqw --include='*.c' --include='*.h' --include='*.cpp' --include='*.py' -- "\"$1\"" src python; }
is_constant() { is_in_headers "$1" || is_variable "$1"; }
is_field() { # tutti_call.NAME
  sed -n "/^typedef struct ${1%.*} {/,/^}/p" include/tutti/tutti.h | sed 's|/\*.*\*/||' | grep -qw -- "${1#*.}"
}
is_cpp() { grep -qE "^(class|struct|template|inline).*\<$1\>|^ +.*\<$1\(" include/tutti/*.hpp; }
is_method() { sed -n '/^class Communicator/,/^def /p' "$stub" | grep -q "^    def $1("; }
is_request_method() { sed -n '/^class Request/,/^class Communicator/p' "$stub" | grep -q "^    def $1("; }
is_of_module() { grep -qE "^(def|class) $1\>|^$1:" "$stub" || [ -e "python/tutti/$1.py" ] || [ -d "python/tutti/$1" ]; }
is_of_torch() { grep -q "^__all__.*\"$1\"" python/tutti/torch/__init__.py; }
is_verb() { [ -e "docs/man/tutti-$1.1" ]; }
is_link() { [ -e "docs/${1%%#*}" ] || [[ $1 == '#'* ]]; }
headers=$(code_of_headers)

test_c() {
  check_names "function or type of C" 70 '(?<![\w/(])tutti_[a-z0-9_]++(?!\(\d)' is_in_headers
  check_names "constant or variable" 30 '\b(TORCH_)?TUTTI_[A-Z0-9_]+' is_constant
  check_names "field" 10 '\btutti_(call|options)\.[a-z_]+' is_field
}

test_cpp() { check_names "name of C++" 1 'tutti::\K\w+' is_cpp; }

# mpi4py also has a communicator: `comm.bcast(thing)` of mpi4py.
test_python() {
  check_names "method of a communicator" 30 '\bcomm\.\K\w++(?!\([^)`]*\)` of mpi4py)' is_method
  check_names "method of a request" 4 '\brequest\.\K\w+' is_request_method
  check_names "name of the package" 25 '(?<![\w/])tutti\.\K\w+' is_of_module
  check_names "name of tutti.torch" 1 '\btutti\.torch\.\K\w+' is_of_torch
}

test_verbs() { check_names "verb" 6 '`tutti \K[a-z]+' is_verb; }

test_links() { check_names "link" 6 '\]\(\K[^)]+' is_link; }

test_length() {
  local lines
  lines=$(wc -l <"$page")
  [ "$lines" -le 210 ] || complain "the page has $lines lines; it is to be read at a sitting"
}

run_tests
