#!/bin/bash
# hosts_suites_test.sh SOURCE BUILD: the project's suites on several hosts, which are values of TUTTI_HOST: without root.
# With TEST_LONG all suites, on more lists of hosts; hosts_net_test.sh does the same on namespaces.
# test: slow timeout=300
set -u
. "$1/tests/shell.sh"
. "$1/tests/suites.sh"
build=$(realpath "$2")
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1

test_one_rank_each() { suites_on "a b" "$conformance" "$agreement" lanes_test woven_test mistakes_test; }
test_two_ranks_each() { suites_on "a a b b" "$conformance" calls_test plans_test ccl_cases_test; }
test_one_sided() {
  local list
  for list in "a a b b" "a a a b"; do
    suites_on "$list" window_test window_misuse_test signals_test pto_calls_test pto_cases_test channel_ranks_test
  done
}
test_all_suites() {
  local list
  [ -n "${TEST_LONG-}" ] || { skip "runs only with TEST_LONG"; return; }
  for list in "a b" "a a b b" "a b a b" "a b c d" "a a a b" "a b c d e f g h"; do
    echo "  hosts $list:"
    suites_on "$list" "${suites[@]}"
  done
}
run_tests
