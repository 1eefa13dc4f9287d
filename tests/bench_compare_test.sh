#!/bin/bash
# bench_compare_test.sh SOURCE BUILD: tests tools/bench-compare: its arithmetic, with a command that prints given times;
# that it works with the real command; and its error messages. Real times are not checked.
set -u
. "$1/tests/shell.sh"
source=$1 build=$2
command -v python3 >/dev/null || { echo "python3 not found" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# compare STATUS ARGUMENTS...: runs $tool; sets `out` and `err`.
tool=$source/tools/bench-compare
compare() { run_tool "$1" "$tool" "${@:2}"; }
value() { sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" <<<"$out" | tr '\n' ' '; } # KEY: prints its value in each line

# make_folder NAME TIMES [HELP]: makes a build folder whose command prints TIMES one after the other, again and again. Its
# help is HELP.
make_folder() {
  mkdir -p "$1"
  echo 'CMAKE_C_FLAGS:STRING=' >"$1/CMakeCache.txt"
  cat >"$1/tutti" <<END
#!/bin/bash
[ "\$2" = --help ] && exec echo "${3-}"
times=($2)
echo "$1" "\$*" >>$scratch/calls
runs=\$(wc -l <$scratch/$1/runs 2>/dev/null || echo 0)
echo >>$scratch/$1/runs
echo "{\"time_us\": \${times[\$((runs % \${#times[@]}))]}, \"wrong\": 0}"
END
  chmod +x "$1/tutti"
}

test_arithmetic() {
  make_folder old "2 2 4 4 8"
  make_folder new "1 2 1 4 1"
  compare 0 old new --any-regime --rounds 5 --json
  is "lines for four sizes" "$(wc -l <<<"$out")" 4
  out=$(head -1 <<<"$out") # ratios 2 1 4 1 8
  is medians "$(value base_us)$(value head_us)" "4.0 1.0 "
  is ratio "$(value ratio)$(value ratio_q1)$(value ratio_q3)" "2.0 1.0 4.0 "
  is "pairs and verdict" "$(value pairs)$(value dropped)$(value regime)$(value verdict)" "5 0 any too few pairs "
}

# One build on both sides; only HEAD gets the arguments of --head.
test_two_settings() {
  make_folder one 10
  rm calls
  compare 0 one one --head "--order canonical --heap" --any-regime --sizes 8 --rounds 2 --json -- --op avg
  is "calls" "$(grep -c -- '--op avg$' calls) $(grep -c -- '--op avg --order canonical --heap$' calls)" "2 2"
}

test_verdicts() {
  local new expected
  while read -r new expected; do
    make_folder base 10
    make_folder "head$new" "$new"
    compare 0 base "head$new" --any-regime --sizes 8 --rounds 8 --json
    is "10 against $new" "$(value verdict)" "$expected "
  done <<'TABLE'
9 faster
11 slower
10 no difference
TABLE
  compare 0 base head9 --any-regime --sizes 8 --rounds 7 --json
  is "seven pairs" "$(value verdict)" "too few pairs "
}

# A build that also measures in place is told not to.
test_forms() {
  make_folder plain 1
  make_folder forms 1 "  --out-of-place"
  rm -f calls
  compare 0 plain forms --head "--heap --poll" --any-regime --sizes 8 --rounds 1
  is "arguments of the two" "$(sed 's/.*--json *//' calls | tr '\n' ';')" ";--out-of-place --heap --poll;"
}

# The two builds take turns in running first, and each cell runs with the given options.
test_runs() {
  make_folder a 1
  make_folder b 1
  rm -f calls
  compare 0 a b --any-regime --collectives "reduce barrier" --sizes "8 1K" --ranks "2 3" --modes "loop barrier" --rounds 2 \
    --time-ms 7 -- --dtype f64
  is cells "$(grep -cv '^#\|^collective' <<<"$out")" 12
  is order "$(head -4 calls | cut -d' ' -f1 | tr '\n' ' ')" "a b b a "
  has command "$(head -1 calls | sed 's/--bind [a-z]* //')" \
    "a bench reduce -n 2 --bytes 8 --mode loop --time-ms 7 --json --dtype f64"
  rm -f calls
  compare 0 a b --any-regime --sizes 8 --rounds 1 --algorithm ring
  has "forced algorithm" "$(head -1 calls)" "a bench allreduce.ring -n 2"
}

# Compares revisions of a project whose command prints 3 us in the first and 2 us in the second.
test_revisions() {
  local git="git -C project -c user.name=t -c user.email=t@example.org"
  mkdir -p project/tools && cp "$source"/tools/bench-compare "$source"/tools/bench_regime.py project/tools
  cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(fake LANGUAGES NONE)
add_custom_target(tutti_cli COMMAND install -m 755 ${CMAKE_SOURCE_DIR}/tutti.sh ${CMAKE_BINARY_DIR}/tutti)
END
  git init -q project
  for us in 3 2; do
    printf '#!/bin/sh\necho "{\\"time_us\\": %s}"\n' $us >project/tutti.sh
    $git add -A && $git commit -q -m "$us us" || complain "git failed"
  done
  tool=$scratch/project/tools/bench-compare
  for pass in first again; do
    compare 0 HEAD~1 HEAD --any-regime --sizes 8 --rounds 8 --json
    is "ratio, $pass" "$(value ratio)$(value verdict)" "1.5 faster "
  done
  is "files left that are not ignored" "$($git status --porcelain | grep -v '^?? build')" ""
  printf 'broken(\n' >project/CMakeLists.txt
  $git commit -q -a -m broken
  compare 1 HEAD~1 HEAD --any-regime
  has_facts "a commit that does not configure" "$err" "configure|HEAD"
  compare 2 HEAD nothing
  has_facts "no such revision" "$err" "'nothing'|revision"
  tool=$source/tools/bench-compare
}

test_mistakes() {
  local arguments facts
  make_folder good 1
  mkdir -p unbuilt other && cp good/tutti other
  echo 'CMAKE_C_FLAGS:STRING=-O0' >other/CMakeCache.txt
  mkdir -p sanitized && cp good/tutti sanitized
  echo 'TUTTI_SANITIZE:STRING=thread' >sanitized/CMakeCache.txt
  while IFS='|' read -r arguments facts; do
    # shellcheck disable=SC2086
    compare 2 $arguments
    has_facts "bench-compare $arguments" "$err" "$facts"
  done <<'TABLE'
good unbuilt|unbuilt/tutti|not found
good other|CMAKE_C_FLAGS|'' in good|'-O0' in other
good sanitized|sanitized|sanitizers
good|required|head
good good --rounds 0|--rounds|above 0|'0'
good good --sizes 8B|--sizes|'8B'
good good --modes fast|--modes|loop or barrier|'fast'
good good --speed|--speed
TABLE
  compare 2
  has "no arguments" "$err" "usage: tools/bench-compare BASE HEAD"
  compare 0 --help
  has help "$out" "usage: tools/bench-compare BASE HEAD"
}

test_failures() {
  make_folder good 1
  make_folder bad 0
  compare 1 good bad --any-regime
  has "a time of 0" "$err" "above 0"
  printf '#!/bin/sh\necho why >&2\nexit 3\n' >bad/tutti
  compare 1 good bad --any-regime
  has "a run that fails" "$err" "status 3"
  has "its standard error" "$err" why
  printf '#!/bin/sh\necho 5 us\n' >bad/tutti
  compare 1 good bad --any-regime
  has_facts "no JSON" "$err" "time_us|'5 us'"
}

# Compares the real command with itself. Times are not checked.
test_real() {
  if grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then return; fi
  compare 0 "$build" "$build" --any-regime --sizes 8 --rounds 2 --time-ms 0 --json
  is cell "$(value collective)$(value mode)$(value ranks)$(value pairs)" "allreduce loop 2 2 "
  is "a ratio within its quartiles" "$(awk -v low="$(value ratio_q1)" -v at="$(value ratio)" -v high="$(value ratio_q3)" \
    'BEGIN { print 0 < low && low <= at && at <= high }')" 1
}

# The regime that follows from latencies of a cache line.
test_regimes() {
  local found
  found=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source/tools python3 -c '
from bench_regime import regime
print(regime([50, 60, 70]), regime([200, 250, 210]), regime([50, 76]), regime([80, 200]), regime([1200]), regime([5000, 60]))')
  is regimes "$found" "near far changed changed busy busy"
}

run_tests
