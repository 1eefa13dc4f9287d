#!/bin/bash
# layout_test.sh SOURCE BUILD: tests `tutti layout`: offsets of elements, error messages, and that the pictures in
# docs/tensors are up to date.
set -u
. "$1/tests/shell.sh"
source=$1 build=$2 tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

test_text() {
  run 0 layout --shape 3x4 --tiles 2x2
  is "tiles" "$out" "# f32 3x4, interleaved over 1 bank, tiles of 2x2, 64 bytes
# offset of each element, in elements
 0  1  4  5
 2  3  6  7
 8  9 12 13"
  run 0 layout --shape 2x2x3 --strides 10,5,1
  is "two matrices" "$(tail -n +3 <<<"$out")" " 0  1  2
 5  6  7

10 11 12
15 16 17"
  run 0 layout --shape 2x6 --width 3:2 --dtype bf16
  is "width-sharded" "$(tail -n 2 <<<"$out")" " 0  1  4  5  8  9
 2  3  6  7 10 11"
}

test_json() {
  command -v python3 >/dev/null || { skip "python3 not found" && return; }
  is "offsets" "$("$tutti" layout --shape 2x4 --tiles 2x2 --banks 2 --json | python3 -c 'import json, sys
d = json.load(sys.stdin)
print(d["bytes"], d["shape"], d["offsets"])')" "32 [1, 1, 1, 2, 4] [0, 4, 16, 20, 8, 12, 24, 28]"
}

test_pictures() {
  "$source/tools/draw-layouts" "$build" "$scratch/tensors" || complain "tools/draw-layouts failed"
  diff -r "$source/docs/tensors" "$scratch/tensors" >"$scratch/differences" ||
    complain "docs/tensors is out of date (make docs): $(head -3 "$scratch/differences")"
  for picture in "$source"/docs/tensors/*.svg; do
    grep -q "(tensors/$(basename "$picture"))" "$source/docs/TENSORS.md" || complain "$(basename "$picture") is not in TENSORS.md"
  done
  is "padding" "$("$tutti" layout --shape 3x3 --tiles 2x2 --as svg | grep -c 'class="empty"')" 7
}

test_refusals() {
  while IFS='|' read -r arguments code facts; do
    # shellcheck disable=SC2086
    run "$code" layout $arguments
    has_facts "layout $arguments" "$err" "tutti layout: |$facts"
    is "layout $arguments: lines" "$(wc -l <err.txt)" 1
  done <<'EOF'
--shape 4y4|2|--shape: |1 to 5 sizes|'4y4'
--dtype f32|2|--shape: |1 to 5 sizes|'nothing'
--shape 4x4 --dtype f33|2|--dtype: |'f33'
--shape 4x32 --dtype bfp8 --tiles 32x32|2|--dtype: |block float|'bfp8'
--shape 4x4 --tiles 2|2|--tiles: |32x32|'2'
--shape 4x4 --faces 2x2|2|--faces: |16x16|--tiles|'2x2'
--shape 4x4 --banks 2 --width 2:2|2|--strides|--banks|--width|--height|--block
--shape 4x4 --strides 1|2|--strides: |128,1|'1'
--shape 4x4 --block 2x2|2|--block: |GRID:SHARD|'2x2'
--shape 4x4 --blocks 2 --dim 2|2|--dim: |found '2'
--shape 4x4 --blocks 2 --block-number 2|2|--block-number: |--blocks|found 2
--shape 4x4 --as gif|2|--as: |text or svg (or --json)|'gif'
--shape 4x4 now|2|options only|'now'
--shape 4x4 --width 2:1|1|tensor of f32, 1x1x1x4x4: |1x2 shards of 4x1|4x4
--shape 100x100|1|100x100 elements|10000 elements|4096|16384
EOF
}

run_tests
