/* job_carried.h: a job whose launcher carries one short text from rank 0 to all ranks (PMI or PMIx): the addresses and
 * the port of rank 0, and a secret. With these, the ranks meet over TCP, as all others do. */
#ifndef TU_JOB_CARRIED_H
#define TU_JOB_CARRIED_H

#include "boot/job_tcp.h"

/* Collective: fills in address, port and secret of the identity. Rank 0 makes the secret, unless the program or the
 * environment gives one. The first call of a process asks the launcher; later ones return the same, since launchers may
 * be asked only once, and rank 0 keeps the port bound for them. The secret lives as long as the process. Errors: those of
 * tu_pmi_carry and tu_pmix_carry, and of tu_boot_addresses on rank 0, which all ranks return. */
tutti_err tu_job_carry(struct tu_boot_identity *identity, int timeout_ms, struct tu_error *error);

#endif
