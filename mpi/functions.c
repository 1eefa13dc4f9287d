/* functions.c: the collectives under the names by which programs call them. */
#include "door.h"

#define FIELDS(Name) .kind = TM_##Name, TM_FIELDS_##Name

#if TM_OPEN_MPI
#define PERSISTENT(Name) MPIX_##Name##_init
#else
#define PERSISTENT(Name) MPI_##Name##_init
#endif

#define DEFINE(Name, name)                                                                                     \
  TM_EXPORT int MPI_##Name(TM_PARAMETERS_##Name(int, int)) { return tm_run(&(struct tm_call){FIELDS(Name)}); } \
  TM_EXPORT int MPI_I##name(TM_PARAMETERS_##Name(int, int), MPI_Request *request) {                            \
    return tm_start(&(struct tm_call){FIELDS(Name)}, request);                                                 \
  }                                                                                                            \
  TM_EXPORT int PERSISTENT(Name)(TM_PARAMETERS_##Name(int, int), MPI_Info info, MPI_Request * request) {       \
    return tm_init(&(struct tm_call){FIELDS(Name)}, info, request);                                            \
  }

#define DEFINE_LARGE(Name, name)                                                                                      \
  TM_EXPORT int MPI_##Name##_c(TM_PARAMETERS_##Name(MPI_Count, MPI_Aint)) {                                           \
    return tm_run(&(struct tm_call){.large = true, FIELDS(Name)});                                                    \
  }                                                                                                                   \
  TM_EXPORT int MPI_I##name##_c(TM_PARAMETERS_##Name(MPI_Count, MPI_Aint), MPI_Request *request) {                    \
    return tm_start(&(struct tm_call){.large = true, FIELDS(Name)}, request);                                         \
  }                                                                                                                   \
  TM_EXPORT int MPI_##Name##_init_c(TM_PARAMETERS_##Name(MPI_Count, MPI_Aint), MPI_Info info, MPI_Request *request) { \
    return tm_init(&(struct tm_call){.large = true, FIELDS(Name)}, info, request);                                    \
  }

TM_COLLECTIVES(DEFINE)
#if !TM_OPEN_MPI
TM_COUNTING(DEFINE_LARGE)
#endif
