/* progress_lines_test.c: tests what progress.c tells, with a clock of the test. */
#include "cli/progress.h"
#include "test.h"

void (*cli_before_message)(void); /* of cli.c */

/* Checks the line at a time; NULL: none is due. */
static void at(struct progress *p, double now, const char *expected) {
  char line[PROGRESS_CHARS];
  const bool told = progress_tell(p, now, line);
  CHECK(told == (expected != NULL), "at %g s: %s", now, told ? line : "nothing is told");
  if (told && expected) CHECK(strcmp(line, expected) == 0, "at %g s: found '%s', expected '%s'", now, line, expected);
}

static void set(struct progress *p, uint64_t done, double work_done) {
  p->done = done;
  p->work_done = work_done;
}

static void test_lines(void) {
  const struct progress_task task = {.verb = "check", .things = "plans", .total = 20694, .work = 1000};
  struct progress p;
  progress_begin(&p, &task, false, 100);
  at(&p, 100, NULL);
  set(&p, 1, 10);
  at(&p, 101.9, NULL);
  at(&p, 102, "tutti check: 1 of 20,694 plans, 2 s so far");
  at(&p, 109.9, NULL);
  set(&p, 1204, 200);
  at(&p, 110, "tutti check: 1,204 of 20,694 plans, 40 s left");
  at(&p, 119.9, NULL);
  set(&p, 1300, 30);
  at(&p, 120, "tutti check: 1,300 of 20,694 plans, 10 min 47 s left");
  at(&p, 139.9, NULL);
  at(&p, 140, "tutti check: 1,300 of 20,694 plans, 21 min 33 s left");
  at(&p, 300, "tutti check: 1,300 of 20,694 plans, 107 min 47 s left");
  at(&p, 359.9, NULL);
  at(&p, 360, "tutti check: 1,300 of 20,694 plans, 2 h 20 min left");
  set(&p, 20694, 1000);
  at(&p, 420, "tutti check: 20,694 of 20,694 plans, 0 s left");
}

static void test_terminal(void) {
  const struct progress_task task = {.verb = "tune", .things = "sizes", .total = 10, .work = 10};
  struct progress p;
  progress_begin(&p, &task, true, 0);
  at(&p, 1.9, NULL);
  set(&p, 5, 5);
  at(&p, 2, "tutti tune: 5 of 10 sizes, 2 s left");
  at(&p, 2.4, NULL);
  at(&p, 2.5, "tutti tune: 5 of 10 sizes, 3 s left");
}

static void test_without_things(void) {
  struct progress p;
  progress_begin(&p, &(struct progress_task){.verb = "plan", .work = 40}, false, 0);
  at(&p, 12, "tutti plan: 12 s of about 40 s, 28 s left");
  at(&p, 50, "tutti plan: 50 s, still at work; Ctrl-C ends it");
  progress_begin(&p, &(struct progress_task){.verb = "check"}, false, 0);
  at(&p, 2, "tutti check: 2 s, still at work; Ctrl-C ends it");
}

static void test_quiet(void) {
  struct progress p;
  progress_begin(&p, &(struct progress_task){.verb = "plan", .quiet = true}, true, 0);
  at(&p, 100, NULL);
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"lines", test_lines},
                                      {"terminal", test_terminal},
                                      {"without_things", test_without_things},
                                      {"quiet", test_quiet}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
