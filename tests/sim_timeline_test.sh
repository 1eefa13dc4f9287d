#!/bin/bash
# sim_timeline_test.sh SOURCE BUILD: opens pages of `tutti sim --page` in a headless browser, moves through time with
# the page's slider and keys, and compares the loads and the critical path that the page shows with the trace of the
# same run. Skipped if chromium is not installed. Checks also that the pictures in docs/simulation are up to date.
# test: slow timeout=180
set -u
. "$1/tests/shell.sh"
source=$1 build=$2 tutti=$2/tutti
browser=$(command -v chromium || command -v chromium-browser)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch XDG_CONFIG_HOME=$scratch XDG_CACHE_HOME=$scratch
cd "$scratch" || exit 1

# A script that acts like a user. It writes what the page shows at each time as JSON into a data attribute of the body.
cat >person.html <<'END'
<script>
const get = id => document.getElementById(id), seen = { looks: [] }, shown = document.body.dataset;
addEventListener("error", event => { document.body.dataset.error = event.message; });
const look = () => ({
  bin: shown.bin, critical: shown.critical, now: get("now").textContent, cursor: get("cursor").hidden,
  lanes: [...document.querySelectorAll("#picture .lane[data-ports]")].map(lane => [lane.dataset.ports, Number(lane.dataset.load), lane.hasAttribute("data-critical"), lane.getAttribute("class")]),
  rows: [...get("links").rows].map(row => [Number(row.dataset.port), Number(row.dataset.load)]),
  highlighted: [...document.querySelectorAll("#deeds tr.now")].map(row => Number(row.dataset.position)),
  halos: document.querySelectorAll(".halo").length,
});
const press = (key, target) => (target || document.body).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
seen.looks.push(look());
const bins = Number(shown.bins), slider = get("time");
for (const at of [0, Math.floor(bins / 7), Math.floor(bins / 2), bins - 2, bins - 1]) {
  slider.value = at;
  slider.dispatchEvent(new Event("input"));
  seen.looks.push(look());
}
slider.value = 3;
slider.dispatchEvent(new Event("input"));
seen.keys = [];
for (const key of ["ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home", "w", "ArrowRight"]) {
  press(key);
  seen.keys.push(shown.bin);
}
seen.path = [...get("deeds").rows].map(row => ["rank", "to", "begin", "end", "bytes"].map(name => Number(row.dataset[name])));
seen.sum = get("sum").textContent;
const last = get("deeds").rows[get("deeds").rows.length - 1];
if (last) last.querySelector("button").click();
seen.went = [shown.bin, shown.critical];
const box = document.querySelector("#picture .node[data-node='1']");
if (box) press("Enter", box);
seen.chosen = [...get("links").rows].map(row => row.cells[0].textContent);
seen.words = get("heading").textContent;
press("Escape");
seen.bars = document.querySelectorAll("#bars .message, #bars .reduction").length;
seen.labels = get("labels").children.length;
get("critical").click();
seen.without = document.querySelectorAll("#picture .halo, #picture [data-critical]").length;
press("w");
press(" ");
setTimeout(() => {
  seen.played = [shown.bin, get("play").textContent];
  document.body.dataset.seen = JSON.stringify(seen);
}, 900);
</script>
END

cat >compare.py <<'END'
import html, json, re, sys
dom = open("dom.html").read()
body = re.search(r"<body[^>]*>", dom).group(0)
error = re.search(r'data-error="([^"]*)"', body)
assert not error, error.group(1)
seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', body).group(1)))
page = json.loads(re.search(r'id="data">(.*?)</script>', dom, re.S).group(1))
trace = json.load(open("trace.json"))["traceEvents"]
names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
wires = {}
for e in trace:
    if e["ph"] == "X" and e["pid"] == 2: wires.setdefault(names[2, e["tid"]], []).append((e["ts"] * 1e-6, (e["ts"] + e["dur"]) * 1e-6))
path = sorted((e["args"] for e in trace if "critical" in e.get("args", {})), key=lambda deed: deed["critical"])
port_names = {port[0]: port[1] for port in page["ports"]}
assert sorted(port_names.values()) == sorted(wires), "the page lists other links than the trace"
end, bins, width = page["end"], page["bins"], page["width"]

def load(name, begin, until):
    return 100 * sum(max(0, min(e, until) - max(b, begin)) for b, e in wires.get(name, [])) / (until - begin) if until > begin else 0

taken = set()
for look in seen["looks"]:
    whole = look["bin"] == "all"
    begin, until = (0, end) if whole else (int(look["bin"]) * width, (int(look["bin"]) + 1) * width)
    slack = 0.1 + 100 * 4e-9 / (until - begin) # times of the trace are in whole nanoseconds
    shown = {}
    for ports, value, critical, shade in look["lanes"]:
        expected = max(load(port_names.get(int(port)), begin, until) for port in ports.split())
        assert abs(value - expected) <= slack, f"bin {look['bin']}, ports {ports}: {value}%, expected {expected}%"
        # Each fifth of the load has a colour. Near the border of two fifths, both colours are right.
        fifths = {0 if v <= 0 else min(5, int(-(-v // 20))) for v in (value, value + 0.02, max(value - 0.02, 0))}
        assert int(re.search(r"shade(\d)", shade).group(1)) in fifths | ({1} if value < 0.02 else set()), (value, shade)
        shown.update({int(port): critical for port in ports.split()})
        if expected > 0: taken.add(ports)
    for port, value in look["rows"]:
        assert abs(value - load(port_names[port], begin, until)) <= slack, (look["bin"], port_names[port], value)
    assert look["rows"] == sorted(look["rows"], key=lambda row: -row[1]), "the list of links is not sorted by load"
    steps = [i for i, deed in enumerate(path) if whole or (deed["begin_s"] < until and deed["end_s"] > begin)
             or (deed["begin_s"] == deed["end_s"] and begin <= deed["begin_s"] < until)]
    near = [i for i, deed in enumerate(path) if any(abs(t - u) < 1e-14 for t in (begin, until) for u in (deed["begin_s"], deed["end_s"]))]
    critical = [int(i) for i in look["critical"].split()]
    assert set(critical) ^ set(steps) <= set(near), f"bin {look['bin']}: steps {critical} of the path, expected {steps}"
    assert look["highlighted"] == ([] if whole else critical), "the highlighted rows of the path differ"
    over = {port for i in critical for port in page["path"][i][5]}
    assert all(critical == (port in over) for port, critical in shown.items()), "the marked links are not the path"
    assert bool(look["halos"]) == bool(over) or not shown
assert len(taken) > 1, "fewer than two links were ever in use"
rows = [(d["from"], d.get("to", -1), d["begin_s"], d["end_s"], d["bytes"]) for d in path]
assert len(rows) == len(seen["path"]) and all(abs(a - b) <= 1e-8 * max(abs(a), abs(b)) for r, s in zip(rows, seen["path"]) for a, b in zip(r, s)), "the path"
assert all(abs(a[3] - b[2]) <= 1e-8 * end for a, b in zip(seen["path"], seen["path"][1:])), "the path has gaps"
assert f"{sum(r[1] >= 0 for r in rows)} message" in seen["sum"], seen["sum"]
last = str(bins - 1)
assert seen["keys"] == ["4", "5", "4", last, "0", "all", "0"], seen["keys"]
assert str(len(path) - 1) in seen["went"][1].split(), seen["went"]
assert seen["chosen"] and all(re.match(r"1\.\d+ to |.* to 1\.\d+$", name) for name in seen["chosen"]), seen["chosen"]
assert seen["words"] == "Links of chip 1", seen["words"]
deeds = sum(e["ph"] == "X" and e["pid"] == 1 for e in trace)
assert seen["bars"] == deeds and seen["labels"] == page["ranks"], (seen["bars"], deeds)
assert seen["without"] == 0, "the path is still marked after it was switched off"
assert int(seen["played"][0]) > 2 and seen["played"][1] == "pause", seen["played"]
END

open_page() { # PAGE: writes the DOM to dom.html after all scripts have run
  "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" --dump-dom \
    --virtual-time-budget=5000 "file://$scratch/$1" 2>/dev/null >dom.html
}

no_browser() { [ -z "$browser" ] && skip "chromium not found"; }

# page ARGUMENTS...: makes a page and a trace with `tutti sim`, and compares them.
page() {
  no_browser && return
  run 0 sim "$@" --trace trace.json --page page.html
  python3 -m json.tool trace.json >/dev/null || complain "$1: the trace is not valid JSON"
  cat page.html person.html >visited.html
  open_page visited.html
  python3 compare.py || complain "$*"
}

test_t3000() { page allreduce.ring --cluster t3000 --bytes 1M; }
test_late() { page allgather.bucket --cluster t3000 --bytes 100000 --late 2=2e-5 --slow 0-3=2; }
test_galaxy() { page alltoall.direct --cluster galaxy --bytes 128K; }

# The scripts of pages without bytes, and of pages with too many chips for a picture, run to their end.
test_words() {
  no_browser && return
  run 0 sim barrier.dissemination --cluster t3000 --page page.html
  open_page page.html
  is "a barrier" "$(grep -c '<p id="reading">[A-Z]' dom.html)" 1
  run 0 sim broadcast.chain -n 6 --cluster mesh:32x32 --page page.html
  open_page 'page.html#bin=7'
  has "1,024 chips" "$(cat dom.html)" "512 chips"
  has "the path" "$(cat dom.html)" '<tr data-position="4"'
  has "the loads" "$(cat dom.html)" '<tr data-port='
  has "the time interval of the address" "$(cat dom.html)" 'data-bin="7"'
}

test_picture() {
  "$source/tools/draw-simulation" "$build" "$scratch/pictures" || complain "tools/draw-simulation failed"
  diff -rq "$source/docs/simulation" pictures || complain "docs/simulation is out of date (make docs)"
}

run_tests
