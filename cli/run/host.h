/* host.h: a host of a job, as the launcher sees it: the process that reaches it (ssh), and the agent there. */
#ifndef CLI_RUN_HOST_H
#define CLI_RUN_HOST_H

#include "boot/host_list.h"
#include "cli/run/console.h"

enum {
  RUN_BANNER_BYTES_MAX = 1 << 16, /* a login shell may print that much before the agent answers */
  RUN_CALLS_MAX = 8,  /* hosts that are called at the same time: a gateway admits only some logins at a time (sshd's
                      * MaxStartups is 10) */
  RUN_HOST_FILES = 3, /* descriptors for each host */
};

enum run_host_state {
  RUN_IDLE,     /* not called yet */
  RUN_CALLED,   /* ssh runs; the agent has not answered yet */
  RUN_ANSWERED, /* the agent has answered, and has the description of the job */
  RUN_PREPARED, /* the agent is ready to start the ranks */
  RUN_STARTED,  /* the agent starts the ranks */
  RUN_OVER,     /* no process of the job is left there, or the host is lost */
};

struct run_host {
  const char *name;      /* [USER@]HOST */
  const uint32_t *ranks; /* numbers of its ranks, ascending */
  uint32_t count, alive; /* ranks; those that have not ended */
  enum run_host_state state;
  bool settled; /* its agent has reported all ends of ranks that may have been the first */
  struct run_pipe pipe;
  int trace_fd;     /* file of a trace that its agent sends; -1: none */
  size_t owed;      /* bytes of output that are not acknowledged yet */
  int64_t clock_ns; /* this process's clock minus the agent's, at most */
  bool clock_known;
  uint64_t ended_ns; /* when the pipe ended; 0: it has not */
  char reason[768];  /* why the host is lost */

  uint32_t answer_ms;    /* time in ms for the connection, the login and the start of the agent */
  char rsh[64];          /* program of the process that reaches the host, such as "ssh" */
  pid_t pid;             /* of that process; 0: it does not run */
  int status;            /* its wait status, once it has ended */
  int err_fd;            /* its standard error; -1: ended */
  struct run_bytes said; /* lines of its standard error that are not printed yet */
  bool mute;             /* drop the rest */
  bool asked;            /* the process has got SIGTERM */
  uint64_t deadline_ns;  /* RUN_CALLED: the agent must have answered; RUN_OVER: the process is killed */
};

/* The command that starts an agent, for any login shell: this program with the arguments VERB --agent. Errors:
 * TUTTI_ERR_SYSTEM. */
tutti_err run_agent_command(const char *verb, char *command, size_t bytes, struct tu_error *error);
/* Makes sure that so many hosts can be called. Errors: TUTTI_ERR_SYSTEM. */
tutti_err run_hosts_allow(uint32_t hosts, struct tu_error *error);

/* Starts the process that reaches the host. Errors: TUTTI_ERR_SYSTEM. */
tutti_err run_host_call(struct run_host *host, char *command, const struct run_console *console,
                        struct tu_error *error);
/* Looks for the agent's answer. Returns false if the answer is that of another version; host->reason says so. */
bool run_host_answer(struct run_host *host);
/* Returns true if the host has been called, and will not answer; host->reason says why, with what was printed there. */
bool run_host_refuses(struct run_host *host, struct run_console *console);
/* Handles the end of the process. */
void run_host_reap(struct run_host *host);
/* Reads standard error of the process and prints its lines. Those before the agent's answer are kept. */
void run_host_listen(struct run_host *host, struct run_console *console);
/* Returns true if the connection has ended, and the exit status of the process is known, or does not come. */
bool run_host_has_ended(struct run_host *host);
/* Writes how the process has ended, such as " (ssh ended with status 1)"; "" if that is not known. */
const char *run_host_how_ended(const struct run_host *host, char how[64]);
/* Sets host->reason: the frame is none that its agent may send. */
void run_host_distrust(struct run_host *host, const struct run_frame *frame);
/* Closes the connection. The agent then ends its ranks. The process has `ms` to end. */
void run_host_hang_up(struct run_host *host, uint32_t ms);
/* Ends the process that reaches a host that is over, once its time has passed. */
void run_host_end(struct run_host *host);
/* Returns true if nothing of the connection is left. */
bool run_host_gone(const struct run_host *host);
void run_host_fini(struct run_host *host);

#endif
