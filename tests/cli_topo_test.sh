#!/bin/bash
# cli_topo_test.sh SOURCE BUILD: tests the output and the error messages of `tutti topo`, for files of tests/data, and
# for real files if ../shared/clusters is there.
set -u
. "$1/tests/shell.sh"
source=$1 tutti=$2/tutti data=$1/tests/data shared=$1/../shared/clusters
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
line() { sed -n "s/^$1  *//p" out.txt; } # NAME: prints the rest of the line that begins with NAME

test_presets() {
  run 0 topo t3000
  is "standard error" "$err" ""
  has_facts "first line" "$(head -1 out.txt)" "t3000: 8 chips|4 with mmio| 20 links| 4 of them reserved| 10 pairs"
  is "shape" "$(line shape)" "a mesh of 2 x 4"
  has_facts "host" "$(line host)" "all chips|1 link"
  is "diameter" "$(line diameter)" "4 hops"
  is "bisection" "$(line bisection)" "4 links"
  has_facts "ring" "$(line ring)" "0 3 7 6 2 1 5 4;|1 link per hop"
  is "rows" "$(line rows)" "2 lines of 4: 4 0 3 7; 5 1 2 6"
  is "pairs" "$(grep -c '^  ' out.txt)" 10
  is "links of a pair" "$(grep '^  0 - 4' out.txt)" "  0 - 4:  0.8 = 4.0*  0.9 = 4.1"
  run 0 topo t3000 --reserve none
  has_facts "nothing reserved" "$out" " 20 links| 0 of them reserved"
  has_facts "two links per hop" "$(line ring)" "0 3 7 6 2 1 5 4;|2 links per hop"
  run 0 topo n300
  has_facts "n300" "$out" "2 chips|1 with mmio| 2 links| 1 of them reserved| 1 pair"
  run 0 topo galaxy
  has_facts "galaxy" "$out" "32 chips|none with mmio| 208 links| 24 of them reserved| 52 pairs| 4 gateways with 8 links"
  is "galaxy's rows" "$(line rows | cut -d: -f1)" "8 lines of 4"
  run 0 topo galaxy-torus
  is "the torus" "$(line shape), $(line diameter)" "a torus of 8 x 4, 6 hops"
  is "its columns" "$(line columns | cut -d: -f1)" "4 rings of 8"
}

test_generators() {
  run 0 topo fat-tree:4x2
  has_facts "no ring" "$(line ring)" "no ring|40 hops:"
  has_facts "switches" "$out" "16 chips|16 with mmio| 32 links| 0 of them reserved| 32 pairs| 8 switches"
  run 0 topo hosts:2x4:3
  is "two hosts" "$(line bisection)" "3 links"
  run 0 topo torus:4x4x4
  is "3rd dimension" "$(line '3rd dim.' | cut -d: -f1)" "16 rings of 4"
  run 0 topo mesh:3x3
  has_facts "a line instead" "$(line ring)" "no ring|line: "
  run 0 topo mesh:256x256
  is "a large mesh: diameter" "$(line diameter)" "510 hops"
  has_facts "a large mesh: ring" "$(line ring)" "65,536 chips|--json|1 link per hop"
}

test_walks() {
  run 0 topo t3000 --walk 12
  has "12 hops of 8 chips" "$out" "12 hops: "
  is "links crossed once" "$(awk 'NR > 1 { print ($1 < $3) ? $1 "-" $3 : $3 "-" $1 }' out.txt | sort | uniq -d)" ""
  is "hops" "$(wc -l <out.txt)" 13
  run 1 topo t3000 --walk 30
  has "the pair with too few links" "$err" "chips 3 and 7"
  run 0 topo t3000 --walk 0,1,2,3
  is "a walk over named chips" "$(head -1 out.txt)" "4 hops: 0 1 2 3"
  run 1 topo t3000 --walk 0,2
  has "no such hop" "$err" "0 and 2"
}

# Each chip of a ring of four sends to the chip two hops away. One after the other, these transfers take four timesteps.
test_routes() {
  run 0 topo ring:4 --routes 3-1,0-2,1-3,2-0 --dimension-order
  has_facts "steps" "$(head -1 out.txt)" "4 transfers|2 timesteps|4 in the order"
  run 0 topo line:8 --routes 0-4,1-2,4-7,2-4
  has_facts "the minimum" "$out" "4 transfers|2 timesteps"
  run 0 topo mesh:4x4 --routes 0-15 --dimension-order
  has "first along the row, then along the column" "$out" "0 > 1 > 2 > 3 > 7 > 11 > 15"
  run 1 topo fat-tree:2x2 --routes 0-3 --dimension-order
  has "no grid" "$err" "grid"
}

test_forms() {
  run 0 topo t3000 --json
  python3 -c '
import json, sys
c = json.load(open("out.txt"))
order = c["ring"]["order"]
pairs = {frozenset(e["node"] for e in l["ends"]) for l in c["connections"] if not l["reserved"]}
assert len(c["connections"]) == 20 and len(pairs) == 10 and sorted(order) == list(range(8))
assert all(frozenset((str(a), str(b))) in pairs for a, b in zip(order, order[1:] + order[:1]))
' || complain "the JSON output is wrong"
  run 0 topo t3000 --as svg
  is "boxes" "$(grep -o 'data-node=' out.txt | wc -l)" 8
  run 0 topo t3000 --as svg --title "A <title>"
  has "the title" "$out" "A &lt;title&gt;"
  run 0 topo t3000 --as html
  has "a page" "$out" "</html>"
}

test_refusals() {
  run 2 topo
  has "no cluster" "$err" "one cluster"
  run 1 topo t3001
  has "the nearest name" "$err" "'t3000'"
  run 1 topo mesh:0x4
  has "sizes" "$err" "mesh:AxB"
  run 1 topo mesh:1000x1000
  has "too large" "$err" "65536 chips"
  run 1 topo t3000 --reserve 0:3
  has_facts "no such link" "$err" "channel 3|chip 0"
  run 2 topo t3000 --as png
  has "the forms" "$err" "text, svg or html (or --json)"
  run 2 topo t3000 --walk 4 --routes 0-1
  run 2 topo t3000 --routes 0-9
  has "no such chip" "$err" "chips of t3000"
  printf 'arch: {0: a, 1: a}\nethernet_connections: [[{chip: 0, chan: 1}, {chip: 2, chan: 0}]]\n' >broken.yaml
  run 1 topo broken.yaml
  has "the line" "$err" "broken.yaml:2: "
}

# FILE FACTS [OPTIONS...]: checks the first line for a file of tests/data.
own() {
  run 0 topo "$data/$1" "${@:3}"
  has_facts "$1" "$(head -1 out.txt)" "$1: $2"
}

test_own_files() {
  own pair.yaml "2 chips|1 with mmio| 2 links| 1 of them reserved| 1 pair| 1 links to devices outside the cluster" --reserve dispatch \
    --soc "$data/cores.yaml"
  has "cores" "$out" "0.2@3-0 = 1.0@1-0"
  own ports.yaml "11 chips|none with mmio| 19 links| 0 of them reserved| 14 pairs"
  has_facts "the chips of a mesh" "$(line file)" "mesh 0|chips 0 to 7|2 x 4"
}

# Links that a file does not define completely, and parts of it that are ignored.
test_left_open() {
  own relaxed.yaml "16 chips|none with mmio| 43 links| 0 of them reserved| 25 pairs"
  has "optional links" "$(line relaxed)" "7 of 43 links"
  has "links between unnamed chips" "$(line loose)" "7 of 43 links"
  has "a link between unnamed chips" "$out" "  0 - 8:  0.8 = 8.8?"
  has "links between named chips" "$(grep '  0 - 1:' out.txt)" "0.2 = 1.6  0.3 = 1.7"
  has_facts "an unknown key" "$out" "line 7: 'colour' in Mesh|ignored"
  has_facts "hosts" "$out" "mesh 0: |2 x 1 hosts"
  run 0 topo "$data/relaxed.yaml" --json
  is "relaxed links in JSON" "$(grep -c '"relaxed": true' out.txt)" 7
  is "loose links in JSON" "$(grep -c '"loose": true' out.txt)" 7
  has "counts" "$out" '"relaxed": 7, "loose": 7,'
}

# A torus with additional links is not reported as just "a torus".
test_beyond_the_grid() {
  own express.textproto "18 chips|none with mmio| 80 links| 0 of them reserved| 40 pairs"
  has_facts "shape" "$(line shape)" "a torus of 6 x 3|4 pairs|: 0-8 3-9 4-10 5-11"
  has_facts "routes that may use the additional links" "$out" "shortest routes|dimension-order routes"
  has_facts "an unknown field" "$(line file)" "line 9: 'colour' in mesh_descriptors|ignored"
  has_facts "pinnings" "$out" "1 pinning|ignored"
  run 0 topo "$data/express.textproto" --routes 5-11
  has "a shortest route" "$out" "5 > 11:"
  run 0 topo "$data/express.textproto" --routes 5-11 --dimension-order
  has "in dimension order" "$out" "5 > 8 > 11:"
  run 0 topo "$data/express.textproto" --json
  has "JSON" "$out" '"beyond": [[0, 8], [3, 9], [4, 10], [5, 11]],'
  run 0 topo torus:6x3
  is "a torus alone" "$(line shape)" "a torus of 6 x 3"
}

# FILE FACTS [OPTIONS...]: checks the first line for a file of ../shared/clusters.
real() {
  run 0 topo "$shared/$1" "${@:3}"
  has_facts "$1" "$(head -1 out.txt)" "$(basename "$1"): $2"
}

test_real_files() {
  [ -d "$shared" ] || { skip "../shared/clusters not found" && return; }
  real t3k_cluster_desc.yaml "8 chips|4 with mmio| 20 links| 4 of them reserved| 10 pairs" --reserve dispatch
  has_facts "its ring" "$(line ring)" "0 2 6 7 3 1 5 4;|1 link per hop"
  real 6u_cluster_desc.yaml "32 chips|32 with mmio| 208 links| 0 of them reserved| 52 pairs"
  real blackhole_4xP150.yaml "4 chips|4 with mmio| 16 links| 0 of them reserved| 4 pairs"
  real wormhole_N300.yaml "2 chips|1 with mmio| 2 links| 0 of them reserved| 1 pair"
  real wormhole_N300_with_remote_connections.yaml \
    "2 chips|1 with mmio| 2 links| 0 of them reserved| 1 pair| 6 links to devices outside the cluster"
  real mesh/quanta_galaxy_torus_2d_graph_descriptor.yaml \
    "32 chips|none with mmio| 256 links| 0 of them reserved| 64 pairs"
  is "its shape" "$(line shape)" "a torus of 8 x 4"
  real mgd/express_links_8x4_mesh_graph_descriptor.textproto \
    "32 chips|none with mmio| 136 links| 0 of them reserved| 68 pairs"
  has_facts "its shape" "$(line shape)" "a torus of 8 x 4|4 pairs|: 8-20 9-21 10-22 11-23"
  real wormhole_N300.yaml "2 chips|1 with mmio| 2 links| 1 of them reserved| 1 pair" --reserve dispatch \
    --soc "$shared/soc/wormhole_b0_80_arch.yaml"
  has "cores" "$out" "0.9@1-6 = 1.1@1-0"
}

run_tests
