/* look.c: what the ranks of a job do, sent as a frame, or printed for the user. */
#include "cli/run/look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sight/pack.h"
#include "sight/report.h"

bool run_look_put(struct run_sink *sink, const struct tu_job_look *look) {
  char *data = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&data, &bytes);
  if (file) tu_job_look_pack(look, file);
  if (file) fclose(file);
  const bool fits = bytes > 0 && bytes <= RUN_FRAME_BYTES_MAX;
  if (fits) run_frame_put(sink, RUN_STATE, 0, data, bytes);
  free(data);
  return fits;
}

void run_look_say(struct run_console *console, const struct tu_job_look *look) {
  char *text = NULL, *rest = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&text, &bytes);
  if (file) tu_report_print(file, look);
  if (file) fclose(file);
  for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
    run_say(console, "%s", line);
  free(text);
}
