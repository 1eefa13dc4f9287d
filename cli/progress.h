/* progress.h: tells on standard error how far a verb has come, if it takes more than two seconds: on a terminal in one
 * line that is rewritten, elsewhere in lines at growing intervals. There is one progress for the process. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is told. */
struct progress_task {
  const char *verb;
  const char *things; /* what is counted, for example "plans"; NULL: nothing is */
  uint64_t total;     /* number of things; 0: nothing is counted */
  /* The whole work, in a unit of the caller, of which time is a multiple. Without things: the expected time in s; 0:
   * not known. */
  double work;
  bool quiet; /* tell nothing */
  /* Tell also during a long step. Needs the signal SIGALRM, which disturbs what is measured. */
  bool by_alarm;
};

/* Begins, counted from this call. Nothing is told if standard error is closed. */
void progress_start(const struct progress_task *task);
/* Sets how much is done, and tells it if that is due. Costs a reading of the clock. */
void progress_step(uint64_t done, double work_done);
/* Sets the expected time in s, if nothing is counted and the time is not known yet. */
void progress_expect(double seconds);
/* From now on, counts `total` things, each of the same work; does nothing if as many are counted already. */
void progress_count(const char *things, uint64_t total);
/* Removes the line from the terminal, before something else is printed. */
void progress_clear(void);
/* Ends; also removes the line. May be called without a start. */
void progress_stop(void);

/* ---- the parts without clock and output, for the test ---- */

struct progress {
  struct progress_task task;
  bool on_terminal;
  uint64_t done;
  double work_done;
  /* in s: when it began, when the counted work began, and when the next line is due */
  double begun, work_begun, due;
};

/* Begins at the time `now`, in s. */
void progress_begin(struct progress *p, const struct progress_task *task, bool on_terminal, double now);
enum { PROGRESS_CHARS = 160 };
/* If a line is due, writes it without a line end, and returns true. Calls only functions that a signal handler may
 * call. */
bool progress_tell(struct progress *p, double now, char line[PROGRESS_CHARS]);

#endif
