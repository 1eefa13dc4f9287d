/* socket.h: UNIX sockets in the abstract namespace: a name exists in the kernel only, and vanishes when the socket is
 * closed. Any user may connect, so both ends check who the other is. */
#ifndef TU_SOCKET_H
#define TU_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Fills in the address of the socket with this name, which is shortened to fit, and returns the length of the address.
 * The name ends at name_bytes or at a zero byte. */
socklen_t tu_socket_address(struct sockaddr_un *address, const char *name, size_t name_bytes);
/* Returns true if the process at the other end of a connected socket runs as the user of this process. */
bool tu_socket_is_own(int fd);

#endif
