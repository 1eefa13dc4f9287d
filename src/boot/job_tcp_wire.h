/* job_tcp_wire.h: declarations shared by the files of job_tcp: the messages between rank 0 and the other ranks,
 * secrets, users, sockets.
 *
 * A rank joins in four steps:
 *
 *   1. the rank sends a call, with a nonce;
 *   2. rank 0 sends an answer, with its own nonce and a proof that it knows the job's secret;
 *   3. the rank sends a hello, with its own proof;
 *   4. rank 0 sends the note WELCOME.
 *
 * For each allgather, every rank then sends a DATA note and its bytes, and rank 0 sends every rank a DATA note and the
 * bytes of all. From step 4 on, either side may send a FAILED note with an error message instead. Rank 0 forwards such
 * a note to all ranks.
 *
 * The secret itself is never sent. A proof is an HMAC with the secret as key, over the prover's role, both nonces and
 * rounds, the rank and the number of ranks. Each side also asks the kernel for the user at the other end: rank 0 before it sends
 * the answer, the rank before it accepts the answer.
 *
 * Messages are little-endian, as all supported machines are. They have fixed sizes, except for the bytes that follow a
 * DATA note. */
#ifndef TU_JOB_TCP_WIRE_H
#define TU_JOB_TCP_WIRE_H

#include <sys/socket.h>
#include <sys/types.h>

#include "boot/job_tcp.h"

#define TU_BOOT_MAGIC "tuttijn"
enum { TU_BOOT_VERSION = 5, TU_BOOT_JOIN_MS = 60000, TU_BOOT_NONCE_BYTES = 32, TU_BOOT_PROOF_BYTES = 32 };

/* Call, the first message of a joining rank (step 1 above). The call contains nothing secret, since any process may be
 * listening at the address. */
struct tu_boot_call {
  char magic[8];
  uint32_t version;
  uint32_t rank, ranks;
  uint32_t has_secret; /* 1: the sender has a secret. Used for error messages only. */
  uint32_t to;         /* rank that is called: 0, or for connections between hosts the other rank */
  uint32_t reserved;
  struct tu_boot_round round;
  uint8_t nonce[TU_BOOT_NONCE_BYTES];
};

/* Kind of answer. The last two kinds are refusals without a proof: the rank belongs to another user, or its user is
 * unknown. */
enum tu_boot_reply { TU_BOOT_PROVES = 1, TU_BOOT_OTHER_USER, TU_BOOT_USER_NOT_TOLD };

/* Rank 0's answer to a call, with its proof or a refusal (step 2 above). */
struct tu_boot_answer {
  char magic[8];
  uint32_t version;
  uint32_t reply;
  uint32_t uid; /* for TU_BOOT_OTHER_USER: user of the rank's process, as the kernel of rank 0's host reports it */
  uint32_t has_secret;
  struct tu_boot_round round;         /* rank 0's round; if it is not that of the call, rank 0 refuses the rank */
  uint8_t nonce[TU_BOOT_NONCE_BYTES]; /* rank 0's nonce; only for TU_BOOT_PROVES */
  uint8_t proof[TU_BOOT_PROOF_BYTES]; /* rank 0's proof; only for TU_BOOT_PROVES */
};

/* Hello, the second message of a joining rank, with its proof (step 3 above). */
struct tu_boot_hello {
  char magic[8];
  uint32_t pid;
  /* the rank's time limit in ms, or TUTTI_NO_TIMEOUT; rank 0 adopts the earliest deadline of all ranks */
  int32_t timeout_ms;
  uint32_t left_ms; /* what was left of the time limit when the rank sent the hello, in ms */
  uint32_t reserved;
  uint64_t host;
  char hostname[64];
  uint8_t proof[TU_BOOT_PROOF_BYTES];
};

enum tu_boot_kind { TU_BOOT_WELCOME = 1, TU_BOOT_DATA, TU_BOOT_FAILED };

struct tu_boot_note {
  char magic[8];
  uint32_t kind;  /* kind of the note, an enum tu_boot_kind */
  uint32_t code;  /* for a FAILED note: the error, a tutti_err */
  uint64_t bytes; /* for a DATA note: number of bytes that follow the note */
  char text[512]; /* for a FAILED note: the error message */
};

/* A connection between rank 0 and a rank that joins. Notes (messages after the hello) arrive on it, perhaps in
 * pieces. */
struct tu_boot_line {
  int fd;
  size_t got, body_got; /* number of bytes received of the note, and of the data that follows the note */
  struct tu_boot_note note;
};

enum tu_boot_taken { TU_BOOT_NOT_YET, TU_BOOT_TAKEN, TU_BOOT_GONE };

/* Fills in the hello (second message of a joining rank) of this process, except for the proof. */
void tu_boot_hello_init(struct tu_boot_hello *hello, int timeout_ms);

enum { TU_BOOT_ROUND_CHARS = 96 };
bool tu_boot_same_round(const struct tu_boot_round *a, const struct tu_boot_round *b);
/* Writes "restart 1 of run 'x'". */
void tu_boot_round_name(const struct tu_boot_round *round, char name[TU_BOOT_ROUND_CHARS]);

/* Receives the next part of a message of this size without blocking. *got counts the bytes received; it starts at 0.
 * TAKEN: the message is complete. GONE: the other end closed or died, or the message does not begin with
 * TU_BOOT_MAGIC. */
enum tu_boot_taken tu_boot_receive(int fd, void *message, size_t bytes, size_t *got);
/* Receives the next part of a note (a message header) without blocking. TAKEN: line->note is complete. GONE: the other
 * end closed or died, or sent something that is no note. */
enum tu_boot_taken tu_boot_take(struct tu_boot_line *line);
/* Does what tu_boot_take does, and also receives the bytes that follow a DATA note into `body`. Returns GONE also if
 * the note announces another number of bytes than `bytes`. */
enum tu_boot_taken tu_boot_take_data(struct tu_boot_line *line, void *body, size_t bytes);
/* Sends a message without blocking. Returns false if not all of it was sent, because the other end is gone. Only for
 * messages of fixed size: they are few and small, so they always fit into the socket's buffer. */
bool tu_boot_send(int fd, const void *data, size_t bytes);
/* Sends a DATA note (message header) and `body`. If the socket's buffer is full, waits for space until the deadline
 * passes or data comes in. Returns false if not all was sent. */
bool tu_boot_send_data(int fd, const void *body, size_t bytes, uint64_t deadline_ns);
/* Fills in a note (a message header); `error` is the error of a FAILED note, else NULL. */
void tu_boot_note_init(struct tu_boot_note *note, enum tu_boot_kind kind, const struct tu_error *error);

/* Closes *fd unless it is negative, and sets it to -1. */
void tu_boot_close(int *fd);

/* ---- secrets ---- */

enum { TU_BOOT_SECRET_BYTES_MAX = 1024 };

struct tu_boot_secret {
  size_t bytes; /* 0: the job has no secret */
  uint8_t value[TU_BOOT_SECRET_BYTES_MAX];
};
/* Reads the job's secret. It is `given`; if `given` is NULL, it is the value of TUTTI_SECRET or the content of the file
 * that TUTTI_SECRET_FILE names. Returns TUTTI_ERR_ENVIRONMENT if both variables are set, if other users may access the
 * file, or if the secret is empty or too long. The caller wipes *secret. */
tutti_err tu_boot_secret_read(const char *given, struct tu_boot_secret *secret, struct tu_error *error);
void tu_boot_secret_wipe(struct tu_boot_secret *secret);

/* Which side of the connection makes a proof: rank 0 (HOST), or another rank (JOINER). */
enum tu_boot_role { TU_BOOT_ROLE_HOST, TU_BOOT_ROLE_JOINER };

/* Makes a random nonce. tu_boot_secret_read must be called first, because it initialises libsodium. */
void tu_boot_nonce(uint8_t nonce[TU_BOOT_NONCE_BYTES]);
/* Makes the proof that this process has the secret, for one call (first message of a join) and rank 0's nonce and round,
 * which are in the answer. */
void tu_boot_prove(const struct tu_boot_secret *secret, enum tu_boot_role role, const struct tu_boot_call *call,
                   const struct tu_boot_answer *answer, uint8_t proof[TU_BOOT_PROOF_BYTES]);
/* Stores a hash of the secret in the job; zeros if there is no secret. */
void tu_boot_secret_hash(const struct tu_boot_secret *secret, uint8_t hash[TU_JOB_SECRET_BYTES]);
/* Returns true if the proof of knowing the secret is right. The comparison takes constant time. */
bool tu_boot_proven(const struct tu_boot_secret *secret, enum tu_boot_role role, const struct tu_boot_call *call,
                    const struct tu_boot_answer *answer, const uint8_t proof[TU_BOOT_PROOF_BYTES]);

/* ---- users ---- */

enum tu_boot_user {
  TU_BOOT_USER_KNOWN,     /* the other end is a live socket of this host: *uid is its owner */
  TU_BOOT_USER_ELSEWHERE, /* the other end's address is not an address of this host */
  /* The address is of this host, but the socket is closed, or the kernel does not report its owner. */
  TU_BOOT_USER_UNKNOWN
};
/* Asks the kernel for the user of the process at the other end of a TCP connection. If the other end belongs to a
 * listening process, its user is reported only once that process has accepted the connection. */
enum tu_boot_user tu_boot_peer_user(int fd, uid_t *uid);
/* Does what tu_boot_peer_user does, but reads only /proc/net/tcp, in time linear in the number of the host's sockets.
 * For kernels without sock_diag. */
enum tu_boot_user tu_boot_peer_user_proc(int fd, uid_t *uid);

/* ---- connecting ---- */

/* Writes "address:port". */
void tu_boot_address_name(const struct tu_boot_identity *identity, char *name, size_t bytes);

enum { TU_BOOT_PLACES_MAX = 64 };
struct tu_boot_place {
  struct sockaddr_storage address;
  socklen_t bytes;
};
/* Addresses at which rank 0 may listen: those of a host name, or of a list. */
struct tu_boot_places {
  uint32_t count;
  bool is_list; /* true: the job's address is a list of addresses or names */
  bool is_name; /* true: the first entry is a name, and no address */
  struct tu_boot_place at[TU_BOOT_PLACES_MAX];
};
/* Resolves the address of rank 0 in `identity`: an address, a host name, or a list of these with commas. In a list, IPv6
 * addresses may have brackets, and names that cannot be resolved are left out if others can. Error:
 * TUTTI_ERR_ENVIRONMENT. */
tutti_err tu_boot_resolve(const struct tu_boot_identity *identity, struct tu_boot_places *places,
                          struct tu_error *error);
/* Returns a connected socket, or -1 and sets errno. */
int tu_boot_connect(const struct tu_boot_place *at, uint64_t deadline_ns);
/* Writes the address without its port. */
void tu_boot_place_name(const struct tu_boot_place *at, char name[64]);
/* Stores the local address of a connection; an IPv4 address in the form of IPv6 as IPv4. Family AF_UNSPEC: the connection
 * is closed. */
void tu_boot_local_address(int fd, struct sockaddr_storage *address);
/* Sets TCP_NODELAY. Otherwise the second of two messages in a row would wait for the acknowledgement of the first,
 * which the kernel may delay by 40 ms. */
void tu_boot_send_at_once(int fd);
/* Sets *error to the error that a FAILED note (message) contains, with the text `who` before the note's text. Returns
 * the error's code. */
tutti_err tu_boot_fail_as_told(const struct tu_boot_note *note, const char *who, struct tu_error *error);

tutti_err tu_job_tcp_create_root(const struct tu_boot_identity *identity, int timeout_ms, struct tu_job **job,
                                 struct tu_error *error);
tutti_err tu_job_tcp_create_joiner(const struct tu_boot_identity *identity, int timeout_ms, struct tu_job **job,
                                   struct tu_error *error);

#endif
