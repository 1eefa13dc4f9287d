#!/bin/bash
# netns_test.sh SOURCE BUILD: tests the hosts made of namespaces (netns.sh): what they have of their own, the links
# between them, and that nothing is left, also of a script that is killed.
# test: slow timeout=300
set -u
. "$1/tests/shell.sh"
. "$1/tests/netns.sh"
tutti=$2/tutti
# A second copy of this script, to be killed: makes hosts, and says which processes it has.
if [ "${NETNS_TEST_ROLE-}" = victim ]; then
  hosts_make 2
  begin_on_host 1 sleep 1000
  echo "ready"
  read -r _
  exit 1
fi
script=$(realpath "$0") source=$(realpath "$1") build=$(realpath "$2")
here=$(mktemp -d)
trap 'hosts_end; rm -rf "$here"' EXIT
cd "$here" || exit 1

# right_rows [BYTES]: prints the number of rows of rank 0's table (of that size) without a wrong element, in place and not.
right_rows() { awk -v size="${1-}" '/^ *[0-9]/ && $11 == 0 && $17 == 0 && (size == "" || $1 == size)' out.0 | wc -l; }


# Prints the names of the files that host I sees in its folders of its own.
files_of() { on_host "$1" bash -c 'ls -d /tmp/of-* /dev/shm/of-* 2>/dev/null' | tr '\n' ' '; }

test_hosts_have_their_own() {
  local i
  hosts_possible || { skip "$hosts_why"; return; }
  hosts_make 3
  for i in 0 1 2; do
    is "hostname of host $i" "$(on_host "$i" cat /proc/sys/kernel/hostname)" "h$i"
    is "interfaces of host $i" "$(on_host "$i" ls /sys/class/net | tr '\n' ' ')" "eth0 lo "
    on_host "$i" touch "/tmp/of-$i" "/dev/shm/of-$i" "$here/of-$i"
    is "files of host $i" "$(files_of "$i")" "/dev/shm/of-$i /tmp/of-$i "
    on_host "$i" readlink /proc/self/ns/{ipc,uts,net,mnt} >>spaces
    is "current folder of host $i" "$(on_host "$i" pwd)" "$here"
  done
  is "files in the shared folder" "$(ls of-? | tr '\n' ' ')" "of-0 of-1 of-2 "
  is "namespaces" "$(readlink /proc/self/ns/{ipc,uts,net,mnt} | sort -u - spaces | wc -l)" 16
  is "cgroups" "$(on_host 1 ls /sys/fs/cgroup)" "$(ls /sys/fs/cgroup)"
  has "the command" "$(on_host 1 "$tutti" --help)" "usage: tutti"
  hosts_end
}

# The library's hosts are the namespaces; data crosses the bridge by IPv4 and IPv6.
test_a_job_crosses_the_bridge() {
  local job_address
  hosts_possible || { skip "$hosts_why"; return; }
  hosts_make 2 10.9.8
  for job_address in 10.9.8.1 fd77::1; do
    begin_job "0 1 1" "$tutti" bench allreduce --bytes 8:1M:131072 -n 3 --time-ms 1
    end_job
    is "$job_address: right rows" "$(right_rows)" 2
  done
  begin_job "0 1" "$tutti" bench allreduce --bytes 1M -n 2 --time-ms 500
  until grep -q cubic <<<"$(on_host 1 ss -tin)"; do
    kill -0 "${job_pids[0]}" 2>/dev/null || { complain "no connection with cubic"; break; }
  done
  end_job
  hosts_end
}

# Nothing passes a link that is cut.
test_links() {
  local i
  hosts_possible || { skip "$hosts_why"; return; }
  hosts_make 2
  link_down 1
  begin_job "0 1" "$tutti" bench barrier -n 2
  for i in 1 2 3 4 5; do
    kill -0 "${job_pids[0]}" "${job_pids[1]}" || complain "a rank has ended without a link"
    sleep 0.1
  done
  link_up 1
  end_job
  hosts_end
}

# A shaped link takes at least the time that its rate says: 4 MiB at 100 Mbit/s need 0.33 s.
test_shapes() {
  local us
  hosts_possible || { skip "$hosts_why"; return; }
  hosts_make 2
  shape 100mbit
  begin_job "0 1" "$tutti" bench broadcast --bytes 4M -n 2 --time-ms 100
  end_job
  us=$(awk '$1 == 4194304 { print int($6) }' out.0)
  echo "  4 MiB at 100 Mbit/s: $us us"
  [ "${us:-0}" -ge 300000 ] || complain "4 MiB cross a link of 100 Mbit/s in '$us' us"
  shape none
  hosts_end
}

csum_errors() { # HOST: prints how many TCP segments with a wrong checksum it has received
  # shellcheck disable=SC2016
  on_host "$1" awk '
    $1 == "Tcp:" { for (i = 1; i <= NF; i++) if ($i == "InCsumErrors") at = i; n = $at }
    END { print n }' /proc/net/snmp
}

# A job gets right results over a network that damages packets, and the damage is real.
test_the_tap_damages() {
  local what
  hosts_possible || { skip "$hosts_why"; return; }
  tap_possible || { skip "$tap_why"; return; }
  hosts_make 2 tap || return
  tap_say seed 5
  for what in "delay 200" "drop 0.01" "double 0.02" "reorder 0.02 1000" "flip 0.01"; do tap_say "$what"; done
  begin_job "0 1" "$tutti" bench allreduce --bytes 8:4M:512 -n 2 --time-ms 100
  end_job
  is "right rows" "$(right_rows)" 3
  for what in sent dropped doubled reordered flipped; do
    [ "$(tap_count $what)" -gt 0 ] || complain "the tap has $what no packet"
  done
  is "flipped bits that a checksum found" "$(($(csum_errors 0) + $(csum_errors 1) > 0))" 1
  # Bits that no checksum finds are found by the job: by its results, or as a frame that makes no sense.
  tap_say calm
  begin_job "0 1" env TUTTI_TIMEOUT_MS=3000 "$tutti" bench allreduce --bytes 8,4M -n 2 --time-ms 300
  until grep -q '^ *8 ' out.0; do kill -0 "${job_pids[0]}" || break; done
  tap_say forge 0.05
  wait "${job_pids[@]}"
  [ "$(tap_count forged)" -gt 0 ] || complain "the tap has forged no packet"
  echo "  forged: $(tail -n 1 out.0)"
  is "right rows when bits are forged" "$(right_rows 4194304)" 0
  is "no such command" "$(echo "drop 2" >&"${hosts_tap[1]}"; read -r -u "${hosts_tap[0]}" said; echo "${said%%:*}")" error
  hosts_end
}

# Prints the links and mounts of this script's namespaces, and the processes that are in other ones: those of hosts, and
# of scripts that this one has started.
left() {
  local path
  ip -o link 2>/dev/null | cut -d: -f2
  cut -d' ' -f1-3 /proc/self/mounts
  for path in /proc/[0-9]*; do
    [[ "$(readlink "$path"/ns/{net,pid} 2>/dev/null | tr -d '\n')" =~ ^("$spaces")?$ ]] || tr '\0' ' ' <"$path/cmdline"
  done
}

test_nothing_is_left() {
  local before said victim_pid spaces
  hosts_possible || { skip "$hosts_why"; return; }
  spaces=$(readlink /proc/self/ns/{net,pid} | tr -d '\n')
  before=$(left)
  hosts_make 2
  begin_on_host 1 sleep 1000
  until [[ "$(left)" == *"sleep 1000"* ]]; do sleep 0.05; done
  has "with hosts" "$(left)" switch
  hosts_end
  is "after hosts_end" "$(left)" "$before"
  # The processes of a script that is killed end when the kernel comes to it.
  coproc victim { NETNS_TEST_ROLE=victim exec bash "$script" "$source" "$build"; }
  victim_pid=${victim_PID?}
  read -r -u "${victim[0]}" said
  is "the victim" "$said" ready
  until [[ "$(left)" == *"sleep 1000"* ]]; do sleep 0.05; done
  kill -9 "$victim_pid"
  wait "$victim_pid" 2>/dev/null
  until [ "$(left)" = "$before" ]; do sleep 0.05; done
}
run_tests
