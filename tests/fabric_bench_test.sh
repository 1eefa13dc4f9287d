#!/bin/bash
# test: slow timeout=120
# fabric_bench_test.sh SOURCE BUILD: the bare loops over libfabric (bench/fabric_bench.c) end, on loopback, in each way to
# wait, and compare what arrives; wrong command lines are refused. Skipped if the program was not built.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti program=$(realpath "$2")/fabric_bench
[ -x "$program" ] || { echo "skipped: $program was not built; tools/setup fabrics installs libfabric-dev"; exit 77; }
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
export FABRIC_ADDRESS=127.0.0.1:$((29600 + $$ % 2000))

# refused STATUS TEXT ARGUMENTS...: two ranks end with a status and a message.
refused() {
  run "$1" run -n 2 -- "$program" "${@:3}"
  has "message of ${*:3}" "$err" "$2"
}

# The sizes are no multiples of a page.
test_each_way() {
  local way
  for way in "" "--sleep" "--inject --sleep --outstanding 1"; do
    # shellcheck disable=SC2086
    run 0 run -n 2 -- "$program" --bytes 8,5000,300008 --time-ms 5 $way
    is "rows with '$way'" "$(grep -cE '^(ping|write|both|read) +(8|5000|300008)( +[0-9.-]+){5}$' <<<"$out")" 12
  done
}

test_chosen_tests() {
  run 0 run -n 2 -- "$program" read ping --time-ms 1
  is "tests" "$(awk '$2 ~ /^[0-9]+$/ { print $1 }' <<<"$out" | uniq | tr '\n' ' ')" "ping read "
}

test_refusals() {
  refused 1 "no provider nowhere at 127.0.0.1" --provider nowhere
  refused 2 "unknown test 'pong'" pong
  refused 2 "--bytes: expected multiples of 8, found 12" --bytes 8,12
  refused 2 "--outstanding: expected 1 to 64, found 65" --outstanding 65
  FABRIC_ADDRESS=somewhere refused 2 "set FABRIC_ADDRESS to the IPv4 address and port of rank 0"
}

run_tests
