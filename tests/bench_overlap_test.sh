#!/bin/bash
# bench_overlap_test.sh SOURCE BUILD: tests tools/bench-overlap: its rows and its error messages. Times are not checked.
set -u
. "$1/tests/shell.sh"
source=$1 build=$2
# A sanitizer needs additional libraries.
needs_plain_build "$build"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# overlap STATUS ARGUMENTS...: runs tools/bench-overlap; sets `out` and `err`.
overlap() { run_tool "$1" "$source/tools/bench-overlap" "${@:2}"; }

test_rows() {
  overlap 0 "$build" --bytes "4096 65536" --rounds 2
  is rows "$(awk 'NR > 1 && NF == 8 && $5 > 0 && $6 > 0 && $7 > 0 { print $1, $2, $3, $4 }' <<<"$out")" \
    "$(for hosts in 1 2; do for bytes in 4096 65536; do for work in compute idle; do
      for way in none tests thread; do echo "$hosts $bytes $work $way"; done
    done; done; done)"
}

test_mistakes() {
  overlap 2 no-such-build
  has_facts "no build" "$err" "no-such-build/tutti|not found"
  overlap 2 "$build" --bytes 1K
  has_facts "no number" "$err" "--bytes|'1K'"
  overlap 2 "$build" --rounds "1 2"
  has_facts "two numbers" "$err" "--rounds|one number|'1 2'"
  overlap 2 "$build" --speed
  has "no such option" "$err" "--speed"
  overlap 2
  has "no arguments" "$err" "usage: tools/bench-overlap BUILD"
}

run_tests
