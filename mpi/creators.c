/* creators.c: functions that create communicators. Each also creates the communicator of tutti, unless there are many.
 * MPI_Comm_idup is not among them, because it may not wait: its communicator gets one in its first blocking collective. */
#include "door.h"

static int note(int code, MPI_Comm parent, const MPI_Comm *comm) {
  tm_native_end();
  if (code == MPI_SUCCESS) tm_comm_made(parent, *comm);
  return code;
}

#define CREATOR_FROM(parent, name, parameters, arguments) \
  TM_EXPORT int MPI_##name parameters {                   \
    tm_native_begin();                                    \
    return note(PMPI_##name arguments, parent, created);  \
  }
#define CREATOR(name, parameters, arguments) CREATOR_FROM(comm, name, parameters, arguments)

CREATOR(Comm_dup, (MPI_Comm comm, MPI_Comm *created), (comm, created))
CREATOR(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *created), (comm, info, created))
CREATOR(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *created), (comm, color, key, created))
CREATOR(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *created),
        (comm, type, key, info, created))
CREATOR(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *created), (comm, group, created))
CREATOR_FROM(MPI_COMM_NULL, Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *created),
             (comm, group, tag, created))
CREATOR(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *created), (comm, high, created))
CREATOR(Cart_create, (MPI_Comm comm, int dims, const int sizes[], const int periods[], int reorder, MPI_Comm *created),
        (comm, dims, sizes, periods, reorder, created))
CREATOR(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *created), (comm, remain, created))
CREATOR(Graph_create, (MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm *created),
        (comm, nodes, index, edges, reorder, created))
CREATOR(Dist_graph_create,
        (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[], const int weights[],
         MPI_Info info, int reorder, MPI_Comm *created),
        (comm, n, sources, degrees, destinations, weights, info, reorder, created))
CREATOR(Dist_graph_create_adjacent,
        (MPI_Comm comm, int indegree, const int sources[], const int sourceweights[], int outdegree,
         const int destinations[], const int destweights[], MPI_Info info, int reorder, MPI_Comm *created),
        (comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info, reorder, created))
