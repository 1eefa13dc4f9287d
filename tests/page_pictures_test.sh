#!/bin/bash
# page_pictures_test.sh SOURCE BUILD: looks at the pages and pictures of the command as a reader sees them: pictures of
# the screen by a headless browser, light and dark, and printed sheets. Runs only with TEST_LONG. Skipped if chromium is
# not installed. With PICTURES=FOLDER, the pictures stay in that folder.
# test: slow timeout=60
set -u
. "$1/tests/shell.sh"
[ -n "${TEST_LONG-}" ] || { echo "skipped: runs only with TEST_LONG"; exit 77; }
tutti=$2/tutti
browser=$(command -v chromium || command -v chromium-browser) || { echo "skipped: chromium not found" && exit 77; }
command -v python3 >/dev/null || { echo "skipped: python3 not found" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch XDG_CONFIG_HOME=$scratch XDG_CACHE_HOME=$scratch
cd "$scratch" || exit 1

# look.py PICTURE: prints what a picture (PNG, or PPM from pdftoppm) shows, as three numbers: the luminance of its most
# frequent colour, from 0 (black) to 1000 (white); of 10,000 pixels, how many have another colour; and how many are
# coloured, that is, not grey.
cat >look.py <<'EOF'
import collections, struct, sys, zlib

def unfilter(data, width, rows, size):
    """Returns the bytes of all rows of a PNG. Each row begins with the number of its filter."""
    line, before, all_rows = width * size, bytearray(width * size), bytearray()
    for y in range(rows):
        kind, row = data[y * (line + 1)], bytearray(data[y * (line + 1) + 1:(y + 1) * (line + 1)])
        for i in range(line) if kind else ():
            left, up, corner = (row[i - size] if i >= size else 0), before[i], (before[i - size] if i >= size else 0)
            if kind == 1: guess = left
            elif kind == 2: guess = up
            elif kind == 3: guess = (left + up) // 2
            else:
                near = [abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)]
                guess = (left, up, corner)[near.index(min(near))]
            row[i] = (row[i] + guess) & 255
        all_rows += row
        before = row
    return all_rows

def read_png(data):
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR": width, rows, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        if kind == b"IDAT": packed += data[at + 8:at + 8 + length]
        at += length + 12
    size = {2: 3, 6: 4}[colour]
    assert depth == 8
    return unfilter(zlib.decompress(packed), width, rows, size), size

data = open(sys.argv[1], "rb").read()
if data[:2] == b"P6": pixels, size = data.split(b"\n", 3)[3], 3
else: pixels, size = read_png(data)
colours = collections.Counter(zip(pixels[0::size], pixels[1::size], pixels[2::size]))
total = sum(colours.values())
(ground, most), = colours.most_common(1)
coloured = sum(count for colour, count in colours.items() if max(colour) - min(colour) > 40)
parts = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in ground]
print(round(1000 * (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2])), 10000 * (total - most) // total, 10000 * coloured // total)
EOF

# browse FILE[#FRAGMENT] SCHEME OPTIONS...: opens a page in the light or the dark scheme. A browser that hangs at its start,
# which happens on a busy machine, is started again.
browse() {
  local file=$1 scheme=1 try
  [ "$2" = light ] || scheme=0
  shift 2
  for try in 1 2 3; do
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$scratch/profile$try" \
      --blink-settings=preferredColorScheme=$scheme --virtual-time-budget=5000 \
      "$@" "file://$scratch/$file" 2>/dev/null && return
  done
  complain "$file: the browser failed"
}
keep() { [ -z "${PICTURES-}" ] || cp "$1" "$PICTURES/"; }

# picture NAME FILE[#FRAGMENT] SCHEME: sets `ground`, `inked` and `coloured` as look.py prints them.
picture() {
  browse "$2" "$3" --window-size=1000,760 --screenshot="$scratch/$1.png" >/dev/null
  keep "$1.png"
  read -r ground inked coloured <<<"$(python3 look.py "$1.png")"
}
at_least() { [ "${2:-0}" -ge "$3" ] || complain "$1: got '$2', expected at least $3"; }
at_most() { [ "${2:-10001}" -le "$3" ] || complain "$1: got '$2', expected at most $3"; }

make_pages() {
  "$tutti" plan allreduce.ring -n 4 --as html >plan4.html
  "$tutti" plan allreduce.ring -n 16 --as html >plan16.html
  "$tutti" plan allreduce.ring -n 128 --as html >plan128.html
  "$tutti" topo t3000 --as html >cluster.html
  "$tutti" sim allreduce.ring --cluster t3000 --bytes 1M --page timeline.html >/dev/null
  "$tutti" plan allreduce.ring -n 4 --as svg >plan.svg
  "$tutti" topo t3000 --as svg >cluster.svg
  "$tutti" layout --as svg --shape 6x10 --tiles 4x4 >layout.svg
}
make_pages || exit 1
pages="plan4 plan16 plan128 cluster timeline"

# The ground is light or dark, and the picture is not empty.
test_schemes() {
  local page coloured_light
  for page in $pages; do
    picture "$page-light" "$page.html" light
    at_least "$page, light: luminance of the ground" "$ground" 900
    at_least "$page, light: pixels with ink" "$inked" 300
    at_least "$page, light: coloured pixels" "$coloured" 40
    coloured_light=$coloured
    picture "$page-dark" "$page.html" dark
    at_most "$page, dark: luminance of the ground" "$ground" 30
    at_least "$page, dark: pixels with ink" "$inked" 300
    at_least "$page, dark: coloured pixels" "$((coloured * 3))" "$coloured_light"
  done
}

# Pictures alone also follow the scheme. Around them the browser shows white, so they fill the screen.
test_pictures() {
  local name scheme
  for name in plan cluster layout; do
    sed 's/<svg \([^>]*\) width="[0-9]*" height="[0-9]*"/<svg \1 width="1000" height="760" preserveAspectRatio="xMidYMid slice"/' "$name.svg" >full.svg
    for scheme in light dark; do
      picture "$name-svg-$scheme" full.svg $scheme
      at_least "$name.svg, $scheme: pixels with ink" "$inked" 300
      at_least "$name.svg, $scheme: coloured pixels" "$coloured" 40
      if [ $scheme = light ]; then at_least "$name.svg: luminance of the ground" "$ground" 900
      else at_most "$name.svg: luminance of the ground" "$ground" 30; fi
    done
  done
}

# A plan opens on its finished state: all arrows have their full colour. At the start they are faint.
test_finished() {
  local page end
  for page in plan4 plan128; do
    picture "$page-end" "$page.html" light
    end=$coloured
    picture "$page-start" "$page.html#step=0" light
    at_least "$page: coloured pixels at the end, compared with the start" "$end" $((2 * coloured + 20))
  done
}

# A script that compares the colour of each text with the colour under it (WCAG 2, level AA). Buttons that are disabled,
# and controls that the system draws, are left out.
cat >contrast.html <<'EOF'
<script>
(() => {
const parse = colour => colour.match(/[\d.]+/g).map(Number);
const luminance = colour => parse(colour).slice(0, 3).map(part => part / 255).map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
  .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
function under(element) {
  const box = element.closest(".rank, .node")?.querySelector("rect") ?? element.closest("svg")?.querySelector(".paper");
  if (box) return getComputedStyle(box).fill;
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (parse(colour)[3] !== 0) return colour;
  }
  return "rgb(255, 255, 255)";
}
const bad = new Set();
let texts = 0;
for (const element of document.body.querySelectorAll("*")) {
  const own = [...element.childNodes].some(node => node.nodeType == 3 && node.data.trim() != "");
  if (!own || element.closest("script, style, title, select, input, .dense, :disabled") || !element.getClientRects().length) continue;
  const style = getComputedStyle(element), over = luminance(element.closest("svg") ? style.fill : style.color), below = luminance(under(element));
  const contrast = (Math.max(over, below) + 0.05) / (Math.min(over, below) + 0.05);
  texts++;
  if (contrast < 4.5) bad.add(`${element.tagName}.${element.getAttribute("class")} '${element.textContent.slice(0, 20)}': ${contrast.toFixed(2)}`);
}
document.body.dataset.texts = texts;
document.body.dataset.bad = [...bad].slice(0, 5).join("; ");
})();
</script>
EOF

test_contrast() {
  local page scheme
  for page in $pages; do
    cat "$page.html" contrast.html >asked.html
    for scheme in light dark; do
      browse asked.html $scheme --dump-dom | tr '\n' ' ' >dom.html
      is "$page, $scheme: texts with low contrast" "$(sed -n 's/.*<body[^>]* data-bad="\([^"]*\)".*/\1/p' dom.html)" ""
      at_least "$page, $scheme: texts" "$(sed -n 's/.*<body[^>]* data-texts="\([^"]*\)".*/\1/p' dom.html)" 20
    done
  done
}

# printed PAGE: prints a page from the dark scheme. Sets `sheets`, and writes the text of the first sheet to first.txt and
# that of all to all.txt.
printed() {
  browse "$1.html" dark --no-pdf-header-footer --print-to-pdf="$scratch/$1.pdf" >/dev/null
  keep "$1.pdf"
  pdftotext -layout -l 1 "$1.pdf" first.txt
  pdftotext -layout "$1.pdf" all.txt
  sheets=$(pdfinfo "$1.pdf" | sed -n 's/^Pages: *//p')
  pdftoppm -r 50 -l 1 "$1.pdf" "$1-sheet"
  read -r ground inked coloured <<<"$(python3 look.py "$(echo "$1"-sheet-*.ppm)")"
}

# On paper: light, with the picture on the first sheet, without words of the toolbar.
test_printed() {
  command -v pdftotext >/dev/null || { skip "pdftotext not found: tools/setup check"; return; }
  local page title round
  for page in $pages; do
    printed "$page"
    case $page in
      cluster) title=t3000 ;;
      *) title=allreduce.ring ;;
    esac
    has "$page: the first sheet" "$(cat first.txt)" "$title"
    is "$page: words of the toolbar" "$(grep -oE 'play|the end|whole run|reserved links|Click a chip|rank *all|rounds +<' all.txt | head -1)" ""
    at_least "$page: luminance of the paper" "$ground" 999
    at_least "$page: coloured pixels on the first sheet" "$coloured" 40
    case $page in
      plan4 | cluster) is "$page: sheets" "$sheets" 1 ;;
      plan16)
        at_most "$page: sheets" "$sheets" 5
        for round in {1..30}; do grep -qE "^ *$round( |$)" all.txt || complain "$page: round $round is not printed"; done
        ;;
      *) at_most "$page: sheets" "$sheets" 6 ;;
    esac
  done
}

run_tests
