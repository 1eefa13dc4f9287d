#!/bin/bash
# What the libraries export: tests/symbols.txt, the header and libtutti.so name the same functions, and the static
# library defines nothing outside tutti_ and tu_.
source=$1 build=$2
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
passed=0 failed=0

same() { # NAME, EXPECTED, FOUND
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

# What the linker and the sanitizers add is not ours.
nm -D --defined-only "$build/libtutti.so" | awk '{ print $NF }' |
  grep -vE '^(_init|_fini|_edata|_end|__bss_start|__odr_asan.*|__asan.*|__tsan.*)$' | sort >"$here/shared"
same "libtutti.so exports what symbols.txt lists" "$here/expected" "$here/shared"

nm -g --defined-only "$build/libtutti.a" 2>/dev/null | awk 'NF == 3 { print $3 }' |
  grep -vE '^(tutti_|tu_|__odr_asan|__asan|__tsan)' | sort >"$here/strangers"
: >"$here/none"
same "libtutti.a defines tutti_ and tu_ names only" "$here/none" "$here/strangers"

objdump -p "$build/libtutti.so" | awk '$1 == "SONAME" { print $2 }' >"$here/soname"
major=$(awk '$2 == "TUTTI_VERSION_MAJOR" { print $3 }' "$source/include/tutti/tutti.h")
echo "libtutti.so.$major" >"$here/soname_expected"
same "the soname carries the major version" "$here/soname_expected" "$here/soname"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
