# twice.awk: finds names that two headers define, so that no file can include both: include guards, macros, enumerators,
# and tags of structs, unions and enums. Tags that begin with tu_ count in .c files, too. Of .hpp files, only guards and
# macros count, because their other names lie in namespaces.
#
# A macro that its header undefines is not counted. A header may include another one and define what that one lacks: the
# compiler finds what both define, except guards. Reads the C files that are named on its command line. Needs
# tools/code.awk.

function define(what) {
  if (!(what in first_in)) {
    first_in[what] = FILENAME
    first_at[what] = FNR
  } else if (first_in[what] != FILENAME) {
    n++
    found[n] = what
    found_in[n] = FILENAME
    found_at[n] = FNR
  }
}

# Defines the names of a part of a list of enumerators: `A, B = 1, ...`.
function define_enumerators(list,  count, names, i) {
  count = split(list, names, ",")
  for (i = 1; i <= count; i++) {
    sub(/^[ \t]*/, "", names[i])
    sub(/[^A-Za-z_0-9].*/, "", names[i])
    if (names[i] ~ /^[A-Za-z_]/) define(names[i])
  }
}

FNR == 1 {
  in_enum = 0
  guard = ""
  is_header = FILENAME ~ /\.h(pp)?$/
  is_c_header = FILENAME ~ /\.h$/
}
{ line = code_of($0) }

is_header && guard == "" && /^#ifndef / {
  guard = $2
  is_guard[guard] = 1
  define(guard)
}
is_header && /^#define / {
  sub(/\(.*/, "", $2)
  if ($2 != guard) define($2)
}
/^#undef / { undefined[FILENAME, $2] = 1 }
/^#[ \t]*include "/ {
  split($0, quoted, "\"")
  includes[FILENAME, quoted[2]] = 1
}
/^#/ { next }

match(line, /^(struct|union|enum) [a-z0-9_]+ \{/) && (is_c_header || line ~ /^[a-z]+ tu_/) {
  define(substr(line, 1, RLENGTH - 2))
}
is_c_header && (in_enum || match(line, /(^|[^A-Za-z_0-9])enum( [A-Za-z_0-9]+)? *\{/)) {
  if (!in_enum) line = substr(line, RSTART + RLENGTH)
  in_enum = line !~ /}/
  sub(/}.*/, "", line)
  define_enumerators(line)
}

function short_of(file) {
  sub(/^(src|include|tests)\//, "", file)
  return file
}

END {
  for (i = 1; i <= n; i++) {
    what = found[i]
    here = found_in[i]
    there = first_in[what]
    if ((here, what) in undefined || (there, what) in undefined) continue
    if (!(what in is_guard) && ((here, short_of(there)) in includes || (there, short_of(here)) in includes)) continue
    print here ":" found_at[i] ": " what " is also defined at " there ":" first_at[what]
  }
}
