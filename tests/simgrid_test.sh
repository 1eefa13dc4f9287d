#!/bin/bash
# test: slow timeout=120
# simgrid_test.sh SOURCE BUILD: SimGrid replays the plans of all algorithms on the same links, and must compute the same
# times as `tutti sim --cluster`: flows on flat platforms and tori, and packets if no two messages share a link. By
# default: one flat platform and one torus. With TEST_LONG: more platforms, each with two sizes.
set -u
. "$1/tests/shell.sh"
source=$1 build=$2 tutti=$2/tutti
skip() {
  echo "skipped: $1"
  exit 77
}
command -v g++ >/dev/null || skip "g++ not found"
pkg-config --exists simgrid || skip "SimGrid not found; tools/setup simulators installs it"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
replay=$build/tests/simgrid_replay
if [ ! "$replay" -nt "$source/tests/simgrid/replay.cpp" ]; then
  # shellcheck disable=SC2046
  g++ -std=c++17 -O1 -Wall -Wextra -Werror "$source/tests/simgrid/replay.cpp" -o "$scratch/replay" \
    $(pkg-config --cflags --libs simgrid) || exit 1
  mkdir -p "${replay%/*}"
  mv "$scratch/replay" "$replay"
fi
cd "$scratch" || exit 1
most=0.001 # largest allowed difference, as a part of SimGrid's time

# The modes of SimGrid, and the options of `tutti sim` for each:
#   native   flows; CM02 shares links by latency       --fluid --share latency
#   fair     flows with equal shares                   --fluid
#   stored   link by link, without shared links        none: packets

# sim OPTION...: sets `time` to the time of `tutti sim`; empty if the algorithm does not support the number of ranks.
sim() {
  time=
  if "$tutti" sim "$@" --links plain --json >answer.txt 2>err.txt; then
    time=$(sed -n 's/.*"time_s": \([^,]*\),.*/\1/p' answer.txt)
  elif ! grep -q "support" err.txt; then
    complain "tutti sim $*: $(cat err.txt)"
  fi
}

# add_case ALGORITHM CLUSTER BYTES OPTION...: writes the graph, and adds the times of `tutti sim` to ours.txt, as lines
# FILE MODE SECONDS NAME.
count=0
add_case() {
  local name="$*" file=graph$((++count)) time
  local what=("$1" --cluster "$2" --bytes "${@:3}")
  sim "${what[@]}" --fluid --graph $file
  [ -n "$time" ] || return 0
  echo "$file fair $time $name" >>ours.txt
  sim "${what[@]}" --fluid --share latency
  echo "$file native $time $name" >>ours.txt
  sim "${what[@]}"
  echo "$file stored $time $name" >>ours.txt
}

# compare MODE...: replays all graphs; prints the difference of each as a line MODE DIFFERENCE CLUSTER NAME.
compare() {
  local mode files
  files=$(awk '{ print $1 }' ours.txt | sort -u)
  for mode; do
    # shellcheck disable=SC2086
    if [ $mode = native ]; then "$replay" $files; else "$replay" --$mode $files; fi >theirs.$mode || complain "replay failed"
    awk -v mode=$mode -v OFS='\t' '
      NR == FNR { time[$1] = $2; shared[$1] = $3 > 1; next }
      $2 == mode && !($1 in time) { print "not replayed: " $0 >"/dev/stderr"; next }
      $2 == mode && !(mode == "stored" && shared[$1]) {
        difference = $3 / time[$1] - 1
        if (difference < 0) difference = -difference
        name = $0; sub(/^[^ ]* [^ ]* [^ ]* /, "", name)
        print mode, difference, $5, name
      }' theirs.$mode ours.txt
  done
}

# judge MODE...: prints the largest difference for each platform and mode. No difference may exceed the limit.
judge() {
  compare "$@" >differences.txt 2>lost.txt
  is "not replayed" "$(cat lost.txt)" ""
  awk -F '\t' '{ key = $3 " " $1; cases[key]++; if ($2 >= worst[key]) { worst[key] = $2; name[key] = $4 } }
    END { for (key in cases) printf "  %-22s %4d cases, largest difference %.2g%% (%s)\n", key, cases[key], 100 * worst[key], name[key] }' \
    differences.txt | sort
  awk -F '\t' '{ n++; if ($2 > worst) worst = $2 } END { printf "%d cases, largest difference %.2g%%\n", n, 100 * worst }' differences.txt
  is "over the limit" "$(awk -F '\t' -v most=$most '!($2 <= most)' differences.txt)" ""
}

cases_of() { grep -c "^$1"$'\t' differences.txt; } # MODE

# All algorithms except send, which has two ranks only.
algorithms=$("$tutti" list | awk '$1 !~ /^send\./ { print $1 }')

test_algorithms() {
  local algorithm cluster bytes sizes=64K clusters="hosts:1x5 torus:4x4"
  [ -n "${TEST_LONG:-}" ] && sizes="4K 1M" clusters="hosts:1x2 hosts:1x5 hosts:1x8 hosts:1x16 torus:4x4 torus:3x3x3 line:7"
  : >ours.txt
  for cluster in $clusters; do
    for algorithm in $algorithms; do
      for bytes in $sizes; do add_case "$algorithm" "$cluster" $bytes; done
    done
  done
  judge native fair stored
  # All flows must have been compared, and at least a quarter of the packet cases (rings, trees and chains).
  local served
  served=$(grep -c ' fair ' ours.txt)
  is "flows, by latency" "$(cases_of native)" "$served"
  is "flows" "$(cases_of fair)" "$served"
  [ "$(cases_of stored)" -ge $((served / 4)) ] || complain "only $(cases_of stored) of $served plans were free of contention"
}

# Late ranks, slow links, other orders of ranks, other routes, lanes; composite algorithms, and a plan for one cluster.
test_options() {
  : >ours.txt
  "$tutti" plan allgather --cluster t3000 --place grid >grid.plan 2>err.txt || complain "tutti plan: $(cat err.txt)"
  add_case ./grid.plan t3000 1M
  add_case allreduce.rs:direct/4+ar:ring+ag:direct/4 torus:4x4 256K
  add_case allreduce.rabenseifner torus:4x4 1M --late 3=1e-5,7=2e-5
  add_case alltoall.direct torus:4x4 64K --slow 0-1=3,5-9=1.5
  add_case alltoall.direct torus:3x3 64K --dimension-order --late 0=4e-6
  add_case allgather.bucket torus:4x4 64K --place number
  add_case allreduce.swing mesh:2x4 1M --lanes 3
  add_case broadcast.scatter_allgather fat-tree:2x3 256K --root 5
  add_case reduce.binomial line:6 32K --root 2
  judge native fair stored
  is "cases" "$(cases_of native) $(cases_of fair)" "9 9"
}

# The modes give different times if flows of different length share links.
test_modes_differ() {
  : >ours.txt
  add_case allgather.pat torus:4x4 1M
  is "times" "$(awk '{ print $3 }' ours.txt | sort -u | wc -l)" 3
}

# A wrong number is detected: SimGrid gets links with slightly less bandwidth, or slightly less latency.
test_it_can_fail() {
  local change
  for change in '{ $4 *= 0.99 }' '{ $3 *= 0.99 }'; do
    : >ours.txt
    add_case allreduce.ring torus:4x4 64K
    awk -v OFMT=%.17g -v CONVFMT=%.17g "\$1 == \"link\" $change { print }" graph$count >changed
    mv changed graph$count
    is "found: $change" "$(compare native | awk -F '\t' -v most=$most '$2 > most' | wc -l)" 1
  done
}

# The replay refuses invalid graphs.
test_broken_graphs() {
  printf 'graph 1\nstep 0\nstep 1\nthen 0 1\nthen 1 0\n' >circle
  run_tool 1 "$replay" circle
  has_facts "a cycle" "$err" "nodes|cycle"
  printf 'graph 1\nmessage 0 0 1 8 5\n' >nowhere
  run_tool 1 "$replay" nowhere
  has "no such link" "$err" "unknown link"
  run_tool 1 "$replay" missing
  has_facts "no file" "$err" "missing: |graph 1"
}

run_tests
