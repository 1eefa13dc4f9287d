#!/bin/bash
# cli_onto_test.sh SOURCE BUILD: tests plans that `tutti plan` and `tutti check --cluster` map to clusters: the chosen
# algorithm and order, that the plans are proved, the load of links, and that real processes get the right data.
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti shared=$1/../shared/clusters
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# Prints a plan for a cluster. Checks facts about the algorithm and order, and facts about the cost, on standard error;
# and that the printed plan is proved.
laid() { # FACTS_OF_THE_ORDER FACTS_OF_THE_COST ARGUMENTS...
  run 0 plan "${@:3}"
  is "plan ${*:3}: lines" "$(wc -l <err.txt)" 2
  has_facts "plan ${*:3}: order" "$(head -1 err.txt)" "$1"
  has_facts "plan ${*:3}: cost" "$(tail -1 err.txt)" "$2"
  "$tutti" check - <out.txt >proof.txt 2>/dev/null || complain "plan ${*:3}: $(cat proof.txt)"
}

test_ring() {
  laid "allgather.bidirectional_split on t3000|ring|0 3 7 6 2 1 5 4" \
    "112 messages|neighbours| 3.5 block|0.9 > 4.1" allgather --cluster t3000
  laid "allgather.bucket on t3000|ring|0 3 7 6 2 1 5 4" \
    "56 messages|neighbours| 7 block|4.1 > 0.9" allgather.bucket --cluster t3000
  laid "allreduce.bidirectional_ring on ring:5|ring|0 1 2 3 4" \
    "80 messages|neighbours| 0.8 block|0.1 > 1.0" allreduce --cluster ring:5
}

# In the order of the chips' numbers, messages go over several links.
test_number() {
  laid "allgather.bucket on t3000|numbers" \
    "56 messages|84 hops|3 at most| 14 blocks|1.0 > 2.0" \
    allgather.bucket --cluster t3000 --place number
}

test_line() {
  laid "allreduce.line on line:4|line|0 1 2 3" \
    "24 messages|neighbours| 1 block|0.1 > 1.0" allreduce --cluster line:4
  laid "broadcast.line on mesh:3x3|line|0 1 2 5 4 3 6 7 8" \
    "64 messages|neighbours| 1 block|1.0 > 0.1" \
    broadcast --cluster mesh:3x3 --root 4 --place ring
}

# Rows, then columns: lines on a mesh, rings on a torus. Groups without a size (/g) become the rows.
test_grid() {
  laid "allgather.ag:line/4+ag:line on t3000|grid|4 0 3 7 5 1 2 6" \
    "32 messages|neighbours| 4 block|0.14 > 1.14" \
    allgather --cluster t3000 --place grid
  laid "allreduce.rs:bidirectional/3+rs:bidirectional+ag:bidirectional_split+ag:bidirectional_split/3 on torus:4x3|grid|\
0 1 2 3 4 5 6 7 8 9 10 11" \
    "240 messages|neighbours| 0.666667 block|0.1 > 1.0" \
    allreduce --cluster torus:4x3 --place grid
  laid "reduce.re:line/4+re:line on mesh:4x4|grid|0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15" \
    "120 messages|neighbours| 1 block|0.1 > 1.0" \
    reduce --cluster mesh:4x4 --place grid --root 10
  run 0 plan allgather.ag:line/g+ag:line --cluster galaxy --place grid
  has "rows of galaxy" "$err" "allgather.ag:line/4+ag:line on galaxy"
  has "over neighbours" "$err" "neighbours"
  for collective in allgather reduce_scatter allreduce broadcast reduce; do
    for cluster in t3000 galaxy-torus mesh:3x5; do
      run 0 plan $collective --cluster $cluster --place grid
      has "$collective on $cluster" "$err" "neighbours"
    done
  done
}

# Any plan fits on any graph, also a plan from a file.
test_routed() {
  laid "alltoall.pairwise on fat-tree:4x2|numbers" \
    "240 messages|864 hops|4 at most| 15 blocks|0.0 > switch 0.0" \
    alltoall --cluster fat-tree:4x2
  "$tutti" plan allgather.bucket -n 8 >bucket.plan
  laid "allgather.bucket on t3000|ring|0 3 7 6 2 1 5 4" \
    "56 messages|neighbours| 7 block|4.1 > 0.9" bucket.plan --cluster t3000
  run 0 check --cluster t3000
  is "lines about refused plans" "$(grep -c refused err.txt)" 0
  has "proved" "$out" "plans proved, 0 refused"
  run 0 check --cluster fat-tree:2x3
  run 0 check --cluster mesh:3x3 --place ring
  run 0 check allgather.ag:line/g+ag:line --cluster galaxy-torus
  is "groups without a size" "$(tail -n 1 out.txt)" "2 plans proved, 0 refused"
  run 0 check bucket.plan --cluster t3000
  is "a file" "$(tail -n 1 out.txt)" "1 plans proved, 0 refused"
}

# Sums over the printed links and routes equal the numbers of the tests above.
test_links() {
  run 0 plan allgather.bucket --cluster t3000 --place number --as links
  is "messages over links" "$(awk 'NR > 1 { n += $1; if ($2 > most) most = $2 } END { print n, most }' out.txt)" "84 14"
  run 0 plan allgather.bucket --cluster t3000 --place number --as routes
  is "routes" "$(wc -l <out.txt), $(grep -o '>' out.txt | wc -l)" "56, 84"
  is "reserved links in use" "$(grep -cE '[ :](0|1|2|3)\.8 >' out.txt)" 0
  run 0 plan allgather.bucket --cluster ring:4:2 --lanes 2 --as links
  is "two lanes take two links" "$(awk 'NR > 1 { print $1, $2 }' out.txt | sort | uniq -c | xargs)" "8 3 1.5"
  run 0 plan allgather --cluster t3000 --as svg
  has "the order above the picture" "$out" "ring, 0 3 7 6 2 1 5 4"
  run 0 plan allgather --cluster t3000 --as html
}

# Real processes show that the input and output of each rank stay in rank order.
test_executed() {
  "$tutti" plan allgather --cluster t3000 >ring.plan 2>/dev/null
  "$tutti" plan allreduce --cluster t3000 --place grid --in-place >grid.plan 2>/dev/null
  "$tutti" plan reduce_scatter.bucket --cluster "$source/tests/data/eight.yaml" --reserve dispatch >own.plan 2>own.txt
  has "its ring" "$(cat own.txt)" "ring"
  perform_plans ring grid own
}

test_executed_on_a_real_file() {
  [ -d "$shared" ] || { skip "../shared/clusters not found" && return; }
  "$tutti" plan reduce_scatter.bucket --cluster "$shared/t3k_cluster_desc.yaml" --reserve dispatch >real.plan 2>real.txt
  has "its ring" "$(cat real.txt)" "ring"
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

# A plan in the order of a cluster takes as long in the simulator as a plan whose ranks the simulator puts on the chips.
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
  has_facts "no grid" "$err" "--place grid|fat-tree:2x2"
}

test_refusals() {
  run 2 plan allgather --cluster t3000 -n 7
  has_facts "ranks" "$err" "-n|8 chips|7"
  run 2 plan allgather --cluster t3000 --place snake
  has_facts "orders" "$err" "--place|'auto', 'ring', 'grid' or 'number'|'snake'"
  run 1 plan allgather --cluster fat-tree:2x2 --place grid
  has_facts "no grid" "$err" "--place|fat-tree:2x2|grid"
  run 1 plan scan --cluster t3000 --place ring
  has_facts "scan" "$err" "algorithm|order"
  run 1 plan scan.chain --cluster t3000 --place ring
  has_facts "scan.chain" "$err" "scan|relabelled|order"
  run 2 plan allgather --cluster t3000 --rank 3
  run 2 plan allgather.bucket -n 8 --as links
  has_facts "--as links without a cluster" "$err" "--as links|--cluster"
  run 1 plan allgather --cluster t3001
  has "the nearest cluster" "$err" "'t3000'"
  run 2 plan allgather.rung --cluster t3000
  run 2 plan allgather.pat --cluster n300 --as link
  has "the nearest form" "$err" "'links'"
  run 2 check allgather --cluster t3000 -n 4
  "$tutti" plan allgather.bucket -n 5 >five.plan
  run 1 plan five.plan --cluster t3000
  has_facts "a plan for another number of ranks" "$err" "five.plan|5 ranks|8 chips"
  printf 'chips: {0: [0,0,0,0], 1: [1,0,0,0]}\narch: {0: a, 1: a}\nethernet_connections: []\n' >apart.yaml
  run 1 plan allgather.bucket --cluster apart.yaml
  has_facts "no route" "$err" "chip 0|chip 1"
}

run_tests
