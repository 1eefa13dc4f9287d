#!/bin/bash
# manuals_test.sh SOURCE BUILD: every page of docs/man, as it lies in the tree: groff and mandoc render it without a word of
# complaint, 80 columns wide, no column squeezed to a word a line, and it names what it is asked for by. man(1) finds it there.
# test: fast timeout=120
set -u
. "$1/tests/shell.sh"
source=$(cd "$1" && pwd) pages=$(cd "$1" && pwd)/docs/man
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LC_ALL=C.UTF-8 MANPAGER=cat MANWIDTH=80
unset MANPATH MANOPT

# check_rendering WHO PAGE: of what is in out.txt and err.txt.
check_rendering() {
  local who=$1 page=$2 name
  name=$(basename "$page") name=${name%.*}
  is "$page: complaints of $who" "$(head -n 3 err.txt)" ""
  [ "$(wc -l <out.txt)" -ge 12 ] || complain "$page: $who renders $(wc -l <out.txt) lines only"
  # Lines that stand so in the page, as code does, are as wide as they are.
  sed 's/^\.Dl *//; s/^\.Fn //; s/\\e/\\/g; s/\\&//g; s/\\-/-/g; s/^ *//' "$page" >verbatim.txt
  is "$page: too wide for 80 columns ($who)" "$(grep -E '^.{81,}' out.txt | sed 's/^ *//' | grep -vxFf verbatim.txt | head -n 3)" ""
  # Three lines in a row with one word far to the right: a column that has no room.
  is "$page: a word a line ($who)" "$(awk '
    { match($0, /^ */); narrow = NF == 1 && RLENGTH >= 32; run = narrow ? run + 1 : 0
      if (run == 3) print NR ": " $0 }' out.txt | head -n 3)" ""
  ! grep -qxF "$name" "$source/tests/symbols.txt" ||
    awk '/^NAME/ { on = 1; next } /^[A-Z]/ { on = 0 } on' out.txt | tr -s ' ,\n' '\n' | grep -qxF "$name" ||
    complain "$page: $who finds no '$name' in its NAME"
}

# Pages that are links to others are rendered as those are; mandoc is quick enough to show it for each.
test_groff() {
  command -v groff >/dev/null || { skip "there is no groff (Debian: groff-base)" && return; }
  local page
  for page in "$pages"/*.[1-9]; do
    [ -L "$page" ] && continue
    groff -mandoc -Tutf8 -ww -rLL=78n -P-cbou "$page" >out.txt 2>err.txt
    is "$page: status of groff" $? 0
    check_rendering groff "$page"
  done
}

test_mandoc() {
  command -v mandoc >/dev/null || { skip "there is no mandoc (Debian: mandoc)" && return; }
  local page
  for page in "$pages"/*.[1-9]; do
    mandoc -Tutf8 -Owidth=78 "$page" 2>err.txt | col -bx >out.txt
    is "$page: status of mandoc" "${PIPESTATUS[0]}" 0
    check_rendering mandoc "$page"
  done
}

# As a reader of the tree asks for them, from the root of the tree and from elsewhere.
test_man() {
  man --version 2>/dev/null | grep -q '^man ' || { skip "there is no man of man-db (Debian: man-db)" && return; }
  local place page
  for place in "$source" "$scratch"; do
    for page in tutti.7 tutti_wait.3 tutti_get.3; do
      (cd "$place" && man "$([ "$place" = "$source" ] && echo ./docs/man || echo "$pages")/$page") 2>"$scratch/err.txt" | col -bx >"$scratch/out.txt"
      is "man $page, in $place" "${PIPESTATUS[0]}" 0
      check_rendering man "$pages/$page"
    done
  done
}

cd "$scratch" || exit 1
run_tests
