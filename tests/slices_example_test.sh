#!/bin/bash
# slices_example_test.sh SOURCE BUILD: tests the example that sums round a ring, slice by slice: right results on rings
# of several sizes, with as many slices as `tutti slices` shows.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti example=$2/examples/slices
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

test_sums() {
  local ranks rows cols elements slices
  while read -r ranks rows cols elements; do
    slices=$("$tutti" slices --shape "${rows}x$cols" --ranks "$ranks" --max-slice "$elements" --down --rank 0 --json | grep -c '"step": 0,')
    run_tool 0 "$tutti" run -n "$ranks" -- "$example" "$rows" "$cols" "$elements"
    has_facts "$ranks ranks, $rows x $cols by $elements" "/$out$err/" "/$slices slices|$elements elements|0 wrong/"
  done <<'TABLE'
1 5 7 3
2 64 96 100
3 10 27 4
4 33 40 4096
4 1 4 1
TABLE
}

test_mistakes() {
  run_tool 2 "$example" 0
  has_facts "an invalid number" "$err" "ROWS COLUMNS ELEMENTS|1 to 4096|'0'"
  run_tool 2 "$example" 1 1 1 1
  has "too many" "$err" "'1'"
  run_tool 1 "$tutti" run -n 2 -- "$example" 4 5 2
  has_facts "a dimension that cannot be divided" "$err" "dimension 4|5 items|2 ranks"
}

run_tests
