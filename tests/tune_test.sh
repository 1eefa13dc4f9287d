#!/bin/bash
# tune_test.sh SOURCE BUILD: what `tutti tune` writes is what the library reads and `tutti info` shows; broken tables and
# variables are errors with their place.
# test: fast timeout=120
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_RANK TUTTI_RANK TUTTI_WORLD_SIZE TUTTI_MASTER_ADDR \
  TUTTI_MASTER_PORT TUTTI_LOCAL_RANK TUTTI_SECRET TUTTI_ALGORITHM
export TUTTI_TUNING=none
# The line of a collective in `tutti info`, blanks squeezed.
selection() { "$tutti" info -n 3 2>&1 | awk -v c="$1" '$1 == c { $1 = ""; print substr($0, 2) }'; }

test_tune() {
  run 0 tune -n 3 --time-ms 0 --bytes 8:128:4 allreduce broadcast barrier
  has progress "$err" "tutti tune: allreduce: "
  for part in "Measured by tutti tune $("$tutti" --version | awk '{ print $2 }'): 3 ranks" "# Machine: Linux" \
    "# allreduce, microseconds by bytes:"; do has comments "$out" "$part"; done
  is "lines that are neither comments nor rules of 3 ranks" \
    "$(grep -cvE '^(#.*)?$|^(allreduce|broadcast|barrier) +ranks=3( bytes<=[0-9]+[KMG]?)? +[^ ]+ +# [0-9.]+( to [0-9.]+)? us$' out.txt)" 0
  is "collectives" "$(awk '/^[a-z]/ { print $1 }' out.txt | sort -u | tr '\n' ' ')" "allreduce barrier broadcast "
  # Each collective's last rule has no upper end, and is what info shows last.
  local collective
  for collective in allreduce broadcast barrier; do
    is "$collective, in info" "$(TUTTI_TUNING=out.txt selection $collective | sed 's/.* //')" \
      "$(awk -v c=$collective '$1 == c && !/bytes/ { print $3; exit }' out.txt)"
  done
  has "table" "$(TUTTI_TUNING=out.txt "$tutti" info)" "table       out.txt, then built-in"
  TUTTI_TUNING=out.txt run 0 bench -n 3 allreduce broadcast --bytes 8:128:4 --time-ms 0
}

test_all_collectives() {
  run 0 tune -n 2 --time-ms 0 --bytes 64 --output table
  is "standard output" "$out" ""
  is "what is left" "$(echo table*)" table
  is "collectives" "$(awk '/^[a-z]/ { print $1 }' table | sort -u | wc -l)" \
    "$("$tutti" list | grep -v '^send' | awk -F. '{ n[$1]++ } END { for (c in n) m += n[c] > 1; print m }')"
  TUTTI_TUNING=$PWD/table run 0 info -n 2
  cp table before
  TUTTI_TUNING=none run 1 tune -n 2 --time-ms 0 --output nowhere/table barrier
  has "no folder" "$err" "--output: cannot write 'nowhere/table': No such file or directory"
  run 0 run -n 2 -- "$tutti" tune --time-ms 0 --output table barrier
  is "rules, within a job" "$(awk '/^[a-z]/ { print $1 }' table | sort -u | tr '\n' ' ')" "barrier "
}

# Ctrl-C, as a terminal sends it: nothing is left, what was there stays, and nobody is accused.
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
    is "SIG$signal: what is left" "$(ls interrupted)" table
    is "SIG$signal: what was there" "$(cat interrupted/table)" before
    [ $signal = KILL ] && continue
    has "SIG$signal: words" "$(cat err.txt)" "tutti run: interrupted from outside by signal $(kill -l $signal)"
    is "SIG$signal: accused" "$(grep -c 'rank [0-9]' err.txt)" 0
  done
}

# What is no regular file is written to, not replaced.
test_special_files() {
  mkfifo pipe
  cat pipe >copy &
  local reader=$!
  # The reader ends when the writer that looks whether it can be written closes: one that stays keeps the pipe open.
  exec 9<>pipe
  run 0 tune -n 2 --time-ms 0 --bytes 64 --output pipe barrier
  exec 9>&-
  wait $reader
  [ -p pipe ] || complain "the pipe has become a file"
  is "rules, into a pipe" "$(awk '/^[a-z]/ { print $1 }' copy | sort -u | tr '\n' ' ')" "barrier "
}

test_usage() {
  local arguments message
  while IFS='|' read -r arguments message; do
    # shellcheck disable=SC2086
    run 2 tune $arguments
    has "tune $arguments" "$err" "$message"
    is "standard output of bad usage" "$out" ""
  done <<'TABLE'
allreduce|-n N is needed
-n 1|-n N is needed, the number of ranks to start, 2 at least
-n 2 alreduce|found 'alreduce'; did you mean 'allreduce'?
-n 2 allgatherv|allgatherv: the rules of allgather serve it; name that
-n 2 send|there is nothing to choose
-n 2 --bytes 3:2|--bytes: expected up to 256 ascending sizes
-n 2 --bind socket|found 'socket'
-n 2 --outptu x|did you mean '--output'?
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
  has "a job's ranks" "$out" "algorithms of 5 ranks"
  mkdir -p config/tutti && cp mine config/tutti/tuning
  out=$(unset TUTTI_TUNING && XDG_CONFIG_HOME=$PWD/config "$tutti" info)
  has "by default" "$out" "table       $PWD/config/tutti/tuning, then built-in"
}

test_errors() {
  printf '\nallreduce rank<=4 ring\n' >broken
  TUTTI_TUNING=broken run 1 info
  is "a broken table" "$err" \
    "tutti info: broken:2: expected a condition on ranks, groups, share or bytes, found 'rank<=4'; did you mean 'ranks'?"
  TUTTI_TUNING=missing run 1 bench -n 2 --time-ms 0
  has "a missing table" "$err" "rank 0: selection table: cannot open 'missing': No such file or directory"
  TUTTI_ALGORITHM=allreduce=rong run 1 info
  is "an unknown algorithm" "$err" \
    "tutti info: TUTTI_ALGORITHM: expected an algorithm of allreduce, found 'rong'; did you mean 'ring'?"
}

run_tests
