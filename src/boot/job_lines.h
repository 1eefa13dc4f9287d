/* job_lines.h: lines: TCP connections with ranks of other hosts while they are made. job_dialer.c has them all. */
#ifndef TU_JOB_LINES_H
#define TU_JOB_LINES_H

#include "boot/dialer.h"
#include "boot/job_address.h"
#include "boot/job_tcp_wire.h"

/* Bytes that go both ways over each control connection of the start. On a path that drops large packets, the start then
 * fails, and not a later call. */
#define TU_PROBE_BYTES ((size_t)64 << 10)

enum tu_job_step {
  TU_LINE_RESTING,    /* this rank will call again */
  TU_LINE_CONNECTING, /* connect() is in progress */
  TU_LINE_CALLED,     /* this rank has sent its call, and waits for the answer */
  TU_LINE_PROVED,     /* this rank has sent its hello, and waits for the welcome */
  TU_LINE_GUEST,      /* accepted; its call has not arrived yet */
  TU_LINE_ANSWERED,   /* this rank has answered the call, and waits for the hello */
  TU_LINE_PROBING,    /* both ends have proved themselves, and send TU_PROBE_BYTES */
  TU_LINE_MADE, /* the connection has been made, but not reported yet; without a socket: the peer has refused it */
};

struct tu_job_line {
  struct tu_job_line *next;
  enum tu_job_step step;
  bool calls; /* true: this rank is the caller */
  bool control;
  int fd;
  uint32_t peer;  /* rank at the other end; not known in step TU_LINE_GUEST */
  uint64_t at_ns; /* of a guest: when it was accepted; TU_LINE_RESTING: when to call again */
  size_t got;     /* bytes received of the current message */
  size_t sent;    /* bytes sent of the probe */
  struct tu_boot_call call;
  struct tu_boot_answer answer;
  struct tu_boot_hello hello;
};

struct tu_job_peer {
  struct tu_job_address at;
  char hostname[64];
  bool settled[2]; /* [control] true: the connection was made once, or refused for good */
  bool awaited;    /* true: a counterpart, with which this rank has a control connection from the start */
};

struct tu_tcp_dialer {
  struct tu_dialer dialer; /* base struct; must be the first field */
  uint32_t rank, ranks;
  uint32_t *host;
  struct tu_job_peer *peers; /* [ranks] */
  struct sockaddr_storage own;
  struct tu_boot_secret key;
  int listener;
  struct tu_job_line *lines;
  /* numbers of lines: accepted and not proved; in step TU_LINE_RESTING; in step TU_LINE_MADE */
  uint32_t guests, resting, made;
  bool starts;           /* true: the job starts; a rank that cannot be reached is an error */
  uint32_t missing;      /* number of control connections of the start that are not made yet */
  struct tu_error error; /* first error of the start */
};

/* Begins to call that rank. If out of memory, does nothing: the rank is called when the connection is wanted again. */
void tu_lines_begin(struct tu_tcp_dialer *d, uint32_t peer, bool control);
/* Calls the peer of a line that has no socket. */
void tu_lines_call(struct tu_tcp_dialer *d, struct tu_job_line *line);
/* Accepts a connection. If all places of guests are taken, it takes that of the guest that came first. */
void tu_lines_accept(struct tu_tcp_dialer *d);
/* Goes on with a line whose socket is ready. Other lines may end, too. */
void tu_lines_go_on(struct tu_tcp_dialer *d, struct tu_job_line *line);
void tu_lines_drop(struct tu_tcp_dialer *d, struct tu_job_line *line);
/* Returns the line by which this rank calls the peer; NULL: there is none. */
struct tu_job_line *tu_lines_find_call(const struct tu_tcp_dialer *d, uint32_t peer, bool control);
tutti_err tu_lines_fail_to_reach(const struct tu_tcp_dialer *d, uint32_t peer, const char *why, struct tu_error *error);

#endif
