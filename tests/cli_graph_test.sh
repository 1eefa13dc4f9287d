#!/bin/bash
# cli_graph_test.sh SOURCE BUILD: `tutti sim --graph` and `--share`: what they write, and what they refuse.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
ring="sim allgather.bucket --cluster ring:4 --links plain --fluid"

test_graph() {
  run 0 $ring --graph ring.txt
  has "the answer, too" "$out" "allgather.bucket, 4 ranks"
  is "first line" "$(head -1 ring.txt)" "graph 1"
  is "links round a ring" "$(grep -c '^link ' ring.txt)" 4
  is "messages" "$(grep -c '^message ' ring.txt)" 12
  is "bytes" "$(awk '$1 == "message" { sum += $5 } END { print sum }' ring.txt)" $((3 * 1048576))
  run 0 $ring --graph -
  is "on standard output" "$(head -1 out.txt)" "graph 1"
  # What is in the manual.
  run 0 sim allgather.bucket --cluster line:2 --links plain --fluid --graph -
  is "the example" "$(sed -n 2,5p out.txt | tr '\n' ';')" \
    "link 0 12500000000 9.9999999999999995e-07;link 1 12500000000 9.9999999999999995e-07;step 0;message 1 0 1 524288 0;"
}

test_share() {
  local fair by_latency
  run 0 sim allgather.pat --cluster torus:4x4 --links plain --fluid
  fair=$(sed -n 's/^  time  *//p' out.txt)
  run 0 sim allgather.pat --cluster torus:4x4 --links plain --fluid --share fair
  is "fair by default" "$(sed -n 's/^  time  *//p' out.txt)" "$fair"
  run 0 sim allgather.pat --cluster torus:4x4 --links plain --fluid --share latency
  by_latency=$(sed -n 's/^  time  *//p' out.txt)
  [ "$fair" != "$by_latency" ] || complain "both take $fair"
}

# Reductions are charged, shown, and in the graph that other simulators get.
test_reductions() {
  run 0 sim allreduce.ring --cluster ring:4 --links plain --bytes 4000000
  has "their part" "$out" \
    "reductions      12000000 bytes at 20 GB/s a rank; 3000000 of them on the critical path: 0.00015 s, 23.6% of the time"
  run 0 sim allreduce.ring --cluster ring:4 --bytes 4000000
  has "Wormhole's" "$out" "12000000 bytes at 32 GB/s a rank; 3000000 of them on the critical path: 9.375e-05 s"
  printf 'bandwidth 12.5 GB/s\nlatency 1 us\n' >free.links
  run 0 sim allreduce.ring --cluster ring:4 --links free.links --bytes 4000000
  has "free of charge, with a word" "$out" "12000000 bytes, taking no time: free.links says no reduce_bandwidth"
  run 0 sim allgather.bucket --cluster ring:4
  is "none" "$(grep -c reductions out.txt)" 0
  run 0 sim allreduce.ring --cluster ring:4 --links plain --bytes 4000000 --json
  has "as data" "$out" '"reduce_bandwidth": 20000000000, "reduced_bytes": 12000000, "critical_reduced_bytes": 3000000,'
  run 0 sim allreduce.ring --cluster ring:4 --bytes 4000000 --graph -
  is "in the graph" "$(grep -c '^reduce [0-9]* [0-9]* 3.12500*1*e-05$' out.txt)" 12
}

test_refused() {
  run 2 $ring --share evenly
  has "a share" "$err" "expected fair or latency, found 'evenly'"
  run 2 sim allgather.bucket --cluster ring:4 --share latency
  has "packets do not share" "$err" "add --fluid"
  run 2 sim allgather.bucket -n 4 --graph ring.txt
  has "no links" "$err" "add --cluster"
  run 2 sim allgather.bucket --cluster ring:4 --links plain --down 0-1@1e-6+1e-6 --graph -
  has "links that go down" "$err" "knows neither --down nor --flag"
  run 2 sim allgather.bucket --cluster ring:4 --links plain --flag separate --graph -
  has "flags" "$err" "knows neither --down nor --flag"
  run 1 $ring --graph no/such/folder
  has "nowhere to write" "$err" "no/such/folder: No such file or directory"
  is "no answer" "$out" ""
}

run_tests
