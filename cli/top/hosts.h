/* hosts.h: asks other hosts what the ranks there do (--hosts). An agent on each, `tutti top --agent` over ssh, looks at the
 * jobs of its host. All agents look at the same time, as often as they are asked. */
#ifndef CLI_TOP_HOSTS_H
#define CLI_TOP_HOSTS_H

#include "cli/run/host.h"
#include "cli/top/jobs.h"

struct top_host {
  struct run_host host; /* `reason` is set once the host is lost */
  bool asked;           /* it has not told everything yet */
};

struct top_hosts {
  struct run_console console;
  char command[8192];
  struct tu_host_list names;
  struct top_host *list; /* [names.count] */
  struct pollfd *polled;
  uint64_t deadline_ns; /* all answers must be there */
};

/* Reads the list of hosts, as `tutti run --hosts` has it; numbers of slots are ignored. Returns an exit status, after it
 * has reported the error. In both cases the caller calls top_hosts_close. */
int top_hosts_open(struct top_hosts *hosts, const char *list);
/* Makes the connections that there are not yet, and asks all agents to look now, twice, with a pause between. */
void top_hosts_ask(struct top_hosts *hosts, uint32_t pause_ms);
/* Waits for the answers, and adds them to the jobs. Error: TUTTI_ERR_MEMORY. */
tutti_err top_hosts_hear(struct top_hosts *hosts, struct top_jobs *jobs, struct tu_error *error);
/* Reports the hosts that have not answered, a line for each. */
void top_hosts_report(struct top_hosts *hosts);
/* Ends the processes that reach the hosts. */
void top_hosts_close(struct top_hosts *hosts);

/* Answers another host's `tutti top`, by frames on standard input and output. Returns the exit status. */
int top_agent(void);

#endif
