/* job_address.h: the addresses at which ranks listen for connections from other hosts. */
#ifndef TU_JOB_ADDRESS_H
#define TU_JOB_ADDRESS_H

#include <sys/socket.h>

#include "boot/job.h"

/* An address and port, as it is sent to other ranks. */
struct tu_job_address {
  uint16_t family; /* 4 or 6: version of IP; 0: none */
  uint16_t port;
  uint32_t reserved;
  uint8_t bytes[16];
};

enum { TU_JOB_ADDRESS_CHARS = 64 };

bool tu_boot_is_loopback(const struct sockaddr_storage *address);
/* Writes the addresses at which other hosts may reach this one, as a list with commas, best first: those of all
 * interfaces that are up, or of TUTTI_INTERFACE; addresses of a link are left out, the loopback comes last. Addresses
 * that do not fit are left out. Errors: TUTTI_ERR_ENVIRONMENT, TUTTI_ERR_SYSTEM. */
tutti_err tu_boot_addresses(char *list, size_t bytes, struct tu_error *error);

/* Reserves a port for rank 0: returns a socket that is bound to it, but does not listen, so that the kernel does not assign
 * the port to another process while the socket is open. loopback: the port is one of 127.0.0.1; otherwise of all
 * addresses. port 0: any. *reserved becomes the port. Returns -1 and sets errno if that fails.
 *
 * Rank 0 also binds the port, and listens. SO_REUSEPORT permits this, but only to processes of the same user.
 * SO_REUSEADDR must stay unset, because it would let any user listen on the port before rank 0. */
int tu_boot_reserve(bool loopback, unsigned port, uint16_t *reserved);

/* Reads TUTTI_PORTS; 0 and 0: it is not set. Errors: TUTTI_ERR_ENVIRONMENT. */
tutti_err tu_boot_ports(unsigned *low, unsigned *high, struct tu_error *error);

/* Finds the address of this rank for connections with other hosts: that of TUTTI_INTERFACE; otherwise that of the job's
 * connection to another rank; otherwise that of the first interface that is up and not the loopback. Errors:
 * TUTTI_ERR_ENVIRONMENT, TUTTI_ERR_SYSTEM. */
tutti_err tu_job_own_address(const struct tu_job *job, struct sockaddr_storage *found, struct tu_error *error);
/* Listens at that address for connections from other hosts. The port is one of TUTTI_PORTS, or any. Errors:
 * TUTTI_ERR_ENVIRONMENT, TUTTI_ERR_SYSTEM. */
tutti_err tu_job_listen(const struct tu_job *job, int *listener, struct tu_job_address *at, struct tu_error *error);
/* Converts to an address for connect(). An IPv6 address of a link gets the scope of `own`, this rank's address (that of
 * the job's connections). Returns its size. */
socklen_t tu_job_address_of(const struct sockaddr_storage *own, const struct tu_job_address *at,
                            struct sockaddr_storage *address);
/* Writes "address:port" or "[address]:port". */
void tu_job_address_print(const struct tu_job_address *at, char text[TU_JOB_ADDRESS_CHARS]);

#endif
