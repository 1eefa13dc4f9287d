#!/bin/bash
# bench_many_test.sh SOURCE BUILD: tests tools/bench-many: rows and keys, memory within its bound and released, error
# messages. Times are not checked.
set -u
. "$1/tests/shell.sh"
source=$1 build=$2
command -v python3 >/dev/null || { echo "python3 not found" && exit 77; }
# A sanitizer needs additional memory, and other limits.
needs_plain_build "$build"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# many STATUS ARGUMENTS...: runs tools/bench-many; sets `out` and `err`.
many() { run_tool "$1" "$source/tools/bench-many" "${@:2}"; }

# Up to 16 MiB of each rank rest with their pages when they are freed (TU_REST_BYTES_MAX); how many pages, depends on time.
test_rows() {
  many 0 "$build" --ranks 3 --holders 2 --rounds 1 --json
  is rows "$(python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
times = [row for row in rows if row["what"] == "time"]
stages = [row for row in rows if row["what"] != "time"]
print(len(times), times[0]["init_ms"]["max"] > 0, times[0]["first_allreduce_ms"]["median"] > 0)
print(*(row["stage"] for row in stages))
print(*(row["stage"] for row in stages if row["shared"]["max"] > row["bound"]["max"]))
shared = {row["stage"]: row["all_shared"] for row in stages}
freed = max(shared["freed"], shared["freed_again"])
print(freed <= shared["before"] + 3 * (16 << 20), 2 * freed < min(shared["held"], shared["held_again"]))' <<<"$out")" \
    "1 True True
init allreduce_8 allreduce_1M alltoall_64K before held freed held_again freed_again

True True"
}

test_table() {
  many 0 "$build" --ranks 2 --holders 2 --rounds 1
  is rows "$(grep -c '^ *2 ' <<<"$out")" 10
  has "a row" "$out" "alltoall, 64 KiB a pair"
}

test_mistakes() {
  many 2 no-such-build
  has_facts "no build" "$err" "no-such-build/tutti|not found"
  many 2 "$build" --ranks 0
  has_facts "no ranks" "$err" "--ranks|above 0|'0'"
  many 2 "$build" --rounds "1 2"
  has_facts "two numbers" "$err" "--rounds|one number|'1 2'"
  many 2 "$build" --speed
  has "no such option" "$err" "--speed"
  many 2
  has "no arguments" "$err" "usage: tools/bench-many BUILD"
}

run_tests
