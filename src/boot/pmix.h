/* pmix.h: PMIx, by which Open MPI's mpirun, prterun, and Slurm's srun with --mpi=pmix carry a text from rank 0 to all
 * ranks. The library libpmix.so.2 is loaded when it is needed. */
#ifndef TU_PMIX_H
#define TU_PMIX_H

#include "boot/identity.h"

/* Asks the launcher for the number of ranks of the job. PMIx stays begun until tu_pmix_carry, or until the process ends.
 * Errors as of tu_pmix_carry. */
tutti_err tu_pmix_ranks(uint32_t *ranks, struct tu_error *error);
/* Collective: does what tu_pmi_carry does. Errors: TUTTI_ERR_ENVIRONMENT (libpmix is missing or too old, no launcher
 * answers, or it contradicts the variables), TUTTI_ERR_PEER (a call of PMIx failed), TUTTI_ERR_TIMEOUT. */
tutti_err tu_pmix_carry(const struct tu_boot_identity *identity, char *text, size_t bytes, int timeout_ms,
                        struct tu_error *error);

#endif
