#!/bin/bash
# draw_page_test.sh SOURCE BUILD: opens pages of `tutti plan --as html` in a headless browser, steps through time with
# the page's buttons, and reads from the DOM which chunks are complete. Skipped if chromium is not installed.
# test: slow timeout=120
set -u
. "$1/tests/shell.sh"
tutti=$2/tutti
browser=$(command -v chromium || command -v chromium-browser) || { echo "skipped: chromium not found" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch XDG_CONFIG_HOME=$scratch XDG_CACHE_HOME=$scratch
cd "$scratch" || exit 1
count() { grep -oE -- "$2" "$1" | wc -l; } # FILE EXPRESSION: prints the number of matches

# dump PAGE [#FRAGMENT] >FILE: prints the DOM after all scripts have run.
dump() {
  "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile-$1" --dump-dom \
    --virtual-time-budget=5000 "file://$scratch/$1${2:-}" 2>/dev/null
}

# A script that acts like a user: it looks at the page, goes to the start, steps to the end, focuses a chunk, and filters
# by rank. It writes what it finds into data attributes of the body.
cat >person.html <<'EOF'
<script>
const open = () => document.querySelectorAll("[data-buffer=out][data-complete=no]").length;
const note = document.body.dataset;
note.opened = `${note.step} ${open()}`;
document.getElementById("first").click();
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

# note NAME: prints data-NAME of the body.
note() { sed -n "s/.*<body[^>]* data-$1=\"\([^\"]*\)\".*/\1/p" dom.html | head -1; }

# page ALGORITHM RANKS OUTPUT_CHUNKS ROUNDS MESSAGES_OF_RANK_0: makes a page, and checks the script's findings.
page() {
  "$tutti" plan "$1" -n "$2" --as html >page.html || complain "tutti plan $1 failed"
  cat page.html person.html >"$1.html"
  dump "$1.html" | tr '\n' ' ' >dom.html
  is "$1: step and incomplete chunks of the opened page" "$(note opened)" "$4 0"
  is "$1: step at the start" "$(note at-start)" 0
  is "$1: output chunks" "$(note outs)" "$3"
  [ "$(note open-at-start)" -gt 0 ] || complain "$1: all output is complete at step 0"
  is "$1: rounds" "$(note steps)" "$4"
  is "$1: clicks to the end" "$(note clicks)" "$4"
  is "$1: step at the end" "$(note step)" "$4"
  is "$1: complete at the end" "$(count dom.html '<button[^>]*data-buffer="out"[^>]*data-complete="yes"')" "$3"
  is "$1: incomplete at the end" "$(count dom.html 'data-complete="no"')" 0
  is "$1: messages of rank 0" "$(note left-by-filter)" "$5"
}

test_allreduce_ring() {
  page allreduce.ring 4 16 6 12
  has_facts "description of a chunk" "$(note told)" "rank 0, out[0]|in[0] of ranks 0-3|complete"
  is "messages that contribute to the chunk" "$(note sources)" 6
}
test_reduce_binomial() { page reduce.binomial 8 1 3 3; }
test_allgather_bucket() { page allgather.bucket 5 25 4 8; }
test_alltoall_pairwise() { page alltoall.pairwise 4 16 3 6; }
test_scan_recursive_doubling() { page scan.recursive_doubling 8 8 3 3; }

# A picture of more than 64 rounds shows a window of them. The window follows the step, and can be moved.
test_window() {
  cat >user.html <<'EOF'
<script>
const said = document.body.dataset, button = id => document.getElementById(id);
const look = () => `${said.from}-${said.to}: ${document.querySelectorAll(".message[data-message]:not(.outside)").length}`;
said.windows = [...button("rounds").options].map(option => option.textContent).join(" ");
said.opened = look();
button("first").click();
said.atStart = look();
button("rounds-on").click();
said.moved = `${look()} step ${said.step}`;
for (let i = 0; i < 64; i++) button("next").click();
said.before = look();
button("next").click();
said.followed = look();
dispatchEvent(new Event("beforeprint"));
said.sheets = document.querySelectorAll("#sheets > svg").length > 1;
said.printed = document.querySelectorAll("#sheets .message[data-message]").length;
dispatchEvent(new Event("afterprint"));
said.left = document.querySelectorAll("#sheets > svg").length;
</script>
EOF
  "$tutti" plan allreduce.ring -n 40 --as html >page.html
  cat page.html user.html >window.html
  dump window.html | tr '\n' ' ' >dom.html
  is "windows" "$(note windows)" "1–64 65–78"
  is "the window of the opened page" "$(note opened)" "65-78: 560"
  is "the window at the start" "$(note at-start)" "1-64: 2560"
  is "the moved window" "$(note moved)" "65-78: 560 step 0"
  is "the window at round 64" "$(note before)" "1-64: 2560"
  is "the window at round 65" "$(note followed)" "65-78: 560"
  is "several sheets of paper" "$(note sheets)" true
  is "printed messages" "$(note printed)" 560
  is "sheets after printing" "$(note left)" 0
  "$tutti" plan allreduce.ring -n 8 --as html >small.html
  dump small.html | tr '\n' ' ' >dom.html
  is "the window of a small picture" "$(note from)-$(note to)" 1-14
  is "controls of a window" "$(count dom.html '<span hidden="">rounds')" 1
}

# The fragment of the address selects the step.
test_address() {
  "$tutti" plan barrier.dissemination -n 6 --as html >barrier.html
  dump barrier.html '#step=2' >dom.html
  is "complete after round 2" "$(count dom.html 'data-complete="yes"')" 0
  is "step 2" "$(count dom.html '<body data-step="2" data-steps="3"')" 1
  dump barrier.html '#step=end' >dom.html
  is "complete at the end" "$(count dom.html 'data-complete="yes"')" 6
  is "the last step" "$(count dom.html '<body data-step="3" data-steps="3"')" 1
}

run_tests
