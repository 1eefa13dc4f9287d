#!/bin/bash
# The example in README.md works as printed: its first ```c block is built and run by the commands in the ```sh (or
# ```console) block after it, in a folder that looks like a clone, and prints what the ```text block after it says
# (lines in any order: ranks do not take turns). Without a block of commands: one cc line, and `build/tutti run -n 4`.
source=$1 build=$2
skip() {
  echo "$1"
  exit 77
}
[ -f "$source/README.md" ] || skip "there is no README.md yet"
grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "a plain program cannot load a sanitized library"

here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
ln -s "$source/include" "$here/include"
ln -s "$build" "$here/build"

# The first block of each kind at or after the first ```c.
awk -v here="$here" '
  /^```/ && !open { kind = substr($0, 4); open = 1; if (kind == "c") seen = 1; next }
  /^```/ { if (seen) done[kind] = 1; open = 0; next }
  open && seen && !done[kind] {
    file = kind == "c" ? "code" : kind == "text" ? "output" : kind ~ /^(sh|bash|console)$/ ? "commands" : ""
    if (kind ~ /^(sh|bash|console)$/ && done["sh"] + done["bash"] + done["console"]) file = ""
    if (file == "commands" && kind == "console" && !sub(/^\$ /, "")) next
    if (file != "") print > (here "/" file)
  }' "$source/README.md"

fail() {
  echo "  $1"
  echo "FAILED README.md example"
  echo "0 passed, 1 failed"
  exit 1
}
[ -s "$here/code" ] || fail "README.md has no \`\`\`c block"
[ -s "$here/output" ] || fail "README.md has no \`\`\`text block (what the example prints) after its \`\`\`c block"
[ -s "$here/commands" ] || cat >"$here/commands" <<'EOF'
cc -o hello hello.c -Iinclude -Lbuild -ltutti -Wl,-rpath,$PWD/build
build/tutti run -n 4 -- ./hello
EOF
name=$(grep -oE '[A-Za-z0-9_]+\.c\b' "$here/commands" | head -1)
[ -n "$name" ] || fail "the commands after the example compile no .c file"
mv "$here/code" "$here/$name"

cd "$here" || exit 1
timeout 50 sh -e ./commands >found 2>errors
status=$?
[ $status = 0 ] || fail "exit $status from its commands: $(cat commands errors)"
diff <(sort output) <(sort found) >differences ||
  fail "it prints something else (<: README, >: found): $(cat differences)"
lines=$(wc -l <"$name")
[ "$lines" -le 45 ] || fail "the example has $lines lines; it is to fit on one screen"
echo "ok README.md example ($name, $lines lines)"
echo "1 passed, 0 failed"
