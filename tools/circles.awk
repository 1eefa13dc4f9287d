# circles.awk: finds circles of files: A needs B, and B needs A, directly or through other files. A file needs the
# headers that it includes, and the .c files whose functions or variables it uses. In a header, only uses in bodies of
# functions count, and not uses of functions that the header itself declares.
#
# Reads tools/layers.txt and the C files that are named on its command line. A line `circle FILE FILE ...: REASON` of
# layers.txt allows a circle. Prints all other circles (the files, and the names that connect them), and the circles
# that are allowed but do not exist. Needs tools/code.awk.

function need(to, what) {
  if (to == unit || (unit, to) in by) return
  by[unit, to] = what
  needs[unit] = needs[unit] " " to
}

FNR == 1 {
  if (FILENAME == "tools/layers.txt") { is_layers = 1; next }
  is_layers = 0
  in_head = in_body = 0
  head = ""
  unit = FILENAME
  is_unit[unit] = 1
  folder = FILENAME
  sub(/\/[^\/]*$/, "", folder)
}
is_layers && $1 == "circle" {
  sub(/^circle /, "")
  sub(/:.*/, "")
  known[$0] = 1
}
is_layers { next }
/^[ \t]*#[ \t]*include[ \t]*"/ {
  split($0, quoted, "\"")
  path = index(quoted[2], "/") ? quoted[2] : folder "/" quoted[2]
  included[unit, path] = 1
  next
}
/^[ \t]*#/ { next }
{
  line = code_of($0)
  # What a .c defines: a head that begins in the first column and goes on to a brace or an assignment.
  if (FILENAME ~ /\.c$/ && depth_is_zero(line)) {
    if (head != "") head = head " " line
    else if (line ~ /^[a-z_]/ && !begins_no_symbol(line)) head = line
    if (match(head, /[{=;]/)) {
      define_names(substr(head, 1, RSTART - 1), substr(head, RSTART, 1))
      head = ""
    }
  }
  if (FILENAME ~ /\.h$/) line = body_of(line)
  gsub(/(struct|union|enum) [A-Za-z_0-9]+/, "", line)
  while (match(line, /[A-Za-z_][A-Za-z_0-9]*/)) {
    word = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    if (word ~ /_/ && !((unit, word) in uses)) { uses[unit, word] = 1; words[unit] = words[unit] " " word }
  }
}

# Returns true if the line begins a definition of which the linker sees nothing.
function begins_no_symbol(line) {
  return line ~ /^(static|typedef|extern|union|enum \{)/ || line ~ /^(struct|enum) [a-z_0-9]+ \{/
}

# Notes the names that a head defines. ends: the character after the head: { of a function, = or ; of variables.
function define_names(head, ends,  count, names, i) {
  if (head ~ /\(/ && ends != "{") return
  sub(/[([].*/, "", head)
  sub(/ +$/, "", head)
  count = split(head, names, ",")
  for (i = 1; i <= count; i++) {
    sub(/.*[ *]/, "", names[i])
    if (names[i] ~ /^[a-z][a-z_0-9]+$/) defined_in[names[i]] = unit
  }
}

# The part of a header's line that is in the body of a function. Of other lines, notes what they declare.
# A function begins in the first column with `static` and ends with `}` in the first column, or on its first line.
function body_of(line,  body) {
  if (in_body) {
    if (line ~ /^}/) in_body = 0
    return line
  }
  if (line ~ /^static /) in_head = 1
  if (in_head) {
    if (line ~ /[{;]/) in_head = 0
    if (!match(line, /{/)) return ""
    body = substr(line, RSTART)
    in_body = body !~ /}[ \t;]*$/
    return body
  }
  while (match(line, /[a-z][a-z_0-9]*[(;,[]|[a-z][a-z_0-9]* __attribute__/)) {
    name = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    sub(/[^a-z_0-9].*/, "", name)
    declares[unit, name] = 1
  }
  return ""
}

function depth_is_zero(line) { return line !~ /^[ \t}]/ || head != "" }

function reaches(from, to,  stack, top, seen, u, n, list, i) {
  top = 1; stack[1] = from
  while (top > 0) {
    u = stack[top--]
    n = split(needs[u], list, " ")
    for (i = 1; i <= n; i++) {
      if (list[i] == to) return 1
      if (left[list[i]] && !seen[list[i]]++) stack[++top] = list[i]
    }
  }
  return 0
}

function sort(list, count,  i, k, swap) {
  for (i = 2; i <= count; i++) {
    for (k = i; k > 1 && list[k] < list[k - 1]; k--) {
      swap = list[k]
      list[k] = list[k - 1]
      list[k - 1] = swap
    }
  }
}

END {
  for (pair in included) {
    split(pair, ends_of, SUBSEP)
    unit = ends_of[1]
    to = ends_of[2]
    if (!(to in is_unit) && ("src/" to) in is_unit) to = "src/" to
    if (to in is_unit) need(to, "its header")
  }
  for (unit in words) {
    n = split(words[unit], list, " ")
    for (i = 1; i <= n; i++) {
      if (list[i] in defined_in && !((unit, list[i]) in declares)) need(defined_in[list[i]], list[i])
    }
  }
  for (u in is_unit) left[u] = 1
  # Removes files that need none of the remaining files: they are in no circle.
  for (changed = 1; changed;) {
    changed = 0
    for (u in is_unit) {
      if (!left[u]) continue
      n = split(needs[u], list, " ")
      for (i = 1; i <= n && !left[list[i]]; i++) {}
      if (i > n) { left[u] = 0; changed = 1 }
    }
  }
  for (u in is_unit) {
    if (!left[u] || told[u] || !reaches(u, u)) continue
    circle = ""
    count = 0
    for (v in is_unit) if (left[v] && !told[v] && (v == u || (reaches(u, v) && reaches(v, u)))) members[++count] = v
    sort(members, count)
    ties = ""
    for (i = 1; i <= count; i++) {
      circle = circle (i > 1 ? " " : "") members[i]
      told[members[i]] = 1
      for (k = 1; k <= count; k++) {
        if (!((members[i], members[k]) in by)) continue
        ties = ties "\n      " members[i] " -> " members[k] ": " by[members[i], members[k]]
      }
    }
    if (!(circle in known)) print circle ties
    met[circle] = 1
  }
  for (circle in known) if (!(circle in met)) print "tools/layers.txt: circle " circle ": there is no such circle"
}
