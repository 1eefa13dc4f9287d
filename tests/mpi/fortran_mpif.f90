! fortran_mpif.f90: collectives of programs that include mpif.h (fortran_body.inc).
#define NAME 'fortran_mpif'
#define HANDLE(t) integer
#define STATUS integer
#define SIZE_OF_STATUS MPI_STATUS_SIZE,
#define STATUS_AT(s, i) s(1, i)
#define FIELD(s, i, field) s(field, i)
#define ERR , ierr
#define ERR_ALONE ierr
#define IS_NULL(h, null) (h == null)
program fortran_mpif
  implicit none
  include 'mpif.h'
#ifdef OPEN_MPI
  include 'mpif-ext.h'
#endif
  external :: add, multiply
#include "fortran_body.inc"
end program
#include "fortran_operations.inc"
