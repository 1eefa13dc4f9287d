#!/bin/bash
# test: fast timeout=120
# Compiles each public header alone, and all C headers together in two orders, in every standard that programs use,
# without a warning. Programs with enums of another size are refused.
source=$1
. "$source/tests/shell.sh"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
strict="-Wall -Wextra -Wpedantic -Wundef -Werror -fsyntax-only"

headers=$(cd "$source/include" && echo tutti/*.h)
for header in $headers; do echo "#include <$header>" >"$(basename "$header" .h).c"; done
cat -- *.c >all.txt
tac all.txt >reversed.c
mv all.txt all.c
# Uses the inline functions and a constant of each enum, as a program of any standard may write them.
cat >uses.c <<'EOF'
#include <tutti/channel.h>
#include <tutti/mesh.h>
#include <tutti/window.h>

tutti_err uses(tutti_comm *comm, tutti_channel **channel, tutti_tensor *tensor);
tutti_err uses(tutti_comm *comm, tutti_channel **channel, tutti_tensor *tensor) {
  static tutti_channel_options options;
  static tutti_staging staging;
  static tutti_call call;
  tutti_request *request;
  tutti_err err = tutti_init(0, &comm);
  options.timeout_ms = TUTTI_NO_TIMEOUT;
  options.ending = TUTTI_CHANNEL_MARKED;
  call.collective = TUTTI_BARRIER;
  call.timeout_ms = TUTTI_NO_TIMEOUT;
  if (err == TUTTI_OK) err = tutti_channel_open(comm, 1, TUTTI_CHANNEL_SENDS, &options, channel);
  if (err == TUTTI_OK) err = tutti_put(tensor, tensor, &staging, 0);
  if (err == TUTTI_OK) err = tutti_start(comm, &call, &request);
  return err == TUTTI_OK ? tutti_wait(&request) : err;
}
EOF

# compile STATUS OPTIONS... FILE
compile() {
  # shellcheck disable=SC2086
  run_tool "$1" "${@:2:1}" $strict "-I$source/include" "${@:3}"
}

# in_each_standard COMPILER LANGUAGE STANDARD...
in_each_standard() {
  local compiler=$1 language=$2 standard file
  shift 2
  command -v "$compiler" >/dev/null || { skip "$compiler is missing" && return; }
  for standard in "$@"; do
    for file in *.c; do
      compile 0 "$compiler" -std="$standard" -x "$language" "$file"
      is "warnings of $compiler, $standard, $file" "$err" ""
    done
  done
}

test_c() {
  in_each_standard gcc c c99 c11 c17 c2x
  in_each_standard clang c c99 c11 c17
}

test_cpp() {
  in_each_standard g++ c++ c++11 c++17 c++20
  in_each_standard clang++ c++ c++11 c++17 c++20
}

test_enums_of_another_size_are_refused() {
  local row
  for row in "gcc c c17" "g++ c++ c++11"; do
    # shellcheck disable=SC2086
    set -- $row
    command -v "$1" >/dev/null || { skip "$1 is missing" && continue; }
    compile 1 "$1" -std="$3" -x "$2" -fshort-enums tutti.c
    has "the message of $1" "$err" "enums of tutti have 4 bytes"
  done
}

run_tests
