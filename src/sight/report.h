/* report.h: the report about a job that hangs, as text. */
#ifndef TU_REPORT_H
#define TU_REPORT_H

#include <stdio.h>

#include "sight/moment.h"

/* Prints who makes the other ranks wait, and where each rank stands. */
void tu_report_print(FILE *file, const struct tu_job_look *job);
/* Prints which job it is, such as "job 4711 (tutti run)". */
void tu_report_name(FILE *file, const struct tu_job_look *job);
/* Prints how many of the job's ranks were read, unless all were, as a part of a sentence that begins with a comma. */
void tu_report_unseen(FILE *file, const struct tu_job_look *job);
/* Writes who makes the others wait, in one line without its end; "" if no rank waits. */
void tu_report_verdict(char *text, size_t bytes, const struct tu_job_look *job);
/* Writes a duration, such as "12.3 s" or "2 h 5 min". */
void tu_print_duration(char *text, size_t bytes, uint64_t ns);
/* Returns true if the ranks of the state run on different hosts. */
bool tu_has_several_hosts(const struct tu_job_state *state);
/* Returns what a rank does, in one word, such as "waits", "stopped" or "runs". */
const char *tu_rank_doing(const struct tu_rank_state *rank);

/* Prints the report about the job of this rank to standard error, as far as its host sees it. Only the first call of the
 * ranks of a host prints it. */
void tu_report_own(struct tu_transport *t);

#endif
