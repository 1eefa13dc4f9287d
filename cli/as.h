/* as.h: the parts of `tutti as --execute`: what the command line says of a program's arguments, and the program's run. */
#ifndef CLI_AS_H
#define CLI_AS_H

#include <tutti/window.h>

#include "base/npy.h"
#include "cli.h"
#include "pto/pto.h"

/* What the command line says. */
struct as_request {
  const char *path;
  bool lower; /* else data goes straight where instructions have no tiles */
  struct tu_pto_lowering how;
  uint32_t root;                /* of collectives that name none */
  struct cli_list arg, at, out; /* NAME=VALUE, NAME=[BUFFER@]RANK, NAME=FILE */
};

/* What stands behind a value. */
struct as_value {
  char *file; /* of an argument: what it begins as; NULL: zeros */
  struct tu_npy npy;
  uint32_t buffer;      /* the argument whose window it is; TU_PTO_NONE: it has none */
  uint32_t rank;        /* whose part of that */
  tutti_window *window; /* of a buffer of its own */
  bool reached;         /* by other ranks, as --at says */
  void *tile;
  tutti_event event;
  bool truth, was_run; /* of a ttest */
};

/* A file to write in the end. */
struct as_out {
  uint32_t value;
  char *path;
};

struct as_run {
  const struct as_request *request;
  tutti_comm *comm;
  uint32_t rank, ranks;
  struct tu_pto_module *module;
  struct as_value *values; /* one for each of the module's */
  struct as_out outs[CLI_LIST_MAX];
  uint32_t out_count;
  tutti_session *session;
};

/* Reads the module, and gives every argument what the command line says of it; checks and lowers it. Local. */
tutti_err as_bind(struct as_run *run, struct tu_error *error);
/* Do the ranks agree about the arguments that they share? Collective. */
tutti_err as_agree(struct as_run *run, struct tu_error *error);
/* Windows for all buffers, with what they begin as. Collective. */
tutti_err as_open(struct as_run *run, struct tu_error *error);
/* Carries out the instructions. */
tutti_err as_perform(struct as_run *run, struct tu_error *error);
/* Collective, unless the communicator has failed. */
void as_close(struct as_run *run);

/* The whole of it; returns the exit status. */
int as_execute(const struct as_request *request);

/* A number in terms of `rank` and `ranks`: "(rank + 1) % ranks". */
tutti_err as_number(const char *text, uint32_t rank, uint32_t ranks, int64_t *number, struct tu_error *error);

/* This rank's part of a buffer, or that of another. */
tutti_err as_part(const struct as_run *run, uint32_t value, uint32_t rank, tutti_tensor *tensor,
                  struct tu_error *error);

#endif
