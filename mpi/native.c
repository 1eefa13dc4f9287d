/* native.c: carries calls out with the MPI. */
#include "door.h"

#define NAME(Name, name) #Name,
const char *const tm_kind_names[TM_KINDS] = {TM_COLLECTIVES(NAME)};

#if TM_OPEN_MPI
#define PERSISTENT(Name) PMPIX_##Name##_init
#else
#define PERSISTENT(Name) PMPI_##Name##_init
#endif

/* clang-format off */
#define RUN(Name, name) \
  case TM_##Name: return PMPI_##Name(TM_ARGUMENTS_##Name(c, int));
#define START(Name, name) \
  case TM_##Name: return PMPI_I##name(TM_ARGUMENTS_##Name(c, int), request);
#define INIT(Name, name) \
  case TM_##Name: return PERSISTENT(Name)(TM_ARGUMENTS_##Name(c, int), info, request);
#define RUN_LARGE(Name, name) \
  case TM_##Name: return PMPI_##Name##_c(TM_ARGUMENTS_##Name(c, MPI_Count));
#define START_LARGE(Name, name) \
  case TM_##Name: return PMPI_I##name##_c(TM_ARGUMENTS_##Name(c, MPI_Count), request);
#define INIT_LARGE(Name, name) \
  case TM_##Name: return PMPI_##Name##_init_c(TM_ARGUMENTS_##Name(c, MPI_Count), info, request);
/* clang-format on */

#if !TM_OPEN_MPI /* Open MPI 4.1 has no MPI_Name_c */
static int run_large(const struct tm_call *c) {
  switch (c->kind) {
    TM_COUNTING(RUN_LARGE)
    default: return MPI_ERR_INTERN;
  }
}
static int start_large(const struct tm_call *c, MPI_Request *request) {
  switch (c->kind) {
    TM_COUNTING(START_LARGE)
    default: return MPI_ERR_INTERN;
  }
}
static int init_large(const struct tm_call *c, MPI_Info info, MPI_Request *request) {
  switch (c->kind) {
    TM_COUNTING(INIT_LARGE)
    default: return MPI_ERR_INTERN;
  }
}
#else
static int run_large(const struct tm_call *c) { return (void)c, MPI_ERR_INTERN; }
static int start_large(const struct tm_call *c, MPI_Request *request) { return (void)c, (void)request, MPI_ERR_INTERN; }
static int init_large(const struct tm_call *c, MPI_Info info, MPI_Request *request) {
  return (void)c, (void)info, (void)request, MPI_ERR_INTERN;
}
#endif

static int run(const struct tm_call *c) {
  if (c->large) return run_large(c);
  switch (c->kind) {
    TM_COLLECTIVES(RUN)
    default: return MPI_ERR_INTERN;
  }
}

int tm_native_run(const struct tm_call *c) {
  tm_native_begin();
  const int code = run(c);
  tm_native_end();
  return code;
}

int tm_native_start(const struct tm_call *c, MPI_Request *request) {
  if (c->large) return start_large(c, request);
  switch (c->kind) {
    TM_COLLECTIVES(START)
    default: return MPI_ERR_INTERN;
  }
}

int tm_native_init(const struct tm_call *c, MPI_Info info, MPI_Request *request) {
  if (c->large) return init_large(c, info, request);
  switch (c->kind) {
    TM_COLLECTIVES(INIT)
    default: return MPI_ERR_INTERN;
  }
}
