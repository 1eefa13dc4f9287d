/* random_programs SEED FIRST COUNT [THREADS]: runs COUNT random MPI programs, from number FIRST on. All ranks draw the same
 * program from SEED and its number. With THREADS, the MPI is asked for MPI_THREAD_MULTIPLE, and a third of the programs run
 * in several threads. Exit status 0: all results were right. RANDOM_PROGRAMS_TRACE=FILE writes what each rank does to
 * FILE.RANK. RANDOM_PROGRAMS_SKIP=,NAME,NAME,... leaves out steps and collectives of these names, to make a program smaller.
 * RANDOM_PROGRAMS_STRICT=1 does all that MPI allows, for a door that carries out all collectives: both MPIs have errors there.
 *
 * No program may hang: each consists of steps, which all ranks take in the same order. A rank may complete a request at any
 * time after it has started it. So the earliest step in which a rank waits depends only on steps that all ranks reach. */
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_programs.h"

enum { SLOTS_MAX = 10, ITEMS_MAX = 48, PERSISTENT_MAX = 6, THREADS_MAX = 3, SAID_MAX = 20, TAG_MERGE = 20000 };

/* A communicator of a program. All ranks know all of them. */
struct slot {
  bool used, is_cart;
  int persistent;   /* number of persistent requests on it */
  int *members;     /* ranks in the base communicator */
  struct spot spot; /* rank -1: this rank is not in it */
  MPI_Request idup; /* of MPI_Comm_idup, until the first use */
};
struct slots {
  struct slot slot[SLOTS_MAX];
};

/* A message of int from rank `from` to rank `to` of a slot. */
struct message {
  int count, from, to, tag;
  bool sends;
  int *data;
  uint64_t key;
  int round;
};

/* A request, with what it belongs to. */
struct item {
  MPI_Request request;
  const struct slot *slot;
  bool active, persistent;
  struct call *call;
  struct message *message;
};
struct items {
  struct item *open[ITEMS_MAX]; /* not persistent, started */
  int count;
  struct item *persistent[PERSISTENT_MAX]; /* NULL: of other ranks */
  int slot_of[PERSISTENT_MAX];             /* slot + 1; 0: free. Agreed. */
};

static _Atomic int failures;
static FILE *trace;

void rp_fail(const struct program *p, const char *format, ...) {
  char text[700];
  va_list arguments;
  if (failures++ >= SAID_MAX) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "random_programs: seed %llu, program %d, thread %d, step %d, rank %d: %s\n",
          (unsigned long long)p->seed, p->number, p->thread, p->step, p->world_rank, text);
}

void rp_trace(const struct program *p, const char *format, ...) {
  char text[700];
  va_list arguments;
  if (!trace) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(trace, "%d.%d.%d: %s\n", p->number, p->thread, p->step, text);
  fflush(trace);
}

bool rp_skips(const char *name) {
  const char *list = getenv("RANDOM_PROGRAMS_SKIP");
  char item[64];
  if (!list) return false;
  snprintf(item, sizeof item, ",%s,", name);
  return strstr(list, item) != NULL;
}

bool rp_strict(void) { return getenv("RANDOM_PROGRAMS_STRICT") != NULL; }

bool rp_leaves_nonblocking(const struct program *p) {
#ifdef OPEN_MPI
  return !p->is_threaded;
#else
  (void)p;
  return true;
#endif
}

/* ---- communicators ---- */

static int free_slot(const struct program *p) {
  for (int i = 1; i < SLOTS_MAX; i++)
    if (!p->slots->slot[i].used) return i;
  return 0;
}

/* Adds a communicator of `size` members, which are ranks of the base communicator. */
static void add_slot(struct program *p, MPI_Comm comm, const int *members, int size) {
  const int i = free_slot(p);
  if (i == 0) abort(); /* the caller has seen that there is room */
  struct slot *s = &p->slots->slot[i];
  *s = (struct slot){.used = true, .spot = {.comm = comm, .size = size, .rank = -1}, .idup = MPI_REQUEST_NULL};
  s->members = malloc((size_t)size * sizeof *s->members);
  memcpy(s->members, members, (size_t)size * sizeof *members);
  int base_rank = 0;
  MPI_Comm_rank(p->slots->slot[0].spot.comm, &base_rank);
  for (int k = 0; k < size; k++)
    if (members[k] == base_rank) s->spot.rank = k;
  if ((s->spot.rank >= 0) != (comm != MPI_COMM_NULL)) rp_fail(p, "MPI_COMM_NULL on a member, or none on another rank");
  int got;
  if (comm == MPI_COMM_NULL || s->spot.rank < 0) return;
  rp_trace(p, "slot %d: rank %d of %d", i, s->spot.rank, size);
  MPI_Comm_rank(comm, &got);
  if (got != s->spot.rank) rp_fail(p, "rank %d in a communicator, expected %d", got, s->spot.rank);
}

static int room(const struct program *p) {
  int count = 0;
  for (int i = 1; i < SLOTS_MAX; i++) count += !p->slots->slot[i].used;
  return count;
}

/* Waits until the communicator of MPI_Comm_idup is there. */
static void settle(struct slot *s) {
  if (s->idup != MPI_REQUEST_NULL) MPI_Wait(&s->idup, MPI_STATUS_IGNORE);
}

/* Draws a communicator. */
static struct slot *any_slot(const struct program *p, struct random *r) {
  int i;
  do i = (int)rp_below(r, SLOTS_MAX);
  while (!p->slots->slot[i].used);
  return &p->slots->slot[i];
}

static void split(struct program *p, struct slot *parent, struct random *r) {
  const int size = parent->spot.size, colours = 1 + (int)rp_below(r, 3);
  if (room(p) < colours) return;
  int *colour = calloc(2 * (size_t)size, sizeof *colour), *key = colour + size, mine = parent->spot.rank;
  for (int i = 0; i < size; i++) {
    colour[i] = rp_chance(r, 10) ? MPI_UNDEFINED : (int)rp_below(r, (uint32_t)colours);
    key[i] = (int)rp_below(r, (uint32_t)size) * (rp_chance(r, 50) ? 1 : -1);
  }
  MPI_Comm created = MPI_COMM_NULL;
  if (mine >= 0) MPI_Comm_split(parent->spot.comm, colour[mine], key[mine], &created);
  int *members = malloc((size_t)size * sizeof *members);
  for (int c = 0; c < colours; c++) {
    int count = 0;
    for (int least = -size; least <= size; least++)
      for (int i = 0; i < size; i++)
        if (colour[i] == c && key[i] == least) members[count++] = parent->members[i];
    if (count > 0) add_slot(p, mine >= 0 && colour[mine] == c ? created : MPI_COMM_NULL, members, count);
  }
  free(colour);
  free(members);
}

/* MPI_Comm_create and MPI_Comm_create_group with some of the ranks, in any order. */
static void create(struct program *p, struct slot *parent, struct random *r) {
  const int size = parent->spot.size, count = 1 + (int)rp_below(r, (uint32_t)size);
  const bool by_group = rp_chance(r, 50);
  int *order = malloc(2 * (size_t)size * sizeof *order), *members = order + size;
  rp_shuffle(r, order, size);
  bool mine = false;
  for (int i = 0; i < count; i++) {
    members[i] = parent->members[order[i]];
    mine = mine || order[i] == parent->spot.rank;
  }
  MPI_Comm created = MPI_COMM_NULL;
  if (parent->spot.rank >= 0) {
    MPI_Group all, some;
    MPI_Comm_group(parent->spot.comm, &all);
    MPI_Group_incl(all, count, order, &some);
    if (!by_group) MPI_Comm_create(parent->spot.comm, some, &created);
    else if (mine) MPI_Comm_create_group(parent->spot.comm, some, 1000 + p->step, &created);
    MPI_Group_free(&all);
    MPI_Group_free(&some);
  }
  add_slot(p, created, members, count);
  free(order);
}

/* Open MPI 4.1.4: after MPI_Comm_idup, ranks wait for each other for ever now and then, each in another function of the MPI
 * (seed 186441878, programs 200 to 399, 4 ranks, verify). */
static bool has_idup(void) {
#ifdef OPEN_MPI
  return rp_strict();
#else
  return true;
#endif
}

static void duplicate(struct program *p, struct slot *parent, struct random *r) {
  const bool later = rp_chance(r, 40) && rp_leaves_nonblocking(p) && has_idup();
  MPI_Comm created = MPI_COMM_NULL;
  const int i = free_slot(p);
  struct slot *s = &p->slots->slot[i];
  if (!later) {
    if (parent->spot.rank >= 0) MPI_Comm_dup(parent->spot.comm, &created);
    add_slot(p, created, parent->members, parent->spot.size);
    s->is_cart = parent->is_cart;
    return;
  }
  /* The handle of MPI_Comm_idup is set when the request is complete. */
  *s = (struct slot){.used = true, .is_cart = parent->is_cart, .spot = parent->spot, .idup = MPI_REQUEST_NULL};
  s->spot.by_idup = true;
  s->members = malloc((size_t)s->spot.size * sizeof *s->members);
  memcpy(s->members, parent->members, (size_t)s->spot.size * sizeof *s->members);
  s->spot.comm = MPI_COMM_NULL;
  if (s->spot.rank >= 0) MPI_Comm_idup(parent->spot.comm, &s->spot.comm, &s->idup);
#ifdef OPEN_MPI
  /* Open MPI 4.1.4 starts collectives on the parent when the request advances, which takes tags of libnbc in an order that
   * differs from rank to rank: nonblocking collectives on the parent get wrong messages. */
  settle(s);
#endif
}

static void cart(struct program *p, struct slot *parent, struct random *r) {
  const int size = parent->spot.size, rank = parent->spot.rank, rows = size >= 4 ? 2 : 1, columns = size / rows;
  const int kept = (int)rp_below(r, 2), periodic[2] = {1, (int)rp_below(r, 2)};
  if (room(p) < 1 + (kept ? rows : columns)) return;
  MPI_Comm grid = MPI_COMM_NULL, line = MPI_COMM_NULL;
  if (rank >= 0) MPI_Cart_create(parent->spot.comm, 2, (const int[]){rows, columns}, periodic, 0, &grid);
  const int i = free_slot(p);
  add_slot(p, grid, parent->members, rows * columns);
  p->slots->slot[i].is_cart = true;
  if (grid != MPI_COMM_NULL) MPI_Cart_sub(grid, (const int[]){!kept, kept}, &line);
  int *members = malloc((size_t)size * sizeof *members);
  for (int k = 0; k < (kept ? rows : columns); k++) {
    bool mine = false;
    const int count = kept ? columns : rows;
    for (int m = 0; m < count; m++) {
      const int member = kept ? k * columns + m : m * columns + k;
      members[m] = parent->members[member];
      mine = mine || member == rank;
    }
    add_slot(p, mine ? line : MPI_COMM_NULL, members, count);
  }
  free(members);
}

/* A collective of an intercommunicator, which the door leaves to the MPI. */
static void use_inter(struct program *p, MPI_Comm inter, bool low, int rank, int others, struct random *r) {
  int mine = rank * 3 + low, *all = calloc((size_t)others, sizeof *all);
  MPI_Request request;
  switch (rp_below(r, 4)) {
    case 0: MPI_Barrier(inter); break;
    case 1:
    case 2:
      if (rp_chance(r, 50) || !rp_leaves_nonblocking(p)) MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, inter);
      else {
        MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, inter, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      for (int i = 0; i < others; i++)
        if (all[i] != i * 3 + !low) rp_fail(p, "intercommunicator, MPI_Allgather: %d from %d", all[i], i);
      break;
    default:
      mine = low && rank == 0 ? 99 : 5;
      MPI_Bcast(&mine, 1, MPI_INT, !low ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
      if (!low && mine != 99) rp_fail(p, "intercommunicator, MPI_Bcast: %d", mine);
  }
  free(all);
}

static void merge(struct program *p, struct slot *parent, struct random *r) {
  const int size = parent->spot.size, rank = parent->spot.rank, half = size / 2;
  const bool merges = rp_chance(r, 60), turned = rp_chance(r, 50);
  if (size < 2 || room(p) == 0) return;
  MPI_Comm part, inter, created = MPI_COMM_NULL;
  const bool low = rank < half;
  if (rank >= 0) {
    MPI_Comm_split(parent->spot.comm, low, rank, &part);
    MPI_Intercomm_create(part, 0, parent->spot.comm, low ? half : 0, TAG_MERGE, &inter);
    use_inter(p, inter, low, low ? rank : rank - half, low ? size - half : half, r);
    if (merges) MPI_Intercomm_merge(inter, low == turned, &created);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&part);
  }
  if (!merges) return;
  int *members = malloc((size_t)size * sizeof *members);
  for (int i = 0; i < size; i++) members[i] = parent->members[turned ? (half + i) % size : i];
  add_slot(p, created, members, size);
  free(members);
}

/* ---- messages ---- */

static int number_of(const struct message *m, int i) {
  return (int)(rp_mix(m->key + (uint64_t)m->round, (uint64_t)i) >> 40);
}

static void fill_message(struct message *m) {
  for (int i = 0; i < m->count; i++) m->data[i] = m->sends ? number_of(m, i) : -1;
}

static void check_message(const struct program *p, const struct message *m, const MPI_Status *status) {
  int count;
  for (int i = 0; i < m->count; i++)
    if (m->data[i] != number_of(m, i)) {
      rp_fail(p, "message of %d from %d to %d: element %d is %d", m->count, m->from, m->to, i, m->data[i]);
      break;
    }
  if (m->sends || !status) return;
  MPI_Get_count(status, MPI_INT, &count);
  if (status->MPI_SOURCE != m->from || status->MPI_TAG != m->tag || count != m->count)
    rp_fail(p, "status: source %d, tag %d, count %d; expected %d, %d, %d", status->MPI_SOURCE, status->MPI_TAG, count,
            m->from, m->tag, m->count);
}

static struct message *make_message(const struct program *p, const struct spot *spot, int from, int to, uint64_t seed) {
  struct random r = {seed};
  struct message *m = calloc(1, sizeof *m);
  m->count = (int)(rp_chance(&r, 30) ? 20000 + rp_below(&r, 60000) : rp_below(&r, 300));
  m->from = from;
  m->to = to;
  m->tag = p->step;
  m->key = seed;
  m->sends = spot->rank == from;
  m->data = malloc(((size_t)m->count + 1) * sizeof *m->data);
  fill_message(m);
  return m;
}

static void free_message(struct message *m) {
  free(m->data);
  free(m);
}

/* ---- requests ---- */

static void end_item(struct program *p, struct item *item, const MPI_Status *status) {
  item->active = false;
  if (!item->persistent && item->request != MPI_REQUEST_NULL) rp_fail(p, "a complete request is not MPI_REQUEST_NULL");
  if (item->call) rp_call_check(item->call);
  if (item->message) check_message(p, item->message, status);
  if (item->persistent) return;
  if (item->call) rp_call_free(item->call);
  if (item->message) free_message(item->message);
}

/* Ways to complete the requests of a list. Each sets statuses[i] of request i. */
static void by_wait(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  int order[2 * ITEMS_MAX];
  rp_shuffle(r, order, count);
  for (int i = 0; i < count; i++) MPI_Wait(&list[order[i]], &statuses[order[i]]);
}
static void by_waitall(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  (void)r;
  MPI_Waitall(count, list, statuses);
}
static void by_waitany(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  int index;
  MPI_Status status;
  (void)r;
  for (;;) {
    MPI_Waitany(count, list, &index, &status);
    if (index == MPI_UNDEFINED) return;
    statuses[index] = status;
  }
}
static void by_waitsome(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  int done, indices[2 * ITEMS_MAX];
  MPI_Status some[2 * ITEMS_MAX];
  (void)r;
  for (;;) {
    MPI_Waitsome(count, list, &done, indices, some);
    if (done == MPI_UNDEFINED) return;
    for (int i = 0; i < done; i++) statuses[indices[i]] = some[i];
  }
}
static void by_test(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  int order[2 * ITEMS_MAX], flag;
  rp_shuffle(r, order, count);
  for (int i = 0; i < count; i++)
    while (MPI_Test(&list[order[i]], &flag, &statuses[order[i]]), !flag) sched_yield();
}
static void by_testall(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  int flag;
  (void)r;
  while (MPI_Testall(count, list, &flag, statuses), !flag) sched_yield();
}
static void by_testany(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  int index, flag;
  MPI_Status status;
  (void)r;
  for (;;) {
    MPI_Testany(count, list, &index, &flag, &status);
    if (!flag) sched_yield();
    else if (index == MPI_UNDEFINED) return;
    else statuses[index] = status;
  }
}
static void by_testsome(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  int done, indices[2 * ITEMS_MAX];
  MPI_Status some[2 * ITEMS_MAX];
  (void)r;
  for (;;) {
    MPI_Testsome(count, list, &done, indices, some);
    if (done == MPI_UNDEFINED) return;
    if (done == 0) sched_yield();
    for (int i = 0; i < done; i++) statuses[indices[i]] = some[i];
  }
}
static void by_get_status(MPI_Request *list, int count, MPI_Status *statuses, struct random *r) {
  int order[2 * ITEMS_MAX], flag;
  rp_shuffle(r, order, count);
  for (int i = 0; i < count; i++) {
    while (MPI_Request_get_status(list[order[i]], &flag, MPI_STATUS_IGNORE), !flag) sched_yield();
    MPI_Wait(&list[order[i]], &statuses[order[i]]);
  }
}
static const struct {
  const char *name;
  void (*complete)(MPI_Request *list, int count, MPI_Status *statuses, struct random *r);
  bool takes_persistent; /* active persistent collectives */
} ways[] = {
    {"Wait", by_wait, true},          {"Waitall", by_waitall, true},    {"Waitany", by_waitany, false},
    {"Waitsome", by_waitsome, false}, {"Test", by_test, true},          {"Testall", by_testall, true},
    {"Testany", by_testany, false},   {"Testsome", by_testsome, false}, {"Request_get_status", by_get_status, true}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* Both MPIs (4.1.4, 4.0.2) take inactive persistent collectives in MPI_Waitany, MPI_Waitsome, MPI_Testany and MPI_Testsome
 * for active ones: they wait forever, or return them again. */
static bool may_be_listed(const struct item *idle) { return idle->message != NULL || rp_strict(); }

static uint32_t any_way(struct item **items, int count, struct random *r) {
  uint32_t way = rp_below(r, WAYS);
  bool has_persistent = false;
  for (int i = 0; i < count; i++) has_persistent = has_persistent || (items[i]->persistent && items[i]->call);
  while (has_persistent && !rp_strict() && !ways[way].takes_persistent) way = rp_below(r, WAYS);
  return way;
}

/* Completes requests, in one list with null requests and inactive ones. */
static void complete(struct program *p, struct item **items, int count) {
  MPI_Request list[2 * ITEMS_MAX];
  MPI_Status statuses[2 * ITEMS_MAX];
  int place[ITEMS_MAX], length = 0;
  struct random *r = &p->local;
  for (int i = 0; i < count; i++) {
    if (rp_chance(r, 15) && length < ITEMS_MAX) list[length++] = MPI_REQUEST_NULL;
    place[i] = length;
    list[length++] = items[i]->request;
  }
  for (int i = 0; i < PERSISTENT_MAX; i++) {
    const struct item *idle = p->items->persistent[i];
    if (idle && !idle->active && may_be_listed(idle) && rp_chance(r, 30)) list[length++] = idle->request;
  }
  if (count == 0) return;
  const uint32_t way = any_way(items, count, r);
  rp_trace(p, "complete %d of %d with %s", count, length, ways[way].name);
  ways[way].complete(list, length, statuses, r);
  for (int i = 0; i < count; i++) {
    items[i]->request = list[place[i]];
    end_item(p, items[i], &statuses[place[i]]);
  }
  rp_trace(p, "completed");
}

/* Completes each open request with a probability of `percent`. slot: only requests on this communicator; NULL: all. */
static void complete_some(struct program *p, const struct slot *slot, uint32_t percent) {
  struct item *chosen[ITEMS_MAX + PERSISTENT_MAX];
  struct items *all = p->items;
  int order[ITEMS_MAX], count = 0, kept = 0;
  for (int i = 0; i < all->count; i++) {
    if ((!slot || all->open[i]->slot == slot) && rp_chance(&p->local, percent)) chosen[count++] = all->open[i];
    else all->open[kept++] = all->open[i];
  }
  all->count = kept;
  const int started = count;
  for (int i = 0; !slot && i < PERSISTENT_MAX && count < ITEMS_MAX; i++)
    if (all->persistent[i] && all->persistent[i]->active && rp_chance(&p->local, percent))
      chosen[count++] = all->persistent[i];
  struct item *shuffled[ITEMS_MAX];
  rp_shuffle(&p->local, order, count);
  for (int i = 0; i < count; i++) shuffled[i] = chosen[order[i]];
  complete(p, shuffled, count);
  for (int i = 0; i < started; i++) free(chosen[i]);
}

static struct item *open_item(struct program *p, const struct slot *slot, struct call *call, struct message *message) {
  struct item *item = calloc(1, sizeof *item);
  *item = (struct item){.request = MPI_REQUEST_NULL, .slot = slot, .active = true, .call = call, .message = message};
  p->items->open[p->items->count++] = item;
  return item;
}

/* ---- steps ---- */

static void release_slot(struct slot *s) {
  settle(s);
  if (s->spot.comm != MPI_COMM_NULL) MPI_Comm_free(&s->spot.comm);
  free(s->members);
  s->used = false;
}

/* Open MPI 4.1.4 gives a new communicator the number of a freed one, although collectives of libnbc are still open on it:
 * they get wrong messages. */
static bool frees_open(void) {
#ifdef OPEN_MPI
  return rp_strict();
#else
  return true;
#endif
}

/* Open MPI 4.1.4: threads that create communicators at the same time wait for each other for ever (ompi_comm_nextcid). */
static bool creates(const struct program *p) {
#ifdef OPEN_MPI
  return !p->is_threaded;
#else
  return (void)p, true;
#endif
}

static void step_comm(struct program *p, struct random *r) {
  static void (*const creators[])(struct program *, struct slot *, struct random *) = {split, create, duplicate, cart,
                                                                                       merge};
  struct slot *s = any_slot(p, r);
  if (rp_chance(r, 45) && s != &p->slots->slot[0] && s->persistent == 0) {
    rp_trace(p, "free slot %td", s - p->slots->slot);
    if (!frees_open() || s->spot.by_idup) complete_some(p, s, 100);
    release_slot(s);
    return;
  }
  const uint32_t which = rp_below(r, 5);
  if (s->spot.rank >= 0) settle(s);
  if (room(p) > 0 && creates(p)) creators[which](p, s, r);
}

static void trace_call(const struct program *p, const struct call *c, const struct slot *s) {
  char text[400];
  if (!trace) return;
  rp_call_describe(c, text, sizeof text);
  rp_trace(p, "slot %td: %s", s - p->slots->slot, text);
}

static void step_blocking(struct program *p, struct random *r) {
  struct slot *s = any_slot(p, r);
  const uint64_t seed = rp_next(r);
  if (s->spot.rank < 0) return;
  settle(s);
  struct call *c = rp_call_make(p, &s->spot, seed, BLOCKING);
  rp_call_fill(c);
  trace_call(p, c, s);
  rp_call_issue(c, NULL);
  rp_trace(p, "done");
  rp_call_check(c);
  rp_call_free(c);
}

static void start_one(struct program *p, struct slot *s, uint64_t seed) {
  if (s->spot.rank < 0) return;
  settle(s);
  struct call *c = rp_call_make(p, &s->spot, seed, NONBLOCKING);
  rp_call_fill(c);
  trace_call(p, c, s);
  rp_call_issue(c, &open_item(p, s, c, NULL)->request);
}

/* Starts some collectives. Those on different communicators are started in any order. */
static void step_nonblocking(struct program *p, struct random *r) {
  struct slot *slots[4];
  uint64_t seeds[4];
  bool started[4] = {false};
  const int count = 1 + (int)rp_below(r, 4);
  for (int i = 0; i < count; i++) {
    slots[i] = any_slot(p, r);
    seeds[i] = rp_next(r);
    if (slots[i]->spot.rank >= 0) settle(slots[i]);
  }
  for (int left = count; left > 0; left--) {
    int i, k;
    do {
      i = (int)rp_below(&p->local, (uint32_t)count);
      for (k = 0; k < i && (started[k] || slots[k] != slots[i]); k++) continue;
    } while (started[i] || k < i);
    started[i] = true;
    start_one(p, slots[i], seeds[i]);
  }
}

/* MPICH 4.0.2: a persistent collective that is started again gives wrong results, or errors. */
static bool has_persistent_collectives(void) {
#ifdef OPEN_MPI
  return true;
#else
  return rp_strict();
#endif
}

static void step_init(struct program *p, struct random *r) {
  struct slot *s = any_slot(p, r);
  const uint64_t seed = rp_next(r);
  const int from = (int)rp_below(r, (uint32_t)s->spot.size), to = (int)rp_below(r, (uint32_t)s->spot.size);
  const bool is_message = rp_chance(r, has_persistent_collectives() ? 30 : 100) && !rp_skips("init message");
  int i = 0;
  while (i < PERSISTENT_MAX && p->items->slot_of[i]) i++;
  if (i == PERSISTENT_MAX || (is_message && from == to)) return;
  p->items->slot_of[i] = (int)(s - p->slots->slot) + 1;
  s->persistent++;
  p->items->persistent[i] = NULL;
  if (s->spot.rank < 0 || (is_message && s->spot.rank != from && s->spot.rank != to)) return;
  settle(s);
  struct item *item = calloc(1, sizeof *item);
  item->persistent = true;
  if (!is_message) {
    item->call = rp_call_make(p, &s->spot, seed, PERSISTENT);
    trace_call(p, item->call, s);
    rp_call_issue(item->call, &item->request);
  } else {
    struct message *m = item->message = make_message(p, &s->spot, from, to, seed);
    if (m->sends) MPI_Send_init(m->data, m->count, MPI_INT, to, m->tag, s->spot.comm, &item->request);
    else MPI_Recv_init(m->data, m->count, MPI_INT, from, m->tag, s->spot.comm, &item->request);
  }
  p->items->persistent[i] = item;
}

static void wait_for(struct program *p, struct item *item) {
  if (item->active) complete(p, &item, 1);
}

/* Starts some persistent requests, each rank in its own order. */
static void step_start(struct program *p, struct random *r) {
  int order[PERSISTENT_MAX], count = 0;
  struct item *chosen[PERSISTENT_MAX];
  MPI_Request list[PERSISTENT_MAX];
  bool starts[PERSISTENT_MAX];
  for (int i = 0; i < PERSISTENT_MAX; i++) starts[i] = rp_chance(r, 60);
  rp_shuffle(rp_skips("order") ? r : &p->local, order, PERSISTENT_MAX);
  for (int i = 0; i < PERSISTENT_MAX; i++)
    if (starts[order[i]] && p->items->slot_of[order[i]] && p->items->persistent[order[i]])
      chosen[count++] = p->items->persistent[order[i]];
  for (int i = 0; i < count; i++) wait_for(p, chosen[i]);
  const bool at_once = rp_chance(&p->local, 50) && !rp_skips("Startall");
  for (int i = 0; i < count; i++) {
    if (chosen[i]->call) rp_call_again(chosen[i]->call);
    else chosen[i]->message->round++, fill_message(chosen[i]->message);
    list[i] = chosen[i]->request;
    if (!at_once) MPI_Start(&list[i]);
  }
  if (at_once) MPI_Startall(count, list);
  rp_trace(p, "started %d persistent requests%s", count, at_once ? " at once" : "");
  for (int i = 0; i < count; i++) {
    chosen[i]->request = list[i];
    chosen[i]->active = true;
  }
}

static void drop_persistent(struct program *p, int i) {
  struct item *item = p->items->persistent[i];
  if (!p->items->slot_of[i]) return;
  p->slots->slot[p->items->slot_of[i] - 1].persistent--;
  p->items->slot_of[i] = 0;
  p->items->persistent[i] = NULL;
  if (!item) return;
  wait_for(p, item);
  MPI_Request_free(&item->request);
  if (item->call) rp_call_free(item->call);
  if (item->message) free_message(item->message);
  free(item);
}

static void step_drop(struct program *p, struct random *r) { drop_persistent(p, (int)rp_below(r, PERSISTENT_MAX)); }

static void receive(struct program *p, struct message *m, MPI_Comm comm) {
  MPI_Status status = {0};
  MPI_Message message;
  int flag = 0;
  switch (rp_below(&p->local, 5)) {
    case 0: MPI_Probe(m->from, m->tag, comm, &status); break;
    case 1: MPI_Mprobe(m->from, m->tag, comm, &message, &status), flag = 1; break;
    case 2:
      while (MPI_Iprobe(m->from, m->tag, comm, &flag, &status), !flag) sched_yield();
      flag = 0;
      break;
    case 3:
      while (MPI_Improbe(m->from, m->tag, comm, &flag, &message, &status), !flag) sched_yield();
      break;
    default: break;
  }
  if (flag) MPI_Mrecv(m->data, m->count, MPI_INT, &message, &status);
  else MPI_Recv(m->data, m->count, MPI_INT, m->from, m->tag, comm, &status);
  check_message(p, m, &status);
  free_message(m);
}

static void send(struct program *p, const struct slot *s, struct message *m) {
  const MPI_Comm comm = s->spot.comm;
  switch (rp_below(&p->local, 5)) {
    case 0: MPI_Send(m->data, m->count, MPI_INT, m->to, m->tag, comm); break;
    case 1: MPI_Ssend(m->data, m->count, MPI_INT, m->to, m->tag, comm); break;
    case 2: MPI_Issend(m->data, m->count, MPI_INT, m->to, m->tag, comm, &open_item(p, s, NULL, m)->request); return;
    default: MPI_Isend(m->data, m->count, MPI_INT, m->to, m->tag, comm, &open_item(p, s, NULL, m)->request); return;
  }
  free_message(m);
}

/* One message. Each side chooses whether it blocks. */
static void step_message(struct program *p, struct random *r) {
  struct slot *s = any_slot(p, r);
  const int size = s->spot.size, from = (int)rp_below(r, (uint32_t)size), to = (int)rp_below(r, (uint32_t)size);
  const uint64_t seed = rp_next(r);
  if (from == to || (s->spot.rank != from && s->spot.rank != to)) return;
  settle(s);
  struct message *m = make_message(p, &s->spot, from, to, seed);
  rp_trace(p, "slot %td: message of %d from %d to %d", s - p->slots->slot, m->count, from, to);
  if (m->sends) send(p, s, m);
  else if (rp_chance(&p->local, 40))
    MPI_Irecv(m->data, m->count, MPI_INT, from, m->tag, s->spot.comm, &open_item(p, s, NULL, m)->request);
  else receive(p, m, s->spot.comm);
  rp_trace(p, "done");
}

static void step_ring(struct program *p, struct random *r) {
  const struct slot *s = any_slot(p, r);
  const uint64_t seed = rp_next(r);
  const int size = s->spot.size, rank = s->spot.rank;
  if (rank < 0) return;
  settle((struct slot *)(uintptr_t)s);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  struct message *out = make_message(p, &s->spot, rank, to, seed), *in = make_message(p, &s->spot, from, rank, seed);
  in->sends = false;
  fill_message(in);
  MPI_Status status;
  rp_trace(p, "slot %td: ring of %d", s - p->slots->slot, out->count);
  MPI_Sendrecv(out->data, out->count, MPI_INT, to, out->tag, in->data, in->count, MPI_INT, from, in->tag, s->spot.comm,
               &status);
  check_message(p, in, &status);
  free_message(out);
  free_message(in);
}

/* Collectives that the door leaves to the MPI: MPI_Alltoallw, MPI_Ineighbor_allgather. */
static void step_left(struct program *p, struct random *r) {
  struct slot *s = any_slot(p, r);
  const int size = s->spot.size, rank = s->spot.rank;
  if (rank < 0) return;
  settle(s);
  int in[4] = {-1, -1, -1, -1}, mine = rank, up, down;
  MPI_Request request;
  if (s->is_cart && rp_leaves_nonblocking(p)) {
    MPI_Ineighbor_allgather(&mine, 1, MPI_INT, in, 1, MPI_INT, s->spot.comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int d = 0; d < 2; d++) {
      MPI_Cart_shift(s->spot.comm, d, 1, &down, &up);
      if ((down >= 0 && in[2 * d] != down) || (up >= 0 && in[2 * d + 1] != up)) rp_fail(p, "MPI_Ineighbor_allgather");
    }
    return;
  }
  const size_t room = (size_t)size;
  int *data = calloc(2 * room, sizeof *data), *counts = calloc(3 * room, sizeof *counts);
  int *out_at = counts + size, *in_at = out_at + size;
  MPI_Datatype *types = malloc(room * sizeof(MPI_Datatype));
  for (int i = 0; i < size; i++) {
    data[i] = 100 * rank + i;
    counts[i] = 1;
    out_at[i] = 4 * i;
    in_at[i] = 4 * (size - 1 - i);
    types[i] = MPI_INT;
  }
  MPI_Alltoallw(data, counts, out_at, types, data + size, counts, in_at, types, s->spot.comm);
  for (int i = 0; i < size; i++)
    if (data[size + size - 1 - i] != 100 * i + rank) rp_fail(p, "MPI_Alltoallw");
  free(data);
  free(counts);
  free(types);
}

static const struct {
  const char *name;
  uint32_t percent;
  void (*take)(struct program *p, struct random *r);
} steps[] = {{"blocking", 24, step_blocking}, {"nonblocking", 24, step_nonblocking},
             {"comm", 14, step_comm},         {"init", 8, step_init},
             {"start", 10, step_start},       {"drop", 2, step_drop},
             {"message", 11, step_message},   {"ring", 3, step_ring},
             {"left", 4, step_left}};

/* ---- programs ---- */

static void take_step(struct program *p) {
  struct random step = {rp_next(&p->agreed)};
  uint32_t percent = rp_below(&step, 100);
  size_t i = 0;
  while (percent >= steps[i].percent) percent -= steps[i++].percent;
  if (rp_skips(steps[i].name)) return;
  const uint32_t policy = rp_below(&p->local, 100);
  if (policy < 20 || p->items->count > ITEMS_MAX - 8) complete_some(p, NULL, 100);
  else if (policy < 45) complete_some(p, NULL, 30);
  rp_trace(p, "step %s", steps[i].name);
  steps[i].take(p, &step);
}

/* Runs a program on a communicator of its own. */
static void run_program(struct program *p, MPI_Comm base) {
  char stack[POOL_BYTES];
  struct slots slots = {0};
  struct items items = {0};
  int size, rank;
  MPI_Comm_size(base, &size);
  MPI_Comm_rank(base, &rank);
  int *members = malloc((size_t)size * sizeof *members);
  for (int i = 0; i < size; i++) members[i] = i;
  p->stack.memory = stack;
  p->slots = &slots;
  p->items = &items;
  p->agreed.state = rp_mix(rp_mix(p->seed, (uint64_t)p->number), (uint64_t)p->thread);
  p->local.state = rp_mix(p->agreed.state, (uint64_t)rank + 1);
  slots.slot[0] = (struct slot){.used = true, .members = members, .spot = {base, size, rank}, .idup = MPI_REQUEST_NULL};
  const int count = 10 + (int)rp_below(&p->agreed, 31);
  for (p->step = 0; p->step < count; p->step++) take_step(p);
  complete_some(p, NULL, 100);
  for (int i = 0; i < PERSISTENT_MAX; i++) drop_persistent(p, i);
  for (int i = 1; i < SLOTS_MAX; i++)
    if (slots.slot[i].used) release_slot(&slots.slot[i]);
  free(members);
  MPI_Barrier(base);
}

struct thread {
  pthread_t thread;
  struct program program;
  MPI_Comm comm;
};
static void *run_thread(void *argument) {
  struct thread *t = argument;
  run_program(&t->program, t->comm);
  return NULL;
}

static void run_threads(const struct program *model, int count) {
  struct thread threads[THREADS_MAX];
  for (int i = 0; i < count; i++) {
    threads[i].program = *model;
    threads[i].program.thread = i;
    threads[i].program.is_threaded = true;
    if (i > 0) threads[i].program.fixed.memory = NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
  }
  for (int i = 1; i < count; i++) pthread_create(&threads[i].thread, NULL, run_thread, &threads[i]);
  run_thread(&threads[0]);
  for (int i = 1; i < count; i++) pthread_join(threads[i].thread, NULL);
  for (int i = 0; i < count; i++) MPI_Comm_free(&threads[i].comm);
}

static void open_trace(int rank) {
  const char *path = getenv("RANDOM_PROGRAMS_TRACE");
  char name[512];
  if (!path) return;
  snprintf(name, sizeof name, "%s.%d", path, rank);
  trace = fopen(name, "w");
}

int main(int argc, char **argv) {
  static char fixed[POOL_BYTES];
  if (argc < 4 || argc > 5) {
    fprintf(stderr, "usage: random_programs SEED FIRST COUNT [THREADS]\n");
    return 2;
  }
  const uint64_t seed = strtoull(argv[1], NULL, 0);
  const int first = atoi(argv[2]), count = atoi(argv[3]);
  int threads = argc > 4 ? atoi(argv[4]) : 1, provided, rank, size, all = 0;
  if (threads > THREADS_MAX) threads = THREADS_MAX;
  MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE) threads = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  open_trace(rank);
  rp_types_begin();
  for (int i = first; i < first + count; i++) {
    struct program p = {.seed = seed, .number = i, .world_rank = rank, .fixed = {fixed, false}};
    if (threads > 1 && i % 3 == 0) run_threads(&p, threads);
    else run_program(&p, MPI_COMM_WORLD);
  }
  rp_types_end();
  int mine = failures;
  MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("random_programs: %d programs of %llu, %d ranks: %d failures\n", count, (unsigned long long)seed, size, all);
  MPI_Finalize();
  return mine > 0 || all > 0;
}
