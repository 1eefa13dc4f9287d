/* look.h: what the ranks of a job do, sent as a frame, or printed for the user. */
#ifndef CLI_RUN_LOOK_H
#define CLI_RUN_LOOK_H

#include "cli/run/console.h"
#include "sight/moment.h"

/* Sends it as a frame RUN_STATE. Returns false if it is longer than a frame may be; then nothing is sent. */
bool run_look_put(struct run_sink *sink, const struct tu_job_look *look);
/* Prints the report about it, line by line. */
void run_look_say(struct run_console *console, const struct tu_job_look *look);

#endif
