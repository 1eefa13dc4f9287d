#!/bin/bash
# Tests the binary interface (docs/ABI.md): programs that were compiled with frozen headers, or with headers that have
# more fields than the current ones, run with the current library. All symbols of earlier versions are still exported,
# under the same version.
source=$1 build=$2
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
passed=0 failed=0

try() { # WHAT COMMAND...: reports whether the command succeeds
  local what=$1
  shift
  if "$@" >"$here/log" 2>&1; then
    echo "ok $what"
    passed=$((passed + 1))
  else
    sed 's/^/  /' "$here/log"
    echo "FAILED $what"
    failed=$((failed + 1))
  fi
}

sanitize=$(sed -n 's/^TUTTI_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
compile() { # PROGRAM HEADERS OPTIONS...: compiles tests/abi/program.c with the headers in the folder HEADERS
  local program=$1 headers=$2
  shift 2
  ${CC:-cc} -std=c17 -Wall -Wextra -Werror ${sanitize:+-fsanitize=$sanitize} "$@" -I"$headers" \
    "$source/tests/abi/program.c" -o "$here/$program" -L"$build" -ltutti -Wl,-rpath,"$build"
}

for version in "$source"/tests/abi/[0-9]*; do
  name=${version##*/}
  try "compile with the headers of $name" compile "$name" "$version"
  try "run the program of $name with the current library" "$build/tutti" run -n 2 -- "$here/$name"
done

# The current headers with one more field.
mkdir -p "$here/headers/tutti"
cp "$source"/include/tutti/*.h "$here/headers/tutti"
sed -i -E 's,^\} (tutti_call|tutti_options|tutti_op_options|tutti_channel_options|tutti_staging);$,  uint64_t grown;\n&,' \
  "$here"/headers/tutti/*.h
sed -i '/^struct tutti_tensor {$/,/^};$/ s,^};$,  uint64_t grown;\n};,' "$here"/headers/tutti/tensor.h
try "six structs have one more field" test "$(cat "$here"/headers/tutti/*.h | grep -c '^  uint64_t grown;$')" = 6
try "compile with one more field" compile grown "$here/headers" -DGROWN
try "calls succeed if the field is zero" "$build/tutti" run -n 2 -- "$here/grown"
try "calls fail with a message if the field is not zero" "$here/grown" refused

# A later library, whose six structs have one more field, serves programs of all earlier headers. It is a second
# build of the whole library, so only the long run tries it.
serve_later() {
  mkdir -p "$here/later" && cp -r "$source"/{CMakeLists.txt,cmake,include,src,cli,pto,bench,tools,docs,examples} "$here/later" &&
    cp "$here"/headers/tutti/*.h "$here/later/include/tutti" &&
    sed -i '/^_Static_assert(sizeof(tutti_/{:a;/;$/!{N;ba};d}' "$here/later/src/base/sized.c" &&
    cmake -S "$here/later" -B "$here/later-build" -DTUTTI_TESTS=OFF -DTUTTI_PTO=OFF >/dev/null &&
    cmake --build "$here/later-build" --target tutti -j2 >/dev/null || return 1
  local version
  for version in "$source"/tests/abi/[0-9]*; do
    LD_LIBRARY_PATH=$here/later-build "$build/tutti" run -n 2 -- "$here/${version##*/}-later" || return 1
  done
}
if [ -n "${TEST_LONG:-}" ]; then
  for version in "$source"/tests/abi/[0-9]*; do
    ${CC:-cc} -std=c17 -I"$version" "$source/tests/abi/program.c" -o "$here/${version##*/}-later" -L"$build" -ltutti
  done
  try "a later library with one more field runs the programs of all versions" serve_later
fi

# Prints the exported symbols, as lines NAME VERSION.
exported() { objdump -T "$build/libtutti.so" | awk '$NF ~ /^tutti_/ { version = $(NF - 1); gsub(/[()]/, "", version); print $NF, version }' | sort; }
exported >"$here/exported"
there() { awk 'NR == FNR { there[$0] = 1; next } !($0 in there) { print "missing: " $0; bad = 1 } END { exit bad }' "$@"; }
for version in "$source"/tests/abi/[0-9]*; do
  try "all symbols of ${version##*/} are exported, under their version" there "$here/exported" "$version/symbols.txt"
done
try "every exported symbol has a version" test -z "$(awk '$2 !~ /^TUTTI_/ ' "$here/exported")"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
