/* streams.h: the ranks' input and output in `tutti run`. Lines are prefixed with the rank and written whole. A slow
 * reader does not block the launcher. */
#ifndef CLI_RUN_STREAMS_H
#define CLI_RUN_STREAMS_H

#include "cli/run/pipe.h"

/* What a rank writes to standard output or error, on its way to that of the launcher. */
struct run_lines {
  uint32_t rank;
  bool prefix; /* whole lines, with the rank before each */
  struct run_sink *sink;
  struct run_bytes line; /* incomplete line, whose newline has not been read yet */
};
void run_lines_put(struct run_lines *lines, const char *data, size_t bytes);
/* Writes the last line even if it is incomplete. */
void run_lines_end(struct run_lines *lines);

/* One rank's standard output or error: a pipe that is read. */
struct run_source {
  int fd;                    /* read end of the pipe; -1: the stream has ended */
  enum run_frame_kind frame; /* kind of the frames that carry the data; 0: the data is written as lines */
  struct run_lines lines;
};
/* Reads once from the rank's pipe, and passes the data on. Closes the pipe at its end. Returns true if data was read. */
bool run_source_read(struct run_source *source);
/* Writes an incomplete last line and closes the pipe. */
void run_source_close(struct run_source *source);

/* Standard input of rank 0, if it is a terminal or comes from another host. The kernel would stop rank 0 if it read the
 * terminal itself: rank 0 is not in the terminal's foreground process group. */
struct run_feed {
  int fd;        /* write end of the pipe to rank 0; -1: none, or not yet */
  bool closed;   /* rank 0 reads no more */
  bool terminal; /* the launcher reads its terminal */
  bool ended;    /* no more data will be put */
  size_t taken;  /* bytes that rank 0's pipe has taken, or that were dropped because it is closed */
  struct run_bytes waiting;
};
/* Adds input for rank 0; no bytes: its end. */
void run_feed_put(struct run_feed *feed, const void *data, size_t bytes);
/* Returns the descriptor that must be polled now (-1: none), and sets *events to the events for poll(). */
int run_feed_wants(struct run_feed *feed, short *events);
void run_feed_move(struct run_feed *feed);
void run_feed_close(struct run_feed *feed);
/* Returns true if this process may read its terminal. In any other than the terminal's foreground process group, reading
 * would stop it. */
bool run_reads_terminal(void);

#endif
