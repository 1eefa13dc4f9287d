#!/bin/bash
# mpi_test.sh SOURCE BUILD: programs of MPI with their collectives on tutti (tutti-mpi(1)), under Open MPI, and with TEST_LONG
# also under MPICH. tools/setup mpi installs both; what is missing is skipped. tools/check-mpi has the long tests.
# test: slow timeout=300
set -u
. "$1/tests/shell.sh"
needs_plain_build "$2"
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
tutti=$build/tutti
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

mpis=(openmpi)
[ -z "${TEST_LONG:-}" ] || mpis+=(mpich)
has_mpi() { # MPI
  command -v "mpicc.$1" >/dev/null && [ -f "$build/libtutti_mpi_$1.so" ]
}
has_mpi openmpi || [ -n "${TEST_LONG:-}" ] || { echo "Open MPI is not installed (tools/setup mpi)" && exit 77; }
# Debian's Open MPI 4.1.4 adds integers of 8 bits wrongly with AVX.
launcher_openmpi=(mpirun.openmpi --oversubscribe --mca op ^avx)
launcher_mpich=(mpirun.mpich)
# launch MPI RANKS COMMAND...: runs a command without the door.
launch() {
  local -n launcher=launcher_$1
  "${launcher[@]}" -n "${@:2}"
}
# door STATUS OPTION MPI RANKS COMMAND...: runs a command with the door, with a time limit, and checks the status. Sets `err`.
door() {
  local expected=$1 status
  shift
  local -n launcher=launcher_$2
  timeout -k 5 100 "$tutti" mpi ${1:+"$1"} -- "${launcher[@]}" -n "${@:3}" >out.txt 2>err.txt
  status=$?
  err=$(cat err.txt)
  [ "$status" = "$expected" ] || complain "$*: status $status, expected $expected: $(tail -3 err.txt)"
}
each() { # FUNCTION...: calls it with each MPI that is installed
  local mpi
  for mpi in "${mpis[@]}"; do
    has_mpi "$mpi" || { skip "$mpi is not installed (tools/setup mpi)"; continue; }
    "$@" "$mpi"
  done
}

compile() {
  "mpicc.$1" -std=c17 -D_DEFAULT_SOURCE -O1 -o "cases.$1" "$source/tests/mpi/cases.c" 2>compile.txt || complain "$1: $(cat compile.txt)"
}
each compile

# ---- what is counted ----

counted() {
  door 0 --report "$1" 3 "./cases.$1" counts
  has_facts "$1" "$err" "MPI_Allreduce                           9  routed|MPI_Iallgather                          6  routed|\
MPI_Barrier                             3  routed|18 calls of 3 ranks: 18 routed, 0 left"
  door 0 --report "$1" 3 "./cases.$1" left
  has_facts "$1" "$err" "MPI_Alltoallw                           1  left|MPI_Neighbor_allgather                  1  left|\
MPI_Iallreduce                          3  routed|MPI_Iallreduce                          3  left|MPI_Bcast                               6  routed"
}
test_report_counts_what_is_routed_and_what_is_left() { each counted; }

verified() {
  door 0 --verify "$1" 2 "./cases.$1" counts left memory strided swapped
  has "$1" "$err" " results compared, 0 differences"
  door 0 --verify "$1" 2 "./cases.$1" wrong
  has_facts "$1" "$err" "verify: MPI_Allreduce of 2 ranks: byte|2 results compared, 2 differences"
}
test_verify_finds_a_difference() { each verified; }

# ---- processes and ranks without a door ----

off() {
  door 0 --off "$1" 2 "./cases.$1" counts
  is "$1" "$err" ""
  # One rank does not have the library; another one has it switched off.
  local preload="env LD_PRELOAD=$build/libtutti_mpi.so"
  launch "$1" 1 $preload "./cases.$1" counts : -n 2 "./cases.$1" counts 2>err.txt || complain "$1: status $?"
  has_facts "$1" "$(cat err.txt)" "rank 1 has not loaded libtutti_mpi.so|all calls are left"
  launch "$1" 1 $preload "./cases.$1" counts : -n 2 $preload TUTTI_MPI=off "./cases.$1" counts 2>err.txt ||
    complain "$1: status $?"
  has_facts "$1" "$(cat err.txt)" "off on another rank|all calls are left"
  launch "$1" 2 $preload TUTTI_MPI=on "./cases.$1" counts 2>err.txt || complain "$1: status $?"
  has_facts "$1" "$(cat err.txt)" "TUTTI_MPI is 'on'|off, collectives, report or verify"
}
test_without_a_door_on_all_ranks_it_is_off() { each off; }

test_other_programs_do_not_notice() {
  local plain preloaded
  plain=$(sh -c 'cat /proc/self/maps' | grep -c 'libmpi\|libtutti') || true
  preloaded=$(LD_PRELOAD=$build/libtutti_mpi.so sh -c 'cat /proc/self/maps' | grep 'libmpi\|libtutti' | grep -vc 'libtutti_mpi\.so') || true
  is "mapped libraries" "$preloaded" "$plain"
  run 2 mpi
  has "no command" "$err" "expected a command after --"
  run 2 mpi --report --verify -- true
  has "two modes" "$err" "at most one of --report, --verify and --off"
  run 1 mpi -- "$work/missing"
  has_facts "no program" "$err" "missing|No such file"
  run 0 mpi -- true
}

# ---- calls ----

goes_well() { # CASE RANKS MPI
  [ "$3 $2" = "mpich 4" ] && [ "$(nproc)" -lt 4 ] && return # it never yields a core
  door 0 "" "$3" "$2" "./cases.$3" "$1"
}
goes_on_between() { # MPI
  TUTTI_ALGORITHM=scan=chain door 0 "" "$1" 3 "./cases.$1" between
  TUTTI_ALGORITHM=scan=chain door 0 --verify "$1" 3 "./cases.$1" between
}
test_one_progress() { each goes_on_between && each goes_well progress 2 && each goes_well progress 4; }
# Of 5 communicators, 2 are taken at once, on 3 ranks. 3 are taken in the third of their 4 blocking collectives, 8 calls of all
# ranks: in one of them only 2 ranks are.
few_of_many() { # MPI
  TUTTI_MPI_MANY=2,3 door 0 --report "$1" 3 "./cases.$1" few
  has_facts "$1" "$err" "MPI_Allreduce                          40  routed|MPI_Allreduce                          16  left|\
MPI_Iallreduce                         32  routed|MPI_Iallreduce                         24  left|one of many"
  TUTTI_MPI_MANY=2 door 0 "" "$1" 2 "./cases.$1" counts
  has_facts "$1" "$err" "TUTTI_MPI_MANY is '2'|expected two numbers|All calls are left"
}
test_many_communicators() { each goes_well many 2 && TUTTI_MPI_MANY=999999999,1 each goes_well many 2 && each few_of_many; }
test_errors_are_returned() { each goes_well errors 3; }
test_memory() { each goes_well memory 2; }

# ---- other languages, and programs that no one has written ----

test_fortran() {
  has_mpi openmpi || return 0
  command -v mpif90.openmpi gfortran >/dev/null || { skip "gfortran is not installed (tools/setup mpi)"; return; }
  local said
  said=$(bash "$source/tests/mpi/fortran.sh" "$build" --quick 2>&1) || complain "$said"
}

test_python() {
  has_mpi openmpi || return 0
  /usr/bin/python3 -c 'import mpi4py' 2>/dev/null || { skip "mpi4py is not installed (tools/setup mpi)"; return; }
  door 0 --verify openmpi 2 /usr/bin/python3 -c 'from mpi4py import MPI
comm = MPI.COMM_WORLD
assert comm.allreduce(comm.rank) == 1 and comm.gather(comm.rank) in (None, [0, 1])
comm.Ibarrier().Wait()'
  has mpi4py "$err" ", 0 differences"
}

# 200 programs; tools/check-mpi runs 10,000.
test_random_programs() {
  has_mpi openmpi || return 0
  local said
  said=$(bash "$source/tests/mpi/random_programs.sh" "$build" openmpi 200 3 2>&1) || complain "$said"
  has "random programs" "$said" " 0 differences, 0 failures"
}

# What the door adds to a call of tutti, in machine instructions. Two communicators take turns in this program, so the counts of
# tutti also show that a call of one does not keep the other from repeating its call quickly.
costs() {
  [ "$(uname -m)" = x86_64 ] || { skip "counted on x86-64 only"; return; }
  "mpicc.$1" -std=c17 -D_GNU_SOURCE -O1 -I"$source/include" -o "steps.$1" "$source/tests/mpi/steps.c" -L"$build" -ltutti \
    -Wl,-rpath,"$build" 2>compile.txt || complain "$1: $(cat compile.txt)"
  LD_PRELOAD=$build/libtutti_mpi.so "./steps.$1" >steps.txt 2>err.txt || complain "$1: status $?: $(cat err.txt)"
  local name mpi tutti most rows=0
  while read -r name mpi tutti; do
    case $name in
      MPI_Barrier) most=150 ;;
      MPI_Bcast) most=220 ;;
      MPI_Iallreduce) most=1000 ;;
      *) most=320 ;;
    esac
    [ $((mpi - tutti)) -le $most ] || complain "$1: $name has $mpi instructions, and tutti $tutti; expected $most more at most"
    [ "$name" = MPI_Iallreduce ] || [ "$tutti" -lt 400 ] || complain "$1: tutti needs $tutti instructions for $name"
    rows=$((rows + 1))
  done <steps.txt
  is "$1: counted calls" "$rows" 6
}
test_cost_in_instructions() { each costs; }

# tools/bench-mpi, with times that are too short to be judged: each cell is measured, and its results are right. Every second
# cell of a form is timed call by call.
test_benchmark() {
  has_mpi openmpi || return 0
  local cells=$((3 * (12 * 2 - 1)))
  timeout 100 "$source/tools/bench-mpi" --mpi openmpi --build "$build" --ranks 3 --sizes 8,16K --rounds 1 --time-ms 1 \
    --any-regime --forms blocking,nonblocking,after_barrier >out.txt 2>err.txt
  [ $? -le 1 ] || complain "bench-mpi: $(cat err.txt)"
  has bench-mpi "$(cat out.txt)" "| all right | $cells cells | yes |"
  "$source/tools/bench-mpi" --mpi openmpi --build "$build" --ranks 3 --sizes 8 --rounds 1 --time-ms 1 --any-regime \
    --collectives split >out.txt 2>err.txt
  [ $? -le 1 ] || complain "bench-mpi: $(cat err.txt)"
  has bench-mpi "$(cat out.txt)" "| all right | 1 cells | yes |"
}

run_tests
