/* socket.c: UNIX sockets in the abstract namespace. */
#include "base/socket.h"

#include <string.h>
#include <unistd.h>

#include "base/base.h"

socklen_t tu_socket_address(struct sockaddr_un *address, const char *name, size_t name_bytes) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  /* The leading zero byte makes the name abstract. */
  const size_t length = strnlen(name, tu_min(name_bytes, sizeof address->sun_path - 1));
  memcpy(address->sun_path + 1, name, length);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

bool tu_socket_is_own(int fd) {
  struct ucred credentials;
  socklen_t bytes = sizeof credentials;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 && credentials.uid == geteuid();
}
