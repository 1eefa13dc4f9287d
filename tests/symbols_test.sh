#!/bin/bash
# Tests the symbols of the libraries: tests/symbols.txt, the headers and libtutti.so have the same functions, and the
# static library defines only names with tutti_ and tu_.
source=$1 build=$2
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
passed=0 failed=0

same() { # NAME EXPECTED FOUND: compares two files
  if diff "$2" "$3" >"$here/diff"; then
    echo "ok $1"
    passed=$((passed + 1))
  else
    sed 's/^</  missing:/; s/^>/  not in tests\/symbols.txt:/; /^[0-9]/d; /^---/d' "$here/diff"
    echo "FAILED $1"
    failed=$((failed + 1))
  fi
}

export LC_ALL=C
sort "$source/tests/symbols.txt" >"$here/expected"
grep -h TUTTI_API "$source"/include/tutti/*.h | grep -o '\btutti_[a-z_0-9]*(' | tr -d '(' | sort >"$here/header"
same "the header declares what symbols.txt lists" "$here/expected" "$here/header"

# Symbols that the linker and the sanitizers add do not count.
nm -D --defined-only "$build/libtutti.so" | awk '{ sub(/@.*/, "", $NF); print $NF }' |
  grep -vE '^(_init|_fini|_edata|_end|__bss_start|TUTTI_[0-9.]*|__odr_asan.*|__asan.*|__tsan.*)$' | sort >"$here/shared"
same "libtutti.so exports what symbols.txt lists" "$here/expected" "$here/shared"

sed -n 's/^ *\(tutti_[a-z_0-9]*\);.*/\1/p' "$source/src/tutti.map" | sort >"$here/versioned"
same "src/tutti.map gives each function a version" "$here/expected" "$here/versioned"

nm -g --defined-only "$build/libtutti.a" 2>/dev/null | awk 'NF == 3 { print $3 }' |
  grep -vE '^(tutti_|tu_|__odr_asan|__asan|__tsan)' | sort >"$here/strangers"
: >"$here/none"
same "libtutti.a defines tutti_ and tu_ names only" "$here/none" "$here/strangers"

objdump -p "$build/libtutti.so" | awk '$1 == "SONAME" { print $2 }' >"$here/soname"
major=$(awk '$2 == "TUTTI_VERSION_MAJOR" { print $3 }' "$source/include/tutti/tutti.h")
echo "libtutti.so.$major" >"$here/soname_expected"
same "the soname has the major version" "$here/soname_expected" "$here/soname"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
