#!/bin/bash
# allgather_matmul_test.sh SOURCE BUILD: tests the example that overlaps matrix products with transfers: its results
# with 1 to 4 processes, and its error messages. Times are not checked.
set -u
. "$1/tests/shell.sh"
build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
example=$build/examples/allgather_matmul
[ -x "$example" ] || { echo "skipped: BLAS not found (Debian: libopenblas-dev)" && exit 77; }
cd "$scratch" || exit 1

# matmul STATUS PROCESSES ARGUMENTS...: runs the example; sets `out` and `err`.
matmul() { run_tool "$1" "$build/tutti" run -n "$2" -- "$example" --inner 40 --columns 24 --rounds 1 "${@:3}"; }
rows() { grep -cE '[0-9]+\.[0-9]+$' <<<"$out"; }

test_results() {
  local processes
  for processes in 1 2 3 4; do
    matmul 0 $processes --rows 132 --block 16
    has "$processes processes" "$out" "all results equal"
    is "$processes processes: rows" "$(rows)" $((processes == 1 ? 2 : 4))
  done
  matmul 0 2 --rows 4000 --block 3 # several slices
  has "many rows" "$out" "all results equal"
  sed 's/^/  /' <<<"$out"
  matmul 0 2 --rows 2 --block 64 # one block each
  has "few rows" "$out" "all results equal"
}

test_mistakes() {
  matmul 1 2 --rows 3
  has_facts "rows" "$err" "--rows|multiple"
  matmul 1 1 --columns 0
  has_facts "columns" "$err" "--columns|from 1 to 1048576"
  matmul 1 1 --width 3
  has_facts "unknown option" "$err" "--width|unknown"
  matmul 1 1 --block
  has_facts "missing value" "$err" "--block|from 1 to 1048576"
}

run_tests
