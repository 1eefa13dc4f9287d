! fortran_f08.f90: collectives of programs that use mpi_f08, without ierror (fortran_body.inc).
#define NAME 'fortran_f08'
#define HANDLE(t) type(t)
#define STATUS type(MPI_Status)
#define SIZE_OF_STATUS
#define STATUS_AT(s, i) s(i)
#define FIELD(s, i, field) s(i)%field
#define ERR
#define ERR_ALONE ierr
#define IS_NULL(h, null) (h == null)
module fortran_operations
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
contains

  subroutine add(left, inout, count, type)
    type(c_ptr), value :: left, inout
    integer :: count
    type(MPI_Datatype) :: type
    integer, pointer :: a(:), b(:)
    call c_f_pointer(left, a, (/count/))
    call c_f_pointer(inout, b, (/count/))
    b = a + b
  end subroutine

  subroutine multiply(left, inout, count, type)
    type(c_ptr), value :: left, inout
    integer :: count, i
    type(MPI_Datatype) :: type
    integer, pointer :: a(:, :, :), b(:, :, :)
    call c_f_pointer(left, a, (/2, 2, count/))
    call c_f_pointer(inout, b, (/2, 2, count/))
    do i = 1, count
      b(:, :, i) = matmul(a(:, :, i), b(:, :, i))
    end do
  end subroutine
end module

program fortran_f08
  use mpi_f08
#ifdef OPEN_MPI
  use mpi_f08_ext
#endif
  use fortran_operations
  implicit none
#include "fortran_body.inc"
end program
