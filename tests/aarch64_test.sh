#!/bin/bash
# aarch64_test.sh SOURCE BUILD: builds for 64-bit ARM (cmake/aarch64-linux-gnu.cmake), with warnings as errors, runs the fast
# tests in qemu's emulation, and programs of both MPIs with the door. The libraries of arm64 come from the mirror that apt uses
# here, and are unpacked into a temporary folder; the kernel starts programs of ARM only in a user namespace of this test.
# test: slow timeout=900
set -u
. "$1/tests/shell.sh"
[ -n "${TEST_LONG-}" ] || { echo "skipped: runs only with TEST_LONG"; exit 77; }
needs_plain_build "$2"
source=$(cd "$1" && pwd)
. "$source/tools/debian.sh"
give_up() { echo "skipped: $*" && exit 77; }
for tool in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64-static cmake apt-get; do
  command -v $tool >/dev/null || give_up "$tool not found: tools/setup aarch64 installs it"
done
[ "$(id -u)" = 0 ] || give_up "needs root: tests in a user namespace need several users"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}") # libraries that fit the cross compiler of this system
debian_mirror >/dev/null || give_up "apt has no mirror of Debian"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1

# What cannot work in the emulation (qemu 7.2): a test, * or one of its cases, and the reason. With * the test does not run; a
# case that is named may fail.
left_out="bench_hosts_test * | builds programs of other libraries, which this machine has for its own processor only
channel_ranks_test reuse | mremap of length 0, by which tutti_register maps memory once more, is refused
cli_memory_test * | limits the memory of the command, and qemu itself needs more
hpp_owners_test 2 ranks: tutti run failed | tutti_register (see above)
hpp_owners_test 3 ranks: tutti run failed | tutti_register
hpp_owners_test 4 ranks: tutti run failed | tutti_register
hpp_owners_test channels before their end, 2 ranks | tutti_register, after which the ranks end
hpp_owners_test channels before their end, 3 ranks | tutti_register, after which the ranks end
hpp_owners_test channels before their end, 4 ranks | tutti_register, after which the ranks end
hpp_owners_test clusters, 2 ranks | tutti_register, after which the ranks end
hpp_owners_test clusters, 3 ranks | tutti_register, after which the ranks end
hpp_owners_test clusters, 4 ranks | tutti_register, after which the ranks end
hpp_owners_test registrations, 2 ranks | tutti_register
hpp_owners_test registrations, 3 ranks | tutti_register
hpp_owners_test registrations, 4 ranks | tutti_register
info_fabrics_test machines | changes the root, where qemu does not find the libraries
job_failures_test deaths | ranks join in limits of real time, which they miss
job_failures_test strangers | ranks join in limits of real time, which they miss
life_test children_are_refused | madvise(MADV_WIPEONFORK) succeeds and does nothing, so a child of fork is not noticed
life_test descriptors_are_the_programs | tutti_register
memory_test cycles | tutti_register
parallel_test shm.reversed | tutti_register
parallel_test shm.threads | tutti_register
progress_test * | a child of fork is not noticed (see life_test), and stays
pmix_test carry | the library has 200 ms of real time for PMIx
pmix_test hangs | the library has 200 ms of real time for PMIx
pmix_test refusals | the library has 200 ms of real time for PMIx
rings_test rings_grow_when_worn | rings take their memory from the segment, which is short here
rings_test rings_grow_while_in_use | rings take their memory from the segment, which is short here
run_hosts_test * | prctl(PR_SET_CHILD_SUBREAPER) is refused, so processes stay behind
run_test leaves_nothing_behind | prctl(PR_SET_CHILD_SUBREAPER) is refused
top_test * | /proc/self/stat has a start time of qemu's own, so tutti top takes all ranks for dead
trace_jobs_test closed | closes descriptors of qemu, too
trace_jobs_test fork | a child of fork is not noticed (see life_test)
transport_test a_life_is_that_of_the_memory | MADV_DONTFORK does nothing; /proc/self/stat has a start time of qemu's own
transport_test deregistering_may_fail | tutti_register
transport_test memory_needs_no_descriptor | tutti_register
transport_test others_look_up_meanwhile | tutti_register
transport_test registered_memory_is_seen | tutti_register
transport_test registered_memory_outlives_the_endpoint | tutti_register
transport_test registering_takes_nothing | tutti_register
transport_test several_are_registered | tutti_register
window_misuse_test shm.bad_windows | tutti_register"

# emulated COMMAND...: runs a command in a user namespace in which the kernel starts programs of ARM by qemu.
emulated() (
  own=$(readlink "/proc/$BASHPID/ns/user") pid=$BASHPID
  # Waits for the namespace, and gives it the machine's users.
  {
    until [ "$(readlink "/proc/$pid/ns/user")" != "$own" ]; do sleep 0.01; done
    echo "0 0 65536" >"/proc/$pid/uid_map"
    echo "0 0 65536" >"/proc/$pid/gid_map"
  } >/dev/null 2>&1 </dev/null &
  # shellcheck disable=SC2016 # it is the inner shell that expands
  exec unshare --user --mount -- bash -ec '
    for i in {1..500}; do [ -z "$(cat /proc/self/gid_map)" ] || break; sleep 0.01; done
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf "%s" "$1" >/proc/sys/fs/binfmt_misc/register
    shift
    exec "$@"' - "$(rule)" "$@"
)
# How the kernel knows programs of ARM: ELF, 64 bits, little-endian, an executable or a library, for machine 183.
rule() {
  local any='\xff\xff\xff\xff\xff\xff\xff' none='\x00\x00\x00\x00\x00\x00\x00\x00'
  printf '%s' ":aarch64:M::\\x7fELF\\x02\\x01\\x01\\x00$none\\x02\\x00\\xb7\\x00" \
    ":$any\\x00$any\\xff\\xfe\\xff\\xff\\xff:$(command -v qemu-aarch64-static):PF"
}
emulated true 2>log.txt || give_up "the kernel has no binfmt_misc in a user namespace, as Linux has from 6.7 on: $(tail -n 1 log.txt)"

# step WHAT COMMAND...: without this step, the test ends.
step() {
  local what=$1
  shift
  "$@" >log.txt 2>&1 && return
  tail -n 40 log.txt
  echo "FAILED $what"
  echo "0 passed, 1 failed"
  exit 1
}
step "fetching the libraries of arm64" debian_tree "$suite" arm64 tree libc6-dev libexpat1-dev libhwloc-dev libsodium-dev \
  libyaml-dev zlib1g-dev libstdc++6 libopenmpi-dev libmpich-dev
export QEMU_LD_PREFIX=$here/tree/root
# With TEST_LONG, CMake makes the limits of the tests longer. The tests themselves run in their usual length.
step "CMake" cmake -S "$source" -B build --toolchain "$source/cmake/aarch64-linux-gnu.cmake" \
  -DCMAKE_SYSROOT="$here/tree/root" -DTUTTI_TESTS=ON -DTUTTI_WARNINGS=ON -DTUTTI_WERROR=ON
step "the build" cmake --build build -j "${CMAKE_BUILD_PARALLEL_LEVEL:-2}"
unset TEST_LONG
# qemu keeps a record of each page of a mapping: with 1G of each rank, 64 ranks take a minute to map the segment.
export TUTTI_SHM_BYTES=64M
# Tests that compile programs find the compiler for ARM under the usual names.
mkdir bin
for name in cc:gcc gcc:gcc c++:g++ g++:g++; do
  printf '#!/bin/sh\nexec aarch64-linux-gnu-%s --sysroot="%s" "$@"\n' "${name#*:}" "$QEMU_LD_PREFIX" >"bin/${name%:*}"
done
chmod +x bin/*

# ---- programs of MPI: they are of ARM, their launcher is this machine's ----

routed=0
for mpi in openmpi mpich; do
  command -v "mpirun.$mpi" >/dev/null || { echo "  skipped: mpirun.$mpi not found" && continue; }
  module=$([ $mpi = openmpi ] && echo ompi-c || echo mpich)
  flags=$(PKG_CONFIG_SYSROOT_DIR=$here/tree/root PKG_CONFIG_LIBDIR=$here/tree/root/usr/lib/aarch64-linux-gnu/pkgconfig \
    pkg-config --cflags --libs "$module")
  # shellcheck disable=SC2086
  step "compiling for $mpi" aarch64-linux-gnu-gcc --sysroot="$here/tree/root" -std=c17 -D_DEFAULT_SOURCE -O1 \
    -o "cases.$mpi" "$source/tests/mpi/cases.c" $flags -Wl,--allow-shlib-undefined
  step "tutti mpi with $mpi" emulated env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 300 \
    build/tutti mpi --verify -- "mpirun.$mpi" -n 2 "./cases.$mpi" counts left memory strided
  grep -q ' results compared, 0 differences' log.txt || step "comparison with $mpi" false
  routed=$((routed + 1))
done

# ---- the fast tests ----

whole=$(awk '$2 == "*" { printf "%s%s", sep, $1; sep = "|" }' <<<"$left_out")
emulated env PATH="$here/bin:$PATH" "$source/tools/run-tests" build -L fast -E "^($whole)\$" >ran.txt 2>&1
# One line for each case that failed, and for each test that failed without naming a case.
awk '
  /^ *Start +[0-9]+: / { id = $2; sub(/:/, "", id); name[id] = $3 }
  /^[0-9]+: FAILED / { id = $1; sub(/:/, "", id); sub(/^[0-9]+: FAILED /, ""); print name[id], $0; named[id] = 1 }
  /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / && !/(Passed|\*\*\*Skipped) / {
    sub(/^[^#]*#/, ""); id = $0; sub(/:.*/, "", id)
    if (!named[id]) print name[id], "(no case)"
  }' build/tests.log | sort >failed.txt
awk '$2 != "*" { sub(/ \| .*/, ""); print }' <<<"$left_out" | sort >may_fail.txt
comm -23 failed.txt may_fail.txt >unexpected.txt
read -r good _ _ _ skipped _ < <(tail -n 1 ran.txt | tr -d ',')
expected=$(comm -12 failed.txt may_fail.txt | wc -l) bad=$(wc -l <unexpected.txt)
[ "$good" -gt 0 ] 2>/dev/null || step "running the tests" cat ran.txt /nowhere
[ "$bad" = 0 ] || { cat ran.txt && sed 's/^/FAILED /' unexpected.txt; }
echo "  of $(grep -c '^[a-z_0-9]* \*' <<<"$left_out") tests and $(wc -l <may_fail.txt) cases that are left out, $expected cases failed"
echo "$((good + routed)) passed, $bad failed, $((${skipped:-0} + expected)) skipped"
[ "$bad" = 0 ]
