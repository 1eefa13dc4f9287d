/* meeting.h: where the ranks of a job meet, and the secret by which they know each other. */
#ifndef CLI_RUN_MEETING_H
#define CLI_RUN_MEETING_H

#include "boot/identity.h"

struct run_meeting {
  int fd; /* socket that keeps the port reserved; -1: none */
  uint16_t port;
  char addresses[TU_BOOT_ADDRESS_CHARS]; /* of rank 0, separated by commas */
  char secret[33];
};

/* Reserves a port on this host, for rank 0. alone: all ranks run on this host, so the port is one of the loopback.
 * Otherwise it is a port of all addresses, one of TUTTI_PORTS if that is set. Errors: TUTTI_ERR_SYSTEM,
 * TUTTI_ERR_ENVIRONMENT. */
tutti_err run_meeting_open(struct run_meeting *meeting, bool alone, struct tu_error *error);
void run_meeting_close(struct run_meeting *meeting);
/* Makes the secret: 128 random bits. */
tutti_err run_meeting_secret(struct run_meeting *meeting, struct tu_error *error);

#endif
