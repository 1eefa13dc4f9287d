/* meeting.c: reserves rank 0's port, and makes the job's secret. The port stays reserved until the job ends. */
#include "cli/run/meeting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "boot/job_address.h"

/* Lists the addresses of this host. That at which ssh reached it comes first, if the user has not chosen an interface. */
static tutti_err list_addresses(struct run_meeting *meeting, struct tu_error *error) {
  const char *ssh = getenv("SSH_CONNECTION"); /* "CLIENT PORT SERVER PORT" */
  char all[sizeof meeting->addresses], reached[48] = "", entry[64], *rest = NULL;
  tutti_err err = tu_boot_addresses(all, sizeof all, error);
  if (err != TUTTI_OK) return err;
  if (ssh && !tu_env("TUTTI_INTERFACE")) (void)sscanf(ssh, "%*s %*s %47s", reached);
  if (strncmp(reached, "127.", 4) == 0 || strcmp(reached, "::1") == 0) reached[0] = '\0';
  (void)snprintf(entry, sizeof entry, strchr(reached, ':') ? "[%s]" : "%s", reached);
  struct tu_text first = {0}, others = {0};
  for (char *at = strtok_r(all, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
    struct tu_text *list = strcmp(at, entry) == 0 ? &first : &others;
    tu_text_print(list, "%s%s", list->length ? "," : "", at);
  }
  (void)snprintf(meeting->addresses, sizeof meeting->addresses, "%s%s%s", first.length ? first.chars : "",
                 first.length && others.length ? "," : "", others.length ? others.chars : "");
  tu_text_fini(&first);
  tu_text_fini(&others);
  return TUTTI_OK;
}

tutti_err run_meeting_open(struct run_meeting *meeting, bool alone, struct tu_error *error) {
  unsigned low = 0, high = 0;
  tutti_err err = TUTTI_OK;
  if (alone) (void)snprintf(meeting->addresses, sizeof meeting->addresses, "127.0.0.1");
  else if ((err = tu_boot_ports(&low, &high, error)) == TUTTI_OK) err = list_addresses(meeting, error);
  if (err != TUTTI_OK) return err;
  errno = EADDRINUSE;
  for (unsigned port = low; port <= high && meeting->fd < 0 && errno == EADDRINUSE; port++)
    meeting->fd = tu_boot_reserve(alone, port, &meeting->port);
  if (meeting->fd >= 0) return TUTTI_OK;
  return tu_fail_errno(error, "cannot reserve a port at %s%s", alone ? "127.0.0.1" : "all addresses of this host",
                       low ? ", of those in TUTTI_PORTS" : "");
}

void run_meeting_close(struct run_meeting *meeting) {
  if (meeting->fd >= 0) close(meeting->fd);
  meeting->fd = -1;
}

tutti_err run_meeting_secret(struct run_meeting *meeting, struct tu_error *error) {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
    return tu_fail_errno(error, "getrandom failed for the job's secret");
  for (size_t i = 0; i < sizeof random; i++) snprintf(meeting->secret + 2 * i, 3, "%02x", random[i]);
  return TUTTI_OK;
}
