/* trace.c: records what this rank does. Each thread draws places in the ring, and writes the kind of an event last, so an
 * event that a killed rank has not finished has none. */
#include "call/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/env.h"
#include "base/log.h"
#include "comm/stats.h"
#include "trace/format.h"

#define RING_BYTES ((uint64_t)8 << 20)
#define RING_BYTES_MIN ((uint64_t)4 << 10)
#define RING_BYTES_MAX ((uint64_t)64 << 30)
#define RECORDS_MIN ((uint64_t)1 << 20)

bool (*tu_poll_execution)(struct tu_execution *e) = tu_execution_poll;
bool tu_calls_are_watched;

static struct {
  struct tu_trace_head *head; /* and behind it the ring; NULL: there is no trace. Read and written atomically */
  const struct tu_transport *transport; /* of the world that records; the same */
  _Atomic uint32_t runs;
  pthread_mutex_t lock; /* of what follows, and of the end of the file */
  /* The file, from the root on. It is opened for each record, because descriptors are the program's: it may close them, and get
   * the numbers for files of its own. */
  char *path;
  dev_t device;
  ino_t inode;
  uint32_t programs;
  uint64_t record_bytes, record_bytes_max; /* of all records */
  bool full;                               /* there was no room for the last one */
  uint64_t *comms;                         /* ids of the communicators that are recorded */
  uint32_t comm_count, comm_capacity;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the file ---- */

/* Returns the clock of the day minus the clock of the events: of several readings, the one that was interrupted least. */
static int64_t read_wall_ns(void) {
  uint64_t least = UINT64_MAX;
  int64_t wall_ns = 0;
  for (int i = 0; i < 8; i++) {
    struct timespec day;
    const uint64_t before = tu_clock_ns();
    clock_gettime(CLOCK_REALTIME, &day);
    const uint64_t took = tu_clock_ns() - before;
    if (took >= least) continue;
    least = took;
    wall_ns = (int64_t)day.tv_sec * 1000000000 + day.tv_nsec - (int64_t)(before + took / 2);
  }
  return wall_ns;
}

static void fill_head(struct tu_trace_head *head, const struct tu_trace_rank *who, uint64_t capacity) {
  const char *host = tu_env("TUTTI_HOST");
  *head = (struct tu_trace_head){.magic = TU_TRACE_MAGIC,
                                 .order = TU_TRACE_ORDER,
                                 .rank = who->rank,
                                 .ranks = who->ranks,
                                 .pid = (uint32_t)getpid(),
                                 .job = who->job,
                                 .began_ns = tu_clock_ns(),
                                 .wall_ns = read_wall_ns(),
                                 .capacity = capacity};
  if (host) snprintf(head->host, sizeof head->host, "%s", host);
  else (void)gethostname(head->host, sizeof head->host - 1);
}

/* Reserves the room of the ring on the disk, because memory of a file without room ends the process. */
static bool map_file(int fd, uint64_t bytes, struct tu_trace_head **head) {
  const int reserved = posix_fallocate(fd, 0, (off_t)bytes);
  if (reserved != 0) {
    errno = reserved;
    return false;
  }
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) return false;
  *head = memory;
  return true;
}

static struct tu_trace_head *get_head(void) { return __atomic_load_n(&trace.head, __ATOMIC_ACQUIRE); }
static void set_head(struct tu_trace_head *head) { __atomic_store_n(&trace.head, head, __ATOMIC_RELEASE); }

/* The calls of a world that this process has joined before are recorded no longer. Its ring is mapped until the process ends,
 * because another thread may be recording; but it takes no memory. */
static void forget_before(void) {
  const struct tu_trace_head *head = get_head();
  if (head)
    (void)madvise(trace.head, TU_TRACE_HEAD_BYTES + head->capacity * sizeof(struct tu_trace_event), MADV_DONTNEED);
  free(trace.path);
  free(trace.comms);
  trace.path = NULL;
  set_head(NULL);
  __atomic_store_n(&trace.transport, NULL, __ATOMIC_RELAXED);
  trace.comms = NULL;
  trace.comm_count = trace.comm_capacity = trace.programs = 0;
  trace.record_bytes = trace.record_bytes_max = 0;
}

/* Makes the file, and maps it. Returns NULL and sets errno if that fails. */
static struct tu_trace_head *make_file(const char *path, uint64_t bytes) {
  struct stat status;
  struct tu_trace_head *head = NULL;
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return NULL;
  if (fstat(fd, &status) == 0 && map_file(fd, bytes, &head)) {
    trace.path = realpath(path, NULL);
    trace.device = status.st_dev;
    trace.inode = status.st_ino;
  }
  const int why = errno;
  close(fd);
  errno = why;
  return trace.path ? head : NULL;
}

tutti_err tu_trace_open(const struct tu_trace_rank *who, struct tu_error *error) {
  const char *directory = tu_env("TUTTI_TRACE");
  uint64_t bytes = RING_BYTES;
  char path[4096];
  struct tu_trace_rank named = *who;
  struct tu_trace_head *head = NULL;
  tutti_err err = tu_env_bytes("TUTTI_TRACE_BYTES", &bytes, error);
  if (err == TUTTI_OK && (bytes < RING_BYTES_MIN || bytes > RING_BYTES_MAX))
    err = tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                  "environment: TUTTI_TRACE_BYTES is %llu; expected 4K to 64G bytes for the events of a rank",
                  (unsigned long long)bytes);
  pthread_mutex_lock(&trace.lock);
  forget_before();
  if (err == TUTTI_OK && directory) {
    if (named.job == 0) named.job = tu_clock_ns() ^ (uint64_t)getpid() << 40;
    (void)mkdir(directory, 0777);
    snprintf(path, sizeof path, "%s/tutti-%016llx-%u.trace", directory, (unsigned long long)named.job, named.rank);
    if (!(head = make_file(path, TU_TRACE_HEAD_BYTES + bytes)))
      err = tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                    "environment: TUTTI_TRACE is '%.200s'; expected a directory with room for %llu bytes of each rank: "
                    "%.300s: %s",
                    directory, (unsigned long long)bytes, path, strerror(errno));
  }
  if (head) {
    fill_head(head, &named, bytes / sizeof(struct tu_trace_event));
    trace.record_bytes_max = tu_max(RECORDS_MIN, TU_TRACE_RECORDS * bytes);
    __atomic_store_n(&trace.transport, who->transport, __ATOMIC_RELAXED);
    set_head(head);
  }
  pthread_mutex_unlock(&trace.lock);
  return err;
}

void tu_trace_close(const struct tu_transport *t) {
  pthread_mutex_lock(&trace.lock);
  if (trace.transport == t) forget_before();
  pthread_mutex_unlock(&trace.lock);
}

/* ---- events ---- */

/* A thread takes places of the ring by the dozen, because an atomic addition waits for the stores before it, and those into
 * the ring miss the caches. Places that it does not need remain without an event. */
enum { PLACES = 48 };
static _Thread_local struct {
  struct tu_trace_head *head; /* trace of the places */
  uint64_t next, end;
} own;

static struct tu_trace_event *place_at(struct tu_trace_head *head, uint64_t number) {
  struct tu_trace_event *ring = (struct tu_trace_event *)(void *)((unsigned char *)head + TU_TRACE_HEAD_BYTES);
  return &ring[number % head->capacity];
}

static void take_places(struct tu_trace_head *head) {
  own.head = head;
  own.next = __atomic_fetch_add(&head->written, PLACES, __ATOMIC_RELAXED);
  own.end = own.next + PLACES;
  for (uint64_t i = own.next; i < own.end && own.end > head->capacity; i++)
    __atomic_store_n(&place_at(head, i)->kind, TU_TRACE_NONE, __ATOMIC_RELEASE);
}

/* Returns true if other threads have gone round the ring since this thread took its places: they may be others' now. */
static bool are_lost(const struct tu_trace_head *head) {
  return __atomic_load_n(&head->written, __ATOMIC_RELAXED) - own.next > head->capacity;
}

/* Returns where the event is; NULL: there is no trace. */
static struct tu_trace_event *record(const struct tu_trace_event *event) {
  struct tu_trace_head *head = get_head();
  if (!head) return NULL;
  if (own.head != head || own.next == own.end || are_lost(head)) take_places(head);
  struct tu_trace_event *place = place_at(head, own.next++);
  place->end_ns = event->end_ns;
  place->took_ns = event->took_ns;
  place->run = event->run;
  place->at = event->at;
  place->bytes = event->bytes;
  __atomic_store_n(&place->kind, event->kind, __ATOMIC_RELEASE);
  return place;
}

static void tell(struct tu_teller *t, uint32_t instruction, size_t bytes, bool last) {
  const uint64_t now = tu_clock_ns();
  t->latest = record(&(struct tu_trace_event){.end_ns = now,
                                              .took_ns = (uint32_t)tu_min(now - t->since_ns, UINT32_MAX),
                                              .run = t->run,
                                              .at = instruction,
                                              .kind = last ? TU_TRACE_LAST : TU_TRACE_STEP,
                                              .bytes = bytes});
  t->since_ns = now;
}

/* Returns the peer of a call that has ended, if only the message told it; otherwise TU_NONE. */
static uint32_t peer_of(const struct tu_execution *e) {
  return e->program->from_any && e->expected->receiver ? e->expected->receiver->peer : TU_NONE;
}

/* The end of a collective is noted in the event of its last instruction, if that is the latest. */
static void record_end(struct tu_execution *e, enum tu_trace_kind kind) {
  struct tu_teller *t = e->teller;
  struct tu_trace_event *latest = t->latest;
  if (kind == TU_TRACE_END && latest && latest->run == t->run && latest->kind == TU_TRACE_LAST &&
      !e->program->point_to_point)
    __atomic_store_n(&latest->kind, TU_TRACE_DONE, __ATOMIC_RELEASE);
  else
    record(&(struct tu_trace_event){
        .end_ns = tu_clock_ns(), .run = t->run, .at = peer_of(e), .kind = (uint32_t)kind, .bytes = (uint32_t)e->tag});
  t->run = 0;
}

/* A wait that is longer than an event can tell is several. */
static void record_wait(uint32_t run, uint32_t rank, uint64_t from, uint64_t until) {
  for (; until > from && until - from > UINT32_MAX; from += UINT32_MAX)
    record(&(struct tu_trace_event){
        .end_ns = from + UINT32_MAX, .took_ns = UINT32_MAX, .run = run, .at = rank, .kind = TU_TRACE_WAITED});
  record(&(struct tu_trace_event){.end_ns = until,
                                  .took_ns = (uint32_t)(until > from ? until - from : 0),
                                  .run = run,
                                  .at = rank,
                                  .kind = TU_TRACE_WAITED});
}

static bool poll_and_record(struct tu_execution *e) {
  if (!e->teller || e->teller->run == 0) return tu_execution_poll(e);
  e->teller->since_ns = tu_clock_ns();
  const bool moved = tu_execution_poll_and_tell(e);
  if (e->unfinished == 0 && !e->mismatch) record_end(e, TU_TRACE_END);
  return moved;
}

static bool is_recorded(const struct tu_transport *t) {
  return get_head() && t == __atomic_load_n(&trace.transport, __ATOMIC_RELAXED);
}

static void record_begin(struct tu_execution *e, uint64_t number) {
  struct tu_teller *t = e->teller;
  memset(t->told, 0, e->program->instruction_count * sizeof *t->told);
  while (t->run == 0) t->run = atomic_fetch_add_explicit(&trace.runs, 1, memory_order_relaxed) + 1;
  t->since_ns = tu_clock_ns();
  t->latest = NULL;
  record(&(struct tu_trace_event){
      .end_ns = t->since_ns, .run = t->run, .at = t->program, .kind = TU_TRACE_BEGIN, .bytes = number});
}

/* On the fast path a call begins with its first look: its first run has been recorded before, by tu_call_watch. */
static void look(struct tu_execution *e) {
  struct tu_teller *t = e->teller;
  if (t->run != 0) t->since_ns = tu_clock_ns();
  else if (e->head == 0 && t->program != 0 && is_recorded(e->mover->transport)) record_begin(e, e->tag >> 32);
}

static void end(struct tu_execution *e) { record_end(e, TU_TRACE_END); }

void tu_call_failed(struct tutti_request *r) {
  struct tu_execution *e = &r->execution;
  if (e->teller && e->teller->run != 0) record_end(e, TU_TRACE_FAILED);
}

/* ---- records ---- */

/* Writes all, or nothing. */
static bool write_at_end(const char *data, size_t bytes) {
  struct stat status;
  bool good = false;
  const int fd = trace.path ? open(trace.path, O_WRONLY | O_CLOEXEC) : -1;
  if (fd < 0) return false;
  if (fstat(fd, &status) == 0 && status.st_dev == trace.device && status.st_ino == trace.inode) {
    good = (size_t)pwrite(fd, data, bytes, status.st_size) == bytes;
    if (!good) (void)!ftruncate(fd, status.st_size);
  }
  close(fd);
  return good;
}

/* Appends a record. Returns false if there is no room. */
static bool append(enum tu_trace_record_kind kind, const void *data, size_t bytes) {
  static const char zeros[8];
  const struct tu_trace_record head = {(uint32_t)kind, (uint32_t)bytes};
  const size_t rest = tu_round_up(bytes, 8) - bytes, all = sizeof head + bytes + rest;
  char *whole = bytes < UINT32_MAX ? malloc(all) : NULL;
  if (!whole) return false;
  memcpy(whole, &head, sizeof head);
  memcpy(whole + sizeof head, data, bytes);
  memcpy(whole + sizeof head + bytes, zeros, rest);
  errno = EFBIG;
  const bool fits = trace.record_bytes + all <= trace.record_bytes_max, good = fits && write_at_end(whole, all);
  if (!good && !trace.full && tu_logs(TU_LOG_WARN))
    tu_log(TU_LOG_WARN, "trace", "there is no room for a record of %zu bytes: %s; some calls are not recorded", all,
           strerror(errno));
  trace.full = !good;
  trace.record_bytes += good ? all : 0;
  free(whole);
  return good;
}

/* Returns true if the communicator is recorded. */
static bool append_comm(const struct tutti_comm *comm) {
  const struct tu_control *control = &comm->mover->control;
  for (uint32_t i = 0; i < trace.comm_count; i++)
    if (trace.comms[i] == control->comm_id) return true;
  uint64_t *comms = tu_try_grow(trace.comms, trace.comm_count, &trace.comm_capacity, sizeof *comms);
  const size_t members = comm->ranks * sizeof *control->members;
  struct tu_trace_comm *c = tu_try_allocate(1, sizeof *c + members);
  if (comms) trace.comms = comms;
  if (!c || !comms) {
    free(c);
    return false;
  }
  *c = (struct tu_trace_comm){.id = control->comm_id, .rank = comm->rank, .ranks = comm->ranks};
  memcpy(c + 1, control->members, members);
  const bool good = append(TU_TRACE_COMM, c, sizeof *c + members);
  if (good) trace.comms[trace.comm_count++] = control->comm_id;
  free(c);
  return good;
}

static uint32_t lane_of(const struct tu_mover *mover, const struct tu_sender *s) {
  uint32_t lane = 0;
  while (lane < TU_MOVER_LANES && tu_mover_known_sender(mover, s->peer, lane) != s) lane++;
  return lane;
}

static struct tu_trace_message message_of(const struct tu_mover *mover, const struct tu_message *m) {
  return (struct tu_trace_message){.peer = m->sender ? m->sender->peer : m->receiver->peer,
                                   .lane = m->sender ? lane_of(mover, m->sender) : m->receiver->lane,
                                   .ordinal = m->ordinal,
                                   .sends = m->sender != NULL};
}

/* Fills in the steps of a program, and their messages. */
static void fill_steps(const struct tutti_request *r, struct tu_trace_step *steps, struct tu_trace_message *messages) {
  const struct tu_program *p = r->program;
  const struct tu_mover *mover = r->comm->mover;
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->instruction_count; i++) {
    const struct tu_instruction *ins = &p->instructions[i];
    steps[i] = (struct tu_trace_step){
        .bytes = ins->bytes, .kind = ins->kind, .message_first = count, .operands = ins->operand_count};
    for (uint32_t k = 0; k < ins->message_count; k++)
      messages[count++] = message_of(mover, &p->messages[ins->message_first + k]);
    for (uint32_t k = 0; k < ins->operand_count; k++)
      if (p->operands[ins->operand_first + k].message.ring != TU_NO_RING)
        messages[count++] = message_of(mover, &p->operands[ins->operand_first + k].message);
    steps[i].message_count = count - steps[i].message_first;
  }
}

static uint32_t count_messages(const struct tu_program *p) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->instruction_count; i++) count += p->instructions[i].message_count;
  for (uint32_t i = 0; i < p->operand_count; i++) count += p->operands[i].message.ring != TU_NO_RING;
  return count;
}

static void describe(const struct tutti_request *r, struct tu_trace_program *head) {
  const struct tu_program *p = r->program;
  const struct tu_build *b = &r->built;
  *head = (struct tu_trace_program){.comm = r->comm->mover->control.comm_id,
                                    .bytes = r->longest_bytes,
                                    .moved = p->moved_bytes,
                                    .number = trace.programs + 1,
                                    .step_count = p->instruction_count,
                                    .message_count = count_messages(p),
                                    .peer = p->point_to_point && !p->from_any ? r->signature.root : TU_NONE,
                                    .collective = r->signature.collective,
                                    .root = b->root,
                                    .slot_pieces = b->slot_pieces,
                                    .segments = b->segments,
                                    .lanes = b->lanes,
                                    .in_place = b->in_place,
                                    .canonical = b->canonical,
                                    .placed = b->placement != NULL,
                                    .built = b->algorithm != NULL};
  snprintf(head->algorithm, sizeof head->algorithm, "%s", r->algorithm ? r->algorithm->name : r->facts.plan_name);
  tu_facts_print(r->comm, &r->facts, head->call, sizeof head->call);
}

/* Records the program of a request. Returns its number; 0: it could not be recorded. */
static uint32_t append_program(const struct tutti_request *r) {
  struct tu_trace_program head;
  if (!append_comm(r->comm)) return 0;
  describe(r, &head);
  const size_t steps = head.step_count * sizeof(struct tu_trace_step);
  const size_t messages = head.message_count * sizeof(struct tu_trace_message);
  const size_t bytes = sizeof head + steps + messages;
  unsigned char *data = tu_try_allocate(1, bytes);
  if (!data) return 0;
  memcpy(data, &head, sizeof head);
  fill_steps(r, (struct tu_trace_step *)(void *)(data + sizeof head),
             (struct tu_trace_message *)(void *)(data + sizeof head + steps));
  const bool good = append(TU_TRACE_PROGRAM, data, bytes);
  free(data);
  trace.programs += good;
  return good ? head.number : 0;
}

/* ---- calls ---- */

static void log_call(const struct tutti_request *r) {
  char text[280];
  tu_facts_print(r->comm, &r->facts, text, sizeof text);
  tu_log(TU_LOG_DEBUG, "call", "communicator %llx, collective %llu: %s",
         (unsigned long long)r->comm->mover->control.comm_id, (unsigned long long)r->number, text);
}

/* Gives the request a teller, and records its program. Returns false if there is no room for that. */
static bool prepare(struct tutti_request *r) {
  struct tu_teller **t = &r->execution.teller;
  if (!*t) *t = tu_try_allocate(1, sizeof **t + r->program->instruction_count * sizeof *(*t)->told);
  if (!*t) return false;
  (*t)->tell = tell;
  (*t)->look = look;
  (*t)->end = end;
  (*t)->run = 0;
  if ((*t)->program != 0) return true;
  pthread_mutex_lock(&trace.lock);
  (*t)->program = append_program(r);
  pthread_mutex_unlock(&trace.lock);
  return (*t)->program != 0;
}

void tu_call_watch(struct tutti_request *r) {
  if (tu_logs(TU_LOG_DEBUG)) log_call(r);
  struct tu_trace_head *head = get_head();
  if (!head || !is_recorded(r->comm->transport)) return;
  if (prepare(r)) record_begin(&r->execution, r->program->point_to_point ? r->tag : r->number);
  else __atomic_fetch_add(&head->left_out, 1, __ATOMIC_RELAXED);
}

void tu_trace_start(void) {
  const bool traced = get_head() != NULL;
  tu_calls_are_watched = traced || tu_logs(TU_LOG_DEBUG);
  tu_poll_execution = traced ? poll_and_record : tu_execution_poll;
  tu_when_waited = traced ? record_wait : NULL;
}
