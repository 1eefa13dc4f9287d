/* test: fast waits */
/* job_test.c: tests of starting a job, with real processes: ranks that join, ranks that are missing or do not fit, and
 * that no descriptor is left open. */
#include "job_ranks.h"

static void all_join(uint32_t ranks) {
  struct part parts[JOB_RANKS_MAX] = {0};
  struct outcome outcomes[JOB_RANKS_MAX];
  for (uint32_t r = 0; r < ranks; r++) {
    parts[r] = (struct part){.rank = r, .ranks = ranks, .secret = SECRET, .timeout_ms = 15000};
  }
  double seconds = run_parts(parts, ranks, outcomes, hold_port());
  double slowest = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    expect(&parts[r], &outcomes[r], TUTTI_OK, "");
    if (outcomes[r].seconds > slowest) slowest = outcomes[r].seconds;
  }
  printf("  %u ranks joined: slowest join %.0f ms, with starting and ending %.0f ms\n", ranks, slowest * 1e3,
         seconds * 1e3);
}

static void test_join(void) {
  static const uint32_t sizes[] = {2, 3, 5, 16, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) all_join(sizes[i]);
}

static void test_join_in_any_order(void) {
  struct part parts[3];
  struct outcome outcomes[3];
  for (uint32_t late = 0; late < 3; late++) {
    for (uint32_t r = 0; r < 3; r++) {
      parts[r] =
          (struct part){.rank = r, .ranks = 3, .secret = "", .timeout_ms = 10000, .delay_ms = r == late ? 300 : 0};
    }
    run_parts(parts, 3, outcomes, hold_port());
    for (uint32_t r = 0; r < 3; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
  }
}

/* Rank 0 may be at any address of a list. Entries that do not answer or do not exist are left out. */
static void test_lists(void) {
  static const char *const lists[] = {"127.0.0.9,127.0.0.1", "[::1],127.0.0.1", "nosuch.invalid,127.0.0.1",
                                      "240.0.0.1,,127.0.0.1,", "::1,localhost"};
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
    struct part parts[3];
    struct outcome outcomes[3];
    for (uint32_t r = 0; r < 3; r++)
      parts[r] = (struct part){.rank = r, .ranks = 3, .secret = SECRET, .timeout_ms = 15000, .address = lists[i]};
    run_parts(parts, 3, outcomes, hold_port());
    for (uint32_t r = 0; r < 3; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
  }
  /* Each address is in the message, with the reason. */
  struct part alone = {.rank = 1, .ranks = 2, .secret = SECRET, .timeout_ms = 300, .address = "127.0.0.9,[::1]"};
  struct outcome outcome;
  run_parts(&alone, 1, &outcome, hold_port());
  expect(&alone, &outcome, TUTTI_ERR_TIMEOUT, "127.0.0.9: Connection refused|::1: ");
  alone.address = "nosuch.invalid,nosuch2.invalid";
  run_parts(&alone, 1, &outcome, hold_port());
  expect(&alone, &outcome, TUTTI_ERR_ENVIRONMENT, "nosuch.invalid,nosuch2.invalid|MASTER_ADDR");
}

/* Rank 0 does not have the address: it listens everywhere, since the address may be that of a gateway. */
static void test_gateway(void) {
  struct part parts[] = {
      {.rank = 0, .ranks = 2, .secret = SECRET, .timeout_ms = 15000, .address = "240.0.0.1"},
      {.rank = 1, .ranks = 2, .secret = SECRET, .timeout_ms = 15000, .address = "127.0.0.1"},
  };
  struct outcome outcomes[2];
  run_parts(parts, 2, outcomes, hold_port());
  for (int r = 0; r < 2; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
}

/* torchrun starts the ranks again after a failure. A rank of the round before is refused, and says so; rank 0 of the round
 * before does not admit new ranks, which wait for the new rank 0. */
static void test_rounds(void) {
  struct part parts[] = {
      {.rank = 0, .ranks = 3, .secret = "", .timeout_ms = 15000, .round = {"x", 1}},
      {.rank = 1, .ranks = 3, .secret = "", .timeout_ms = 15000, .round = {"x", 1}, .delay_ms = 400},
      {.rank = 2, .ranks = 3, .secret = "", .timeout_ms = 15000, .round = {"x", 1}, .delay_ms = 400},
      {.rank = 2, .ranks = 3, .secret = "", .timeout_ms = 15000, .round = {"x", 0}},
      {.rank = 1, .ranks = 3, .secret = "", .timeout_ms = 15000, .round = {"y", 1}},
      {.rank = 1, .ranks = 3, .secret = "", .timeout_ms = 15000},
  };
  enum { PARTS = sizeof parts / sizeof parts[0] };
  struct outcome outcomes[PARTS];
  run_parts(parts, PARTS, outcomes, hold_port());
  for (int r = 0; r < 3; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
  expect(&parts[3], &outcomes[3], TUTTI_ERR_PEER, "rank 2 belongs to restart 0 of run 'x'|is restart 1 of run 'x'");
  expect(&parts[4], &outcomes[4], TUTTI_ERR_PEER, "rank 1 belongs to restart 1 of run 'y'|is restart 1 of run 'x'");
  expect(&parts[5], &outcomes[5], TUTTI_ERR_PEER, "rank 1 belongs to no run of torchrun|is restart 1 of run 'x'");

  struct part late[] = {{.rank = 0, .ranks = 2, .secret = SECRET, .timeout_ms = 1000, .round = {"x", 0}},
                        {.rank = 1, .ranks = 2, .secret = SECRET, .timeout_ms = 15000, .round = {"x", 1}},
                        {.rank = 0, .ranks = 2, .secret = SECRET, .timeout_ms = 15000, .round = {"x", 1}, .after = 1}};
  run_parts(late, 3, outcomes, hold_port());
  expect(&late[0], &outcomes[0], TUTTI_ERR_TIMEOUT, "rank 1 of 2|restart 1, but this is restart 0 of run 'x'");
  expect(&late[1], &outcomes[1], TUTTI_OK, "");
  expect(&late[2], &outcomes[2], TUTTI_OK, "");
}

static void test_missing_ranks(void) {
  uint16_t port = hold_port();
  struct part parts[] = {{.rank = 0, .ranks = 7, .secret = SECRET, .timeout_ms = 12000},
                         {.rank = 1, .ranks = 7, .secret = SECRET, .timeout_ms = 1500, .delay_ms = 500},
                         {.rank = 4, .ranks = 7, .secret = SECRET, .timeout_ms = 16000}};
  struct outcome outcomes[3];
  double seconds = run_parts(parts, 3, outcomes, port);
  char text[96];
  snprintf(text, sizeof text, "1500 ms|127.0.0.1:%u|ranks 2, 3, 5, 6 of 7", port);
  for (size_t i = 0; i < 3; i++) expect(&parts[i], &outcomes[i], TUTTI_ERR_TIMEOUT, text);
  CHECK(seconds < 10, "the shortest time-out is 1.5 s, it took %.1f s", seconds);

  struct part alone = {.rank = 1, .ranks = 2, .secret = SECRET, .timeout_ms = 300};
  run_parts(&alone, 1, outcomes, hold_port());
  expect(&alone, outcomes, TUTTI_ERR_TIMEOUT, "rank 1 of 2|Connection refused");
  alone.rank = 0;
  run_parts(&alone, 1, outcomes, hold_port());
  expect(&alone, outcomes, TUTTI_ERR_TIMEOUT, "rank 1 of 2");
}

/* A rank with a wrong secret is refused; the job goes on waiting, and starts when the rank with the right secret
 * joins. */
static void test_wrong_secret(void) {
  struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                         {.rank = 1, .ranks = 3, .secret = "guess", .timeout_ms = 10000},
                         {.rank = 2, .ranks = 3, .secret = "", .timeout_ms = 10000},
                         {.rank = 1, .ranks = 3, .secret = SECRET, .timeout_ms = 10000, .after = 2},
                         {.rank = 2, .ranks = 3, .secret = SECRET, .timeout_ms = 10000, .after = 2}};
  struct outcome outcomes[5];
  run_parts(parts, 5, outcomes, hold_port());
  expect(&parts[1], &outcomes[1], TUTTI_ERR_PEER, "TUTTI_SECRET of rank 1");
  expect(&parts[2], &outcomes[2], TUTTI_ERR_PEER, "TUTTI_SECRET|rank 2 has none");
  expect(&parts[0], &outcomes[0], TUTTI_OK, "");
  expect(&parts[3], &outcomes[3], TUTTI_OK, "");
  expect(&parts[4], &outcomes[4], TUTTI_OK, "");

  parts[0].timeout_ms = 1500;
  parts[0].delay_ms = 300; /* rank 1 already tries to connect when the time of rank 0 begins */
  run_parts(parts, 2, outcomes, hold_port());
  expect(&parts[0], &outcomes[0], TUTTI_ERR_TIMEOUT, "1 join|TUTTI_SECRET");

  parts[0].secret = "";
  run_parts(parts, 2, outcomes, hold_port());
  expect(&parts[1], &outcomes[1], TUTTI_ERR_PEER, "TUTTI_SECRET|rank 1 has one");
}

static void test_misfits(void) {
  static const struct {
    struct part odd;
    tutti_err code;
    const char *text;
  } cases[] = {
      {{.rank = 1, .ranks = 3, .secret = SECRET}, TUTTI_ERR_ENVIRONMENT, "two processes|rank 1: pid "},
      {{.rank = 2, .ranks = 4, .secret = SECRET}, TUTTI_ERR_ENVIRONMENT, "WORLD_SIZE 4|rank 0 "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                           {.rank = 1, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                           cases[i].odd};
    parts[2].timeout_ms = 10000;
    parts[2].delay_ms = 300;
    struct outcome outcomes[3];
    run_parts(parts, 3, outcomes, hold_port());
    for (int r = 0; r < 3; r++) expect(&parts[r], &outcomes[r], cases[i].code, cases[i].text);
  }
}

static void test_other_host(void) {
  struct part parts[] = {{.rank = 0, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                         {.rank = 1, .ranks = 3, .secret = SECRET, .timeout_ms = 10000},
                         {.rank = 2, .ranks = 3, .secret = SECRET, .timeout_ms = 10000, .host = 12345}};
  struct outcome outcomes[3];
  run_parts(parts, 3, outcomes, hold_port());
  for (int r = 0; r < 3; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
}

/* ---- jobs without a secret ---- */

/* Returns the number of lines that a job of two ranks writes to standard error. */
static int count_lines(const char *secret) {
  struct part parts[] = {{.rank = 0, .ranks = 2, .secret = secret, .timeout_ms = 10000},
                         {.rank = 1, .ranks = 2, .secret = secret, .timeout_ms = 10000}};
  struct outcome outcomes[2];
  FILE *said = tmpfile();
  int kept = dup(STDERR_FILENO), lines = 0;
  fflush(stderr);
  dup2(fileno(said), STDERR_FILENO);
  run_parts(parts, 2, outcomes, hold_port());
  dup2(kept, STDERR_FILENO);
  close(kept);
  for (int r = 0; r < 2; r++) expect(&parts[r], &outcomes[r], TUTTI_OK, "");
  char line[512];
  rewind(said);
  for (; fgets(line, sizeof line, said); lines++) CHECK(test_contains(line, "no secret|port"), "says: %s", line);
  fclose(said);
  return lines;
}

static void test_open_job(void) {
  int open = count_lines(""), closed = count_lines(SECRET);
  CHECK(open == 1 && closed == 0, "%d lines without a secret, %d with one", open, closed);
}

/* ---- limits ---- */

/* Rank 0 needs a descriptor for each of 40 other ranks. A soft limit that is too low is raised. If the hard limit is
 * too low, the job fails with a message that states the limit. */
static void test_descriptors(void) {
  static const struct {
    rlim_t files;
    bool short_of_soft;
    tutti_err code;
  } cases[] = {{24, true, TUTTI_OK}, {70, false, TUTTI_OK}, {48, false, TUTTI_ERR_SYSTEM}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct part parts[41];
    struct outcome outcomes[41];
    uint32_t count = cases[i].code == TUTTI_OK ? 41 : 1;
    for (uint32_t r = 0; r < count; r++)
      parts[r] = (struct part){.rank = r, .ranks = 41, .secret = SECRET, .timeout_ms = 15000};
    parts[0].files = cases[i].files;
    parts[0].short_of_soft = cases[i].short_of_soft;
    run_parts(parts, count, outcomes, hold_port());
    for (uint32_t r = 0; r < count; r++) expect(&parts[r], &outcomes[r], cases[i].code, "file descriptors");
    if (cases[i].code != TUTTI_OK)
      CHECK(test_contains(outcomes[0].error.text, "hard limit|48|ulimit -n"), "%s", outcomes[0].error.text);
  }
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"join", test_join},
      {"join_in_any_order", test_join_in_any_order},
      {"lists", test_lists},
      {"gateway", test_gateway},
      {"rounds", test_rounds},
      {"missing_ranks", test_missing_ranks},
      {"wrong_secret", test_wrong_secret},
      {"misfits", test_misfits},
      {"other_host", test_other_host},
      {"open_job", test_open_job},
      {"descriptors", test_descriptors},
  };
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
