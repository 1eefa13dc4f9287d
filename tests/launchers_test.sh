#!/bin/bash
# launchers_test.sh SOURCE BUILD: jobs that other launchers start: MPICH's mpirun (hydra, PMI-1), Open MPI's mpirun (PMIx),
# Slurm's srun (pmi2 and pmix), and torchrun, each on one host and on two, which are namespaces. examples/train must give
# the same bits as under `tutti run`. tools/setup launchers installs the launchers; those that are missing are skipped.
# test: slow waits timeout=900
set -u
. "$1/tests/shell.sh"
. "$1/tests/netns.sh"
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
tutti=$build/tutti
work=$(mktemp -d)
started=()
end_all() {
  local pid
  for pid in ${started[@]+"${started[@]}"}; do { kill "$pid"; wait "$pid"; } 2>/dev/null; done
  hosts_end
  rm -rf "$work"
}
trap end_all EXIT
cd "$work" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
ranks=4
train=("$build/examples/train" --epochs 1 --samples 2048 --result "$work/result")

# ---- two hosts, which know each other's names, and a remote shell between them ----

make_hosts() {
  local i
  hosts_make 2 || return 1
  # As on Debian, a host's own name is an address of its loopback there.
  for i in 0 1; do
    printf '127.0.0.1 localhost\n127.0.1.1 h%s\n10.77.0.%s h%s\n' $i $((2 - i)) $((1 - i)) >names.$i
    on_host $i mount --bind "$work/names.$i" /etc/hosts
    echo "h$i ${hosts[i]}"
  done >keepers
  cat >remote-shell <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done # options of ssh
keeper=\$(awk -v host="\$1" '\$1 == host { print \$2 }' "$work/keepers")
shift
exec nsenter --target "\$keeper" --net --mount --uts --ipc --wdns="$work" -- sh -c "\$*"
END
  chmod +x remote-shell
}
if hosts_possible; then make_hosts || exit 1; fi
# Runs a program on the first host, or here if there are no hosts.
at_first() { if [ ${#hosts[@]} -gt 0 ]; then on_host 0 "$@"; else "$@"; fi; }

is_installed() { # PROGRAM PACKAGE
  [ -x "$(command -v "$1")" ] || { skip "$1 is not installed (Debian: $2)"; return 1; }
}
# The programs train with these data.
has_data() {
  [ -d /usr/share/datasets/fashion-mnist ] || { skip "no Fashion-MNIST (tools/setup demo installs it)"; return 1; }
}
has_hosts() { [ ${#hosts[@]} -gt 0 ] || { skip "two hosts: $hosts_why"; return 1; }; }

# launch COMMAND...: runs a launcher on the first host, for at most $limit seconds. MPICH's (4.0.2) may write to a helper
# process that has ended because its ranks have; a SIGPIPE ends it then, and it is started again.
limit=120
launch() {
  local status=141 turns=0
  while [ $status = 141 ] && [ $((turns++)) -lt 10 ]; do
    at_first timeout "$limit" "$@"
    status=$?
  done
  return $status
}

reference=
# trains "HOSTS" LAUNCHER...: runs examples/train under a launcher. Its ranks must run on HOSTS (such as "2 h0 2 h1"; "":
# any), and its model must be that of `tutti run`.
trains() {
  has_data || return 0
  local expected=$1 said on
  shift
  if [ -z "$reference" ]; then
    "$tutti" run -n $ranks -- "${train[@]}" >out.txt 2>&1 || complain "tutti run: $(cat out.txt)"
    reference=$(grep model result)
  fi
  rm -f result on.*
  # shellcheck disable=SC2016
  said=$(launch "$@" bash -c 'hostname >"$(mktemp on.XXXXXX)"; exec "$@"' - "${train[@]}" 2>&1) ||
    complain "$1 ended with status $?: $said"
  is "model under $1" "$(cat result 2>&1 | grep model)" "$reference"
  on=$(cat on.* | sort | uniq -c | xargs)
  [ -z "$expected" ] || is "hosts of the ranks under $1" "$on" "$expected"
}

# refuses FACTS LAUNCHER...: runs a job whose ranks must all fail with a message that has the facts.
refuses() {
  local facts=$1 said
  shift
  said=$(launch "$@" "$tutti" bench barrier -n 2 2>&1) && complain "$1 succeeds: $said"
  has_facts "$1" "$said" "$facts"
}

# Worlds of one that are wanted.
alone() {
  local said
  said=$(TUTTI_LAUNCHER=none launch "$@" "$tutti" bench barrier -n 1 --time-ms 1 2>&1)
  is "worlds of one under $1" "$(grep -c 'barrier, algorithm auto, 1 rank,' <<<"$said")" 2
}

# ---- the launchers ----

test_mpich() {
  is_installed mpirun.mpich mpich || return
  trains "" mpirun.mpich -n $ranks
  refuses "PMI_RANK is 1, but RANK is 9|TUTTI_LAUNCHER" mpirun.mpich -n 2 env RANK=9
  refuses "PMI_ID is 0|-pmi-port" mpirun.mpich -pmi-port -n 2
  alone mpirun.mpich -n 2
  trains "" mpirun.mpich -n $ranks env RANK=7 WORLD_SIZE=9 TUTTI_LAUNCHER=pmi
  has_hosts && trains "2 h0 2 h1" mpirun.mpich -launcher rsh -launcher-exec "$work/remote-shell" -iface eth0 -hosts h0:2,h1:2 -n $ranks
}

test_openmpi() {
  is_installed mpirun.openmpi openmpi-bin || return
  trains "" mpirun.openmpi --oversubscribe -n $ranks
  refuses "PMIX_RANK is 1, but RANK is 9|TUTTI_LAUNCHER" mpirun.openmpi --oversubscribe -n 2 env RANK=9
  refuses "TUTTI_LAUNCHER is pmi|PMI_RANK" mpirun.openmpi --oversubscribe -n 2 env TUTTI_LAUNCHER=pmi
  alone mpirun.openmpi --oversubscribe -n 2
  has_hosts && trains "2 h0 2 h1" mpirun.openmpi --mca plm_rsh_agent "$work/remote-shell" --host h0:2,h1:2 -n $ranks
}

# routes MPI LAUNCHER...: a program of MPI on two hosts, with its collectives on tutti. MPICH 4.0.2's own MPI_Finalize waits
# for ever in about one of four runs on several hosts, also without tutti (docs/MPI.md): the job may end by its time limit
# then, if the door of each rank is closed.
routes() {
  local mpi=$1 said status
  shift
  is_installed "mpicc.$mpi" "the package of its headers" && has_hosts || return 0
  [ -f "$build/libtutti_mpi_$mpi.so" ] || { skip "built without $mpi"; return 0; }
  "mpicc.$mpi" -std=c17 -o cases "$source/tests/mpi/cases.c" 2>compile.txt || complain "$(cat compile.txt)"
  said=$(launch "$tutti" mpi --verify -- "$@" -n $ranks ./cases counts left memory progress ends 2>&1)
  status=$?
  [ $status = 0 ] || { [ $status = 124 ] && [ "$mpi" = mpich ] && [ "$(grep -c 'the MPI of rank . ends' <<<"$said")" = $ranks ]; } ||
    complain "$mpi ended with status $status: $said"
  has_facts "$mpi" "$said" "of 4 ranks|, 0 differences|MPI_Iallreduce"
}
test_programs_of_mpi() {
  routes openmpi mpirun.openmpi --mca plm_rsh_agent "$work/remote-shell" --host h0:2,h1:2
  limit=20 routes mpich mpirun.mpich -launcher rsh -launcher-exec "$work/remote-shell" -iface eth0 -hosts h0:2,h1:2
}

# Debian 12's torchrun (1.13) fails with Python 3.11 without -r and -t.
torchrun=(torchrun -r 9:1 -t 9:1 --no_python)

test_torchrun() {
  is_installed torchrun python3-torch || return
  trains "" "${torchrun[@]}" --nproc_per_node $ranks --master_addr 127.0.0.1 --master_port 29500
  trains "" "${torchrun[@]}" --standalone --nproc_per_node $ranks
  has_hosts || return
  # The second host begins first, and waits for the first.
  rm -f result
  local first=("${torchrun[@]}" --nnodes 2 --nproc_per_node 2 --master_addr h0 --master_port 29500)
  begin_on_host 1 timeout 120 "${first[@]}" --node_rank 1 "${train[@]}" >second.txt 2>&1
  local second=$!
  trains "2 h0" "${first[@]}" --node_rank 0
  wait $second || complain "torchrun on h1: $(cat second.txt)"
}

# A rank is killed: all end, torchrun starts them again, and they train to the end. The job has the same port again.
test_torchrun_restarts() {
  is_installed torchrun python3-torch || return
  cat >elastic <<END
if [ "\$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
  [ "\$RANK" != 2 ] || { until grep -q "^epoch" first-round; do sleep 0.1; done; kill -9 \$\$; } &
  [ "\$RANK" != 0 ] || exec >first-round
  exec "$build/examples/train" --epochs 1000 --samples 2048
fi
exec "\$@"
END
  trains "" "${torchrun[@]}" --max_restarts 1 --nproc_per_node $ranks --master_addr 127.0.0.1 --master_port 29500 bash elastic
}

test_torchrun_port() {
  is_installed torchrun python3-torch || return
  local listen='import signal, socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 29501))
s.listen()
print("listens", flush=True)
signal.pause()'
  if [ ${#hosts[@]} -gt 0 ]; then begin_on_host 0 python3 -c "$listen" >listens; else python3 -c "$listen" >listens & fi
  local listener=$!
  started+=($listener)
  until [ -s listens ]; do sleep 0.1; kill -0 $listener || break; done
  refuses "127.0.0.1:29501|TUTTI_MASTER_PORT" "${torchrun[@]}" --nproc_per_node 2 --master_addr 127.0.0.1 --master_port 29500
  trains "" "${torchrun[@]}" --nproc_per_node $ranks --master_addr 127.0.0.1 --master_port 29500 env TUTTI_MASTER_PORT=29502
  kill $listener
}

# Slurm on both hosts: munged, slurmd, and slurmctld on the first.
begin_slurm() {
  local i
  head -c 128 /dev/urandom >munge.key && chmod 400 munge.key
  cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=h0(10.77.0.1)
AuthType=auth/munge
AuthInfo=socket=/tmp/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/tmp/state
SlurmdSpoolDir=/tmp/spool
SlurmctldPidFile=/tmp/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=h0 NodeAddr=10.77.0.1 CPUs=4
NodeName=h1 NodeAddr=10.77.0.2 CPUs=4
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
  export SLURM_CONF=$work/slurm.conf
  for i in 0 1; do
    begin_on_host $i munged --foreground --force --key-file="$work/munge.key" --socket=/tmp/munge.socket \
      --pid-file=/tmp/munged.pid --log-file=/tmp/munged.log --seed-file=/tmp/munged.seed >munged.$i 2>&1
    started+=($!)
    until on_host $i test -S /tmp/munge.socket; do sleep 0.1; kill -0 $! || return; done
  done
  begin_on_host 0 slurmctld -D -i >slurmctld.txt 2>&1
  started+=($!)
  for i in 0 1; do
    begin_on_host $i slurmd -D -N h$i >slurmd.$i 2>&1
    started+=($!)
  done
  for ((i = 0; i < 300; i++)); do
    [ "$(on_host 0 sinfo -h -o %D -t idle 2>/dev/null)" != 2 ] || return 0
    sleep 0.2
  done
  complain "slurm does not start: $(tail -n 5 munged.* slurmctld.txt slurmd.*)"
  return 1
}

test_slurm() {
  is_installed slurmctld slurmctld && is_installed slurmd slurmd && is_installed srun slurm-client && is_installed munged munge || return
  has_hosts && begin_slurm || return
  trains "4 h0" srun -N1 -w h0 -n $ranks --mpi=pmi2
  trains "2 h0 2 h1" srun -N2 -n $ranks --ntasks-per-node 2 --mpi=pmi2
  trains "4 h0" srun -N1 -w h0 -n $ranks --mpi=pmix
  trains "2 h0 2 h1" srun -N2 -n $ranks --ntasks-per-node 2 --mpi=pmix
  refuses "SLURM_STEP_NUM_TASKS is 2|srun --mpi=pmi2" srun -n 2 --mpi=none
  alone srun -n 2 --mpi=none
  # A batch script outside of a step, and a step of one task.
  on_host 0 timeout 120 sbatch --wait -N2 -n 4 -o batch.txt --wrap "$tutti bench barrier -n 1 --time-ms 1" >/dev/null ||
    complain "sbatch: $(cat batch.txt)"
  has "batch script" "$(cat batch.txt)" "barrier, algorithm auto, 1 rank,"
  trains "" srun -N1 -w h0 -n 1 --mpi=none bash -c "$tutti run -n $ranks -- \"\$@\"" -
}

# ---- a rank dies ----

test_deaths() {
  local launcher said
  for launcher in mpirun.mpich mpirun.openmpi; do
    is_installed $launcher "${launcher#mpirun.}" || continue
    # shellcheck disable=SC2016
    said=$(launch $launcher -n 2 bash -c \
      '[ "${PMI_RANK:-$PMIX_RANK}" != 1 ] || kill -9 $$; exec "$@"' - "$tutti" bench barrier -n 2 2>&1) && complain "$launcher: $said"
    [ $? != 124 ] || complain "$launcher hangs"
  done
}

# ---- programs that use MPI as well ----

# Orders of calls: t: tutti_init to tutti_comm_free; i: MPI_Init; m: an MPI_Allreduce; f: MPI_Finalize; s: rank r sleeps r
# tenths of a second, so that ranks end one after the other.
test_mpi_beside() {
  local mpi order expected said options=()
  cat >both.c <<'END'
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <tutti/tutti.h>

static int use_tutti(unsigned *rank) {
  tutti_comm *world;
  float one = 1, sum = 0;
  if (tutti_init(NULL, &world) != TUTTI_OK || tutti_allreduce(world, &one, &sum, 1, TUTTI_F32, TUTTI_SUM) != TUTTI_OK)
    return fprintf(stderr, "%s\n", tutti_error_message(NULL));
  *rank = tutti_rank(world);
  printf("tutti: %g\n", sum);
  return tutti_comm_free(world) != TUTTI_OK;
}

static void use_mpi(void) {
  float one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  printf("mpi: %g\n", sum);
}

int main(int argc, char **argv) {
  unsigned rank = 0;
  for (const char *order = argv[1]; *order; order++) {
    if (*order == 't' && use_tutti(&rank) != 0) return 1;
    if (*order == 'i') MPI_Init(&argc, &argv);
    if (*order == 'm') use_mpi();
    if (*order == 'f') MPI_Finalize();
    if (*order == 's') nanosleep(&(struct timespec){.tv_nsec = rank * 100000000L}, NULL);
  }
  return 0;
}
END
  for mpi in mpich openmpi; do
    is_installed mpicc.$mpi lib$mpi-dev || continue
    mpicc.$mpi -I"$source/include" both.c -o both -L"$build" -ltutti -Wl,-rpath,"$build" || { complain "mpicc.$mpi"; continue; }
    [ $mpi = mpich ] || options=(--oversubscribe)
    for order in t ts tt timsf timtsf imtsf itmsf; do
      said=$(launch mpirun.$mpi ${options[@]+"${options[@]}"} -n 3 ./both $order 2>&1) || complain "$mpi, $order: $said"
      expected=$(tr -dc tm <<<"$order" | wc -c)
      is "$mpi, $order: right sums" "$(grep -cE '^(tutti|mpi): 3$' <<<"$said")" $((3 * expected))
    done
  done
  is_installed mpicc.mpich libmpich-dev || return
  mpicc.mpich -I"$source/include" both.c -o both -L"$build" -ltutti -Wl,-rpath,"$build" &&
    has "after MPI_Finalize" "$(launch mpirun.mpich -n 3 ./both imft 2>&1)" "call tutti_init before it"
}

# The types and constants that src/boot/pmix.c declares are those of the headers.
test_pmix_abi() {
  local folder=
  for folder in /usr/lib/*/pmix2/include /usr/include; do [ -f "$folder/pmix.h" ] && break; done
  [ -f "$folder/pmix.h" ] || { skip "pmix.h not found (Debian: libpmix-dev)"; return; }
  cat >abi.c <<'END'
#include <pmix.h>
#include "boot/pmix_abi.h"
#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours)
SAME(sizeof(struct tu_pmix_proc), sizeof(pmix_proc_t));
SAME(offsetof(struct tu_pmix_proc, rank), offsetof(pmix_proc_t, rank));
SAME(sizeof(struct tu_pmix_value), sizeof(pmix_value_t));
SAME(offsetof(struct tu_pmix_value, data), offsetof(pmix_value_t, data));
SAME(sizeof(struct tu_pmix_info), sizeof(pmix_info_t));
SAME(offsetof(struct tu_pmix_info, flags), offsetof(pmix_info_t, flags));
SAME(offsetof(struct tu_pmix_info, value), offsetof(pmix_info_t, value));
SAME(TU_PMIX_ANY_RANK, PMIX_RANK_WILDCARD);
SAME(TU_PMIX_TYPE_BOOL, PMIX_BOOL);
SAME(TU_PMIX_TYPE_STRING, PMIX_STRING);
SAME(TU_PMIX_TYPE_UINT32, PMIX_UINT32);
SAME(TU_PMIX_SCOPE_GLOBAL, PMIX_GLOBAL);
SAME(TU_PMIX_UNREACHABLE, PMIX_ERR_UNREACH);
SAME(TU_PMIX_WRONG_TYPE, PMIX_ERR_TYPE_MISMATCH);
END
  cc -fsyntax-only -I"$folder" -I"$source/src" abi.c || complain "the ABI of pmix.h differs"
}

run_tests
