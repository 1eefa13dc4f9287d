#include <string.h>
#include "engine/kernels.h"
void tu_reduce_into(const struct tu_arithmetic *a, void *const dsts[], uint32_t dst_count, bool stream,
                    const void *const srcs[], uint32_t source_count, size_t count, bool final) {
  (void)stream;
  tu_reduce(a, dsts[0], srcs, source_count, count, final);
  for (uint32_t i = 1; i < dst_count; i++) memcpy(dsts[i], dsts[0], count * tutti_datatype_size(a->type));
}
void tu_copy_into(void *const dsts[], uint32_t dst_count, bool stream, const void *src, size_t bytes) {
  (void)stream;
  for (uint32_t i = 0; i < dst_count; i++) memcpy(dsts[i], src, bytes);
}
