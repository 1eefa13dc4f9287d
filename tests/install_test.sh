#!/bin/bash
# test: slow timeout=120
# Tests an installation as a user's build sees it: installs below a DESTDIR, moves the tree elsewhere, and builds and
# runs programs against it with pkg-config (shared, static) and with CMake (C, C++11, C++17, shared, static).
source=$1 build=$2
skip() {
  echo "$1"
  exit 77
}
grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "a plain program cannot load a sanitized library"
for tool in g++ pkg-config cmake; do
  command -v $tool >/dev/null || skip "$tool not found: tools/setup check installs it"
done

here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
passed=0 failed=0
try() { # NAME COMMAND...: reports whether the command succeeds
  local name=$1
  shift
  if "$@" >"$here/log" 2>&1; then
    echo "ok $name"
    passed=$((passed + 1))
  else
    sed 's/^/  /' "$here/log"
    echo "FAILED $name"
    failed=$((failed + 1))
  fi
}

cat >"$here/sum.c" <<'EOF'
#include <tutti/tutti.h>
#include <stdio.h>

int main(void) {
  tutti_comm *world;
  if (tutti_init(NULL, &world) != TUTTI_OK) {
    fprintf(stderr, "%s\n", tutti_error_message(NULL));
    return 1;
  }
  int32_t ranks = 1;
  if (tutti_allreduce(world, &ranks, &ranks, 1, TUTTI_I32, TUTTI_SUM) != TUTTI_OK) return 1;
  int good = (uint32_t)ranks == tutti_ranks(world) && tutti_version() == 10000 * TUTTI_VERSION_MAJOR +
    100 * TUTTI_VERSION_MINOR + TUTTI_VERSION_PATCH;
  if (tutti_rank(world) == 0) printf("sum %d\n", (int)ranks);
  return tutti_comm_free(world) != TUTTI_OK || !good;
}
EOF
cp "$here/sum.c" "$here/sum.cpp"
cat >"$here/pto.cpp" <<'EOF'
#include <pto/comm/pto_comm_inst.hpp>

int main() {
  tutti_comm *world;
  tutti_window *window;
  if (tutti_init(nullptr, &world) != TUTTI_OK || tutti_window_create(world, nullptr, 4, &window) != TUTTI_OK) return 1;
  pto::comm::Signal signal(static_cast<int32_t *>(tutti_window_address(window, 0)));
  pto::comm::TNOTIFY(signal, 1, pto::comm::NotifyOp::AtomicAdd);
  if (tutti_barrier(world) != TUTTI_OK) return 1;
  int good = *signal.data() == static_cast<int32_t>(tutti_ranks(world));
  return tutti_window_free(window) != TUTTI_OK || tutti_comm_free(world) != TUTTI_OK || !good;
}
EOF

# ---- install, then move: no file of the tree may contain the path to which it was installed ----
try "install" env DESTDIR="$here/stage" cmake --install "$build" --prefix /opt/tutti
if [ $failed != 0 ]; then
  echo "$passed passed, $failed failed"
  exit 1
fi
mkdir -p "$here/moved"
mv "$here/stage/opt/tutti" "$here/moved/tree" || exit 1
tree=$here/moved/tree
libdir=$(dirname "$(dirname "$(find "$tree" -name tutti.pc)")")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
tutti=$tree/bin/tutti

strays() { # fails if a file is outside the prefix, or contains a path of the build
  find "$here/stage" -type f | grep . && return 1
  ! grep -rlI -e "$build" -e "$here" -e "$source" "$tree" --include='*.pc' --include='*.cmake' --include='*.h' --include='*.hpp'
}
files() {
  local wanted="$tree/include/tutti/tutti.h $tree/include/tutti/tutti.hpp $tree/include/tutti/pto/comm/pto_comm_inst.hpp $libdir/libtutti.so $libdir/libtutti.so.0 $libdir/libtutti.a $tutti
    $libdir/cmake/tutti/tuttiConfig.cmake $libdir/cmake/tutti/tuttiConfigVersion.cmake
    $tree/share/man/man7/tutti.7 $tree/share/man/man3/tutti_init.3 $tree/share/man/man3/tutti_allreduce.3 $tree/share/man/man3/tutti_wait.3
    $tree/share/man/man3/tutti_hpp.3
    $tree/share/bash-completion/completions/tutti $tree/share/zsh/site-functions/_tutti"
  # shellcheck disable=SC2086
  ls $wanted
}
try "all files are installed" files
try "nothing outside the prefix, no path of the build" strays
try "the installed command" "$tutti" --help
version=$(sed -n 's/.*VERSION \([0-9.]*\) LANGUAGES.*/\1/p' "$source/CMakeLists.txt")
try "pkg-config knows version $version" test "$(pkg-config --modversion tutti)" = "$version"

# ---- pkg-config ----
# shellcheck disable=SC2046
try "compile by pkg-config" cc -Wall -Wextra -Werror -o "$here/shared" "$here/sum.c" $(pkg-config --cflags --libs tutti)
uses_soname() { objdump -p "$1" | grep -q 'NEEDED *libtutti\.so\.0$'; }
try "the program needs libtutti.so.0" uses_soname "$here/shared"
try "the program runs alone" "$here/shared"
try "the program runs on 3 ranks" "$tutti" run -n 3 -- "$here/shared"
# shellcheck disable=SC2046
try "compile statically by pkg-config" cc -o "$here/static" "$here/sum.c" \
  $(pkg-config --static --cflags --libs tutti | sed 's/-ltutti/-l:libtutti.a/')
needs_none() { [ -x "$1" ] && ! objdump -p "$1" | grep 'NEEDED.*tutti'; }
try "the static program needs no libtutti.so" needs_none "$here/static"
try "the static program runs on 2 ranks" "$tutti" run -n 2 -- "$here/static"

# ---- PTO, which needs a pkg-config module of its own ----
# shellcheck disable=SC2046
try "compile PTO by pkg-config" g++ -std=c++17 -Wall -Wextra -Werror -o "$here/pto" "$here/pto.cpp" \
  $(pkg-config --cflags --libs tutti-pto)
try "the PTO program runs on 2 ranks" "$tutti" run -n 2 -- "$here/pto"
# shellcheck disable=SC2046
unasked() { ! g++ -std=c++17 -fsyntax-only $(pkg-config --cflags tutti) "$here/pto.cpp"; }
try "PTO headers are not found without tutti-pto" unasked

# ---- CMake, C and C++ ----
cat >"$here/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C CXX)
find_package(tutti 0.1 REQUIRED)
add_executable(c_shared sum.c)
add_executable(c_static sum.c)
add_executable(cpp_11 sum.cpp)
add_executable(cpp_17 sum.cpp)
set_target_properties(cpp_11 PROPERTIES CXX_STANDARD 11 CXX_EXTENSIONS OFF)
set_target_properties(cpp_17 PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS OFF)
foreach(target c_shared c_static cpp_11 cpp_17)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Werror)
endforeach()
target_link_libraries(c_shared tutti::tutti)
target_link_libraries(c_static tutti::tutti_static)
target_link_libraries(cpp_11 tutti::tutti)
target_link_libraries(cpp_17 tutti::tutti_static)
add_executable(pto pto.cpp)
target_link_libraries(pto tutti::pto)
EOF
try "find_package" cmake -S "$here" -B "$here/user" -DCMAKE_PREFIX_PATH="$tree"
try "build by CMake" cmake --build "$here/user"
for program in c_shared c_static cpp_11 cpp_17 pto; do
  try "$program runs on 2 ranks" "$tutti" run -n 2 -- "$here/user/$program"
done
sed -i 's/find_package(tutti 0.1/find_package(tutti 9.0/' "$here/CMakeLists.txt"
refuses() { ! cmake -S "$here" -B "$here/later" -DCMAKE_PREFIX_PATH="$tree"; }
try "find_package refuses a version that is not installed" refuses

# ---- uninstall: removes the installed files, and no others ----
mkdir -p "$here/stage/usr/include" "$here/stage/usr/share/man/man3"
touch "$here/stage/usr/include/other.h" "$here/stage/usr/share/man/man3/other.3"
try "install beside other files" env DESTDIR="$here/stage" cmake --install "$build" --prefix /usr
try "uninstall" "$source/tools/uninstall" "$build" "$here/stage"
left() { # succeeds if only other.h and other.3 are left, and no folder of tutti
  test "$(find "$here/stage" -type f -o -type l | sort)" = "$here/stage/usr/include/other.h
$here/stage/usr/share/man/man3/other.3" && ! find "$here/stage" -name '*tutti*' | grep .
}
try "only the installed files are removed" left
no_list() { ! "$source/tools/uninstall" "$build" "$here/stage"; }
try "uninstall fails without the list of installed files" no_list

echo "$passed passed, $failed failed"
[ $failed = 0 ]
