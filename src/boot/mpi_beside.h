/* mpi_beside.h: a library of MPI in the same process. It uses the same connection to the launcher as PMI and PMIx do here:
 * after this library has ended it, MPI_Init would fail. So three cases differ. Without a library of MPI: the connection is
 * begun, used, and ended at once. If MPI is initialised: it has begun the connection, and ends it. If MPI may be initialised
 * later: the connection is begun and used, and ended when the process exits. */
#ifndef TU_MPI_BESIDE_H
#define TU_MPI_BESIDE_H

#include <stdbool.h>

/* Returns true if the program has loaded a library of MPI. */
bool tu_mpi_is_loaded(void);
/* Return true if the library of MPI has been initialised, or finalised. Always false without one. */
bool tu_mpi_initialized(void);
bool tu_mpi_finalized(void);

#endif
