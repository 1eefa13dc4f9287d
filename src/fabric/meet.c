/* meet.c: the fabric of a job: which ranks have the same one. */
#include <stdio.h>
#include <string.h>

#include "boot/job_address.h"
#include "fabric/fabric.h"

/* What a rank tells the others: provider and protocol; "": it uses no fabric. Two ranks that tell the same text speak the
 * same fabric. */
struct card {
  char text[TU_JOB_RECORD_BYTES];
};

tutti_err tu_fabric_open_wish(const struct tu_fabric_wish *wish, const struct sockaddr *own, struct tu_fabric **fabric,
                              struct tu_error *error) {
  const struct tu_fabric_library *library;
  *fabric = NULL;
  if (wish->how == TU_FABRIC_NONE || (wish->how == TU_FABRIC_AUTO && !tu_fabric_has_device())) return TUTTI_OK;
  tutti_err err = tu_fabric_load(&library, error);
  if (err != TUTTI_OK)
    return wish->how == TU_FABRIC_AUTO
               ? TUTTI_OK
               : tu_fail(error, err, "TUTTI_FABRIC is '%s', but %s", wish->provider, error->text);
  struct tu_fi_info *list = tu_fabric_list(library, wish->provider, wish->domain);
  const struct tu_fi_info *info = tu_fabric_choose(list, wish, own);
  if (info) err = tu_fabric_open(library, info, fabric, error);
  else if (wish->how == TU_FABRIC_NAMED)
    err = tu_fail(error, TUTTI_ERR_ENVIRONMENT,
                  "TUTTI_FABRIC is '%s%s%s', but libfabric offers no such endpoint with RMA on this host; "
                  "`tutti info --fabrics` lists those that it offers",
                  wish->provider, *wish->domain ? "/" : "", wish->domain);
  if (list) library->freeinfo(list);
  return wish->how == TU_FABRIC_AUTO ? TUTTI_OK : err;
}

static tutti_err open_own(const struct tu_job *job, struct tu_fabric **fabric, struct tu_error *error) {
  struct tu_fabric_wish wish;
  struct sockaddr_storage own;
  *fabric = NULL;
  tutti_err err = tu_fabric_read_wish(&wish, error);
  if (err == TUTTI_OK) err = tu_job_own_address(job, &own, error);
  return err == TUTTI_OK ? tu_fabric_open_wish(&wish, (const struct sockaddr *)&own, fabric, error) : err;
}

tutti_err tu_fabric_meet(struct tu_job *job, struct tu_fabric **fabric, bool speaks[], struct tu_error *error) {
  struct card mine = {""};
  struct tu_error own = {.code = TUTTI_OK};
  uint32_t speakers = 0;
  tutti_err err = open_own(job, fabric, &own);
  if (err == TUTTI_OK && !speaks)
    err = tu_fail_memory(&own, job->ranks * sizeof *speaks, "the fabric of %u ranks", job->ranks);
  if (*fabric)
    snprintf(mine.text, sizeof mine.text, "%s %u", (*fabric)->info->fabric_attr->prov_name,
             (*fabric)->info->ep_attr->protocol);
  if (tu_job_allgather(job, &mine, job->records, sizeof mine, error) != TUTTI_OK) err = error->code;
  else if (err != TUTTI_OK) *error = own;
  const struct card *cards = (const struct card *)(const void *)job->records;
  for (uint32_t r = 0; r < job->ranks && err == TUTTI_OK; r++) {
    speaks[r] = *mine.text && !tu_job_is_near(job, r, job->rank) && strcmp(cards[r].text, mine.text) == 0;
    speakers += speaks[r];
  }
  if (err == TUTTI_OK && speakers > 0) return TUTTI_OK;
  tu_fabric_close(*fabric);
  *fabric = NULL;
  return err;
}
