# shell.sh: functions that the scripts tests/*_test.sh share; they read it with `. "$1/tests/shell.sh"`. Each function
# test_NAME is a test, and calls complain for each error. $tutti is the command.
# No test is a rank of another job, or inherits settings of one.
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_RANK TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_MASTER_ADDR \
  TUTTI_MASTER_PORT TUTTI_RESERVED_PORT TUTTI_LOCAL_RANK TUTTI_SECRET TUTTI_SECRET_FILE TUTTI_HOST TUTTI_RING_BYTES \
  TUTTI_SLOT_BYTES TUTTI_SHM_BYTES TUTTI_RSH TUTTI_LAUNCHER TUTTI_FABRIC TUTTI_ORDER PMI_RANK PMI_SIZE PMI_FD PMIX_RANK \
  PMIX_NAMESPACE
passed=0 failed=0 skipped=0 complaints=0 skips=0

complain() { echo "  $*"; complaints=$((complaints + 1)); }
# Reports that a test, or a part of it, is skipped, and why. The test itself must return.
skip() { echo "  skipped: $*"; skips=$((skips + 1)); }
is() { [ "$2" == "$3" ] || complain "$1: got '$2', expected '$3'"; }
has() { [[ "$2" == *"$3"* ]] || complain "$1: got '$2', expected '...$3...'"; }

# has_facts WHAT TEXT FACTS: checks that TEXT contains all FACTS, in any order. FACTS are separated by '|'.
has_facts() {
  local fact facts
  IFS='|' read -r -a facts <<<"$3"
  for fact in "${facts[@]}"; do has "$1" "$2" "$fact"; done
}

# run_tool STATUS TOOL ARGUMENTS...: runs a tool and checks its exit status. Sets `out` and `err`, and writes out.txt
# and err.txt.
run_tool() {
  local expected=$1 program=$2
  shift 2
  "$program" "$@" >out.txt 2>err.txt
  local status=$?
  [ "$status" = "$expected" ] ||
    complain "status of ${program##*/} $*: got '$status', expected '$expected'; $(tail -n 3 err.txt)"
  out=$(cat out.txt) err=$(cat err.txt)
}
# Ends the script as skipped if the build has sanitizers.
needs_plain_build() { # BUILD
  if grep -q '^TUTTI_SANITIZE:STRING=.' "$1/CMakeCache.txt"; then echo "a build with sanitizers" && exit 77; fi
}
run() { run_tool "$1" "$tutti" "${@:2}"; } # STATUS ARGUMENTS...: runs the command
# refused TEXT ARGUMENTS...: checks that $tool refuses these arguments, with a message that contains TEXT.
refused() {
  "$tool" "${@:2}" >out.txt 2>&1 </dev/null
  is "status of ${*:2}" $? 2
  has "message of ${*:2}" "$(cat out.txt)" "$1"
}

run_case() { # test_NAME
  complaints=0 skips=0
  "$1"
  if [ "$complaints" -eq 0 ] && [ "$skips" -gt 0 ]; then
    skipped=$((skipped + 1))
    echo "skipped ${1#test_}"
  elif [ "$complaints" -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok ${1#test_}"
  else
    failed=$((failed + 1))
    echo "FAILED ${1#test_}"
  fi
}

# run_tests [test_NAME...]: runs the tests in this order, or all tests, and prints the summary. Returns 1 if a test failed,
# 77 if all tests were skipped.
run_tests() {
  local name
  # shellcheck disable=SC2046
  [ $# -gt 0 ] || set -- $(declare -F | awk '$3 ~ /^test_/ { print $3 }')
  for name; do run_case "$name"; done
  echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
  [ "$failed" -eq 0 ] || return 1
  [ "$skipped" -eq 0 ] || [ "$passed" -gt 0 ] || return 77
}
