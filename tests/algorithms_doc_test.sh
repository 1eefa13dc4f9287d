#!/bin/bash
# test: slow timeout=120
# Checks docs/ALGORITHMS.md: it has the algorithms of `tutti list` and no others, its tables and pictures are up to
# date, and its formulas agree with the counts of `tutti sim` and `tutti plan` for several numbers of ranks. Checks also
# that docs/ARCHITECTURE.md shows an algorithm's file as it is.
set -u
source=$1 build=$2
tutti=$build/tutti
page=$source/docs/ALGORITHMS.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 complaints=0

complain() { echo "  $*" && complaints=$((complaints + 1)); }

test_sections() {
  "$tutti" list | awk '{ print $1 }' | sort >"$scratch/names"
  sed -n 's/^### //p' "$page" | grep '\.' | sort >"$scratch/sections"
  local gone
  gone=$(comm -13 "$scratch/names" "$scratch/sections")
  [ -z "$gone" ] || complain "sections without an algorithm: $gone"
  # An algorithm may be added before its section and picture are written.
  comm -23 "$scratch/names" "$scratch/sections" | sed 's/^/  not described yet: /'
  local name
  while read -r name; do
    sed -n "/^### $name\$/,/^##/p" "$page" >"$scratch/section"
    grep -qF "](algorithms/$name.svg)" "$scratch/section" || complain "$name: its section has no picture"
    for kind in Cost Messages Scratch; do
      grep -q "^- $kind (" "$scratch/section" || complain "$name: its section has no line '- $kind (...): \`...\`'"
    done
    grep -q "^- When: " "$scratch/section" || complain "$name: its section has no line '- When: '"
    grep -q "^- Source: " "$scratch/section" || complain "$name: its section has no line '- Source: '"
  done < <(comm -12 "$scratch/names" "$scratch/sections")
}

test_tables() {
  "$source/tools/describe-algorithms" "$build" "$page" | diff "$page" - >"$scratch/differences" ||
    complain "the tables are out of date (make docs): $(head -5 "$scratch/differences")"
}

test_pictures() {
  "$source/tools/draw-algorithms" "$build" "$scratch/pictures"
  diff -r "$source/docs/algorithms" "$scratch/pictures" | grep -E '^(Only|diff)' | grep -v "^Only in $scratch" \
    >"$scratch/differences"
  "$build/tutti" plan reduce.binomial -n 6 --order canonical --as svg >"$scratch/order.svg"
  cmp -s "$scratch/order.svg" "$source/docs/order.svg" || complain "docs/order.svg is out of date (make docs)"
  [ ! -s "$scratch/differences" ] || complain "docs/algorithms is out of date (make docs): $(head -5 "$scratch/differences")"
}

# Prints the lines `- KIND (RANKS[, at most|at least][, OPTIONS]): `FORMULA`...` of all sections in the form
# NAME|KIND|RANKS|BOUND|OPTIONS|FORMULA. RANKS: any N, N a power of two, other N, even N, N = 2, N > 2.
formulas() {
  awk -F'`' '
    /^##/ { name = $0; sub(/^### /, "", name) }
    /^- (Cost|Messages|Scratch|Rounds) \(/ {
      kind = $0; sub(/^- /, "", kind); sub(/ .*/, "", kind)
      head = $1; options = ""; formula = $2
      if ($2 ~ /^--/) { options = $2; formula = $4 }
      ranks = head; sub(/^[^(]*\(/, "", ranks); sub(/[,)].*/, "", ranks)
      bound = head ~ /, at most/ ? "at most" : head ~ /, at least/ ? "at least" : "is"
      print name "|" kind "|" ranks "|" bound "|" options "|" formula
    }' "$page"
}

concerns() { # RANKS N: returns 0 if RANKS includes N, 1 if not, 2 if RANKS is unknown
  case $1 in
  'any N') ;;
  'N a power of two') (($2 & ($2 - 1))) && return 1 ;;
  'other N') (($2 & ($2 - 1))) || return 1 ;;
  'even N') (($2 % 2 == 0)) || return 1 ;;
  'N = 2') [ "$2" = 2 ] || return 1 ;;
  'N > 2') [ "$2" -gt 2 ] || return 1 ;;
  *) return 2 ;;
  esac
}

# Prints the counts of the command, one per line: KIND|N|alpha|beta|gamma|value.
measured() { # NAME OPTIONS N
  local name=$1 n=$3 costs alpha beta gamma
  for costs in "1 0 0" "0 1 0" "0 0 1" "1e-6 8e-11 5e-11"; do
    read -r alpha beta gamma <<<"$costs"
    # shellcheck disable=SC2086
    "$tutti" sim "$name" -n "$n" $2 --bytes 720720 --alpha $alpha --beta $beta --gamma $gamma --json |
      sed -n "s/.*\"time_s\": \\([^,]*\\), \"messages\": \\([0-9]*\\),.*/Cost|$n|$alpha|$beta|$gamma|\\1\nMessages|$n|0|0|0|\\2/p"
  done
  # shellcheck disable=SC2086
  "$tutti" plan "$name" -n "$n" $2 --json 2>/dev/null | sed -n "
    s/.*\"split\": \\([0-9]*\\).*/Split|$n|0|0|0|\\1/p
    s/.*\"rounds\": \\([0-9]*\\), \"tmp_chunks_max\": \\([0-9]*\\).*/Rounds|$n|0|0|0|\\1\nScratch|$n|0|0|0|\\2/p
    /\"plans\"/q"
}

test_formulas() {
  formulas >"$scratch/formulas"
  local name kind ranks bound options formula number=0 n
  {
    echo 'function lg(x,  k) { for (k = 0; 2 ^ k < x; k++) continue; return k }'
    echo 'function max(x, y) { return x > y ? x : y }'
    echo 'function int_power(x) { return 2 ^ (lg(x + 1) - (2 ^ lg(x + 1) > x)) }'
    echo 'function ranks(x) { N = x; P = int_power(x); n = 720720; m = n / N }'
    while IFS='|' read -r name kind ranks bound options formula; do
      echo "function f$((number += 1))() { return $formula }"
    done <"$scratch/formulas"
    echo 'BEGIN { FS = "|" } { ranks($2); alpha = $3; beta = $4; gamma = $5 }'
    for ((n = 1; n <= number; n++)); do echo "\$8 == $n { says = f$n() }"; done
    cat <<'EOF'
    {
      is = $6; slack = 1e-9 * (is > 0 ? is : 1); checked++
      if ($7 == "is" ? says > is + slack || says < is - slack : $7 == "at most" ? is > says + slack : is < says - slack)
        print "  " $9 ": " $1 " of " N " ranks: the page says " says " (" $7 "), the command " is ", at alpha " alpha ", beta " beta ", gamma " gamma
    }
    END { print checked + 0 > "/dev/stderr" }
EOF
  } >"$scratch/program"

  while IFS='|' read -r name options; do
    for n in 2 3 4 5 7 8 12 16; do
      measured "$name" "$options" $n | sed "s/^/$name|$options|/"
    done
  done < <(cut -d'|' -f1,5 "$scratch/formulas" | sort -u) 2>/dev/null >"$scratch/measured"

  number=0
  while IFS='|' read -r name kind ranks bound options formula; do
    number=$((number + 1))
    for n in 2 3 4 5 7 8 12 16; do
      concerns "$ranks" $n
      case $? in
      1) continue ;;
      2) complain "$name: '$ranks' is not among: any N, N a power of two, other N, even N, N = 2, N > 2" ;;
      esac
      echo "$name|$options|$kind|$n|$bound|$number"
    done
  done <"$scratch/formulas" >"$scratch/questions"

  # Scratch is counted in chunks; a block has `split` chunks.
  awk -F'|' '
    function bytes(name, n,    c) {
      c = name; sub(/\..*/, "", c)
      return (c ~ /^(allgather|reduce_scatter|alltoall|gather|scatter)$/ ? 720720 / n : 720720)
    }
    FILENAME ~ /measured$/ {
      key = $1 "|" $2 "|" $3 "|" $4
      if ($3 == "Split") { split_[$1, $2, $4] = $8; next }
      value = $3 == "Scratch" ? $8 * bytes($1, $4) / split_[$1, $2, $4] : $8
      rows[key] = rows[key] $3 "|" $4 "|" $5 "|" $6 "|" $7 "|" value "\n"
      next
    }
    {
      count = split(rows[$1 "|" $2 "|" $3 "|" $4], row, "\n")
      for (i = 1; i < count; i++) print row[i] "|" $5 "|" $6 "|" $1
    }' "$scratch/measured" "$scratch/questions" >"$scratch/rows"
  awk -f "$scratch/program" "$scratch/rows" >"$scratch/wrong" 2>"$scratch/checked"
  sort -u "$scratch/wrong" | head -40
  complaints=$((complaints + $(wc -l <"$scratch/wrong")))
  [[ $(cat "$scratch/checked") =~ ^[0-9]+$ ]] || complain "a formula cannot be computed: $(head -3 "$scratch/checked")"
  [ "$(cat "$scratch/checked")" -gt 2000 ] || complain "only $(cat "$scratch/checked") numbers were compared"
}

# A listing is a line "The whole of `FILE`:", and then a code block that equals FILE.
test_listings() {
  local file
  for file in $(sed -n 's/^The whole of `\(.*\)`:$/\1/p' "$source/docs/ARCHITECTURE.md"); do
    awk -v file="$file" '
      $0 == "The whole of `" file "`:" { found = 1 }
      found && /^```/ { if (open) exit; open = 1; next }
      open { print }' "$source/docs/ARCHITECTURE.md" | diff "$source/$file" - >"$scratch/differences" ||
      complain "docs/ARCHITECTURE.md differs from $file: $(cat "$scratch/differences")"
  done
  [ -n "${file:-}" ] || complain "docs/ARCHITECTURE.md has no listing of a file"
}

for test in sections tables pictures formulas listings; do
  complaints=0
  "test_$test"
  if [ $complaints = 0 ]; then
    passed=$((passed + 1))
  else
    echo "FAILED $test"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
