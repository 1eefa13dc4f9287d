#!/bin/bash
# info_fabrics_test.sh SOURCE BUILD: tests what `tutti info` and `tutti info --fabrics` say of the wire between hosts, for
# each value of TUTTI_FABRIC, with and without libfabric (tools/setup fabrics) and devices. Also in a folder that becomes
# the root of the command, which has no libfabric, or a file that stands for a device.
set -u
. "$1/tests/shell.sh"
tutti=$(realpath "$2/tutti") build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset TUTTI_INTERFACE

lacks_libfabric() { # returns 0, after a skip, if the machine has no libfabric
  "$tutti" info --fabrics | grep -q 'cannot be loaded' && skip "no libfabric; tools/setup fabrics installs it"
}
has_device() { ls /sys/class/infiniband/* /sys/class/cxi/* >/dev/null 2>&1; }
wire() { sed -n 's/^wire  *//p' out.txt; }
# json EXPRESSIONS: prints the values of Python expressions of d, the object in out.txt.
json() { python3 -c 'import json, sys; d = json.load(sys.stdin); print('"$1"')' <out.txt; }
needs_python() { command -v python3 >/dev/null || { skip "python3 not found"; return 1; }; }

test_none() {
  export TUTTI_FABRIC=none
  run 0 info
  is "standard error" "$err" ""
  has_facts none "$(wire)" "sockets: TUTTI_FABRIC=none|libfabric was not loaded|tutti info --fabrics"
  is "lines about endpoints" "$(grep -c endpoint out.txt)" 0
  unset TUTTI_FABRIC
  needs_python || return
  TUTTI_FABRIC=none run 0 info --json
  is JSON "$(json 'd["wire"]')" \
    "{'starts': True, 'fabric': None, 'why': 'TUTTI_FABRIC=none', 'libfabric': None, 'libfabric_error': None, 'endpoints': []}"
}

test_auto() {
  local value
  has_device && { skip "this machine has a device that libfabric may drive" && return; }
  for value in "" auto; do
    TUTTI_FABRIC=$value run 0 info
    has_facts "'$value'" "$(wire)" "sockets: no device|InfiniBand, RoCE, EFA, Omni-Path or Slingshot|libfabric was not loaded"
    is "lines about endpoints" "$(grep -c endpoint out.txt)" 0
  done
  run 0 info --fabrics
  has_facts "a list" "$(wire)" "sockets: no device"
  is "a list says that libfabric was not loaded" "$(grep -c 'not loaded' out.txt)" 0
  is "lines of the wire" "$(grep -c '^wire ' out.txt)" 1
}

test_named() {
  lacks_libfabric && return
  TUTTI_FABRIC=tcp TUTTI_INTERFACE=127.0.0.0/8 run 0 info
  is "standard error" "$err" ""
  has_facts "a provider" "$(wire)" "tcp|lo (127.0.0.1)|beside sockets|TUTTI_FABRIC names it|no network of its own"
  has_facts "the list" "$out" "libfabric |provider  |tcp|environment:"
  is "endpoints that are listed twice" "$(sed -n '/^  provider  /,/^$/p' out.txt | sort | uniq -d)" ""
  is "the number of endpoints" "$(sed -n 's/^libfabric .* offers \([0-9]*\) endpoints.*/\1/p' out.txt)" \
    "$(sed -n '/^  provider  /,/^$/p' out.txt | sed '1d; $d' | wc -l)"
  TUTTI_FABRIC=tcp/lo run 0 info --fabrics
  has_facts "a provider and a domain" "$(wire)" "tcp| on lo ("
  needs_python || return
  TUTTI_FABRIC=tcp/lo run 0 info --fabrics --json
  is "JSON" "$(json 'd["starts"], d["fabric"]["domain"], d["fabric"]["auto"], d["fabric"] in d["endpoints"], d["libfabric_error"]')" \
    "True lo False True None"
  is "JSON of TUTTI_FABRIC" "$(TUTTI_FABRIC=tcp "$tutti" info --json | tee out.txt | wc -l) $(json 'd["environment"]["TUTTI_FABRIC"]')" "1 tcp"
}

# The list is printed in any case, as the messages say.
test_wrong_names() {
  local value
  lacks_libfabric && return
  for value in tpc tcp/eth77 'tcp;ofi_rxd'; do
    for option in "" --fabrics; do
      # shellcheck disable=SC2086
      TUTTI_FABRIC=$value run 1 info $option
      has_facts "$value $option" "$err" "tutti info: TUTTI_FABRIC|'$value'|tutti info --fabrics"
      is "lines of standard error" "$(wc -l <err.txt)" 1
      has_facts "$value $option" "$(wire)" "none|job of several hosts"
      has "list with $value $option" "$out" "  provider  "
    done
  done
  TUTTI_FABRIC=tcp TUTTI_INTERFACE=nowhere0 run 1 info --fabrics
  has_facts "no interface" "$err" "TUTTI_INTERFACE|'nowhere0'"
  needs_python || return
  TUTTI_FABRIC=tpc run 1 info --fabrics --json
  is "JSON" "$(json 'd["starts"], d["fabric"], len(d["endpoints"]) > 0') $(json 'd["why"]')" \
    "False None True ${err#tutti info: }"
}

test_wrong_syntax() {
  local value
  for value in /lo tcp/ / a234567890123456789012345678901234567890123456789012345678901234; do
    TUTTI_FABRIC=$value run 1 info
    has_facts "$value" "$err" "tutti info: TUTTI_FABRIC is '$value'|auto, none|provider|tutti info --fabrics"
    has "$value" "$(wire)" "none"
    has "the rest is printed, too" "$out" "environment:"
  done
  run 2 info --fabrics x
  has "an argument" "$err" "'x'"
}

# A broken library in the place of libfabric.
test_broken_library() {
  mkdir -p broken
  echo x >broken/libfabric.so.1
  LD_LIBRARY_PATH=$PWD/broken TUTTI_FABRIC=tcp run 1 info
  has_facts "a broken library" "$err" "TUTTI_FABRIC is 'tcp'|libfabric cannot be loaded|libfabric.so.1|libfabric1"
  LD_LIBRARY_PATH=$PWD/broken run 0 info --fabrics
  has_facts "a broken library, listed" "$out" "libfabric cannot be loaded|libfabric1"
}

# room FOLDER FILE...: makes a folder with programs and libraries, and all libraries that these need.
room() {
  local file
  for file in "${@:2}"; do
    { echo "$file"; ldd "$file" | grep -o '/[^ ]*'; } | while read -r path; do cp -L --parents "$path" "$1"; done
  done
}
# enter STATUS FOLDER ARGUMENTS...: runs the command with this folder as its root.
enter() { run_tool "$1" "${change_root[@]}" "$2" "$tutti" "${@:3}"; }

test_machines() {
  local library
  grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt" && { skip "a build with sanitizers" && return; }
  [ "$(id -u)" = 0 ] && change_root=(chroot) || change_root=(unshare --map-root-user chroot)
  "${change_root[@]}" / true 2>/dev/null || { skip "needs root, or user namespaces" && return; }
  mkdir machine
  room machine "$tutti"
  enter 0 machine info
  has "no device" "$(wire)" "sockets: no device"
  enter 0 machine info --fabrics
  has_facts "no libfabric" "$out" "sockets: no device|libfabric cannot be loaded|No such file|libfabric1"
  TUTTI_FABRIC=tcp enter 1 machine info --fabrics
  has_facts "no libfabric, but it is needed" "$err" "TUTTI_FABRIC is 'tcp'|libfabric cannot be loaded|libfabric1"
  if needs_python; then
    TUTTI_FABRIC=none enter 0 machine info --fabrics --json
    is "no libfabric, JSON" "$(json 'd["starts"], d["libfabric"], "libfabric1" in d["libfabric_error"]')" "True None True"
  fi
  mkdir -p machine/sys/class/infiniband/mlx5_0
  enter 0 machine info
  has_facts "a device, no libfabric" "$(wire)" "sockets: libfabric cannot be loaded|libfabric1"
  TUTTI_FABRIC=none enter 0 machine info
  has "a device that is not wanted" "$(wire)" "sockets: TUTTI_FABRIC=none"
  lacks_libfabric && return
  library=$(LD_DEBUG=libs "$tutti" info --fabrics 2>&1 >/dev/null | sed -n 's/.*calling init: \(.*libfabric\.so.*\)/\1/p' | head -n 1)
  [ -f "$library" ] || { complain "where is libfabric? '$library'" && return; }
  room machine "$library"
  enter 0 machine info
  has_facts "a device that no provider drives" "$(wire)" "sockets: |device|no provider"
  has "the list" "$out" "  provider  "
}

run_tests
