#!/bin/sh
# usage: names.sh NM DOOR...
# Prints a line NAME(function) for each function that one of the doors exports.
set -eu
nm=$1
shift
"$nm" -D --defined-only "$@" | sed -n 's/^[0-9a-f]* [TW] \([A-Za-z0-9_]*\)$/NAME(\1)/p' | sort -u
