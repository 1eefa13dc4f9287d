#!/bin/bash
# cluster_page_test.sh SOURCE BUILD: opens pages of `tutti topo --as html` in a headless browser, selects chips, and
# reads their description from the DOM. Skipped if chromium is not installed.
# test: slow timeout=120
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti shared=$1/../shared/clusters
browser=$(command -v chromium || command -v chromium-browser) || { echo "skipped: chromium not found" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch XDG_CONFIG_HOME=$scratch XDG_CACHE_HOME=$scratch
cd "$scratch" || exit 1

# A script that acts like a user: it looks at the page, selects a chip with the mouse and one with a key, hides things,
# and presses Escape. It writes what it finds into data attributes of the body: pairs of the first table as
# A-B:LINKS/RESERVED, channels of a chip as CHANNEL>CHIP.CHANNEL, with a * if reserved.
cat >person.html <<'EOF'
<script>
const told = document.body.dataset;
const cells = () => [...document.querySelectorAll("#rows tr")].map(row => [...row.cells].map(cell => cell.textContent));
const number = name => name.replace("chip ", "");
const box = node => document.querySelector(`.node[data-node="${node}"]`);
const seen = selector => [...document.querySelectorAll(selector)].filter(e => getComputedStyle(e).display !== "none").length;
const channels = () => cells().map(([c, far, farChannel, reserved]) => `${c}>${number(far)}.${farChannel}${reserved ? "*" : ""}`).join(" ");
told.boxes = document.querySelectorAll(".node[data-node]").length;
told.pairs = cells().map(([a, b, links, reserved]) => `${number(a)}-${number(b)}:${links}/${reserved || 0}`).join(" ");
told.order = document.getElementById("text").textContent;
box(4).dispatchEvent(new MouseEvent("click", { bubbles: true }));
told.four = channels();
told.fourText = document.getElementById("text").textContent;
told.near = document.querySelectorAll(".pair.near").length;
box(0).dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
told.zero = channels();
told.zeroText = document.getElementById("text").textContent;
for (const what of ["ring", "reserved", "channels"]) {
  const selector = { ring: ".ring", reserved: ".pair .link.reserved", channels: ".channel" }[what], before = seen(selector);
  document.getElementById(what).click();
  told[what] = `${before > 0} ${seen(selector)}`;
}
document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
told.after = document.getElementById("heading").textContent;
</script>
EOF

# note NAME: prints data-NAME of the body.
note() { sed -n "s/.*<body[^>]* data-$1=\"\([^\"]*\)\".*/\1/p" dom.html | head -1 | sed 's/&gt;/>/g'; }
dump() { # FILE[#FRAGMENT]: writes the DOM to dom.html after all scripts have run
  "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" --dump-dom \
    --virtual-time-budget=5000 "file://$scratch/$1" 2>/dev/null | tr '\n' ' ' >dom.html
}
page() { # ARGUMENTS...: makes a page with `tutti topo`, and opens it with the script above
  "$tutti" topo "$@" --as html >page.html || complain "tutti topo $* failed"
  cat page.html person.html >visit.html
  dump visit.html
}

test_t3000() {
  page t3000
  is "boxes" "$(note boxes)" 8
  is "pairs" "$(note pairs)" "0-1:2/0 0-3:2/0 0-4:2/1 1-2:2/0 1-5:2/1 2-3:2/0 2-6:2/1 3-7:2/1 4-5:2/0 6-7:2/0"
  has "the order" "$(note order)" ": 0, 3, 7, 6, 2, 1, 5, 4."
  is "channels of chip 4" "$(note four)" "0>0.8* 1>0.9 6>5.6 7>5.7"
  has_facts "chip 4" "$(note four-text)" "host|chip 0|1 link"
  is "pairs of chip 4" "$(note near)" 2
  is "channels of chip 0" "$(note zero)" "6>3.6 7>3.7 8>4.0* 9>4.1 14>1.14 15>1.15"
  has "chip 0" "$(note zero-text)" "with mmio"
  for what in ring reserved channels; do is "$what, hidden" "$(note $what)" "true 0"; done
  is "after escape" "$(note after)" "Pairs"
}

test_address() {
  "$tutti" topo galaxy --as html >galaxy.html
  dump "galaxy.html#node=32"
  is "the selected node" "$(note chosen)" 32
  is "nodes" "$(note nodes)" 36
  has "the gateway's links" "$(cat dom.html)" '<td>chip 4</td>'
  "$tutti" topo fat-tree:4x2 --as html >tree.html
  dump tree.html
  has_facts "neither ring nor line" "$(cat dom.html)" "neither a ring nor a line"
}

# The page shows the links of a file.
test_own() {
  page "$source/tests/data/eight.yaml" --reserve dispatch
  is "pairs" "$(note pairs)" "0-4:2/1 0-5:2/0 0-7:2/0 1-4:2/0 1-6:2/0 1-7:2/1 2-6:2/1 2-7:2/0 3-4:2/0 3-5:2/1"
  has "the order" "$(note order)" "0, 5, 3, 4, 1, 6, 2, 7."
}

test_real() {
  [ -d "$shared" ] || { skip "../shared/clusters not found" && return; }
  page "$shared/t3k_cluster_desc.yaml" --reserve dispatch
  is "pairs" "$(note pairs)" "0-1:2/0 0-2:2/0 0-4:2/1 1-3:2/0 1-5:2/1 2-3:2/0 2-6:2/1 3-7:2/1 4-5:2/0 6-7:2/0"
  has "the order" "$(note order)" "0, 2, 6, 7, 3, 1, 5, 4."
}

run_tests
