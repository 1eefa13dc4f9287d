/* job_tcp_star.h: rank 0's end of the star: those that come (job_tcp_door.c) and those that are in (job_tcp_root.c). One poll
 * loop serves both, so that no rank waits for the slowest. */
#ifndef TU_JOB_TCP_STAR_H
#define TU_JOB_TCP_STAR_H

#include "boot/job_tcp_wire.h"

/* A rank's call follows its connection at once, and its hello our answer, so places among the guests are short-lived; when all
 * are taken and a new one comes, one that was refused is put out, or the oldest. */
enum { TU_STAR_GUESTS = 128, TU_STAR_GUEST_MS = 5000 };

struct tu_star_guest {
  int fd;         /* -1: a free place */
  bool elsewhere; /* its address is none of this host */
  bool refused;   /* has its answer; stays until it hangs up, so that it can see whose socket refused it */
  bool answered;  /* has called, and got our proof */
  uint64_t came_ns;
  size_t got;
  struct tu_boot_call call;
  uint8_t nonce[TU_BOOT_NONCE_BYTES]; /* ours, for this guest alone */
  struct tu_boot_hello hello;
};

struct tu_star_peer {
  struct tu_boot_line line; /* fd -1: has not come */
  struct tu_boot_hello hello;
  bool given; /* its part of the allgather in hand is here */
};

struct pollfd;
struct tu_star {
  struct tu_job job; /* its deadline is that of the rank whose patience ends first */
  struct tu_boot_place place;
  struct tu_boot_secret secret;
  char name[264]; /* address:port */
  struct tu_boot_hello own;
  int listener;               /* -1: all are in */
  struct tu_star_peer *peers; /* one a rank; rank 0's is unused */
  uint32_t joined, given;
  struct tu_star_guest guests[TU_STAR_GUESTS];
  uint32_t places; /* among the guests: as many as descriptors allow */
  struct pollfd *polled;
  unsigned char *all; /* of the allgather in hand; NULL: none */
  size_t bytes;       /* ... of each rank */
  uint64_t files;     /* the limit on descriptors as it was */
  struct tu_error failure;
  uint32_t refusals;
  char refused[160]; /* why the last one was */
};

/* ---- job_tcp_door.c ---- */
/* As many guests at once as descriptors are left for; SYSTEM if these are too few for the ranks. */
tutti_err tu_star_count_places(struct tu_star *star, struct tu_error *error);
tutti_err tu_star_listen(struct tu_star *star, struct tu_error *error);
/* Takes the connections that wait, but not for ever. */
tutti_err tu_star_accept(struct tu_star *star, struct tu_error *error);
/* Something has come from the guest. */
tutti_err tu_star_hear_guest(struct tu_star *star, struct tu_star_guest *guest, struct tu_error *error);
/* Sends those away that have said nothing for too long. */
void tu_star_expire(struct tu_star *star);

#endif
