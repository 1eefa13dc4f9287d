/* agent.h: the part of `tutti run` that runs on each host of a job. */
#ifndef CLI_RUN_AGENT_H
#define CLI_RUN_AGENT_H

/* Starts, monitors and ends ranks as the launcher orders, by frames (pipe.h) on standard input and output. Returns the
 * exit status. Everything that it has started ends with it, also if it is killed. */
int run_agent(void);

#endif
