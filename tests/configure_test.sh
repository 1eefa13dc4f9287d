#!/bin/bash
# configure_test.sh SOURCE BUILD: CMake names what is not built for lack of a package, and the package. The first build
# after the package is installed builds it.
# test: fast timeout=120
set -u
. "$1/tests/shell.sh"
source=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# Configures the tree without compiling it; pkg-config finds only the packages in the folder `packages`.
test_blas_installed_later() {
  local name
  pkg-config --exists openblas || { skip "OpenBLAS not found (Debian: libopenblas-dev)" && return; }
  [ -z "$(ls -d /usr/lib/*/libblis* /usr/lib/*/blis-* /usr/local/lib/libblis* 2>/dev/null)" ] || { skip "BLIS is installed" && return; }
  mkdir packages
  for name in hwloc yaml-0.1 libsodium; do ln -s "$(pkg-config --variable pcfiledir $name)/$name.pc" packages; done
  ln -s "$(pkg-config --variable pcfiledir openblas)/openblas.pc" later.pc
  export PKG_CONFIG_LIBDIR=$scratch/packages
  unset PKG_CONFIG_PATH
  run_tool 0 cmake -S "$source" -B tree -DTUTTI_TESTS=OFF
  has_facts "configuring" "$err" "examples/allgather_matmul|BLAS|libopenblas-dev or libblis-dev"
  run_tool 0 cmake --build tree --target help
  is "an example without BLAS" "$(grep -c allgather_matmul <<<"$out")" 0
  sleep 1.1 # CMake compares times of files, which may be in whole seconds
  mv later.pc packages/openblas.pc
  run_tool 0 cmake --build tree --target cmake_check_build_system
  run_tool 0 cmake --build tree --target help
  is "the example, with BLAS" "$(grep -c '[.][.][.] allgather_matmul$' <<<"$out")" 1
}

run_tests
