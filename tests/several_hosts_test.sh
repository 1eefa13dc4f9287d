#!/bin/bash
# several_hosts_test.sh SOURCE BUILD: tests jobs whose ranks run on several hosts, as users start them: hosts are values
# of TUTTI_HOST. netns_test.sh and hosts_net_test.sh test hosts that are namespaces.
# test: fast timeout=300
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
place=$2/tests/place
here=$(mktemp -d)
started=()
end_all() {
  local name
  for name in ${started[@]+"${started[@]}"}; do kill -9 "$name" 2>/dev/null; done
  rm -rf "$here"
}
trap end_all EXIT
cd "$here" || exit 1
collectives="allreduce reduce broadcast allgather gather scatter alltoall reduce_scatter scan exscan"

# on_hosts "HOSTS" PROGRAM...: runs a job with one rank for each word of HOSTS, which is the name of the rank's host.
on_hosts() { TEST_HOSTS=$1 "$tutti" run -n "$(wc -w <<<"$1")" -- "$place" "${@:2}"; }

# check_table WHAT TEXT ROWS: checks that a table of `tutti bench` has rows, and no wrong element.
check_table() {
  local rows wrong
  rows=$(grep -c '^ *[0-9]' <<<"$2")
  wrong=$(awk '/^ *[0-9]/ { n += $11 + $17 } END { print n + 0 }' <<<"$2")
  is "$1: rows" "$rows" "$3"
  is "$1: wrong elements" "$wrong" 0
}

test_all_collectives() {
  local hosts said count
  count=$(wc -w <<<"$collectives")
  for hosts in "a b" "a a b b" "a b a b" "a a a b" "a b b c c c" "a b c d"; do
    # shellcheck disable=SC2086
    said=$(on_hosts "$hosts" "$tutti" bench $collectives -n "$(wc -w <<<"$hosts")" --bytes 8:32K:64 --time-ms 2 2>&1)
    is "status on hosts $hosts" $? 0
    check_table "hosts $hosts" "$said" $((count * 3))
  done
}

# begin RANK RANKS HOST PROGRAM...: starts a rank in the background, as a launcher would; its output goes to out.RANK.
begin() {
  TUTTI_RANK=$1 TUTTI_WORLD_SIZE=$2 TUTTI_HOST=$3 TUTTI_MASTER_ADDR=127.0.0.1 TUTTI_MASTER_PORT=$port TUTTI_SECRET=s3 \
    "${@:4}" >"out.$1" 2>&1 &
  started[$1]=$!
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# The ranks of other hosts and of its own notice that a rank is killed; rank 0, which prints, names it.
test_a_rank_is_killed() {
  local port r
  command -v python3 >/dev/null || { skip "python3 not found"; return; }
  port=$(free_port)
  for r in 0 1 2 3; do begin "$r" 4 $((r / 2)) "$tutti" bench allreduce -n 4 --bytes 8:16M:2 --time-ms 1000; done
  until grep -q '#wrong' out.0; do sleep 0.1; kill -0 "${started[0]}" 2>/dev/null || break; done
  kill -9 "${started[3]}"
  for r in 0 1 2; do wait "${started[$r]}" && complain "rank $r does not notice that rank 3 was killed"; done
  wait "${started[3]}" 2>/dev/null
  started=()
  has "rank 0" "$(cat out.0)" "rank 3"
}

test_addresses() {
  local said
  said=$(TUTTI_INTERFACE=nosuch0 on_hosts "a b" "$tutti" bench barrier -n 2 2>&1)
  has_facts "unknown interface" "$said" "TUTTI_INTERFACE|nosuch0|ip address"
  said=$(TUTTI_INTERFACE=10.0.0.0/99 on_hosts "a b" "$tutti" bench barrier -n 2 2>&1)
  has_facts "bad range" "$said" "TUTTI_INTERFACE|10.0.0.0/99|10.1.0.0/16"
  said=$(TUTTI_PORTS=9000 on_hosts "a b" "$tutti" bench barrier -n 2 2>&1)
  has_facts "bad ports" "$said" "TUTTI_PORTS|'9000'|30000-30999"
  said=$(TUTTI_INTERFACE=127.0.0.0/8 TUTTI_PORTS=20000-65000 on_hosts "a b b" "$tutti" bench allreduce -n 3 --bytes 8 --time-ms 1 2>&1)
  check_table "range and ports" "$said" 1
}

test_onesided() {
  local said
  said=$(on_hosts "a b b" "$tutti" bench onesided -n 3 --bytes 64K --time-ms 1 2>&1)
  is "status" $? 0
  check_table "one-sided calls" "$said" 3
}

run_tests
