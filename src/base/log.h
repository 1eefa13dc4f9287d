/* log.h: the log of the library (TUTTI_LOG): one line for each event, with time, host and rank, written at once. Without
 * TUTTI_LOG nothing is written, and each place costs one load. */
#ifndef TU_LOG_H
#define TU_LOG_H

#include "base/base.h"

enum tu_log_level {
  TU_LOG_OFF,
  TU_LOG_WARN, /* failures, and calls that take long */
  TU_LOG_INFO, /* also the start, wires, and which algorithm was chosen */
  TU_LOG_DEBUG /* also each call that is started */
};

extern enum tu_log_level tu_log_level; /* set by tu_log_begin */

/* Reads TUTTI_LOG, or TUTTI_DEBUG if that is not set, and opens the file. `rank` is this process's rank, for the lines and
 * the file's name. A second call changes the rank. Error: TUTTI_ERR_ENVIRONMENT. */
tutti_err tu_log_begin(uint32_t rank, struct tu_error *error);

/* Writes "TIME HOST rank RANK LEVEL WHAT: TEXT". Call it only if tu_logs(level). Any thread may call it. */
void tu_log(enum tu_log_level level, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));
static inline bool tu_logs(enum tu_log_level level) { return __builtin_expect(tu_log_level >= level, 0); }

#endif
