#!/bin/bash
# usage: fortran.sh BUILD [--quick]
# Collectives of Fortran programs, with mpif.h, `use mpi` and `use mpi_f08`, under each MPI that has a door in BUILD:
# the results are right, those of verify do not differ, and all calls are routed. Prints what is wrong; exit 1 if
# anything is, 77 if there is nothing to run. --quick: programs of Open MPI only, and each program once.
set -u
build=$(cd "${1:?usage: fortran.sh BUILD [--quick]}" && pwd) || exit 2
mpis=(openmpi mpich) quick=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset TUTTI_MPI LD_PRELOAD
export TUTTI_MPI_MANY=999999999,1 # the programs make many communicators, and all calls must be routed
names=(Allreduce Reduce Bcast Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Alltoallv Reduce_scatter
  Reduce_scatter_block Scan Exscan Barrier)
wrong=0 ran=0
complain() { echo "  $*"; wrong=1; }

compile() { # MPI PROGRAM
  mkdir -p "$work/$1"
  local -a flags=(-cpp -O1 -g -w -fallow-argument-mismatch -ffree-line-length-none -J "$work/$1" -I "$here")
  [ "$1" = openmpi ] && flags+=(-DOPEN_MPI)
  "mpif90.$1" "${flags[@]}" "$here/$2.f90" -o "$work/$1/$2" >"$work/log" 2>&1 || {
    complain "$1: $2 does not compile: $(head -n 5 "$work/log")"
    return 1
  }
}

launch() { # MPI RANKS DOOR MODE PROGRAM ARGUMENTS...
  local mpi=$1 ranks=$2 door=$3 mode=$4
  shift 4
  if [ "$mpi" = openmpi ]; then
    timeout 150 mpirun.openmpi --oversubscribe -np "$ranks" -x LD_PRELOAD="$door" -x TUTTI_MPI="$mode" "$@"
  else
    timeout 150 mpirun.mpich -np "$ranks" -genv LD_PRELOAD "$door" -genv TUTTI_MPI "$mode" "$@"
  fi >"$work/out" 2>"$work/err"
}

# Checks that the report lists a function as routed, and not as left to the MPI.
is_routed() { # WHAT FUNCTION
  grep -Eq "^tutti-mpi: +$2 +[1-9][0-9]*  routed\$" "$work/err" || complain "$1: $2 was not routed"
}

check_run() { # WHAT PROGRAM MODE PERSISTENT STATUS
  local what=$1 program=$2 mode=$3 prefix=$4 status=$5 name
  [ "$status" = 0 ] ||
    complain "$what: status $status: $(tail -n 3 "$work/out") $(grep -v 'routed$' "$work/err" | head -n 8)"
  grep -q "^$program: ok\$" "$work/out" || complain "$what: no '$program: ok'"
  if ! grep -Eq "^tutti-mpi: .* routed, 0 left to" "$work/err"; then
    complain "$what: not all calls were routed"
    return
  fi
  [ "$mode" != verify ] || grep -q ' results compared, 0 differences$' "$work/err" ||
    complain "$what: $(grep verify "$work/err" | tail -n 2)"
  for name in "${names[@]}"; do
    is_routed "$what" "MPI_$name"
    is_routed "$what" "MPI_I${name,}"
    [ -z "$prefix" ] || is_routed "$what" "${prefix}_${name}_init"
  done
}

run() { # MPI RANKS DOOR MODE PROGRAM
  local -a arguments=()
  local prefix=MPIX
  [ "$1" = mpich ] && prefix=MPI
  # MPI_Gather_init, MPI_Scatter_init and others of MPICH 4.0.2 send what the buffer had when the request was made, so
  # verify would find differences.
  if [ "$1 $4" = "mpich verify" ]; then arguments=(no-persistent) prefix=; fi
  launch "$1" "$2" "$build/$3" "$4" "$work/$1/$5" "${arguments[@]}"
  check_run "$5, $1, $2 ranks, $3, $4" "$5" "$4" "$prefix" $?
  ran=$((ran + 1))
}

# The door has each Fortran function that does not call the C function of a name which the door has. With Open MPI that
# are all but those of messages; with MPICH those that call PMPI_ functions: mpi_name_f08_.
check_names() { # MPI LIBRARY...
  local mpi=$1 name suffix=_
  shift
  [ "$mpi" = mpich ] && suffix=_f08_
  nm -D --defined-only "$build/libtutti_mpi_$mpi.so" | sed 's/.* //' | sort -u >"$work/door"
  nm -D --defined-only "$@" | sed 's/.* //' | sort -u >"$work/mpi"
  grep -E '^MPIX?_[A-Z]' "$work/door" | tr '[:upper:]' '[:lower:]' >"$work/c"
  while read -r name; do
    [ "$mpi" = openmpi ] && [[ $name =~ ^mpi_(i|m|im)?(r|s)?(send|recv|probe|sendrecv)$ ]] && continue
    grep -qx "$name$suffix" "$work/mpi" || continue
    grep -qx "$name$suffix" "$work/door" || complain "$mpi: the door lacks $name$suffix"
  done <"$work/c"
  while read -r name; do
    grep -qx "$name" "$work/mpi" || complain "$mpi: the door has $name, which is none of the MPI's"
  done < <(grep -E '^mpix?_' "$work/door")
}

for mpi in "${mpis[@]}"; do
  [ -e "$build/libtutti_mpi_$mpi.so" ] || continue
  command -v "mpif90.$mpi" >/dev/null || continue
  folder=$(dirname "$("${CC:-gcc}" -print-file-name=libmpichfort.so)")
  if [ "$mpi" = openmpi ]; then
    folder=$(dirname "$("${CC:-gcc}" -print-file-name=libmpi_mpifh.so)")
    check_names openmpi "$folder"/libmpi_mpifh.so "$folder"/libmpi_usempif08.so
  else check_names mpich "$folder"/libmpichfort.so; fi
  [ "$quick $mpi" != "--quick mpich" ] || continue
  for program in fortran_mpif fortran_mpi fortran_f08; do
    compile "$mpi" "$program" || continue
    if [ -n "$quick" ]; then run "$mpi" 2 libtutti_mpi.so verify "$program" && continue; fi
    for ranks in 2 4; do run "$mpi" "$ranks" "libtutti_mpi_$mpi.so" verify "$program"; done
    run "$mpi" 4 "libtutti_mpi_$mpi.so" report "$program"
    if [ -e "$build/libtutti_mpi.so" ]; then run "$mpi" 2 libtutti_mpi.so report "$program"; fi
  done
done
if [ "$ran" = 0 ] && [ "$wrong" = 0 ]; then echo "skipped: no door with a Fortran compiler" && exit 77; fi
if [ "$wrong" = 0 ]; then echo "ok: $ran runs"; fi
exit $wrong
