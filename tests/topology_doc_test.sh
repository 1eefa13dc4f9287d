#!/bin/bash
# topology_doc_test.sh SOURCE BUILD: docs/TOPOLOGY.md says what is true: commands print what stands below them, its pictures are
# what the command draws today, and its file and its program do what they should.
set -u
. "$1/tests/shell.sh"
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
tutti=$build/tutti page=$source/docs/TOPOLOGY.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
PATH=$build:$PATH

# The blocks of one language, one after the other.
blocks() { awk -v open="\`\`\`$1" '$0 == open { on = 1; next } /^```/ { on = 0 } on' "$page"; } # LANGUAGE

blocks textproto >torus.textproto # commands below it read it

test_commands() {
  local line commands=0
  blocks text >says.txt
  while IFS= read -r line; do
    [[ $line == "$ "* ]] && echo "$line" && commands=$((commands + 1)) && bash -c "${line#* }" 2>&1
  done <says.txt >prints.txt
  diff says.txt prints.txt >differences.txt || complain "it says (<), the command prints (>): $(head -8 differences.txt)"
  [ "$commands" -ge 8 ] || complain "$commands commands"
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
    complain "it does not compile"
  is "it prints" "$(./program | xargs)" "0.6 = 3.6 0.7 = 3.7 0.9 = 4.1 0.14 = 1.14 0.15 = 1.15"
}

run_tests
