/* run_streams.h: what `tutti run` does with the ranks' output and input: lines get their rank in front and come out
 * whole, and nobody who reads slowly can keep the launcher from its other work. */
#ifndef CLI_RUN_STREAMS_H
#define CLI_RUN_STREAMS_H

#include "base/base.h"

struct run_bytes {
  char *data;
  size_t begin, end, capacity;
};

/* One of the launcher's own streams. What cannot be written yet waits here. */
struct run_sink {
  int fd;
  bool broken; /* its reader is gone: what comes is dropped */
  struct run_bytes waiting;
};
void run_sink_put(struct run_sink *sink, const void *data, size_t bytes);
/* Writes what the reader surely takes without blocking; call when poll says POLLOUT. */
void run_sink_flush(struct run_sink *sink);
bool run_sink_empty(const struct run_sink *sink);
/* Has the reader fallen behind? Then nothing more should be read for this sink. */
bool run_sink_full(const struct run_sink *sink);
void run_sink_fini(struct run_sink *sink);

/* One rank's standard output or error: a pipe that we read. */
struct run_source {
  int fd; /* -1: ended */
  uint32_t rank;
  struct run_sink *sink;
  struct run_bytes line; /* begun, not ended yet */
};
/* Reads what is there, once; at the end the last line comes out even if it was not ended. True if something was read. */
bool run_source_read(struct run_source *source);
void run_source_close(struct run_source *source); /* puts out what is left of the line */

/* The terminal's lines on their way to rank 0. Rank 0 is not of the terminal's foreground group, so that it would be
 * stopped if it read the terminal itself. */
struct run_feed {
  int fd; /* the pipe's writing end; -1: nothing to do */
  size_t begin, end;
  char data[4096];
};
/* Which descriptor to poll for which event now; -1 if none. */
int run_feed_wants(const struct run_feed *feed, short *events);
void run_feed_move(struct run_feed *feed);

#endif
