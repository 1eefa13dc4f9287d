#!/bin/bash
# topology_doc_test.sh SOURCE BUILD: tests docs/TOPOLOGY.md: its commands print what it shows, its pictures are up to
# date, its file is valid, and its program works.
set -u
. "$1/tests/shell.sh"
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
tutti=$build/tutti page=$source/docs/TOPOLOGY.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
PATH=$build:$PATH

# Prints all blocks of one language.
blocks() { awk -v open="\`\`\`$1" '$0 == open { on = 1; next } /^```/ { on = 0 } on' "$page"; } # LANGUAGE

blocks textproto >torus.textproto # the page's commands read this file

test_commands() {
  local line commands=0
  blocks text >says.txt
  while IFS= read -r line; do
    [[ $line == "$ "* ]] && echo "$line" && commands=$((commands + 1)) && bash -c "${line#* }" 2>&1
  done <says.txt >prints.txt
  diff says.txt prints.txt >differences.txt ||
    complain "the page shows (<), the command prints (>): $(head -8 differences.txt)"
  [ "$commands" -ge 8 ] || complain "expected at least 8 commands, found $commands"
}

test_pictures() {
  "$source/tools/draw-clusters" "$build" "$scratch/topology" || complain "tools/draw-clusters failed"
  diff -r "$source/docs/topology" topology >differences.txt || complain "docs/topology is out of date (make docs)"
  for picture in topology/*.svg; do
    grep -q "($picture)" "$page" || complain "$picture is not in TOPOLOGY.md"
  done
}

test_file() {
  blocks yaml >n300.yaml
  run 0 topo n300.yaml --reserve dispatch
  is "the file" "$(sed 's/n300.yaml/n300/' out.txt)" "$("$tutti" topo n300)"
}

test_program() {
  { echo '#include <stdio.h>
#include <tutti/topology.h>
int main(void) {' && blocks c && echo 'return 0; }'; } >program.c
  libraries=$(sed -n 's/^Requires.private: //p' "$build/tutti.pc" | tr ',' ' ')
  # shellcheck disable=SC2046,SC2086
  cc -std=c17 -Wall -Wextra -I"$source/include" program.c "$build/libtutti.a" $(pkg-config --libs $libraries hwloc) -lm \
    -pthread $(grep -o 'TUTTI_SANITIZE:[A-Z]*=..*' "$build/CMakeCache.txt" | sed 's/.*=/-fsanitize=/') -o program ||
    complain "the program does not compile"
  is "output of the program" "$(./program | xargs)" "0.6 = 3.6 0.7 = 3.7 0.9 = 4.1 0.14 = 1.14 0.15 = 1.15"
}

run_tests
