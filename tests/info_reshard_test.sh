#!/bin/bash
# info_reshard_test.sh SOURCE BUILD: tests `tutti info --reshard`: steps with their bytes, in text and in JSON, and
# error messages.
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# ask STATUS FROM TO MESH [SHAPE] [OPTIONS...]: runs `tutti info --reshard`.
ask() { run "$1" info --reshard "$2" "$3" --mesh "$4" --shape "${5-512x512}" "${@:6}"; }

test_text() {
  ask 0 "S0 S1" "S1 S0" 2x4
  is "standard error" "$err" ""
  has_facts "three steps" "$(tail -1 out.txt)" "288 KiB|128 KiB"
  is "three steps" "$(sed '$d' out.txt)" \
    "  step            axes   dim          moved   then part  S0 S1
  alltoall        0      0 to 1      64 KiB     128 KiB  S1.1 S1.0
  exchange        0,1               128 KiB     128 KiB  S1 S1
  alltoall        1      1 to 0      96 KiB     128 KiB  S1 S0"
  ask 0 P:sum S-1 4 1x1x64x128 --type bf16
  has_facts "a dimension from the end, a type" "$(tail -1 out.txt)" "12 KiB|16 KiB"
  is "a dimension from the end, a type" "$(sed '$d' out.txt)" \
    "  step            axes   dim          moved   then part  P:sum
  reduce_scatter  0      3           12 KiB       4 KiB  S3"
  ask 0 R,P:min "S0 , R" 2x2
  is "commas; a local step" "$(sed '1d; $d' out.txt | awk '{ print $1, $2 }')" "slice 0
allreduce 1"
  ask 0 "S1 R" "S1 R" 2x2
  has "equal distributions" "$out" "S1 R to S1 R: "
  ask 0 "S0 R S1" "R P:sum R" 2x1x2 4x0x4
  has_facts "a tensor without elements, and an axis of one rank" "$(tail -2 out.txt | tr '\n' ';')" "R R R;|moves 0 B;|has 0 B;"
}

# docs/TENSORS.md shows the command's output.
test_document() {
  local command
  command=$(grep '^tutti info --reshard' "$source/docs/TENSORS.md")
  sed -n '/^tutti info --reshard/,$p' "$source/docs/TENSORS.md" | awk '/^```/ { n++; next } n == 2' >shown.txt
  eval "run 0 ${command#tutti}"
  is "output" "$out" "$(cat shown.txt)"
}

test_json() {
  ask 0 "P:sum S0" "S1 S0" 2x2 8x8 --json
  is "one line" "$out" '{"version": 1, "verb": "info", "from": "P:sum S0", "to": "S1 S0", "steps": [{"step": "reduce_scatter", "axes": [0], "dim": 1, "moved": 64, "part": 64, "after": "S1 S0"}], "moved": 64, "largest": 128}'
  ask 0 S0 S1 2 8x8 --json
  has "alltoall" "$out" '"dim": 1, "out_dim": 0, '
  command -v python3 >/dev/null || { skip "python3 not found" && return; }
  ask 0 "S0 S1 R" "S1 R S0" 2x2x2 8x8 --json
  is "JSON" "$(python3 -c 'import json, sys
d = json.load(sys.stdin)
print(d["moved"] == sum(s["moved"] for s in d["steps"]), d["steps"][-1]["after"])' <out.txt)" "True S1 R S0"
}

test_refused() {
  run 2 info --reshard R S0 --mesh 2
  has_facts "no shape" "$err" "--mesh|--shape"
  run 2 info --reshard R --mesh 2 --shape 4
  has "no target" "$err" "--reshard FROM TO"
  run 2 info --mesh 2 --shape 4
  has_facts "no distributions" "$err" "--mesh|--shape|--reshard FROM TO"
  run 2 info --reshard R S0 R --mesh 2 --shape 4
  ask 2 "R R" "R" 2x2
  has_facts "too few axes" "$err" "2 axes|found 'R'"
  ask 2 "R R R" "R R" 2x2
  has_facts "too many axes" "$err" "2 axes|found 'R R R'"
  local word
  for word in Q S Sx S1x S- P P: P:add P:sumsumsumsumsum r S999 ""; do
    ask 2 "$word" R 2
    has_facts "'$word'" "$err" "R (replicated)|S2 or S-1|P:sum"
  done
  ask 2 S2 R 2
  has_facts "no such dimension" "$err" "'S2'|mesh axis 0|2 dimensions|-2 to 1"
  ask 2 R S0 3
  has_facts "a dimension that cannot be divided" "$err" "dimension 0|512 elements|3 equal"
  ask 2 P:prod R 2
  has "an operation" "$err" "sum, min or max"
  ask 2 "P:sum P:max" "R R" 2x2
  has_facts "two operations" "$err" "one operation|partial"
  for word in "" 0 2x 2x2x2x2 -2 2xx2 x 4294967296 1048577 2048x2048; do
    ask 2 R R "$word"
    has "a mesh of '$word'" "$err" "--mesh: "
  done
  for word in "" 4x 1x1x1x1x1x1 a 99999999999999999999 4294967295x4294967295x4294967295; do
    ask 2 R R 2 "$word"
    has "a shape of '$word'" "$err" "--shape: "
  done
  ask 2 R R 2 4 --type f31
  has_facts "a type" "$err" "--type: |'f31'"
}

run_tests
