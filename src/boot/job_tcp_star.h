/* job_tcp_star.h: rank 0's end of the star of TCP connections: guests (connections that are not admitted yet,
 * job_tcp_door.c) and peers (ranks that have joined, job_tcp_root.c). One poll loop serves guests and peers, so that no
 * rank waits for the slowest. */
#ifndef TU_JOB_TCP_STAR_H
#define TU_JOB_TCP_STAR_H

#include "boot/job_tcp_wire.h"

/* Maximum number of guests (connections that are not admitted yet), and maximum time in ms that a guest may stay. A
 * rank is a guest only for a short time, because it sends its first two messages (call and hello) without delay. If all
 * entries are in use, a new guest replaces the oldest refused guest; if none is refused, the oldest guest. */
enum { TU_STAR_GUESTS = 128, TU_STAR_GUEST_MS = 5000 };

/* A guest: a connection to rank 0 that has not been admitted as a rank. */
struct tu_star_guest {
  int fd;         /* socket of the guest; -1: this entry is free */
  bool elsewhere; /* true: the connection comes from an address that is not one of this host */
  /* true: rank 0 has sent a refusal. The connection stays open, so that the guest can ask its kernel which user refused
   * it. */
  bool refused;
  bool answered;    /* true: the guest has sent its call (the first message of a join), and rank 0 has answered */
  uint64_t came_ns; /* tu_clock_ns() when the connection was accepted */
  size_t got;       /* number of bytes received of the message that the guest is sending */
  struct tu_boot_call call;
  struct tu_boot_answer answer;
  struct tu_boot_hello hello;
};

/* One of the other ranks, as rank 0 sees it. */
struct tu_star_peer {
  struct tu_boot_line line; /* connection; fd is -1 until the rank has joined */
  struct tu_boot_hello hello;
  bool given; /* true: the rank's data for the current allgather has arrived */
};

struct pollfd;
struct tu_star {
  struct tu_job job; /* base struct; job.deadline_ns is the earliest deadline of the ranks that have joined */
  struct tu_boot_identity identity;
  struct tu_boot_secret secret;
  char name[264];             /* address of rank 0, as "address:port" */
  struct tu_boot_hello own;   /* rank 0's description of itself */
  int listener;               /* listening socket; -1: closed, because all ranks have joined */
  struct tu_star_peer *peers; /* [ranks], owned; the entry of rank 0 is unused */
  /* Number of peers that have joined, and number of peers that have sent data for the current allgather. */
  uint32_t joined, given;
  struct tu_star_guest guests[TU_STAR_GUESTS];
  /* number of entries of `guests` that may be used; smaller than TU_STAR_GUESTS if few file descriptors are
   * available */
  uint32_t guests_max;
  struct pollfd *polled;   /* descriptors for poll(): the listener, the guests, the peers; owned */
  unsigned char *all;      /* result buffer of the current allgather; NULL: none is in progress */
  size_t bytes;            /* bytes of each rank in the current allgather */
  uint64_t files;          /* old limit on file descriptors, restored by tu_files_restore when the job is closed */
  struct tu_error failure; /* first failure of the job; its code is TUTTI_OK if there is none */
  uint32_t refusals;       /* number of guests (connections that are not admitted yet) that were refused */
  char refused[256];       /* reason of the last refusal */
};

/* ---- job_tcp_door.c ---- */
/* Sets star->guests_max to the number of guests for which file descriptors remain. Error: TUTTI_ERR_SYSTEM if the
 * descriptors do not suffice for the ranks. */
tutti_err tu_star_limit_guests(struct tu_star *star, struct tu_error *error);
/* Opens rank 0's listening socket at the address of star->identity. */
tutti_err tu_star_listen(struct tu_star *star, struct tu_error *error);
/* Accepts the waiting connections as guests (not yet admitted), at most a fixed number per call. */
tutti_err tu_star_accept(struct tu_star *star, struct tu_error *error);
/* Reads what a guest (a connection that is not admitted yet) has sent, and answers, admits or dismisses the guest. */
tutti_err tu_star_hear_guest(struct tu_star *star, struct tu_star_guest *guest, struct tu_error *error);
/* Closes the connections of guests (connections that are not admitted yet) older than TU_STAR_GUEST_MS. */
void tu_star_expire(struct tu_star *star);

#endif
