/* job_tcp.c: makes this process's part of a job over TCP. On rank 0, job_tcp_root.c does this; on the other ranks,
 * job_tcp_joiner.c. */
#include "boot/job_tcp.h"

#include "boot/job_tcp_wire.h"

tutti_err tu_job_tcp_create(const struct tu_boot_identity *identity, int timeout_ms, struct tu_job **job,
                            struct tu_error *error) {
  tu_assert(identity->ranks > 1 && identity->rank < identity->ranks);
  if (timeout_ms == 0) timeout_ms = TU_BOOT_JOIN_MS;
  *job = NULL;
  return identity->rank == 0 ? tu_job_tcp_create_root(identity, timeout_ms, job, error)
                             : tu_job_tcp_create_joiner(identity, timeout_ms, job, error);
}
