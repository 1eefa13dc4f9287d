#!/bin/bash
# deb_test.sh SOURCE BUILD: builds the Debian packages (tools/deb), and installs, uses and removes them in a new system in a
# chroot, which debootstrap makes from the mirror that apt uses here. Needs root; takes ten minutes.
# test: slow timeout=600
set -u
. "$1/tests/shell.sh"
[ -n "${TEST_LONG-}" ] || { echo "skipped: runs only with TEST_LONG"; exit 77; }
needs_plain_build "$2"
source=$(cd "$1" && pwd)
. "$source/tools/debian.sh"
give_up() { echo "skipped: $*" && exit 77; }
[ "$(id -u)" = 0 ] || give_up "needs root, to install packages in a chroot"
for tool in dpkg-buildpackage dh lintian debootstrap; do
  command -v $tool >/dev/null || give_up "$tool not found: tools/setup deb installs it"
done
git -C "$source" rev-parse --git-dir >/dev/null 2>&1 || give_up "the sources are no checkout of git, from which tools/deb takes the version"
unshare --mount true 2>/dev/null || give_up "no mount namespaces"
suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}") # the packages fit the system that builds them
debian_mirror >/dev/null || give_up "apt has no mirror of Debian"

here=$(mktemp -d)
root=$here/root
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1

# quietly COMMAND...: runs a command, and complains with its output if it fails.
quietly() {
  "$@" </dev/null >quiet.txt 2>&1 || { complain "failed: $*: $(tail -n 20 quiet.txt)"; return 1; }
}
# Runs a command in the chroot. Its mounts end with it.
inside() {
  # shellcheck disable=SC2016 # it is the inner shell that expands
  unshare --mount --propagation private -- bash -ec '
    root=$1 && shift
    mount --bind "$root" "$root" # unshare changes the propagation of /, which must be a mount for that
    for folder in /proc /sys /dev; do mount --rbind "$folder" "$root$folder"; done
    mkdir -p "$root/dev/shm" && { mountpoint -q "$root/dev/shm" || mount -t tmpfs tmpfs "$root/dev/shm"; }
    cat /etc/resolv.conf >"$root/etc/resolv.conf" && cat /etc/hosts >"$root/etc/hosts"
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    exec chroot "$root" env --chdir=/srv "$@"' - "$root" "$@"
}
# inside_is WHAT EXPECTED COMMAND...: runs a command in the chroot and compares its standard output.
inside_is() {
  local said
  said=$(inside timeout -k 5 120 "${@:3}" 2>err.txt </dev/null) || complain "$1: status $?: $(tail -n 5 err.txt)"
  is "$1" "$said" "$2"
}
names() { dpkg-query --root="$root" -W -f '${Package}\n' '*tutti*' 2>/dev/null; }

# ---- the packages ----

wanted="libtutti-dev libtutti-mpi-mpich libtutti-mpi-openmpi libtutti0 python3-tutti tutti"
test_build() {
  local torch= said
  said=$("$source/tools/deb" packages 2>err.txt) || { complain "tools/deb: $(tail -n 20 err.txt)" && return; }
  grep -q 'python3-tutti-torch is left out' err.txt || torch=python3-tutti-torch
  # shellcheck disable=SC2086
  is packages "$(grep -v dbgsym <<<"$said" | sed 's|.*/||; s|_.*||' | sort)" "$(printf '%s\n' $wanted $torch | sort)"
  is "the library's package has the name of its soname" "$(readlink packages/tutti/debian/libtutti0/usr/lib/*/libtutti.so.0 | sed 's|\.[0-9]*\.[0-9]*$||')" libtutti.so.0
  for said in packages/*.deb; do
    is "owners in $said" "$(dpkg-deb -c "$said" | awk '$2 != "root/root"')" ""
  done
}

test_lintian() {
  local said
  said=$(lintian --allow-root --fail-on error,warning packages/*.changes 2>&1) || complain "lintian: status $?"
  is "findings of lintian" "$said" ""
}

# ---- a system with them ----

test_install() {
  local said
  quietly debian_chroot "$suite" "$root" || return
  mkdir -p "$root/srv"
  find packages -maxdepth 1 -name '*.deb' ! -name '*dbgsym*' -exec cp {} "$root/srv" \;
  quietly inside apt-get update -q || return
  quietly inside sh -c 'apt-get install -y -q --no-install-recommends ./*.deb' || return
  is "packages that are not fully installed" "$(inside dpkg --audit)" ""
  inside sh -c 'dpkg -L $(dpkg-query -W -f "\${binary:Package}\n" "*tutti*")' | grep '^/[^.]' | sort -u >files.txt
  quietly inside apt-get install -y -q --no-install-recommends gcc libc6-dev pkg-config openmpi-bin libopenmpi-dev mpich libmpich-dev
}

test_command() {
  local version
  version=$(sed -n 's/^project(tutti VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
  inside_is "tutti --version" "tutti $version" tutti --version
  inside_is "tutti run" "$(printf 'rank 0 of 2\nrank 1 of 2')" \
    sh -c 'tutti run -n 2 -- sh -c "echo rank \$TUTTI_RANK of \$TUTTI_WORLD_SIZE" | sort'
  for page in man1/tutti-run.1 man3/tutti_init.3 man3/tutti_reduce.3 man7/tutti.7; do
    [ -e "$root/usr/share/man/$page.gz" ] || complain "no man page $page"
  done
}

# The first program of README.md.
test_program_in_c() {
  awk '/^```c$/ { on = 1; next } /^```$/ && on { exit } on' "$source/README.md" >"$root/srv/hello.c"
  quietly inside sh -c 'cc -Wall -Werror hello.c -o hello $(pkg-config --cflags --libs tutti)' || return
  inside_is "hello of 2 ranks" "$(printf 'rank %d of 2: sum 1, ranks 2, largest 1\n' 0 1)" sh -c 'tutti run -n 2 -- ./hello | sort'
  quietly inside sh -c 'cc hello.c -o hello_static $(pkg-config --static --cflags --libs tutti | sed "s/-ltutti/-l:libtutti.a/")' || return
  inside_is "hello_static" "rank 0 of 1: sum 0, ranks 1, largest 0" ./hello_static
}

test_python() {
  cat >"$root/srv/sum.py" <<'END'
import array
import tutti
with tutti.init() as comm:
    value = array.array("i", [comm.rank + 1])
    comm.allreduce(value)
    if comm.rank == 0:
        print(comm.size, value[0])
END
  inside_is "import tutti" "" python3 -c 'import tutti'
  inside_is "tutti.run" "2 3" python3 -m tutti.run -n 2 sum.py
}

test_torch() {
  [ -n "$(find packages -name 'python3-tutti-torch_*')" ] || { skip "tools/deb has left out python3-tutti-torch"; return; }
  cat >"$root/srv/torch_sum.py" <<'END'
import os
import torch
import torch.distributed as dist
import tutti.torch
dist.init_process_group("tutti", init_method="file:///srv/meet", rank=int(os.environ["TUTTI_RANK"]), world_size=2)
value = torch.ones(3)
dist.all_reduce(value)
if dist.get_rank() == 0:
    print(value.tolist())
END
  inside_is "all_reduce of torch" "[2.0, 2.0, 2.0]" tutti run -n 2 -- python3 torch_sum.py
}

# The library that is preloaded finds the door of the MPI by itself.
test_mpi() {
  local mpi
  cat >"$root/srv/mpi.c" <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, sum = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d\n", sum);
  return MPI_Finalize();
}
END
  for mpi in openmpi mpich; do
    quietly inside "mpicc.$mpi" mpi.c -o "mpi.$mpi" || return
    inside_is "$mpi" 2 tutti mpi --report -- "mpirun.$mpi" -n 2 "./mpi.$mpi"
    has "report of $mpi" "$(cat err.txt)" "2 ranks: 2 routed, 0 left"
  done
}

# ---- without them again ----

test_remove() {
  local file left=
  quietly inside sh -c 'dpkg --purge $(dpkg-query -W -f "\${binary:Package}\n" "*tutti*")' || return
  is "packages that are left" "$(names)" ""
  # Folders that other packages have, too, stay.
  while read -r file; do
    [ ! -e "$root$file" ] && [ ! -L "$root$file" ] || inside dpkg -S "$file" >/dev/null 2>&1 || left+=" $file"
  done <files.txt
  is "files that are left" "$left" ""
  is "files with the name that are left" "$(find "$root" -xdev -path "$root/srv" -prune -o -name '*tutti*' -print)" ""
}

run_tests test_build test_lintian test_install test_command test_program_in_c test_python test_torch test_mpi test_remove
