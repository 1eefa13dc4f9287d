#!/bin/bash
# manuals_test.sh SOURCE BUILD: tests every page of docs/man: groff and mandoc render it without warnings, 80 columns
# wide, with no column of one word per line, and its NAME section has its name. man(1) shows the pages from the tree.
# test: fast timeout=120
set -u
. "$1/tests/shell.sh"
source=$(cd "$1" && pwd) pages=$(cd "$1" && pwd)/docs/man
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C.UTF-8 MANPAGER=cat MANWIDTH=80
unset MANPATH MANOPT

# check_rendering WHO PAGE: checks the text in out.txt and the warnings in err.txt of a program that rendered a page.
check_rendering() {
  local who=$1 page=$2 name
  name=$(basename "$page") name=${name%.*}
  is "$page: warnings of $who" "$(head -n 3 err.txt)" ""
  [ "$(wc -l <out.txt)" -ge 12 ] || complain "$page: $who renders $(wc -l <out.txt) lines only"
  # Lines that are in the page as they are, such as code, may be wider.
  sed 's/^\.Dl *//; s/^\.Fn //; s/\\e/\\/g; s/\\&//g; s/\\-/-/g; s/^ *//' "$page" >verbatim.txt
  is "$page: too wide for 80 columns ($who)" "$(grep -E '^.{81,}' out.txt | sed 's/^ *//' | grep -vxFf verbatim.txt | head -n 3)" ""
  # Three consecutive lines with one word far to the right are a column that is too narrow.
  is "$page: one word per line ($who)" "$(awk '
    { match($0, /^ */); narrow = NF == 1 && RLENGTH >= 32; run = narrow ? run + 1 : 0
      if (run == 3) print NR ": " $0 }' out.txt | head -n 3)" ""
  ! grep -qxF "$name" "$source/tests/symbols.txt" ||
    awk '/^NAME/ { on = 1; next } /^[A-Z]/ { on = 0 } on' out.txt | tr -s ' ,\n' '\n' | grep -qxF "$name" ||
    complain "$page: $who finds no '$name' in its NAME"
}

# groff skips pages that are links to other pages; mandoc is fast enough to render all.
test_groff() {
  command -v groff >/dev/null || { skip "groff not found (Debian: groff-base)" && return; }
  local page
  for page in "$pages"/*.[1-9]; do
    [ -L "$page" ] && continue
    groff -mandoc -Tutf8 -ww -rLL=78n -P-cbou "$page" >out.txt 2>err.txt
    is "$page: status of groff" $? 0
    check_rendering groff "$page"
  done
}

test_mandoc() {
  command -v mandoc >/dev/null || { skip "mandoc not found (Debian: mandoc)" && return; }
  local page
  for page in "$pages"/*.[1-9]; do
    mandoc -Tutf8 -Owidth=78 "$page" 2>err.txt | col -bx >out.txt
    is "$page: status of mandoc" "${PIPESTATUS[0]}" 0
    check_rendering mandoc "$page"
  done
}

# The page of each exported function says who may call it and who owns the memory.
test_callers() {
  local name
  while read -r name; do
    grep -q '^\.Ss Callers and memory$' "$pages/$name.3" || complain "$name.3 does not say who may call the function"
  done <"$source/tests/symbols.txt"
}

# man(1) shows pages of the tree, called from the root of the tree and from elsewhere.
test_man() {
  man --version 2>/dev/null | grep -q '^man ' || { skip "man of man-db not found (Debian: man-db)" && return; }
  local folder page
  for folder in "$source" "$scratch"; do
    for page in tutti.7 tutti_wait.3 tutti_get.3; do
      (cd "$folder" && man "$([ "$folder" = "$source" ] && echo ./docs/man || echo "$pages")/$page") 2>"$scratch/err.txt" | col -bx >"$scratch/out.txt"
      is "man $page, in $folder" "${PIPESTATUS[0]}" 0
      check_rendering man "$pages/$page"
    done
  done
}

cd "$scratch" || exit 1
run_tests
