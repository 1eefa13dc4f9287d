! fortran_mpi.f90: collectives of programs that use mpi (fortran_body.inc).
#define NAME 'fortran_mpi'
#define HANDLE(t) integer
#define STATUS integer
#define SIZE_OF_STATUS MPI_STATUS_SIZE,
#define STATUS_AT(s, i) s(:, i)
#define FIELD(s, i, field) s(field, i)
#define ERR , ierr
#define ERR_ALONE ierr
#define IS_NULL(h, null) (h == null)
program fortran_mpi
  use mpi
#ifdef OPEN_MPI
  use mpi_ext
#endif
  implicit none
  external :: add, multiply
#include "fortran_body.inc"
end program
#include "fortran_operations.inc"
