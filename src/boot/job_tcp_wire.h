/* job_tcp_wire.h: what the files of job_tcp share: the messages of the star, secrets and users, and waiting with a deadline.
 *
 * The star's talk, in four steps before a rank is let in:
 *   1. the rank calls, with a nonce;
 *   2. rank 0 answers with a nonce of its own and a proof that it knows the job's secret;
 *   3. the rank says hello, with its proof;
 *   4. rank 0 sends WELCOME.
 * Then, for each allgather, every rank sends DATA with what it brings, and rank 0 sends all of them DATA with all of it.
 * From step 4 on either side may send FAILED instead, with the sentence; rank 0 passes it to all. The secret never
 * travels: a proof is an HMAC over the prover's role, both nonces, rank and ranks. Before step 2, and before it believes
 * step 2, each side asks the kernel whose process is at the other end. Messages are little-endian, as every machine that
 * this runs on, and of fixed size, but for the bytes that follow a DATA. */
#ifndef TU_JOB_TCP_WIRE_H
#define TU_JOB_TCP_WIRE_H

#include <sys/types.h>

#include "boot/job_tcp.h"

#define TU_BOOT_MAGIC "tuttijn"
enum { TU_BOOT_VERSION = 3, TU_BOOT_JOIN_MS = 60000, TU_BOOT_NONCE_BYTES = 32, TU_BOOT_PROOF_BYTES = 32 };

/* Step 1. Nothing in it is of value: who listens is not known yet. */
struct tu_boot_call {
  char magic[8];
  uint32_t version;
  uint32_t rank, ranks;
  uint32_t has_secret; /* for the sentence alone, here and in the answer */
  uint8_t nonce[TU_BOOT_NONCE_BYTES];
};

/* The last two: refused before any proof, as another user's, or because the kernel does not say whose it is. */
enum tu_boot_reply { TU_BOOT_PROVES = 1, TU_BOOT_OTHER_USER, TU_BOOT_USER_NOT_TOLD };

/* Step 2. */
struct tu_boot_answer {
  char magic[8];
  uint32_t version;
  uint32_t reply;
  uint32_t uid; /* OTHER_USER: whose the connection is, as rank 0's kernel says */
  uint32_t has_secret;
  uint8_t nonce[TU_BOOT_NONCE_BYTES]; /* PROVES only, as the next */
  uint8_t proof[TU_BOOT_PROOF_BYTES];
};

/* Step 3. */
struct tu_boot_hello {
  char magic[8];
  uint32_t pid;
  uint32_t timeout_ms, left_ms; /* the rank's whole patience and what is left of it: rank 0 keeps the shortest */
  uint32_t reserved;
  uint64_t host;
  char hostname[64];
  uint8_t proof[TU_BOOT_PROOF_BYTES];
};

enum tu_boot_kind { TU_BOOT_WELCOME = 1, TU_BOOT_DATA, TU_BOOT_FAILED };

struct tu_boot_note {
  char magic[8];
  uint32_t kind;
  uint32_t code;  /* FAILED: a tutti_err */
  uint64_t bytes; /* DATA: of what follows */
  char text[512];
};

/* A connection that notes come in on, perhaps in pieces. */
struct tu_boot_line {
  int fd;
  size_t got, body_got; /* of the note, and of what follows it */
  struct tu_boot_note note;
};

enum tu_boot_taken { TU_BOOT_NOT_YET, TU_BOOT_TAKEN, TU_BOOT_GONE };

/* What this process says of itself, without the proof. */
void tu_boot_hello_init(struct tu_boot_hello *hello, int timeout_ms);

/* Receives what has come of a message of this size without blocking; *got counts, and begins at 0. TAKEN: it is whole. GONE: the
 * other end closed or died, or sent what does not begin with the magic word. */
enum tu_boot_taken tu_boot_receive(int fd, void *message, size_t bytes, size_t *got);
/* Takes what has come without blocking. TAKEN: line->note holds a whole note. GONE: the other end closed or died, or
 * sent what is no note. */
enum tu_boot_taken tu_boot_take(struct tu_boot_line *line);
/* The same with what follows a DATA, into `body`. GONE also if that is not of so many bytes. */
enum tu_boot_taken tu_boot_take_data(struct tu_boot_line *line, void *body, size_t bytes);
/* False if the other end is gone. For notes alone: they are few and small, so they fit the socket's buffer. */
bool tu_boot_send(int fd, const void *data, size_t bytes);
/* Sends a DATA and what follows it; waits for room until the deadline, or until something comes in. False: not all was sent. */
bool tu_boot_send_data(int fd, const void *body, size_t bytes, uint64_t deadline_ns);
void tu_boot_note_init(struct tu_boot_note *note, enum tu_boot_kind kind, const struct tu_error *error);

void tu_boot_close(int *fd); /* closes unless < 0, and sets -1 */

/* ---- secrets ---- */

enum { TU_BOOT_SECRET_BYTES_MAX = 1024 };

struct tu_boot_secret {
  size_t bytes; /* 0: the job has none */
  uint8_t value[TU_BOOT_SECRET_BYTES_MAX];
};
/* `given`, or if that is NULL TUTTI_SECRET, or the file that TUTTI_SECRET_FILE names. ENVIRONMENT if both are set, or the file is
 * not the user's alone, or the secret is empty or too long. The caller wipes it. */
tutti_err tu_boot_secret_read(const char *given, struct tu_boot_secret *secret, struct tu_error *error);
void tu_boot_secret_wipe(struct tu_boot_secret *secret);

enum tu_boot_role { TU_BOOT_ROLE_HOST, TU_BOOT_ROLE_JOINER }; /* rank 0, and any other */

void tu_boot_nonce(uint8_t nonce[TU_BOOT_NONCE_BYTES]); /* random; only after a secret was read */
void tu_boot_prove(const struct tu_boot_secret *secret, enum tu_boot_role role, const struct tu_boot_call *call,
                   const uint8_t host_nonce[TU_BOOT_NONCE_BYTES], uint8_t proof[TU_BOOT_PROOF_BYTES]);
/* Is the proof right? Takes the same time wherever it is wrong. */
bool tu_boot_proven(const struct tu_boot_secret *secret, enum tu_boot_role role, const struct tu_boot_call *call,
                    const uint8_t host_nonce[TU_BOOT_NONCE_BYTES], const uint8_t proof[TU_BOOT_PROOF_BYTES]);

/* ---- users ---- */

enum tu_boot_user {
  TU_BOOT_USER_KNOWN,     /* the other end is a live socket of this host: *uid is its owner */
  TU_BOOT_USER_ELSEWHERE, /* the other end's address is none of this host */
  TU_BOOT_USER_UNKNOWN /* the address is of this host, but the socket is closed already, or the kernel does not tell */
};
/* Whose process is at the other end of this TCP connection? The kernel's word, not the other end's. An end that listens is
 * known once its process has accepted the connection. */
enum tu_boot_user tu_boot_peer_user(int fd, uid_t *uid);
/* The same from /proc/net/tcp alone, which is read where the kernel has no sock_diag: linear in the sockets of the host. */
enum tu_boot_user tu_boot_peer_user_proc(int fd, uid_t *uid);

/* ---- both sides ---- */

/* "address:port". */
void tu_boot_place_name(const struct tu_boot_place *place, char *name, size_t bytes);
struct addrinfo;
/* What the address stands for; freeaddrinfo() frees it. ENVIRONMENT. */
tutti_err tu_boot_resolve(const struct tu_boot_place *place, bool passive, struct addrinfo **found,
                          struct tu_error *error);
/* A connected socket, or -1 and errno. */
int tu_boot_connect(const struct addrinfo *at, uint64_t deadline_ns);
/* Two notes in a row must not wait for an acknowledgement of the first, which the kernel may delay by 40 ms. */
void tu_boot_send_at_once(int fd);
/* The failure that a note from the other end reports; `who` stands before its sentence. */
tutti_err tu_boot_fail_as_told(const struct tu_boot_note *note, const char *who, struct tu_error *error);

tutti_err tu_job_tcp_create_root(const struct tu_boot_place *place, int timeout_ms, struct tu_job **job,
                                 struct tu_error *error);
tutti_err tu_job_tcp_create_joiner(const struct tu_boot_place *place, int timeout_ms, struct tu_job **job,
                                   struct tu_error *error);

#endif
