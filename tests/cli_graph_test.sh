#!/bin/bash
# cli_graph_test.sh SOURCE BUILD: tests `tutti sim --graph` and `--share`: output and error messages.
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
ring="sim allgather.bucket --cluster ring:4 --links plain --fluid"

test_graph() {
  run 0 $ring --graph ring.txt
  has "the result on standard output" "$out" "allgather.bucket, 4 ranks"
  is "first line" "$(head -1 ring.txt)" "graph 1"
  is "links round a ring" "$(grep -c '^link ' ring.txt)" 4
  is "messages" "$(grep -c '^message ' ring.txt)" 12
  is "bytes" "$(awk '$1 == "message" { sum += $5 } END { print sum }' ring.txt)" $((3 * 1048576))
  run 0 $ring --graph -
  is "on standard output" "$(head -1 out.txt)" "graph 1"
  # The example of the manual.
  run 0 sim allgather.bucket --cluster line:2 --links plain --fluid --graph -
  is "the manual's example" "$(sed -n 2,5p out.txt | tr '\n' ';')" \
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
  [ "$fair" != "$by_latency" ] || complain "fair and latency both give $fair"
}

# Reductions take time; they are in the output and in the graph.
test_reductions() {
  run 0 sim allreduce.ring --cluster ring:4 --links plain --bytes 4000000
  has_facts "time of reductions" "$(grep reductions out.txt)" "11.44 MiB|20 GB/s|2.861 MiB of them|150 us|23.6%"
  run 0 sim allreduce.ring --cluster ring:4 --bytes 4000000
  has_facts "reductions on Wormhole" "$(grep reductions out.txt)" "11.44 MiB|32 GB/s|2.861 MiB of them|93.75 us"
  printf 'bandwidth 12.5 GB/s\nlatency 1 us\n' >free.links
  run 0 sim allreduce.ring --cluster ring:4 --links free.links --bytes 4000000
  has_facts "reductions that take no time" "$out" "11.44 MiB|free.links|reduce_bandwidth"
  run 0 sim allgather.bucket --cluster ring:4
  is "no reductions" "$(grep -c reductions out.txt)" 0
  run 0 sim allreduce.ring --cluster ring:4 --links plain --bytes 4000000 --json
  has "reductions in JSON" "$out" '"reduce_bandwidth": 20000000000, "reduced_bytes": 12000000, "critical_reduced_bytes": 3000000,'
  run 0 sim allreduce.ring --cluster ring:4 --bytes 4000000 --graph -
  is "reductions in the graph" "$(grep -c '^reduce [0-9]* [0-9]* 3.12500*1*e-05$' out.txt)" 12
}

test_refused() {
  run 2 $ring --share evenly
  has_facts "a share" "$err" "'fair' or 'latency'|'evenly'"
  run 2 sim allgather.bucket --cluster ring:4 --share latency
  has "--share without --fluid" "$err" "--fluid"
  run 2 sim allgather.bucket -n 4 --graph ring.txt
  has "--graph without links" "$err" "--cluster"
  run 2 sim allgather.bucket --cluster ring:4 --links plain --down 0-1@1e-6+1e-6 --graph -
  has_facts "links that go down" "$err" "--down|--graph"
  run 2 sim allgather.bucket --cluster ring:4 --links plain --flag separate --graph -
  has_facts "separate flags" "$err" "--flag separate|--graph"
  run 1 $ring --graph no/such/folder
  has_facts "a file that cannot be written" "$err" "no/such/folder|No such file or directory"
  is "standard output" "$out" ""
}

run_tests
