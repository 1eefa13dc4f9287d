/* progress.c: tells how far a verb has come. */
#include "cli/progress.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* ---- lines; without functions that a signal handler must not call, such as snprintf ---- */

#define FIRST_S 2.0        /* nothing is told before */
#define TERMINAL_S 0.5     /* interval on a terminal */
#define INTERVAL_MIN_S 8.0 /* elsewhere, the interval is the time that has passed, within these bounds */
#define INTERVAL_MAX_S 60.0
#define WORK_MIN 0.02 /* part of the work from which on the time left is told */

struct line {
  char *chars;
  size_t length;
};

static void put(struct line *l, const char *chars) {
  while (*chars && l->length + 1 < PROGRESS_CHARS) l->chars[l->length++] = *chars++;
  l->chars[l->length] = '\0';
}

/* Writes a count with separators, such as 20,694. */
static void put_count(struct line *l, uint64_t count) {
  char reversed[32];
  size_t length = 0;
  for (unsigned digits = 0; digits == 0 || count > 0; digits++, count /= 10) {
    if (digits > 0 && digits % 3 == 0) reversed[length++] = ',';
    reversed[length++] = (char)('0' + count % 10);
  }
  while (length > 0) put(l, (char[]){reversed[--length], '\0'});
}

/* Writes a time such as "34 s" or "3 min 20 s". */
static void put_time(struct line *l, double seconds) {
  const uint64_t s = seconds < 1e9 ? (uint64_t)(seconds + 0.5) : 1000000000;
  if (s >= 7200) {
    put_count(l, s / 3600);
    put(l, " h ");
  }
  if (s >= 120) {
    put_count(l, s >= 7200 ? s / 60 % 60 : s / 60);
    put(l, " min");
  }
  if (s >= 7200) return;
  if (s >= 120) put(l, " ");
  put_count(l, s >= 120 ? s % 60 : s);
  put(l, " s");
}

/* Writes for example "1,204 of 20,694 plans, 34 s left". */
static void put_counted(struct line *l, const struct progress *p, double now) {
  put_count(l, p->done);
  put(l, " of ");
  put_count(l, p->task.total);
  put(l, " ");
  put(l, p->task.things);
  put(l, ", ");
  if (p->work_done >= WORK_MIN * p->task.work && p->task.work > 0) {
    put_time(l, (now - p->work_begun) * (p->task.work - p->work_done) / p->work_done);
    put(l, " left");
  } else {
    put_time(l, now - p->begun);
    put(l, " so far");
  }
}

/* Writes for example "12 s of about 40 s, 28 s left". */
static void put_timed(struct line *l, const struct progress *p, double elapsed) {
  put_time(l, elapsed);
  if (elapsed < p->task.work) {
    put(l, " of about ");
    put_time(l, p->task.work);
    put(l, ", ");
    put_time(l, p->task.work - elapsed);
    put(l, " left");
  } else {
    put(l, ", still at work; Ctrl-C ends it");
  }
}

void progress_begin(struct progress *p, const struct progress_task *task, bool on_terminal, double now) {
  *p = (struct progress){
      .task = *task, .on_terminal = on_terminal, .begun = now, .work_begun = now, .due = now + FIRST_S};
}

bool progress_tell(struct progress *p, double now, char line[PROGRESS_CHARS]) {
  if (p->task.quiet || now < p->due) return false;
  const double elapsed = now - p->begun;
  double interval = elapsed < INTERVAL_MIN_S ? INTERVAL_MIN_S : elapsed;
  if (interval > INTERVAL_MAX_S) interval = INTERVAL_MAX_S;
  p->due = now + (p->on_terminal ? TERMINAL_S : interval);
  struct line l = {.chars = line};
  put(&l, "tutti ");
  put(&l, p->task.verb);
  put(&l, ": ");
  if (p->task.total > 0) put_counted(&l, p, now);
  else put_timed(&l, p, elapsed);
  return true;
}

/* ---- the progress of the process ---- */

static struct progress current;
static volatile sig_atomic_t runs;    /* progress_start was called, and progress_stop not yet */
static volatile sig_atomic_t shown;   /* there is a line on the terminal */
static volatile sig_atomic_t telling; /* a line is being written; the alarm must not write another one into it */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void write_all(const char *chars) { (void)!write(STDERR_FILENO, chars, strlen(chars)); }

static void tell(void) {
  char text[PROGRESS_CHARS + 16] = "\r", *line = text + 1;
  if (!runs || telling) return;
  telling = 1;
  if (progress_tell(&current, now_s(), line)) {
    strcat(line, current.on_terminal ? "\033[K" : "\n");
    write_all(current.on_terminal ? text : line);
    shown = current.on_terminal;
  }
  telling = 0;
}

static void tell_by_alarm(int number) {
  (void)number;
  const int before = errno;
  tell();
  errno = before;
}

static void set_alarm(double first_s, double interval_s) {
  const struct timeval first = {(time_t)first_s, (suseconds_t)((first_s - (double)(time_t)first_s) * 1e6)};
  const struct timeval interval = {(time_t)interval_s, (suseconds_t)((interval_s - (double)(time_t)interval_s) * 1e6)};
  setitimer(ITIMER_REAL, &(struct itimerval){.it_interval = interval, .it_value = first}, NULL);
}

void progress_start(const struct progress_task *task) {
  progress_stop();
  if (task->quiet) return;
  progress_begin(&current, task, isatty(STDERR_FILENO), now_s());
  cli_before_message = progress_clear;
  runs = 1;
  if (!task->by_alarm) return;
  const struct sigaction action = {.sa_handler = tell_by_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  set_alarm(FIRST_S, TERMINAL_S);
}

void progress_step(uint64_t done, double work_done) {
  if (!runs) return;
  telling = 1; /* the alarm sees both numbers, or none */
  current.done = done;
  current.work_done = work_done;
  telling = 0;
  tell();
}

void progress_expect(double seconds) {
  if (!runs || current.task.total > 0 || current.task.work > 0) return;
  telling = 1;
  current.task.work = seconds;
  telling = 0;
}

void progress_count(const char *things, uint64_t total) {
  if (!runs || current.task.total == total) return;
  telling = 1;
  current.task.things = things;
  current.task.total = total;
  current.task.work = (double)total;
  current.done = 0;
  current.work_done = 0;
  current.work_begun = now_s();
  telling = 0;
}

void progress_clear(void) {
  if (!shown) return;
  telling = 1;
  write_all("\r\033[K");
  shown = 0;
  telling = 0;
}

void progress_stop(void) {
  if (!runs) return;
  if (current.task.by_alarm) set_alarm(0, 0);
  progress_clear();
  runs = 0;
}
