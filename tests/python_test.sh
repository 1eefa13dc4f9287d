#!/bin/bash
# test: slow timeout=180
# Builds the wheel of the Python package by pip, installs it into a new environment, and runs its tests there. The folders
# of the sources and of the built library no longer exist then: the wheel must contain all it needs.
source=$1 build=$2
skip() {
  echo "skipped: $1"
  exit 77
}
grep -q '^TUTTI_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "a plain program cannot load a sanitized library"
python=/usr/bin/python3
$python -c 'import numpy, setuptools, wheel, venv' 2>/dev/null && [ -f "$($python -c 'import sysconfig
print(sysconfig.get_path("include"))')/Python.h" ] || skip "packages of Python are missing; tools/setup check installs them"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
set -e

mkdir "$here/project" "$here/library"
cp -r "$source/python" "$source/include" "$here/project/"
rm -rf "$here/project/python/build"
cp -a "$build"/libtutti.so* "$build/tutti" "$here/library/"
$python -m venv --system-site-packages "$here/venv"
pip() {
  "$here/venv/bin/python" -m pip "$@"
}
TUTTI_BUILD=$here/library pip wheel -q --no-index --no-build-isolation --disable-pip-version-check --no-deps \
  -w "$here/wheels" "$here/project/python"
rm -rf "$here/project" "$here/library"
pip install -q --no-index --disable-pip-version-check "$here"/wheels/tutti-*.whl
cd "$here"
"$here/venv/bin/python" -m unittest discover -s "$source/python/tests" 2>&1 | tee "$here/output" || true
ran=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} in .*/\1/p' "$here/output")
grep -Eq '^OK( |$)' "$here/output" && [ "$ran" -gt 0 ] || { echo "0 passed, 1 failed" && exit 1; }
echo "$ran passed, 0 failed"
