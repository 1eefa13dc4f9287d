/* top.h: what `tutti top` prints of the jobs that src/sight has read. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "sight/report.h"

/* ---- table.c ---- */

void top_print_jobs(FILE *file, const struct tu_job_look *jobs, uint32_t count);
void top_print_ranks(FILE *file, const struct tu_job_look *job);

/* ---- top_json.c ---- */

void top_print_json(const struct tu_job_look *jobs, uint32_t count);

/* ---- stacks.c ---- */

/* Prints the C stacks of the ranks that make the others wait, if gdb is there. gdb stops them while it reads. */
void top_print_stacks(FILE *file, const struct tu_job_look *job);

#endif
