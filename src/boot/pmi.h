/* pmi.h: PMI-1, by which MPICH's mpirun, and Slurm's srun with --mpi=pmi2, carry a text from rank 0 to all ranks. The
 * library speaks the protocol itself: lines of text over the descriptor PMI_FD. */
#ifndef TU_PMI_H
#define TU_PMI_H

#include "boot/identity.h"

/* Collective: copies the text of rank 0 to all ranks. `text` is input on rank 0, and output on the others; `bytes` is the
 * size of its memory. Can be called once in a process: then the launcher considers PMI as finished. If a library of MPI
 * is loaded, MPI may still be initialised: this function leaves the end of PMI to it. Errors: TUTTI_ERR_ENVIRONMENT
 * (PMI_FD is unusable, or contradicts the launcher), TUTTI_ERR_PEER (the launcher has ended, or what it sends is not
 * PMI), TUTTI_ERR_TIMEOUT. */
tutti_err tu_pmi_carry(const struct tu_boot_identity *identity, char *text, size_t bytes, int timeout_ms,
                       struct tu_error *error);

#endif
