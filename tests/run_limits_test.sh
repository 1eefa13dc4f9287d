#!/bin/bash
# run_limits_test.sh SOURCE BUILD: what `tutti run` and the ranks that join say at the limits of the process (ulimit), and the
# port that they share.
# test: fast timeout=120
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_RANK TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_MASTER_ADDR \
  TUTTI_MASTER_PORT TUTTI_RESERVED_PORT TUTTI_LOCAL_RANK TUTTI_SECRET TUTTI_SECRET_FILE
join="$tutti bench barrier --time-ms 1"

# Limits on this process are met with a sentence, never with a signal or a bare "Invalid argument".
test_limits() {
  local said
  # Two pipes a rank: the soft limit is raised for the launcher, and is as it was for the ranks.
  is "soft limit" "$(ulimit -Sn 60; "$tutti" run -n 40 --prefix -- sh -c 'ulimit -Sn' | cut -d' ' -f2 | sort | uniq -c |
    tr -s ' ')" " 40 60"
  said=$(ulimit -n 60; "$tutti" run -n 40 --prefix -- true 2>&1)
  is "hard limit" $? 1
  has "hard limit" "$said" "with --prefix 40 ranks need "
  has "hard limit" "$said" "the hard limit is 60: raise it (ulimit -n)"
  # What joins: rank 0 has a connection to each of the others, and places for guests.
  (ulimit -n 120; "$tutti" run -n 4 -- $join >out 2>&1)
  is "ranks within 120 descriptors" $? 0
  said=$(ulimit -n 30; "$tutti" run -n 24 -- $join 2>&1)
  has "ranks beyond 30 descriptors" "$said" "rank 0 of 24 needs "
  has "ranks beyond 30 descriptors" "$said" " file descriptors to let the others join"
  said=$(ulimit -f 4096; "$tutti" run -n 2 -- $join 2>&1)
  has "size of files" "$said" "exceeds the limit on the size of a file, 4194304 bytes: raise it (ulimit -f), or set TUTTI_SHM_BYTES=2M"
  has "size of files" "$said" "exited with status 1"
  if nm "$tutti" 2>/dev/null | grep -qE '__(a|t)san_init'; then
    skip "address space: sanitizers need more of it than a limit leaves"
  else
    said=$(ulimit -v 1500000; "$tutti" run -n 2 -- $join 2>&1)
    has "address space" "$said" "raise the limit on virtual memory (ulimit -v)"
  fi
  [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { skip "processes of a user: not root"; return; }
  # A uid that nobody else has: the limit counts all its processes.
  said=$(setpriv --reuid 64739 --clear-groups sh -c "ulimit -p 8 2>/dev/null || ulimit -u 8
    cd / && '$tutti' run -n 20 -- sleep 1" 2>&1)
  has "processes" "$said" "of 20: Resource temporarily unavailable (more processes than this user, ulimit -u,"
}

# One port serves one join after the other, and never two at once.
test_port() {
  local said turn
  for turn in 1 2 3; do
    "$tutti" run -n 3 -- sh -c "$join && $join && $join" >out 2>&1
    is "three joins, one after the other" $? 0
  done
  # The second rank 0 comes when the first one listens; rank 1 when the second has been refused.
  rm -f refused
  said=$("$tutti" run -n 2 -- bash -c "if [ \$TUTTI_RANK = 0 ]; then
      $join &
      until (: <>/dev/tcp/127.0.0.1/\$TUTTI_MASTER_PORT) 2>&-; do sleep 0.05; done
      $join || touch refused
      wait
    else
      until [ -e refused ]; do sleep 0.05; done; $join
    fi" 2>&1)
  has "two ranks 0" "$said" "(another process of this job listens there as rank 0)"
}

run_tests
