#!/bin/bash
# run_limits_test.sh SOURCE BUILD: tests the messages of `tutti run` and of joining ranks at the limits of the process
# (ulimit), and the port that joins share.
# test: fast waits timeout=120
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
join="$tutti bench barrier --time-ms 1"

# At a limit of the process, the error message names the limit. The command never ends by a signal, or with just
# "Invalid argument".
test_limits() {
  local said
  # The launcher needs two pipes per rank. It raises its own soft limit, but not that of the ranks.
  is "soft limit" "$(ulimit -Sn 60; "$tutti" run -n 40 --prefix -- sh -c 'ulimit -Sn' | cut -d' ' -f2 | sort | uniq -c |
    tr -s ' ')" " 40 60"
  said=$(ulimit -n 60; "$tutti" run -n 40 --prefix -- true 2>&1)
  is "hard limit" $? 1
  has_facts "hard limit" "$said" "--prefix|40 ranks|60|ulimit -n"
  # In a join, rank 0 needs descriptors for a connection to each other rank, and for connections not yet admitted.
  (ulimit -n 120; "$tutti" run -n 4 -- $join >out 2>&1)
  is "ranks within 120 descriptors" $? 0
  said=$(ulimit -n 30; "$tutti" run -n 24 -- $join 2>&1)
  has_facts "ranks beyond 30 descriptors" "$said" "rank 0 of 24|file descriptors"
  said=$(ulimit -f 4096; "$tutti" run -n 2 -- $join 2>&1)
  has_facts "size of files" "$said" "4194304 bytes|ulimit -f|TUTTI_SHM_BYTES=2M"
  has "size of files" "$said" "status 1"
  if nm "$tutti" 2>/dev/null | grep -qE '__(a|t)san_init'; then
    skip "address space: sanitizers need more than the limit allows"
  else
    said=$(ulimit -v 1500000; "$tutti" run -n 2 -- $join 2>&1)
    has "address space" "$said" "ulimit -v"
  fi
  [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { skip "processes of a user: needs root"; return; }
  # A uid without other processes, as the limit counts all processes of a uid.
  setpriv --reuid 64739 --clear-groups test -x "$tutti" ||
    { skip "processes of a user: another user cannot reach $tutti"; return; }
  said=$(setpriv --reuid 64739 --clear-groups sh -c "ulimit -p 8 2>/dev/null || ulimit -u 8
    cd / && '$tutti' run -n 20 -- sleep 1" 2>&1)
  has_facts "processes" "$said" "of 20: |Resource temporarily unavailable|ulimit -u"
}

# One port serves several joins one after the other, but not two at the same time.
test_port() {
  local said turn
  for turn in 1 2 3; do
    "$tutti" run -n 3 -- sh -c "$join && $join && $join" >out 2>&1
    is "three joins, one after the other" $? 0
  done
  # The second rank 0 starts when the first one listens; rank 1 starts when the second rank 0 has been refused.
  rm -f refused
  said=$("$tutti" run -n 2 -- bash -c "if [ \$TUTTI_RANK = 0 ]; then
      $join &
      until (: <>/dev/tcp/127.0.0.1/\$TUTTI_MASTER_PORT) 2>&-; do sleep 0.05; done
      $join || touch refused
      wait
    else
      until [ -e refused ]; do sleep 0.05; done; $join
    fi" 2>&1)
  has_facts "two ranks 0" "$said" "another process|rank 0"
}

run_tests
