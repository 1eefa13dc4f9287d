#!/bin/bash
# channels_examples_test.sh SOURCE BUILD: tests the examples of channels, as jobs of real processes: a ping round rings
# of several sizes, and a pipeline of three stages.
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
    has_facts "$ranks ranks" "$(head -1 out.txt)" "# $ranks ranks|3 channels"
    is "$ranks ranks: sizes" "$(awk '!/^#/ { printf "%s ", $1 }' out.txt)" "8 100 5000 "
    is "$ranks ranks: rows where the median is below the minimum, or the minimum is 0" \
      "$(awk '!/^#/ && !($3 > 0 && $2 >= $3)' out.txt)" ""
  done
}

test_ring_ping_refuses() {
  run_tool 2 "$examples/ring_ping" 31
  has_facts "channels" "$err" "1 to 30 channels|'31'"
  run_tool 2 "$examples/ring_ping" 1 7
  has_facts "bytes" "$err" "8 to 1048576 bytes|'7'"
  run_tool 2 "$examples/ring_ping"
  has "one rank" "$err" "2 ranks"
}

# Checks the checksum of a file of three letters against one that the shell computes.
test_pipeline() {
  job 0 3 pipeline
  has_facts "64 MiB" "$out" "67108864 bytes|as expected"
  : >empty
  job 0 3 pipeline empty
  has_facts "an empty file" "$out" "0 bytes|0000000000000000|as expected"
  # rot13 of nop is abc; its checksum is ((0x61 * p ^ 0x62) * p ^ 0x63) * p with p = 0x100000001b3.
  printf 'nop' >word
  job 0 3 pipeline word
  has_facts "three letters" "$out" "3 bytes|$(printf '%016x' $((((0x61 * 0x100000001b3 ^ 0x62) * 0x100000001b3 ^ 0x63) * 0x100000001b3)))|as expected"
  head -c 16384 /dev/zero >full
  job 0 3 pipeline full
  has_facts "exactly one slot" "$out" "16384 bytes|as expected"
  job 0 3 pipeline "$source/docs/ALGORITHMS.md"
  has "a text" "$out" "$(stat -c %s "$source/docs/ALGORITHMS.md") bytes"
}

test_pipeline_refuses() {
  job 1 3 pipeline no-such-file
  has "no file" "$err" "no-such-file"
  has_facts "the other ranks" "$err" "rank 0 aborted|read the file"
  job 2 2 pipeline
  has "two ranks" "$err" "3 ranks"
}

run_tests
