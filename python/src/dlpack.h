/* dlpack.h: the parts of DLPack's binary interface that the module uses. The layout and the numbers are those of version
 * 1.1 of the header include/dlpack/dlpack.h in https://github.com/dmlc/dlpack; its names are kept where it has them. */
#ifndef TUTTI_PYTHON_DLPACK_H
#define TUTTI_PYTHON_DLPACK_H

#include <cstdint>

namespace dlpack {

constexpr uint32_t MAJOR = 1; /* of managed_versioned; another major version means another layout */

/* Devices whose memory the CPU reads and writes as its own: kDLCPU, and pinned host memory (kDLCUDAHost, kDLROCMHost). */
enum device_type : int32_t { CPU = 1, CUDA_HOST = 3, ROCM_HOST = 11 };

/* Kinds of elements: kDLInt, kDLUInt, kDLFloat, kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e5m2. */
enum type_code : uint8_t {
  INT = 0,
  UINT = 1,
  FLOAT = 2,
  BFLOAT = 4,
  BOOL = 6,
  FLOAT8_E4M3FN = 10,
  FLOAT8_E5M2 = 12,
  NO_TYPE = 255, /* not of DLPack */
};

constexpr uint64_t READ_ONLY = 1, IS_COPIED = 2; /* bits of managed_versioned.flags */

struct data_type {
  uint8_t code, bits;
  uint16_t lanes; /* numbers per element; 1: no vector */
};

struct tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  data_type dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: contiguous in C order */
  uint64_t byte_offset;
};

/* What a capsule named "dltensor" holds. The consumer renames the capsule to "used_dltensor", and calls the deleter. */
struct managed {
  tensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(managed *self);
};

/* What a capsule named "dltensor_versioned" holds. */
struct managed_versioned {
  uint32_t major, minor;
  void *manager_ctx;
  void (*deleter)(managed_versioned *self);
  uint64_t flags;
  tensor dl_tensor;
};

}  // namespace dlpack

#endif
