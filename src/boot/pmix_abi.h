/* pmix_abi.h: the part of the ABI of libpmix.so.2 that pmix.c uses. The names differ from those of pmix.h, so that a test
 * can include both and compare them. */
#ifndef TU_PMIX_ABI_H
#define TU_PMIX_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TU_PMIX_ANY_RANK 4294967294u
enum { TU_PMIX_TYPE_BOOL = 1, TU_PMIX_TYPE_STRING = 3, TU_PMIX_TYPE_UINT32 = 14 };
enum { TU_PMIX_SCOPE_GLOBAL = 3, TU_PMIX_UNREACHABLE = -25, TU_PMIX_WRONG_TYPE = -18 };

struct tu_pmix_proc {
  char nspace[256];
  uint32_t rank;
};
struct tu_pmix_value {
  uint16_t type;
  union {
    bool flag;
    char *string;
    uint32_t number;
    void *largest[3];
  } data;
};
struct tu_pmix_info {
  char key[512];
  uint32_t flags;
  struct tu_pmix_value value;
};

#endif
