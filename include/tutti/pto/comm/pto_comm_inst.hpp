/* pto_comm_inst.hpp: the communication instructions of PTO, implemented with one-sided calls (tutti/window.h).
 * Header-only, C++17.
 *
 * Programs include <pto/comm/pto_comm_inst.hpp>. The folder include/tutti, which contains the folder pto, is not in the
 * default include path, so that this header never hides another implementation of PTO. Compile with $(pkg-config
 * --cflags tutti-pto), or link tutti::pto in CMake, or pass both -I.../include/tutti and -I.../include. See
 * tutti_pto(3).
 *
 * "Global memory" is a window (tutti_window_create). tutti_window_address(window, rank) is the pointer by which a rank
 * names another rank's memory. A collective, TPUT, TGET or TNOTIFY is called by one rank only. The other ranks involved
 * must keep their buffers ready. All calls are complete when they return, except TPUT_ASYNC and TGET_ASYNC.
 *
 * Instructions return no error code. Errors of the library are thrown as pto::Error with the library's message; the
 * window stays usable. Without exceptions (-fno-exceptions) the message is written to standard error, and the program
 * aborts. Wrong types are compile-time errors. */
#ifndef TUTTI_PTO_COMM_INST_HPP
#define TUTTI_PTO_COMM_INST_HPP

#include <tutti/window.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/* Keywords of device compilers for pointers to global memory and for instructions. On a host they expand to nothing. */
#ifndef __gm__
#define __gm__
#endif
#ifndef PTO_INST
#define PTO_INST
#endif
/* Keywords of device compilers for functions. On a host they expand to nothing. */
#ifndef AICORE
#define AICORE
#endif
#ifndef __global__
#define __global__
#endif

namespace pto {

/* ---- errors ----------------------------------------------------------------------------------------------------- */

/* Exception for an error of the library. code() returns the library's error code. what() begins with the name of the
 * instruction. */
class TUTTI_API Error : public std::runtime_error {
 public:
  Error(tutti_err code, const std::string &sentence) : std::runtime_error(sentence), code_(code) {}
  tutti_err code() const noexcept { return code_; }

 private:
  tutti_err code_;
};

namespace detail {

[[noreturn]] inline void fail(tutti_err code, const char *instruction, const std::string &sentence) {
  const std::string whole = std::string(instruction) + ": " + sentence;
#if defined(__cpp_exceptions)
  throw Error(code, whole);
#else
  std::fprintf(stderr, "%s: %s\n", tutti_err_name(code), whole.c_str());
  std::abort();
#endif
}

inline void check(tutti_err code, const char *instruction) {
  if (code != TUTTI_OK) fail(code, instruction, tutti_error_message(nullptr));
}

}  // namespace detail

/* ---- tensors in global memory ----------------------------------------------------------------------------------- */

constexpr int DYNAMIC = -1; /* marks a number that is known only at run time */

enum GlobalTensorDim { DIM_0, DIM_1, DIM_2, DIM_3, DIM_4, TOTAL_DIM };
static_assert(TOTAL_DIM == TUTTI_DIMS);

enum class Layout { ND, DN }; /* names the contiguous dimension: ND: the last dimension, DN: the last but one */

namespace detail {

/* Numbers, each known at compile time or DYNAMIC (known at run time). The constructor receives either only the DYNAMIC
 * numbers, in order, or all numbers. In the second case the numbers that are not DYNAMIC must equal those of the type.
 * DYNAMIC numbers that are not given are 1. */
template <int64_t... N>
class Extents {
 public:
  static constexpr int64_t fixed[] = {N...};
  static constexpr size_t count = sizeof...(N);
  static constexpr size_t dynamic = (size_t{0} + ... + size_t{N == DYNAMIC});

  constexpr Extents() = default;

  template <typename... V,
            typename = std::enable_if_t<(sizeof...(V) > 0) && ((std::is_integral_v<V> || std::is_enum_v<V>)&&...)>>
  constexpr Extents(V... values) {
    static_assert(sizeof...(V) == dynamic || sizeof...(V) == count,
                  "give as many numbers as there are DYNAMIC ones, or all of them");
    const int64_t given[] = {static_cast<int64_t>(values)...};
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
      if (sizeof...(V) < count && fixed[i] != DYNAMIC) continue;
      values_[i] = given[next++];
      if (fixed[i] != DYNAMIC && values_[i] != fixed[i]) differs(i, values_[i]);
    }
  }

  constexpr int64_t operator[](size_t i) const { return values_[i]; }

 private:
  [[noreturn]] static void differs(size_t i, int64_t value) {
    fail(TUTTI_ERR_ARGUMENT, "pto",
         "number " + std::to_string(i) + " is " + std::to_string(fixed[i]) + " by its type, but is given as " +
             std::to_string(value) + ": give the same number, or make it DYNAMIC");
  }

  int64_t values_[sizeof...(N)] = {(N == DYNAMIC ? 1 : N)...};
};

}  // namespace detail

/* Sizes of the five dimensions. */
template <int64_t N0 = DYNAMIC, int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC>
struct Shape : detail::Extents<N0, N1, N2, N3, N4> {
  using detail::Extents<N0, N1, N2, N3, N4>::Extents;
};

/* Strides of the five dimensions, in elements. */
template <int64_t N0 = DYNAMIC, int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC>
struct Stride : detail::Extents<N0, N1, N2, N3, N4> {
  using detail::Extents<N0, N1, N2, N3, N4>::Extents;
};

namespace detail {

constexpr int64_t product(int64_t a, int64_t b) { return a == DYNAMIC || b == DYNAMIC ? DYNAMIC : a * b; }

template <int64_t rows, int64_t cols, Layout layout>
using Strides2D = Stride<product(rows, cols), product(rows, cols), product(rows, cols), layout == Layout::ND ? cols : 1,
                         layout == Layout::ND ? 1 : rows>;

}  // namespace detail

/* Strides of a matrix without gaps. If rows or cols is DYNAMIC, the constructor receives both numbers. */
template <typename T, int64_t rows = DYNAMIC, int64_t cols = DYNAMIC, Layout layout = Layout::ND>
struct BaseShape2D : detail::Strides2D<rows, cols, layout> {
  constexpr BaseShape2D() = default;
  constexpr BaseShape2D(int64_t r, int64_t c)
      : detail::Strides2D<rows, cols, layout>(r * c, r * c, r * c, layout == Layout::ND ? c : 1,
                                              layout == Layout::ND ? 1 : r) {}
};

/* A view of a tensor in global memory. It does not own the memory. */
template <typename Element, typename Shape_, typename Stride_, Layout layout_ = Layout::ND>
class GlobalTensor {
 public:
  using RawDType = std::remove_cv_t<Element>;
  using DType = RawDType;
  using Shape = Shape_;
  using Stride = Stride_;
  static constexpr Layout layout = layout_;

  constexpr GlobalTensor() = default;
  constexpr GlobalTensor(__gm__ DType *data, const Shape &shape = Shape(), const Stride &stride = Stride())
      : data_(data), shape_(shape), stride_(stride) {}

  constexpr __gm__ DType *data() const { return data_; }
  /* Returns the size of a dimension; -1 if there is no such dimension. GetStride does the same for strides. */
  constexpr int64_t GetShape(int dim) const { return has(dim) ? shape_[static_cast<size_t>(dim)] : -1; }
  constexpr int64_t GetStride(int dim) const { return has(dim) ? stride_[static_cast<size_t>(dim)] : -1; }
  template <int dim>
  static constexpr int64_t GetShape() {
    static_assert(has(dim) && Shape::fixed[dim] != DYNAMIC,
                  "this size is not known at compile time: use GetShape(dim)");
    return Shape::fixed[dim];
  }
  template <int dim>
  static constexpr int64_t GetStride() {
    static_assert(has(dim) && Stride::fixed[dim] != DYNAMIC,
                  "this stride is not known at compile time: use GetStride(dim)");
    return Stride::fixed[dim];
  }

 private:
  static constexpr bool has(int dim) { return dim >= 0 && dim < TOTAL_DIM; }

  __gm__ DType *data_ = nullptr;
  Shape shape_;
  Stride stride_;
};

/* ---- 16-bit floating-point elements ----------------------------------------------------------------------------- */

namespace detail {

inline uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/* Converts with rounding to nearest, ties to even. A NaN stays a NaN. */
inline uint16_t to_bfloat16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float from_bfloat16(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

/* Converts with rounding to nearest, ties to even. Subnormal results are rounded by adding the float 0.5: the lowest
 * mantissa bit of 0.5 has the same weight (2^-24) as the lowest bit of a subnormal f16. */
inline uint16_t to_half(float value) {
  const uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000)
    return static_cast<uint16_t>(sign | (float_bits(float_of(magnitude) + 0.5f) - 0x3f000000));
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

inline float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest >= 0x0400) return float_of(sign | ((rest << 13) + 0x38000000));
  return float_of(sign | float_bits(static_cast<float>(rest) * 0x1p-24f));
}

}  // namespace detail

/* Numbers stored in 16 bits. Arithmetic converts them to float. */
struct half {
  uint16_t bits;

  half() = default;
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  half(T value) : bits(detail::to_half(static_cast<float>(value))) {}
  operator float() const { return detail::from_half(bits); }
};

struct bfloat16_t {
  uint16_t bits;

  bfloat16_t() = default;
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  bfloat16_t(T value) : bits(detail::to_bfloat16(static_cast<float>(value))) {}
  operator float() const { return detail::from_bfloat16(bits); }
};
static_assert(sizeof(half) == 2 && std::is_trivial_v<half> && sizeof(bfloat16_t) == 2 && std::is_trivial_v<bfloat16_t>);

/* Maps an element type to a tutti_datatype. Specialise it for your own types, for example
 *  template <> struct pto::DataType<my_half> { static constexpr tutti_datatype value = TUTTI_F16; }; */
template <typename T>
struct DataType {
 private:
  static constexpr int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  static constexpr tutti_datatype whole[2][4] = {{TUTTI_U8, TUTTI_U16, TUTTI_U32, TUTTI_U64},
                                                 {TUTTI_I8, TUTTI_I16, TUTTI_I32, TUTTI_I64}};
  static constexpr bool is_whole = std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8;
  static constexpr bool is_float = std::is_same_v<T, float> || std::is_same_v<T, double>;
  static constexpr bool is_bool = std::is_same_v<T, bool> && sizeof(bool) == 1;
  static_assert(is_whole || is_float || is_bool, "no tutti_datatype for this type: specialise pto::DataType");

 public:
  static constexpr tutti_datatype value = std::is_same_v<T, float> ? TUTTI_F32
                                          : is_float               ? TUTTI_F64
                                          : is_bool                ? TUTTI_BOOL
                                                                   : whole[std::is_signed_v<T>][size];
};

template <>
struct DataType<half> {
  static constexpr tutti_datatype value = TUTTI_F16;
};
template <>
struct DataType<bfloat16_t> {
  static constexpr tutti_datatype value = TUTTI_BF16;
};

/* ---- tiles: small buffers that data passes through -------------------------------------------------------------- */

enum class TileType { Vec, Mat, Left, Right, Acc };
enum class BLayout { RowMajor, ColMajor };

namespace detail {

constexpr size_t TILE_ALIGNMENT = 64;              /* size of a cache line, in bytes */
constexpr size_t UNIFIED_BUFFER_BYTES = 256 << 10; /* size of each thread's buffer to which TASSIGN assigns tiles */

inline std::shared_ptr<void> tile_memory(size_t bytes) {
  return std::shared_ptr<void>(::operator new(bytes, std::align_val_t(TILE_ALIGNMENT)),
                               [](void *p) { ::operator delete(p, std::align_val_t(TILE_ALIGNMENT)); });
}

inline const std::shared_ptr<void> &unified_buffer() {
  static thread_local std::shared_ptr<void> memory = tile_memory(UNIFIED_BUFFER_BYTES);
  return memory;
}

}  // namespace detail

/* A tile of Rows x Cols elements, of which the first RowValid rows and ColValid columns are used. If RowValid or
 * ColValid is DYNAMIC, the constructor receives it; by default all elements are used. Each tile has its own memory
 * until TASSIGN puts it elsewhere. A copy shares the memory of the original. */
template <TileType Loc_, typename Element, int Rows_, int Cols_, BLayout BFractal = BLayout::RowMajor,
          int RowValid = Rows_, int ColValid = Cols_>
class Tile {
  static constexpr bool fits(int valid, int size) { return valid == DYNAMIC || (valid > 0 && valid <= size); }
  static_assert(Rows_ > 0 && Cols_ > 0, "a tile must have at least one row and one column");
  static_assert(fits(RowValid, Rows_) && fits(ColValid, Cols_),
                "valid rows and columns must be from 1 to the rows and columns of the tile");
  static_assert((BFractal == BLayout::RowMajor ? Cols_ : Rows_) * sizeof(Element) % 32 == 0,
                "a row of a row-major tile (a column, if column-major) must take a multiple of 32 bytes");

 public:
  using DType = Element;
  static constexpr TileType Loc = Loc_;
  static constexpr int Rows = Rows_, Cols = Cols_, ValidRow = RowValid, ValidCol = ColValid;
  static constexpr bool isRowMajor = BFractal == BLayout::RowMajor;
  static constexpr size_t bytes = sizeof(Element) * Rows_ * Cols_;

  Tile() : Tile(RowValid == DYNAMIC ? Rows_ : RowValid, ColValid == DYNAMIC ? Cols_ : ColValid) {}
  template <typename... V, typename = std::enable_if_t<(sizeof...(V) > 0) && (std::is_integral_v<V> && ...)>>
  explicit Tile(V... valid) : valid_(valid...), memory_(detail::tile_memory(bytes)) {}

  Element *data() const { return static_cast<Element *>(memory_.get()); }
  int64_t GetValidRow() const { return valid_[0]; }
  int64_t GetValidCol() const { return valid_[1]; }

 private:
  template <typename TileData>
  friend void TASSIGN(TileData &tile, uint64_t address);

  detail::Extents<RowValid, ColValid> valid_;
  std::shared_ptr<void> memory_;
};

/* Puts a tile at a byte offset in the thread's unified buffer (256 KiB). Tiles that overlap there share memory. */
template <typename TileData>
void TASSIGN(TileData &tile, uint64_t address) {
  if (address % alignof(typename TileData::DType) != 0 || address > detail::UNIFIED_BUFFER_BYTES ||
      TileData::bytes > detail::UNIFIED_BUFFER_BYTES - address)
    detail::fail(TUTTI_ERR_ARGUMENT, "TASSIGN",
                 "a tile of " + std::to_string(TileData::bytes) + " bytes at " + std::to_string(address) +
                     " is outside the unified buffer of " + std::to_string(detail::UNIFIED_BUFFER_BYTES) +
                     " bytes, or not aligned to a whole element: make it smaller, or change its address");
  const std::shared_ptr<void> &buffer = detail::unified_buffer();
  tile.memory_ = std::shared_ptr<void>(buffer, static_cast<unsigned char *>(buffer.get()) + address);
}

enum class AtomicType { AtomicNone, AtomicAdd };

/* ---- events ----------------------------------------------------------------------------------------------------- */

/* Event: completion of an instruction. If an event is among the last arguments of a later instruction, this instruction
 * waits for the event. */
struct RecordEvent {
  tutti_event event{};

  void Wait() const { detail::check(tutti_event_wait(event), "RecordEvent::Wait"); }
};

namespace comm {

/* One tensor per rank of the group, and the index of the root, which is the caller. The group consists of some or
 * all ranks of a window, in any order. Within a group, rank order is the order of the array. The group does not own
 * the array. */
template <typename GlobalData>
class ParallelGroup {
 public:
  using value_type = GlobalData;

  constexpr ParallelGroup() = default;
  constexpr ParallelGroup(GlobalData *tensor_array, int size, int root)
      : tensors(tensor_array), nranks(size), rootIdx(root) {}
  static constexpr ParallelGroup Create(GlobalData *tensor_array, int size, int root) {
    return ParallelGroup(tensor_array, size, root);
  }

  constexpr int GetRootIdx() const { return rootIdx; }
  constexpr int GetSize() const { return nranks; }
  constexpr GlobalData &operator[](int rank) const { return tensors[rank]; }

  GlobalData *tensors = nullptr;
  int nranks = 0;
  int rootIdx = -1;
};

enum class NotifyOp { AtomicAdd, Set };
enum class WaitCmp { EQ, NE, GT, GE, LT, LE };
enum class ReduceOp { Sum, Max, Min };

/* Signal: one i32. Signal2D: a matrix of signals, contiguous or, with a stride, a part of a wider matrix. */
using Signal = GlobalTensor<int32_t, Shape<1, 1, 1, 1, 1>, Stride<1, 1, 1, 1, 1>, Layout::ND>;
template <int Rows, int Cols>
class Signal2D
    : public GlobalTensor<int32_t, Shape<1, 1, 1, Rows, Cols>, Stride<DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC, 1>> {
  using Base = GlobalTensor<int32_t, Shape<1, 1, 1, Rows, Cols>, Stride<DYNAMIC, DYNAMIC, DYNAMIC, DYNAMIC, 1>>;

 public:
  explicit Signal2D(__gm__ int32_t *data, int64_t stride = Cols)
      : Base(data, {}, {Rows * stride, Rows * stride, Rows * stride, stride}) {}
};

/* ---- asynchronous transfers ------------------------------------------------------------------------------------- */

/* The engine of a transfer. Only SDMA is supported; it is executed by the CPU of the rank that waits. */
enum class DmaEngine { SDMA, URMA };

/* Configuration of asynchronous transfers. A transfer is divided into blocks, which are assigned to the queues in
 * turn. */
struct AsyncConfig {
  uint64_t block_bytes = 1 << 20;
  uint64_t comm_block_offset = 0; /* in bytes; added to both addresses of each transfer */
  uint32_t queue_num = 1;
};

class AsyncSession;
using start_call = tutti_err(tutti_session *, const tutti_tensor *, const tutti_tensor *, tutti_event *);

/* Event of an asynchronous transfer. Waiting for it also waits for all earlier transfers of the session. */
class AsyncEvent {
 public:
  AsyncEvent() = default;
  bool valid() const { return !last_.empty(); }
  void Wait() const {
    for (const tutti_event &event : last_) detail::check(tutti_event_wait(event), "AsyncEvent::Wait");
  }
  /* Waits for the event. Always returns true, because errors are thrown. */
  bool Wait(const AsyncSession &) const {
    Wait();
    return true;
  }
  /* Completes the transfer and returns true. There is no progress in the background, so the test itself has to complete
   * the transfer. */
  bool Test(const AsyncSession &session) const { return Wait(session); }
  const std::vector<tutti_event> &queues() const { return last_; }

 private:
  friend class AsyncSession;
  explicit AsyncEvent(std::vector<tutti_event> last) : last_(std::move(last)) {}

  std::vector<tutti_event> last_; /* the last event of each queue at the time when this event was made */
};

/* A session of asynchronous transfers, used by one thread. Its destructor waits for all transfers but cannot report
 * errors. To detect errors, wait for the last event. */
class AsyncSession {
 public:
  explicit AsyncSession(const AsyncConfig &config = AsyncConfig()) : config_(config), last_(config.queue_num) {
    if (config.queue_num == 0 || config.block_bytes == 0)
      detail::fail(TUTTI_ERR_ARGUMENT, "AsyncSession",
                   "expected queue_num and block_bytes of 1 or more, found " + std::to_string(config.queue_num) +
                       " and " + std::to_string(config.block_bytes));
    queues_.reserve(config.queue_num);
    for (uint32_t i = 0; i < config.queue_num; i++) {
      tutti_session *queue;
      detail::check(tutti_session_create(&queue), "AsyncSession");
      queues_.emplace_back(queue);
    }
  }

  const AsyncConfig &config() const { return config_; }

  /* Starts the transfer of one block on the next queue. */
  void begin(start_call *start, const tutti_tensor &to, const tutti_tensor &from, const char *instruction) const {
    detail::check(start(queues_[next_].get(), &from, &to, &last_[next_]), instruction);
    next_ = (next_ + 1) % queues_.size();
  }
  AsyncEvent last() const { return AsyncEvent(last_); }

 private:
  struct Free {
    void operator()(tutti_session *queue) const { (void)tutti_session_free(queue); }
  };

  AsyncConfig config_;
  std::vector<std::unique_ptr<tutti_session, Free>> queues_;
  mutable std::vector<tutti_event> last_;
  mutable size_t next_ = 0;
};

namespace sdma {
using SdmaBaseConfig = AsyncConfig;
constexpr uint32_t UB_ALIGN_SIZE = 256; /* size of a scratch tile, in bytes */
constexpr uint32_t kAutoChannelGroupIdx = UINT32_MAX;
}  // namespace sdma

/* Makes a session with the parameters of a device's engine: a scratch tile, host memory, and numbers of pipes and
 * channels. These parameters are not used on a host; workspace may be nullptr, and the session equals a session made by
 * its constructor. Waits for transfers that the session had started before. Always returns true, because errors are
 * thrown. */
template <DmaEngine engine = DmaEngine::SDMA, typename ScratchTile>
bool BuildAsyncSession(ScratchTile &scratchTile, __gm__ uint8_t *workspace, AsyncSession &session, uint32_t syncId = 0,
                       const sdma::SdmaBaseConfig &baseConfig = sdma::SdmaBaseConfig(),
                       uint32_t channelGroupIdx = sdma::kAutoChannelGroupIdx) {
  static_assert(engine == DmaEngine::SDMA, "the engine must be DmaEngine::SDMA; no other is supported");
  static_assert(ScratchTile::Loc == TileType::Vec, "the scratch tile must be of TileType::Vec");
  static_assert(ScratchTile::bytes >= sizeof(uint64_t), "the scratch tile must have at least 8 bytes");
  (void)scratchTile, (void)workspace, (void)syncId, (void)channelGroupIdx;
  session = AsyncSession(baseConfig);
  return true;
}

}  // namespace comm

/* ---- conversion to the library's types -------------------------------------------------------------------------- */

namespace detail {

template <typename T>
struct is_group : std::false_type {};
template <typename G>
struct is_group<comm::ParallelGroup<G>> : std::true_type {};

template <typename Global>
tutti_tensor to_tensor(const Global &global, const char *instruction) {
  tutti_tensor tensor = {};
  tensor.struct_bytes = sizeof tensor;
  tensor.data = global.data();
  tensor.type = DataType<typename Global::RawDType>::value;
  tensor.dims = TUTTI_DIMS;
  for (int d = 0; d < TOTAL_DIM; d++) {
    if (global.GetShape(d) < 0 || global.GetStride(d) < 0)
      fail(TUTTI_ERR_ARGUMENT, instruction,
           "dimension " + std::to_string(d) + " has size " + std::to_string(global.GetShape(d)) + " and stride " +
               std::to_string(global.GetStride(d)) + ": sizes and strides cannot be negative");
    tensor.shape[d] = static_cast<size_t>(global.GetShape(d));
    tensor.strides[d] = static_cast<size_t>(global.GetStride(d));
  }
  return tensor;
}

/* The tensors of a group, converted to the types of the C library for one call. */
struct Group {
  std::vector<tutti_tensor> tensors;
  tutti_onesided_group group = {};

  template <typename G>
  Group(const comm::ParallelGroup<G> &from, const char *instruction) {
    if (!from.tensors || from.nranks <= 0 || from.rootIdx < 0)
      fail(TUTTI_ERR_ARGUMENT, instruction,
           "expected a group with tensors, nranks of 1 or more and rootIdx of 0 or more, found nranks " +
               std::to_string(from.tensors ? from.nranks : 0) + " and rootIdx " + std::to_string(from.rootIdx));
    for (int rank = 0; rank < from.nranks; rank++) tensors.push_back(to_tensor(from.tensors[rank], instruction));
    group.tensors = tensors.data();
    group.count = static_cast<uint32_t>(from.nranks);
    group.root = static_cast<uint32_t>(from.rootIdx);
  }
};

/* Checks that all tiles of a call have the same valid size. */
template <typename TileData, typename... More>
void check_tiles(const char *instruction, const TileData &tile, const More &...more) {
  static_assert(TileData::Loc == TileType::Vec, "expected tiles of TileType::Vec");
  static_assert(TileData::isRowMajor, "expected row-major tiles");
  const int64_t rows[] = {tile.GetValidRow(), more.GetValidRow()...};
  const int64_t cols[] = {tile.GetValidCol(), more.GetValidCol()...};
  if (rows[0] < 1 || cols[0] < 1)
    fail(TUTTI_ERR_ARGUMENT, instruction,
         "a tile has " + std::to_string(rows[0]) + " x " + std::to_string(cols[0]) +
             " valid elements: give it a valid size from 1 x 1 to its own size");
  for (size_t i = 1; i <= sizeof...(More); i++)
    if (rows[i] != rows[0] || cols[i] != cols[0])
      fail(TUTTI_ERR_ARGUMENT, instruction,
           "one tile has " + std::to_string(rows[0]) + " x " + std::to_string(cols[0]) +
               " valid elements, another one has " + std::to_string(rows[i]) + " x " + std::to_string(cols[i]) +
               ": give both the same valid size");
}

/* Converts one tile or two tiles to the staging struct of the C library. */
template <typename TileData, typename... More>
tutti_staging to_staging(const TileData &tile, const More &...more) {
  tutti_staging staging = {};
  size_t next = 0;
  for (void *memory : {static_cast<void *>(tile.data()), static_cast<void *>(more.data())...})
    staging.tiles[next++] = memory;
  staging.rows = TileData::Rows;
  staging.cols = TileData::Cols;
  staging.valid_rows = static_cast<size_t>(tile.GetValidRow());
  staging.valid_cols = static_cast<size_t>(tile.GetValidCol());
  staging.fixed_rows = TileData::ValidRow != DYNAMIC;
  staging.fixed_cols = TileData::ValidCol != DYNAMIC;
  return staging;
}

/* The events that a call waits for, and the event that it returns. */
class Events {
 public:
  template <typename... E>
  explicit Events(const E &...events) {
    static_assert(((std::is_same_v<E, RecordEvent> || std::is_same_v<E, comm::AsyncEvent>)&&...),
                  "the last arguments must be events: RecordEvent or comm::AsyncEvent");
    (add(events), ...);
    events_.after = after_.data();
    events_.after_count = static_cast<uint32_t>(after_.size());
    events_.event = &event_;
  }
  Events(const Events &) = delete;
  Events &operator=(const Events &) = delete;

  const tutti_events *get() const { return &events_; }
  void wait(const char *instruction) const {
    for (const tutti_event &event : after_) check(tutti_event_wait(event), instruction);
  }
  RecordEvent record() const { return RecordEvent{event_}; }

 private:
  void add(const RecordEvent &e) { after_.push_back(e.event); }
  void add(const comm::AsyncEvent &e) { after_.insert(after_.end(), e.queues().begin(), e.queues().end()); }

  std::vector<tutti_event> after_;
  tutti_event event_ = {};
  tutti_events events_ = {};
};

template <typename G, typename Global, typename TileData>
constexpr void check_group_types() {
  static_assert(is_group<G>::value, "the first argument must be a comm::ParallelGroup");
  static_assert(std::is_same_v<typename G::value_type::RawDType, typename Global::RawDType>,
                "the tensors of the group and of the root must have the same element type");
  static_assert(std::is_same_v<typename TileData::DType, typename Global::RawDType>,
                "tile and tensors must have the same element type");
}

template <typename To, typename From, typename TileData>
constexpr void check_pair_types() {
  static_assert(std::is_same_v<typename To::RawDType, typename From::RawDType>,
                "both tensors must have the same element type");
  static_assert(std::is_same_v<typename TileData::DType, typename From::RawDType>,
                "tile and tensors must have the same element type");
}

/* Converts an operation. Returns TUTTI_USER_OPS for an invalid operation; the library then refuses the call. */
constexpr tutti_op to_op(comm::ReduceOp op) {
  return op == comm::ReduceOp::Sum   ? TUTTI_SUM
         : op == comm::ReduceOp::Max ? TUTTI_MAX
         : op == comm::ReduceOp::Min ? TUTTI_MIN
                                     : TUTTI_USER_OPS;
}

using group_call = tutti_err(const tutti_onesided_group *, const tutti_tensor *, const tutti_staging *,
                             const tutti_events *);
using pair_call = tutti_err(const tutti_tensor *, const tutti_tensor *, const tutti_staging *, const tutti_events *);

inline pair_call *to_put(AtomicType type) {
  if (type != AtomicType::AtomicNone && type != AtomicType::AtomicAdd)
    fail(TUTTI_ERR_ARGUMENT, "TPUT", "atomicType is unknown: expected AtomicType::AtomicNone or AtomicType::AtomicAdd");
  return type == AtomicType::AtomicAdd ? tutti_put_add : tutti_put;
}

/* Executes a collective that only the root calls, through one or two tiles. */
template <typename G, typename Global, typename... TileData>
RecordEvent run_group(group_call *call, const char *instruction, const G &group, const Global &global,
                      const Events &events, const TileData &...tiles) {
  check_group_types<G, Global, std::common_type_t<TileData...>>();
  const Group all(group, instruction);
  const tutti_tensor tensor = to_tensor(global, instruction);
  const tutti_staging staging = to_staging(tiles...);
  check_tiles(instruction, tiles...);
  check(call(&all.group, &tensor, &staging, events.get()), instruction);
  return events.record();
}

template <typename G, typename Global, typename TileData, typename... More>
RecordEvent run_reduce(const G &group, const Global &global, const TileData &accumulator, comm::ReduceOp op,
                       const Events &events, const TileData &tile, const More &...more) {
  check_group_types<G, Global, TileData>();
  static constexpr const char *instruction = "TREDUCE";
  const Group all(group, instruction);
  const tutti_tensor tensor = to_tensor(global, instruction);
  const tutti_staging staging = to_staging(tile, more...);
  check_tiles(instruction, accumulator, tile, more...);
  check(tutti_onesided_reduce(&all.group, &tensor, to_op(op), accumulator.data(), &staging, events.get()), instruction);
  return events.record();
}

template <typename To, typename From, typename... TileData>
RecordEvent run_pair(pair_call *call, const char *instruction, const To &to, const From &from, const Events &events,
                     const TileData &...tiles) {
  check_pair_types<To, From, std::common_type_t<TileData...>>();
  const tutti_tensor target = to_tensor(to, instruction), source = to_tensor(from, instruction);
  const tutti_staging staging = to_staging(tiles...);
  check_tiles(instruction, tiles...);
  check(call(&source, &target, &staging, events.get()), instruction);
  return events.record();
}

/* Returns the number of bytes of a contiguous tensor. Fails if the tensor is not contiguous. */
inline size_t flat_bytes(const tutti_tensor &tensor, const char *instruction) {
  size_t count = 1, room = PTRDIFF_MAX / 8;
  for (size_t size : tensor.shape)
    if (size == 0) return 0;
  for (int d = TOTAL_DIM - 1; d >= 0; d--) {
    if (tensor.shape[d] > room)
      fail(TUTTI_ERR_ARGUMENT, instruction, "a tensor is larger than the address space: make it smaller");
    room /= tensor.shape[d];
    if (tensor.shape[d] > 1 && tensor.strides[d] != count)
      fail(TUTTI_ERR_ARGUMENT, instruction,
           "dimension " + std::to_string(d) + " has stride " + std::to_string(tensor.strides[d]) + ", expected " +
               std::to_string(count) + ": tensors must be contiguous in memory");
    count *= tensor.shape[d];
  }
  if (!tensor.data) fail(TUTTI_ERR_ARGUMENT, instruction, "the pointer of a tensor is NULL");
  return count * tutti_datatype_size(tensor.type);
}

inline tutti_tensor bytes_of(const tutti_tensor &tensor, uint64_t begin, size_t bytes) {
  tutti_tensor block = {};
  block.struct_bytes = sizeof block;
  block.data = static_cast<unsigned char *>(tensor.data) + begin;
  block.type = TUTTI_U8;
  block.dims = TUTTI_DIMS;
  for (int d = 0; d < TOTAL_DIM; d++) block.shape[d] = d == DIM_4 ? bytes : 1;
  for (int d = 0; d < TOTAL_DIM; d++) block.strides[d] = d == DIM_4 ? 1 : bytes;
  return block;
}

template <comm::DmaEngine engine, typename To, typename From, typename... E>
comm::AsyncEvent run_async(comm::start_call *start, const char *instruction, const To &to, const From &from,
                           const comm::AsyncSession &session, const E &...events) {
  static_assert(engine == comm::DmaEngine::SDMA, "the engine must be DmaEngine::SDMA; no other is supported");
  static_assert(std::is_same_v<typename To::RawDType, typename From::RawDType>,
                "both tensors must have the same element type");
  const tutti_tensor target = to_tensor(to, instruction), source = to_tensor(from, instruction);
  const comm::AsyncConfig &config = session.config();
  const size_t bytes = flat_bytes(target, instruction);
  if (flat_bytes(source, instruction) != bytes)
    fail(TUTTI_ERR_ARGUMENT, instruction,
         std::to_string(flat_bytes(source, instruction)) + " bytes in the source, but the destination has " +
             std::to_string(bytes) + ": give both the same shape");
  Events(events...).wait(instruction);
  for (size_t done = 0; done < bytes;) {
    const uint64_t begin = config.comm_block_offset + done;
    const size_t block = bytes - done < config.block_bytes ? bytes - done : static_cast<size_t>(config.block_bytes);
    session.begin(start, bytes_of(target, begin, block), bytes_of(source, begin, block), instruction);
    done += block;
  }
  return session.last();
}

template <typename Global>
constexpr void check_signal_type() {
  static_assert(std::is_same_v<typename Global::DType, int32_t>, "a signal must be an int32_t");
}

static_assert(static_cast<int>(comm::WaitCmp::EQ) == TUTTI_EQ && static_cast<int>(comm::WaitCmp::NE) == TUTTI_NE);
static_assert(static_cast<int>(comm::WaitCmp::GT) == TUTTI_GT && static_cast<int>(comm::WaitCmp::GE) == TUTTI_GE);
static_assert(static_cast<int>(comm::WaitCmp::LT) == TUTTI_LT && static_cast<int>(comm::WaitCmp::LE) == TUTTI_LE);
constexpr tutti_compare to_compare(comm::WaitCmp compare) { return static_cast<tutti_compare>(compare); }

}  // namespace detail

/* ---- the instructions ------------------------------------------------------------------------------------------- */

namespace comm {

/* Gathers the rows (dimension 3) of all ranks' tensors into the root's tensor, in the order of the group. If the root's
 * tensor has more rows, these stay unchanged. */
template <typename ParallelGroupType, typename GlobalDstData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TGATHER(ParallelGroupType &parallelGroup, GlobalDstData &dstGlobalData, TileData &stagingTileData,
                             WaitEvents &...events) {
  return detail::run_group(tutti_onesided_gather, "TGATHER", parallelGroup, dstGlobalData, detail::Events(events...),
                           stagingTileData);
}
/* TGATHER with two tiles, which are used in turn: the load of one part overlaps the store of the previous part. The
 * other instructions below also have a form with two tiles. */
template <typename ParallelGroupType, typename GlobalDstData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TGATHER(ParallelGroupType &parallelGroup, GlobalDstData &dstGlobalData, TileData &pingTile,
                             TileData &pongTile, WaitEvents &...events) {
  return detail::run_group(tutti_onesided_gather, "TGATHER", parallelGroup, dstGlobalData, detail::Events(events...),
                           pingTile, pongTile);
}

/* Scatters the rows (dimension 3) of the root's tensor to all ranks' tensors. This is the inverse of TGATHER. If the
 * root's tensor has more rows, these are ignored. */
template <typename ParallelGroupType, typename GlobalSrcData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TSCATTER(ParallelGroupType &parallelGroup, GlobalSrcData &srcGlobalData, TileData &stagingTileData,
                              WaitEvents &...events) {
  return detail::run_group(tutti_onesided_scatter, "TSCATTER", parallelGroup, srcGlobalData, detail::Events(events...),
                           stagingTileData);
}
template <typename ParallelGroupType, typename GlobalSrcData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TSCATTER(ParallelGroupType &parallelGroup, GlobalSrcData &srcGlobalData, TileData &pingTile,
                              TileData &pongTile, WaitEvents &...events) {
  return detail::run_group(tutti_onesided_scatter, "TSCATTER", parallelGroup, srcGlobalData, detail::Events(events...),
                           pingTile, pongTile);
}

/* Copies the root's tensor to the tensor of each rank, including the root's own. */
template <typename ParallelGroupType, typename GlobalSrcData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TBROADCAST(ParallelGroupType &parallelGroup, GlobalSrcData &srcGlobalData,
                                TileData &stagingTileData, WaitEvents &...events) {
  return detail::run_group(tutti_onesided_broadcast, "TBROADCAST", parallelGroup, srcGlobalData,
                           detail::Events(events...), stagingTileData);
}
template <typename ParallelGroupType, typename GlobalSrcData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TBROADCAST(ParallelGroupType &parallelGroup, GlobalSrcData &srcGlobalData, TileData &pingTile,
                                TileData &pongTile, WaitEvents &...events) {
  return detail::run_group(tutti_onesided_broadcast, "TBROADCAST", parallelGroup, srcGlobalData,
                           detail::Events(events...), pingTile, pongTile);
}

/* Reduces the tensors of all ranks into the root's tensor: the root's data first, then the other ranks' data in the
 * order of the group. */
template <typename ParallelGroupType, typename GlobalDstData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TREDUCE(ParallelGroupType &parallelGroup, GlobalDstData &dstGlobalData, TileData &accTileData,
                             TileData &recvTileData, ReduceOp op, WaitEvents &...events) {
  return detail::run_reduce(parallelGroup, dstGlobalData, accTileData, op, detail::Events(events...), recvTileData);
}
template <typename ParallelGroupType, typename GlobalDstData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TREDUCE(ParallelGroupType &parallelGroup, GlobalDstData &dstGlobalData, TileData &accTileData,
                             TileData &pingTileData, TileData &pongTileData, ReduceOp op, WaitEvents &...events) {
  return detail::run_reduce(parallelGroup, dstGlobalData, accTileData, op, detail::Events(events...), pingTileData,
                            pongTileData);
}

/* Writes to another rank's memory. AtomicAdd: adds each element atomically to the element in memory. */
template <AtomicType atomicType = AtomicType::AtomicNone, typename GlobalDstData, typename GlobalSrcData,
          typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TPUT(GlobalDstData &dstGlobalData, GlobalSrcData &srcGlobalData, TileData &stagingTileData,
                          WaitEvents &...events) {
  return detail::run_pair(detail::to_put(atomicType), "TPUT", dstGlobalData, srcGlobalData, detail::Events(events...),
                          stagingTileData);
}
template <AtomicType atomicType = AtomicType::AtomicNone, typename GlobalDstData, typename GlobalSrcData,
          typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TPUT(GlobalDstData &dstGlobalData, GlobalSrcData &srcGlobalData, TileData &pingTile,
                          TileData &pongTile, WaitEvents &...events) {
  return detail::run_pair(detail::to_put(atomicType), "TPUT", dstGlobalData, srcGlobalData, detail::Events(events...),
                          pingTile, pongTile);
}
/* TPUT with the atomic type chosen at run time. */
template <typename GlobalDstData, typename GlobalSrcData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TPUT(GlobalDstData &dstGlobalData, GlobalSrcData &srcGlobalData, TileData &stagingTileData,
                          AtomicType atomicType, WaitEvents &...events) {
  return detail::run_pair(detail::to_put(atomicType), "TPUT", dstGlobalData, srcGlobalData, detail::Events(events...),
                          stagingTileData);
}

/* Reads from another rank's memory. */
template <typename GlobalDstData, typename GlobalSrcData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TGET(GlobalDstData &dstGlobalData, GlobalSrcData &srcGlobalData, TileData &stagingTileData,
                          WaitEvents &...events) {
  return detail::run_pair(tutti_get, "TGET", dstGlobalData, srcGlobalData, detail::Events(events...), stagingTileData);
}
template <typename GlobalDstData, typename GlobalSrcData, typename TileData, typename... WaitEvents>
PTO_INST RecordEvent TGET(GlobalDstData &dstGlobalData, GlobalSrcData &srcGlobalData, TileData &pingTile,
                          TileData &pongTile, WaitEvents &...events) {
  return detail::run_pair(tutti_get, "TGET", dstGlobalData, srcGlobalData, detail::Events(events...), pingTile,
                          pongTile);
}

/* Starts an asynchronous transfer. The transfer is complete after a wait for its event or for a later event of the
 * session. Both tensors must be contiguous. */
template <DmaEngine engine = DmaEngine::SDMA, typename GlobalDstData, typename GlobalSrcData, typename... WaitEvents>
PTO_INST AsyncEvent TPUT_ASYNC(GlobalDstData &dstGlobalData, GlobalSrcData &srcGlobalData, const AsyncSession &session,
                               WaitEvents &...events) {
  return detail::run_async<engine>(tutti_put_start, "TPUT_ASYNC", dstGlobalData, srcGlobalData, session, events...);
}
template <DmaEngine engine = DmaEngine::SDMA, typename GlobalDstData, typename GlobalSrcData, typename... WaitEvents>
PTO_INST AsyncEvent TGET_ASYNC(GlobalDstData &dstGlobalData, GlobalSrcData &srcGlobalData, const AsyncSession &session,
                               WaitEvents &...events) {
  return detail::run_async<engine>(tutti_get_start, "TGET_ASYNC", dstGlobalData, srcGlobalData, session, events...);
}

/* Sets another rank's signal, or adds to the signal. A rank that reads the new value also sees all earlier writes of
 * this rank. */
template <typename GlobalSignalData, typename... WaitEvents>
PTO_INST void TNOTIFY(GlobalSignalData &dstSignalData, int32_t value, NotifyOp op, WaitEvents &...events) {
  detail::check_signal_type<GlobalSignalData>();
  for (int d = 0; d < TOTAL_DIM; d++)
    if (dstSignalData.GetShape(d) != 1)
      detail::fail(TUTTI_ERR_ARGUMENT, "TNOTIFY",
                   "dimension " + std::to_string(d) + " has size " + std::to_string(dstSignalData.GetShape(d)) +
                       ": expected size 1, because TNOTIFY changes one signal");
  if (op != NotifyOp::Set && op != NotifyOp::AtomicAdd)
    detail::fail(TUTTI_ERR_ARGUMENT, "TNOTIFY", "op is unknown: expected NotifyOp::Set or NotifyOp::AtomicAdd");
  const detail::Events after(events...);
  detail::check(op == NotifyOp::Set ? tutti_signal_set(dstSignalData.data(), value, after.get())
                                    : tutti_signal_add(dstSignalData.data(), value, after.get()),
                "TNOTIFY");
}

/* Waits until each signal of the tensor satisfies (SIGNAL cmp cmpValue). The signals must lie in this rank's own part
 * of a window. */
template <typename GlobalSignalData, typename... WaitEvents>
PTO_INST void TWAIT(GlobalSignalData &signalData, int32_t cmpValue, WaitCmp cmp, WaitEvents &...events) {
  detail::check_signal_type<GlobalSignalData>();
  const tutti_tensor signals = detail::to_tensor(signalData, "TWAIT");
  const detail::Events after(events...);
  detail::check(tutti_signal_wait(&signals, detail::to_compare(cmp), cmpValue, 0, after.get()), "TWAIT");
}

/* Returns whether each signal of the tensor satisfies (SIGNAL cmp cmpValue) at the time of the call. */
template <typename GlobalSignalData, typename... WaitEvents>
PTO_INST bool TTEST(GlobalSignalData &signalData, int32_t cmpValue, WaitCmp cmp, WaitEvents &...events) {
  detail::check_signal_type<GlobalSignalData>();
  const tutti_tensor signals = detail::to_tensor(signalData, "TTEST");
  detail::Events(events...).wait("TTEST");
  bool all = false;
  detail::check(tutti_signal_test(&signals, detail::to_compare(cmp), cmpValue, &all), "TTEST");
  return all;
}

}  // namespace comm
}  // namespace pto

#endif
