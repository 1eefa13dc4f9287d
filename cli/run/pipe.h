/* pipe.h: the pair of pipes between `tutti run`, or `tutti top`, and its agent on another host (ssh carries it). Both
 * sides write frames. Each side of `tutti run` writes at least one frame a second; a side that hears nothing for
 * RUN_SILENCE_MS gives the other up. */
#ifndef CLI_RUN_PIPE_H
#define CLI_RUN_PIPE_H

#include "cli/run/sink.h"

enum {
  RUN_PROTOCOL = 3, /* changes whenever frames change */
  RUN_FRAME_BYTES_MAX = 1 << 22,
  RUN_SILENCE_MS = 4000,
  RUN_CHECK_MS = 400,
};

/* `number` is that of the frame's head; "data" is what follows the head. */
enum run_frame_kind {
  RUN_ALIVE = 1, /* both: data: the sender's clock in ns */
  RUN_TAKEN,     /* both: number: bytes of RUN_INPUT, or of RUN_OUT and RUN_ERR, that have been passed on */

  /* from the launcher */
  RUN_ORDER = 16, /* data: struct run_order */
  RUN_PLACES,     /* data: uint32_t for each rank of the host: its number in the job */
  RUN_TEXT,       /* number: enum run_text; data: the text */
  RUN_PREPARE,    /* the description is complete */
  RUN_START,      /* number: port of rank 0; data: addresses of rank 0, separated by commas */
  RUN_SIGNAL,     /* number: signal for the ranks */
  RUN_INPUT,      /* data: standard input of rank 0; none: its end */
  RUN_CLOSE,      /* number: RUN_OUT or RUN_ERR: the launcher cannot write this stream any more */
  RUN_WIND_UP,    /* a rank of the job has failed. number: time in ms that the ranks get to end by themselves, and again
                   * after SIGTERM; answered by RUN_SETTLED */

  RUN_LOOK, /* also from tutti top, to the launcher or an agent of its own: tell what the ranks do: RUN_STATE, then
             * RUN_LOOKED. number: ms between the two moments, if tutti top asks its agent */

  /* from the agent */
  RUN_READY = 32, /* number: port, data: addresses, if rank 0 will run here */
  RUN_REFUSED,    /* the ranks cannot be started. number: exit status; data: message */
  RUN_OUT,        /* number: rank; data: what it wrote to standard output */
  RUN_ERR,        /* the same for standard error */
  RUN_SAID,       /* data: message of the agent */
  RUN_ENDED,      /* number: rank; data: struct run_ended */
  RUN_SETTLED,    /* no rank of this host is about to end; all that have ended have been reported */
  RUN_STATE,      /* also from the launcher to tutti top: data: tu_job_look_pack */
  RUN_LOOKED,     /* also from the launcher: all states have been sent. number: jobs of other builds, if tutti top asked
                   * its agent */
  RUN_TRACE_FILE, /* data: name of a trace, of which parts follow */
  RUN_TRACE_PART, /* number: which MiB of the file; data. Parts that are empty are left out */
  RUN_DONE,       /* no process of the job is left on this host */
};

/* An agent begins with RUN_GREETING and "PROTOCOL VERSION\n"; then frames follow. What a login shell prints before that
 * is no part of it. */
#define RUN_GREETING "\001tutti agent\002"

enum run_text { RUN_DIRECTORY, RUN_SECRET, RUN_PROGRAM, RUN_ARGUMENT, RUN_VARIABLE };

struct run_order {
  uint32_t world, count; /* ranks of the job, and of this host */
  uint32_t timeout_ms;
  bool bind, alone; /* alone: all ranks of the job run on this host */
  bool traced;      /* the ranks record what they do */
};

struct run_ended {
  uint64_t clock_ns; /* when the agent saw it, by the agent's clock */
  int32_t pid, status;
  bool counts; /* false: the agent ended the rank after another one had failed */
};

struct run_frame {
  uint32_t kind, number, bytes;
  const char *data; /* valid until the pipe is read again */
};

struct run_pipe {
  int in; /* -1: the pipe has ended */
  struct run_sink out;
  struct run_bytes received;
  uint64_t heard_ns, wrote_ns;
  uint64_t checked_ns, silent_ns; /* when run_pipe_silent was called; how long nothing has been heard */
};

/* Uses two descriptors, which are put into non-blocking mode and belong to the pipe from now on. */
void run_pipe_open(struct run_pipe *pipe, int in, int out);
/* For an agent: uses standard input and output, and greets. No child process inherits the descriptors; what else is printed
 * goes to standard error. Returns false and sets errno if it fails. */
bool run_pipe_open_agent(struct run_pipe *pipe);
void run_pipe_close(struct run_pipe *pipe);
/* Puts a frame of at most RUN_FRAME_BYTES_MAX bytes into a pipe's sink. */
void run_frame_put(struct run_sink *sink, enum run_frame_kind kind, uint32_t number, const void *data, size_t bytes);
/* Reads what has arrived. Returns false at the end of the pipe. */
bool run_pipe_read(struct run_pipe *pipe);
/* Takes the next complete frame from what was read. Returns false if there is none. A frame that is too long is returned
 * without data. */
bool run_pipe_next(struct run_pipe *pipe, struct run_frame *frame);
/* Writes RUN_ALIVE if a second has passed since the last one. */
void run_pipe_tick(struct run_pipe *pipe);
/* Returns true if nothing has been heard for RUN_SILENCE_MS. Call it often, after run_pipe_read: time in which this process
 * did not run counts as RUN_CHECK_MS at most, because the other side may not have run either. */
bool run_pipe_silent(struct run_pipe *pipe);

#endif
