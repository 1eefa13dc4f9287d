/* cases.c: programs of MPI that mpi_test.sh runs with the door and without, one for each name. A case that finds something
 * wrong says what, and ends the job. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

#define NEED(condition)                                                                  \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      fprintf(stderr, "rank %d: line %d: %s is not true\n", rank, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                      \
    }                                                                                    \
  } while (0)

static int sum_to(int n) { return n * (n - 1) / 2; }

/* Three collectives in every form; mpi_test.sh knows how often each is called. */
static void counts(void) {
  int sum = 0, all[64];
  MPI_Request request;
  for (int i = 0; i < 3; i++) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  NEED(sum == sum_to(ranks));
  for (int i = 0; i < 2; i++) {
    MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  NEED(all[ranks - 1] == ranks - 1);
  MPI_Barrier(MPI_COMM_SELF);
}

/* Collectives that the door leaves to the MPI. */
static void left(void) {
  int in[64] = {0}, out[64], ones[64], places[64], sum = 0;
  MPI_Datatype types[64];
  MPI_Comm copy, ring;
  MPI_Request request;
  for (int i = 0; i < ranks; i++) ones[i] = 1, places[i] = i * (int)sizeof(int), types[i] = MPI_INT;
  MPI_Alltoallw(in, ones, places, types, out, ones, places, types, MPI_COMM_WORLD);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &(int){1}, 0, &ring);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, out, 1, MPI_INT, ring);
  NEED(out[0] == (rank + ranks - 1) % ranks && out[1] == (rank + 1) % ranks);
  MPI_Comm_free(&ring);
  /* A communicator of MPI_Comm_idup is known after its first blocking collective. */
  MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < 2; i++) {
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    NEED(sum == sum_to(ranks));
    MPI_Bcast(&sum, 1, MPI_INT, 0, copy);
  }
  MPI_Comm_free(&copy);
}

static int class_of(int code) {
  int class;
  MPI_Error_class(code, &class);
  return class;
}

/* A broadcast of one rank moves nothing, but has errors. */
static void alone(void) {
  int data[4] = {1, 2, 3, 4};
  MPI_Comm self;
  MPI_Datatype columns;
  MPI_Comm_dup(MPI_COMM_SELF, &self);
  MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
  MPI_Type_vector(2, 1, 2, MPI_INT, &columns);
  MPI_Type_commit(&columns);
  NEED(MPI_Bcast(data, 1, columns, 0, self) == MPI_SUCCESS && data[0] == 1 && data[2] == 3);
  NEED(MPI_Bcast(data, 0, MPI_INT, 0, self) == MPI_SUCCESS);
  NEED(class_of(MPI_Bcast(data, -1, columns, 0, self)) == MPI_ERR_COUNT);
  NEED(class_of(MPI_Bcast(data, 1, MPI_DATATYPE_NULL, 0, self)) == MPI_ERR_TYPE);
  NEED(class_of(MPI_Bcast(data, 1, columns, 1, self)) == MPI_ERR_ROOT);
  MPI_Type_free(&columns);
  MPI_Comm_free(&self);
}

/* Errors are returned with their class, and the job goes on. */
static void errors(void) {
  int data[10] = {0}, sum;
  MPI_Comm copy;
  alone();
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  const int class = class_of(MPI_Bcast(data, rank ? 5 : 10, MPI_INT, 0, copy));
  NEED(class == (rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS) || class == MPI_ERR_TRUNCATE);
  MPI_Comm_free(&copy);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  NEED(sum == sum_to(ranks));
}

/* An operation that is not the same in two executions. */
static void add_more(void *in, void *inout, int *count, MPI_Datatype *type) {
  static int calls;
  (void)type;
  for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i] + ++calls;
}
static void wrong(void) {
  int sum = 0;
  MPI_Op op;
  MPI_Op_create(add_more, 1, &op);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
  MPI_Op_free(&op);
}

/* Memory of MPI_Alloc_mem, and of more than there is room for in shared memory. */
static void memory(void) {
  const int count = 1 << 20;
  int *in, *out;
  char *large;
  MPI_Alloc_mem((MPI_Aint)sizeof *in * count, MPI_INFO_NULL, &in);
  MPI_Alloc_mem((MPI_Aint)sizeof *out * count, MPI_INFO_NULL, &out);
  for (int i = 0; i < count; i++) in[i] = rank + i;
  MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; i++) NEED(out[i] == sum_to(ranks) + ranks * i);
  MPI_Free_mem(in);
  MPI_Free_mem(out);
  for (int i = 0; i < 12; i++) {
    MPI_Alloc_mem((MPI_Aint)64 << 20, MPI_INFO_NULL, &large);
    large[0] = large[(64 << 20) - 1] = 1;
    if (i % 2) MPI_Free_mem(large);
  }
}

/* Two thousand communicators at once, of several origins. */
static void many(void) {
  enum { COMMS = 2000 };
  static MPI_Comm comms[COMMS];
  for (int i = 0; i < COMMS; i++) {
    if (i % 3 == 0) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    else MPI_Comm_split(i % 3 == 1 || i < 10 ? MPI_COMM_WORLD : comms[i - 2], 0, -rank, &comms[i]);
  }
  for (int i = 0; i < COMMS; i++) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comms[i]);
    NEED(sum == sum_to(ranks));
  }
  for (int i = COMMS; i-- > 0;) MPI_Comm_free(&comms[i]);
}

/* Communicators that are taken when they are made, and others that are taken in their third blocking collective, if
 * TUTTI_MPI_MANY is 2,3. */
static void few(void) {
  enum { COMMS = 5, CALLS = 4 };
  MPI_Comm comms[COMMS];
  MPI_Group group;
  MPI_Request request;
  int sum[2];
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
  MPI_Comm_split(comms[0], 0, -rank, &comms[1]);                         /* the second in its line */
  MPI_Comm_split(comms[1], rank == 0 ? MPI_UNDEFINED : 1, 0, &comms[2]); /* the third; rank 0 is not in it */
  MPI_Comm_dup(comms[1], &comms[3]);                                     /* the fourth */
  MPI_Comm_group(comms[0], &group);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &comms[4]);
  MPI_Group_free(&group);
  for (int i = 0; i < COMMS; i++) {
    if (comms[i] == MPI_COMM_NULL) continue;
    for (int k = 0; k < CALLS; k++) {
      MPI_Iallreduce(&rank, &sum[0], 1, MPI_INT, MPI_SUM, comms[i], &request);
      MPI_Allreduce(&rank, &sum[1], 1, MPI_INT, MPI_SUM, comms[i]);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      NEED(sum[0] == sum_to(ranks) && sum[1] == sum_to(ranks));
    }
    MPI_Comm_free(&comms[i]);
  }
}

/* Each rank waits in one library for what a peer does after it has waited in the other one. */
static void progress(void) {
  enum { COUNT = 1 << 18, ROUNDS = 8 };
  static int in[COUNT], out[COUNT], message[COUNT], received[COUNT];
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  MPI_Request collective, send;
  MPI_Comm copy;
  for (int i = 0; i < ROUNDS; i++) {
    /* rank 0 blocks in the MPI; the others come there only when the collective is complete */
    MPI_Iallreduce(in, out, COUNT, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &collective);
    if (rank > 0) MPI_Wait(&collective, MPI_STATUS_IGNORE);
    if (rank > 0) MPI_Ssend(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    for (int r = 1; rank == 0 && r < ranks; r++) MPI_Recv(message, 1, MPI_INT, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Wait(&collective, MPI_STATUS_IGNORE);
    /* the message is too long to be sent before it is received, and its sender blocks in a collective */
    MPI_Isend(message, COUNT, MPI_INT, to, 2, MPI_COMM_WORLD, &send);
    if (rank % 2) MPI_Recv(received, COUNT, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank % 2 == 0) MPI_Recv(received, COUNT, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    /* a function that has no nonblocking form */
    MPI_Iallreduce(in, out, COUNT, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &collective);
    if (rank > 0) MPI_Wait(&collective, MPI_STATUS_IGNORE);
    MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &copy);
    MPI_Comm_free(&copy);
    if (rank == 0) MPI_Wait(&collective, MPI_STATUS_IGNORE);
  }
}

/* Rank 1 has to hand on a scan of all ranks while it waits, in several ways, for a scan with rank 2, or for a message. Rank 2
 * comes there when the first scan is complete. Of the second one, rank 1 may have its own result at once in one library, and
 * not in the other one. */
static void between(void) {
  enum { ROUNDS = 8 };
  enum { BLOCKS, TESTS, ASKS, WAITS, WAYS };
  int sums[2] = {0}, done, word = 0;
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0 ? 0 : MPI_UNDEFINED, rank, &pair);
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    const int way = i % WAYS;
    if (rank == 0) usleep(2000);
    MPI_Iscan(&rank, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    if (rank != 1) MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    if (rank == 2 && way == ASKS) MPI_Send(&word, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
    if (rank == 1 && way == ASKS) MPI_Irecv(&word, 1, MPI_INT, 2, 4, MPI_COMM_WORLD, &requests[2]);
    for (done = way != ASKS; !done;) MPI_Request_get_status(requests[2], &done, MPI_STATUS_IGNORE);
    if (rank > 0 && way == BLOCKS) MPI_Scan(&rank, &sums[1], 1, MPI_INT, MPI_SUM, pair);
    if (rank > 0 && way > BLOCKS) MPI_Iscan(&rank, &sums[1], 1, MPI_INT, MPI_SUM, pair, &requests[0]);
    for (done = way != TESTS; !done;) MPI_Testall(2, requests, &done, statuses);
    MPI_Waitall(3, requests, statuses);
    NEED(sums[0] == sum_to(rank + 1) && sums[1] == sum_to(rank + 1));
  }
  if (rank > 0) MPI_Comm_free(&pair);
}

/* Derived datatypes that are grids of pieces: half of the columns of a matrix, a box of an array, interleaved columns. One side
 * has the datatype, the other one contiguous data; then both have it. */
static void strided(void) {
  enum { ROWS = 256, COLUMNS = 128, HALF = COLUMNS / 2, BOX = 16 * 32 * 32, ITEMS = 8 };
  MPI_Datatype types[4], column;
  MPI_Type_vector(ROWS, HALF, COLUMNS, MPI_INT, &types[0]);
  MPI_Type_create_subarray(3, (int[]){20, 40, 64}, (int[]){16, 32, 32}, (int[]){2, 4, 30}, MPI_ORDER_C, MPI_INT,
                           &types[1]);
  MPI_Type_create_subarray(3, (int[]){64, 40, 20}, (int[]){32, 32, 16}, (int[]){30, 4, 2}, MPI_ORDER_FORTRAN, MPI_INT,
                           &types[2]);
  MPI_Type_vector(ROWS, HALF / 2, 16 * COLUMNS, MPI_INT, &column);
  MPI_Type_create_resized(column, 0, HALF / 2 * (MPI_Aint)sizeof(int), &types[3]);
  const int items[4] = {ROWS * HALF, BOX, BOX, ROWS * HALF / 2};
  for (int k = 0; k < 4; k++) {
    const size_t room = (size_t)ranks * ITEMS * 20 * 40 * 64;
    int *a = calloc(room, sizeof *a), *b = calloc(room, sizeof *b);
    NEED(a && b);
    for (size_t i = 0; i < room; i++) a[i] = (int)i + 1000003 * rank;
    MPI_Type_commit(&types[k]);
    const int n = items[k], root = ranks - 1;
    MPI_Bcast(a, 2, types[k], root, MPI_COMM_WORLD);
    if (rank == root) MPI_Bcast(a, n, MPI_INT, root, MPI_COMM_WORLD);
    else MPI_Bcast(b, 1, types[k], root, MPI_COMM_WORLD);
    MPI_Allgather(a, 2 * n, MPI_INT, b, 2, types[k], MPI_COMM_WORLD);
    MPI_Allgather(a, 2, types[k], b, 2 * n, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(a, 1, types[k], b, 1, types[k], MPI_COMM_WORLD);
    MPI_Gather(a, 1, types[k], b, n, MPI_INT, root, MPI_COMM_WORLD);
    MPI_Gather(a, n, MPI_INT, b, 1, types[k], 0, MPI_COMM_WORLD);
    MPI_Scatter(a, 1, types[k], b, n, MPI_INT, root, MPI_COMM_WORLD);
    MPI_Scatter(a, n, MPI_INT, b, 1, types[k], 0, MPI_COMM_WORLD);
    MPI_Alltoall(a, 2, types[k], b, 2 * n, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoall(a, n, MPI_INT, b, 1, types[k], MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, b, 1, types[k], MPI_COMM_WORLD);
    MPI_Type_free(&types[k]);
    free(a);
    free(b);
  }
  MPI_Type_free(&column);
}

/* Sends `bytes` bytes of which two change places, and receives them as they come. */
static void swap(int bytes, int first, int second) {
  unsigned char in[1024], out[64 * 1024];
  int places[1024];
  MPI_Datatype type;
  for (int i = 0; i < bytes; i++) in[i] = (unsigned char)(i + i / 256 + rank), places[i] = i;
  places[first] = second;
  places[second] = first;
  MPI_Type_create_indexed_block(bytes, 1, places, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_Allgather(in, 1, type, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < ranks * bytes; i++) {
    const int place = places[i % bytes];
    NEED(out[i] == (unsigned char)(place + place / 256 + i / bytes));
  }
  MPI_Type_free(&type);
}

/* Derived datatypes without gaps whose bytes are not in order. */
static void swapped(void) {
  for (int second = 1; second < 24; second++)
    for (int first = 0; first < second; first++) swap(24, first, second);
  swap(600, 3, 3 + 256);
  swap(600, 80, 80 + 512);
}

/* The MPI calls this at the beginning of its own MPI_Finalize, when the door is closed. */
static int on_finalize(MPI_Comm comm, int key, void *value, void *state) {
  (void)comm, (void)key, (void)value, (void)state;
  fprintf(stderr, "the MPI of rank %d ends\n", rank);
  return MPI_SUCCESS;
}

static void ends(void) {
  int key;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"counts", counts},   {"left", left},       {"errors", errors}, {"wrong", wrong},
               {"memory", memory},   {"many", many},       {"few", few},       {"progress", progress},
               {"between", between}, {"strided", strided}, {"ends", ends},     {"swapped", swapped}};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int k = 1; k < argc; k++)
      if (strcmp(argv[k], cases[i].name) == 0) cases[i].run();
  MPI_Finalize();
  return 0;
}
