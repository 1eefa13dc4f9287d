#!/bin/bash
# bench_test.sh SOURCE BUILD: tests `tutti bench` and `tutti info`: columns, keys, sizes, exit statuses, error messages.
# test: slow timeout=120
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
source=$1
# bench ARGUMENTS...: runs `tutti bench`; sets $out to standard output, $err to standard error, and $status.
bench() {
  out=$("$tutti" bench "$@" --time-ms 0 2>err)
  status=$?
  err=$(grep -v '^tutti bench: warning: ' err) # that times vary, which a test cannot rule out
}
value() { sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" <<<"$out" | tr '\n' ' '; } # KEY: prints its value in each line

test_table() {
  bench -n 2 --bytes 8:64:4
  is status $status 0
  is "standard error" "$err" ""
  has_facts "first line" "$(head -1 <<<"$out")" "# allreduce|algorithm auto|2 ranks|mode loop"
  is forms "$(sed -n 2p <<<"$out" | tr -s '# ' ' ')" " out of place in place"
  is columns "$(sed -n 3p <<<"$out" | tr -s '# ' ' ')" \
    " size count type redop root time p99 last algbw busbw wrong min dev time algbw busbw wrong algorithm"
  is rows "$(grep -v '^#' <<<"$out" | awk '{ print $1, $2, $3, $4, $5, $11, $17, $18, NF }' | tr '\n' ';')" \
    "8 2 f32 sum -1 0 0 direct 18;32 8 f32 sum -1 0 0 direct 18;"
  is "minimum <= time <= p99" "$(awk '!/^#/ { bad += !($12 > 0 && $12 <= $6 && $6 <= $7 && $13 >= 0) } END { print bad }' <<<"$out")" 0
  is "in place, a time" "$(awk '!/^#/ { bad += !($14 > 0) } END { print bad }' <<<"$out")" 0
  is "algbw = size / time" "$(grep -v '^#' <<<"$out" | awk '{
    d = $9 * $6 * 1000 - $1; n += d * d > (0.0006 * 1000 * ($6 + $9)) ^ 2 } END { print n + 0 }')" 0
}

# The numbers of samples are checked in tests/bench_measure_test.c.
test_iterations() {
  bench -n 2 --bytes 8,64K --warmup 0 --iterations 1 --json
  is "one sample" "$status $(value bytes)$(value wrong)" "0 8 65536 0 0 "
  bench -n 2 --bytes 8,64K --warmup 3 --iterations=20 --json
  is "20 samples" "$status $(value bytes)$(value wrong)" "0 8 65536 0 0 "
}

# The time from the last arrival to the last end, and the own time of each rank, are at most the longest time of a rank.
test_last() {
  bench -n 3 --bytes 8,1K,128K --each
  is status $status 0
  is "lines of own times" "$(grep -c '^# own (us):' <<<"$out")" 3
  is "last <= time" "$(awk '!/^#/ { rows++; bad += !($8 > 0 && $8 <= $6) } END { print rows, bad }' <<<"$out")" "3 0"
  is "own <= time" "$(awk '!/^#/ { time = $6 } /^# own/ { for (i = 4; i <= NF; i++) bad += !($i > 0 && $i <= time); n += NF }
    END { print n, bad }' <<<"$out")" "18 0"
}

# Results of polling ranks are checked, too. 5 ranks share CPUs on most machines.
test_poll() {
  bench -n 5 allreduce alltoallv --bytes 8,100K --poll
  is status $status 0
  is "rows, and wrong elements" "$(awk '!/^#/ { rows++; wrong += $11 + $17 } END { print rows, wrong }' <<<"$out")" "4 0"
}

figures="time_us time_us_p99 time_us_last time_us_min time_us_q1 time_us_q3 time_us_mean time_us_dev cpu_us algbw_gbs busbw_gbs wrong"
# shellcheck disable=SC2086
keys="version verb collective algorithm ran ranks bytes dtype op $figures $(printf 'in_place_%s ' $figures)time_us_own "
test_json() {
  local line
  bench -n 4 allreduce.ring broadcast --root 3 --bytes 1K --dtype f64 --op max --json
  is status $status 0
  is lines "$(wc -l <<<"$out")" 2
  for line in 1 2; do
    is keys "$(sed -n ${line}p <<<"$out" | grep -o '"[a-z0-9_]*":' | tr -d '":' | tr '\n' ' ')" "$keys"
  done
  is collectives "$(value collective)" "allreduce broadcast "
  is algorithms "$(value algorithm)$(value ran)" "ring auto ring direct "
  is operations "$(value op)" "max none "
  is wrong "$(value wrong)" "0 0 "
  is "busbw / algbw" "$(awk '{ gsub(/[",:{}]/, " "); for (i = 1; i < NF; i++) v[$i] = $(i + 1)
    printf "%.0f ", 2 * v["busbw_gbs"] / v["algbw_gbs"] }' <<<"$out")" "3 2 "
  if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin]' <<<"$out" || complain "not JSON: $out"
  else
    skip "python3 not found"
  fi
}

# CSV has the fields of JSON.
test_csv() {
  bench -n 3 allreduce broadcast.binomial --bytes 8,1K --csv
  is "status and standard error" "$status $err" "0 "
  is names "$(head -1 <<<"$out")" "$(sed 's/^version verb //; s/ $//' <<<"$keys" | tr ' ' ',')"
  is lines "$(wc -l <<<"$out")" 5
  is "fields of each line" "$(awk -F, '{ print NF }' <<<"$out" | sort | uniq -c | tr -s ' ')" " 5 32"
  is "first fields" "$(tail -n +2 <<<"$out" | cut -d, -f1-7 | tr '\n' ' ')" \
    "allreduce,auto,direct,3,8,f32,sum allreduce,auto,direct,3,1024,f32,sum \
broadcast,binomial,binomial,3,8,f32,none broadcast,binomial,binomial,3,1024,f32,none "
  is "numbers" "$(tail -n +2 <<<"$out" | cut -d, -f8-19 | grep -cvE '^([0-9.]+(e-[0-9]+)?,){11}0$')" 0
  is "in place, numbers" "$(sed -n 2,3p <<<"$out" | cut -d, -f20-31 | grep -cvE '^([0-9.]+(e-[0-9]+)?,){11}0$')" 0
  is "no form in place" "$(sed -n 4,5p <<<"$out" | cut -d, -f20-31 | sort -u)" ",,,,,,,,,,,"
  is "own times" "$(tail -n +2 <<<"$out" | cut -d, -f32 | grep -cvE '^([0-9.]+ ){2}[0-9.]+$')" 0
  bench -n 2 --bytes 8 --late-ms 1 --csv
  is "late ranks, names" "$(head -1 <<<"$out")" "collective,algorithm,ran,ranks,bytes,late_ms,time_us,cpu_us"
  is "late ranks" "$(sed -n 2p <<<"$out" | cut -d, -f1-6)" "allreduce,auto,direct,2,8,1"
}

# The form in place has columns of its own, where there is such a form. Results in place are checked, too (test_results).
test_in_place() {
  bench -n 3 reduce broadcast alltoallv barrier --bytes 64K
  is "status" $status 0
  is "what has a form in place" "$(awk '!/^#/ { print $14 ~ /^[0-9.]+$/ && $17 == "0", $17 }' <<<"$out" | tr '\n' ';')" \
    "1 0;0 N/A;1 0;0 N/A;"
  is "heads" "$(sed -n '/in place$/p' <<<"$out" | tr -s '# ' ' ' | tr '\n' ';')" \
    " out of place in place; in place; out of place in place; in place;"
  bench -n 2 --bytes 8 --out-of-place
  is "left out" "$(awk '!/^#/ { print $11, $14, $15, $16, $17, $18 }' <<<"$out")" "0 N/A N/A N/A N/A direct"
  bench -n 2 allreduce --bytes 8,64K --out-of-place --json
  is "left out, JSON" "$(value in_place_time_us)$(value in_place_wrong)" "null null null null "
  bench -n 4 allreduce reduce_scatter gatherv --bytes 8,64K --heap --mode barrier --json
  is "in memory of tutti_alloc" "$status $(value wrong)$(value in_place_wrong)" "0 0 0 0 0 0 0 0 0 0 0 0 0 "
  "$tutti" plan reduce_scatter.bucket -n 3 --in-place >in.plan
  bench --plan in.plan --bytes 8
  is "a plan in place, status" $status 0
  has "a plan in place" "$(sed -n 2p <<<"$out")" "in place, by the plan"
  is "a plan has one form" "$(awk '!/^#/ { print $11, $14, $17, $18 }' <<<"$out")" "0 N/A N/A bucket"
}

# With auto, each row says what ran: the algorithm that the rules choose for the size.
test_chosen() {
  cat >rules <<'END'
allreduce bytes<=1K rs:direct+ag:direct
allreduce ring
allgather bucket
END
  out=$(TUTTI_TUNING=rules "$tutti" bench -n 3 allreduce allgather allreduce.direct --bytes 1K,4K --time-ms 0 --json 2>err)
  is "status and what was asked for" "$? $(value algorithm)" "0 auto auto auto auto direct direct "
  is "what ran" "$(value ran)" "rs:direct+ag:direct ring bucket bucket direct direct "
  "$tutti" plan allreduce.ring -n 3 | sed 's/^algorithm .*/algorithm mine/' >mine.plan
  bench --plan mine.plan --bytes 8 --json
  is "a plan" "$(value algorithm)$(value ran)" "mine mine "
}

# All collectives, algorithms, types and operations give right results for several numbers of ranks.
test_results() {
  local collectives="allreduce.all reduce.all broadcast.all gather.all scatter.all allgather.all reduce_scatter.all \
    alltoall.all barrier.all scan.all exscan.all gatherv.all scatterv.all allgatherv.all reduce_scatterv.all alltoallv.all"
  for ranks in 1 2 3 4; do
    # shellcheck disable=SC2086
    bench -n $ranks $collectives --bytes 5:80K:16000 --dtype i32 --root $((ranks / 2)) --json
    is "$ranks ranks, status" $status 0
    is "$ranks ranks, wrong" "$(value wrong | tr -d '0 ')$(value in_place_wrong | tr -d '0 ')" \
      "$(grep -oE '"collective": "(broadcast|barrier)"' <<<"$out" | sed 's/.*/null/' | tr -d '\n')"
    is "$ranks ranks, collectives" "$(value collective | tr ' ' '\n' | sort -u | grep -c .)" 16
  done
  while read -r type op; do
    bench -n 3 allreduce reduce_scatterv --bytes 4000 --dtype "$type" --op "$op" --json
    is "$type $op" "$status $(value wrong)" "0 0 0 "
  done <<'TABLE'
i8 sum
u8 avg
u16 bxor
i64 land
f16 avg
bf16 premul_sum
f32 prod
f8e4m3 sum
f8e5m2 min
bool sum
bool bxor
TABLE
}

test_sizes() {
  bench -n 2 allgather reduce_scatter alltoall allgatherv --bytes 100 --dtype i32 --json
  is "rounded to whole blocks" "$(value bytes)" "96 96 96 96 "
  bench -n 2 allreduce --bytes 1:16 --json
  is "at least one element, no size twice" "$(value bytes)" "4 8 16 "
  bench -n 2 barrier --bytes 8:1M --json
  is "barrier: one row" "$(value bytes)$(value dtype)" "0 none "
  bench -n 2 allreduce --bytes 0:4:4 --json
  is "sizes from 0" "$status $(value bytes)" "0 0 4 "
  bench -n 2 allreduce --bytes 8,20:40,1K:64K:8 --json
  is "a list of sizes" "$(value bytes)" "8 20 40 1024 8192 65536 "
  bench -n 2 send --bytes 64:70K:1100 --mode barrier --json
  is send "$status $(value bytes)$(value wrong)" "0 64 70400 0 0 "
}

test_late() {
  bench -n 3 barrier allreduce --bytes 8,64 --late-ms 20 --json
  is status $status 0
  is keys "$(grep -o '"[a-z0-9_]*":' <<<"$out" | sort -u | tr -d '":' | tr '\n' ' ')" \
    "algorithm bytes collective cpu_us late_ms ran ranks time_us verb version "
  is sizes "$(value bytes)" "0 8 64 "
  is "times of at least 19 ms" "$(value time_us | awk '{ print ($1 >= 19000 && $2 >= 19000 && $3 >= 19000) }')" 1
  bench -n 2 --bytes 8 --late-ms 20
  is "rows" "$(grep -v '^#' <<<"$out" | awk '{ print $1, $4, NF }')" "8 direct 4"
}

# Threads that compute beside the ranks.
test_pool() {
  bench -n 2 allreduce --bytes 8,64K --time-ms 1 --pool 2
  is "status and standard error" "$status $err" "0 "
  has_facts "first line" "$(head -1 <<<"$out")" "a pool of 2 threads"
  is rows "$(grep -v '^#' <<<"$out" | awk '{ print $1, $11 }' | tr '\n' ' ')" "8 0 65536 0 "
}

# Threads that share out copies and reductions, of which a part begins with each 256 KiB.
test_threads() {
  local ranks
  for ranks in 1 2; do
    bench -n $ranks allreduce broadcast --bytes 8,2M --time-ms 1 --threads 3
    is "status and standard error" "$status $err" "0 "
    has_facts "first line" "$(head -1 <<<"$out")" "copies shared out among 3 threads"
    is rows "$(grep -v '^#' <<<"$out" | awk '{ print $1, $11 }' | tr '\n' ' ')" "8 0 2097152 0 8 0 2097152 0 "
  done
}

test_all_algorithms() {
  bench -n 4 allreduce.all --bytes 64 --json
  is algorithms "$(value algorithm | tr ' ' '\n' | grep . | sort | tr '\n' ' ')" \
    "$("$tutti" list allreduce | awk '{ sub(/.*\./, "", $1); print $1 }' | sort | tr '\n' ' ')"
}

# Plans from files: in place and out of place, with and without a root; sizes in batches and alone.
test_plans() {
  local file name
  for file in "$source"/tests/fuzz_seeds/msccl/*.xml; do
    name=$(basename "$file" .xml)
    bench --plan "$file" --bytes 24:80K:4000 --dtype i32 --json
    is "$name, status" $status 0
    is "$name, wrong" "$(value wrong | tr -d '0 ')" ""
    is "$name, algorithm and ranks" "$(value algorithm | tr ' ' '\n' | sort -u | tr -d '\n') $(value ranks | cut -c1)" \
      "$name ${name##*_}"
  done
  "$tutti" plan allreduce.ring -n 3 >ring.plan
  "$tutti" plan reduce_scatter.bucket -n 3 --in-place >bucket.plan
  "$tutti" plan broadcast.binomial -n 3 --root 1 >binomial.plan
  for name in ring bucket binomial; do
    bench --plan $name.plan --bytes 12:9K:100
    is "$name, status" $status 0
    is "$name, wrong" "$(grep -v '^#' <<<"$out" | awk '{ n += $11 + $17 } END { print n + 0 }')" 0
    has_facts "$name, first line" "$(head -1 <<<"$out")" "algorithm $name,|3 ranks|mode loop"
  done
  is "the plan's root" "$(grep -v '^#' <<<"$out" | awk '{ print $5 }' | sort -u)" 1
  out=$("$tutti" run -n 2 -- "$tutti" bench --plan ring.plan 2>&1)
  is "another job: status" $? 2
  has_facts "another job" "$out" "3 ranks|this job has 2"
  sed 's/ final//' ring.plan >wrong.plan
  bench --plan wrong.plan
  is "a wrong plan: status and output" "$status$out" 1
  has_facts "a wrong plan" "$err" "wrong.plan|rank 0|out["
  : >empty.plan
  bench --plan empty.plan
  is "no plan: status and output" "$status$out" 1
  bench --plan /dev/null
  is "no file: status and output" "$status$out" 2
  has_facts "no file" "$err" "'/dev/null'|regular file|device"
}

test_in_a_job() {
  out=$("$tutti" run -n 3 -- "$tutti" bench --bytes 8 --time-ms 0 --json)
  is "status, ranks" "$? $(value ranks)" "0 3 "
  out=$("$tutti" run -n 3 -- "$tutti" bench -n 2 --bytes 8 2>&1)
  is "another number: status" $? 2
  has_facts "another number" "$out" "-n 2|3 ranks"
  has_facts "an incomplete environment" "$(TUTTI_RANK=1 "$tutti" bench -n 2 2>&1)" "set: TUTTI_RANK|missing: WORLD_SIZE"
}

test_usage() {
  local arguments facts
  while IFS='|' read -r arguments facts; do
    # shellcheck disable=SC2086
    bench $arguments
    is "'$arguments', status" $status 2
    is "'$arguments', standard output" "$out" ""
    has_facts "'$arguments'" "$err" "$facts"
    is "'$arguments', lines" "$(wc -l <<<"$err")" 1
  done <<'TABLE'
--bytes 8|-n: |ranks
-n 2 --byte 8|'--bytes'
-n 2 --bytes 16:8|LO <= HI
-n 2 --bytes 8:16:1|FACTOR >= 2
-n 2 --bytes eight|--bytes|'eight'
-n 2 --bytes 64,8|--bytes|256|sizes
-n 2 --dtype f33|'f32'
-n 2 --op summ|'sum'
-n 2 --op bxor --dtype f32|bxor
-n 2 --mode fast|--mode|'loop' or 'barrier'|'fast'
-n 2 --bind socket|--bind|'socket'
-n 2 --root 2|--root|below 2|found 2
-n 2 allreduc|'allreduce'
-n 2 allreduce.rings|'allreduce.ring'
-n 2 scan --op avg|avg|scan
-n 3 send|send|2 ranks|found 3
-n 2 --warmup many|--warmup|0 to 1000000|'many'
-n 2 --warmup 1000001|--warmup|0 to 1000000|'1000001'
-n 2 --iterations 0|--iterations|1 to 1000000|'0'
-n 2 --iterations -3|--iterations|1 to 1000000|'-3'
-n 2 --json --csv|--json|--csv
-n 2 --iterations 5 --late-ms 1|--late-ms|--iterations
-n 2 --pool 1025|--pool|0 to 1024|found 1025
-n 2 --pool 2 --late-ms 1|--late-ms|--pool
-n 2 --threads 0|--threads|1 to 1024|found 0
-n 2 --threads 1025|--threads|1 to 1024|found 1025
-n 2 --threads 2 --bind core|--threads|--bind core
--plan /no/such/plan|'/no/such/plan'
--plan -|every rank
--plan ring.plan -n 2|-n|expected 3|'ring'|found 2
--plan ring.plan allreduce|'allreduce'
--plan binomial.plan --root 2|--root|expected 1|'binomial'|found 2
-n 2 recv|'send'
-n 2 --lanes 9|--lanes|1 to 8
--plan ring.plan --lanes 2|--plan|lanes
-n 2 allreduce.bidirectional_ring --lanes 5|--lanes|allreduce.bidirectional_ring|at most 4|found 5
-n 2 barrier --lanes 1|--lanes|barrier|at most 0
TABLE
}

test_kernels() {
  bench kernels --bytes 4K --isa plain
  is "kernels, status" $status 0
  has_facts "kernels, first line" "$(head -1 <<<"$out")" "# plain|4096 bytes|GB/s"
  is "a row for each type, and the copies" "$(grep -v '^#' <<<"$out" | awk '{ print NF }' | sort | uniq -c | tr -s ' \n' ' ')" \
    " 1 5 17 8 "
  bench kernels --bytes 4K:8K --dtype bf16 --json
  is "kernels, keys" "$(grep -o '"[a-z0-9_]*":' <<<"$out" | sort -u | tr -d '":' | tr '\n' ' ')" \
    "bytes dtype gbs isa kernel past_caches sources targets verb version "
  is "kernels, sizes" "$(value bytes | tr ' ' '\n' | grep . | sort -un | tr '\n' ' ')" "4096 8192 "
  bench kernels --isa mmx
  is "no such instruction set, status" $status 2
  has_facts "no such instruction set" "$err" "tutti bench kernels: --isa|instruction set"
  bench kernels --bytes 16
  is "shorter than an item, status" $status 2
  has_facts "shorter than an item" "$err" "tutti bench kernels: --bytes|at least 17|found 16"
  bench -n 2 allreduce --dtype bfp8
  is "a type for tensors only, status" $status 2
  has_facts "a type for tensors only" "$err" "tutti bench: --dtype|found bfp8"
  bench kernels f32
  is "an argument, status" $status 2
  has_facts "an argument" "$err" "tutti bench kernels: |options only|'f32'"
}

test_tensor() {
  bench tensor --bytes 64K --time-ms 1
  is "tensor, status" $status 0
  has_facts "tensor, first line" "$(head -1 <<<"$out")" "GB/s|one core"
  is "tensor, rows" "$(grep -vc '^#' <<<"$out")" 12
  bench tensor --bytes 64K --time-ms 1 --json
  is "tensor, keys" "$(grep -o '"[a-z0-9_]*":' <<<"$out" | sort -u | tr -d '":' | tr '\n' ' ')" \
    "bytes copy_gbs layout pack_gbs unpack_gbs verb version "
  bench tensor bf16
  is "tensor, an argument, status" $status 2
  has_facts "tensor, an argument" "$err" "tutti bench tensor: |options only|'bf16'"
}

test_onesided() {
  bench onesided -n 3 --bytes 4K,64K --tiles 2x256,5x100 --json
  is "onesided, status" "$status $err" "0 "
  is "onesided, keys" "$(head -1 <<<"$out" | grep -o '"[a-z0-9_]*":' | tr -d '":' | tr '\n' ' ')" \
    "version verb ranks bytes tile_rows tile_cols straight_gbs one_tile_gbs two_tiles_gbs ratio wrong "
  is "onesided, rows" "$(value bytes)|$(value tile_rows)|$(value tile_cols)|$(value wrong)" \
    "4096 4096 65536 65536 |2 5 2 5 |256 100 256 100 |0 0 0 0 "
  is "onesided, paced" "$(tail -1 <<<"$out" | grep -o '"[a-z0-9_]*":' | tr -d '":' | tr '\n' ' ')" \
    "version verb ranks paced_loads load_us store_us one_tile_ms two_tiles_ms ratio "
  bench onesided --bytes 4K
  is "onesided, columns" "$(sed -n 2p <<<"$out" | tr -s '# ' ' ')" \
    " bytes tile straight one tile two tiles two/one wrong"
  is "onesided, two ranks" "$(grep -c '^# gather .*rank 0 of 2' <<<"$out")" 1
  is "onesided, three tiles" "$(grep -vc '^#' <<<"$out")" 3
  has_facts "onesided, paced" "$(tail -1 <<<"$out")" "# 16 loads|1000 us|one tile "
  bench onesided --tiles 16
  is "onesided, a tile, status" $status 2
  has_facts "onesided, a tile" "$err" "tutti bench onesided: --tiles|ROWSxCOLS|found '16'"
  bench onesided --tiles 0x4
  is "onesided, no tile" $status 2
  bench onesided --bind cores
  is "onesided, bind, status" $status 2
  has_facts "onesided, bind" "$err" "tutti bench onesided: --bind|'core'|'none'|found 'cores'"
  bench onesided gather
  is "onesided, an argument, status" $status 2
  has_facts "onesided, an argument" "$err" "tutti bench onesided: |options only|'gather'"
}

test_comm() {
  bench comm -n 3 --bytes 8,4K --alive 5 --json
  is "comm, status" "$status $err" "0 "
  is "comm, keys" "$(head -1 <<<"$out" | grep -o '"[a-z0-9_]*":' | tr -d '":' | tr '\n' ' ')" \
    "version verb ranks alive bytes dup_us call_us free_us together_us together_us_p99 shared_kib wrong "
  is "comm, rows" "$(value ranks)|$(value alive)|$(value bytes)|$(value wrong)" "3 3 |5 5 |8 4096 |0 0 "
  bench comm --bytes 8
  is "comm, columns" "$(sed -n 2p <<<"$out" | tr -s '# ' ' ')" " size dup call free together p99 KiB wrong"
  is "comm, two ranks" "$(grep -c '^#.* 2 ranks, 0 other' <<<"$out")" 1
  is "comm, rows with at most 20 KiB: inline messages need no ring" \
    "$(awk '!/^#/ && $7 > 0 && $7 <= 20 && $2 > 0 && $3 > 0 && $4 > 0' <<<"$out" | wc -l)" 1
  bench comm --alive 100001
  is "comm, too many, status" $status 2
  has_facts "comm, too many" "$err" "tutti bench comm: --alive|0 to 100000|found 100001"
  bench comm dup
  is "comm, an argument, status" $status 2
  has_facts "comm, an argument" "$err" "tutti bench comm: |options only|'dup'"
}

test_info() {
  out=$("$tutti" info -n 4)
  is status $? 0
  has version "$out" "$("$tutti" --version | awk '{ print "version     " $2 }')"
  for name in f8e5m2 premul_sum reduce_scatterv TUTTI_SHM_BYTES; do has "$name" "$out" "$name"; done
  has_facts "algorithms by size" "$("$tutti" info -n 2 | grep "^  allreduce ")" "direct to 256 KiB|, ring"
  has_facts "a channel" "$(grep "^channel " <<<"$out")" " credits|ring of 1 MiB|64 KiB"
  out=$(TUTTI_RING_BYTES=40K TUTTI_SLOT_BYTES=16K TUTTI_SECRET=hush "$tutti" info -n 4)
  has_facts "a channel with sizes from the environment" "$(grep "^channel " <<<"$out")" "ring of 40 KiB|16 KiB"
  has_facts "slices are at most half of a ring" "$(TUTTI_RING_BYTES=16K "$tutti" info -n 2 | grep "^channel ")" \
    "ring of 16 KiB| 8 KiB"
  [[ "$out" != *hush* ]] || complain "tutti info shows TUTTI_SECRET"
  has "instruction set of TUTTI_ISA" "$(TUTTI_ISA=plain "$tutti" info)" "arithmetic  plain ("
  out=$("$tutti" info -n 4 --json)
  is "lines of JSON" "$(wc -l <<<"$out")" 1
  if command -v python3 >/dev/null; then
    is JSON "$(python3 -c 'import json, sys
d = json.load(sys.stdin)
print(d["ranks"], d["cpus"] > 0, d["selection"][-1]["bytes_max"], "f32" in d["datatypes"])
print(d["credits"] == (8 if d["cpus"] >= 4 else 64), d["ring_bytes"], d["slot_bytes"])' <<<"$out")" "4 True None True
True 1048576 65536"
  else
    skip "python3 not found"
  fi
  out=$(HWLOC_SYNTHETIC='numa:2 l3:2 core:4 pu:1' "$tutti" info -n 16)
  has_facts "a synthetic machine" "$out" "2 NUMA nodes, 4 L3 caches|groups      4 of 4 ranks, by cache"
  has "two levels" "$(grep "allreduce  " <<<"$out")" " KiB, rs:direct/4+ar:ring+ag:direct/4"
  out=$(HWLOC_SYNTHETIC='numa:1 pu:4' "$tutti" info -n 4)
  has_facts "no groups" "$out" "1 NUMA node,|groups      none"
  out=$(HWLOC_SYNTHETIC='l3:2 pu:2' TUTTI_ALGORITHM=allreduce=re:direct/g+ar:ring+bc:direct/g "$tutti" info -n 4)
  has "open groups are filled in" "$out" "allreduce       re:direct/2+ar:ring+bc:direct/2, forced"
  out=$(TUTTI_SLOT_BYTES=lots "$tutti" info 2>&1)
  is "a wrong value, status" $? 1
  has_facts "a wrong value" "$out" "tutti info: |TUTTI_SLOT_BYTES|'lots'"
  has_facts "slices longer than half of a ring" "$(TUTTI_RING_BYTES=16K TUTTI_SLOT_BYTES=16K "$tutti" info 2>&1)" \
    "TUTTI_SLOT_BYTES is 16384|64|TUTTI_RING_BYTES"
  has_facts "an unknown instruction set" "$(TUTTI_ISA=avx3 "$tutti" info 2>&1)" "TUTTI_ISA|'avx3'|plain"
  out=$("$tutti" info all 2>&1)
  is "an argument, status" $? 2
  has_facts "an argument" "$out" "tutti info: |options only|'all'"
}

run_tests
