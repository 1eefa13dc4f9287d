#!/bin/bash
# points_test.sh SOURCE BUILD: the operations of tests/world/points.h are those of <stdatomic.h>: files of the library are
# compiled with points.h, without its switch points, and without it; the code must be the same. All files with atomics if
# TEST_LONG is set, otherwise some.
# test: slow timeout=600
set -u
source=$(cd "$1" && pwd)
. "$source/tests/shell.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

compile() { # FILE OUTPUT OPTIONS...
  "${CC:-gcc}" -std=c17 -O2 -D_GNU_SOURCE -fPIC -w -I"$source/src" -I"$source/include" "${@:3}" -c "$1" -o "$2" 2>"$scratch/errors" &&
    objcopy -O binary --only-section=.text "$2" "$2.text"
}

test_same_code() {
  local file files="transport/bell mover/board mover/control call/queue stream/link comm/enter" compared=0
  [ -z "${TEST_LONG:-}" ] || files=$(cd "$source/src" && grep -l atomic_ */*.c | grep -v _test | sed 's/\.c$//')
  "${CC:-gcc}" --version | grep -qi 'free software' || { skip "points.h needs gcc"; return; }
  for file in $files; do
    compile "$source/src/$file.c" "$scratch/c11.o" &&
      compile "$source/src/$file.c" "$scratch/points.o" -DWORLD_PLAIN -include "$source/tests/world/points.h" ||
      { complain "$file: $(head -2 "$scratch/errors")"; continue; }
    cmp -s "$scratch/c11.o.text" "$scratch/points.o.text" || complain "$file: other code with points.h"
    compared=$((compared + 1))
  done
  echo "  $compared files have the same code"
}

run_tests
