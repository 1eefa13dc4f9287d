#!/bin/bash
# test: slow timeout=600
# limits_test.sh SOURCE BUILD: the command refuses at once what is too large: plans of too many ranks, for every
# algorithm and verb, and files that are too large or not regular. It never ends by a signal, and never hangs.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# bounded ARGUMENTS...: runs the command for at most 60 s; sets `out`, `err` and `status`.
bounded() {
  timeout 60 "$tutti" "$@" >out.txt 2>err.txt </dev/null
  status=$?
  out=$(head -c 2000 out.txt | tr -d '\0') err=$(cat err.txt)
}

# Checks that the command succeeds, or refuses with an error message about the cost.
done_or_refused() {
  bounded "$@"
  case $status in
    0) ;;
    1)
      [[ "$err" == *" ranks "*" steps"*"limit"* ]] || complain "$*: '$err'"
      is "lines of $*" "$(wc -l <err.txt)" 1
      is "standard output of $*" "$out" ""
      ;;
    2) [[ "$err" == *"support"* ]] || complain "$*: '$err'" ;;
    *) complain "$*: status $status, '$err'" ;;
  esac
}

# All algorithms with 65,536 ranks, each with one verb, and some with fewer ranks. With TEST_LONG: all verbs and all
# numbers of ranks.
test_every_algorithm() {
  local verbs=(plan check sim) some=(2000 4096 16384) name ranks verb i=0
  for name in $("$tutti" list | awk '{ print $1 }') allreduce.rs:bucket/256+ar:ring+ag:bucket/256 \
    allreduce.re:rs_gather/7+rs:pat+ag:bruck+bc:direct/7 broadcast.bc:binomial+bc:chain/1000; do
    if [ -n "${TEST_LONG:-}" ]; then
      for verb in "${verbs[@]}"; do
        for ranks in 65536 "${some[@]}"; do done_or_refused "$verb" "$name" -n "$ranks" --max-seconds 2; done
      done
    else
      done_or_refused "${verbs[i % 3]}" "$name" -n 65536 --max-seconds 0.05
      [ $((i % 5)) -gt 0 ] || done_or_refused "${verbs[i / 5 % 3]}" "$name" -n "${some[i % 3]}" --max-seconds 0.05
    fi
    i=$((i + 1))
  done
}

test_what_the_message_says() {
  run 1 sim allreduce.ring -n 65536 --all-ranks
  has "another algorithm" "$err" "65536 ranks, allreduce."
  run 1 plan allreduce.ring -n 65536
  has_facts steps "$err" "tutti plan: allreduce.ring|65536 ranks|1.8e+10 steps"
  has "another algorithm" "$err" "65536 ranks, allreduce."
  # The number of ranks and the algorithm that the message suggests are not refused.
  run 1 plan allgather.bucket -n 65536 --max-seconds 1
  local ranks other
  ranks=$(sed -n 's/.* up to \([0-9]*\) ranks.*/\1/p' err.txt)
  other=$(sed -n 's/.* 65536 ranks, \([a-z_]*\.[a-z_]*\) .*/\1/p' err.txt)
  [ "${ranks:-0}" -gt 64 ] || complain "expected a number of ranks above 64, found '$ranks' in '$err'"
  run 0 plan allgather.bucket -n "$ranks" --max-seconds 1
  [ -n "$other" ] || complain "expected the name of another algorithm in '$err'"
  [ -z "$other" ] || run 0 plan "$other" -n 65536 --max-seconds 1
  run 1 plan allgather.pat -n 65536
  has "one rank" "$err" "--rank R"
  run 1 check -n 65536
  has_facts "all algorithms" "$err" "65536 ranks|limit"
  run 1 check allreduce.direct -n 2..65536
  has_facts "a range" "$err" "plans|limit"
  run 1 plan allgather.pat -n 4 --chunks 16777216 --max-seconds 1
  # With less memory.
  (ulimit -v 400000 && "$tutti" check allreduce.ring -n 1000) >out.txt 2>err.txt
  is "status within 400 MB" $? 1
  has "within 400 MB" "$(cat err.txt)" "free memory"
  # Few ranks are never refused.
  run 0 check allreduce.ring -n 2..8 --max-seconds 0
  run 0 plan allreduce.ring -n 4 --max-seconds 0
}

# The plan is printed rank by rank, while later ranks are still being made.
test_a_plan_is_shown_as_it_is_written() {
  "$tutti" plan allgather.bucket -n 600 2>err.txt | head -n 12 >out.txt
  is "the first line" "$(head -n 1 out.txt)" "tutti-plan 1"
  is "a step of rank 0" "$(tail -n 1 out.txt | cut -c1-7)" "    1: "
  "$tutti" plan allgather.bucket -n 70 >whole.plan && run 0 check whole.plan
}

# After 10 s, the command says on a terminal that it is still at work. It waits for standard input here.
test_what_takes_long_says_so() {
  [ -n "${TEST_LONG:-}" ] || { skip "takes 11 seconds; set TEST_LONG"; return; }
  command -v script >/dev/null || { skip "script(1) not found"; return; }
  mkfifo slow
  sleep 11 >slow & # keeps the pipe open
  script -qec "$tutti check - <slow" typescript >/dev/null 2>&1 </dev/null
  has_facts "on a terminal" "$(cat typescript)" "tutti check: 10 s|Ctrl-C"
  wait
}

# Every process of a job needs memory, so a job of too many ranks is refused.
test_a_job_of_too_many_ranks() {
  [ "$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)" -lt 300000 ] ||
    { echo "  skipped: this machine may have memory for 65,535 ranks"; return; }
  run 1 run -n 65535 -- true
  has "a job of 65,535 ranks" "$err" "tutti run: -n: "
}

# ---- files ----

# Calls each reader of files with PATH; prints the status and the error of each.
readers() {
  local path=$1
  bounded check "$path" && echo "$status check: $err"
  bounded plan "$path" && echo "$status plan: $err"
  bounded sim "$path" && echo "$status sim: $err"
  bounded topo "$path" && echo "$status topo: $err"
  bounded topo t3000 --soc "$path" && echo "$status soc: $err"
  bounded sim allgather.bucket --cluster t3000 --links "$path" && echo "$status links: $err"
  bounded sim --rows "$path" && echo "$status rows: $err"
  bounded as "$path" && echo "$status as: $err"
  bounded run -n 1 -- "$tutti" as program.pto --execute --arg "a=$path" && echo "$status npy: ${err%%$'\n'*}"
  TUTTI_TUNING=$path bounded info -n 2 && echo "$status tuning: $err"
}

test_what_is_no_file() {
  mkfifo pipe
  truncate -s 1G sparse.plan
  echo '.arg %a : !pto.memref<4xf32>' >program.pto
  local path kind line lines
  while read -r path kind; do
    lines=$(readers "$path")
    is "readers of $path" "$(wc -l <<<"$lines")" 10
    while read -r line; do
      [[ "$line" == [12]" "* ]] || complain "$path: '$line'"
      [[ "$line" == *"$path"*"$kind"* ]] || complain "$path: expected '$kind', got '$line'"
    done <<<"$lines"
  done <<END
$scratch/pipe a pipe
/dev/zero a device
$scratch a folder
$scratch/sparse.plan 1073741824 bytes
END
}

test_standard_input() {
  "$tutti" plan broadcast.binomial -n 4 | "$tutti" check - >out.txt 2>&1
  is "status of a plan from a pipe" $? 0
  timeout 60 "$tutti" topo - </dev/zero >out.txt 2>err.txt
  is "status of /dev/zero as standard input" $? 1
  has_facts "/dev/zero as standard input" "$(cat err.txt)" "'standard input'|64 MiB"
  TUTTI_TUNING=- bounded info -n 2
  has_facts "TUTTI_TUNING=-" "$err" "TUTTI_TUNING|'-'"
}

# Every error message about a file's contents names the file and the line; here, the third line is wrong.
test_lines() {
  local reader text
  bad() { # STATUS ARGUMENTS..., with FILE in place of the file's name; the file's text is standard input
    local expected=$1
    shift
    cat >bad.file
    bounded "${@/FILE/bad.file}"
    is "status of $*" "$status" "$expected"
    [[ "$out$err" =~ bad\.file:3(:[0-9]+)?: ]] || complain "$*: expected line 3 in '$out$err'"
  }
  printf 'tutti-plan 1\n\ncollective soup\n' | bad 1 check FILE
  printf 'tutti-plan 1\n\ncollective soup\n' | bad 1 plan FILE
  printf 'tutti-plan 1\n\ncollective soup\n' | bad 1 sim FILE
  printf '<algo name="x" nchannels="1" nchunksperloop="2" proto="Simple"\n ngpus="2" coll="allgather" inplace="0" outofplace="1">\n<cpu id="0"/></algo>\n' | bad 1 check FILE
  printf 'arch: {0: w}\n\nethernet_connections: 3\n' | bad 1 topo FILE
  printf 'arch: {0: w}\nx: y\nz: \xff\n' | bad 1 topo FILE
  printf 'ChipSpec: {ethernet_ports: {N: 1, E: 1, S: 1, W: 1}}\nBoard: [{name: B, topology: [60000, 1]}]\nMesh: [{id: 0, board: B, topology: [60000, 1]}]\n' |
    bad 1 topo FILE
  printf 'grid: {x_size: 2, y_size: 2}\nfunctional_workers: []\neth: [7-7]\n' | bad 1 topo t3000 --soc FILE
  printf 'bandwidth 1 GB/s\n\nlatency 3 apples\n' | bad 1 sim allgather.bucket --cluster t3000 --links FILE
  printf 'latency 3 us\n\n' | bad 1 sim allgather.bucket --cluster t3000 --links FILE
  printf '# rows\nbenchmark,bytes,channels,hops,part,value,unit,error,tolerance,use\nx\n' | bad 1 sim --rows FILE
  printf '\n\n.arg %%a : soup\n' | bad 1 as FILE
  printf '# table\n\nallreduce soup\n' >bad.file
  TUTTI_TUNING=bad.file bounded info -n 2
  has "a selection table" "$err" "bad.file:3: "
}

# A short mesh graph may have 65,536 chips. The command needs little memory for it, or refuses.
test_small_files_cost_little() {
  cat >large.yaml <<'END'
ChipSpec: {arch: x, ethernet_ports: {N: 1, E: 1, S: 1, W: 1}}
Board: [{name: b, type: TORUS_2D, topology: [256, 256]}]
Mesh: [{id: 0, board: b, topology: [1, 1]}]
END
  local arguments
  while read -r arguments; do
    # shellcheck disable=SC2086
    (ulimit -v 700000 && timeout 60 "$tutti" $arguments) >out.txt 2>err.txt
    status=$?
    [ $status -le 1 ] || complain "$arguments: status $status, '$(head -c 300 err.txt)'"
  done <<'END'
topo large.yaml
sim barrier.dissemination --cluster large.yaml
sim allgather.bucket --cluster large.yaml
plan allgather --cluster large.yaml
check allreduce.ring --cluster large.yaml
END
  run 1 sim allgather.bucket --cluster t3000 --links plain --credits 4000000000
  has_facts credits "$err" "8 channels|4000000000 slots|2^27 slots"
}

run_tests
