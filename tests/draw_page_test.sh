#!/bin/bash
# draw_page_test.sh SOURCE BUILD: opens pages of `tutti plan --as html` in a browser without a screen, steps through time
# with the page's own buttons, and reads from the DOM what is complete. Skipped where there is no chromium.
# test: slow timeout=120
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
browser=$(command -v chromium || command -v chromium-browser) || { echo "skipped: there is no chromium" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch XDG_CONFIG_HOME=$scratch XDG_CACHE_HOME=$scratch
cd "$scratch" || exit 1
count() { grep -oE -- "$2" "$1" | wc -l; } # FILE EXPRESSION

# dump PAGE [#FRAGMENT] >FILE: the DOM when all scripts have run.
dump() {
  "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile-$1" --dump-dom \
    --virtual-time-budget=5000 "file://$scratch/$1${2:-}" 2>/dev/null
}

# What a person would do: looks, goes on until there is nothing to go on to, rests on a chunk, filters. Notes all in the
# body's data.
cat >person.html <<'EOF'
<script>
const open = () => document.querySelectorAll("[data-buffer=out][data-complete=no]").length;
const note = document.body.dataset;
note.atStart = note.step;
note.openAtStart = open();
note.outs = document.querySelectorAll("[data-buffer=out]").length;
note.clicks = 0;
for (; !document.getElementById("next").disabled; note.clicks++) document.getElementById("next").click();
const chunk = document.querySelector("[data-buffer=out][data-complete=yes]");
chunk.dispatchEvent(new Event("focus"));
note.told = document.getElementById("told").textContent;
note.sources = document.querySelectorAll(".message.source").length;
const rank = document.getElementById("rank");
rank.value = 0;
rank.dispatchEvent(new Event("change"));
note.leftByFilter = document.querySelectorAll(".message[data-message]:not(.hidden)").length;
</script>
EOF

# note NAME: what the person wrote into the body's data-NAME.
note() { sed -n "s/.*<body[^>]* data-$1=\"\([^\"]*\)\".*/\1/p" dom.html | head -1; }

# page ALGORITHM RANKS OUTPUT_CHUNKS ROUNDS [MESSAGES OF RANK 0]
page() {
  "$tutti" plan "$1" -n "$2" --as html >page.html || complain "tutti plan $1 fails"
  cat page.html person.html >"$1.html"
  dump "$1.html" | tr '\n' ' ' >dom.html
  is "$1: step at the start" "$(note at-start)" 0
  is "$1: output chunks" "$(note outs)" "$3"
  [ "$(note open-at-start)" -gt 0 ] || complain "$1: all is complete before anything has run"
  is "$1: rounds" "$(note steps)" "$4"
  is "$1: clicks to the end" "$(note clicks)" "$4"
  is "$1: step at the end" "$(note step)" "$4"
  is "$1: complete at the end" "$(count dom.html '<button[^>]*data-buffer="out"[^>]*data-complete="yes"')" "$3"
  is "$1: incomplete at the end" "$(count dom.html 'data-complete="no"')" 0
  is "$1: messages of rank 0" "$(note left-by-filter)" "$5"
}

test_allreduce_ring() {
  page allreduce.ring 4 16 6 12
  is "what is said of a chunk" "$(note told)" "rank 0, out[0]: the sum of in[0] of ranks 0-3 complete"
  is "messages that brought it" "$(note sources)" 6
}
test_reduce_binomial() { page reduce.binomial 8 1 3 3; }
test_allgather_bucket() { page allgather.bucket 5 25 4 8; }
test_alltoall_pairwise() { page alltoall.pairwise 4 16 3 6; }
test_scan_recursive_doubling() { page scan.recursive_doubling 8 8 3 3; }

# The page itself, driven by its address.
test_address() {
  "$tutti" plan barrier.dissemination -n 6 --as html >barrier.html
  dump barrier.html '#step=end' >dom.html
  is "complete at the end" "$(count dom.html 'data-complete="yes"')" 6
  is "the end" "$(count dom.html '<body data-step="3" data-steps="3"')" 1
}

run_tests
