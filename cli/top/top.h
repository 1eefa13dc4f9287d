/* top.h: what `tutti top` prints of the jobs that src/sight has read. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli/top/hosts.h"
#include "sight/report.h"

/* ---- table.c ---- */

void top_print_jobs(FILE *file, const struct top_jobs *jobs);
void top_print_ranks(FILE *file, const struct tu_job_look *job);

/* ---- top_json.c ---- */

/* `hosts`: those that were asked; NULL: none. */
void top_print_json(const struct top_jobs *jobs, const struct top_hosts *hosts);

/* ---- stacks.c ---- */

/* Prints the C stacks of the ranks that make the others wait, if gdb is there. gdb stops them while it reads. */
void top_print_stacks(FILE *file, const struct tu_job_look *job);

#endif
