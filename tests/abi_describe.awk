# abi_describe.awk: reads preprocessed headers of tutti and writes a C program, which prints a line for each constant,
# struct and field. The other typedefs become lines that begin with //typedef. Used by abi_layout_test.sh.
{ text = text $0 " " }
function name_of(field) { # the name that a declaration such as "size_t shape[5]" declares
  if (match(field, /\(\*[a-z_0-9]+\)/)) return substr(field, RSTART + 2, RLENGTH - 3)
  sub(/ *(\[[^]]*\])* *$/, "", field)
  match(field, /[a-z_0-9]+$/)
  return substr(field, RSTART)
}
function show_field(owner, type, field,  name) {
  name = name_of(field)
  printf "  printf(\"field %s %s at %%zu, %%zu bytes, %s%s\\n\", ", owner, name, type, field
  printf "offsetof(%s, %s), sizeof((%s){0}.%s));\n", owner, name, owner, name
}
function show_fields(owner, body,  count, fields, i, parts, parted, type, k) {
  printf "  printf(\"struct %s %%zu bytes\\n\", sizeof(%s));\n", owner, owner
  count = split(body, fields, / *; */)
  for (i = 1; i <= count; i++) {
    if (fields[i] !~ /[a-z]/) continue
    sub(/^ */, "", fields[i])
    parted = fields[i] ~ /\(/ ? 1 : split(fields[i], parts, / *, */)
    if (parted == 1) { show_field(owner, "", fields[i]); continue }
    type = parts[1]
    match(type, /[*]*[a-z_0-9]+(\[[^]]*\])*$/)
    parts[1] = substr(type, RSTART)
    type = substr(type, 1, RSTART - 1)
    for (k = 1; k <= parted; k++) show_field(owner, type, parts[k])
  }
}
function show(statement,  body, owner, count, names, i) {
  gsub(/[ \t]+/, " ", statement)
  body = statement
  sub(/^[^{]*\{/, "", body)
  sub(/\}[^}]*$/, "", body)
  if (statement ~ /^ ?(typedef )?enum [a-z_]* ?\{/ && body ~ /TUTTI_/) {
    count = split(body, names, ",")
    for (i = 1; i <= count; i++)
      if (match(names[i], /TUTTI_[A-Z_0-9]+/)) {
        names[i] = substr(names[i], RSTART, RLENGTH)
        printf "  printf(\"constant %s %%lld\\n\", (long long)%s);\n", names[i], names[i]
      }
  } else if (match(statement, /struct tutti_[a-z_]+ \{/)) {
    owner = substr(statement, RSTART + 7, RLENGTH - 9)
    show_fields(owner, body)
  } else if (statement ~ /^ ?typedef .*tutti_/ && statement !~ /\{/) {
    sub(/^ /, "", statement)
    print "//" statement
  }
}
END {
  print "#include <stdio.h>"
  print "#include \"all.h\"\nint main(void) {"
  size = length(text)
  for (i = 1; i <= size; i++) {
    c = substr(text, i, 1)
    if (c == ";" && depth == 0) { show(statement); statement = ""; continue }
    statement = statement c
    if (c == "{") depth++
    if (c == "}" && --depth == 0 && statement ~ /\) ?\{/) statement = "" # a function
  }
  print "  return 0;\n}"
}
