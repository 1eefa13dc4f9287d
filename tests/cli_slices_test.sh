#!/bin/bash
# cli_slices_test.sh SOURCE BUILD: tests the output and the error messages of `tutti slices`.
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# 2 x 12 pages; each of two ranks has 2 x 6, which two workers take in turns, page by page.
test_two_workers() {
  run 0 slices --shape 2x12 --dim 1 --ranks 2 --workers 2 --max-slice 1
  is "standard error" "$err" ""
  is "lines" "$(wc -l <out.txt)" 25
  is "the first slices of each worker" "$(head -4 out.txt; sed -n 14,16p out.txt)" \
    "worker  order  slice  step fracture  offset              shape
     0      0      0     0        0  0,0                 1x1
     0      1      0     1        1  0,6                 1x1
     0      2      2     0        0  0,2                 1x1
     1      0      1     0        0  0,1                 1x1
     1      1      1     1        1  0,7                 1x1
     1      2      3     0        0  0,3                 1x1"
  run 0 slices --shape 2x12 --slice 2x6 --workers 2
  is "slices of 2x6" "$(awk 'NR > 1 { print $1, $6, $7 }' out.txt)" "0 0,0 2x6
1 0,6 2x6"
}

# The picture in the documentation: fractures of two rows and three cells.
test_drawn() {
  run 0 slices --shape 2x12 --ranks 4 --workers 2 --slice 1x1
  is "offsets of step 0" "$(awk '$4 == 0 && NR > 1 { print $1 ": " $6 }' out.txt)" "0: 0,0
0: 0,2
0: 1,1
1: 0,1
1: 1,0
1: 1,2"
}

# Slices s and steps t come in the order s=0,t=0..3, s=1,t=0..3, ...
test_order() {
  run 0 slices --shape 2x8 --ranks 4 --slice 1x1
  is "slices and steps" "$(awk 'NR > 1 { printf "s=%d,t=%d ", $3, $4 }' out.txt)" "$(
    for s in 0 1 2 3; do for t in 0 1 2 3; do printf 's=%d,t=%d ' $s $t; done; done)"
  run 0 slices --shape 2x8 --ranks 4 --slice 1x1 --rank 1 --down
  is "rank 1, downwards" "$(awk 'NR > 1 && NR < 6 { printf "%d ", $5 }' out.txt)" "0 3 2 1 "
  run 0 slices --shape 2x8 --ranks 4 --slice 1x1 --rank 1
  is "rank 1, upwards" "$(awk 'NR > 1 && NR < 6 { printf "%d ", $5 }' out.txt)" "2 3 0 1 "
}

test_limits() {
  run 0 slices --shape 1x1x48x1024 --dim -2 --ranks 3 --pages 32x32 --max-bytes 16K --json
  is "tiles that are filled in part" "$(head -1 out.txt)" \
    '{"version": 1, "verb": "slices", "worker": 0, "order": 0, "slice": 0, "step": 0, "fracture": 0, "offset": [0, 0, 0, 0], "shape": [1, 1, 16, 128]}'
  is "number of objects" "$(wc -l <out.txt)" 24
  run 0 slices --shape 8x8 --buffers 4,1,2,1
  is "min(4, 1 + 2) + 1 pages" "$(awk 'NR == 2 { print $7 }' out.txt)" 1x4
  run 0 slices --shape 8x8 --buffers 4,1,2,1 --max-slice 2
  is "the smallest limit counts" "$(awk 'NR == 2 { print $7 }' out.txt)" 1x2
  run 0 slices --shape 4x0 --ranks 2
  is "a shape without elements" "$(wc -l <out.txt)" 1
  run 0 slices --shape 3x2x2
  is "all at once" "$(awk 'NR > 1 { print $6, $7 }' out.txt)" "0,0,0 3x2x2"
}

test_bad_usage() {
  local arguments facts
  while IFS='|' read -r arguments facts; do
    # shellcheck disable=SC2086
    run 2 slices $arguments
    is "'$arguments', standard output" "$out" ""
    has_facts "'$arguments'" "$err" "$facts"
    is "'$arguments', lines" "$(wc -l <<<"$err")" 1
  done <<'TABLE'
|--shape|five sizes
--shape 2y12|--shape|'2y12'
--shape 1x2x3x4x5x6|--shape|five sizes
--shape 2x|--shape|five sizes
--shape 2x12 --dim 2|--dim|-2 to 1|'2'
--shape 2x12 --dim -3|--dim|'-3'
--shape 2x12 --dim -0|--dim|'-0'
--shape 2x12 --ranks 5|dimension 4|12 items|5 ranks
--shape 2x12 --ranks 0|0 ranks|1 workers
--shape 2x12 --workers 0|1 ranks|0 workers
--shape 2x12 --slice 2|--slice|32x32|'2'
--shape 2x12 --pages 0x4|--pages|rows and columns
--shape 2x12 --slice 2x6 --max-slice 8|2x6 pages|8
--shape 2x12 --max-bytes 64 --pages 32x32|one page|4096 bytes|found 64
--shape 2x12 --max-bytes 64 --dtype f33|--dtype|datatype
--shape 2x12 --buffers 1,2,3|SHORT_CIRCUIT,IN0,OUT,CHANNEL
--shape 2x12 --buffers 0,0,0,0|no page
--shape 2x12 --rank 1|--rank|below 1|found 1
--shape 2x12 more|options only|'more'
--shape 2x12 --slices 2|'--slice'
TABLE
}

test_help() {
  run 0 slices --help
  has help "$out" "usage: tutti slices"
  [ -s "$source/docs/man/tutti-slices.1" ] || complain "tutti-slices.1 is missing"
  run 0 --help
  has "the list of verbs" "$out" "  slices "
}

run_tests
