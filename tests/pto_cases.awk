# pto_cases.awk: reads pto_cases.csv (op, test, runner, template_args, nranks, extra_args); prints one line of C++ per
# row:
#   SEED_ROW("name", ranks, function of pto_cases_test.cpp, {numbers})
# A row that this script does not understand gets the function nullptr, which the test counts as a failure.

function fields(line, f,    i, n, c, quoted) {
  n = 1
  f[1] = ""
  for (i = 1; i <= length(line); i++) {
    c = substr(line, i, 1)
    if (c == "\"") quoted = !quoted
    else if (c == "," && !quoted) f[++n] = ""
    else f[n] = f[n] c
  }
  return n
}

# Reads numbers and products: "2 * 1024 * 1024 0 1" has three numbers. Sets `numbers`; returns 0 if the text has
# anything else.
function read_numbers(text,    part, n, i) {
  gsub(/sizeof\(float\)?/, "4", text)
  gsub(/ *\* */, "*", text)
  gsub(/true/, "1", text)
  gsub(/false/, "0", text)
  n = split(text, part, " ")
  numbers = ""
  for (i = 1; i <= n; i++) {
    if (part[i] !~ /^[0-9]+(\*[0-9]+)*$/) return 0
    numbers = numbers (i > 1 ? ", " : "") part[i]
  }
  return 1
}

# Reads a type and sizes: Int32_128x32_tile16 is int32_t, 128, 32, 16. Sets T, R, C, t; returns 0 for anything else.
function read_sizes(text,    part, size) {
  split(text, part, "_")
  T = part[1] == "Int32" ? "int32_t" : part[1] == "Float" ? "float" : part[1] == "Uint8" ? "uint8_t" : ""
  if (T == "" || split(part[2], size, "x") != 2) return 0
  R = size[1]
  C = size[2]
  t = part[3]
  return sub(/^tile/, "", t)
}

# Returns the function for a gather, scatter or broadcast.
function collective(what, rest,    tiles) {
  if (rest == "" || rest == "WithRoot") return what "<" T ", 1, " count ", 1, " count ", 1>"
  if (rest == "Empty") return what "_nothing<" T ", " count ">"
  tiles = rest ~ /^LargeShape_/ ? 1 : rest ~ /^PingPong_/ ? 2 : 0
  if (tiles && sub(/^[A-Za-z]*_/, "", rest) && read_sizes(rest))
    return what "<" T ", " R ", " C ", " t ", " C ", " tiles ">"
  return ""
}

function reduction(rest,    op, tiles) {
  numbers = rest ~ /WithRoot$/ ? numbers : "0"
  sub(/WithRoot$/, "", rest)
  op = rest ~ /Sum$/ ? "Sum" : rest ~ /Max$/ ? "Max" : rest ~ /Min$/ ? "Min" : ""
  sub(/_?(Sum|Max|Min)$/, "", rest)
  if (op == "") return ""
  op = ", ReduceOp::" op
  tiles = rest ~ /^LargeShape_/ ? 1 : rest ~ /^PingPong_/ ? 2 : 0
  if (tiles) {
    sub(/^[A-Za-z]*_/, "", rest)
    return read_sizes(rest) ? "reduce<" T ", " R ", " C ", " t ", " C ", " tiles op ">" : ""
  }
  empty = sub(/^Empty/, "", rest)
  T = sub(/^Float/, "", rest) ? "float" : sub(/^Int32_/, "", rest) ? "int32_t" : ""
  if (T == "" || rest !~ /^[0-9]+$/) return ""
  return empty ? "reduce_nothing<" T ", " rest op ">" : "reduce<" T ", 1, " rest ", 1, " rest ", 1" op ">"
}

# Returns the function for a put or get; n[1..] are the sizes after the type.
function pair(what, rest, n, sizes) {
  if (rest == "" && sizes == 1) return what "_ring<" T ", 1, " n[1] ", 1, " n[1] ", 1>"
  if (rest == "2D" && sizes == 2) return what "_ring<" T ", " n[1] ", " n[2] ", " n[1] ", " n[2] ", 1>"
  if ((rest == "LargeShape" || rest == "IrregularShape") && sizes == 3)
    return what "_ring<" T ", " n[1] ", " n[2] ", " n[3] ", " n[2] ", 1>"
  if (rest == "MultiDim" && sizes == 6)
    return what "_ring_5d<" T ", " n[1] ", " n[2] ", " n[3] ", " n[4] ", " n[5] ", " n[6] ">"
  if ((rest == "2DSliding" || rest == "PingPong") && sizes == 4)
    return what "_ring<" T ", " n[1] ", " n[2] ", " n[3] ", " n[4] ", " (rest == "PingPong" ? 2 : 1) ">"
  return ""
}

function async(what, rest, root) {
  if (rest == root) return what "_async<" T ", " count ">"
  if (rest == "WithConfig") return what "_async_configured<" T ", " count ">"
  if (rest == "MultiCore") return what "_async_cores<" T ", " count ">"
  if (rest == "ConcurrentRank") return what "_async_all_to_all<" T ", " count ">"
  return ""
}

# Returns the function for posts. Only the name has the numbers of posts and queues: Immediate_512Posts_Q4 has 512 posts
# and 4 queues.
function posts(what, rest, name,    p, q, how) {
  if (rest == "ImmediatePostWait") how = "each"
  if (rest == "ConsecutivePostsWaitEach") how = "later"
  if (rest == "PostsWaitFinal") how = "last"
  if (how == "") return ""
  p = how == "last" ? 2 : 0
  if (match(name, /_P[0-9]+_/)) p = substr(name, RSTART + 2, RLENGTH - 3)
  else if (match(name, /_[0-9]+Posts/)) p = substr(name, RSTART + 1, RLENGTH - 6)
  if (!match(name, /_Q[0-9]+/) || !p) return ""
  numbers = p ", " substr(name, RSTART + 2, RLENGTH - 2)
  return what "_async_posts_" how
}

function signals(rest, n, sizes) {
  if (rest ~ /^TWait(Basic|Compare|Atomic|MultiPhase)$/ && sizes == 0) return "wait_" tolower(substr(rest, 6))
  if (rest == "TWaitMatrix" && sizes == 2) return "wait_matrix<" n[1] ", " n[2] ">"
  if (rest == "TWaitSubRegion" && sizes == 3) return "wait_part<" n[1] ", " n[2] ", " n[3] ">"
  if (rest == "TTestSubRegion" && sizes == 3) return "test_part<" n[1] ", " n[2] ", " n[3] ">"
  if (rest == "TTestTrue") numbers = "42, 42, 1"
  if (rest == "TTestFalse") numbers = "42, 100, 0"
  if (rest == "TTestNE") numbers = "50, 0, 1"
  if (rest == "TTestTrue" || rest == "TTestFalse") return "test_once<WaitCmp::EQ>"
  if (rest == "TTestNE") return "test_once<WaitCmp::NE>"
  if (sub(/^TTestCompare_/, "", rest)) return rest ~ /^(GE|GT|LE|LT)$/ ? "test_once<WaitCmp::" rest ">" : ""
  if (rest == "TTestPollingTimeout") return "test_until"
  if (rest == "TTestPollingTimeoutMiss") return "test_in_vain"
  if (rest == "NotifyScoreboard" && sizes == 1) return "notify_scoreboard<" n[1] ">"
  if (rest ~ /^Notify(AtomicAdd|Set|RuntimeOp)$/) return "notify_" tolower(substr(rest, 7))
  return ""
}

function function_of(runner, name, n, sizes) {
  if (sub(/^RunGather/, "", runner)) return collective("gather", runner)
  if (sub(/^RunScatter/, "", runner)) return collective("scatter", runner)
  if (sub(/^RunBroadCast/, "", runner)) return collective("broadcast", runner)
  if (sub(/^RunReduce/, "", runner)) return reduction(runner)
  if (runner == "RunPutAtomicAdd" && sizes == 1) return "put_add<" T ", " count ">"
  if (sub(/^RunPutRing/, "", runner)) return pair("put", runner, n, sizes)
  if (sub(/^RunGetRing/, "", runner)) return pair("get", runner, n, sizes)
  if (sub(/^RunPutAsync/, "", runner)) return async("put", runner, "RootPut")
  if (sub(/^RunGetAsync/, "", runner)) return async("get", runner, "RootGet")
  if (sub(/^RunTPutAsync/, "", runner)) return posts("put", runner, name)
  if (sub(/^RunTGetAsync/, "", runner)) return posts("get", runner, name)
  if (sub(/^Run/, "", runner)) return signals(runner, n, sizes)
  return ""
}

NR == 1 { next }
{ sub(/\r$/, "") }
/^$/ { next }
{
  got = fields($0, f)
  understood = got == 6 && f[5] ~ /^[0-9]+$/ && read_numbers(f[6])
  T = ""
  count = 0
  sizes = split(f[4], given, / *, */)
  first = 1
  if (sizes && given[1] !~ /^[0-9]+$/) {
    T = given[1]
    understood = understood && T ~ /^(u?int(8|16|32|64)_t|float|double)$/
    first = 2
  }
  split("", n)
  for (i = first; i <= sizes; i++) {
    understood = understood && given[i] ~ /^[0-9]+$/
    n[i - first + 1] = given[i]
  }
  sizes -= first - 1
  count = n[1]
  call = understood ? function_of(f[3], f[2], n, sizes) : ""
  # A value that was not found in the name leaves an empty argument.
  if (call ~ /<, |, ,|, >/) call = ""
  gsub(/["\\]/, "", f[2])
  printf "SEED_ROW(\"%s\", %d, (%s), {%s})\n", f[2], f[5], call == "" ? "nullptr" : call, call == "" ? "" : numbers
}
