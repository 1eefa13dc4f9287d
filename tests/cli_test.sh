#!/bin/bash
# cli_test.sh SOURCE BUILD: tests `tutti list`, `plan`, `check` and `sim`: what they print on which output, and exit
# statuses.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

test_list() {
  run 0 list
  is "standard error" "$err" ""
  has list "$out" "allreduce.ring "
  is "lines that are not algorithms" \
    "$(grep -cvE '^[a-z_]+\.[a-z_]+ +(any N|N a multiple of [0-9]+|N = 2)(, [a-zN ]+)*  +.+$' out.txt)" 0
  is "one line per algorithm" \
    "$(awk '{ print $1 }' out.txt | sort -u | wc -l)" "$(ls "$source"/src/algo/*_*.c | grep -vc _test)"
  local lines
  lines=$(wc -l <out.txt)
  run 0 list --json
  is "JSON lines" "$(grep -cE '^\{"version": 1, "verb": "list", "collective": "[a-z_]+", "name": "[a-z_]+", .*"summary": ".*"\}$' out.txt)" "$lines"
  run 0 list allgatherv
  is "lines that are not of allgather" "$(grep -cv '^allgather\.' out.txt)" 0
  run 2 list allgater
  has nearest "$err" "'allgather'"
}

# Names of other libraries stand for names of this one.
test_aliases() {
  local alias name type
  while read -r alias name; do
    run 0 list "$alias"
    cp out.txt alias.txt
    run 0 list "$name"
    is "$alias is $name" "$(cat alias.txt)" "$(cat out.txt)"
  done <<'TABLE'
all_reduce.ring allreduce.ring
bcast broadcast
all_gather allgather
all_gatherv allgatherv
reducescatter reduce_scatter
reduce_scatter_block.bucket reduce_scatter.bucket
all_to_all alltoall
all_to_allv alltoallv
TABLE
  while read -r alias type; do
    run 0 layout --shape 4x4 --dtype "$alias"
    has "$alias is $type" "$out" "# $type 4x4"
  done <<'TABLE'
int8 i8
uint8 u8
int16 i16
uint16 u16
int32 i32
uint32 u32
int64 i64
uint64 u64
half f16
float16 f16
bfloat16 bf16
float f32
float32 f32
double f64
float64 f64
float8_e4m3 f8e4m3
float8_e5m2 f8e5m2
TABLE
  run 0 plan all_reduce.ring -n 2
  has plan "$out" "collective allreduce"
  run 0 check all_gather.bruck -n 2
  run 0 sim bcast.binomial -n 4
  run 0 slices --shape 2x12 --ranks 4 --dtype float --max-bytes 4K
  run 0 info --reshard "S0 R" "R S1" --mesh 2x4 --shape 64x128 --type half
  run 2 list all_reduce.rung
  has nearest "$err" "'allreduce.ring'"
  run 2 tune -n 2 all_gatherr
  has "nearest of tune" "$err" "'allgather'"
  run 2 layout --shape 4x4 --dtype int
}

# --hosts: the plan of ranks on several hosts. What is selected for them is proved.
test_hosts() {
  local place name arguments facts
  run 0 plan gather.direct --hosts aba
  has "the program's numbers" "$out" "1: recv from 2 into out[2]"
  run 0 plan broadcast.bc:chain+bc:direct/h --hosts 2,1,2 --root 3 --as svg
  has picture "$out" "<svg"
  run 0 sim barrier.by_host --hosts 4,4,4 --alpha 1
  has "two rounds between three hosts" "$out" "critical chain  8 messages"
  for place in 2,2 abab 3,1 abcab 1,1,1; do
    run 0 info --hosts $place
    has "head of info" "$out" "hosts ($place)"
    for name in $(awk '/^algorithms/ { on = 1; next } !NF { on = 0 } on && $1 !~ /v$/' out.txt |
      awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^[a-z_]+[:a-z_+\/]*,?$/ && $i != "to") print $1 "." $i }' | tr -d ,); do
      run 0 check "$name" --hosts $place
      has "$name on $place" "$out" "plans proved, 0 refused"
    done
  done
  while IFS='|' read -r arguments facts; do
    # shellcheck disable=SC2086
    run 2 $arguments
    has_facts "$arguments" "$err" "$facts"
  done <<'TABLE'
plan allreduce.ring --hosts 4,x|--hosts: |(4,4)|(abab)|'4,x'
plan allreduce.ring --hosts 2,2 -n 5|--hosts: |5 ranks|have 4
plan allreduce.ring --hosts 1024,1|--hosts: |1024 ranks|1025
plan allreduce.ring --hosts 2,2 --cluster t3000|--hosts|--cluster
plan allreduce.rs:direct/h+ar:ring+ag:direct/h -n 4|/h|--hosts
plan allreduce.rs:direct/h+ar:ring+ag:direct/h --hosts 3,1|same number of ranks
plan allreduce.re:direct/h+ar:ring+bc:direct/h --hosts 4|/h|--hosts
check ring --hosts 2,2|'ring'
check --hosts 2,2 -n 4|--hosts|-n
check --hosts 2,,2|--hosts: |'2,,2'
sim allreduce.ring --hosts 2,2 -n 3|--hosts: |3 ranks|have 4
info --hosts 300,300|600|512
TABLE
}

test_plan() {
  run 0 plan gather.direct -n 2
  is "standard error" "$err" ""
  is "a plan's text" "$out" "tutti-plan 1
collective gather
algorithm direct
ranks 2
root 0
split 1
in_place no
equal_blocks no
rank_order no
rank 0
    0: copy in[0] into out[0]
    1: recv from 1 into out[1]
rank 1
    0: send in[0] to 0"
  run 0 plan gatherv.direct -n 3 --root 2 --rank=1
  has root "$out" "root 2"
  is "one rank's steps" "$(grep -c '^rank [0-9]' out.txt)" 1
  has "one rank's steps" "$out" "rank 1
    0: send in[0] to 2"
  run 0 plan allreduce.ring -n 4 --in-place
  has "in place" "$out" "in_place yes"
  run 2 plan allreduce -n 4
  run 2 plan allreduce.ring
  run 2 plan allreduce.ring -n 0
  run 2 plan allreduce.ring -n 4 --root 1
  run 2 plan gather.direct -n 4 --root 4
  run 2 plan gather.direct -n 4 --rank 4
  run 2 plan send.direct -n 3
  is "standard output of bad usage" "$out" ""
  run 2 plan allreduce.rong -n 4
  has nearest "$err" "'allreduce.ring'"
  run 2 plan allreduce.rs:direct/g+ar:ring+ag:direct/g -n 4
  has_facts "groups without a size" "$err" "groups|/4"
  run 2 plan allreduce.ring -n 4 --rooot 1
  has nearest "$err" "'--root'"
  run 2 plan allreduce.ring -n four
  has_facts "not a number" "$err" "-n: |integer"
  run 2 plan allreduce.ring -n
  has_facts "no value" "$err" "-n: |N is missing"
}

test_plan_forms() {
  run 0 plan allreduce.ring -n 4 --json
  is "standard error" "$err" ""
  has "messages and rounds" "$out" '"messages": 24, "rounds": 6'
  run 0 plan allreduce.ring -n 4 --as svg
  is "arrows" "$(grep -c 'data-message=' out.txt)" 24
  run 0 plan reduce.binomial -n 4 --as=html
  has "a page" "$out" "<!DOCTYPE html>"
  run 0 plan allgather.bucket -n 4 --as text --slot-pieces 2 --depth 4 --chunks 2
  has "the text form" "$out" "tutti-plan 1"
  run 2 plan allreduce.ring -n 4 --as svq
  has nearest "$err" "'svg'"
  run 2 plan allreduce.ring -n 4 --rank 1 --as svg
  has_facts "one rank's picture" "$err" "--rank|--as text"
}

test_plan_files() {
  "$tutti" plan scan.chain -n 4 >good.plan
  run 0 plan good.plan
  is "a plan's text again" "$out" "$(cat good.plan)"
  "$tutti" plan scan.chain -n 4 --json >expected.txt
  run 0 plan good.plan --json
  is "a plan's data" "$out" "$(cat expected.txt)"
  run 2 plan good.plan -n 4
  has "a number of ranks" "$err" "good.plan"
  sed 's/recv_reduce @2/recv_reduce @1/' good.plan >bad.plan
  run 1 plan bad.plan --as svg
  has_facts "a plan that is refused" "$err" "bad.plan: |refused|rank 3"
  is "standard output" "$out" ""
  run 2 plan ./no/such.plan
  has "no such file" "$err" "'./no/such.plan'"
}

test_check_names() {
  run 0 check allreduce -n 2..4
  is "summary" "$(grep -cE '^[0-9]+ plans proved, 0 refused$' out.txt)" 1
  is "standard error" "$err" ""
  # Three numbers of ranks, in place and out of place.
  run 0 check allreduce.ring -n 2..4
  is "plans of one algorithm" "$(tail -n 1 out.txt)" "6 plans proved, 0 refused"
  # All roots for 2, 3 and 4 ranks (9 roots), in place and out of place.
  run 0 check gatherv.direct -n 2..4 --credits 3
  is "plans of an algorithm with a root" "$(tail -n 1 out.txt)" "18 plans proved, 0 refused"
  run 0 check allreduce.direct --order canonical -n 2..5
  is "plans of the canonical order" "$(tail -n 1 out.txt)" "8 plans proved, 0 refused"
  has "the order of plans" "$out" "order of reduction: canonical 8, uniform 0, by chunk 0"
  run 0 check allreduce.ring --order canonical -n 3..9
  is "no plan of the canonical order" "$(tail -n 1 out.txt)" "0 plans proved, 0 refused"
  run 2 check --order sorted
  has "an unknown order" "$err" "--order: expected any or canonical, found 'sorted'"
  run 0 plan reduce.direct -n 3 --order canonical
  has "a canonical plan" "$out" "order canonical"
  has "a tree" "$out" "recv_reduce first in[0] + @1 + @2 into out[0] tree final"
  run 2 plan allreduce.ring -n 3 --order canonical
  has "no canonical plan" "$err" "has no plan of that order for 3 ranks"
  # Five ranks: the last has no partner at distance 1, and is not folded away.
  run 0 sim allreduce.recursive_doubling -n 5 --json
  has "messages in any order" "$out" '"messages": 10,'
  run 0 sim allreduce.recursive_doubling -n 5 --order canonical --json
  has "messages in canonical order" "$out" '"messages": 13,'
  run 2 sim allreduce.ring -n 3 --order canonical
  has "no canonical plan" "$err" "has no plan of that order for 3 ranks"
  run 0 check -n 2..12
  is "a long count" "$(tail -n 1 out.txt | grep -cE '^[0-9],[0-9]{3} plans proved, 0 refused$')" 1
  run 0 check -n 5
  has "what is proved" "$out" "proved: every output"
  run 2 check -n 4..2
  run 2 check -n 0..2
  run 2 check -n 2..x
  run 2 check --credits 0
  run 2 check allreduce.rung
  has nearest "$err" "'allreduce.ring'"
  run 2 check ring
  has "an algorithm without its collective" "$err" "did you mean 'allreduce.ring'?"
  for file in ./no/such.plan such.plan such.xml; do
    run 2 check $file
    has "no such file" "$err" "cannot read the file '$file': No such file"
  done
  is "output before an invalid argument" "$out" ""
}

test_check_files() {
  "$tutti" plan allreduce.recursive_doubling -n 5 >good.plan
  run 0 check good.plan
  is "a good file" "$(tail -n 1 out.txt)" "1 plans proved, 0 refused"
  "$tutti" check - <good.plan >out.txt
  is "standard input" "$(tail -n 1 out.txt)" "1 plans proved, 0 refused"
  sed 's/ final//' good.plan >bad.plan
  run 1 check good.plan bad.plan
  has_facts "a line for each failure" "$out" "bad.plan: rank 0: |out[0]"
  is "summary" "$(tail -n 1 out.txt)" "1 plans proved, 1 refused"
  sed '12s/send/sent/' good.plan >worse.plan
  run 1 check worse.plan
  has "file and line" "$out" "worse.plan:"
  is "summary" "$(tail -n 1 out.txt)" "0 plans proved, 1 refused"
  "$tutti" plan allreduce.ring -n 3 --rank 1 >part.plan
  run 1 check part.plan
  has_facts "one rank's plan" "$out" "part.plan:10: |from 0 to 0|'1'"
}

# A plan with several lanes: each lane is a copy of the algorithm.
test_lanes() {
  run 0 plan broadcast.binomial -n 2 --lanes 3 --rank 0
  is "the root's steps" "$(sed -n '/^rank 0/,$p' out.txt)" "rank 0
    0: send in[0] to 1
    1: copy in[0] into out[0]
    2: send in[1] to 1 lane 1
    3: copy in[1] into out[1] lane 1
    4: send in[2] to 1 lane 2
    5: copy in[2] into out[2] lane 2"
  run 0 plan allreduce.bidirectional_ring -n 4 --lanes 4
  is "lanes of 4 times two directions" "$(grep -o 'lane [0-9]' out.txt | sort -u | tr '\n' ' ')" \
    "lane 1 lane 2 lane 3 lane 4 lane 5 lane 6 lane 7 "
  "$tutti" plan alltoall.bruck -n 5 --lanes 2 | "$tutti" check - >out.txt 2>err.txt
  is "a plan of two lanes, read back" "$(tail -n 1 out.txt)" "1 plans proved, 0 refused"
  run 0 check allgather.bruck allreduce.bidirectional_ring -n 2..5 --lanes 4
  is "proofs" "$(tail -n 1 out.txt)" "16 plans proved, 0 refused"
  run 0 check allgather.bruck allreduce.bidirectional_ring barrier -n 2..5 --lanes 5
  is "proofs of the algorithms with 5 lanes" "$(tail -n 1 out.txt)" "8 plans proved, 0 refused"
  run 0 sim allreduce.ring -n 4 --lanes 2 --bytes 1M --json
  has "messages" "$out" '"messages": 48,'
  run 2 plan allreduce.bidirectional_ring -n 4 --lanes 5
  has_facts "too many" "$err" "--lanes|allreduce.bidirectional_ring|at most 4|found 5"
  run 2 plan barrier.direct -n 4 --lanes 1
  has_facts "a barrier" "$err" "--lanes|barrier.direct|at most 0|found 1"
  run 2 check --lanes 9
  has_facts "too many" "$err" "--lanes|1 to 8|found 9"
  "$tutti" plan allreduce.ring -n 2 >ring.plan
  run 2 sim ring.plan --lanes 2
  has "lanes for a file" "$err" "ring.plan"
  run 2 sim ring.plan --order canonical
  has_facts "an order for a file" "$err" "--order|ring.plan"
  run 2 plan ring.plan --lanes 2
  has_facts "lanes for a file" "$err" "--lanes|ring.plan"
  run 2 plan allgather.pat -n 4 --steps --lanes 2
  has_facts "steps and lanes" "$err" "--steps|one lane"
  run 2 plan allgather.pat -n 4 --steps --rank 1
  has_facts "steps of one rank" "$err" "--steps|all ranks"
  run 2 plan allgather.pat -n 4 --steps --as html
  has_facts "steps as a page" "$err" "--steps|--as"
  run 2 plan ring.plan --steps
  has_facts "steps of a file" "$err" "--steps|ring.plan"
  run 0 plan reduce_scatter.pat -n 4 --steps
  # The man page describes every column.
  local column
  for column in $(head -1 out.txt | tr ',' ' '); do
    grep -qE "^\.It Cm (.* )?$column( |\$)" "$source/docs/man/tutti-plan.1"
    is "$column is in the man page" $? 0
  done
}

test_sim() {
  run 0 sim allreduce.ring -n 4 --bytes 4000 --alpha 1e-6 --beta 1e-9 --gamma=.5e-9
  is "standard error" "$err" ""
  is "a table" "$out" "allreduce.ring, 4 ranks, 3.906 KiB; alpha 1 us, beta 1 ns/B, gamma 0.5 ns/B
  time            13.5 us
  messages        24
  bytes sent      5.859 KiB by the rank that sends most
  critical chain  6 messages, 5.859 KiB sent, 2.93 KiB reduced
  of the time     6 us alpha, 6 us beta, 1.5 us gamma"
  run 0 sim allreduce.ring -n 4 --bytes 4000 --alpha 1e-6 --beta 1e-9 --gamma 5e-10 --json
  is "JSON" "$out" '{"version": 1, "verb": "sim", "collective": "allreduce", "algorithm": "ring", "ranks": 4, "bytes": 4000, "time_s": 1.35e-05, "messages": 24, "bytes_sent_max": 6000, "critical_messages": 6}'
  local all
  all=$out
  run 0 sim allreduce.ring -n 4 --bytes 4000 --alpha 1e-6 --beta 1e-9 --gamma 5e-10 --json --all-ranks
  is "all ranks give the same result as one rank" "$out" "$all"
  run 0 sim broadcast.binomial -n 5 --root 3 --bytes 1K --alpha 2 --beta 0 --json
  has "a root" "$out" '"time_s": 6, "messages": 4, "bytes_sent_max": 3072, "critical_messages": 3'
  run 0 sim barrier.dissemination -n 4096 --alpha 1 --json
  has "many ranks" "$out" '"time_s": 12, "messages": 49152, "bytes_sent_max": 0, "critical_messages": 12'
  run 0 sim allreduce.ring -n 4
  has "defaults are printed" "$out" "1 MiB; alpha 1 us, beta 0.08 ns/B, gamma 0.05 ns/B"
  run 2 sim allreduce -n 4
  run 2 sim allreduce.ring
  run 2 sim allreduce.ring -n 4 --root 1
  run 2 sim -n 4
  run 2 sim allreduce.rung -n 4
  has nearest "$err" "'allreduce.ring'"
  run 2 sim allreduce.ring -n 4 --alpha -1
  has_facts "not a number" "$err" "--alpha|>= 0|'-1'"
  run 2 sim allreduce.ring -n 4 --alpha 1e308
  has "overflow" "$err" "overflow"
  is "standard output of bad usage" "$out" ""
}

test_sim_files() {
  "$tutti" plan reduce.binomial -n 4 --root 2 >good.plan
  run 0 sim good.plan --bytes 100 --alpha 1 --beta 1 --gamma 1 --json
  is "a good file" "$out" '{"version": 1, "verb": "sim", "collective": "reduce", "algorithm": "binomial", "ranks": 4, "bytes": 100, "time_s": 402, "messages": 3, "bytes_sent_max": 100, "critical_messages": 2}'
  local named
  named=$out
  "$tutti" sim - -n 4 --bytes 100 --alpha 1 --beta 1 --gamma 1 --json <good.plan >out.txt
  is "standard input" "$(cat out.txt)" "$named"
  run 0 sim reduce.binomial --root 2 -n 4 --bytes 100 --alpha 1 --beta 1 --gamma 1 --json
  is "the algorithm by name" "$out" "$named"
  sed 's/ final//' good.plan >bad.plan
  run 1 sim bad.plan
  has_facts "a plan that check refuses" "$err" "bad.plan: rank 2: |out[0]"
  sed 's/send/sent/' good.plan >worse.plan
  run 1 sim worse.plan
  has "file and line" "$err" "worse.plan:1"
  run 2 sim good.plan -n 5
  has_facts "another number of ranks" "$err" "4 ranks|5"
  run 2 sim good.plan --root 1
  run 2 sim ./no/such.plan
  has "no such file" "$err" "./no/such.plan"
}

test_msccl_files() {
  local file=$source/tests/fuzz_seeds/msccl/alltoall_direct_3.xml
  run 0 check "$file"
  is "an MSCCL algorithm" "$(tail -n 1 out.txt)" "1 plans proved, 0 refused"
  run 0 plan "$file"
  is "its text form" "$(head -2 out.txt | tr '\n' ' ')" "tutti-plan 1 collective alltoall "
  cp out.txt text.plan
  run 0 check text.plan
  run 0 plan "$file" --json
  run 2 plan text.plan --rank 2
  run 2 plan text.plan -n 3
  sed 's/inplace="0"/inplace="1"/' "$file" >both.xml
  run 0 plan both.xml --in-place
  has "the plan for calls in place" "$out" "in_place yes"
  sed 's/type="r"/type="recv"/' "$file" >bad.xml
  run 1 check bad.xml
  has_facts "line, element, attribute" "$out" "bad.xml:8: <step>|'type'|s, r, rcs, rrs"
  run 1 plan bad.xml
  has "line and element" "$err" "tutti plan: bad.xml:8: <step>"
  run 0 plan "$source"/tests/fuzz_seeds/msccl/reduce_chain_3.xml
  "$source"/tools/msccl-examples made
  diff -r made "$source"/tests/fuzz_seeds/msccl >/dev/null ||
    complain "tests/fuzz_seeds/msccl differs from what tools/msccl-examples makes"
}

# json_of VERB ARGUMENTS...: runs a verb with --json, and adds its objects to VERB.objects, one per line.
json_of() {
  run 0 "$@" --json
  python3 -c '
import json, sys
text = open("out.txt").read()
try: objects = [json.loads(text)]
except ValueError: objects = [json.loads(line) for line in text.splitlines()]
assert objects
for found in objects:
    assert list(found)[:2] == ["version", "verb"] and found["version"] == 1 and found["verb"] == sys.argv[1]
    print(json.dumps(found))
' "$1" >>"$1.objects" 2>/dev/null || complain "$*: not JSON, or without version and verb: $(head -c 200 out.txt)"
}

# Compares the fields of VERB.objects with the man page: all fields are in the page, and all fields of its section DATA
# have been seen.
fields_are_documented() {
  python3 -c '
import json, re, sys
verb, page = sys.argv[1], open(sys.argv[2]).read()
def words(lines): return {w for line in lines for w in re.findall(r"[a-z][a-z0-9_]*", line)}
documented = words(re.findall(r"^\.(?:It )?Cm (.*)$", page, re.M))
data = re.search(r"^\.Sh DATA$(.*?)^\.Sh ", page, re.M | re.S)
promised = words(re.findall(r"^\.It Cm (.*)$", data.group(1), re.M)) if data else set()
seen = set()
def collect(value):
    if isinstance(value, list):
        for item in value: collect(item)
    if isinstance(value, dict):
        seen.update(value)
        for key, item in value.items():
            if key != "environment": collect(item)
for line in open(verb + ".objects"): collect(json.loads(line))
for what, names in (("not in the page", seen - documented), ("not seen", promised - seen)):
    if names: print(f"  {verb}: fields that are {what}: {chr(32).join(sorted(names))}")
sys.exit(bool(seen - documented or promised - seen))
' "$1" "$source/docs/man/tutti-$1.1" || complain "fields of $1"
}

# Every verb prints its data with --json, or says why it has none.
test_json() {
  local verb i
  command -v python3 >/dev/null || { skip "python3 not found" && return; }
  json_of list
  json_of plan reduce_scatter.pat -n 4
  json_of check allreduce barrier -n 2..4
  printf 'tutti-plan 1\ncollective barrier\n' >broken.plan
  "$tutti" check broken.plan --json >out.txt 2>err.txt
  is "a refused plan: status" $? 1
  has "a refused plan" "$(cat out.txt)" '"refusals": [{"plan": null, "reason": "broken.plan:'
  cat out.txt >>check.objects
  json_of sim allreduce.ring -n 4
  json_of sim allreduce.ring --cluster ring:4
  json_of sim --rows "$source/src/sim/wormhole_rows.csv"
  json_of info -n 3
  json_of info --fabrics
  json_of info --reshard "S0 S1" "S1 S0" --mesh 2x4 --shape 64x64
  json_of layout --shape 2x4
  json_of slices --shape 2x8 --ranks 2
  json_of topo t3000
  json_of topo t3000 --walk 4
  json_of topo ring:4 --routes 3-1,0-2
  json_of tune -n 2 --time-ms 0 --bytes 8,64 barrier allreduce
  json_of bench -n 2 --bytes 8 --time-ms 0
  json_of bench kernels --bytes 4K --dtype f32 --time-ms 0
  "$tutti" run -n 2 -- "$build/tests/troubled" sleeps 1 "$PWD/there" >/dev/null 2>&1 &
  for ((i = 0; i < 500; i++)); do [ -e there ] && break || sleep 0.02; done
  json_of top $!
  kill $! && wait $! 2>/dev/null
  TUTTI_TRACE=traces run 0 run -n 2 -- "$tutti" bench barrier --time-ms 0
  json_of trace traces
  for verb in list plan check sim info layout slices topo tune bench top trace; do fields_are_documented $verb; done
  # Every verb has been asked, or refuses the option.
  for verb in $("$tutti" help | awk '/^  / { print $1 }'); do
    [ -s "$verb.objects" ] && continue
    run 2 "$verb" --json
    has "$verb has no data" "$err" "tutti $verb: there is no --json: it "
  done
  for verb in "plan barrier.direct -n 2" "layout --shape 2" "topo ring:3"; do
    # shellcheck disable=SC2086
    run 2 $verb --json --as svg
    has_facts "two forms" "$err" "--json|--as svg"
    # shellcheck disable=SC2086
    run 0 $verb --as json
    has "an older name" "$out" '{"version": 1, "verb": "'
  done
}

# The measurements as JSON leave the table to --output.
test_tune_json() {
  run 0 tune -n 2 --time-ms 0 --bytes 8 barrier --json --output table
  has "the table" "$(cat table)" "barrier"
  has "the measurements" "$out" '"collective": "barrier", "bytes": [0], "chosen": ["'
}

# suggest WORD...: what bash suggests for the last word.
suggest() {
  (
    # shellcheck disable=SC1091
    . ./completion.bash
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _tutti
    echo "${COMPREPLY[*]}"
  )
}

test_completion() {
  local verb option shown
  run 0 completion bash
  is "standard error" "$err" ""
  cp out.txt completion.bash
  bash -n completion.bash 2>err.txt || complain "not bash: $(cat err.txt)"
  # A build for another machine has none, because it cannot start the command.
  [ ! -d "$build/completion" ] || is "an installed script" "$(diff completion.bash "$build/completion/tutti" 2>&1)" ""
  is "verbs" "$(suggest tutti '' | tr ' ' '\n' | sort | tr '\n' ' ')" \
    "$({ echo help; "$tutti" help | awk '/^  / { print $1 }'; } | sort | tr '\n' ' ')"
  is "a verb" "$(suggest tutti be)" bench
  is "a verb after help" "$(suggest tutti help pl)" plan
  # All options of all verbs.
  for verb in $(suggest tutti ''); do
    [ "$verb" = help ] && continue
    shown=" $(suggest tutti "$verb" x -) "
    for option in $("$tutti" help "$verb" | awk '/^  -/ { print $1 }'); do has "options of $verb" "$shown" " $option "; done
  done
  is "options of a part" "$(suggest tutti bench kernels --i)" --isa
  is "a part" "$(suggest tutti bench ker)" kernels
  is "values of an option" "$(suggest tutti plan --as s)" svg
  is "values after =" "$(suggest tutti plan --as = s)" svg
  is "all values after =" "$(suggest tutti check --order =)" "any canonical"
  is "no values" "$(suggest tutti check -n a)" ""
  is "datatypes" "$(suggest tutti bench --dtype f8)" "f8e4m3 f8e5m2"
  is "operations" "$(suggest tutti bench --op m)" "min max"
  is "collectives" "$(suggest tutti tune all)" "allreduce allgather alltoall"
  is "algorithms" "$(suggest tutti plan allreduce.ri)" allreduce.ring
  is "clusters" "$(suggest tutti topo t3)" t3000
  : >mine.plan
  is "files" "$(suggest tutti plan min)" mine.plan
  is "files of an option" "$(suggest tutti run --hostfile min)" mine.plan
  is "programs" "$(suggest tutti run -n 2 -- bas | tr ' ' '\n' | sort -u | grep -xc bash)" 1
  is "arguments of a program" "$(suggest tutti run -n 2 -- cat min)" mine.plan
  TUTTI_WRONG=1 run 0 completion zsh
  is "standard error" "$err" ""
  has "head" "$(head -1 out.txt)" "#compdef tutti"
  [ ! -d "$build/completion" ] || is "an installed script" "$(diff out.txt "$build/completion/_tutti" 2>&1)" ""
  if command -v zsh >/dev/null; then zsh -n out.txt 2>err.txt || complain "not zsh: $(cat err.txt)"
  else skip "zsh not found"; fi
  run 2 completion fish
  has_facts "another shell" "$err" "bash or zsh|'fish'"
  run 2 completion
  has_facts "no shell" "$err" "bash or zsh|nothing"
}

# What takes more than two seconds says so on standard error, unless it shall be quiet.
test_progress() {
  local quiet
  mkfifo slow quiet
  sleep 3 >slow & # keeps the pipe open
  sleep 3 >quiet &
  "$tutti" check - --quiet <quiet >quiet.txt 2>&1 &
  quiet=$!
  "$tutti" check - <slow >out.txt 2>err.txt
  is "progress" "$(cat err.txt)" "tutti check: 2 s, still at work; Ctrl-C ends it"
  wait $quiet
  is "quiet" "$(grep -c 'at work' quiet.txt)" 0
  is "the same otherwise" "$(cat quiet.txt)" "$(cat out.txt)"
}

test_version() {
  run 0 --version
  is "version" "$out" "tutti $(sed -n 's/^project(tutti VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")"
  is "standard error" "$err" ""
}

test_help() {
  for verb in list plan check sim; do
    run 0 "$verb" --help
    has "help of $verb" "$out" "usage: tutti $verb"
    is "standard error" "$err" ""
    [ -s "$source/docs/man/tutti-$verb.1" ] || complain "tutti-$verb.1 is missing"
  done
  run 2 chekc
  has nearest "$err" "'check'"
  run 0 plan --help
  cp out.txt help.txt
  run 0 help plan
  is "help of a verb" "$out" "$(cat help.txt)"
  run 0 --help
  cp out.txt help.txt
  run 0 help
  is "help" "$out" "$(cat help.txt)"
  run 2 help plam
  has "help of no verb" "$err" "unknown verb 'plam', did you mean 'plan'?"
  run 2 plan --rot 1
  has "a similar option" "$err" "did you mean '--root'?"
  run 2 plan --xyz
  has "an option like no other" "$err" "unknown option '--xyz'; tutti plan --help lists the options"
}

source=$1 build=$2
run_tests
