/* boot_wire.h: what the files of boot/ share: the messages of the star, and waiting with a deadline.
 *
 * The star's talk: a rank sends a hello; rank 0 answers WELCOME at once, START when all are there (with the offer of
 * the memory), and GO when all have the memory. Ranks answer START with HAVE. Either side may send FAILED instead, with
 * the sentence; rank 0 passes it to all. Messages are of fixed size, little-endian as every machine that this runs on. */
#ifndef TU_BOOT_WIRE_H
#define TU_BOOT_WIRE_H

#include "boot/boot.h"

#define TU_BOOT_MAGIC "tuttijn"
enum { TU_BOOT_VERSION = 1, TU_BOOT_JOIN_MS = 60000 };

struct tu_boot_hello {
  char magic[8];
  uint32_t version;
  uint32_t rank, ranks;
  uint32_t uid;
  uint32_t pid;
  uint32_t timeout_ms, left_ms; /* the rank's whole patience and what is left of it: rank 0 keeps the shortest */
  uint32_t reserved;
  uint64_t host;
  char hostname[64];
  char secret[128]; /* zero-padded, so that it can be compared without telling its length by time */
};

/* Where a rank gets the memory and what it must show there. */
struct tu_boot_offer {
  uint64_t slice_bytes;
  char socket[32]; /* name in the abstract namespace, zero-padded */
  uint8_t token[16];
};

enum tu_boot_kind { TU_BOOT_WELCOME = 1, TU_BOOT_START, TU_BOOT_HAVE, TU_BOOT_GO, TU_BOOT_FAILED };

struct tu_boot_note {
  char magic[8];
  uint32_t kind;
  uint32_t code; /* FAILED: a tutti_err */
  struct tu_boot_offer offer;
  char text[512];
};

/* A connection that notes come in on, perhaps in pieces. */
struct tu_boot_line {
  int fd;
  size_t got;
  struct tu_boot_note note;
};

enum tu_boot_taken { TU_BOOT_NOT_YET, TU_BOOT_TAKEN, TU_BOOT_GONE };

/* What this process says of itself. */
void tu_boot_hello_init(struct tu_boot_hello *hello, const struct tu_boot_place *place, int timeout_ms);

/* Takes what has come without blocking. TAKEN: line->note holds a whole note. GONE: the other end closed or died, or
 * sent what is no note. */
enum tu_boot_taken tu_boot_take(struct tu_boot_line *line);
/* False if the other end is gone. Notes are few and small, so they always fit the socket's buffer. */
bool tu_boot_send(int fd, const void *data, size_t bytes);
void tu_boot_note_init(struct tu_boot_note *note, enum tu_boot_kind kind, const struct tu_error *error);

/* Milliseconds until the deadline, rounded up, 0 if it has passed; fits poll(). */
int tu_boot_left_ms(uint64_t deadline_ns);
void tu_boot_close(int *fd);                                    /* closes unless < 0, and sets -1 */
bool tu_boot_equal(const void *a, const void *b, size_t bytes); /* in constant time */

/* ---- memory ---- */

/* Makes the sealed memfd for `ranks` ranks and fills *share. */
tutti_err tu_boot_memory_make(uint32_t ranks, struct tu_boot_share *share, struct tu_error *error);
/* Opens the socket that hands the memory out and fills *offer. */
tutti_err tu_boot_memory_listen(size_t slice_bytes, struct tu_boot_offer *offer, int *listener, struct tu_error *error);
/* Does this connection come from our own user? */
bool tu_boot_memory_same_user(int fd);
/* Answers one readable connection: true and *rank if it showed the token and was given the memory. */
bool tu_boot_memory_give(int fd, const struct tu_boot_offer *offer, int memory_fd, uint32_t *rank);
/* Fetches and verifies the memory. Returns early, with PEER, when something comes in on `line_fd` (a verdict). */
tutti_err tu_boot_memory_take(const struct tu_boot_place *place, const struct tu_boot_offer *offer, int line_fd,
                              uint64_t deadline_ns, struct tu_boot_share *share, struct tu_error *error);

#endif
