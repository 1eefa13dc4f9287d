/* job_carried.c: rank 0 reserves a port and makes a secret; the launcher carries both to all ranks. The text is
 * PORT;SECRET;ADDRESSES or, if rank 0 fails, ;CODE;MESSAGE. */
#include "boot/job_carried.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "boot/job_address.h"
#include "boot/pmi.h"
#include "boot/pmix.h"

enum { SECRET_BYTES = 32 };
/* PMI stores at least 1024 bytes for a key, of which an encoded text of this length takes less. */
enum { TEXT = 640 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  bool known;
  char text[TEXT];
  char secret[2 * SECRET_BYTES + 1];
} carried;

static tutti_err write_text(const struct tu_boot_identity *identity, char *text, struct tu_error *error) {
  char secret[2 * SECRET_BYTES + 1] = "", addresses[TEXT - sizeof secret - 16];
  uint8_t random[SECRET_BYTES];
  uint16_t port = 0;
  const bool given = identity->secret || tu_env("TUTTI_SECRET") || tu_env("TUTTI_SECRET_FILE");
  if (sodium_init() < 0) return tu_fail(error, TUTTI_ERR_SYSTEM, "libsodium: sodium_init failed");
  tutti_err err = tu_boot_addresses(addresses, sizeof addresses, error);
  if (err != TUTTI_OK) return err;
  /* The socket stays open as long as the process, and later worlds of the process use the same port. */
  if (tu_boot_reserve(false, 0, &port) < 0) return tu_fail_errno(error, "rank 0 cannot reserve a port");
  randombytes_buf(random, sizeof random);
  if (!given) sodium_bin2hex(secret, sizeof secret, random, sizeof random);
  snprintf(text, TEXT, "%u;%s;%s", port, secret, addresses);
  sodium_memzero(random, sizeof random);
  return TUTTI_OK;
}

static tutti_err fetch(const struct tu_boot_identity *identity, int timeout_ms, struct tu_error *error) {
  struct tu_error own = {0};
  tutti_err mine = TUTTI_OK;
  if (identity->rank == 0) mine = write_text(identity, carried.text, &own);
  if (mine != TUTTI_OK) snprintf(carried.text, TEXT, ";%d;%.200s", (int)mine, own.text);
  tutti_err err = identity->carrier == TU_CARRIER_PMI ? tu_pmi_carry(identity, carried.text, TEXT, timeout_ms, error)
                                                      : tu_pmix_carry(identity, carried.text, TEXT, timeout_ms, error);
  if (mine == TUTTI_OK) return err;
  *error = own;
  return mine;
}

/* Fills in the identity from the text. */
static tutti_err read_text(struct tu_boot_identity *identity, struct tu_error *error) {
  const char *secret = strchr(carried.text, ';'), *addresses = secret ? strchr(secret + 1, ';') : NULL;
  char number[8] = "";
  uint64_t port;
  if (secret && addresses && secret == carried.text)
    return tu_fail(error, (tutti_err)atoi(secret + 1), "rank 0: %s", addresses + 1);
  if (secret) snprintf(number, sizeof number, "%.*s", (int)(secret - carried.text), carried.text);
  if (!addresses || !addresses[1] || !tu_parse_uint(number, UINT16_MAX, &port) || port == 0 ||
      (size_t)(addresses - secret - 1) >= sizeof carried.secret)
    return tu_fail(
        error, TUTTI_ERR_PEER,
        "the launcher carried a text of %zu bytes that is not from rank 0 of this library: all ranks need the "
        "same build",
        strlen(carried.text));
  snprintf(carried.secret, sizeof carried.secret, "%.*s", (int)(addresses - secret - 1), secret + 1);
  snprintf(identity->address, sizeof identity->address, "%s", addresses + 1);
  identity->port = (uint16_t)port;
  identity->reserved = true;
  if (!identity->secret && *carried.secret) identity->secret = carried.secret;
  return TUTTI_OK;
}

tutti_err tu_job_carry(struct tu_boot_identity *identity, int timeout_ms, struct tu_error *error) {
  pthread_mutex_lock(&lock);
  tutti_err err = carried.known ? TUTTI_OK : fetch(identity, timeout_ms, error);
  carried.known |= err == TUTTI_OK;
  if (err == TUTTI_OK) err = read_text(identity, error);
  pthread_mutex_unlock(&lock);
  return err;
}
