/* left.c: functions that the door leaves to the MPI. Collectives among them are counted. While one that blocks waits, and the
 * MPI does not advance tutti, a thread of the door does (progress.c). */
#include "door.h"

#define COUNTED(name, parameters, arguments)                     \
  TM_EXPORT int MPI_##name parameters {                          \
    if (tm_door.mode >= TM_REPORT) tm_count_other("MPI_" #name); \
    tm_native_begin();                                           \
    const int code = PMPI_##name arguments;                      \
    tm_native_end();                                             \
    return code;                                                 \
  }

COUNTED(Alltoallw,
        (const void *sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
         void *recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm),
        (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm))
COUNTED(Ialltoallw,
        (const void *sendbuf, const int sendcounts[], const int sdispls[], const MPI_Datatype sendtypes[],
         void *recvbuf, const int recvcounts[], const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
         MPI_Request *request),
        (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm, request))
COUNTED(Neighbor_allgather,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
         MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
COUNTED(Neighbor_allgatherv,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
         const int displs[], MPI_Datatype recvtype, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm))
COUNTED(Neighbor_alltoall,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
         MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
COUNTED(Neighbor_alltoallv,
        (const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
         const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm),
        (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm))
COUNTED(Neighbor_alltoallw,
        (const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
         void *recvbuf, const int recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
         MPI_Comm comm),
        (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm))
COUNTED(Ineighbor_allgather,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
         MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request))
COUNTED(Ineighbor_allgatherv,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
         const int displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, request))
COUNTED(Ineighbor_alltoall,
        (const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
         MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request))
COUNTED(Ineighbor_alltoallv,
        (const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
         const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm, request))
COUNTED(Ineighbor_alltoallw,
        (const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
         void *recvbuf, const int recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
         MPI_Request *request),
        (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm, request))

#if !TM_OPEN_MPI /* Open MPI advances tutti */

#define GUARDED(name, parameters, arguments) \
  TM_EXPORT int MPI_##name parameters {      \
    tm_native_begin();                       \
    const int code = PMPI_##name arguments;  \
    tm_native_end();                         \
    return code;                             \
  }

/* A program may poll with these. */
#define POLLED(name, parameters, arguments) \
  TM_EXPORT int MPI_##name parameters {     \
    tm_native_poll();                       \
    return PMPI_##name arguments;           \
  }
POLLED(Win_test, (MPI_Win win, int *flag), (win, flag))
POLLED(Parrived, (MPI_Request request, int partition, int *flag), (request, partition, flag))

GUARDED(Win_create, (void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
        (base, size, disp_unit, info, comm, win))
GUARDED(Win_allocate, (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win),
        (size, disp_unit, info, comm, baseptr, win))
GUARDED(Win_allocate_shared, (MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win),
        (size, disp_unit, info, comm, baseptr, win))
GUARDED(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *win), (info, comm, win))
GUARDED(Win_free, (MPI_Win * win), (win))
GUARDED(Win_fence, (int assert, MPI_Win win), (assert, win))
GUARDED(Win_start, (MPI_Group group, int assert, MPI_Win win), (group, assert, win))
GUARDED(Win_complete, (MPI_Win win), (win))
GUARDED(Win_wait, (MPI_Win win), (win))
GUARDED(Win_lock, (int lock_type, int rank, int assert, MPI_Win win), (lock_type, rank, assert, win))
GUARDED(Win_lock_all, (int assert, MPI_Win win), (assert, win))
GUARDED(Win_unlock, (int rank, MPI_Win win), (rank, win))
GUARDED(Win_unlock_all, (MPI_Win win), (win))
GUARDED(Win_flush, (int rank, MPI_Win win), (rank, win))
GUARDED(Win_flush_all, (MPI_Win win), (win))
GUARDED(Win_flush_local, (int rank, MPI_Win win), (rank, win))
GUARDED(Win_flush_local_all, (MPI_Win win), (win))
GUARDED(File_open, (MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh),
        (comm, filename, amode, info, fh))
GUARDED(File_close, (MPI_File * fh), (fh))
GUARDED(File_set_size, (MPI_File fh, MPI_Offset size), (fh, size))
GUARDED(File_preallocate, (MPI_File fh, MPI_Offset size), (fh, size))
GUARDED(File_set_view,
        (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep, MPI_Info info),
        (fh, disp, etype, filetype, datarep, info))
GUARDED(File_sync, (MPI_File fh), (fh))
GUARDED(File_read_at_all,
        (MPI_File fh, MPI_Offset offset, void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
        (fh, offset, buf, count, datatype, status))
GUARDED(File_write_at_all,
        (MPI_File fh, MPI_Offset offset, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
        (fh, offset, buf, count, datatype, status))
GUARDED(File_read_all, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
        (fh, buf, count, datatype, status))
GUARDED(File_write_all, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
        (fh, buf, count, datatype, status))
GUARDED(File_read_shared, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
        (fh, buf, count, datatype, status))
GUARDED(File_write_shared, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
        (fh, buf, count, datatype, status))
GUARDED(File_read_ordered, (MPI_File fh, void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
        (fh, buf, count, datatype, status))
GUARDED(File_write_ordered, (MPI_File fh, const void *buf, int count, MPI_Datatype datatype, MPI_Status *status),
        (fh, buf, count, datatype, status))
GUARDED(File_read_at_all_end, (MPI_File fh, void *buf, MPI_Status *status), (fh, buf, status))
GUARDED(File_write_at_all_end, (MPI_File fh, const void *buf, MPI_Status *status), (fh, buf, status))
GUARDED(File_read_all_end, (MPI_File fh, void *buf, MPI_Status *status), (fh, buf, status))
GUARDED(File_write_all_end, (MPI_File fh, const void *buf, MPI_Status *status), (fh, buf, status))
GUARDED(File_read_ordered_end, (MPI_File fh, void *buf, MPI_Status *status), (fh, buf, status))
GUARDED(File_write_ordered_end, (MPI_File fh, const void *buf, MPI_Status *status), (fh, buf, status))
GUARDED(Comm_free, (MPI_Comm * comm), (comm))
GUARDED(Comm_disconnect, (MPI_Comm * comm), (comm))
GUARDED(Comm_spawn,
        (const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
         int array_of_errcodes[]),
        (command, argv, maxprocs, info, root, comm, intercomm, array_of_errcodes))
GUARDED(Comm_spawn_multiple,
        (int count, char *array_of_commands[], char **array_of_argv[], const int array_of_maxprocs[],
         const MPI_Info array_of_info[], int root, MPI_Comm comm, MPI_Comm *intercomm, int array_of_errcodes[]),
        (count, array_of_commands, array_of_argv, array_of_maxprocs, array_of_info, root, comm, intercomm,
         array_of_errcodes))
GUARDED(Comm_accept, (const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm),
        (port_name, info, root, comm, newcomm))
GUARDED(Comm_connect, (const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm),
        (port_name, info, root, comm, newcomm))
GUARDED(Comm_join, (int fd, MPI_Comm *intercomm), (fd, intercomm))
GUARDED(Intercomm_create,
        (MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag, MPI_Comm *newintercomm),
        (local_comm, local_leader, peer_comm, remote_leader, tag, newintercomm))
GUARDED(Sendrecv_replace,
        (void *buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,
         MPI_Status *status),
        (buf, count, datatype, dest, sendtag, source, recvtag, comm, status))
GUARDED(Buffer_detach, (void *buffer_addr, int *size), (buffer_addr, size))

#endif
