#!/bin/bash
# info_reshard_test.sh SOURCE BUILD: what `tutti info --reshard` prints: steps with their bytes, as text and as data; and what it
# refuses.
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

ask() { run "$1" info --reshard "$2" "$3" --mesh "$4" --shape "${5-512x512}" "${@:6}"; } # STATUS FROM TO MESH SHAPE ...

test_text() {
  ask 0 "S0 S1" "S1 S0" 2x4
  is "standard error" "$err" ""
  is "three steps" "$out" \
    "  step            axes   dim          moved   then part  S0 S1
  alltoall        0      0 to 1      64 KiB     128 KiB  S1.1 S1.0
  exchange        0,1               128 KiB     128 KiB  S1 S1
  alltoall        1      1 to 0      96 KiB     128 KiB  S1 S0
a rank moves 288 KiB; its largest part has 128 KiB"
  ask 0 P:sum S-1 4 1x1x64x128 --type bf16
  is "a dimension from the end, a type" "$out" \
    "  step            axes   dim          moved   then part  P:sum
  reduce_scatter  0      3           12 KiB       4 KiB  S3
a rank moves 12 KiB; its largest part has 16 KiB"
  ask 0 R,P:min "S0 , R" 2x2
  is "commas; a local step" "$(awk 'NR > 1 { print $1, $2 }' out.txt)" "slice 0
allreduce 1
a rank"
  ask 0 "S1 R" "S1 R" 2x2
  is "equal" "$out" "S1 R to S1 R: the same part on every rank; nothing moves"
  ask 0 "S0 R S1" "R P:sum R" 2x1x2 4x0x4
  has "nothing in it, and an axis of one rank" "$out" "R R R
a rank moves 0 B; its largest part has 0 B"
}

# What docs/TENSORS.md shows is what comes.
test_document() {
  local command
  command=$(grep '^tutti info --reshard' "$source/docs/TENSORS.md")
  sed -n '/^tutti info --reshard/,$p' "$source/docs/TENSORS.md" | awk '/^```/ { n++; next } n == 2' >shown.txt
  eval "run 0 ${command#tutti}"
  is "output" "$out" "$(cat shown.txt)"
}

test_json() {
  ask 0 "P:sum S0" "S1 S0" 2x2 8x8 --json
  is "one line" "$out" '{"from": "P:sum S0", "to": "S1 S0", "steps": [{"step": "reduce_scatter", "axes": [0], "dim": 1, "moved": 64, "part": 64, "after": "S1 S0"}], "moved": 64, "largest": 128}'
  ask 0 S0 S1 2 8x8 --json
  has "alltoall" "$out" '"dim": 1, "out_dim": 0, '
  command -v python3 >/dev/null || { skip "there is no python3" && return; }
  ask 0 "S0 S1 R" "S1 R S0" 2x2x2 8x8 --json
  is "JSON" "$(python3 -c 'import json, sys
d = json.load(sys.stdin)
print(d["moved"] == sum(s["moved"] for s in d["steps"]), d["steps"][-1]["after"])' <out.txt)" "True S1 R S0"
}

test_refused() {
  run 2 info --reshard R S0 --mesh 2
  has "no shape" "$err" "needs --mesh and --shape"
  run 2 info --reshard R --mesh 2 --shape 4
  has "no target" "$err" "--reshard FROM TO needs"
  run 2 info --mesh 2 --shape 4
  has "no distributions" "$err" "--mesh and --shape go with --reshard FROM TO"
  run 2 info --reshard R S0 R --mesh 2 --shape 4
  ask 2 "R R" "R" 2x2
  has "too few axes" "$err" "for each of the 2 axes of the mesh, found 'R'"
  ask 2 "R R R" "R R" 2x2
  has "too many axes" "$err" "for each of the 2 axes of the mesh, found 'R R R'"
  local word
  for word in Q S Sx S1x S- P P: P:add P:sumsumsumsumsum r S999 ""; do
    ask 2 "$word" R 2
    has "'$word'" "$err" "expected R, S and a dimension (S2, S-1), or P:sum"
  done
  ask 2 S2 R 2
  has "no such dimension" "$err" "'S2': mesh axis 0 is to cut dimension 2 of a tensor of 2 dimensions; from -2 to 1"
  ask 2 R S0 3
  has "what does not divide" "$err" "dimension 0 has 512 elements, which cannot be cut into 3 equal pieces"
  ask 2 P:prod R 2
  has "an operation" "$err" "sum, min and max are possible"
  ask 2 "P:sum P:max" "R R" 2x2
  has "two operations" "$err" "a tensor has one operation"
  for word in "" 0 2x 2x2x2x2 -2 2xx2 x 4294967296 1048577 2048x2048; do
    ask 2 R R "$word"
    has "a mesh of '$word'" "$err" "--mesh: expected"
  done
  for word in "" 4x 1x1x1x1x1x1 a 99999999999999999999 4294967295x4294967295x4294967295; do
    ask 2 R R 2 "$word"
    has "a shape of '$word'" "$err" "--shape: expected"
  done
  ask 2 R R 2 4 --type f31
  has "a type" "$err" "--type: expected a data type of those that tutti info lists, found 'f31'"
}

run_tests
