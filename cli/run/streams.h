/* streams.h: the ranks' input and output in `tutti run`. Lines are prefixed with the rank and written whole. A slow
 * reader does not block the launcher. */
#ifndef CLI_RUN_STREAMS_H
#define CLI_RUN_STREAMS_H

#include "base/base.h"

struct run_bytes {
  char *data;
  size_t begin, end, capacity;
};

/* Standard output or error of the launcher, with the data that could not be written yet. */
struct run_sink {
  int fd;
  bool broken; /* true: the reader has closed its end; further data is dropped */
  struct run_bytes waiting;
};
void run_sink_put(struct run_sink *sink, const void *data, size_t bytes);
/* Writes as much as is possible without blocking. Call it when poll reports POLLOUT. */
void run_sink_flush(struct run_sink *sink);
/* Drops the waiting data and all further data. */
void run_sink_drop(struct run_sink *sink);
bool run_sink_empty(const struct run_sink *sink);
/* Returns true if too much data waits for the reader. The caller must then read no more data for this sink. */
bool run_sink_full(const struct run_sink *sink);
void run_sink_fini(struct run_sink *sink);

/* One rank's standard output or error: a pipe that the launcher reads. */
struct run_source {
  int fd; /* read end of the pipe; -1: the stream has ended */
  uint32_t rank;
  struct run_sink *sink;
  struct run_bytes line; /* incomplete line, whose newline has not been read yet */
};
/* Reads once from the rank's pipe, and writes the complete lines to the output. At the end of the pipe, writes the last
 * line even if it is incomplete. Returns true if data was read. */
bool run_source_read(struct run_source *source);
/* Writes an incomplete last line and closes the pipe. */
void run_source_close(struct run_source *source);

/* Terminal input that the launcher passes to rank 0. The kernel would stop rank 0 if it read the terminal itself: rank
 * 0 is not in the terminal's foreground process group. */
struct run_feed {
  int fd; /* write end of the pipe to rank 0; -1: none */
  size_t begin, end;
  char data[4096];
};
/* Returns the descriptor that the launcher must poll now (-1: none), and sets *events to the events for poll(). */
int run_feed_wants(const struct run_feed *feed, short *events);
void run_feed_move(struct run_feed *feed);

#endif
