#!/bin/bash
# Checks that the examples in README.md work as printed. A ```c block that begins with /* NAME.c */ is an example. The
# commands in the ```sh block after it build and run it, in a folder that looks like a clone. It must print the lines of
# the ```text block after them, in any order, as the order of ranks is not fixed.
source=$1 build=$2
skip() {
  echo "$1"
  exit 77
}
grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "a plain program cannot load a sanitized library"

here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# Writes each example into a folder of its own: code, commands, output.
awk -v here="$here" '
  /^```/ && !open { kind = substr($0, 4); open = 1; first = 1; next }
  /^```/ { open = 0; next }
  !open { next }
  kind == "c" && first { named = $0 ~ /^\/\* [a-z0-9_]+\.c \*\/$/; if (named) name = $2 }
  { first = 0 }
  kind == "c" && named { file = name }
  kind == "c" && !named { next }
  kind == "sh" { file = "commands" }
  kind == "text" { file = "output" }
  kind !~ /^(c|sh|text)$/ || name == "" { next }
  { folder = here "/" substr(name, 1, length(name) - 2); if (!made[folder]++) system("mkdir " folder); print > (folder "/" file) }
' "$source/README.md"

passed=0 failed=0
wrong() { # NAME WHAT
  echo "  $2"
  echo "FAILED README.md: $1"
  failed=$((failed + 1))
}
try() { # FOLDER
  local name lines
  name=$(basename "$1")
  ln -s "$source/include" "$1/include"
  ln -s "$build" "$1/build"
  cd "$1" || exit 1
  [ -s commands ] && [ -s output ] || { wrong "$name" "no commands or no output after the code" && return; }
  timeout 50 sh -e ./commands >found 2>errors ||
    { wrong "$name" "exit status $? of its commands: $(cat commands errors)" && return; }
  diff <(sort output) <(sort found) >differences ||
    { wrong "$name" "its output differs (<: README, >: found): $(cat differences)" && return; }
  lines=$(wc -l <"$name.c")
  [ "$lines" -le 45 ] || { wrong "$name" "the example has $lines lines, expected at most 45" && return; }
  echo "ok README.md: $name ($lines lines)"
  passed=$((passed + 1))
}
for folder in "$here"/*/; do try "${folder%/}"; done
[ $passed -ge 2 ] || wrong "examples" "$passed examples passed, expected 2 or more"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
