#!/bin/bash
# fabric_suites_test.sh SOURCE BUILD: the project's suites on several hosts, which are values of TUTTI_HOST, over the
# provider tcp of libfabric (tools/setup fabrics); also if one of the hosts has no fabric. With TEST_LONG all suites, on
# more lists of hosts.
# test: slow timeout=300
set -u
. "$1/tests/shell.sh"
. "$1/tests/suites.sh"
build=$(realpath "$2")
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
export TUTTI_FABRIC=tcp
# By default the provider touches 68 MiB for each rank, for receives that this library does not use.
export FI_OFI_RXM_BUFFER_SIZE=2048 FI_OFI_RXM_MSG_RX_SIZE=16 FI_OFI_RXM_MSG_TX_SIZE=16
said=$("$build/tests/wire_test" fabric_opens) || { echo "skipped: ${said%%$'\n'*}; tools/setup fabrics installs it"; exit 77; }

test_collectives() { suites_on "a b" "$conformance" "$agreement"; }
test_one_sided() { suites_on "a a a b" window_test pto_calls_test; }
# Host c has no fabric, so its ranks and the others use sockets.
test_mix() { suites_on "a b c=none" "$conformance" window_test; }
test_faults() {
  local said status
  said=$(env -u TEST_LONG "$build/tests/seeded_faults_test" --hosts 0..9 2>&1)
  status=$?
  grep -e ' seeds ' <<<"$said"
  [ $status = 0 ] || complain "seeded_faults_test ended with status $status: $said"
}
# In a network whose sockets have little room, a write is mostly received in part when one end closes. The provider refuses many
# writes, because it has room for few.
test_closes_within_a_write() {
  local said seed
  unshare --net ip link set lo up 2>/dev/null || { skip "needs root, unshare --net, and ip (Debian: iproute2)"; return; }
  for seed in {1..6}; do
    said=$(TEST_SEED=$seed FI_OFI_RXM_TX_SIZE=$seed unshare --net sh -c 'ip link set lo up &&
      echo 4096 4096 20000 >/proc/sys/net/ipv4/tcp_wmem && echo 4096 8192 20000 >/proc/sys/net/ipv4/tcp_rmem &&
      exec "$0" one_closes_within' "$build/tests/wire_test" 2>&1) || complain "seed $seed, status $?: $said"
  done
}
test_all_suites() {
  local list
  [ -n "${TEST_LONG-}" ] || { skip "runs only with TEST_LONG"; return; }
  for list in "a b" "a a b b" "a a a b" "a b c=none" "a a=none b b" "a b c d e f g h"; do
    echo "  hosts $list:"
    suites_on "$list" "${suites[@]}"
  done
}
run_tests
