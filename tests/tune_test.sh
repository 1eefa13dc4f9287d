#!/bin/bash
# tune_test.sh SOURCE BUILD: the library reads the tables that `tutti tune` writes, and `tutti info` shows them. Errors
# in tables and variables name the file and the line.
# test: fast timeout=240
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export TUTTI_TUNING=none
# selection COLLECTIVE: prints the collective's line of `tutti info`, without its name.
selection() { "$tutti" info -n 3 2>&1 | awk -v c="$1" '$1 == c { $1 = ""; print substr($0, 2) }'; }

test_tune() {
  run 0 tune -n 3 --time-ms 0 --bytes 8:128:4 allreduce broadcast barrier
  has progress "$err" "tutti tune: allreduce: "
  for part in "Measured by tutti tune $("$tutti" --version | awk '{ print $2 }'): 3 ranks" "# Machine: Linux" \
    "# allreduce, microseconds by size:"; do has comments "$out" "$part"; done
  is "lines that are neither comments nor rules of 3 ranks" \
    "$(grep -cvE '^(#.*)?$|^(allreduce|broadcast|barrier) +ranks=3 hosts=1( bytes<=[0-9]+[KMG]?)? +[^ ]+ +# [0-9.]+( to [0-9.]+)? us$' out.txt)" 0
  is "collectives" "$(awk '/^[a-z]/ { print $1 }' out.txt | sort -u | tr '\n' ' ')" "allreduce barrier broadcast "
  # The last rule of each collective has no limit of bytes; info shows its algorithm last.
  local collective
  for collective in allreduce broadcast barrier; do
    is "$collective, in info" "$(TUTTI_TUNING=out.txt selection $collective | sed 's/.* //')" \
      "$(awk -v c=$collective '$1 == c && !/bytes/ { print $4; exit }' out.txt)"
  done
  has "table" "$(TUTTI_TUNING=out.txt "$tutti" info)" "table       out.txt, then built-in"
  TUTTI_TUNING=out.txt run 0 bench -n 3 allreduce broadcast --bytes 8:128:4 --time-ms 0
}

# keeps_its_time WHAT: tune says beforehand how long it takes, within twice. Once of three times, because other programs may
# begin or end meanwhile.
keeps_its_time() {
  local begin end said try kept=0
  for ((try = 0; try < 3 && kept == 0; try++)); do
    begin=$(date +%s.%N)
    run 0 tune -n 3 --time-ms 100 --bytes 8:64K:16 allreduce
    end=$(date +%s.%N)
    said=$(sed -n 's/^tutti tune: 1 collectives, 4 sizes in all; takes about \([0-9.]*\) s$/\1/p' err.txt)
    kept=$(awk -v a="$begin" -v b="$end" -v s="$said" 'BEGIN { print (s > 0 && b - a < 2 * s && b - a > s / 2) }')
  done
  is "$1: $said s, from $begin to $end" "$kept" 1
}

# As long as it says, also if other programs use all CPUs.
test_time() {
  local i busy=()
  keeps_its_time "alone"
  has progress "$err" "tutti tune: "
  for ((i = 0; i < 2 * $(nproc); i++)); do
    while :; do :; done &
    busy+=($!)
  done
  keeps_its_time "on a busy machine"
  kill "${busy[@]}"
  wait "${busy[@]}" 2>/dev/null
  run 0 tune -n 2 --time-ms 0 --bytes 8 barrier --quiet
  is "quiet" "$err" ""
}

# Rules for calls in the canonical order name only algorithms that have it, and apply only to these calls.
test_canonical() {
  run 0 tune -n 5 --time-ms 0 --bytes 8:128:4 allreduce --order canonical
  is "lines that are neither comments nor rules of that order" \
    "$(grep -cvE '^(#.*)?$|^allreduce +ranks=5 hosts=1 order=canonical( bytes<=[0-9]+[KMG]?)? +[^ ]+ +# [0-9.]+( to [0-9.]+)? us$' out.txt)" 0
  is "a ring among the algorithms" "$(grep -c ring out.txt)" 0
  echo "allreduce order=canonical reduce_broadcast" >canonical
  has "calls of that order" "$(TUTTI_TUNING=canonical "$tutti" info -n 5 --order canonical | grep '^  allreduce')" reduce_broadcast
  is "other calls" "$(TUTTI_TUNING=canonical "$tutti" info -n 5 | grep -c reduce_broadcast)" 0
  run 2 tune -n 3 --order canonical broadcast
  has "a collective without reductions" "$err" "broadcast reduces nothing"
}

test_all_collectives() {
  run 0 tune -n 2 --time-ms 0 --bytes 64 --output table
  is "standard output" "$out" ""
  is "files" "$(echo table*)" table
  is "collectives" "$(awk '/^[a-z]/ { print $1 }' table | sort -u | wc -l)" \
    "$("$tutti" list | grep -v '^send' | awk -F. '{ n[$1]++ } END { for (c in n) m += n[c] > 1; print m }')"
  TUTTI_TUNING=$PWD/table run 0 info -n 2
  cp table before
  TUTTI_TUNING=none run 1 tune -n 2 --time-ms 0 --output nowhere/table barrier
  has_facts "no folder" "$err" "--output|'nowhere/table'|No such file or directory"
  run 0 run -n 2 -- "$tutti" tune --time-ms 0 --output table barrier
  is "rules, within a job" "$(awk '/^[a-z]/ { print $1 }' table | sort -u | tr '\n' ' ')" "barrier "
}

# A job of several hosts measures algorithms by hosts, too, and its rules apply to as many hosts only.
test_hosts() {
  local rules
  # shellcheck disable=SC2016
  run 0 run -n 3 -- bash -c 'TUTTI_HOST=$((TUTTI_RANK % 2)) exec "$@"' - "$tutti" tune --time-ms 0 --bytes 8:1M:128 allreduce barrier
  for part in "3 ranks, 2 hosts of 2 and 1 ranks, not consecutive" "# re:direct/h+ar:ring+bc:direct/h" "# by_host"; do
    has "comments" "$out" "$part"
  done
  is "lines that are neither comments nor rules of 2 hosts" \
    "$(grep -cvE '^(#.*)?$|^(allreduce|barrier) +ranks=3 hosts=2( bytes<=[0-9]+[KMG]?)? +[^ ]+ +# [0-9.]+( to [0-9.]+)? us$' out.txt)" 0
  cp out.txt hosts
  rules=$(sed -n 's/^barrier.*hosts=2 *\([^ ]*\).*/\1/p' hosts)
  is "on two hosts" "$(TUTTI_TUNING=hosts "$tutti" info --hosts aba | awk '$1 == "barrier" { print $2 }')" "$rules"
  sed -i '/^barrier/d' hosts && echo "barrier hosts=2 tree" >>hosts
  is "a rule of two hosts" "$(TUTTI_TUNING=hosts "$tutti" info --hosts 2,1 | awk '$1 == "barrier" { print $2 }')" tree
  is "not on three" "$(TUTTI_TUNING=hosts "$tutti" info --hosts abc | awk '$1 == "barrier" { print $2 }')" by_host
  is "not on one" "$(TUTTI_TUNING=hosts selection barrier)" direct
}

# Ctrl-C, as a terminal sends it: no new file is left, the old file stays, and no rank is blamed.
test_interrupted() {
  local launcher i signal
  mkdir -p interrupted && echo before >interrupted/table
  for signal in INT TERM KILL; do
    rm -f err.txt
    setsid env --default-signal=INT "$tutti" tune -n 2 --time-ms 3000 --output interrupted/table allreduce >out.txt 2>err.txt &
    launcher=$!
    for ((i = 0; i < 1000; i++)); do grep -qs "algorithms at" err.txt && break || sleep 0.02; done
    kill -$signal -- -$launcher
    wait $launcher 2>/dev/null
    is "SIG$signal: status" $? $((128 + $(kill -l $signal)))
    is "SIG$signal: files" "$(ls interrupted)" table
    is "SIG$signal: the old file" "$(cat interrupted/table)" before
    [ $signal = KILL ] && continue
    has_facts "SIG$signal: message" "$(cat err.txt)" "tutti run: |signal $(kill -l $signal)"
    is "SIG$signal: lines that name a rank" "$(grep -c 'rank [0-9]' err.txt)" 0
  done
}

# A file that is not regular is written to, not replaced.
test_special_files() {
  mkfifo pipe
  cat pipe >copy &
  local reader=$!
  # `tutti tune` first opens the file only to check it. Descriptor 9 keeps the pipe open, so that the reader goes on.
  exec 9<>pipe
  run 0 tune -n 2 --time-ms 0 --bytes 64 --output pipe barrier
  exec 9>&-
  wait $reader
  [ -p pipe ] || complain "the pipe has been replaced by a file"
  is "rules, into a pipe" "$(awk '/^[a-z]/ { print $1 }' copy | sort -u | tr '\n' ' ')" "barrier "
}

test_usage() {
  local arguments facts
  while IFS='|' read -r arguments facts; do
    # shellcheck disable=SC2086
    run 2 tune $arguments
    has_facts "tune $arguments" "$err" "$facts"
    is "standard output of bad usage" "$out" ""
  done <<'TABLE'
allreduce|-n: |ranks
-n 1|-n: |at least 2
-n 2 alreduce|'alreduce'|'allreduce'
-n 2 allgatherv|allgatherv uses|allgather
-n 2 send|several algorithms|'send'
-n 2 --bytes 3:2|--bytes|256|sizes
-n 2 --bind socket|--bind|'socket'
-n 2 --outptu x|'--output'
TABLE
}

test_info() {
  printf '# mine\nallreduce ranks<=3 bytes<=1K reduce_broadcast\nallreduce bytes>=4K bytes<=8K ring\nallgatherv direct\n' >mine
  TUTTI_TUNING=mine run 0 info -n 3 --json
  has "the table's name" "$out" '"table": "mine"'
  is "a table" "$(TUTTI_TUNING=mine selection allreduce | cut -d, -f1)" "reduce_broadcast to 1 KiB"
  has "a table" "$(TUTTI_TUNING=mine selection allreduce)" ", ring"
  is "a vector variant" "$(TUTTI_TUNING=mine selection allgatherv)" "direct"
  is "forced" "$(TUTTI_TUNING=mine TUTTI_ALGORITHM=allreduce=direct,scan=chain selection allreduce)" "direct, forced"
  run 0 info -n 3
  has "no table" "$out" "table       built-in"
  run 0 info --json
  has "no table" "$out" '"table": null'
  run 0 run -n 5 -- "$tutti" info
  has "a job's ranks" "$out" "algorithms for 5 ranks"
  mkdir -p config/tutti && cp mine config/tutti/tuning
  out=$(unset TUTTI_TUNING && XDG_CONFIG_HOME=$PWD/config "$tutti" info)
  has "the default table" "$out" "table       $PWD/config/tutti/tuning, then built-in"
}

test_errors() {
  printf '\nallreduce rank<=4 ring\n' >broken
  TUTTI_TUNING=broken run 1 info
  has_facts "a broken table" "$err" "tutti info: broken:2: |ranks, hosts, groups, share, bytes or order|'rank<=4'|'ranks'"
  TUTTI_TUNING=missing run 1 bench -n 2 --time-ms 0
  has_facts "a missing table" "$err" "rank 0: |'missing'|No such file or directory"
  TUTTI_ALGORITHM=allreduce=rong run 1 info
  has_facts "an unknown algorithm" "$err" "tutti info: TUTTI_ALGORITHM|allreduce|'rong'|'ring'"
}

run_tests
