/* plan_msccl_test.c: tests the conversion of MSCCL algorithms. Good files become plans that the checker proves. Invalid
 * files are refused with a line number and a reason. Wrong algorithms are converted, and the checker refuses their
 * plans. */
#include "plan/plan_msccl.h"
#include "base/text.h"
#include "check/check.h"
#include "test.h"

/* Examples that tools/msccl-examples makes. */
#define EXAMPLES SOURCE_DIR "/tests/fuzz_seeds/msccl/"
static const char *const examples[] = {
    "allgather_ring_4", "allreduce_allpairs_4", "allreduce_halving_doubling_4", "allreduce_mixed_2",
    "allreduce_ring_4", "alltoall_direct_3",    "allreduce_two_channels_3",     "broadcast_chain_3",
    "gather_direct_3",  "reduce_chain_3",       "reduce_scatter_ring_4",        "scatter_direct_3",
};

/* Returns the text of an example, in which the first `old` after the first `from` is replaced. The caller frees the
 * text. */
static char *example(const char *name, const char *from, const char *old, const char *replacement) {
  char path[512], *data;
  size_t bytes;
  struct tu_error error;
  snprintf(path, sizeof path, EXAMPLES "%s.xml", name);
  if (tu_read_file(path, &data, &bytes, &error) != TUTTI_OK) {
    printf("  %s\n", error.text);
    exit(1);
  }
  if (!old) return data;
  char *at = strstr(data, from);
  at = at ? strstr(at, old) : NULL;
  if (!at) {
    printf("  %s: there is no '%s' behind '%s'\n", path, old, from);
    exit(1);
  }
  struct tu_text text = {0};
  tu_text_print(&text, "%.*s%s%s", (int)(at - data), data, replacement, at + strlen(old));
  free(data);
  return text.chars;
}

static struct tu_plan *read_good(const char *name, const char *xml, bool in_place) {
  struct tu_plan *plan = NULL;
  struct tu_error error;
  if (tu_plan_read_any(xml, strlen(xml), name, in_place, &plan, &error) != TUTTI_OK) FAIL("%s", error.text);
  return plan;
}

static void test_examples(void) {
  for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
    char *xml = example(examples[i], NULL, NULL, NULL);
    struct tu_plan *plan = read_good(examples[i], xml, false), *again = NULL;
    free(xml);
    if (!plan) continue;
    for (uint32_t credits = 1; credits <= 3; credits++) {
      struct tu_check_report report;
      CHECK(tu_check(plan, credits, &report), "%s, %u credits: %s", examples[i], credits, report.text);
    }
    CHECK(strcmp(plan->algorithm, examples[i]) == 0, "'%s' is called '%s'", examples[i], plan->algorithm);
    struct tu_text first = {0}, second = {0};
    struct tu_error error;
    tu_plan_write(plan, &first);
    if (tu_plan_read(first.chars, first.length, examples[i], &again, &error) == TUTTI_OK) tu_plan_write(again, &second);
    else FAIL("%s", error.text);
    CHECK(second.chars && strcmp(first.chars, second.chars) == 0, "%s: read back different:\n%s\n%s", examples[i],
          first.chars, second.chars);
    tu_plan_destroy(plan);
    tu_plan_destroy(again);
    tu_text_fini(&first);
    tu_text_fini(&second);
  }
}

static void expect_text(const char *name, const char *expected) {
  char *xml = example(name, NULL, NULL, NULL);
  struct tu_plan *plan = read_good(name, xml, false);
  struct tu_text text = {0};
  tu_plan_write(plan, &text);
  CHECK(strcmp(text.chars, expected) == 0, "%s: expected\n%s\nfound\n%s", name, expected, text.chars);
  tu_text_fini(&text);
  tu_plan_destroy(plan);
  free(xml);
}

static void test_texts(void) {
  /* the type rrs needs scratch in the plan; the root is found from the messages */
  expect_text("reduce_chain_3",
              "tutti-plan 1\ncollective reduce\nalgorithm reduce_chain_3\nranks 3\nroot 2\nsplit 1\n"
              "in_place no\nequal_blocks no\nrank_order no\n"
              "rank 0\n    0: send first in[0] to 1\n"
              "rank 1\n  tmp in[0]\n    0: recv_reduce first in[0] + @0 into tmp[0]\n"
              "    1: send tmp[0] to 2 after 0\n"
              "rank 2\n    0: recv_reduce first in[0] + @1 into out[0] final\n");
  /* In place, i and o are one buffer, so a rank without input may use both names for its output. The order of a
   * threadblock binds only steps that share memory. */
  expect_text("broadcast_chain_3",
              "tutti-plan 1\ncollective broadcast\nalgorithm broadcast_chain_3\nranks 3\nroot 1\nsplit 2\n"
              "in_place yes\nequal_blocks no\nrank_order no\n"
              "rank 0\n    0: recv from 2 into out[0]\n    1: recv from 2 into out[1]\n"
              "rank 1\n    0: send in[0] to 2\n    1: send in[1] to 2\n"
              "rank 2\n    0: recv from 1 into out[0]\n    1: send out[0] to 0 after 0\n"
              "    2: recv from 1 into out[1]\n    3: send out[1] to 0 after 2\n");
  /* Chunks with different marks are sent one by one, as joined messages. */
  expect_text("allreduce_mixed_2",
              "tutti-plan 1\ncollective allreduce\nalgorithm allreduce_mixed_2\nranks 2\nroot 0\nsplit 2\n"
              "in_place yes\nequal_blocks no\nrank_order no\n"
              "rank 0\n  tmp in[0:2]\n    0: send first in[0] to 1\n    1: recv from 1 into tmp[0]\n"
              "    2: recv from 1 joined into tmp[1]\n    3: copy tmp[0] into in[0] after 0,1\n"
              "    4: reduce first in[1] + tmp[1] into in[1] final after 2\n    5: send in[1] to 1 after 4\n"
              "rank 1\n    0: recv_reduce first in[0] + @0 into in[0] final\n    1: send in[0] to 0 after 0\n"
              "    2: send first in[1] to 0 joined\n    3: recv from 0 into in[1] after 2\n");
}

/* ---- invalid files ---- */

static const char ring[] = "allreduce_ring_4", pairs[] = "allreduce_allpairs_4", gather[] = "allgather_ring_4";

/* In an example, the first `old` after the first `from` becomes `replacement`. facts: of the error message. */
struct mutation {
  const char *name, *from, *old, *replacement, *facts;
};

static const struct mutation refused[] = {
    {ring, "<algo", " proto=\"Simple\"", "", ":1: <algo>|attribute 'proto'|none"},
    {ring, "<algo", "Simple", "LL64", ":1: <algo>|'proto'|Simple, LL or LL128|'LL64'"},
    {ring, "<algo", "minBytes", "minbytes", "<algo>|attribute 'minbytes'|'minBytes'"},
    {ring, "<algo", "minBytes=\"0\"", "minBytes=\"few\"", "'minBytes'|bytes|'few'"},
    {ring, "<algo", "ngpus=\"4\"", "ngpus=\"0\"", "'ngpus'|from 1 to 65536|'0'"},
    {ring, "<algo", "ngpus=\"4\"", "ngpus=\"5\"", ":1: <algo>|5 gpus|ngpus|found 4"},
    {ring, "</algo>", "</algo>", "<gpu id=\"4\" i_chunks=\"4\" o_chunks=\"0\" s_chunks=\"0\"/></algo>",
     "</algo>|4 gpus|another <gpu>"},
    {ring, "<algo", "\"allreduce\"", "\"custom\"", "'coll'|'custom'"},
    {ring, "<algo", "\"allreduce\"", "\"scan\"", "'coll'|allreduce, allgather, reduce_scatter|'scan'"},
    {ring, "<algo", "\"allreduce\"", "\"allgather\"", "'type'|allgather|not reduce"},
    {ring, "<algo", "inplace=\"1\"", "inplace=\"0\"", "inplace=\"1\"|outofplace=\"1\"|neither"},
    {ring, "<algo", "inplace=\"1\"", "inplace=\"yes\"", "'inplace'|from 0 to 1|'yes'"},
    {gather, "<algo", "nchunksperloop=\"8\"", "nchunksperloop=\"7\"", "'nchunksperloop'|multiple of 4|gpus|'7'"},
    {gather, "<gpu id=\"1\"", "o_chunks=\"8\"", "o_chunks=\"9\"", "<gpu>|'o_chunks'|expected 8|gpu 1|allgather|'9'"},
    {ring, "<algo", "nchunksperloop=\"4\"", "nchunksperloop=\"200000000\"", "chunks|1600000000"},
    {ring, "<gpu id=\"1\"", "id=\"1\"", "id=\"2\"", ":13: <gpu>|'id'|expected 1|'2'"},
    {ring, "<gpu", "s_chunks=\"0\"", "s_chunks=\"-1\"", "'s_chunks'|from 0 to|'-1'"},
    {ring, "<tb", "send=\"1\"", "send=\"0\"", ":3: <tb>|'send'|another gpu|-1|'0'"},
    {ring, "<tb", "send=\"1\"", "send=\"-1\"", ":4: <step>|'send'|threadblock|'-1'"},
    {ring, "<tb", "recv=\"3\"", "recv=\"-1\"", ":5: <step>|'recv'|threadblock|'-1'"},
    {ring, "<tb", "recv=\"3\"", "recv=\"4\"", "'recv'|from -1 to 3|'4'"},
    {ring, "<tb", "chan=\"0\"", "chan=\"1\"", "'chan'|from 0 to 0|'1'"},
    {pairs, "<tb id=\"1\"", "send=\"2\"", "send=\"1\"", "gpu 0|sends to gpu 1|channel 0|line 3"},
    {pairs, "<tb id=\"1\"", "recv=\"2\"", "recv=\"1\"", "gpu 0|receives from gpu 1|channel 0|line 3"},
    {ring, "<step", "s=\"0\"", "s=\"1\"", ":4: <step>|'s'|expected 0|'1'"},
    {ring, "<step", "type=\"s\"", "type=\"send\"", "'type'|s, r, rcs, rrs, rrc, rrcs, cpy, re or nop|'send'"},
    {ring, "<step", "srcbuf=\"i\"", "srcbuf=\"in\"", "'srcbuf'|i, o or s|'in'"},
    {ring, "<step", "srcoff=\"0\"", "srcoff=\"4\"", ":4: <step>|'srcoff'|1 chunks|the 4 |gpu 0|i_chunks|'4'"},
    {ring, "<step", "srcoff=\"0\"", "srcoff=\"-1\"", "'srcoff'|chunk number|'-1'"},
    {ring, "<step", "cnt=\"1\"", "cnt=\"0\"", "'cnt'|from 1 to|'0'"},
    {ring, "<step", "cnt=\"1\"", "cnt=\"1\" count=\"1\"", "<step>|attribute 'count'"},
    {ring, "<step", "hasdep", "hasDep", "<step>|attribute 'hasdep'|none"},
    {ring, "<step", "depid=\"-1\"", "depid=\"1\"", "'depid'|1 threadblocks|gpu 0|'1'"},
    {ring, "<step", "depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"7\"", "'deps'|7 steps|threadblock 0|'7'"},
    {pairs, "s=\"9\" type=\"re\"", "hasdep=\"1\"", "hasdep=\"0\"", "step 9|threadblock 0|hasdep=\"1\"|none"},
    {pairs, "<tb id=\"1\"",
     "type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"s\" dstoff=\"2\" cnt=\"2\" depid=\"-1\" deps=\"-1\"",
     "type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"s\" dstoff=\"2\" cnt=\"2\" depid=\"0\" deps=\"9\"",
     "depid, deps|cycle"},
    {"broadcast_chain_3", "<gpu id=\"1\"", "<step s=\"0\" type=\"s\"", "<step s=\"0\" type=\"r\"",
     "root of broadcast|one gpu|receives|none"},
    {"scatter_direct_3", "<gpu id=\"2\"", "dstbuf=\"o\"", "dstbuf=\"i\"", "'dstoff'|2 chunks|the 0 "},
    {"scatter_direct_3", "<algo", "coll=\"scatter\"", "coll=\"reduce\"",
     "root of reduce|one gpu|sends|found 2|gpus 1 and 2"},
    {"scatter_direct_3", "<gpu id=\"2\" i_chunks=\"0\"",
     "i_chunks=\"0\" o_chunks=\"2\" s_chunks=\"0\">\n    <tb id=\"0\" send=\"-1\" recv=\"0\" chan=\"0\">\n      "
     "<step s=\"0\" type=\"r\" srcbuf=\"i\" srcoff=\"4\" dstbuf=\"o\"",
     "i_chunks=\"6\" o_chunks=\"2\" s_chunks=\"0\">\n    <tb id=\"0\" send=\"-1\" recv=\"0\" chan=\"0\">\n      "
     "<step s=\"0\" type=\"r\" srcbuf=\"i\" srcoff=\"4\" dstbuf=\"i\"",
     "'dstbuf'|gpu 2|scatter|root 0|'i'"},
    {ring, "<step", "<step", "<op", ":4: |<step> in <tb>|<op>"},
    {ring, "<gpu", "<gpu", "<tb", ":2: |<gpu> in <algo>|<tb>"},
    {ring, "<algo", "<algo", "<algorithm", ":1: |<algo> in|<algorithm>"},
    {ring, "<tb", "\">", "\">\n steps", "elements|text 'steps'"},
    {ring, "</tb>", "</tb>", "", "XML|mismatched tag"},
    {ring, "<algo", "<algo", "<!DOCTYPE algo [<!ENTITY a \"aaaa\">]>\n<algo", "<algo>|document type"},
    {ring, "<step", "cnt=\"1\"", "cnt=\"&a;\"", ":4: |XML|undefined entity"},
};

static void test_refused(void) {
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    const struct mutation *m = &refused[i];
    char *xml = example(m->name, m->from, m->old, m->replacement);
    struct tu_plan *plan = NULL;
    struct tu_error error = {.text = ""};
    tutti_err err = tu_plan_read_any(xml, strlen(xml), "odd", false, &plan, &error);
    CHECK(err == TUTTI_ERR_ARGUMENT, "%s: '%s': is read", m->name, m->replacement);
    CHECK(strncmp(error.text, "odd:", 4) == 0 && test_contains(error.text, m->facts),
          "%s: '%s': expected '...%s...', found '%s'", m->name, m->replacement, m->facts, error.text);
    tu_plan_destroy(plan);
    free(xml);
  }
}

/* ---- wrong algorithms ---- */

static void test_wrong(void) {
  static const struct mutation table[] = {
      /* The offset is wrong, so the right sum is stored in the wrong chunk. */
      {ring, "type=\"rcs\"", "dstoff=\"0\"", "dstoff=\"1\"", "rank 0"},
      {gather, "type=\"cpy\"", "dstoff=\"0\"", "dstoff=\"2\"", "(gpu 0, threadblock |line |races with"},
      /* A dependency is missing. */
      {pairs, "<tb id=\"1\"", "depid=\"0\" deps=\"9\"", "depid=\"-1\" deps=\"-1\"", "races with"},
      {pairs, "type=\"nop\"", "depid=\"1\"", "depid=\"2\"", "races with step|(gpu 0, threadblock |line "},
      {"allreduce_halving_doubling_4", "<tb id=\"1\"", "depid=\"0\" deps=\"1\"", "depid=\"-1\" deps=\"-1\"",
       "races with"},
      /* The two ends of a message do not match. */
      {gather, "<gpu id=\"1\"", "cnt=\"2\"", "cnt=\"1\"", "2 chunks|rank 1 sends 1"},
      {ring, "<gpu id=\"2\"", "type=\"r\"", "type=\"cpy\"", "rank 2 never receives"},
      /* Rank 0 waits for a message that rank 1 never sends. */
      {"reduce_chain_3", "<gpu id=\"0\"", "recv=\"-1\" chan=\"0\">\n      <step s=\"0\" type=\"s\"",
       "recv=\"1\" chan=\"0\">\n      <step s=\"0\" type=\"rrs\"", "message 1 from rank 1"},
      /* A contribution is counted twice, or lost. */
      {"reduce_scatter_ring_4", "type=\"rrs\"", "srcoff=\"2\"", "srcoff=\"3\"", "step reduces|same chunk"},
      {pairs, "s=\"6\" type=\"re\"", "srcoff=\"2\"", "srcoff=\"0\"", "adds rank|second time"},
      /* Input that the caller keeps is overwritten. */
      {"allreduce_two_channels_3", "type=\"rrcs\"", "dstbuf=\"o\"", "dstbuf=\"i\"", "writes chunk|input"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    char *xml = example(table[i].name, table[i].from, table[i].old, table[i].replacement);
    struct tu_plan *plan = read_good(table[i].name, xml, false);
    struct tu_check_report report;
    if (plan) {
      CHECK(!tu_check(plan, 1, &report), "%s: '%s': is proved", table[i].name, table[i].replacement);
      CHECK(test_contains(report.text, table[i].facts), "%s: '%s': expected '...%s...', found '%s'", table[i].name,
            table[i].replacement, table[i].facts, report.text);
    }
    tu_plan_destroy(plan);
    free(xml);
  }
}

/* Two ranks wait for each other. The conversion still orders their steps, and the checker reports the deadlock. */
static void test_deadlock(void) {
  static const char xml[] =
      "<algo name=\"2 wait\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"2\" coll=\"allgather\" "
      "inplace=\"0\">"
      "<gpu id=\"0\" i_chunks=\"1\" o_chunks=\"2\" s_chunks=\"0\"><tb id=\"0\" send=\"1\" recv=\"1\" chan=\"0\">"
      "<step s=\"0\" type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\" depid=\"-1\" deps=\"-1\" "
      "hasdep=\"0\"/>"
      "<step s=\"1\" type=\"cpy\" srcbuf=\"o\" srcoff=\"1\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\" "
      "deps=\"-1\" "
      "hasdep=\"0\"/>"
      "<step s=\"2\" type=\"s\" srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" "
      "hasdep=\"0\"/></tb></gpu>"
      "<gpu id=\"1\" i_chunks=\"1\" o_chunks=\"2\" s_chunks=\"0\"><tb id=\"0\" send=\"0\" recv=\"0\" chan=\"0\">"
      "<step s=\"0\" type=\"rcs\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" depid=\"-1\" "
      "deps=\"-1\" "
      "hasdep=\"0\"/></tb></gpu></algo>";
  struct tu_plan *plan = read_good("deadlock", xml, false);
  struct tu_check_report report;
  CHECK(!tu_check(plan, 1, &report) && strstr(report.text, "deadlock"), "'%s'", report.text);
  CHECK(strcmp(plan->algorithm, "_2_wait") == 0, "the name '2 wait' became '%s'", plan->algorithm);
  tu_plan_destroy(plan);
}

/* A file may serve both in-place and out-of-place calls. The requested plan is read. */
static void test_both(void) {
  char *xml = example("alltoall_direct_3", "<algo", "inplace=\"0\"", "inplace=\"1\"");
  for (int in_place = 0; in_place < 2; in_place++) {
    struct tu_plan *plan = read_good("both", xml, in_place);
    CHECK(plan && plan->in_place == in_place, "asked for in place %d", in_place);
    tu_plan_destroy(plan);
  }
  free(xml);
}

int main(int argc, char **argv) {
  const struct test tests[] = {
      {"examples", test_examples}, {"texts", test_texts},       {"refused", test_refused},
      {"wrong", test_wrong},       {"deadlock", test_deadlock}, {"both", test_both},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
