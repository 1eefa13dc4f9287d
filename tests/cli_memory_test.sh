#!/bin/bash
# cli_memory_test.sh SOURCE BUILD: verbs that get too little memory (ulimit -v) end with status 1 and an error message
# about memory. They never end by a signal, and never with status 0 and incomplete output.
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

if nm "$tutti" 2>/dev/null | grep -qE '__(a|t)san_init'; then
  echo "skipped: sanitizers need more address space than the limits allow"
  exit 77
fi

limited() { # KIB ARGUMENTS...: runs the command with limited memory; sets status and err
  (ulimit -v "$1" && exec "$tutti" "${@:2}") >out.txt 2>err.txt
  status=$?
  err=$(cat err.txt)
}

# least: KiB that the command needs to start
least=8192
while limited "$least" --version && [ "$status" -ne 0 ] && [ "$least" -lt 4194304 ]; do least=$((least + 4096)); done

# Runs a verb with more and more memory until it succeeds. Each run must succeed, or fail with an error about memory.
starve() { # ARGUMENTS...
  local refused=0 more=256
  while [ "$more" -lt 1048576 ]; do
    limited $((least + more)) "$@"
    [ "$status" -eq 0 ] && break
    refused=$((refused + 1))
    is "status of $* with $more KiB" "$status" 1
    [[ "$err" == "tutti $1: "*memory* ]] || complain "$* with $more KiB: expected an error about memory, found '$err'"
    more=$((more + more / 2))
  done
  is "status of $* with enough" "$status" 0
  [ "$refused" -gt 0 ] || complain "$*: no run failed for lack of memory"
}

test_check() { starve check allreduce.ring -n 256; }
test_plan() { starve plan alltoall.pairwise -n 128; }
test_sim() { starve sim allreduce.recursive_doubling -n 1024 --bytes 1M; }
test_draw() { starve plan alltoall.pairwise -n 60 --as svg; }
test_cluster() { starve topo torus:256x256; }

run_tests
