#!/bin/bash
# draw_page_test.sh SOURCE BUILD: opens pages of `tutti plan --as html` in a headless browser, steps through time with
# the page's buttons, and reads from the DOM which chunks are complete. Skipped if chromium is not installed.
# test: slow timeout=180
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

# The page of a plan of more than 64 ranks draws a window of ranks and rounds from its runs of messages.
test_many_ranks() {
  cat >user.html <<'EOF'
<script>
const said = document.body.dataset, button = id => document.getElementById(id);
const look = () => `${said.from}-${said.to} ${said.left}-${said.right}: ${document.querySelectorAll("#drawing [data-sent]").length}`;
const rows = () => [...document.querySelectorAll("#rows tr")].map(row => row.dataset);
const complete = () => rows().filter(row => row.complete == "yes").length;
said.opened = `${said.step} ${look()}, ${rows().length} rows, ${complete()} complete`;
button("first").click();
said.atStart = `${said.step} ${look()}, ${complete()} complete`;
for (let i = 0; i < 100; i++) button("next").click();
said.half = `${look()}, ${rows()[0].final} of ${rows()[0].chunks}`;
button("ranks-on").click();
said.moved = `${look()} ${rows()[0].rank}`;
button("rank").value = 3;
button("rank").dispatchEvent(new Event("change"));
said.only = look();
said.hint = document.querySelector("#drawing [data-sent='65'][data-from='3'] title").textContent;
dispatchEvent(new Event("beforeprint"));
said.sheets = document.querySelectorAll("#sheets > svg").length > 1;
said.printed = document.querySelectorAll("#sheets [data-sent]").length;
said.after = look();
</script>
EOF
  "$tutti" plan allreduce.ring -n 100 --as html >page.html
  cat page.html user.html >many.html
  dump many.html | tr '\n' ' ' >dom.html
  # 100 ranks and 198 rounds. 65 messages of each round touch 64 ranks of the ring.
  is "the opened page" "$(note opened)" "198 193-198 0-63: 390, 64 rows, 64 complete"
  is "the start" "$(note at-start)" "0 1-64 0-63: 4160, 0 complete"
  is "round 100" "$(note half)" "65-128 0-63: 4160, 2 of 100"
  is "the other ranks" "$(note moved)" "65-128 64-99: 2368 64"
  is "messages of rank 3" "$(note only)" "65-128 0-63: 128"
  has_facts "a message" "$(note hint)" "round 65: rank 3 to rank 4|out[38]|reduced"
  is "several sheets of paper" "$(note sheets)" true
  is "printed messages" "$(note printed)" 128
  is "the window after printing" "$(note after)" "65-128 0-63: 128"
  local bytes
  bytes=$("$tutti" plan allreduce.ring -n 1024 --as html | wc -c)
  [ "$bytes" -lt 300000 ] || complain "the page of a ring of 1,024 ranks has $bytes bytes"
}

# Pages of other algorithms have every message in one of their windows.
test_all_windows() {
  cat >user.html <<'EOF'
<script>
const seen = new Set(), list = id => [...document.getElementById(id).options].map(option => option.value);
const choose = (id, value) => { const select = document.getElementById(id); select.value = value; select.dispatchEvent(new Event("change")); };
let dense = 0;
for (const ranks of list("ranks"))
  for (const rounds of list("rounds")) {
    choose("ranks", ranks);
    choose("rounds", rounds);
    dense += document.querySelectorAll("#drawing .dense").length;
    for (const message of document.querySelectorAll("#drawing [data-sent]"))
      seen.add(["from", "to", "lane", "sent", "taken"].map(name => message.dataset[name]).join());
  }
document.body.dataset.seen = seen.size;
document.body.dataset.dense = dense;
document.body.dataset.wrong = document.querySelectorAll("#rows [data-complete=no]:not([data-chunks='0'])").length + document.getElementById("drawing").innerHTML.split("NaN").length - 1;
</script>
EOF
  local plan messages
  for plan in "allreduce.rabenseifner -n 72" "gather.binomial -n 129" "barrier.dissemination -n 80" "scan.sklansky -n 70" \
    "allgather.bucket --cluster mesh:10x9" "alltoall.bruck -n 65" "broadcast.chain -n 70" "allreduce.swing -n 128"; do
    # shellcheck disable=SC2086
    "$tutti" plan $plan --as html >page.html 2>err.txt || complain "$plan: $(cat err.txt)"
    messages=$(sed -n 's/^<p>.* \([0-9]*\) messages* in .*/\1/p' page.html)
    cat page.html user.html >all.html
    dump all.html | tr '\n' ' ' >dom.html
    is "$plan: messages, dense rounds and unfinished ranks" "$(note seen) $(note dense) $(note wrong)" "$messages 0 0"
  done
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
