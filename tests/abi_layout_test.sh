#!/bin/bash
# test: fast timeout=120
# Compares the public headers with the frozen headers of each release (tests/abi, docs/ABI.md): prototypes, values of
# constants, and offsets, sizes and types of fields. Nothing of a release may change or go; the structs that may grow
# get new fields at their end only. Then changes copies of the headers, and checks that each change is found.
source=$(cd "$1" && pwd)
. "$source/tests/shell.sh"
for tool in gcc awk; do
  command -v $tool >/dev/null || { echo "skipped: $tool is missing" && exit 77; }
done
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
export LC_ALL=C
grows="tutti_options tutti_call tutti_tensor tutti_mesh_tensor tutti_channel_options tutti_staging"

# describe FOLDER FILE: writes what the binary interface of FOLDER/tutti/*.h consists of, one fact per line.
describe() {
  (cd "$1" && for header in tutti/*.h; do echo "#include <$header>"; done) >all.h
  gcc -std=c17 -I"$1" -E -P all.h | awk -f "$source/tests/abi_describe.awk" >program.c &&
    gcc -std=c17 -I"$1" -I. program.c -o program && ./program >facts || return 1
  sed -n 's,^//,,p' program.c >>facts
  cp all.h all.c
  gcc -std=c17 -I"$1" -aux-info prototypes -fsyntax-only all.c || return 1
  sed -n 's,^/\*[^*]*\*/ ,,; s, */\*.*,,; /\btutti_[a-z_0-9]* (/s,^,function ,p' prototypes >>facts
  gcc -std=c17 -I"$1" -E -dM all.h |
    sed -n '/_H *$/d; /VERSION/d; /TUTTI_API/d; /TUTTI_CHECKED/d; s,^#define \(TUTTI_\),macro \1,p' >>facts
  # The size of tutti_mesh_tensor.local, the last field, grows with tutti_tensor.
  sed 's/^\(field tutti_mesh_tensor local at [0-9]*\), [0-9]* bytes/\1/' facts | sort -u >"$2"
}

# differences FROZEN CURRENT: prints what has changed in a way that breaks programs.
differences() {
  awk -v grows="$grows" '
    BEGIN { split(grows, names, " "); for (i in names) may_grow[names[i]] = 1 }
    NR == FNR { frozen[$0] = 1; if ($1 == "struct") bytes[$2] = $3; next }
    { current[$0] = 1 }
    $1 == "struct" { now[$2] = $3 }
    $1 == "field" && !($0 in frozen) && $2 in bytes && (!($2 in may_grow) || $5 + 0 < bytes[$2]) { print "new: " $0 }
    END {
      for (fact in frozen) {
        split(fact, part, " ")
        if (part[1] == "struct" && part[2] in may_grow && now[part[2]] >= bytes[part[2]]) continue
        if (!(fact in current)) print "gone: " fact
      }
    }' "$1" "$2" | sort
}

# The same as the frozen headers of every release.
test_nothing_has_changed() {
  local version
  for version in "$source"/tests/abi/[0-9]*; do
    describe "$version" frozen.txt || complain "the headers of ${version##*/} do not compile"
    is "${version##*/}" "$(differences frozen.txt current.txt)" ""
  done
}

# The description is complete: it has each exported function, each struct and each constant of the headers.
test_all_is_described() {
  local name
  while read -r name; do
    grep -q "^function .*\b$name (" current.txt || complain "no function $name"
  done <"$source/tests/symbols.txt"
  for name in $(grep -ohE 'struct tutti_[a-z_]+ \{' "$source"/include/tutti/*.h | awk '{ print $2 }'); do
    grep -q "^field $name " current.txt || complain "no fields of $name"
  done
  for name in $(grep -ohE '^  TUTTI_[A-Z_0-9]+ =' "$source"/include/tutti/*.h | awk '{ print $1 }'); do
    grep -q "^constant $name " current.txt || complain "no constant $name"
  done
}

# changed HEADER SCRIPT: changes a copy of the headers by a script of sed, and sets `found` to the differences.
changed() {
  rm -rf changed
  mkdir -p changed
  cp -r "$source/include/tutti" changed
  sed -i "$2" "changed/tutti/$1"
  ! cmp -s "$source/include/tutti/$1" "changed/tutti/$1" || complain "'$2' changes nothing"
  describe "$PWD/changed" after.txt || complain "'$2': the headers do not compile"
  found=$(differences current.txt after.txt)
}
breaks() { changed "$1" "$2" && has_facts "$2" "$found" "$3"; } # HEADER SCRIPT FACTS
fits() { changed "$1" "$2" && is "$2" "$found" ""; }            # HEADER SCRIPT

test_changed_values_are_found() {
  breaks tutti.h 's/TUTTI_MAX = 3,/TUTTI_MAX = 12,/' "gone: constant TUTTI_MAX 3"
  breaks channel.h 's/TUTTI_CHANNEL_COUNTED = 1,/TUTTI_CHANNEL_COUNTED = 2,/' "gone: constant TUTTI_CHANNEL_COUNTED 1"
  breaks tutti.h '/TUTTI_EXSCAN = 10,/d' "gone: constant TUTTI_EXSCAN 10"
  breaks tutti.h 's/TUTTI_NO_TIMEOUT (-1)/TUTTI_NO_TIMEOUT (-2)/' "gone: macro TUTTI_NO_TIMEOUT (-1)"
}

test_changed_fields_are_found() {
  breaks tutti.h 's/uint32_t rank, ranks;  /uint32_t ranks, rank;  /' "gone: field tutti_options rank at|options ranks"
  breaks tutti.h 's/int spin_us;/unsigned spin_us;/' "gone: field tutti_options spin_us at|int spin_us"
  breaks tutti.h 's/^  uint32_t peer;/  uint32_t new;\n&/' "new: field tutti_call new|gone: field tutti_call peer"
  breaks tensor.h 's/^} tutti_tiles;/  uint32_t new;\n&/' "gone: struct tutti_tiles 16|new: field tutti_tiles new"
  breaks window.h '/^  uint64_t session, number;/s/, number//' "gone: field tutti_event number at 8"
  breaks tensor.h 's/size_t strides\[TUTTI_DIMS\];/size_t strides[6];/' "gone: field tutti_tensor strides at"
}

test_changed_prototypes_are_found() {
  breaks tutti.h '/tutti_progress(/s/int timeout_ms)/unsigned timeout_ms)/' \
    "gone: function extern tutti_err tutti_progress (tutti_comm *, int)"
  breaks mesh.h 's/tutti_reshard(const tutti_mesh_tensor \*from, const/tutti_reshard(const tutti_mesh_tensor *from,/' \
    "gone: function|tutti_reshard"
  breaks tutti.h '/tutti_plan_free(/d' "gone: function extern void tutti_plan_free"
  breaks tutti.h 's/^typedef uint32_t tutti_op;/typedef int tutti_op;/' "gone: typedef uint32_t tutti_op"
  breaks tutti.h '/^typedef void tutti_on_ready/s/size_t count/int count/' "gone: typedef void tutti_on_ready"
}

test_additions_are_allowed() {
  fits tutti.h 's/TUTTI_LXOR = 10,/TUTTI_LXOR = 10, TUTTI_NEW = 20,/'
  fits tutti.h 's/^TUTTI_API int tutti_version(void);/&\nTUTTI_API int tutti_new(int);/'
  fits tutti.h 's/^} tutti_call;/  uint64_t new;\n&/'
  fits tensor.h '/^struct tutti_tensor {$/,/^};$/s/^};$/  uint64_t new;\n&/'
  fits window.h 's/^} tutti_staging;/  uint64_t new;\n&/'
  fits tutti.h 's/int tutti_version(void)/int tutti_version( void )/'
}

describe "$source/include" current.txt || { echo "FAILED: the headers do not compile" && exit 1; }
run_tests
