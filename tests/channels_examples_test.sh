#!/bin/bash
# channels_examples_test.sh SOURCE BUILD: the examples over channels, as jobs of real processes: a ping round rings of some sizes, and
# a pipeline of three stages.
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti examples=$2/examples
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

job() { run "$1" run -n "$2" -- "$examples/$3" "${@:4}"; } # STATUS RANKS PROGRAM ARGUMENTS...

test_ring_ping() {
  local ranks
  for ranks in 2 3 4; do
    job 0 $ranks ring_ping 3 8 100 5000
    is "$ranks ranks: standard error" "$err" ""
    has "$ranks ranks" "$out" "# $ranks ranks, 3 channels, time of a hop"
    is "$ranks ranks: sizes" "$(awk '!/^#/ { printf "%s ", $1 }' out.txt)" "8 100 5000 "
    is "$ranks ranks: least, then median, and none is nothing" \
      "$(awk '!/^#/ && !($3 > 0 && $2 >= $3)' out.txt)" ""
  done
}

test_ring_ping_refuses() {
  run_tool 2 "$examples/ring_ping" 31
  has "channels" "$err" "expected from 1 to 30 channels, found '31'"
  run_tool 2 "$examples/ring_ping" 1 7
  has "bytes" "$err" "expected messages of 8 to 1048576 bytes, found '7'"
  run_tool 2 "$examples/ring_ping"
  has "one rank" "$err" "at least 2 ranks"
}

# The checksum is computed anew here, in another language where there is one: a file of one word.
test_pipeline() {
  job 0 3 pipeline
  is "64 MiB" "$(awk '{ print $1, $2, $5, $6 }' out.txt)" "67108864 bytes, as expected,"
  : >empty
  job 0 3 pipeline empty
  has "an empty file" "$out" "0 bytes, checksum 0000000000000000, as expected"
  printf 'nop' >word # turned: abc; ((0x61 * p ^ 0x62) * p ^ 0x63) * p, p = 0x100000001b3
  job 0 3 pipeline word
  has "three letters" "$out" "3 bytes, checksum $(printf '%016x' $((((0x61 * 0x100000001b3 ^ 0x62) * 0x100000001b3 ^ 0x63) * 0x100000001b3))), as expected"
  head -c 16384 /dev/zero >full
  job 0 3 pipeline full
  has "exactly one slot" "$out" "16384 bytes"
  has "exactly one slot" "$out" "as expected"
  job 0 3 pipeline "$source/docs/ALGORITHMS.md"
  has "a text" "$out" "$(stat -c %s "$source/docs/ALGORITHMS.md") bytes"
}

test_pipeline_refuses() {
  job 1 3 pipeline no-such-file
  has "no file" "$err" "no-such-file"
  has "everybody knows" "$err" "rank 0 aborted: the file cannot be read"
  job 2 2 pipeline
  has "two ranks" "$err" "it has three stages"
}

run_tests
