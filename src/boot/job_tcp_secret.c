/* job_tcp_secret.c: reads the job's secret, and makes and checks proofs that a process knows it (HMAC-SHA-256 of
 * libsodium). */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "boot/job_tcp_wire.h"

_Static_assert(TU_BOOT_PROOF_BYTES == crypto_auth_hmacsha256_BYTES, "a proof is one HMAC");

/* Returns an error if the secret's file is not a regular file, or if users other than this process's user can access
 * it. Checks the open descriptor instead of the path, which may name another file by now. */
static tutti_err check_file(int fd, const char *path, struct tu_error *error) {
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_SECRET_FILE names '%.200s'; expected a regular file", path);
  }
  if (status.st_uid != geteuid()) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "TUTTI_SECRET_FILE names '%.200s', which belongs to uid %u: expected a file of this process's user, "
                   "uid %u",
                   path, (unsigned)status.st_uid, (unsigned)geteuid());
  }
  if (status.st_mode & (S_IRWXG | S_IRWXO)) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "TUTTI_SECRET_FILE names '%.200s', which other users may access (mode %03o): run chmod 600 on it",
                   path, (unsigned)(status.st_mode & 0777));
  }
  return TUTTI_OK;
}

/* Reads the secret from an open file. One newline at the end of the file is ignored, since editors add it. */
static tutti_err read_opened(int fd, const char *path, struct tu_boot_secret *secret, struct tu_error *error) {
  /* Space for the longest secret, a newline, and one byte that shows that the file is longer. */
  uint8_t bytes[TU_BOOT_SECRET_BYTES_MAX + 2];
  size_t count = 0;
  ssize_t n = 1;
  while (n > 0 && count < sizeof bytes) {
    n = read(fd, bytes + count, sizeof bytes - count);
    if (n < 0 && errno == EINTR) n = 1;
    else if (n > 0) count += (size_t)n;
  }
  tutti_err err = TUTTI_OK;
  if (n < 0) err = tu_fail_errno(error, "cannot read '%.200s', which TUTTI_SECRET_FILE names", path);
  if (err == TUTTI_OK && count > 0 && bytes[count - 1] == '\n') count--;
  if (err == TUTTI_OK && (count == 0 || count > TU_BOOT_SECRET_BYTES_MAX)) {
    err = tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                  "the file '%.200s', which TUTTI_SECRET_FILE names, is %s; expected 1 to %d bytes", path,
                  count ? "too long" : "empty", TU_BOOT_SECRET_BYTES_MAX);
  }
  if (err == TUTTI_OK) {
    secret->bytes = count;
    memcpy(secret->value, bytes, count);
  }
  sodium_memzero(bytes, sizeof bytes);
  return err;
}

static tutti_err read_file(const char *path, struct tu_boot_secret *secret, struct tu_error *error) {
  /* O_NONBLOCK: otherwise open() of a FIFO without a writer would block. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_SECRET_FILE names '%.200s', which cannot be opened: %s", path,
                   strerror(errno));
  }
  tutti_err err = check_file(fd, path, error);
  if (err == TUTTI_OK) err = read_opened(fd, path, secret, error);
  close(fd);
  return err;
}

tutti_err tu_boot_secret_read(const char *given, struct tu_boot_secret *secret, struct tu_error *error) {
  secret->bytes = 0;
  if (sodium_init() < 0) return tu_fail(error, TUTTI_ERR_SYSTEM, "libsodium: sodium_init failed");
  const char *value = tu_env("TUTTI_SECRET"), *path = tu_env("TUTTI_SECRET_FILE");
  if (given) value = given, path = NULL;
  if (given && !*given)
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                   "the secret of tutti_options is empty; expected 1 to %d characters, or NULL",
                   TU_BOOT_SECRET_BYTES_MAX);
  if (value && path) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "TUTTI_SECRET and TUTTI_SECRET_FILE are both set: set one of them");
  }
  if (path) return read_file(path, secret, error);
  if (!value) return TUTTI_OK;
  size_t bytes = strlen(value);
  if (bytes > sizeof secret->value) {
    return tu_fail(error, TUTTI_ERR_ENVIRONMENT, "%s has %zu characters; expected at most %zu",
                   given ? "the secret of tutti_options" : "TUTTI_SECRET", bytes, sizeof secret->value);
  }
  memcpy(secret->value, value, bytes);
  secret->bytes = bytes;
  return TUTTI_OK;
}

void tu_boot_secret_hash(const struct tu_boot_secret *secret, uint8_t hash[TU_JOB_SECRET_BYTES]) {
  memset(hash, 0, TU_JOB_SECRET_BYTES);
  if (secret->bytes > 0) (void)crypto_generichash(hash, TU_JOB_SECRET_BYTES, secret->value, secret->bytes, NULL, 0);
}

void tu_boot_secret_wipe(struct tu_boot_secret *secret) { sodium_memzero(secret, sizeof *secret); }

void tu_boot_nonce(uint8_t nonce[TU_BOOT_NONCE_BYTES]) { randombytes_buf(nonce, TU_BOOT_NONCE_BYTES); }

/* The text that a proof authenticates. The text contains the prover's role, so that neither side can send back the
 * other side's proof as its own. All fields have fixed sizes. Otherwise different values of the fields could give the
 * same text. */
struct proven {
  char role[16];
  uint32_t version, rank, ranks, to;
  struct tu_boot_round joiner_round, host_round;
  uint8_t joiner_nonce[TU_BOOT_NONCE_BYTES], host_nonce[TU_BOOT_NONCE_BYTES];
};
_Static_assert(sizeof(struct proven) == 224, "no padding");

void tu_boot_prove(const struct tu_boot_secret *secret, enum tu_boot_role role, const struct tu_boot_call *call,
                   const struct tu_boot_answer *answer, uint8_t proof[TU_BOOT_PROOF_BYTES]) {
  struct proven text = {.version = TU_BOOT_VERSION, .rank = call->rank, .ranks = call->ranks, .to = call->to};
  const char *label = role == TU_BOOT_ROLE_HOST ? "tutti rank 0" : "tutti joiner";
  memcpy(text.role, label, strlen(label));
  memcpy(text.joiner_nonce, call->nonce, sizeof text.joiner_nonce);
  memcpy(text.host_nonce, answer->nonce, sizeof text.host_nonce);
  text.joiner_round = call->round;
  text.host_round = answer->round;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, secret->value, secret->bytes);
  crypto_auth_hmacsha256_update(&state, (const unsigned char *)&text, sizeof text);
  crypto_auth_hmacsha256_final(&state, proof);
  sodium_memzero(&state, sizeof state);
}

bool tu_boot_proven(const struct tu_boot_secret *secret, enum tu_boot_role role, const struct tu_boot_call *call,
                    const struct tu_boot_answer *answer, const uint8_t proof[TU_BOOT_PROOF_BYTES]) {
  uint8_t expected[TU_BOOT_PROOF_BYTES];
  tu_boot_prove(secret, role, call, answer, expected);
  bool right = sodium_memcmp(expected, proof, sizeof expected) == 0;
  sodium_memzero(expected, sizeof expected);
  return right;
}
