#!/bin/bash
# cli_onto_test.sh SOURCE BUILD: plans laid onto clusters by `tutti plan` and `tutti check --cluster`: which plan and which
# order they take, that these are proved, what links carry; and that real processes get the right data from such a plan.
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti shared=$1/../shared/clusters
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# A plan for that cluster: which one it is, in which order, and what it costs; it is proved as it was printed.
laid() { # WORDS_1 WORDS_2 ARGUMENTS...
  run 0 plan "${@:3}"
  is "plan ${*:3}" "$err" "$1
$2"
  "$tutti" check - <out.txt >proof.txt 2>/dev/null || complain "plan ${*:3}: $(cat proof.txt)"
}

test_ring() {
  laid "allgather.bidirectional_split on t3000 in the order of its ring, 0 3 7 6 2 1 5 4" \
    "112 messages, all between neighbours; the busiest link carries 3.5 blocks: 0.9 > 4.1" allgather --cluster t3000
  laid "allgather.bucket on t3000 in the order of its ring, 0 3 7 6 2 1 5 4" \
    "56 messages, all between neighbours; the busiest link carries 7 blocks: 4.1 > 0.9" allgather.bucket --cluster t3000
  laid "allreduce.bidirectional_ring on ring:5 in the order of its ring, 0 1 2 3 4" \
    "80 messages, all between neighbours; the busiest link carries 0.8 blocks: 0.1 > 1.0" allreduce --cluster ring:5
}

# Without an order of its own, messages go over several links.
test_number() {
  laid "allgather.bucket on t3000 in the order of its chips' numbers" \
    "56 messages, 84 hops, 3 at most; the busiest link carries 14 blocks: 1.0 > 2.0" \
    allgather.bucket --cluster t3000 --place number
}

test_line() {
  laid "allreduce.line on line:4 in the order of its line, 0 1 2 3" \
    "24 messages, all between neighbours; the busiest link carries 1 block: 0.1 > 1.0" allreduce --cluster line:4
  laid "broadcast.line on mesh:3x3 in the order of its line, 0 1 2 5 4 3 6 7 8" \
    "64 messages, all between neighbours; the busiest link carries 1 block: 1.0 > 0.1" \
    broadcast --cluster mesh:3x3 --root 4 --place ring
}

# Rows, then columns: lines on a mesh, rings on a torus; groups that are open are the rows.
test_grid() {
  laid "allgather.ag:line/4+ag:line on t3000 in the order of its grid, 4 0 3 7 5 1 2 6" \
    "32 messages, all between neighbours; the busiest link carries 4 blocks: 0.14 > 1.14" \
    allgather --cluster t3000 --place grid
  laid "allreduce.rs:bidirectional/3+rs:bidirectional+ag:bidirectional_split+ag:bidirectional_split/3 on torus:4x3 in the \
order of its grid, 0 1 2 3 4 5 6 7 8 9 10 11" \
    "240 messages, all between neighbours; the busiest link carries 0.666667 blocks: 0.1 > 1.0" \
    allreduce --cluster torus:4x3 --place grid
  laid "reduce.re:line/4+re:line on mesh:4x4 in the order of its grid, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15" \
    "120 messages, all between neighbours; the busiest link carries 1 block: 0.1 > 1.0" \
    reduce --cluster mesh:4x4 --place grid --root 10
  run 0 plan allgather.ag:line/g+ag:line --cluster galaxy --place grid
  has "rows of galaxy" "$err" "allgather.ag:line/4+ag:line on galaxy"
  has "over neighbours" "$err" "all between neighbours"
  for collective in allgather reduce_scatter allreduce broadcast reduce; do
    for cluster in t3000 galaxy-torus mesh:3x5; do
      run 0 plan $collective --cluster $cluster --place grid
      has "$collective on $cluster" "$err" "all between neighbours"
    done
  done
}

# Any plan on any graph, also one that was read.
test_routed() {
  laid "alltoall.pairwise on fat-tree:4x2 in the order of its chips' numbers" \
    "240 messages, 864 hops, 4 at most; the busiest link carries 15 blocks: 0.0 > switch 0.0" \
    alltoall --cluster fat-tree:4x2
  "$tutti" plan allgather.bucket -n 8 >bucket.plan
  laid "allgather.bucket on t3000 in the order of its ring, 0 3 7 6 2 1 5 4" \
    "56 messages, all between neighbours; the busiest link carries 7 blocks: 4.1 > 0.9" bucket.plan --cluster t3000
  run 0 check --cluster t3000
  is "all that there are" "$err" "$(echo "$err" | grep -v refused)"
  has "proved" "$out" "plans proved, 0 refused"
  run 0 check --cluster fat-tree:2x3
  run 0 check --cluster mesh:3x3 --place ring
  run 0 check allgather.ag:line/g+ag:line --cluster galaxy-torus
  is "open groups are rows" "$out" "2 plans proved, 0 refused"
  run 0 check bucket.plan --cluster t3000
  is "a file" "$out" "1 plans proved, 0 refused"
}

# Links and routes add up to what is said above.
test_links() {
  run 0 plan allgather.bucket --cluster t3000 --place number --as links
  is "messages over links" "$(awk 'NR > 1 { n += $1; if ($2 > most) most = $2 } END { print n, most }' out.txt)" "84 14"
  run 0 plan allgather.bucket --cluster t3000 --place number --as routes
  is "routes" "$(wc -l <out.txt), $(grep -o '>' out.txt | wc -l)" "56, 84"
  is "none reserved" "$(grep -cE '[ :](0|1|2|3)\.8 >' out.txt)" 0
  run 0 plan allgather.bucket --cluster ring:4:2 --lanes 2 --as links
  is "two lanes take two links" "$(awk 'NR > 1 { print $1, $2 }' out.txt | sort | uniq -c | xargs)" "8 3 1.5"
  run 0 plan allgather --cluster t3000 --as svg
  has "the order stands above the picture" "$out" "in the order of its ring, 0 3 7 6 2 1 5 4"
  run 0 plan allgather --cluster t3000 --as html
}

# The input and the output of each rank stay in rank order: data between processes say so.
test_executed() {
  "$tutti" plan allgather --cluster t3000 >ring.plan 2>/dev/null
  "$tutti" plan allreduce --cluster t3000 --place grid --in-place >grid.plan 2>/dev/null
  "$tutti" plan reduce_scatter.bucket --cluster "$source/tests/data/eight.yaml" --reserve dispatch >own.plan 2>own.txt
  has "its ring" "$(cat own.txt)" "in the order of its ring"
  perform_plans ring grid own
}

test_executed_on_a_real_file() {
  [ -d "$shared" ] || { skip "there is no ../shared/clusters" && return; }
  "$tutti" plan reduce_scatter.bucket --cluster "$shared/t3k_cluster_desc.yaml" --reserve dispatch >real.plan 2>real.txt
  has "its ring" "$(cat real.txt)" "in the order of its ring"
  perform_plans real
}

perform_plans() { # PLAN...
  local plan
  for plan in "$@"; do
    run 0 bench --plan $plan.plan --bytes 256:64K:16 --time-ms 10 --json
    is "$plan: sizes" "$(grep -c '"bytes"' out.txt)" 3
    is "$plan: sizes with right results" "$(grep -c '"wrong": 0[,}]' out.txt)" 3
  done
}

# A plan that was laid takes as long as one whose ranks the simulator places.
test_simulated() {
  local how
  for how in "ring allgather.bidirectional_split" "ring allreduce.bidirectional_ring" "grid allgather.ag:line/4+ag:line" \
    "grid reduce_scatter.rs:line+rs:line/4"; do
    set -- $how
    "$tutti" plan "$2" --cluster t3000 --place "$1" >laid.plan 2>/dev/null
    run 0 sim laid.plan --cluster t3000 --place number --bytes 64K --json
    local laid
    laid=$(grep -o '"time_s": [^,]*' out.txt)
    run 0 sim "$2" --cluster t3000 --place "$1" --bytes 64K --json
    is "$how: seconds" "$laid" "$(grep -o '"time_s": [^,]*' out.txt)"
    has "$how: seconds" "$laid" "time_s"
  done
  run 2 sim allgather.bucket --cluster fat-tree:2x2 --place grid
  has "no grid" "$err" "--place grid: the chips of fat-tree:2x2 are no grid"
}

test_refusals() {
  run 2 plan allgather --cluster t3000 -n 7
  has "ranks" "$err" "-n: t3000 has 8 chips, found 7"
  run 2 plan allgather --cluster t3000 --place snake
  has "orders" "$err" "--place: expected auto, ring, grid or number, found 'snake'"
  run 1 plan allgather --cluster fat-tree:2x2 --place grid
  has "no grid" "$err" "--place: the chips of fat-tree:2x2 are no grid"
  run 1 plan scan --cluster t3000 --place ring
  has "scan" "$err" "there is no algorithm of its own for that order"
  run 1 plan scan.chain --cluster t3000 --place ring
  has "its order" "$err" "scan means the ranks' own order"
  run 2 plan allgather --cluster t3000 --rank 3
  run 2 plan allgather.bucket -n 8 --as links
  has "which cluster" "$err" "--cluster says it"
  run 1 plan allgather --cluster t3001
  has "the cluster" "$err" "did you mean 't3000'?"
  run 2 plan allgather.rung --cluster t3000
  run 2 plan allgather.pat --cluster n300 --as link
  has "the nearest form" "$err" "did you mean 'links'?"
  run 2 check allgather --cluster t3000 -n 4
  "$tutti" plan allgather.bucket -n 5 >five.plan
  run 1 plan five.plan --cluster t3000
  has "a plan for others" "$err" "five.plan is a plan for 5 ranks, t3000 has 8 chips"
  printf 'chips: {0: [0,0,0,0], 1: [1,0,0,0]}\narch: {0: a, 1: a}\nethernet_connections: []\n' >apart.yaml
  run 1 plan allgather.bucket --cluster apart.yaml
  has "no way" "$err" "there is no way from chip 0 to chip 1"
}

run_tests
