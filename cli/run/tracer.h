/* tracer.h: `tutti run --trace`: the ranks of each host record what they do (TUTTI_TRACE) in a directory that is removed at
 * the end. Agents send the files to the launcher, which joins them (cli/trace). */
#ifndef CLI_RUN_TRACER_H
#define CLI_RUN_TRACER_H

#include <dirent.h>

#include "cli/run/pipe.h"

struct run_tracer {
  char *directory; /* NULL: nothing is recorded */
  /* of an agent that sends: the directory, and the file of which parts are sent */
  DIR *sending;
  bool reading;
  int fd;
  uint32_t part;
  uint64_t bytes;
};

/* Makes the directory, and sets the variable for the ranks. file: it is to be written at the end; NULL: by the launcher. Error:
 * TUTTI_ERR_SYSTEM. */
tutti_err run_tracer_open(struct run_tracer *tracer, const char *file, struct tu_error *error);
/* Removes the directory and the files. */
void run_tracer_close(struct run_tracer *tracer);

/* Of an agent: sends the files, as frames RUN_TRACE_FILE and RUN_TRACE_PART, until the sink is full. Returns true if all has been
 * sent; otherwise the agent calls again when the launcher has taken some of it. */
bool run_tracer_send(struct run_tracer *tracer, struct run_sink *sink);
/* Of the launcher: takes such a frame. *fd: the file that the host sends; -1: none. Returns false if the frame is damaged. */
bool run_tracer_take(const struct run_tracer *tracer, const struct run_frame *frame, int *fd);

/* Writes what the ranks have recorded into the file: as a page, if it ends with ".html", or as Chrome-trace JSON. Returns
 * CLI_GOOD, or prints the reason. */
int run_tracer_write(const struct run_tracer *tracer, const char *file);

#endif
