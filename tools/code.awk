# code.awk: for other awk programs: what the compiler sees of a line of C.

FNR == 1 { in_comment = 0 }

# Returns the line without comments and strings. Call it once for each line of a file, in order.
function code_of(line,  at, rest, code) {
  if (index(line, "\"") == 0 && index(line, "/*") == 0 && !in_comment) return line
  gsub(/\\./, "", line)
  code = ""
  while (line != "") {
    if (in_comment) {
      at = index(line, "*/")
      if (at == 0) return code
      line = substr(line, at + 2)
      in_comment = 0
    } else if (match(line, /"|\/\*/)) {
      code = code substr(line, 1, RSTART - 1) " "
      rest = substr(line, RSTART, 1)
      line = substr(line, RSTART + RLENGTH)
      if (rest == "/") in_comment = 1
      else line = substr(line, index(line, "\"") + 1)
    } else {
      return code line
    }
  }
  return code
}

