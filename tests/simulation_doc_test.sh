#!/bin/bash
# simulation_doc_test.sh SOURCE BUILD: tests docs/SIMULATION.md: its commands print what it shows, and its table of
# measurements is what the simulator computes.
set -u
. "$1/tests/shell.sh"
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
tutti=$build/tutti page=$source/docs/SIMULATION.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$source" || exit 1
PATH=$build:$PATH

test_commands() {
  local line commands=0
  awk '$0 == "```text" { on = 1; next } /^```/ { on = 0 } on' "$page" >"$scratch/says"
  while IFS= read -r line; do
    [[ $line == "$ "* ]] && echo "$line" && commands=$((commands + 1)) && bash -c "${line#* }" 2>&1
  done <"$scratch/says" >"$scratch/prints"
  diff "$scratch/says" "$scratch/prints" >"$scratch/differences" ||
    complain "the page shows (<), the command prints (>): $(head -8 "$scratch/differences")"
  [ "$commands" -ge 5 ] || complain "expected at least 5 commands, found $commands"
}

test_rows() {
  "$tutti" sim --rows src/sim/wormhole_rows.csv >"$scratch/prints" 2>"$scratch/verdict" ||
    complain "rows are outside their tolerance"
  grep -F '| benchmark |' -A 200 "$page" | grep '^|' | awk '/^\| \| where/ { exit } 1' | head -n "$(wc -l <"$scratch/prints")" \
    >"$scratch/says"
  diff "$scratch/says" "$scratch/prints" >"$scratch/differences" ||
    complain "the page shows (<), the command prints (>): $(head -8 "$scratch/differences")"
  is "verdict" "$(grep -c ' 0 outside their tolerance' "$scratch/verdict")" 2
}

# A slightly wrong model is detected.
test_rows_can_fail() {
  local value
  for value in latency change; do
    awk -v name="$value" '$1 == name { $2 *= 1.3 } 1' src/sim/wormhole.links >"$scratch/off.links"
    run_off "$value"
  done
}
run_off() {
  "$tutti" sim --rows src/sim/wormhole_rows.csv --links "$scratch/off.links" >/dev/null 2>"$scratch/verdict"
  is "status with 1.3 times $1" $? 1
}

run_tests
