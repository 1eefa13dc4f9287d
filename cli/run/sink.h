/* sink.h: data that waits to be written to a descriptor. A slow reader does not block the writer. */
#ifndef CLI_RUN_SINK_H
#define CLI_RUN_SINK_H

#include "base/base.h"

struct run_bytes {
  char *data;
  size_t begin, end, capacity;
};
void run_bytes_append(struct run_bytes *bytes, const void *data, size_t count);
void run_bytes_fini(struct run_bytes *bytes);

/* A descriptor that is written, with the data that could not be written yet. */
struct run_sink {
  int fd;
  bool own;    /* the descriptor is in non-blocking mode; no other process shares it */
  bool broken; /* true: the reader has closed its end; further data is dropped */
  size_t sent; /* bytes that the reader has, but has not taken yet; it says so by frames (pipe.h) */
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

#endif
