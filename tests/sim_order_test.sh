#!/bin/bash
# sim_order_test.sh SOURCE BUILD: tools/sim-order prints a row for each network, collective and size, in which no plan in
# canonical order is faster than the fastest plan, and refuses wrong command lines.
set -u
. "$1/tests/shell.sh"
tool=$1/tools/sim-order build=$2
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1

test_rows() {
  "$tool" "$build" --ranks "4 16" --sizes "64 65536" >out.txt 2>err.txt </dev/null
  is "status" $? 0
  is "errors" "$(cat err.txt)" ""
  is "rows" "$(wc -l <out.txt)" 48
  is "columns" "$(awk -F'\t' '{ print NF }' out.txt | sort -u)" 11
  is "faster in canonical order" "$(awk -F'\t' '$9 + 0 > 1 || $9 + 0 <= 0' out.txt)" ""
  # 4 ranks on full bisection, 64 bytes: two rounds of exchanges, in any order
  is "the fastest" "$(awk -F'\t' '$1 == "full" && $2 == "allreduce" && $3 == 4 && $4 == 64 { print $7, $9 }' out.txt)" \
    "allreduce.recursive_doubling 1.00"
}

test_refusals() {
  refused "usage: tools/sim-order BUILD"
  refused "nowhere/tutti not found" nowhere
  refused "--ranks: expected powers of 4, found 12" "$build" --ranks "4 12"
  refused "--sizes: expected numbers above 0, found '4M'" "$build" --sizes 4M
  refused "unknown option '--size'" "$build" --size 4
}

run_tests
