/* mpi_beside.c: asks a library of MPI, if the process has one, for its state. */
#include "boot/mpi_beside.h"

#include <dlfcn.h>
#include <stddef.h>

bool tu_mpi_is_loaded(void) { return dlsym(RTLD_DEFAULT, "MPI_Initialized") != NULL; }

static bool ask(const char *name) {
  union { /* C has no conversion from a pointer to data into one to a function. */
    void *data;
    int (*call)(int *flag);
  } found = {.data = dlsym(RTLD_DEFAULT, name)};
  int flag = 0;
  return found.data && found.call(&flag) == 0 && flag;
}

bool tu_mpi_initialized(void) { return ask("MPI_Initialized"); }
bool tu_mpi_finalized(void) { return ask("MPI_Finalized"); }
