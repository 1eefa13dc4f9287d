#!/bin/bash
# random_programs.sh BUILD MPI PROGRAMS RANKS...: random programs of MPI (random_programs.c) with the door, PROGRAMS with each
# number of ranks. MPI: openmpi or mpich. Of each five launches three compare with the MPI (TUTTI_MPI=verify), one does what
# both MPIs do wrongly, and one does so in two or three threads. One of the three that compare takes communicators only after
# some calls (TUTTI_MPI_MANY). TEST_SEED repeats a run. Exit 1: a result was wrong, or a
# launch failed or took too long; its command is printed.
set -u
[ $# -ge 4 ] || { echo "usage: random_programs.sh BUILD MPI PROGRAMS RANKS..." && exit 2; }
source=$(cd "$(dirname "$0")" && pwd) build=$(cd "$1" && pwd) || exit 2
mpi=$2 programs=$3
shift 3
launch_max=500
# The MPI must not get calls that it does wrongly.
strict="RANDOM_PROGRAMS_STRICT=1 TUTTI_MPI_MANY=999999999,1"
seed=${TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Debian's Open MPI 4.1.4 adds integers of 8 bits wrongly with AVX. Ranks of MPICH never yield a core.
case $mpi in
  openmpi) launcher=(mpirun.openmpi --oversubscribe --mca op ^avx) slowness=1 ;;
  mpich) launcher=(mpirun.mpich) slowness=4 ;;
  *) echo "random_programs.sh: MPI is openmpi or mpich" && exit 2 ;;
esac
mkdir -p "$build/mpi"
program=$build/mpi/random_programs.$mpi
"mpicc.$mpi" -std=c17 -D_DEFAULT_SOURCE -O1 -g -pthread -o "$program" "$source"/random_{programs,calls,types}.c || exit 1
output=$(mktemp)
trap 'rm -f "$output"' EXIT
echo "random programs: TEST_SEED=$seed"

# Sum of the numbers before WORD in the output.
sum() {
  grep -o "[0-9]* $1" "$output" | awk '{ sum += $1 } END { print sum + 0 }'
}

# launch RANKS FIRST COUNT VARIABLES THREADS: runs programs, and adds to `compared`, `differences` and `failures`.
launch() {
  local ranks=$1 first=$2 count=$3 variables=$4 threads=$5 status of_launch
  local limit=$((120 + count * ranks * slowness / 4))
  local environment="LD_PRELOAD=$build/libtutti_mpi.so $variables"
  local command=("${launcher[@]}" -n "$ranks" "$program" "$seed" "$first" "$count" "$threads")
  # shellcheck disable=SC2086 # `environment` has several variables
  timeout -k 10 "$limit" env $environment "${command[@]}" >"$output" 2>&1
  status=$?
  of_launch=$(sum 'failures$')
  [ "$status" = 0 ] || [ "$of_launch" -gt 0 ] || of_launch=1
  compared=$((compared + $(sum 'results compared')))
  differences=$((differences + $(sum 'differences')))
  failures=$((failures + of_launch))
  [ "$status$(sum 'differences')" = 00 ] && return
  grep -E 'random_programs:|verify: ' "$output" || tail -20 "$output"
  case $status in
    124 | 137) echo "random programs: no end after $limit s" ;;
    *) echo "random programs: status $status" ;;
  esac
  echo "random programs: repeat with: $environment ${command[*]}"
}

all_right=0
for ranks; do
  compared=0 differences=0 failures=0 launched=0
  size=$(((programs + 4) / 5))
  [ "$size" -le "$launch_max" ] || size=$launch_max
  for ((first = 0; first < programs; first += size)); do
    count=$((programs - first < size ? programs - first : size))
    case $((launched % 5)) in
      2) launch "$ranks" "$first" "$count" "TUTTI_MPI=verify TUTTI_MPI_MANY=$((launched % 3)),3" 1 ;;
      3) launch "$ranks" "$first" "$count" "TUTTI_MPI=collectives $strict" 1 ;;
      4) launch "$ranks" "$first" "$count" "TUTTI_MPI=collectives $strict" $((2 + launched / 5 % 2)) ;;
      *) launch "$ranks" "$first" "$count" "TUTTI_MPI=verify" 1 ;;
    esac
    launched=$((launched + 1))
  done
  echo "random programs: $programs programs under $mpi on $ranks ranks: $compared results compared, $differences differences, \
$failures failures"
  [ "$differences$failures" = 00 ] || all_right=1
done
exit $all_right
