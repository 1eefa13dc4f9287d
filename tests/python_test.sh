#!/bin/bash
# test: slow timeout=180
# Installs the Python package by pip into a new environment, as a user does, and runs its tests there.
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

# pip writes into the folder of the sources, so it gets a copy.
mkdir "$here/project"
cp -r "$source/python" "$source/include" "$here/project/"
rm -rf "$here/project/python/build"
$python -m venv --system-site-packages "$here/venv"
TUTTI_BUILD=$build "$here/venv/bin/pip" install -q --no-index --no-build-isolation --disable-pip-version-check \
  "$here/project/python"
cd "$here"
"$here/venv/bin/python" -m unittest discover -s "$source/python/tests" 2>&1 | tee "$here/output" || true
ran=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} in .*/\1/p' "$here/output")
grep -Eq '^OK( |$)' "$here/output" && [ "$ran" -gt 0 ] || { echo "0 passed, 1 failed" && exit 1; }
echo "$ran passed, 0 failed"
