# suites.sh: the suites that also hold for a job on several hosts, and how to run them there (placement.h).

# Not the test `lateness`: all ranks of one host get the same error, but a rank of another host may finish its call
# before it hears that the others gave up.
conformance="conformance_test every_algorithm random_calls messages parts many_open disagreement abortion death"

# Not the test `tables`: it expects what is selected on one host.
agreement="agreement_test broken refusal default_paths"

# Left out is what needs memory that all ranks map.
suites=(
  "$conformance" "$agreement" calls_test lanes_test woven_test mistakes_test plans_test ccl_cases_test sweep_test
  tensor_test create_test heap_test mesh_test window_test window_misuse_test signals_test pto_calls_test pto_cases_test
  channel_ranks_test any_rank_test
)

# suites_on "HOSTS" "SUITE [TEST...]"...: runs suites, or some tests of them, with the ranks on the hosts of this list.
# Prints a row for each.
suites_on() {
  local suite began said status
  for suite in "${@:2}"; do
    began=$EPOCHREALTIME
    # In a long test, each suite runs in its usual length: it runs on many lists of hosts.
    # shellcheck disable=SC2086
    said=$(TEST_HOSTS=$1 env -u TEST_LONG "$build/tests/"$suite 2>&1)
    status=$?
    printf '  %-17s %6.1f s  %s\n' "${suite%% *}" "$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')" \
      "$(tail -n 1 <<<"$said")"
    [ $status = 0 ] || complain "$suite on hosts $1: $(grep -v '^ok' <<<"$said" | tail -n 40)"
  done
}
