/* tutti.hpp: collective communication for C++17: the calls of tutti.h as templates, with exceptions and RAII.
 * Header-only, over the public C API alone. Namespace tutti. See tutti_hpp(3).
 *
 *   tutti::comm world = tutti::comm::init();
 *   std::vector<float> x(1000, 1);
 *   world.allreduce(x, tutti::op::sum);  // in place
 *
 * Errors. A function that fails throws tutti::error with the library's message and code. Without exceptions
 * (-fno-exceptions) the message is written to standard error, and the program aborts. Wrong types are compile-time
 * errors.
 *
 * Sizes. Every call checks the sizes of its buffers on this rank. A wrong size throws TUTTI_ERR_ARGUMENT here, and
 * fails the communicator on all ranks (tutti_abort): calls of the other ranks on it fail with TUTTI_ERR_ABORTED and the
 * same message. So no rank waits for a rank that has thrown. The communicator fails even if all ranks give the same
 * wrong size, because a rank cannot know the sizes of the others. The C library, too, fails the communicator when it
 * refuses a call.
 *
 * Owners. Each class that owns something of the C library can be moved, but not copied. Its destructor never throws;
 * the comment of the class says what the destructor does about an error. get() returns the handle for functions of the
 * C API, release() also gives up ownership, and a constructor from a pointer takes it. window.hpp, mesh.hpp,
 * channel.hpp and topology.hpp have the owners for the C headers of these names.
 *
 * Threads and forks: as in tutti.h. Members of an object follow the rules of the C functions that they call. */
#ifndef TUTTI_TUTTI_HPP
#define TUTTI_TUTTI_HPP

#include <tutti/tensor.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti {

/* ---- errors ----------------------------------------------------------------------------------------------------- */

/* An error of the library. what() is its message, see tutti_error_message(). */
class TUTTI_API error : public std::runtime_error {
 public:
  error(tutti_err code, const std::string &message) : std::runtime_error(message), code_(code) {}
  tutti_err code() const noexcept { return code_; }

 private:
  tutti_err code_;
};

namespace detail {

[[noreturn]] inline void fail(tutti_err code, const std::string &message) {
#if defined(__cpp_exceptions)
  throw error(code, message);
#else
  std::fprintf(stderr, "%s: %s\n", tutti_err_name(code), message.c_str());
  std::abort();
#endif
}

}  // namespace detail

/* Throws tutti::error if a C function of the library has just returned an error in this thread. */
inline void check(tutti_err code) {
  if (code != TUTTI_OK) detail::fail(code, tutti_error_message(nullptr));
}

/* ---- datatypes -------------------------------------------------------------------------------------------------- */

namespace detail {

template <typename T, typename... Others>
constexpr bool is_one_of = (std::is_same_v<T, Others> || ...);

/* Maps a type to a datatype: an integer type by its size and sign, so that long and long long work, too. std::byte is
 * u8. */
template <typename T>
constexpr tutti_datatype datatype() {
  constexpr bool is_float = is_one_of<T, float, double>;
  constexpr bool is_integer = is_one_of<T, char, signed char, unsigned char, std::byte, short, unsigned short, int,
                                        unsigned, long, unsigned long, long long, unsigned long long>;
  constexpr bool is_bool = std::is_same_v<T, bool> && sizeof(bool) == 1;
  static_assert(is_integer || is_float || is_bool,
                "no datatype for this element type: expected an integer type, bool, float, double or std::byte; for a "
                "type of your own, specialise tutti::datatype_of");
  constexpr tutti_datatype integers[2][4] = {{TUTTI_U8, TUTTI_U16, TUTTI_U32, TUTTI_U64},
                                             {TUTTI_I8, TUTTI_I16, TUTTI_I32, TUTTI_I64}};
  constexpr int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  if (is_bool) return TUTTI_BOOL;
  return is_float ? (sizeof(T) == sizeof(float) ? TUTTI_F32 : TUTTI_F64) : integers[std::is_signed_v<T>][size];
}

}  // namespace detail

/* The tutti_datatype of an element type. A program may specialise it for its own types, for example
 *   template <>
 *   inline constexpr tutti_datatype tutti::datatype_of<my_half> = TUTTI_F16; */
template <typename T>
inline constexpr tutti_datatype datatype_of = detail::datatype<T>();

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

namespace detail {

/* The pointer that std::data returns for an lvalue of this type. */
template <typename B>
using data_t = decltype(std::data(std::declval<B &>()));

template <typename B, typename = void>
struct has_data : std::false_type {};
template <typename B>
struct has_data<B, std::void_t<data_t<B>, decltype(std::size(std::declval<B &>()))>> : std::is_pointer<data_t<B>> {};

/* true if B has contiguous elements that a pointer to T can address */
template <typename B, typename T, bool = has_data<B>::value>
constexpr bool is_convertible_to = false;
template <typename B, typename T>
constexpr bool is_convertible_to<B, T, true> = std::is_convertible_v<std::remove_pointer_t<data_t<B>> (*)[], T (*)[]>;

}  // namespace detail

/* Contiguous elements in memory of the caller: a pointer and a number of elements. A span is made from a pointer and a
 * size, a C array, std::array, std::vector, std::string, std::span, tutti::memory, and every other type for which
 * std::data and std::size work. It does not own the elements. */
template <typename T>
class span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <typename B, typename = std::enable_if_t<detail::is_convertible_to<B, T>>>
  constexpr span(B &buffer) : data_(std::data(buffer)), size_(std::size(buffer)) {}
  /* Overload for temporaries. The elements of a temporary container count as const, so the container converts to
   * span<const T> only. */
  template <typename B, typename = std::enable_if_t<detail::is_convertible_to<const B, T>>>
  constexpr span(const B &buffer) : data_(std::data(buffer)), size_(std::size(buffer)) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](std::size_t i) const { return data_[i]; }
  /* Returns `count` elements from element `first` on, which must be in the span. */
  constexpr span subspan(std::size_t first, std::size_t count) const { return span(data_ + first, count); }

 private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

template <typename B>
span(B &) -> span<std::remove_pointer_t<detail::data_t<B>>>;
template <typename B>
span(const B &) -> span<std::remove_pointer_t<detail::data_t<const B>>>;

/* The blocks of all ranks in one buffer of a vector variant, such as gatherv: {counts}, or {counts, offsets}. The
 * arrays are used until the call returns; a non-blocking call copies them. */
struct blocks {
  span<const std::size_t> counts = {};  /* one per rank: number of elements of its block */
  span<const std::size_t> offsets = {}; /* one per rank: first element of its block; empty: packed in rank order */
};

namespace detail {

template <typename B>
using element_t = std::remove_cv_t<std::remove_pointer_t<data_t<B>>>;

/* true if std::data returns the same pointer type for B and for const B; this holds for types that do not own their
 * elements, such as a span */
template <typename B>
constexpr bool is_view = std::is_same_v<data_t<B>, data_t<const B>>;

/* true for std::vector<bool>, which packs its elements into bits */
template <typename B, typename = void>
constexpr bool is_bits = false;
template <typename B>
constexpr bool is_bits<B, std::void_t<typename B::value_type, typename B::reference>> =
    std::is_same_v<typename B::value_type, bool> && !std::is_reference_v<typename B::reference>;

/* true if T is no buffer, but a single element */
template <typename T>
constexpr bool is_value = !has_data<T>::value && std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;
template <typename T>
using if_value = std::enable_if_t<is_value<T>, int>;
template <typename B>
using if_buffer = std::enable_if_t<!is_value<std::remove_cv_t<std::remove_reference_t<B>>>, int>;

template <typename B>
constexpr void check_buffer() {
  static_assert(!is_bits<B>, "std::vector<bool> packs its elements into bits: pass a std::vector<unsigned char>");
  static_assert(has_data<B>::value,
                "a buffer must have contiguous elements: pass a vector, an array, or tutti::span(pointer, size)");
  static_assert(std::is_trivially_copyable_v<element_t<B>>, "the elements of a buffer must be trivially copyable");
}

/* Checks B, the type that was deduced for a parameter `B &&`. A temporary container is refused, because its elements
 * would not exist after the call. */
template <typename B>
constexpr void check_lasting() {
  check_buffer<std::remove_reference_t<B>>();
  static_assert(std::is_lvalue_reference_v<B> || is_view<std::remove_reference_t<B>>,
                "this buffer is a temporary that ends with the call: pass a variable, or a tutti::span");
}

/* One buffer, for a call in place. */
struct buffer {
  void *data;
  std::size_t size; /* in elements */
  tutti_datatype type;
};

/* The two buffers of a call, with elements of one type. */
struct buffers {
  const void *send;
  void *recv;
  std::size_t send_size, recv_size; /* in elements */
  tutti_datatype type;
};

/* Returns the description of a buffer that receives data. B: the type that was deduced for the caller's parameter `B
 * &&`. */
template <typename B>
buffer one(B &b) {
  check_lasting<B>();
  static_assert(!std::is_const_v<std::remove_pointer_t<data_t<B>>>, "this buffer receives: its elements are const");
  return {std::data(b), std::size(b), datatype_of<element_t<B>>};
}

/* Returns the description of the two buffers of a call. Recv: the type that was deduced for the caller's parameter
 * `Recv &&`. */
template <typename Send, typename Recv>
buffers two(const Send &send, Recv &recv) {
  check_buffer<const Send>();
  check_buffer<std::remove_reference_t<Recv>>();
  static_assert(std::is_same_v<element_t<const Send>, element_t<Recv>>, "send and recv must have one element type");
  const buffer out = one<Recv>(recv);
  return {std::data(send), out.data, std::size(send), out.size, out.type};
}

/* Returns the description of a call's buffers if the call only sends. */
template <typename Send>
buffers only(const Send &send) {
  check_buffer<const Send>();
  return {std::data(send), nullptr, std::size(send), 0, datatype_of<element_t<const Send>>};
}

/* Returns TUTTI_IN_PLACE. The macro has a C cast, which is a warning in some programs. */
inline void *in_place() { return reinterpret_cast<void *>(std::intptr_t{-1}); }

}  // namespace detail

/* ---- operations ------------------------------------------------------------------------------------------------- */

/* A reduction operation. The constants of C, such as TUTTI_SUM, convert to it; integers and other enums do not. */
class op {
 public:
  /* TUTTI_PREMUL_SUM has the factor 1. */
  constexpr op(decltype(TUTTI_SUM) id) noexcept : op(id, ANY, id == TUTTI_PREMUL_SUM ? 1 : 0) {}
  /* An operation that the program has registered with tutti_op_create(). */
  template <typename Handle, std::enable_if_t<std::is_same_v<Handle, tutti_op>, int> = 0>
  explicit constexpr op(Handle id) noexcept : op(id, ANY, 0) {}

  static const op sum, prod, min, max, avg, band, bor, bxor, land, lor, lxor;
  /* Returns the sum of the inputs, each multiplied by its rank's factor. */
  static constexpr op premul_sum(double factor) noexcept { return op(TUTTI_PREMUL_SUM, ANY, factor); }

  constexpr tutti_op id() const noexcept { return id_; }

 private:
  friend class comm_view;
  template <typename T, typename F>
  friend op make_op(F function, bool commutative, const std::string &name);
  static constexpr int ANY = -1;
  constexpr op(tutti_op id, int type, double scale) noexcept : id_(id), type_(type), scale_(scale) {}

  tutti_op id_;
  int type_;     /* the only datatype that the operation takes; ANY: no such limit */
  double scale_; /* premul_sum: factor of this rank's input */
};

inline constexpr op op::sum{TUTTI_SUM}, op::prod{TUTTI_PROD}, op::min{TUTTI_MIN}, op::max{TUTTI_MAX},
    op::avg{TUTTI_AVG}, op::band{TUTTI_BAND}, op::bor{TUTTI_BOR}, op::bxor{TUTTI_BXOR}, op::land{TUTTI_LAND},
    op::lor{TUTTI_LOR}, op::lxor{TUTTI_LXOR};

namespace detail {

[[noreturn]] inline void end_operation(const std::string &name, const char *problem, const char *detail) noexcept {
  std::fprintf(stderr, "tutti::make_op: operation %s %s%s; the process ends\n", name.c_str(), problem, detail);
  std::abort();
}

/* A callable that has become a user operation, and lives as long as the process. */
template <typename T, typename F>
struct operation {
  F function;
  std::string name;

  T one(T left, T right) const {
    if constexpr (std::is_same_v<std::invoke_result_t<const F &, T, T>, T>) return function(left, right);
    else return static_cast<T>(function(left, right));
  }

  /* Called by the C library. A problem ends the process, because neither an exception nor an error code can pass
   * through the C library. */
  static void apply(void *result, const void *left, const void *right, std::size_t count, tutti_datatype type,
                    void *context) noexcept {
    const operation &self = *static_cast<const operation *>(context);
    if (type != datatype_of<T>)
      end_operation(self.name, "got elements of another datatype: ", tutti_datatype_name(type));
    T *to = static_cast<T *>(result);
    const T *a = static_cast<const T *>(left), *b = static_cast<const T *>(right);
#if defined(__cpp_exceptions)
    try {
      for (std::size_t i = 0; i < count; i++) to[i] = self.one(a[i], b[i]);
    } catch (const std::exception &e) {
      end_operation(self.name, "threw an exception: ", e.what());
    } catch (...) {
      end_operation(self.name, "threw an exception", "");
    }
#else
    for (std::size_t i = 0; i < count; i++) to[i] = self.one(a[i], b[i]);
#endif
  }
};

}  // namespace detail

/* Registers a callable T(T left, T right) as an operation for elements of type T, until the process ends. The callable
 * must be associative. If commutative is false, only algorithms that combine in rank order are used. Several threads
 * may call the callable at a time. All ranks must register their operations in the same order. The callable must not
 * throw: an exception ends the process, with a message. Calls with elements of another type than T are refused. */
template <typename T, typename F>
op make_op(F function, bool commutative, const std::string &name) {
  static_assert(std::is_invocable_r_v<T, const F &, T, T>, "expected a callable T(T, T) that is const");
  using operation = detail::operation<T, F>;
  auto kept = std::make_unique<operation>(operation{std::move(function), name});
  tutti_op id = 0;
  check(tutti_op_create(&operation::apply, kept.get(), commutative, name.c_str(), &id));
  static_cast<void>(kept.release()); /* not freed, because the library may call it until the process ends */
  return op(id, datatype_of<T>, 0);
}
/* Refuses a `commutative` that is no bool, for example a name in its place. */
template <typename T, typename F, typename Commutative, std::enable_if_t<!std::is_same_v<Commutative, bool>, int> = 0>
op make_op(F, Commutative, const std::string &) = delete;

/* ---- options and calls ------------------------------------------------------------------------------------------ */

/* The structs of this section are aggregates, with the fields of the C structs in the same order. C++20 sets fields by
 * name: comm::init({.timeout_ms = 5000}). C++17 assigns them: options o; o.timeout_ms = 5000. */

/* A rank or a tag as an argument: an integer of any type. bool, enums and floating-point numbers do not convert to it.
 * An integer outside of 0 to 2^32 - 2 becomes 2^32 - 1, which the calls refuse. That is also the value of any_rank and
 * any_tag, but no integer becomes one of them. */
class number {
 public:
  template <typename T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  constexpr number(T value) noexcept : value_(INVALID) {
    const std::uint64_t wide = static_cast<std::make_unsigned_t<T>>(value);
    if (!(value < T{}) && wide < INVALID) value_ = static_cast<std::uint32_t>(wide);
  }
  constexpr operator std::uint32_t() const noexcept { return value_; }
  constexpr bool is_valid() const noexcept { return is_any_ || value_ != INVALID; }
  static constexpr number any() noexcept {
    number made(0);
    made.value_ = INVALID;
    made.is_any_ = true;
    return made;
  }

 private:
  static constexpr std::uint32_t INVALID = UINT32_MAX;
  std::uint32_t value_;
  bool is_any_ = false;
};

inline constexpr number any_rank = number::any(); /* peer of a receive or a probe: any rank */
inline constexpr number any_tag = number::any();  /* tag of a receive or a probe: any tag */

/* Options of comm::init; see tutti_options. */
struct options {
  int timeout_ms = 0;
  int join_timeout_ms = 0;
  int spin_us = 0;
  const tutti_bootstrap *bootstrap = nullptr;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  const char *address = nullptr;
  std::uint16_t port = 0;
  const char *secret = nullptr;
  void (*on_listen)(void *context, std::uint16_t port) = nullptr;
  void *on_listen_context = nullptr;
  std::uint64_t progress_thread = 0;
  tutti_parallel parallel = {};
  tutti_order order = TUTTI_ORDER_ANY;
  std::uint32_t reserved = 0;
  tutti_foreign foreign = {};
};

/* How calls are carried out; see the fields of tutti_call. Zero is the default of every field. */
struct settings {
  const char *algorithm = nullptr;
  const tutti_plan *plan = nullptr; /* plan::get() */
  int timeout_ms = 0;
  std::uint32_t lanes = 0;
  tutti_order order = TUTTI_ORDER_ANY;
};

/* A call with all its properties; see tutti_call. The templates of comm_view need none of this: they find counts and
 * datatypes by themselves. */
struct call {
  tutti_collective collective = TUTTI_ALLREDUCE;
  const void *send = nullptr;
  void *recv = nullptr;
  std::size_t count = 0;
  tutti_datatype type = TUTTI_I8; /* datatype_of<T> */
  tutti::op op = tutti::op::sum;
  number root = 0;
  number peer = 0;
  number tag = 0;
  span<const std::size_t> counts = {};
  span<const std::size_t> offsets = {};
  span<const std::size_t> recv_counts = {};
  span<const std::size_t> recv_offsets = {};
  const char *algorithm = nullptr;
  const tutti_plan *plan = nullptr; /* plan::get() */
  int timeout_ms = 0;
  const tutti_tensor *in = nullptr;
  const tutti_tensor *out = nullptr;
  int dim = 0;
  std::optional<int> out_dim = std::nullopt;
  bool in_parts = false;
  std::uint32_t lanes = 0;
  tutti_on_ready *on_ready = nullptr;
  void *on_ready_context = nullptr;
  tutti_message *message = nullptr;         /* recv: set when the request is complete without an error */
  span<const void *const> send_blocks = {}; /* address of each block, instead of send */
  span<void *const> recv_blocks = {};       /* address of each block, instead of recv */
  void *op_context = nullptr;
  std::size_t element_bytes = 0; /* with TUTTI_BYTES */
  std::uint32_t flags = 0;       /* TUTTI_ANY_SHAPE */
  tutti_order order = TUTTI_ORDER_ANY;
  std::uint32_t leaves = 0; /* of a reduction: number of inputs in send */
  bool folded = false;      /* send is fold::result() */
};

/* ---- owners ----------------------------------------------------------------------------------------------------- */

namespace detail {

/* Owner of a handle of the C API, or empty. End ends a handle and does not throw. */
template <typename Handle, auto End>
class owner {
 public:
  owner() noexcept = default;
  explicit owner(Handle *raw) noexcept : raw_(raw) {}
  owner(owner &&other) noexcept : raw_(other.release()) {}
  /* If the left side still owns a handle, ends that handle first, as the destructor does. */
  owner &operator=(owner &&other) noexcept {
    if (this == &other) return *this;
    end();
    raw_ = other.release();
    return *this;
  }
  ~owner() { end(); }

  /* Returns true if there is a handle. */
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  Handle *get() const noexcept { return raw_; }
  /* Returns the handle, and gives up its ownership. */
  Handle *release() noexcept { return std::exchange(raw_, nullptr); }

 protected:
  Handle *raw_ = nullptr;

 private:
  void end() noexcept {
    if (raw_) static_cast<void>(End(release()));
  }
};

/* Tells whether an exception that was thrown during the life of this object is being passed on. If so, a collective
 * destructor does not wait, because the other ranks may not take part. */
class unwinding {
 public:
  explicit operator bool() const noexcept { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

inline void end_request(tutti_request *raw) noexcept {
  const tutti_err ignored = tutti_wait(&raw);
  static_cast<void>(ignored);
  tutti_request_free(raw); /* raw is NULL after tutti_wait, except if the request is persistent or tutti_wait has
                            * refused to wait */
}

/* The common part of request and persistent_request. */
class request_owner : public owner<tutti_request, end_request> {
 public:
  using owner::owner;

  /* Returns true if the call is complete; does not wait. Throws the error if the call has failed. */
  [[nodiscard]] bool test() {
    bool done = false;
    check(tutti_test(&raw_, &done));
    return done;
  }
  /* Waits until the call is complete. Throws the error if it has failed. */
  void wait() { check(wait_code()); }
  /* Waits like wait(), but gives up after timeout_ms ms (0: does not wait; TUTTI_NO_TIMEOUT: no limit). Returns false if
   * it has given up: the call goes on. */
  [[nodiscard]] bool wait_for(int timeout_ms) {
    bool done = false;
    check(tutti_wait_for(&raw_, timeout_ms, &done));
    return done;
  }
  /* Returns true if the call is complete or has failed, so that wait() returns at once. Advances nothing. Any thread. */
  [[nodiscard]] bool done() const noexcept { return tutti_request_done(raw_); }

 private:
  template <typename Requests>
  friend void wait_all_of(Requests &requests);
  template <typename Requests>
  friend std::vector<std::size_t> test_some_of(Requests &requests);
  tutti_err wait_code() noexcept { return tutti_wait(&raw_); }
};

}  // namespace detail

/* Owner of a plan. The destructor frees it, which cannot fail. */
class plan : public detail::owner<tutti_plan, tutti_plan_free> {
 public:
  using owner::owner;
  /* Reads a plan from a file and proves it correct (tutti_plan_load). */
  static plan load(const std::string &path) {
    tutti_plan *made = nullptr;
    check(tutti_plan_load(path.c_str(), &made));
    return plan(made);
  }
};

/* Owner of a fold, which adds up the leaves of a call one at a time (tutti_fold). comm_view::make_fold creates it. It must
 * end before its communicator, and not before the calls that read it. */
class fold : public detail::owner<tutti_fold, tutti_fold_free> {
 public:
  using owner::owner;
  /* Adds the next leaf, which has as many elements as a send buffer of the call. */
  void add(const void *leaf) { check(tutti_fold_add(raw_, leaf)); }
  /* The fold, for call::send; nullptr before all leaves were added. */
  void *result() const noexcept { return tutti_fold_result(raw_); }
};

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* Owner of a call in progress. It is empty once test() or wait() has found the call complete. Until then the buffers
 * belong to the library, and must stay where they are. A request must be complete before its communicator ends.
 *
 * The destructor waits for a call that is still open, because the buffers may be freed next. It reports no error; an
 * error is the verdict of the communicator, so the next call there throws it. If waiting is impossible (see
 * tutti_wait), the communicator fails. */
class [[nodiscard]] request : public detail::request_owner {
 public:
  using request_owner::request_owner;
};

/* Owner of a persistent request: one call that can be started any number of times with the same buffers
 * (tutti_prepare). The destructor waits for a call that is still open, as that of request does, and frees the
 * request. */
class [[nodiscard]] persistent_request : public detail::request_owner {
 public:
  using request_owner::request_owner;
  /* Starts the call, which must not be open. */
  void start() { check(tutti_restart(raw_)); }
};

namespace detail {

template <typename Requests>
void wait_all_of(Requests &requests) {
  tutti_err first = TUTTI_OK;
  std::string message;
  for (request_owner &each : requests) {
    const tutti_err code = each.wait_code();
    if (first != TUTTI_OK || code == TUTTI_OK) continue;
    first = code;
    message = tutti_error_message(nullptr);
  }
  if (first != TUTTI_OK) fail(first, message);
}

template <typename Requests>
std::vector<std::size_t> test_some_of(Requests &requests) {
  std::vector<tutti_request *> list;
  for (const request_owner &each : requests) list.push_back(each.get());
  std::vector<std::size_t> indices(list.size());
  std::size_t done = 0, at = 0;
  const tutti_err code = tutti_test_some(list.data(), list.size(), indices.data(), &done);
  for (request_owner &each : requests) each.raw_ = list[at++];
  check(code);
  indices.resize(done);
  return indices;
}

}  // namespace detail

/* Advances all open requests once, and returns the positions of those requests of a container that are complete, in
 * ascending order (tutti_test_some). Empty requests are skipped. If a request has failed, throws its error: this request
 * is empty then, and so are those before it that were complete. */
template <typename Requests>
std::vector<std::size_t> test_some(Requests &&requests) {
  return detail::test_some_of(requests);
}

/* Waits until all requests of a container are complete. Then throws the first error, if there was one. */
template <typename Requests>
void wait_all(Requests &&requests) {
  detail::wait_all_of(requests);
}

/* ---- communicators ---------------------------------------------------------------------------------------------- */

class comm;

/* A communicator that another object owns: a comm, or a mesh. It is a pointer with settings, so it can be copied, and
 * must not be used after its owner has ended the communicator. Calls on an empty comm_view throw TUTTI_ERR_ARGUMENT.
 *
 * A buffer of a call is any object that converts to tutti::span; the number of elements and the datatype follow from
 * the buffers. Both buffers of a call have one element type. With one buffer the call is in place: the buffer holds the
 * input, and then the result. In a call such as allgather, one of the two buffers holds the blocks of all ranks. In
 * place, the single buffer is this one, and the rank's own block in it takes the role of the other buffer. In the
 * comments below N is the number of ranks. A call whose name begins with i is non-blocking: it starts the call and
 * returns a request. Its buffers must last until the request is complete. All ranks start the calls of a communicator
 * in the same order, except send and recv. */
class comm_view {
 public:
  comm_view() noexcept = default;
  explicit comm_view(tutti_comm *raw) noexcept : raw_(raw) {}
  /* Deleted, because a view of a temporary comm would outlive the communicator. */
  comm_view(comm &&) = delete;
  comm_view &operator=(comm &&) = delete;

  /* Returns a view whose calls are carried out as the settings say: world.with({.algorithm = "ring"}).allreduce(x,
   * op::sum). A field that is zero leaves the setting of this view. */
  comm_view with(const settings &how) const {
    comm_view changed(raw());
    changed.how_ = {how.algorithm ? how.algorithm : how_.algorithm, how.plan ? how.plan : how_.plan,
                    how.timeout_ms ? how.timeout_ms : how_.timeout_ms, how.lanes ? how.lanes : how_.lanes};
    return changed;
  }

  /* Makes a communicator of the same ranks, with separate messages. Collective. */
  comm dup() const;
  /* Makes a communicator of this rank alone. Not collective. */
  comm self() const;
  /* Makes a communicator of the ranks with the same colour, ordered by key, then by rank. Collective: all ranks of this
   * communicator call it. Without a colour, the rank joins no new communicator and gets std::nullopt. */
  std::optional<comm> split(std::optional<int> color, int key = 0) const;
  template <typename Color, std::enable_if_t<detail::is_one_of<Color, bool, float, double>, int> = 0>
  std::optional<comm> split(Color color, int key = 0) const = delete;
  /* Makes a communicator of some ranks; members[i] becomes its rank i. Only these ranks call, all with the same list
   * and tag. */
  comm create(span<const std::uint32_t> members, std::uint64_t tag) const;

  /* Returns this process's rank. */
  std::uint32_t rank() const { return tutti_rank(raw()); }
  /* Returns the number of ranks. */
  std::uint32_t ranks() const { return tutti_ranks(raw()); }
  /* Sets the time limit in ms of calls on the communicator; 0 or TUTTI_NO_TIMEOUT: no limit. */
  void set_timeout(int timeout_ms) const { check(tutti_comm_set_timeout(raw(), timeout_ms)); }
  /* Returns what is known of a rank: how many calls it has made, for how long it has waited, and for how long the others
   * have waited for it (tutti_stats). Local. */
  tutti_rank_stats stats(number rank) const {
    tutti_rank_stats known{};
    check(tutti_stats(raw(), rank, &known));
    return known;
  }
  /* Keeps a pointer of the program with the communicator, and returns it; nullptr at first. Any thread. */
  void set_user(void *user) const { tutti_comm_set_user(raw(), user); }
  void *user() const { return tutti_comm_user(raw()); }
  /* Creates an operation of this communicator from a C function; see tutti_comm_op_create. All ranks create the
   * operations of a communicator in the same order. It ends with the communicator, or by free_op. */
  op create_op(const tutti_op_options &options) const {
    tutti_op id = 0;
    check(tutti_comm_op_create(raw(), &options, &id));
    return op(id);
  }
  /* Frees an operation of create_op; open calls finish with it. */
  void free_op(op operation) const { check(tutti_comm_op_free(raw(), operation.id())); }
  /* Fails the communicator on all its ranks with TUTTI_ERR_ABORTED and this reason. Any thread may call it. */
  void abort(const std::string &reason) const { tutti_abort(raw(), reason.c_str()); }

  /* Returns true if there is a communicator. */
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  tutti_comm *get() const noexcept { return raw_; }

  /* Executes a call that is described by the struct. The struct has fields for which the members below have no
   * parameter, such as tensors and partitions. */
  void run(const call &described) const { run_call(lowered(described)); }
  /* Starts a call that is described by the struct, and does not wait. */
  request start(const call &described) const { return start_call(lowered(described)); }
  /* Throws the error with which start would refuse the call on this rank now. Starts nothing, and the communicator does
   * not fail (tutti_check_call). */
  void check_call(const call &described) const {
    comm_view checking(*this);
    checking.only_checks_ = true;
    const tutti_call complete = with_settings(checking.lowered(described));
    check(tutti_check_call(raw(), &complete));
  }
  /* What `start` would use for a call (tutti_query_call). */
  struct answer {
    std::string algorithm;
    bool canonical = false;
  };
  answer query_call(const call &described) const {
    comm_view checking(*this);
    checking.only_checks_ = true;
    const tutti_call complete = with_settings(checking.lowered(described));
    const char *algorithm = nullptr;
    answer found;
    check(tutti_query_call(raw(), &complete, &algorithm, &found.canonical));
    found.algorithm = algorithm;
    return found;
  }
  /* Makes a fold for the leaves of a call (tutti_fold_create). */
  fold make_fold(const call &described) const {
    comm_view checking(*this);
    checking.only_checks_ = true;
    const tutti_call complete = checking.lowered(described);
    tutti_fold *made = nullptr;
    check(tutti_fold_create(raw(), &complete, &made));
    return fold(made);
  }
  /* Starts several calls, for example sends and receives, as one request. */
  request start_all(span<const call> described) const {
    std::vector<tutti_call> calls;
    for (const call &each : described) calls.push_back(with_settings(lowered(each)));
    tutti_request *started = nullptr;
    check(tutti_start_all(raw(), calls.data(), calls.size(), &started));
    return request(started);
  }
  /* Makes a persistent request for a call. It does not start it. */
  persistent_request prepare(const call &described) const {
    const tutti_call made = with_settings(lowered(described));
    tutti_request *prepared = nullptr;
    check(tutti_prepare(raw(), &made, &prepared));
    return persistent_request(prepared);
  }

  /* ---- collectives; send and recv ---- */

  /* Reduces the inputs of all ranks; every rank gets the result. send and recv have equal sizes. */
  template <typename Send, typename Recv>
  void allreduce(const Send &send, Recv &&recv, op operation) const {
    run_call(reduction(TUTTI_ALLREDUCE, detail::two<Send, Recv>(send, recv), operation));
  }
  template <typename Buffer, detail::if_buffer<Buffer> = 0>
  void allreduce(Buffer &&buffer, op operation) const {
    run_call(reduction(TUTTI_ALLREDUCE, detail::one<Buffer>(buffer), operation));
  }
  /* With a single value, returns the result. */
  template <typename T, detail::if_value<T> = 0>
  [[nodiscard]] T allreduce(const T &value, op operation) const {
    T result = value;
    allreduce(span<T>(&result, 1), operation);
    return result;
  }
  template <typename Send, typename Recv>
  request iallreduce(Send &&send, Recv &&recv, op operation) const {
    detail::check_lasting<Send>();
    return start_call(reduction(TUTTI_ALLREDUCE, detail::two<Send, Recv>(send, recv), operation));
  }
  template <typename Buffer>
  request iallreduce(Buffer &&buffer, op operation) const {
    return start_call(reduction(TUTTI_ALLREDUCE, detail::one<Buffer>(buffer), operation));
  }

  /* Reduces the inputs of all ranks; only root gets the result. recv is used at root only, where it has the size of
   * send. */
  template <typename Send, typename Recv>
  void reduce(const Send &send, Recv &&recv, op operation, number root) const {
    run_call(to_root(detail::two<Send, Recv>(send, recv), operation, root));
  }
  template <typename Buffer, detail::if_buffer<Buffer> = 0>
  void reduce(Buffer &&buffer, op operation, number root) const {
    run_call(to_root(detail::one<Buffer>(buffer), operation, root));
  }
  /* With a single value, returns the result at root, and std::nullopt on other ranks. */
  template <typename T, detail::if_value<T> = 0>
  [[nodiscard]] std::optional<T> reduce(const T &value, op operation, number root) const {
    T result = value;
    reduce(span<T>(&result, 1), operation, root);
    return rank() == root ? std::optional<T>(result) : std::nullopt;
  }
  template <typename Send, typename Recv>
  request ireduce(Send &&send, Recv &&recv, op operation, number root) const {
    detail::check_lasting<Send>();
    return start_call(to_root(detail::two<Send, Recv>(send, recv), operation, root));
  }
  template <typename Buffer>
  request ireduce(Buffer &&buffer, op operation, number root) const {
    return start_call(to_root(detail::one<Buffer>(buffer), operation, root));
  }

  /* Copies the buffer of root to all ranks. The buffer has the same size on all ranks. */
  template <typename Buffer, detail::if_buffer<Buffer> = 0>
  void broadcast(Buffer &&buffer, number root) const {
    run_call(from_root(detail::one<Buffer>(buffer), root));
  }
  /* With a single value, returns the value of root. */
  template <typename T, detail::if_value<T> = 0>
  [[nodiscard]] T broadcast(const T &value, number root) const {
    T result = value;
    broadcast(span<T>(&result, 1), root);
    return result;
  }
  template <typename Buffer>
  request ibroadcast(Buffer &&buffer, number root) const {
    return start_call(from_root(detail::one<Buffer>(buffer), root));
  }

  /* Collects the inputs of all ranks on root, in rank order. At root recv has N times the size of send; on other ranks
   * recv is unused. With one buffer: it holds all blocks at root, and only the rank's own block on other ranks. */
  template <typename Send, typename Recv>
  void gather(const Send &send, Recv &&recv, number root) const {
    run_call(gathering(detail::two<Send, Recv>(send, recv), root));
  }
  template <typename Buffer>
  void gather(Buffer &&buffer, number root) const {
    run_call(gathering(detail::one<Buffer>(buffer), root));
  }
  template <typename Send, typename Recv>
  request igather(Send &&send, Recv &&recv, number root) const {
    detail::check_lasting<Send>();
    return start_call(gathering(detail::two<Send, Recv>(send, recv), root));
  }
  template <typename Buffer>
  request igather(Buffer &&buffer, number root) const {
    return start_call(gathering(detail::one<Buffer>(buffer), root));
  }

  /* Gives every rank its block of the buffer of root. At root send has N times the size of recv; on other ranks send is
   * unused. With one buffer: it holds all blocks at root, and only the rank's own block on other ranks. */
  template <typename Send, typename Recv>
  void scatter(const Send &send, Recv &&recv, number root) const {
    run_call(scattering(detail::two<Send, Recv>(send, recv), root));
  }
  template <typename Buffer>
  void scatter(Buffer &&buffer, number root) const {
    run_call(scattering(detail::one<Buffer>(buffer), root));
  }
  template <typename Send, typename Recv>
  request iscatter(Send &&send, Recv &&recv, number root) const {
    detail::check_lasting<Send>();
    return start_call(scattering(detail::two<Send, Recv>(send, recv), root));
  }
  template <typename Buffer>
  request iscatter(Buffer &&buffer, number root) const {
    return start_call(scattering(detail::one<Buffer>(buffer), root));
  }

  /* Collects the inputs of all ranks on every rank, in rank order. recv has N times the size of send. With one buffer,
   * the rank's block in it is the input. */
  template <typename Send, typename Recv>
  void allgather(const Send &send, Recv &&recv) const {
    run_call(allgathering(detail::two<Send, Recv>(send, recv)));
  }
  template <typename Buffer, detail::if_buffer<Buffer> = 0>
  void allgather(Buffer &&buffer) const {
    run_call(allgathering(detail::one<Buffer>(buffer)));
  }
  /* With a single value, returns the values of all ranks. */
  template <typename T, detail::if_value<T> = 0>
  [[nodiscard]] std::vector<T> allgather(const T &value) const {
    std::vector<T> values(ranks());
    allgather(span<const T>(&value, 1), values);
    return values;
  }
  template <typename Send, typename Recv>
  request iallgather(Send &&send, Recv &&recv) const {
    detail::check_lasting<Send>();
    return start_call(allgathering(detail::two<Send, Recv>(send, recv)));
  }
  template <typename Buffer>
  request iallgather(Buffer &&buffer) const {
    return start_call(allgathering(detail::one<Buffer>(buffer)));
  }

  /* Reduces the inputs of all ranks; every rank gets its block of the result. send has N times the size of recv. With
   * one buffer, the result replaces the rank's block in it. */
  template <typename Send, typename Recv>
  void reduce_scatter(const Send &send, Recv &&recv, op operation) const {
    run_call(reduce_scattering(detail::two<Send, Recv>(send, recv), operation));
  }
  template <typename Buffer>
  void reduce_scatter(Buffer &&buffer, op operation) const {
    run_call(reduce_scattering(detail::one<Buffer>(buffer), operation));
  }
  template <typename Send, typename Recv>
  request ireduce_scatter(Send &&send, Recv &&recv, op operation) const {
    detail::check_lasting<Send>();
    return start_call(reduce_scattering(detail::two<Send, Recv>(send, recv), operation));
  }
  template <typename Buffer>
  request ireduce_scatter(Buffer &&buffer, op operation) const {
    return start_call(reduce_scattering(detail::one<Buffer>(buffer), operation));
  }

  /* Sends block i to rank i, and collects the blocks sent to this rank, in rank order. send and recv have equal sizes,
   * a multiple of N. */
  template <typename Send, typename Recv>
  void alltoall(const Send &send, Recv &&recv) const {
    run_call(alltoall_call(detail::two<Send, Recv>(send, recv)));
  }
  template <typename Buffer>
  void alltoall(Buffer &&buffer) const {
    run_call(alltoall_call(detail::one<Buffer>(buffer)));
  }
  template <typename Send, typename Recv>
  request ialltoall(Send &&send, Recv &&recv) const {
    detail::check_lasting<Send>();
    return start_call(alltoall_call(detail::two<Send, Recv>(send, recv)));
  }
  template <typename Buffer>
  request ialltoall(Buffer &&buffer) const {
    return start_call(alltoall_call(detail::one<Buffer>(buffer)));
  }

  /* Returns when all ranks have called it. */
  void barrier() const { run_call(call_of(TUTTI_BARRIER)); }
  request ibarrier() const { return start_call(call_of(TUTTI_BARRIER)); }

  /* Inclusive scan: rank r gets the reduction of the inputs of ranks 0 to r. send and recv have equal sizes. */
  template <typename Send, typename Recv>
  void scan(const Send &send, Recv &&recv, op operation) const {
    run_call(reduction(TUTTI_SCAN, detail::two<Send, Recv>(send, recv), operation));
  }
  template <typename Buffer, detail::if_buffer<Buffer> = 0>
  void scan(Buffer &&buffer, op operation) const {
    run_call(reduction(TUTTI_SCAN, detail::one<Buffer>(buffer), operation));
  }
  /* With a single value, returns the result. */
  template <typename T, detail::if_value<T> = 0>
  [[nodiscard]] T scan(const T &value, op operation) const {
    T result = value;
    scan(span<T>(&result, 1), operation);
    return result;
  }
  template <typename Send, typename Recv>
  request iscan(Send &&send, Recv &&recv, op operation) const {
    detail::check_lasting<Send>();
    return start_call(reduction(TUTTI_SCAN, detail::two<Send, Recv>(send, recv), operation));
  }
  template <typename Buffer>
  request iscan(Buffer &&buffer, op operation) const {
    return start_call(reduction(TUTTI_SCAN, detail::one<Buffer>(buffer), operation));
  }

  /* Exclusive scan: rank r gets the reduction of the inputs of ranks 0 to r - 1. send and recv have equal sizes. On
   * rank 0, recv is unchanged. */
  template <typename Send, typename Recv>
  void exscan(const Send &send, Recv &&recv, op operation) const {
    run_call(reduction(TUTTI_EXSCAN, detail::two<Send, Recv>(send, recv), operation));
  }
  template <typename Buffer, detail::if_buffer<Buffer> = 0>
  void exscan(Buffer &&buffer, op operation) const {
    run_call(reduction(TUTTI_EXSCAN, detail::one<Buffer>(buffer), operation));
  }
  /* With a single value, returns the result, and std::nullopt on rank 0. */
  template <typename T, detail::if_value<T> = 0>
  [[nodiscard]] std::optional<T> exscan(const T &value, op operation) const {
    T result = value;
    exscan(span<T>(&result, 1), operation);
    return rank() > 0 ? std::optional<T>(result) : std::nullopt;
  }
  template <typename Send, typename Recv>
  request iexscan(Send &&send, Recv &&recv, op operation) const {
    detail::check_lasting<Send>();
    return start_call(reduction(TUTTI_EXSCAN, detail::two<Send, Recv>(send, recv), operation));
  }
  template <typename Buffer>
  request iexscan(Buffer &&buffer, op operation) const {
    return start_call(reduction(TUTTI_EXSCAN, detail::one<Buffer>(buffer), operation));
  }

  /* Collects blocks of different sizes on root. `at` describes the blocks in recv; `at` and recv are used at root only.
   * send is the rank's own block. With one buffer: it holds all blocks at root, and only the rank's own block on other
   * ranks. */
  template <typename Send, typename Recv>
  void gatherv(const Send &send, Recv &&recv, const blocks &at, number root) const {
    run_call(gathering(detail::two<Send, Recv>(send, recv), at, root));
  }
  template <typename Buffer>
  void gatherv(Buffer &&buffer, const blocks &at, number root) const {
    run_call(gathering(detail::one<Buffer>(buffer), at, root));
  }
  template <typename Send, typename Recv>
  request igatherv(Send &&send, Recv &&recv, const blocks &at, number root) const {
    detail::check_lasting<Send>();
    return start_call(gathering(detail::two<Send, Recv>(send, recv), at, root));
  }
  template <typename Buffer>
  request igatherv(Buffer &&buffer, const blocks &at, number root) const {
    return start_call(gathering(detail::one<Buffer>(buffer), at, root));
  }

  /* Distributes blocks of different sizes from root. `at` describes the blocks in send; `at` and send are used at root
   * only. recv is the rank's own block. With one buffer: it holds all blocks at root, and only the rank's own block on
   * other ranks. */
  template <typename Send, typename Recv>
  void scatterv(const Send &send, Recv &&recv, const blocks &at, number root) const {
    run_call(scattering(detail::two<Send, Recv>(send, recv), at, root));
  }
  template <typename Buffer>
  void scatterv(Buffer &&buffer, const blocks &at, number root) const {
    run_call(scattering(detail::one<Buffer>(buffer), at, root));
  }
  template <typename Send, typename Recv>
  request iscatterv(Send &&send, Recv &&recv, const blocks &at, number root) const {
    detail::check_lasting<Send>();
    return start_call(scattering(detail::two<Send, Recv>(send, recv), at, root));
  }
  template <typename Buffer>
  request iscatterv(Buffer &&buffer, const blocks &at, number root) const {
    return start_call(scattering(detail::one<Buffer>(buffer), at, root));
  }

  /* Collects blocks of different sizes on all ranks. `at` describes the blocks in recv; the counts are equal on all
   * ranks. With one buffer, the rank's block in it is the input. */
  template <typename Send, typename Recv>
  void allgatherv(const Send &send, Recv &&recv, const blocks &at) const {
    run_call(allgathering(detail::two<Send, Recv>(send, recv), at));
  }
  template <typename Buffer>
  void allgatherv(Buffer &&buffer, const blocks &at) const {
    run_call(allgathering(detail::one<Buffer>(buffer), at));
  }
  template <typename Send, typename Recv>
  request iallgatherv(Send &&send, Recv &&recv, const blocks &at) const {
    detail::check_lasting<Send>();
    return start_call(allgathering(detail::two<Send, Recv>(send, recv), at));
  }
  template <typename Buffer>
  request iallgatherv(Buffer &&buffer, const blocks &at) const {
    return start_call(allgathering(detail::one<Buffer>(buffer), at));
  }

  /* Reduces the inputs of all ranks; each rank gets one block of the result. `at` describes the blocks in send, which
   * may differ in size; the counts are equal on all ranks. With one buffer, the result replaces the rank's block in
   * it. */
  template <typename Send, typename Recv>
  void reduce_scatterv(const Send &send, Recv &&recv, const blocks &at, op operation) const {
    run_call(reduce_scattering(detail::two<Send, Recv>(send, recv), at, operation));
  }
  template <typename Buffer>
  void reduce_scatterv(Buffer &&buffer, const blocks &at, op operation) const {
    run_call(reduce_scattering(detail::one<Buffer>(buffer), at, operation));
  }
  template <typename Send, typename Recv>
  request ireduce_scatterv(Send &&send, Recv &&recv, const blocks &at, op operation) const {
    detail::check_lasting<Send>();
    return start_call(reduce_scattering(detail::two<Send, Recv>(send, recv), at, operation));
  }
  template <typename Buffer>
  request ireduce_scatterv(Buffer &&buffer, const blocks &at, op operation) const {
    return start_call(reduce_scattering(detail::one<Buffer>(buffer), at, operation));
  }

  /* Sends a block to every rank, and receives a block from every rank. The blocks may differ in size. With one buffer,
   * block r is replaced by the block from rank r, which has the same size. */
  template <typename Send, typename Recv>
  void alltoallv(const Send &send, const blocks &send_at, Recv &&recv, const blocks &recv_at) const {
    run_call(alltoall_call(detail::two<Send, Recv>(send, recv), send_at, recv_at));
  }
  template <typename Buffer>
  void alltoallv(Buffer &&buffer, const blocks &at) const {
    run_call(alltoall_call(detail::one<Buffer>(buffer), at));
  }
  template <typename Send, typename Recv>
  request ialltoallv(Send &&send, const blocks &send_at, Recv &&recv, const blocks &recv_at) const {
    detail::check_lasting<Send>();
    return start_call(alltoall_call(detail::two<Send, Recv>(send, recv), send_at, recv_at));
  }
  template <typename Buffer>
  request ialltoallv(Buffer &&buffer, const blocks &at) const {
    return start_call(alltoall_call(detail::one<Buffer>(buffer), at));
  }

  /* Sends a message to `peer`. Messages of one pair of ranks and one tag arrive in the order in which they were
   * sent. */
  template <typename Send>
  void send(const Send &buffer, number peer, number tag = 0) const {
    run_call(message(TUTTI_SEND, detail::only(buffer), peer, tag));
  }
  template <typename Send>
  request isend(Send &&buffer, number peer, number tag = 0) const {
    detail::check_lasting<Send>();
    return start_call(message(TUTTI_SEND, detail::only(buffer), peer, tag));
  }
  /* Receives the next message from `peer` with this tag, which has the size of the buffer. peer may be any_rank, and tag
   * any_tag. Returns whose message it was. */
  template <typename Recv>
  tutti_message recv(Recv &&buffer, number peer, number tag = 0) const {
    tutti_message got{};
    run_call(message(TUTTI_RECV, both(detail::one<Recv>(buffer)), peer, tag, &got));
    return got;
  }
  /* got: set when the request is complete without an error; until then it must exist. nullptr: not wanted. */
  template <typename Recv>
  request irecv(Recv &&buffer, number peer, number tag = 0, tutti_message *got = nullptr) const {
    return start_call(message(TUTTI_RECV, both(detail::one<Recv>(buffer)), peer, tag, got));
  }
  /* Searches for a message that recv(buffer, peer, tag) would receive now, without receiving it; see tutti_probe. */
  std::optional<tutti_message> probe(number peer, number tag = 0, int timeout_ms = 0) const {
    bool found = false;
    tutti_message got{};
    check_numbers(TUTTI_RECV, peer, tag);
    check(tutti_probe(raw(), peer, tag, timeout_ms, &found, &got));
    return found ? std::optional<tutti_message>(got) : std::nullopt;
  }

 protected:
  /* Returns the communicator; throws if there is none. */
  tutti_comm *raw() const {
    if (!raw_)
      detail::fail(TUTTI_ERR_ARGUMENT,
                   "tutti::comm: this communicator is empty; it was moved from, ended, or never made");
    return raw_;
  }

  /* Translates the struct of C++. An array with a wrong number of entries is refused here, because C sees no size. */
  tutti_call lowered(const call &c) const {
    const std::pair<const char *, span<const std::size_t>> arrays[] = {
        {"counts", c.counts}, {"offsets", c.offsets}, {"recv_counts", c.recv_counts}, {"recv_offsets", c.recv_offsets}};
    for (const auto &[name, array] : arrays)
      if (!array.empty()) check_entries(c.collective, "the call", name, array.size());
    if (!c.send_blocks.empty()) check_entries(c.collective, "the call", "send_blocks", c.send_blocks.size());
    if (!c.recv_blocks.empty()) check_entries(c.collective, "the call", "recv_blocks", c.recv_blocks.size());
    check_numbers(c.collective, c.peer, c.tag);
    tutti_call made = call_of(c.collective, c.send, c.recv, c.count, c.type, c.root);
    made.peer = c.peer;
    made.tag = c.tag;
    made.counts = start_of(c.counts);
    made.offsets = start_of(c.offsets);
    made.recv_counts = start_of(c.recv_counts);
    made.recv_offsets = start_of(c.recv_offsets);
    made.algorithm = c.algorithm;
    made.plan = c.plan;
    made.timeout_ms = c.timeout_ms;
    made.in = c.in;
    made.out = c.out;
    made.dim = c.dim;
    made.out_dim = c.out_dim.value_or(0);
    made.has_out_dim = c.out_dim.has_value();
    made.in_parts = c.in_parts;
    made.leaves = c.leaves;
    made.folded = c.folded;
    made.lanes = c.lanes;
    made.on_ready = c.on_ready;
    made.on_ready_context = c.on_ready_context;
    made.message = c.message;
    made.send_blocks = start_of(c.send_blocks);
    made.recv_blocks = start_of(c.recv_blocks);
    made.op_context = c.op_context;
    made.element_bytes = c.element_bytes;
    made.flags = c.flags;
    made.order = c.order;
    return set(made, c.op, c.in ? c.in->type : c.out ? c.out->type : c.type);
  }

  tutti_comm *raw_ = nullptr;

 private:
  tutti_call with_settings(tutti_call made) const {
    if (!made.algorithm) made.algorithm = how_.algorithm;
    if (!made.plan) made.plan = how_.plan;
    if (made.timeout_ms == 0) made.timeout_ms = how_.timeout_ms;
    if (made.lanes == 0) made.lanes = how_.lanes;
    if (made.order == TUTTI_ORDER_ANY) made.order = how_.order;
    return made;
  }
  void run_call(const tutti_call &made) const {
    const tutti_call complete = with_settings(made);
    check(tutti_run_call(raw(), &complete));
  }
  request start_call(const tutti_call &made) const {
    const tutti_call complete = with_settings(made);
    tutti_request *started = nullptr;
    check(tutti_start(raw(), &complete, &started));
    return request(started);
  }

  /* ---- checks of sizes. Every failure goes through refuse(). ---- */

  /* Fails the communicator, so that no other rank waits for this one, and throws. The other ranks get
   * TUTTI_ERR_ABORTED with the message. If the call is only checked, the communicator does not fail. */
  [[noreturn]] void refuse(tutti_collective collective, const std::string &problem) const {
    const std::string message = std::string(tutti_collective_name(collective)) + ": " + problem;
    if (!only_checks_) tutti_abort(raw(), message.c_str());
    detail::fail(TUTTI_ERR_ARGUMENT, "rank " + std::to_string(rank()) + ": " + message);
  }

  void check_equal(tutti_collective collective, const detail::buffers &b) const {
    if (b.send_size != b.recv_size)
      refuse(collective, "recv has " + elements(b.recv_size) + "; expected " + elements(b.send_size) + ", as in send");
  }

  /* Checks that a buffer has one block of this size per rank. */
  void check_whole(tutti_collective collective, const char *name, std::size_t size, const char *block_name,
                   std::size_t block) const {
    if (size % ranks() == 0 && size / ranks() == block) return;
    refuse(collective, std::string(name) + " has " + elements(size) + "; expected " + std::to_string(ranks()) +
                           " times the " + elements(block) + " of " + block_name + ", one block per rank");
  }

  /* Returns the size of a block, in elements, of a buffer that has one block per rank. */
  std::size_t block_of(tutti_collective collective, const char *name, std::size_t size) const {
    if (size % ranks() != 0)
      refuse(collective, std::string(name) + " has " + elements(size) + "; expected a multiple of " +
                             std::to_string(ranks()) + ", one block per rank");
    return size / ranks();
  }

  /* Checks the arrays of a vector variant, and that all blocks are in the buffer. */
  void check_blocks(tutti_collective collective, const char *name, const blocks &at, std::size_t size) const {
    check_entries(collective, name, "counts", at.counts.size());
    if (!at.offsets.empty()) check_entries(collective, name, "offsets", at.offsets.size());
    std::size_t packed = 0;
    for (std::size_t i = 0; i < at.counts.size(); i++) {
      const std::size_t count = at.counts[i], first = at.offsets.empty() ? packed : at.offsets[i];
      if (count > 0 && (first > size || count > size - first))
        refuse(collective, std::string(name) + " has " + elements(size) + "; expected block " + std::to_string(i) +
                               " in it, which has " + elements(count) + " from element " + std::to_string(first) +
                               " on");
      packed += count;
    }
  }
  void check_entries(tutti_collective collective, const char *name, const char *array, std::size_t entries) const {
    if (entries != ranks())
      refuse(collective, std::string(array) + " of the blocks in " + name + ": found " + std::to_string(entries) +
                             " entries; expected " + std::to_string(ranks()) + ", one per rank");
  }
  /* Checks that the buffer with this rank's own block has as many elements as at.counts states for this rank. */
  void check_own(tutti_collective collective, const char *name, std::size_t size, const blocks &at) const {
    if (size != at.counts[rank()])
      refuse(collective, std::string(name) + " has " + elements(size) + "; expected " + elements(at.counts[rank()]) +
                             ", the count of rank " + std::to_string(rank()));
  }

  static std::string elements(std::size_t count) {
    return std::to_string(count) + (count == 1 ? " element" : " elements");
  }

  /* ---- descriptions of calls ---- */

  static tutti_call call_of(tutti_collective collective) {
    tutti_call call{};
    call.collective = collective;
    return call;
  }
  static tutti_call call_of(tutti_collective collective, const void *send, void *recv, std::size_t count,
                            tutti_datatype type, std::uint32_t root = 0) {
    tutti_call call{};
    call.collective = collective;
    call.send = send;
    call.recv = recv;
    call.count = count;
    call.type = type;
    call.root = root;
    return call;
  }

  /* Describes an in-place call: the one buffer is both send and recv. */
  static detail::buffers both(const detail::buffer &b) { return {b.data, b.data, b.size, b.size, b.type}; }

  /* Sets the operation, which must be for elements of this type. */
  tutti_call &set(tutti_call &call, op operation, tutti_datatype type) const {
    if (operation.type_ != op::ANY && operation.type_ != static_cast<int>(type))
      refuse(call.collective, std::string("operation ") + tutti_op_name(operation.id_) +
                                  " is only for elements of type " +
                                  tutti_datatype_name(static_cast<tutti_datatype>(operation.type_)) + "; found " +
                                  tutti_datatype_name(type));
    call.op = operation.id_;
    call.scale = operation.scale_;
    return call;
  }
  tutti_call &set(tutti_call &call, op operation) const { return set(call, operation, call.type); }
  /* Returns the address of the array; NULL if the array is empty, because data() need not be NULL then. */
  template <typename T>
  static const T *start_of(span<const T> array) {
    return array.empty() ? nullptr : array.data();
  }
  static tutti_call &set(tutti_call &call, const blocks &at) {
    call.counts = start_of(at.counts);
    call.offsets = start_of(at.offsets);
    return call;
  }

  tutti_call reduction(tutti_collective collective, const detail::buffers &b, op operation) const {
    check_equal(collective, b);
    tutti_call call = call_of(collective, b.send, b.recv, b.send_size, b.type);
    return set(call, operation);
  }
  tutti_call reduction(tutti_collective collective, const detail::buffer &b, op operation) const {
    return reduction(collective, both(b), operation);
  }

  tutti_call to_root(const detail::buffers &b, op operation, std::uint32_t root) const {
    if (rank() == root) check_equal(TUTTI_REDUCE, b);
    tutti_call call = call_of(TUTTI_REDUCE, b.send, b.recv, b.send_size, b.type, root);
    return set(call, operation);
  }
  tutti_call to_root(const detail::buffer &b, op operation, std::uint32_t root) const {
    return to_root(both(b), operation, root);
  }

  static tutti_call from_root(const detail::buffer &b, std::uint32_t root) {
    return call_of(TUTTI_BROADCAST, b.data, b.data, b.size, b.type, root);
  }

  tutti_call gathering(const detail::buffers &b, std::uint32_t root) const {
    if (rank() == root) check_whole(TUTTI_GATHER, "recv", b.recv_size, "send", b.send_size);
    return call_of(TUTTI_GATHER, b.send, b.recv, b.send_size, b.type, root);
  }
  tutti_call gathering(const detail::buffer &b, std::uint32_t root) const {
    if (rank() != root) return call_of(TUTTI_GATHER, b.data, nullptr, b.size, b.type, root);
    const std::size_t count = block_of(TUTTI_GATHER, "the buffer", b.size);
    return call_of(TUTTI_GATHER, detail::in_place(), b.data, count, b.type, root);
  }

  tutti_call scattering(const detail::buffers &b, std::uint32_t root) const {
    if (rank() == root) check_whole(TUTTI_SCATTER, "send", b.send_size, "recv", b.recv_size);
    return call_of(TUTTI_SCATTER, b.send, b.recv, b.recv_size, b.type, root);
  }
  tutti_call scattering(const detail::buffer &b, std::uint32_t root) const {
    if (rank() != root) return call_of(TUTTI_SCATTER, nullptr, b.data, b.size, b.type, root);
    const std::size_t count = block_of(TUTTI_SCATTER, "the buffer", b.size);
    return call_of(TUTTI_SCATTER, b.data, detail::in_place(), count, b.type, root);
  }

  tutti_call allgathering(const detail::buffers &b) const {
    check_whole(TUTTI_ALLGATHER, "recv", b.recv_size, "send", b.send_size);
    return call_of(TUTTI_ALLGATHER, b.send, b.recv, b.send_size, b.type);
  }
  tutti_call allgathering(const detail::buffer &b) const {
    const std::size_t count = block_of(TUTTI_ALLGATHER, "the buffer", b.size);
    return call_of(TUTTI_ALLGATHER, detail::in_place(), b.data, count, b.type);
  }

  tutti_call reduce_scattering(const detail::buffers &b, op operation) const {
    check_whole(TUTTI_REDUCE_SCATTER, "send", b.send_size, "recv", b.recv_size);
    tutti_call call = call_of(TUTTI_REDUCE_SCATTER, b.send, b.recv, b.recv_size, b.type);
    return set(call, operation);
  }
  tutti_call reduce_scattering(const detail::buffer &b, op operation) const {
    const std::size_t count = block_of(TUTTI_REDUCE_SCATTER, "the buffer", b.size);
    tutti_call call = call_of(TUTTI_REDUCE_SCATTER, b.data, detail::in_place(), count, b.type);
    return set(call, operation);
  }

  tutti_call alltoall_call(const detail::buffers &b) const {
    check_equal(TUTTI_ALLTOALL, b);
    return call_of(TUTTI_ALLTOALL, b.send, b.recv, block_of(TUTTI_ALLTOALL, "send", b.send_size), b.type);
  }
  tutti_call alltoall_call(const detail::buffer &b) const {
    const std::size_t count = block_of(TUTTI_ALLTOALL, "the buffer", b.size);
    return call_of(TUTTI_ALLTOALL, detail::in_place(), b.data, count, b.type);
  }

  tutti_call gathering(const detail::buffers &b, const blocks &at, std::uint32_t root) const {
    tutti_call call = call_of(TUTTI_GATHERV, b.send, b.recv, b.send_size, b.type, root);
    if (rank() != root) return call;
    check_blocks(TUTTI_GATHERV, "recv", at, b.recv_size);
    check_own(TUTTI_GATHERV, "send", b.send_size, at);
    return set(call, at);
  }
  tutti_call gathering(const detail::buffer &b, const blocks &at, std::uint32_t root) const {
    if (rank() != root) return call_of(TUTTI_GATHERV, b.data, nullptr, b.size, b.type, root);
    check_blocks(TUTTI_GATHERV, "the buffer", at, b.size);
    tutti_call call = call_of(TUTTI_GATHERV, detail::in_place(), b.data, at.counts[rank()], b.type, root);
    return set(call, at);
  }

  tutti_call scattering(const detail::buffers &b, const blocks &at, std::uint32_t root) const {
    tutti_call call = call_of(TUTTI_SCATTERV, b.send, b.recv, b.recv_size, b.type, root);
    if (rank() != root) return call;
    check_blocks(TUTTI_SCATTERV, "send", at, b.send_size);
    check_own(TUTTI_SCATTERV, "recv", b.recv_size, at);
    return set(call, at);
  }
  tutti_call scattering(const detail::buffer &b, const blocks &at, std::uint32_t root) const {
    if (rank() != root) return call_of(TUTTI_SCATTERV, nullptr, b.data, b.size, b.type, root);
    check_blocks(TUTTI_SCATTERV, "the buffer", at, b.size);
    tutti_call call = call_of(TUTTI_SCATTERV, b.data, detail::in_place(), at.counts[rank()], b.type, root);
    return set(call, at);
  }

  tutti_call allgathering(const detail::buffers &b, const blocks &at) const {
    check_blocks(TUTTI_ALLGATHERV, "recv", at, b.recv_size);
    check_own(TUTTI_ALLGATHERV, "send", b.send_size, at);
    tutti_call call = call_of(TUTTI_ALLGATHERV, b.send, b.recv, 0, b.type);
    return set(call, at);
  }
  tutti_call allgathering(const detail::buffer &b, const blocks &at) const {
    check_blocks(TUTTI_ALLGATHERV, "the buffer", at, b.size);
    tutti_call call = call_of(TUTTI_ALLGATHERV, detail::in_place(), b.data, 0, b.type);
    return set(call, at);
  }

  tutti_call reduce_scattering(const detail::buffers &b, const blocks &at, op operation) const {
    check_blocks(TUTTI_REDUCE_SCATTERV, "send", at, b.send_size);
    check_own(TUTTI_REDUCE_SCATTERV, "recv", b.recv_size, at);
    tutti_call call = call_of(TUTTI_REDUCE_SCATTERV, b.send, b.recv, 0, b.type);
    return set(set(call, at), operation);
  }
  tutti_call reduce_scattering(const detail::buffer &b, const blocks &at, op operation) const {
    check_blocks(TUTTI_REDUCE_SCATTERV, "the buffer", at, b.size);
    tutti_call call = call_of(TUTTI_REDUCE_SCATTERV, b.data, detail::in_place(), 0, b.type);
    return set(set(call, at), operation);
  }

  tutti_call alltoall_call(const detail::buffers &b, const blocks &send_at, const blocks &recv_at) const {
    check_blocks(TUTTI_ALLTOALLV, "send", send_at, b.send_size);
    check_blocks(TUTTI_ALLTOALLV, "recv", recv_at, b.recv_size);
    tutti_call call = call_of(TUTTI_ALLTOALLV, b.send, b.recv, 0, b.type);
    call.recv_counts = start_of(recv_at.counts);
    call.recv_offsets = start_of(recv_at.offsets);
    return set(call, send_at);
  }
  tutti_call alltoall_call(const detail::buffer &b, const blocks &at) const { return alltoall_call(both(b), at, at); }

  tutti_call message(tutti_collective collective, const detail::buffers &b, number peer, number tag,
                     tutti_message *got = nullptr) const {
    check_numbers(collective, peer, tag);
    tutti_call call = call_of(collective, b.send, b.recv, b.send_size, b.type);
    call.peer = peer;
    call.tag = tag;
    call.message = got;
    return call;
  }
  /* C would take an invalid rank or tag of a receive for any_rank or any_tag. */
  void check_numbers(tutti_collective collective, number peer, number tag) const {
    if (!tag.is_valid()) refuse(collective, "found a tag that is negative or too large; expected 0 to 4294967294");
    if (collective == TUTTI_RECV && !peer.is_valid())
      refuse(collective, "found a peer that is negative or too large; expected a rank, or any_rank");
  }

  settings how_;
  bool only_checks_ = false; /* true: a call is checked, and not started */
};

/* Owner of a communicator, or empty.
 *
 * The destructor ends the communicator on this rank alone, and never waits (tutti_comm_close). It reports no error: if
 * a request, window or channel is still open, the communicator fails on all ranks. All ranks of a communicator must end
 * it in one way: either all by the destructor or close(), or all by free(). So free() is only for programs in which no
 * exception can bypass it on one rank. Requests, windows and memory of the communicator must end before. */
class comm : public comm_view {
 public:
  comm() noexcept = default;
  explicit comm(tutti_comm *raw) noexcept : comm_view(raw) {}
  comm(comm &&other) noexcept : comm_view(other.release()) {}
  /* If the left side still owns a communicator, ends that communicator first, as the destructor does. */
  comm &operator=(comm &&other) noexcept {
    if (this == &other) return *this;
    end();
    raw_ = other.release();
    return *this;
  }
  ~comm() { end(); }

  /* Joins the world that the environment or the options describe (tutti_init). Collective over all processes. */
  static comm init(const options &o = {}) {
    tutti_options made{};
    made.timeout_ms = o.timeout_ms;
    made.join_timeout_ms = o.join_timeout_ms;
    made.spin_us = o.spin_us;
    made.bootstrap = o.bootstrap;
    made.rank = o.rank;
    made.ranks = o.ranks;
    made.address = o.address;
    made.port = o.port;
    made.secret = o.secret;
    made.on_listen = o.on_listen;
    made.on_listen_context = o.on_listen_context;
    made.progress_thread = o.progress_thread;
    made.parallel = o.parallel;
    made.order = o.order;
    made.reserved = o.reserved;
    made.foreign = o.foreign;
    tutti_comm *world = nullptr;
    check(tutti_init(&made, &world));
    return comm(world);
  }

  /* Ends the communicator together with all its ranks, and waits for them (tutti_comm_free). This object is empty
   * afterwards, also after an error. */
  void free() { check(tutti_comm_free(release())); }
  /* Ends the communicator as the destructor does, but throws an error if a request, window or channel was still
   * open. */
  void close() { check(tutti_comm_close(release())); }

  /* Returns the communicator of the C API, and gives up its ownership. */
  tutti_comm *release() noexcept { return std::exchange(raw_, nullptr); }

 private:
  void end() noexcept { static_cast<void>(tutti_comm_close(release())); }
};

inline comm comm_view::dup() const {
  tutti_comm *made = nullptr;
  check(tutti_comm_dup(raw(), &made));
  return comm(made);
}
inline comm comm_view::self() const {
  tutti_comm *made = nullptr;
  check(tutti_comm_self(raw(), &made));
  return comm(made);
}
inline std::optional<comm> comm_view::split(std::optional<int> color, int key) const {
  tutti_comm *made = nullptr;
  check(tutti_comm_split(raw(), color.value_or(TUTTI_NO_COLOR), key, &made));
  if (!made) return std::nullopt;
  return comm(made);
}
inline comm comm_view::create(span<const std::uint32_t> members, std::uint64_t tag) const {
  tutti_comm *made = nullptr;
  check(tutti_comm_create(raw(), members.data(), members.size(), tag, &made));
  return comm(made);
}

/* ---- memory shared by all ranks of a host ----------------------------------------------------------------------- */

/* An array of T in memory that all ranks of the host map (tutti_alloc): calls with buffers in this memory need fewer
 * copies. The elements are not initialised. The object must be destroyed before its communicator ends. No open call may
 * use the memory when it is freed. The destructor frees it (tutti_free), and reports no error. */
template <typename T>
class memory {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "the elements of tutti::memory must be trivially copyable");

 public:
  memory() noexcept = default;
  /* Allocates `size` elements. Not collective. An error concerns this rank alone. */
  memory(comm_view of, std::size_t size) : comm_(of.get()), size_(size) {
    if (size > SIZE_MAX / sizeof(T))
      detail::fail(TUTTI_ERR_MEMORY, "tutti::memory: found " + std::to_string(size) + " elements of " +
                                         std::to_string(sizeof(T)) + " bytes; expected less than the address space");
    void *allocated = nullptr;
    if (size > 0) check(tutti_alloc(comm_, size * sizeof(T), &allocated));
    data_ = static_cast<T *>(allocated);
  }
  memory(memory &&other) noexcept
      : comm_(other.comm_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  memory &operator=(memory &&other) noexcept {
    if (this == &other) return *this;
    static_cast<void>(give_back());
    comm_ = other.comm_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~memory() { static_cast<void>(give_back()); }
  /* Frees the memory as the destructor does, but throws an error. The object is empty afterwards. */
  void free() { check(give_back()); }

  T *data() noexcept { return data_; }
  const T *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T *begin() noexcept { return data_; }
  const T *begin() const noexcept { return data_; }
  T *end() noexcept { return data_ + size_; }
  const T *end() const noexcept { return data_ + size_; }
  T &operator[](std::size_t i) { return data_[i]; }
  const T &operator[](std::size_t i) const { return data_[i]; }

 private:
  tutti_err give_back() noexcept {
    size_ = 0;
    return tutti_free(comm_, std::exchange(data_, nullptr));
  }

  tutti_comm *comm_ = nullptr;
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

/* Registration of the program's own memory, whose pages are moved into shared memory (tutti_register). The memory must
 * consist of whole pages, and outlive this object. The destructor turns it back into private memory (tutti_deregister).
 * It reports no error; after an error the memory stays registered, and usable. */
class registration {
 public:
  registration() noexcept = default;
  registration(comm_view of, void *memory, std::size_t bytes) : comm_(of.get()) {
    check(tutti_register(comm_, memory, bytes));
    memory_ = memory;
  }
  registration(registration &&other) noexcept : comm_(other.comm_), memory_(std::exchange(other.memory_, nullptr)) {}
  registration &operator=(registration &&other) noexcept {
    if (this == &other) return *this;
    static_cast<void>(end());
    comm_ = other.comm_;
    memory_ = std::exchange(other.memory_, nullptr);
    return *this;
  }
  ~registration() { static_cast<void>(end()); }
  /* Ends the registration as the destructor does, but throws an error. The object is empty afterwards. */
  void free() { check(end()); }

  /* Returns true if memory is registered. */
  explicit operator bool() const noexcept { return memory_ != nullptr; }

 private:
  tutti_err end() noexcept { return memory_ ? tutti_deregister(comm_, std::exchange(memory_, nullptr)) : TUTTI_OK; }

  tutti_comm *comm_ = nullptr;
  void *memory_ = nullptr;
};

}  // namespace tutti

#endif
