#!/bin/bash
# hosts_faults_test.sh SOURCE BUILD: random faults in jobs on several hosts (seeded_faults_test.c --hosts): hosts that are
# names, without root; and as root hosts that are namespaces, whose links are cut or flap, over a bridge.
# test: slow timeout=400
set -u
. "$1/tests/shell.sh"
. "$1/tests/netns.sh"
faults=$(realpath "$2")/tests/seeded_faults_test
here=$(mktemp -d)
trap 'hosts_end; rm -rf "$here"' EXIT
cd "$here" || exit 1
last=49
[ -z "${TEST_LONG-}" ] || last=499

# Prints the tables of the test, and complains about its failures.
run_faults() { # WHAT ARGUMENTS...
  local said status
  said=$(env -u TEST_LONG -u TEST_SEED TMPDIR="$here" "$faults" "${@:2}" 2>&1)
  status=$?
  grep -v -e '^ok' -e ' passed, ' <<<"$said"
  [ $status = 0 ] || complain "$1: seeded_faults_test ended with status $status"
}

test_names() { run_faults "hosts that are names" --hosts "0..$last"; }

test_namespaces() {
  local i
  [ -n "${TEST_LONG-}" ] || { skip "runs only with TEST_LONG"; return; }
  hosts_possible || { skip "$hosts_why"; return; }
  hosts_make 3
  TEST_HOSTS=
  for i in 0 1 2; do TEST_HOSTS+="@${hosts[i]}:h$i "; done
  export TEST_HOSTS TEST_MASTER_ADDR=10.77.0.1
  run_faults "hosts that are namespaces" --hosts "0..$last"
  unset TEST_HOSTS TEST_MASTER_ADDR
  for i in 0 1 2; do is "processes left on host $i" "$(host_pids "$i")" ""; done
  # -xdev: not the folders that the hosts share.
  for i in 0 1 2; do is "files left on host $i" "$(on_host "$i" find /tmp /dev/shm -xdev -type f)" ""; done
  hosts_end
}
run_tests
