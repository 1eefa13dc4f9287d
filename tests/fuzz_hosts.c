/* fuzz_hosts.c: libFuzzer entry for the readers of lists and files of hosts. What was read is safe to pass to ssh, and
 * ranks fill all slots. Built with -fsanitize=fuzzer; seeds in tests/fuzz_seeds/hosts. */
#include <stdlib.h>
#include <string.h>

#include "boot/host_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(tutti_err err, struct tu_host_list *list, const struct tu_error *error) {
  tu_assert(err == TUTTI_OK || error->text[0]);
  uint32_t slots = 0;
  for (uint32_t i = 0; i < list->count; i++) {
    const char *name = list->hosts[i].name;
    tu_assert(name[0] && name[0] != '-' && strpbrk(name, " \t\n'\"\\$`;|&<>()") == NULL);
    slots += list->hosts[i].slots;
  }
  tu_assert(slots <= list->slots && list->slots <= TU_HOST_SLOTS_MAX);
  if (err == TUTTI_OK) {
    tu_assert(list->count > 0 && slots == list->slots);
    uint32_t *host_of = tu_allocate(slots, sizeof *host_of);
    for (int by_host = 0; by_host < 2; by_host++) {
      tu_host_list_place(list, slots, by_host, host_of);
      for (uint32_t r = 0; r < slots; r++) tu_assert(host_of[r] < list->count);
    }
    free(host_of);
  }
  tu_host_list_fini(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct tu_host_list list;
  struct tu_error error = {0};
  check(tu_host_list_read((const char *)data, bytes, "fuzz", &list, &error), &list, &error);
  check(tu_host_list_read_file((const char *)data, bytes, "fuzz", &list, &error), &list, &error);
  return 0;
}
