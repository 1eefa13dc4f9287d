#!/bin/bash
# bench_tiles_test.sh SOURCE BUILD: tools/bench-tiles prints a row with right results for each call, and refuses wrong
# command lines. No time is judged.
# test: slow timeout=300
set -u
. "$1/tests/shell.sh"
tool=$1/tools/bench-tiles build=$2
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1

test_rows() {
  local call row
  [ "$(id -u)" = 0 ] || { skip "needs root"; return; }
  "$tool" "$build" --rounds 1 --sizes "65536 262144" --tiles 16384 >out.txt 2>err.txt </dev/null
  case $(cat err.txt) in
    *"hosts cannot be made here"* | *"cannot find -l"* | *sanitize* | *__asan* | *__tsan*) skip "$(head -n 1 err.txt)"; return ;;
  esac
  for call in gather reduce; do
    row=$(grep "^$call *262144 *16384 " out.txt)
    is "columns of $call" "$(wc -w <<<"$row")" 14
    # the numbers of wrong elements, with a strided and with a contiguous result
    is "wrong elements of $call" "$(awk '{ print $(NF - 4), $NF }' <<<"$row")" "0 0"
  done
  is "rows" "$(grep -c '^[gr]' out.txt)" 2 # 65536 bytes have less than 16 tiles
}

test_refusals() {
  refused "usage: tools/bench-tiles BUILD"
  refused "nowhere/tutti not found" nowhere
  refused "--calls: expected gather or reduce, found 'scatter'" "$build" --calls "gather scatter"
  refused "--sizes: expected numbers above 0, found '4M'" "$build" --sizes 4M
  refused "unknown option '--size'" "$build" --size 4
}

run_tests
