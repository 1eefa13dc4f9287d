/* as.h: the parts of `tutti as --execute`: binding the arguments of a program to the options, and executing the
 * program. */
#ifndef CLI_AS_H
#define CLI_AS_H

#include <tutti/window.h>

#include "base/npy.h"
#include "cli/cli.h"
#include "pto/pto.h"

/* The options of `tutti as` that `tutti as --execute` needs. */
struct as_request {
  const char *path;
  /* true: the program is lowered, so its copies go through tiles (small buffers); false: instructions without tiles
   * copy directly from source to destination */
  bool lower;
  struct tu_pto_lowering how;
  uint32_t root;                /* root of collectives without a root attribute */
  struct cli_list arg, at, out; /* values of --arg (NAME=VALUE), --at (NAME=[BUFFER@]RANK), --out (NAME=FILE) */
};

/* Run-time state of one value (argument, constant or result) of the PTO program. */
struct as_value {
  char *file; /* bytes of the .npy file with the argument's initial content; NULL: zeros initially */
  struct tu_npy npy;
  uint32_t buffer; /* index of the argument whose window contains the value; TU_PTO_NONE: the value is in no window */
  uint32_t rank;   /* rank whose part of the window is used */
  tutti_window *window; /* window (shared memory) of the value, if the value is a buffer itself */
  bool reached;         /* true: other ranks access the buffer (--at) */
  void *tile;
  tutti_event event;
  bool truth, was_run; /* truth: result of a ttest instruction; was_run: that instruction was executed */
};

/* A file to write after the program has ended (--out). */
struct as_out {
  uint32_t value;
  char *path;
};

struct as_run {
  const struct as_request *request;
  tutti_comm *comm;
  uint32_t rank, ranks;
  struct tu_pto_module *module;
  struct as_value *values; /* [module->value_count]: run-time state of each value of the program */
  struct as_out outs[CLI_LIST_MAX];
  uint32_t out_count;
  tutti_session *session;
};

/* Reads the PTO program, binds its arguments to the command line's options, checks it, and adds the tiles (small
 * buffers) that its copies go through. Local: no communication. */
tutti_err as_bind(struct as_run *run, struct tu_error *error);
/* Compares the program's arguments between all ranks. Returns TUTTI_ERR_MISMATCH if the ranks have different arguments,
 * or different types for an argument that other ranks access. Collective. */
tutti_err as_agree(struct as_run *run, struct tu_error *error);
/* Creates the windows of all buffers and stores their initial content in them. Collective. */
tutti_err as_open(struct as_run *run, struct tu_error *error);
/* Executes the instructions of the program in order. */
tutti_err as_perform(struct as_run *run, struct tu_error *error);
/* Frees what `run` holds except the communicator. Collective, unless the communicator has failed. */
void as_close(struct as_run *run);

/* Runs `tutti as --execute` on this rank; returns the exit status. */
int as_execute(const struct as_request *request);

/* Evaluates an expression that may contain `rank` and `ranks`, for example "(rank + 1) % ranks". */
tutti_err as_number(const char *text, uint32_t rank, uint32_t ranks, int64_t *number, struct tu_error *error);

/* Sets *tensor to the part of the buffer `value` (an index of a value of the program) that lies in the memory of
 * `rank`. */
tutti_err as_part(const struct as_run *run, uint32_t value, uint32_t rank, tutti_tensor *tensor,
                  struct tu_error *error);

#endif
