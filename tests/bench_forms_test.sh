#!/bin/bash
# bench_forms_test.sh SOURCE BUILD: tests tools/bench-forms: one row per form and per number of open calls, and its error message. Times are not checked.
set -u
. "$1/tests/shell.sh"
source=$1 build=$2
needs_plain_build "$build"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

test_rows() {
  run_tool 0 "$source/tools/bench-forms" "$build" 2 3
  is rows "$(awk 'NR > 1 && /^tutti/ { print $1, (NF >= 2) }' <<<"$out")" "tutti_allreduce 1
tutti_run_call, 1
tutti_start 1
tutti_allgather 1
tutti_run_call, 1
tutti_allgatherv 1"
  is "open calls" "$(awk '/^[0-9]/ { print $1, $2, ($3 > 0 && $4 > 0 && $5 > 0) }' <<<"$out")" "8 100 1
8 1000 1
65536 100 1
65536 1000 1"
}

test_mistakes() {
  run_tool 2 "$source/tools/bench-forms" no-such-build
  has "no build" "$err" "no-such-build/tutti"
}

run_tests
