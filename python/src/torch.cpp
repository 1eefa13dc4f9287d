/* torch.cpp: the extension module tutti.torch._backend: a backend of torch.distributed (c10d) for CPU tensors, for the API of
 * torch 1.13, where a backend is a ProcessGroup, and for that of torch 2, where it is a Backend.
 *
 * A call starts at once, in the thread that makes it. The thread that waits for its Work drives it; so a synchronous call
 * changes no thread. The library's own thread drives calls that no thread waits for (tutti_options.progress_thread). A Work
 * whose future was asked for, or that was dropped before it was complete, is completed by the thread of class finisher.
 *
 * Locks: no lock of this file is held while a future is completed or a tensor is released, because both may take the
 * interpreter lock. No function waits with the interpreter lock. */
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <pybind11/chrono.h>
#include <tutti/tensor.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using std::chrono::milliseconds;
using tensors = std::vector<at::Tensor>;
using work_pointer = c10::intrusive_ptr<c10d::Work>;
#if TORCH_VERSION_MAJOR >= 2
using base = c10d::Backend;
#else
using base = c10d::ProcessGroup;
#endif

/* Programs that hard-code "gloo" also expect this name in texts and profiles. */
bool is_called_gloo() {
  static const bool called = [] {
    const char *value = std::getenv("TORCH_TUTTI_AS_GLOO");
    return value && std::string(value) == "1";
  }();
  return called;
}
const char *backend_name() { return is_called_gloo() ? "gloo" : "tutti"; }
/* The name of an event in profiles: as torch's own backend for gloo has it, with the name of this one. */
#define TITLE(call) (is_called_gloo() ? "gloo:" call : "tutti:" call)

int to_ms(milliseconds time) {
  return time.count() > INT_MAX ? TUTTI_NO_TIMEOUT : static_cast<int>(std::max<int64_t>(time.count(), 1));
}

/* The exception for an error of the library. The text is the library's sentence. */
std::exception_ptr failure(tutti_err err, const tutti_comm *comm, const std::string &call, milliseconds limit) {
  const std::string sentence = tutti_error_message(comm);
  const std::string late =
      err == TUTTI_ERR_TIMEOUT ? "Timed out waiting " + std::to_string(limit.count()) + "ms: " : "";
  return std::make_exception_ptr(std::runtime_error(std::string(backend_name()) + " " + call + ": " + late + sentence));
}

/* ---- communicators ------------------------------------------------------------------------------------------------- */

struct communicator {
  tutti_comm *comm = nullptr;
  std::shared_ptr<communicator> world; /* the one from which this one was made; NULL: it is a world */
  uint64_t world_id = 0;
  std::atomic<bool> failed{false};
  pid_t process = getpid();

  communicator() = default;
  communicator(const communicator &) = delete;
  ~communicator() {
    if (comm && getpid() == process) (void)tutti_comm_close(comm);
  }
};

/* The largest world of this process. Groups whose ranks all belong to it are made from it, so that they share its memory
 * and connections. */
class {
 public:
  std::shared_ptr<communicator> get() {
    std::lock_guard<std::mutex> guard(lock_);
    return world_.lock();
  }
  void set(const std::shared_ptr<communicator> &world) {
    std::lock_guard<std::mutex> guard(lock_);
    world_ = world;
  }

 private:
  std::mutex lock_;
  std::weak_ptr<communicator> world_;
} home;

/* What a rank tells the others of its group by the store. */
struct record {
  uint64_t world_id; /* of its world; 0: it has none that can be used */
  uint64_t random;   /* rank 0's: the id of the new world, or the tag of the new group */
  uint32_t rank;     /* in its world */
};

/* The ranks of a group, which meet by a store. */
class meeting {
 public:
  meeting(c10d::Store &store, int rank, int size, milliseconds limit)
      : store_(store), rank_(rank), size_(size), limit_(limit) {
    /* A store may have served earlier groups of the same name: those of earlier rounds of torchrun, in which ranks died at any
     * time, and those that this round has destroyed. Of these, all ranks have joined the same number. */
    const char *restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
    prefix_ = "tutti/" + std::string(restarts ? restarts : "0") + "/";
    const int64_t round = store_.add(prefix_ + "joined/" + std::to_string(rank), 1);
    prefix_ += std::to_string(round) + "/";
  }

  std::shared_ptr<communicator> communicate();
  /* Keys of this group begin with it. */
  const std::string &prefix() const { return prefix_; }

 private:
  std::vector<record> exchange(const record &own);
  std::shared_ptr<communicator> join_world(uint64_t id);
  static int set(void *context, const char *key, const void *value, size_t bytes);
  static int get(void *context, const char *key, void *value, size_t bytes);
  void write(const std::string &key, const void *value, size_t bytes);
  void read(const std::string &key, void *value, size_t bytes);

  c10d::Store &store_;
  int rank_, size_;
  milliseconds limit_;
  std::string prefix_;
  std::exception_ptr problem_; /* of a callback */
};

void meeting::write(const std::string &key, const void *value, size_t bytes) {
  const auto *data = static_cast<const uint8_t *>(value);
  store_.set(prefix_ + key, std::vector<uint8_t>(data, data + bytes));
}

void meeting::read(const std::string &key, void *value, size_t bytes) {
  store_.wait({prefix_ + key}, limit_);
  const std::vector<uint8_t> found = store_.get(prefix_ + key);
  TORCH_CHECK(found.size() == bytes, "tutti: the store has ", found.size(), " bytes under the key ", prefix_, key,
              "; expected ", bytes, ". Is the store used by another program?");
  memcpy(value, found.data(), bytes);
}

int meeting::set(void *context, const char *key, const void *value, size_t bytes) {
  auto *self = static_cast<meeting *>(context);
  try {
    self->write(key, value, bytes);
    return 0;
  } catch (...) {
    self->problem_ = std::current_exception();
    return 1;
  }
}

int meeting::get(void *context, const char *key, void *value, size_t bytes) {
  auto *self = static_cast<meeting *>(context);
  try {
    self->read(key, value, bytes);
    return 0;
  } catch (...) {
    self->problem_ = std::current_exception();
    return 1;
  }
}

std::vector<record> meeting::exchange(const record &own) {
  std::vector<record> all(size_);
  write("rank/" + std::to_string(rank_), &own, sizeof own);
  for (int r = 0; r < size_; r++) read("rank/" + std::to_string(r), &all[r], sizeof all[r]);
  return all;
}

std::shared_ptr<communicator> meeting::join_world(uint64_t id) {
  auto made = std::make_shared<communicator>();
  const tutti_bootstrap bootstrap = {
      static_cast<uint32_t>(rank_), static_cast<uint32_t>(size_), nullptr, set, get, this};
  tutti_options options{};
  options.progress_thread = 1;
  options.join_timeout_ms = to_ms(limit_);
  if (size_ > 1) options.bootstrap = &bootstrap;
  else options.ranks = 1;
  const tutti_err err = tutti_init(&options, &made->comm);
  if (problem_) std::rethrow_exception(problem_);
  if (err != TUTTI_OK) std::rethrow_exception(failure(err, nullptr, "init_process_group", limit_));
  made->world_id = id;
  return made;
}

std::shared_ptr<communicator> meeting::communicate() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  auto world = home.get();
  if (world && (world->failed || world->process != getpid())) world = nullptr;
  const auto begin = [&](uint64_t id) {
    auto made = join_world(id | 1);
    if (!world || tutti_ranks(world->comm) < tutti_ranks(made->comm)) home.set(made);
    return made;
  };
  if (size_ == 1) return begin(generator());
  const auto all = exchange({world ? world->world_id : 0, generator(), world ? tutti_rank(world->comm) : 0});
  bool common = true;
  for (const record &r : all) common &= r.world_id != 0 && r.world_id == all[0].world_id;
  if (!common) return begin(all[0].random);
  std::vector<uint32_t> ranks;
  for (const record &r : all) ranks.push_back(r.rank);
  auto made = std::make_shared<communicator>();
  const tutti_err err = tutti_comm_create(world->comm, ranks.data(), ranks.size(), all[0].random, &made->comm);
  if (err != TUTTI_OK) std::rethrow_exception(failure(err, nullptr, "new_group", limit_));
  made->world = world;
  return made;
}

/* ---- work ---------------------------------------------------------------------------------------------------------- */

/* A call that is open, and all that it needs until it is complete. */
struct open_call {
  std::shared_ptr<communicator> on;
  tutti_request *request = nullptr;
  tensors held;                /* whose memory the call uses */
  std::function<void()> after; /* writes results to where they belong; may be empty */
  std::string name;
  milliseconds limit{};
  std::unique_ptr<tutti_message> message; /* of a receive from any rank */

  /* Advances the call. Returns true once it is complete; *problem is then its error, or NULL. wait_ms: time that it may
   * wait, 0: none, TUTTI_NO_TIMEOUT: no limit. */
  bool advance(int wait_ms, std::exception_ptr *problem);
  void finish(tutti_err err, std::exception_ptr *problem);
};

/* Copies of results are no operations of the program: neither autograd nor modes of Python see them. */
void write_results(const std::function<void()> &after) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_python(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  after();
}

void open_call::finish(tutti_err err, std::exception_ptr *problem) {
  try {
    if (err != TUTTI_OK) {
      on->failed = true;
      *problem = failure(err, on->comm, name, limit);
    } else if (after) {
      write_results(after);
    }
  } catch (...) {
    *problem = std::current_exception();
  }
}

bool open_call::advance(int wait_ms, std::exception_ptr *problem) {
  bool done = true;
  tutti_err err;
  if (wait_ms == TUTTI_NO_TIMEOUT) err = tutti_wait(&request);
  else err = tutti_wait_for(&request, wait_ms, &done);
  if (done) finish(err, problem);
  return done;
}

class work;

/* The thread that completes calls whose future was asked for, and calls whose Work was dropped. It lives as long as the
 * process, because it may be about to take the interpreter lock when the process ends. */
class finisher {
 public:
  static finisher &get() {
    static auto *one = new finisher;
    return *one;
  }
  void add(c10::intrusive_ptr<work> asked);
  void add(std::unique_ptr<open_call> dropped);
  /* Called before the interpreter ends: the thread completes nothing more, because it would need the interpreter. */
  void stop();

 private:
  struct item {
    c10::intrusive_ptr<work> asked;
    std::unique_ptr<open_call> dropped;
    bool advance();
    tutti_comm *comm() const;
  };
  void add(item &&one);
  void run();

  std::mutex lock_;
  std::condition_variable news_;
  std::condition_variable idle_;
  std::vector<item> incoming_;
  std::atomic<pid_t> process_{0}; /* that has the thread */
  bool stops_ = false, stopped_ = false;
};

class work : public c10d::Work {
 public:
  /* results: a list of tensors, or several. */
  work(c10d::OpType type, const char *title, const tensors &inputs, std::vector<tensors> results,
       std::unique_ptr<open_call> call, uint64_t sequence)
      : c10d::Work(-1, type, title, inputs), call_(std::move(call)), results_(std::move(results)), sequence_(sequence) {
    if (!call_) finish();
  }

  ~work() override {
    if (!call_) return;
    if (call_->on->process == getpid()) finisher::get().add(std::move(call_));
    else (void)call_.release(); /* a child of fork(): the call is the parent's */
  }

  bool wait(milliseconds timeout) override {
    std::unique_lock<std::mutex> driving(drive_);
    if (asked_) {
      driving.unlock();
      return c10d::Work::wait(timeout);
    }
    if (call_ && !advance(timeout == kNoTimeout ? TUTTI_NO_TIMEOUT : to_ms(timeout), driving))
      C10_THROW_ERROR(Error, std::string(backend_name()) + " " + call_->name + ": Timed out waiting " +
                                 std::to_string(timeout.count()) + "ms; the call goes on");
    if (exception_) std::rethrow_exception(exception_);
    return true;
  }

  bool isCompleted() override {
    std::unique_lock<std::mutex> driving(drive_, std::try_to_lock);
    if (driving && call_ && !asked_) (void)advance(0, driving);
    return c10d::Work::isCompleted();
  }

  void synchronize() override {} /* c10d::Work::wait calls it with a lock */
  int sourceRank() const override { return source_; }
  tensors result() override {
    TORCH_CHECK(c10d::Work::isCompleted(), "Work needs to be completed before calling result");
    TORCH_CHECK(results_.size() <= 1, "work result does not support list of lists, use .getFuture() and value()");
    return results_.empty() ? tensors{} : results_[0];
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
#if TORCH_VERSION_MAJOR >= 2
  uint64_t getSequencenumber() const override { return sequence_; }
#endif

 private:
  friend class finisher;

  /* Advances the call. `driving`: the lock, which is given back while others are told of the end. */
  bool advance(int wait_ms, std::unique_lock<std::mutex> &driving) {
    std::exception_ptr problem;
    if (!call_->advance(wait_ms, &problem)) return false;
    if (call_->message) source_ = static_cast<int>(call_->message->rank);
    const auto ended = std::move(call_);
    driving.unlock();
    finish(problem);
    if (future_ && problem) future_->setError(problem);
    else if (future_) future_->markCompleted(value());
    return true;
  }

  c10::IValue value() const {
    if (results_.size() > 1) return c10::IValue(results_);
    return c10::IValue(results_.empty() ? tensors{} : results_[0]);
  }

  std::mutex drive_; /* held by the thread that drives the call */
  std::unique_ptr<open_call> call_;
  bool asked_ = false; /* the finisher drives the call */
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::vector<tensors> results_;
  std::atomic<int> source_{-1};
  uint64_t sequence_;
};

c10::intrusive_ptr<c10::ivalue::Future> work::getFuture() {
  std::unique_lock<std::mutex> driving(drive_);
  if (future_) return future_;
  c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
  if (results_.size() > 1) type = c10::ListType::create(type);
  future_ = c10::make_intrusive<c10::ivalue::Future>(type);
  const auto future = future_;
  if (call_) {
    asked_ = true;
    driving.unlock();
    finisher::get().add(c10::intrusive_ptr<work>::reclaim_copy(this));
  } else if (exception_) {
    future->setError(exception_);
  } else {
    future->markCompleted(value());
  }
  return future;
}

bool finisher::item::advance() {
  std::exception_ptr unseen;
  if (dropped) return dropped->advance(0, &unseen);
  std::unique_lock<std::mutex> driving(asked->drive_);
  return !asked->call_ || asked->advance(0, driving);
}

/* Only of an item that is not complete. */
tutti_comm *finisher::item::comm() const { return (dropped ? *dropped : *asked->call_).on->comm; }

void finisher::add(c10::intrusive_ptr<work> asked) { add(item{std::move(asked), nullptr}); }
void finisher::add(std::unique_ptr<open_call> dropped) { add(item{{}, std::move(dropped)}); }

void finisher::add(item &&one) {
  std::lock_guard<std::mutex> guard(lock_);
  incoming_.push_back(std::move(one));
  if (process_ != getpid()) {
    process_ = getpid();
    std::thread([this] { run(); }).detach();
  }
  news_.notify_one();
}

void finisher::stop() {
  if (process_ != getpid())
    return; /* without a lock, which another thread may have held when this process was forked */
  std::unique_lock<std::mutex> guard(lock_);
  stops_ = true;
  news_.notify_one();
  idle_.wait(guard, [&] { return stopped_; });
}

void finisher::run() {
  /* Longest time in ms until an item that has arrived meanwhile is looked at. */
  constexpr int LOOK_MS = 2;
  std::vector<item> items;
  for (;;) {
    {
      std::unique_lock<std::mutex> guard(lock_);
      news_.wait(guard, [&] { return stops_ || !items.empty() || !incoming_.empty(); });
      if (stops_) {
        stopped_ = true;
        idle_.notify_all();
        for (;;) news_.wait(guard);
      }
      std::move(incoming_.begin(), incoming_.end(), std::back_inserter(items));
      incoming_.clear();
    }
    bool moved = false;
    for (size_t i = 0; i < items.size();) {
      if (!items[i].advance()) {
        i++;
        continue;
      }
      items.erase(items.begin() + static_cast<ptrdiff_t>(i));
      moved = true;
    }
    if (!moved && !items.empty()) (void)!tutti_progress(items[0].comm(), LOOK_MS);
  }
}

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

std::optional<tutti_datatype> datatype_of(at::ScalarType type) {
  switch (type) {
    case at::kByte: return TUTTI_U8;
    case at::kBool: return TUTTI_BOOL;
    case at::kChar: return TUTTI_I8;
    case at::kShort: return TUTTI_I16;
    case at::kInt: return TUTTI_I32;
    case at::kLong: return TUTTI_I64;
    case at::kHalf: return TUTTI_F16;
    case at::kBFloat16: return TUTTI_BF16;
    case at::kFloat: return TUTTI_F32;
    case at::kDouble: return TUTTI_F64;
#if TORCH_VERSION_MAJOR >= 2
    case at::kFloat8_e4m3fn: return TUTTI_F8E4M3;
    case at::kFloat8_e5m2: return TUTTI_F8E5M2;
    case at::kUInt16: return TUTTI_U16;
    case at::kUInt32: return TUTTI_U32;
    case at::kUInt64: return TUTTI_U64;
#endif
    default: return std::nullopt;
  }
}

/* Elements of a call: as many as the tensor has, of its datatype; or its bytes, if a call that only moves data gets a
 * datatype that the library does not have. */
struct elements {
  tutti_datatype type;
  size_t unit; /* elements of the library in one of the tensor */
  explicit elements(const at::Tensor &t) {
    const auto known = datatype_of(t.scalar_type());
    type = known.value_or(TUTTI_U8);
    unit = known ? 1 : t.element_size();
  }
  size_t count(const at::Tensor &t) const { return static_cast<size_t>(t.numel()) * unit; }
};

/* The datatype, the operation and the factor of a reduction. */
struct arithmetic {
  tutti_datatype type = TUTTI_U8;
  tutti_op op = TUTTI_SUM;
  double scale = 1;
  arithmetic(const c10d::ReduceOp &wanted, at::ScalarType scalars);
};

double factor_of(const c10d::ReduceOp &wanted) {
  const auto *extra = dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(wanted.supplement_.get());
  TORCH_CHECK(extra, "ReduceOp.PREMUL_SUM needs a factor: use torch.distributed._make_nccl_premul_sum");
#if TORCH_VERSION_MAJOR >= 2
  return extra->tensor_factor.defined() ? extra->tensor_factor.item<double>() : extra->double_factor;
#else
  return extra->tensor_factors.empty() ? extra->double_factor : extra->tensor_factors[0].item<double>();
#endif
}

arithmetic::arithmetic(const c10d::ReduceOp &wanted, at::ScalarType scalars) {
  using c10d::ReduceOp;
  static constexpr struct {
    ReduceOp::RedOpType from;
    tutti_op op;
    bool is_bitwise, takes_bool;
    const char *name;
  } rows[] = {{ReduceOp::SUM, TUTTI_SUM, false, true, "SUM"},
              {ReduceOp::AVG, TUTTI_AVG, false, false, "AVG"},
              {ReduceOp::PRODUCT, TUTTI_PROD, false, true, "PRODUCT"},
              {ReduceOp::MIN, TUTTI_MIN, false, true, "MIN"},
              {ReduceOp::MAX, TUTTI_MAX, false, true, "MAX"},
              {ReduceOp::BAND, TUTTI_BAND, true, true, "BAND"},
              {ReduceOp::BOR, TUTTI_BOR, true, true, "BOR"},
              {ReduceOp::BXOR, TUTTI_BXOR, true, true, "BXOR"},
              {ReduceOp::PREMUL_SUM, TUTTI_PREMUL_SUM, false, false, "PREMUL_SUM"}};
  const auto *row = std::find_if(std::begin(rows), std::end(rows), [&](const auto &r) { return r.from == wanted.op_; });
  TORCH_CHECK(row != std::end(rows), "Unhandled ReduceOp");
  const auto known = datatype_of(scalars);
  TORCH_CHECK(known, "Invalid scalar type: ", backend_name(), " does not reduce ", c10::toString(scalars));
  TORCH_CHECK(!row->is_bitwise || c10::isIntegralType(scalars, true), "Cannot use ReduceOp.", row->name,
              " with non-integral dtype");
  TORCH_CHECK(row->takes_bool || scalars != at::kBool, "Cannot use ReduceOp.", row->name, " with Bool");
  type = *known;
  op = row->op;
  if (op == TUTTI_PREMUL_SUM) scale = factor_of(wanted);
}

tensors flat_list(const std::vector<tensors> &lists) {
  tensors all;
  for (const tensors &list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/* Tensors one after the other. */
at::Tensor joined(const tensors &list) {
  return at::cat(c10d::fmap(list, [](const at::Tensor &t) { return t.reshape({-1}); }));
}

/* Returns true if the tensor shares memory with one of the list. */
bool shares_memory(const at::Tensor &t, const tensors &list) {
  return std::any_of(list.begin(), list.end(), [&](const at::Tensor &other) { return other.is_alias_of(t); });
}

/* Returns true if the tensors are contiguous, and none shares memory with another one. */
bool are_apart(const tensors &list) {
  std::vector<std::pair<uintptr_t, size_t>> ranges;
  for (const at::Tensor &t : list) {
    if (!t.is_contiguous()) return false;
    ranges.emplace_back(reinterpret_cast<uintptr_t>(t.data_ptr()), t.nbytes());
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); i++)
    if (ranges[i].first - ranges[i - 1].first < ranges[i - 1].second) return false;
  return true;
}

/* Returns the length of the pieces of a tensor whose elements lie one after the other, in bytes. */
int64_t bytes_of_pieces(const at::Tensor &t) {
  int64_t elements = 1;
  for (int64_t d = t.dim() - 1; d >= 0 && (t.size(d) == 1 || t.stride(d) == elements); d--) elements *= t.size(d);
  return elements * static_cast<int64_t>(t.element_size());
}

/* Copies a tensor of one dimension into tensors that have as many elements together. */
void spread(const at::Tensor &flat, const tensors &list) {
  int64_t at = 0;
  for (const at::Tensor &t : list) {
    t.copy_(flat.narrow(0, at, t.numel()).view(t.sizes()));
    at += t.numel();
  }
}

/* ---- the backend --------------------------------------------------------------------------------------------------- */

struct backend_options : base::Options {
  explicit backend_options(milliseconds limit) : base::Options(backend_name(), limit) {}
  /* As in torch's options for gloo: DDP's logger reads `threads` of a group that is called "gloo". */
  std::vector<std::shared_ptr<void>> devices;
  int threads = 2;
};

/* One call of c10d: its tensors are checked and collected here, then it starts. */
class call_builder {
 public:
  call_builder(const char *function, const char *title, c10d::OpType type)
      : function_(function), title_(title), type_(type) {}

  [[noreturn]] void refuse(const std::string &why) const {
    TORCH_CHECK(false, "ProcessGroupGloo::", function_, ": ", why);
  }
  std::function<void(const std::string &)> refuser() const {
    return [this](const std::string &why) { refuse(why); };
  }
  void check_cpu(const at::Tensor &t) const {
    if (t.device().type() != at::kCPU) refuse(c10::str("unsupported device type ", t.device().type()));
  }

  /* The memory of an input, whose elements lie one after the other there. */
  const void *input(const at::Tensor &t) {
    check_cpu(t);
    held.push_back(t.is_contiguous() ? t : t.contiguous());
    return held.back().data_ptr();
  }
  /* The same, of an input that may share memory with outputs. Then the call gets a copy, unless it is in place, that is, the
   * input is at the address `own`. */
  const void *input(const at::Tensor &t, const tensors &outputs, const void *own) {
    return input(shares_memory(t, outputs) && (t.data_ptr() != own || !t.is_contiguous())
                     ? t.clone(at::MemoryFormat::Contiguous)
                     : t);
  }
  /* The memory of an output. */
  void *output(const at::Tensor &t) { return place(t, false); }
  /* The memory of a tensor that is replaced by the result. */
  void *both(const at::Tensor &t) { return place(t, true); }
  /* Sets the input and the output of a call that has one tensor: it is read, or written, or both. If it is not contiguous,
   * the call goes through its strides. If it consists of shorter pieces, or the library cannot describe it, the call gets a
   * copy: single elements are copied faster by torch (docs/TORCH.md). */
  void use(tutti_call &call, const at::Tensor &t, bool reads, bool writes) {
    check_cpu(t);
    if (!t.is_contiguous() && bytes_of_pieces(t) >= PIECE_BYTES && describe(call, t)) {
      call.in = reads ? &described_.back() : nullptr;
      call.out = writes ? &described_.back() : nullptr;
      call.flags = TUTTI_ANY_SHAPE; /* of other ranks, the tensor may be contiguous */
      held.push_back(t);
    } else if (writes) {
      call.recv = place(t, reads);
      call.send = reads ? call.recv : nullptr;
    } else {
      call.send = input(t);
    }
  }
  /* The addresses of blocks, of which the library copies the array when the call starts. */
  const void *const *inputs_at(const tensors &list) {
    auto &blocks = addresses_.emplace_back();
    for (const at::Tensor &t : list) blocks.push_back(const_cast<void *>(input(t)));
    return blocks.data();
  }
  void *const *outputs_at(const tensors &list) {
    auto &blocks = addresses_.emplace_back();
    for (const at::Tensor &t : list) blocks.push_back(output(t));
    return blocks.data();
  }
  /* Memory for `blocks` tensors like t, one after the other. */
  at::Tensor scratch(const at::Tensor &t, size_t blocks) {
    held.push_back(
        at::empty({static_cast<int64_t>(blocks) * t.numel()}, t.options().memory_format(at::MemoryFormat::Contiguous)));
    return held.back();
  }
  void later(std::function<void()> copy) { copies_.push_back(std::move(copy)); }
  std::function<void()> after() {
    if (copies_.empty()) return {};
    return [copies = std::move(copies_)] {
      for (const auto &copy : copies) copy();
    };
  }

  std::vector<tutti_call> calls;
  tensors held, inputs;
  std::vector<tensors> results;
  std::unique_ptr<tutti_message> message;
  const char *function_, *title_;
  c10d::OpType type_;

 private:
  void *place(const at::Tensor &t, bool filled) {
    check_cpu(t);
    if (t.is_contiguous()) {
      held.push_back(t);
      return t.data_ptr();
    }
    at::Tensor copy =
        filled ? t.contiguous() : at::empty(t.sizes(), t.options().memory_format(at::MemoryFormat::Contiguous));
    held.push_back(copy);
    later([t, copy] { t.copy_(copy); });
    return copy.data_ptr();
  }

  static constexpr int64_t PIECE_BYTES = 64;
  /* Describes a tensor to the library. If an element is several of the call, they are a dimension of their own. */
  bool describe(const tutti_call &call, const at::Tensor &t) {
    const auto unit = static_cast<int64_t>(call.count) / std::max<int64_t>(t.numel(), 1);
    if (t.numel() == 0 || t.dim() + (unit > 1) > TUTTI_DIMS) return false;
    std::vector<size_t> shape, strides;
    for (int64_t d = 0; d < t.dim(); d++) {
      shape.push_back(static_cast<size_t>(t.size(d)));
      strides.push_back(static_cast<size_t>(t.stride(d) * unit));
    }
    if (unit > 1) {
      shape.push_back(static_cast<size_t>(unit));
      strides.push_back(1);
    }
    const tutti_tensor_of of = {t.data_ptr(), call.type, static_cast<uint32_t>(shape.size()), shape.data()};
    return tutti_tensor_strided(&described_.emplace_back(), of, strides.data()) == TUTTI_OK;
  }

  std::vector<std::function<void()>> copies_;
  std::deque<std::vector<void *>> addresses_;
  std::deque<tutti_tensor> described_;
};

class backend : public base {
  /* These two are where torch's own class for gloo has them: see backend_options. */
  void *store_of_gloo_ = nullptr;

 public:
  const c10::intrusive_ptr<backend_options> options_;

  backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, milliseconds limit)
      : base(rank, size), options_(c10::make_intrusive<backend_options>(limit)), store_(std::move(store)) {
    meeting ranks(*store_, rank, size, limit);
    on_ = ranks.communicate();
    prefix_ = ranks.prefix();
    init();
  }

  const std::string getBackendName() const override { return backend_name(); }
  /* In place, and complete on return. */
  void allreduce_now(const at::Tensor &t, const c10d::ReduceOp &op);
  /* From torch 2.7 on, these override functions of c10d::Backend, by which DDP gets its buckets if DDP_DISABLE_COMM_MEM=0.
   * supportsTensorAlloc got its argument later. If there is no shared memory left, the tensor has ordinary memory. */
  at::Tensor allocateTensor(long size, at::TensorOptions options = {});
  bool supportsTensorAlloc() { return true; }
  bool supportsTensorAlloc(c10::DeviceIndex) { return true; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  work_pointer broadcast(tensors &list, const c10d::BroadcastOptions &opts) override;
  work_pointer allreduce(tensors &list, const c10d::AllreduceOptions &opts) override;
  work_pointer allreduce_coalesced(tensors &list, const c10d::AllreduceCoalescedOptions &opts) override;
  work_pointer reduce(tensors &list, const c10d::ReduceOptions &opts) override;
  work_pointer allgather(std::vector<tensors> &outputs, tensors &inputs, const c10d::AllgatherOptions &opts) override;
  work_pointer _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &opts) override;
  work_pointer allgather_coalesced(std::vector<tensors> &outputs, tensors &inputs,
                                   const c10d::AllgatherOptions &opts) override;
  work_pointer gather(std::vector<tensors> &outputs, tensors &inputs, const c10d::GatherOptions &opts) override;
  work_pointer scatter(tensors &outputs, std::vector<tensors> &inputs, const c10d::ScatterOptions &opts) override;
  work_pointer reduce_scatter(tensors &outputs, std::vector<tensors> &inputs,
                              const c10d::ReduceScatterOptions &opts) override;
  work_pointer _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                    const c10d::ReduceScatterOptions &opts) override;
  work_pointer alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                             std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &opts) override;
  work_pointer alltoall(tensors &outputs, tensors &inputs, const c10d::AllToAllOptions &opts) override;
  work_pointer send(tensors &list, int peer, int tag) override;
  work_pointer recv(tensors &list, int peer, int tag) override;
  work_pointer recvAnysource(tensors &list, int tag) override;
  work_pointer barrier(const c10d::BarrierOptions &opts) override;
  void monitoredBarrier(const c10d::BarrierOptions &opts, bool all) override;
#if TORCH_VERSION_MAJOR >= 2
  work_pointer allreduce_sparse(tensors &list, const c10d::AllreduceOptions &opts) override {
    return allreduce(list, opts);
  }
  work_pointer allgather_into_tensor_coalesced(tensors &outputs, tensors &inputs,
                                               const c10d::AllgatherOptions &opts) override;
  work_pointer reduce_scatter_tensor_coalesced(tensors &outputs, tensors &inputs,
                                               const c10d::ReduceScatterOptions &opts) override;
  void enableCollectivesTiming() override {}
#endif

 private:
  milliseconds limit(milliseconds wanted) const { return wanted == kUnset ? options_->timeout : wanted; }
  work_pointer start(call_builder &c, milliseconds wanted);
  work_pointer sparse_allreduce(tensors &list, const c10d::AllreduceOptions &opts, call_builder &c);
  work_pointer message(tensors &list, uint32_t peer, int tag, call_builder &c);
  void run(tutti_call call, milliseconds wanted, const char *function);
  void add_allgather(call_builder &c, const at::Tensor &output, const at::Tensor &input) const;
  void add_reduce_scatter(call_builder &c, const at::Tensor &output, const at::Tensor &input,
                          const c10d::ReduceOp &op) const;
  size_t ranks() const { return static_cast<size_t>(size_); }

  static constexpr milliseconds kUnset = c10d::kUnsetTimeout;
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<communicator> on_;
  std::atomic<uint64_t> sequence_{0};
  std::string prefix_;     /* of this group's keys in the store */
  uint64_t monitored_ = 0; /* number of monitored barriers that this rank has made or missed */
};

work_pointer backend::start(call_builder &c, milliseconds wanted) {
  auto open = std::make_unique<open_call>();
  open->on = on_;
  open->name = c.function_;
  open->limit = limit(wanted);
  open->after = c.after();
  open->held = std::move(c.held);
  open->message = std::move(c.message);
  if (!c10d::isP2POp(c.type_)) ++sequence_;
  for (tutti_call &call : c.calls) {
    call.timeout_ms = to_ms(open->limit);
    /* A call that tutti_start refuses ends the group. */
    const tutti_err refused = tutti_check_call(on_->comm, &call);
    if (refused != TUTTI_OK) std::rethrow_exception(failure(refused, on_->comm, c.function_, open->limit));
  }
  const tutti_err err = c.calls.size() == 1
                            ? tutti_start(on_->comm, c.calls.data(), &open->request)
                            : tutti_start_all(on_->comm, c.calls.data(), c.calls.size(), &open->request);
  if (err != TUTTI_OK) {
    on_->failed = true;
    std::rethrow_exception(failure(err, on_->comm, c.function_, open->limit));
  }
  return c10::make_intrusive<work>(c.type_, c.title_, c.inputs, std::move(c.results), std::move(open), sequence_);
}

/* Starts a call and waits for it. */
void backend::run(tutti_call call, milliseconds wanted, const char *function) {
  call.timeout_ms = to_ms(limit(wanted));
  const tutti_err err = tutti_run_call(on_->comm, &call);
  if (err == TUTTI_OK) return;
  on_->failed = true;
  std::rethrow_exception(failure(err, on_->comm, function, limit(wanted)));
}

tutti_call call_of(tutti_collective collective, const void *send, void *recv, size_t count, tutti_datatype type) {
  tutti_call call{};
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = type;
  return call;
}

void set_arithmetic(tutti_call &call, const arithmetic &a) {
  call.type = a.type;
  call.op = a.op;
  call.scale = a.scale;
}

void backend::allreduce_now(const at::Tensor &t, const c10d::ReduceOp &op) {
  TORCH_CHECK(t.device().is_cpu() && t.layout() == at::kStrided && t.is_contiguous(),
              "allreduce: expected a contiguous tensor on the CPU; use torch.distributed.all_reduce for others");
  const arithmetic a(op, t.scalar_type());
  void *memory = t.data_ptr();
  tutti_call call = call_of(TUTTI_ALLREDUCE, memory, memory, static_cast<size_t>(t.numel()), a.type);
  set_arithmetic(call, a);
  ++sequence_;
  run(call, kUnset, "allreduce");
}

work_pointer backend::broadcast(tensors &list, const c10d::BroadcastOptions &opts) {
  call_builder c("broadcast", TITLE("broadcast"), c10d::OpType::BROADCAST);
  c10d::assertRootRank(c.refuser(), static_cast<int>(opts.rootRank), size_);
  c10d::assertRootTensor(c.refuser(), static_cast<int>(opts.rootTensor), static_cast<int>(list.size()));
  c10d::assertDense(c.refuser(), list);
  c10d::assertTypeAndSizesMatch(c.refuser(), list);
  const at::Tensor t = list[static_cast<size_t>(opts.rootTensor)];
  const elements e(t);
  c.calls = {call_of(TUTTI_BROADCAST, nullptr, nullptr, e.count(t), e.type)};
  c.calls[0].root = static_cast<uint32_t>(opts.rootRank);
  c.use(c.calls[0], t, true, true);
  for (const at::Tensor &other : list)
    if (!other.is_same(t)) c.later([other, t] { other.copy_(t); });
  c.inputs = list;
  c.results = {list};
  return start(c, opts.timeout);
}

/* Combines the second tensor into the first one, as the operation does. */
void combine(at::Tensor into, const at::Tensor &other, c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM: into.add_(other); break;
    case c10d::ReduceOp::PRODUCT: into.mul_(other); break;
    case c10d::ReduceOp::MIN: at::min_out(into, into, other); break;
    case c10d::ReduceOp::MAX: at::max_out(into, into, other); break;
    case c10d::ReduceOp::BAND: into.bitwise_and_(other); break;
    case c10d::ReduceOp::BOR: into.bitwise_or_(other); break;
    case c10d::ReduceOp::BXOR: into.bitwise_xor_(other); break;
    default: TORCH_CHECK(false, "this ReduceOp takes one tensor for each rank");
  }
}

work_pointer backend::allreduce(tensors &list, const c10d::AllreduceOptions &opts) {
  call_builder c("allreduce", TITLE("all_reduce"), c10d::OpType::ALLREDUCE);
  c10d::assertNonEmpty(c.refuser(), list);
  c10d::assertLayoutMatch(c.refuser(), list);
  c10d::assertTypeAndSizesMatch(c.refuser(), list);
  c.check_cpu(list[0]);
  if (list[0].layout() == at::kSparse) return sparse_allreduce(list, opts, c);
  if (list[0].layout() != at::kStrided) c.refuse("unsupported layout");
  const at::Tensor t = list[0];
  const arithmetic a(opts.reduceOp, t.scalar_type());
  for (size_t i = 1; i < list.size(); i++) {
    write_results([&] { combine(t, list[i], opts.reduceOp.op_); });
    c.later([t, other = list[i]] { other.copy_(t); });
  }
  c.calls = {call_of(TUTTI_ALLREDUCE, nullptr, nullptr, static_cast<size_t>(t.numel()), a.type)};
  set_arithmetic(c.calls[0], a);
  c.use(c.calls[0], t, true, true);
  c.inputs = list;
  c.results = {list};
  return start(c, opts.timeout);
}

/* All ranks have the sum of the tensors, which have other elements on each rank. The number of elements of each rank must be
 * known before they can be sent, so this call waits in two places: it is complete when it returns. */
work_pointer backend::sparse_allreduce(tensors &list, const c10d::AllreduceOptions &opts, call_builder &c) {
  if (opts.reduceOp.op_ != c10d::ReduceOp::SUM)
    c.refuse("unsupported reduction operation (only sum is supported for sparse tensors)");
  ++sequence_;
  at::Tensor result;
  write_results([&] {
    at::Tensor own = list[0];
    for (size_t i = 1; i < list.size(); i++) own = own + list[i];
    own = own.coalesce();
    const at::Tensor values = own.values().contiguous();
    const at::Tensor indices = own.indices().t().contiguous(); /* [elements, sparse dimensions] */
    const auto shape = at::tensor(std::vector<int64_t>{values.size(0), own.sparse_dim()});
    at::Tensor shapes = at::empty({size_, 2}, at::kLong);
    run(call_of(TUTTI_ALLGATHER, shape.data_ptr(), shapes.data_ptr(), 2, TUTTI_I64), opts.timeout, c.function_);
    const elements e(values);
    std::vector<size_t> of_indices, of_values;
    int64_t total = 0, width = 1;
    for (int64_t d = 1; d < values.dim(); d++) width *= values.size(d);
    const auto *s = shapes.data_ptr<int64_t>();
    for (int r = 0; r < size_; r++) {
      TORCH_CHECK(s[2 * r + 1] == own.sparse_dim(), "Sparse dimensions do not match");
      of_indices.push_back(static_cast<size_t>(s[2 * r] * own.sparse_dim()));
      of_values.push_back(static_cast<size_t>(s[2 * r] * width) * e.unit);
      total += s[2 * r];
    }
    auto sizes = values.sizes().vec();
    sizes[0] = total;
    at::Tensor all_indices = at::empty({total, own.sparse_dim()}, at::kLong),
               all_values = at::empty(sizes, values.options());
    tutti_call call = call_of(TUTTI_ALLGATHERV, indices.data_ptr(), all_indices.data_ptr(), 0, TUTTI_I64);
    call.counts = of_indices.data();
    run(call, opts.timeout, c.function_);
    call = call_of(TUTTI_ALLGATHERV, values.data_ptr(), all_values.data_ptr(), 0, e.type);
    call.counts = of_values.data();
    run(call, opts.timeout, c.function_);
    result = at::sparse_coo_tensor(all_indices.t().contiguous(), all_values, own.sizes(), own.options()).coalesce();
    for (const at::Tensor &t : list) t.copy_(result);
  });
  return c10::make_intrusive<work>(c.type_, TITLE("sparse_all_reduce"), list, std::vector<tensors>{list}, nullptr,
                                   sequence_);
}

work_pointer backend::allreduce_coalesced(tensors &list, const c10d::AllreduceCoalescedOptions &opts) {
  call_builder c("allreduce_coalesced", TITLE("all_reduce"), c10d::OpType::ALLREDUCE_COALESCED);
  c10d::assertNonEmpty(c.refuser(), list);
  c10d::assertLayoutMatch(c.refuser(), list);
  for (const at::Tensor &t : list) {
    c.check_cpu(t);
    if (!t.options().type_equal(list[0].options())) c.refuse("tensors must all have the same type");
    if (t.layout() != at::kStrided) c.refuse("unsupported layout");
  }
  const arithmetic a(opts.reduceOp, list[0].scalar_type());
  const auto add = [&](void *memory, const at::Tensor &t) {
    c.calls.push_back(call_of(TUTTI_ALLREDUCE, memory, memory, static_cast<size_t>(t.numel()), a.type));
    set_arithmetic(c.calls.back(), a);
  };
  /* Long tensors have calls of their own; short ones are joined into one call. */
  constexpr size_t LONG_BYTES = 64 << 10;
  if (std::all_of(list.begin(), list.end(), [](const at::Tensor &t) { return t.nbytes() >= LONG_BYTES; }) &&
      are_apart(list)) {
    for (const at::Tensor &t : list) add(c.both(t), t);
  } else {
    const at::Tensor flat = joined(list);
    add(c.both(flat), flat);
    c.later([list, flat] { spread(flat, list); });
  }
  c.inputs = list;
  c.results = {list};
  return start(c, opts.timeout);
}

work_pointer backend::reduce(tensors &list, const c10d::ReduceOptions &opts) {
  call_builder c("reduce", TITLE("reduce"), c10d::OpType::REDUCE);
  c10d::assertRootRank(c.refuser(), static_cast<int>(opts.rootRank), size_);
  c10d::assertRootTensor(c.refuser(), static_cast<int>(opts.rootTensor), static_cast<int>(list.size()));
  c10d::assertSingleElement(c.refuser(), list);
  c10d::assertDense(c.refuser(), list);
  const at::Tensor &t = list[0];
  const arithmetic a(opts.reduceOp, t.scalar_type());
  const bool is_root = rank_ == opts.rootRank;
  c.calls = {call_of(TUTTI_REDUCE, nullptr, nullptr, static_cast<size_t>(t.numel()), a.type)};
  set_arithmetic(c.calls[0], a);
  c.calls[0].root = static_cast<uint32_t>(opts.rootRank);
  c.use(c.calls[0], t, true, is_root);
  c.inputs = list;
  c.results = {list};
  return start(c, opts.timeout);
}

work_pointer backend::allgather(std::vector<tensors> &outputs, tensors &inputs, const c10d::AllgatherOptions &opts) {
  call_builder c("allgather", TITLE("all_gather"), c10d::OpType::ALLGATHER);
  if (inputs.empty()) c.refuse("requires non-empty input tensor list");
  if (inputs.size() != outputs.size()) c.refuse("requires input/output tensor lists to have the same length");
  for (size_t i = 0; i < outputs.size(); i++)
    if (outputs[i].size() != inputs.size() * ranks())
      c.refuse(c10::str("invalid output tensor list at index ", i, " (expected length ", inputs.size() * ranks(),
                        ", got ", outputs[i].size(), ")"));
  c10d::assertDense(c.refuser(), inputs);
  c10d::assertTypeAndSizesMatch(c.refuser(), inputs, inputs[0].options(), inputs[0].sizes());
  for (const tensors &list : outputs)
    c10d::assertTypeAndSizesMatch(c.refuser(), list, inputs[0].options(), inputs[0].sizes());
  const at::Tensor in = inputs.size() == 1 ? inputs[0] : joined(inputs);
  const elements e(in);
  const bool direct = outputs.size() == 1 && are_apart(outputs[0]);
  const void *own = direct ? outputs[0][static_cast<size_t>(rank_)].data_ptr() : nullptr;
  const void *send = c.input(in, outputs[0], own);
  c.calls = {call_of(TUTTI_ALLGATHER, send, nullptr, e.count(in), e.type)};
  if (direct) {
    c.calls[0].recv_blocks = c.outputs_at(outputs[0]);
  } else {
    at::Tensor all = c.scratch(inputs[0], outputs[0].size());
    c.calls[0].recv = all.data_ptr();
    for (const tensors &list : outputs) c.later([list, all] { spread(all, list); });
  }
  c.inputs = inputs;
  c.results = outputs;
  return start(c, opts.timeout);
}

void backend::add_allgather(call_builder &c, const at::Tensor &output, const at::Tensor &input) const {
  if (output.dtype() != input.dtype()) c.refuse("output tensor must have the same type as input tensor");
  if (static_cast<size_t>(output.numel()) != static_cast<size_t>(input.numel()) * ranks())
    c.refuse("output tensor size must be equal to world_size times input tensor size");
  const elements e(input);
  auto *own = static_cast<unsigned char *>(output.data_ptr()) + static_cast<size_t>(rank_) * input.nbytes();
  const void *send = c.input(input, {output}, own);
  c.calls.push_back(call_of(TUTTI_ALLGATHER, send, c.output(output), e.count(input), e.type));
}

work_pointer backend::_allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &opts) {
  call_builder c("_allgather_base", TITLE("_all_gather_base"), c10d::OpType::_ALLGATHER_BASE);
  add_allgather(c, output, input);
  c.inputs = {input};
  c.results = {{output}};
  return start(c, opts.timeout);
}

work_pointer backend::allgather_coalesced(std::vector<tensors> &outputs, tensors &inputs,
                                          const c10d::AllgatherOptions &opts) {
  call_builder c("allgather_coalesced", TITLE("all_gather"), c10d::OpType::ALLGATHER_COALESCED);
  if (inputs.empty()) c.refuse("requires non-empty input tensor list");
  if (outputs.size() != ranks()) c.refuse("output lists should be equal to world size");
  for (const tensors &list : outputs) {
    if (list.size() != inputs.size())
      c.refuse(c10::str("invalid output size: (expected length ", inputs.size(), ", got ", list.size(), ")"));
    for (size_t i = 0; i < list.size(); i++) {
      if (list[i].sizes() != inputs[i].sizes())
        c.refuse(c10::str("invalid size of output tensor at index ", i, " (expected length ", inputs[i].sizes(),
                          ", got ", list[i].sizes(), ")"));
      if (!inputs[i].options().type_equal(list[i].options()))
        c.refuse(c10::str("invalid tensor type at index ", i, " (expected ", inputs[i].toString(), ", got ",
                          list[i].toString(), ")"));
    }
  }
  c10d::assertDense(c.refuser(), inputs);
  for (size_t i = 0; i < inputs.size(); i++) {
    const elements e(inputs[i]);
    tensors to;
    for (const tensors &list : outputs) to.push_back(list[i]);
    const void *send = c.input(inputs[i], to, nullptr);
    at::Tensor all = c.scratch(inputs[i], ranks());
    c.calls.push_back(call_of(TUTTI_ALLGATHER, send, all.data_ptr(), e.count(inputs[i]), e.type));
    c.later([to, all] { spread(all, to); });
  }
  c.inputs = inputs;
  c.results = outputs;
  return start(c, opts.timeout);
}

work_pointer backend::gather(std::vector<tensors> &outputs, tensors &inputs, const c10d::GatherOptions &opts) {
  call_builder c("gather", TITLE("gather"), c10d::OpType::GATHER);
  c10d::assertRootRank(c.refuser(), static_cast<int>(opts.rootRank), size_);
  c10d::assertSingleElementInput(c.refuser(), inputs);
  c10d::assertDense(c.refuser(), inputs);
  const at::Tensor &in = inputs[0];
  const elements e(in);
  c.calls = {call_of(TUTTI_GATHER, nullptr, nullptr, e.count(in), e.type)};
  if (rank_ == opts.rootRank) {
    if (outputs.size() != 1)
      c.refuse(c10::str("requires a single-element output list containing a list with ", size_, " tensors."));
    if (outputs[0].size() != ranks())
      c.refuse(c10::str("Incorrect output list size ", outputs[0].size(), ". Output list size should be ", size_,
                        ", same as size of the process group."));
    c10d::assertTypeAndSizesMatch(c.refuser(), outputs[0], in.options(), in.sizes());
    if (are_apart(outputs[0])) {
      c.calls[0].send = c.input(in, outputs[0], outputs[0][static_cast<size_t>(rank_)].data_ptr());
      c.calls[0].recv_blocks = c.outputs_at(outputs[0]);
    } else {
      c.calls[0].send = c.input(in);
      at::Tensor all = c.scratch(in, ranks());
      c.calls[0].recv = all.data_ptr();
      c.later([list = outputs[0], all] { spread(all, list); });
    }
  } else {
    if (!outputs.empty()) c.refuse("requires empty output on non-root");
    c.calls[0].send = c.input(in);
  }
  c.calls[0].root = static_cast<uint32_t>(opts.rootRank);
  c.inputs = inputs;
  c.results = outputs;
  return start(c, opts.timeout);
}

work_pointer backend::scatter(tensors &outputs, std::vector<tensors> &inputs, const c10d::ScatterOptions &opts) {
  call_builder c("scatter", TITLE("scatter"), c10d::OpType::SCATTER);
  c10d::assertRootRank(c.refuser(), static_cast<int>(opts.rootRank), size_);
  c10d::assertSingleElementOutput(c.refuser(), outputs);
  c10d::assertDense(c.refuser(), outputs);
  const at::Tensor &out = outputs[0];
  const elements e(out);
  c.calls = {call_of(TUTTI_SCATTER, nullptr, nullptr, e.count(out), e.type)};
  if (rank_ == opts.rootRank) {
    if (inputs.size() != 1)
      c.refuse(c10::str("requires a single-element input list containing a list with ", size_, " tensors"));
    if (inputs[0].size() != ranks())
      c.refuse(c10::str("Incorrect input list size ", inputs[0].size(), ". Input list size should be ", size_,
                        ", same as size of the process group."));
    c10d::assertTypeAndSizesMatch(c.refuser(), inputs[0], out.options(), out.sizes());
    const bool in_place = out.is_contiguous() && inputs[0][static_cast<size_t>(rank_)].data_ptr() == out.data_ptr();
    if (shares_memory(out, inputs[0]) && !in_place) c.calls[0].send = c.input(joined(inputs[0]));
    else c.calls[0].send_blocks = c.inputs_at(inputs[0]);
  } else if (!inputs.empty()) {
    c.refuse("requires empty input on non-root");
  }
  c.calls[0].recv = c.output(out);
  c.calls[0].root = static_cast<uint32_t>(opts.rootRank);
  c.inputs = flat_list(inputs);
  c.results = {outputs};
  return start(c, opts.timeout);
}

work_pointer backend::reduce_scatter(tensors &outputs, std::vector<tensors> &inputs,
                                     const c10d::ReduceScatterOptions &opts) {
  call_builder c("reduce_scatter", TITLE("reduce_scatter"), c10d::OpType::REDUCE_SCATTER);
  c10d::assertSingleElementOutput(c.refuser(), outputs);
  if (inputs.size() != 1) c.refuse("requires a single-element input list");
  if (inputs[0].size() != ranks())
    c.refuse(c10::str("Incorrect input list size ", inputs[0].size(), ". Input list size should be ", size_,
                      ", same as size of the process group."));
  c10d::assertDense(c.refuser(), outputs);
  std::vector<size_t> counts;
  for (const at::Tensor &t : inputs[0]) {
    if (!t.options().type_equal(outputs[0].options()))
      c.refuse("invalid tensor type: input and output tensors must have the same type");
    counts.push_back(static_cast<size_t>(t.numel()));
  }
  if (counts[static_cast<size_t>(rank_)] != static_cast<size_t>(outputs[0].numel()))
    c.refuse("invalid tensor size: the output tensor must have as many elements as the input tensor of this rank");
  const arithmetic a(opts.reduceOp, outputs[0].scalar_type());
  c.calls = {call_of(TUTTI_REDUCE_SCATTERV, nullptr, nullptr, 0, a.type)};
  if (shares_memory(outputs[0], inputs[0])) c.calls[0].send = c.input(joined(inputs[0]));
  else c.calls[0].send_blocks = c.inputs_at(inputs[0]);
  c.calls[0].recv = c.output(outputs[0]);
  set_arithmetic(c.calls[0], a);
  c.calls[0].counts = counts.data();
  c.inputs = inputs[0];
  c.results = {outputs};
  return start(c, opts.timeout);
}

void backend::add_reduce_scatter(call_builder &c, const at::Tensor &output, const at::Tensor &input,
                                 const c10d::ReduceOp &op) const {
  if (output.dtype() != input.dtype()) c.refuse("output tensor must have the same type as input tensor");
  if (static_cast<size_t>(input.numel()) != static_cast<size_t>(output.numel()) * ranks())
    c.refuse("input tensor must be the same size as output size times world size");
  const arithmetic a(op, output.scalar_type());
  /* In place, the output is this rank's block of the input. */
  auto *own = static_cast<unsigned char *>(output.data_ptr()) - static_cast<size_t>(rank_) * output.nbytes();
  const void *send = c.input(input, {output}, own);
  c.calls.push_back(call_of(TUTTI_REDUCE_SCATTER, send, c.output(output), static_cast<size_t>(output.numel()), a.type));
  set_arithmetic(c.calls.back(), a);
}

work_pointer backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                           const c10d::ReduceScatterOptions &opts) {
  call_builder c("_reduce_scatter_base", TITLE("_reduce_scatter_base"), c10d::OpType::_REDUCE_SCATTER_BASE);
  add_reduce_scatter(c, output, input, opts.reduceOp);
  c.inputs = {input};
  c.results = {{output}};
  return start(c, opts.timeout);
}

#if TORCH_VERSION_MAJOR >= 2
work_pointer backend::allgather_into_tensor_coalesced(tensors &outputs, tensors &inputs,
                                                      const c10d::AllgatherOptions &opts) {
  call_builder c("allgather_into_tensor_coalesced", TITLE("all_gather"), c10d::OpType::_ALLGATHER_BASE);
  if (inputs.empty() || outputs.size() != inputs.size())
    c.refuse("requires as many output tensors as input tensors, and at least one");
  for (size_t i = 0; i < inputs.size(); i++) add_allgather(c, outputs[i], inputs[i]);
  c.inputs = inputs;
  c.results = {outputs};
  return start(c, opts.timeout);
}

work_pointer backend::reduce_scatter_tensor_coalesced(tensors &outputs, tensors &inputs,
                                                      const c10d::ReduceScatterOptions &opts) {
  call_builder c("reduce_scatter_tensor_coalesced", TITLE("reduce_scatter"), c10d::OpType::_REDUCE_SCATTER_BASE);
  if (inputs.empty() || outputs.size() != inputs.size())
    c.refuse("requires as many output tensors as input tensors, and at least one");
  for (size_t i = 0; i < inputs.size(); i++) add_reduce_scatter(c, outputs[i], inputs[i], opts.reduceOp);
  c.inputs = inputs;
  c.results = {outputs};
  return start(c, opts.timeout);
}
#endif

/* Elements that each rank gets of a tensor, which is cut along its first dimension. No splits: equal parts. */
std::vector<size_t> split(const std::vector<int64_t> &splits, const at::Tensor &t, size_t ranks, size_t unit) {
  std::vector<size_t> counts(ranks, static_cast<size_t>(t.numel()) * unit / ranks);
  if (splits.empty()) return counts;
  TORCH_CHECK(std::all_of(splits.begin(), splits.end(), [](int64_t s) { return s >= 0; }),
              "Split sizes must not be negative");
  const size_t row = t.size(0) > 0 ? static_cast<size_t>(t.numel() / t.size(0)) * unit : 0;
  for (size_t r = 0; r < ranks; r++) counts[r] = static_cast<size_t>(splits[r]) * row;
  return counts;
}

work_pointer backend::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                                    std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &opts) {
  call_builder c("alltoall_base", TITLE("all_to_all"), c10d::OpType::ALLTOALL_BASE);
  TORCH_CHECK(output.device() == input.device(), "output tensor and input tensor must be on the same type of device");
  c10d::assertDense(c.refuser(), {output});
  c10d::assertDense(c.refuser(), {input});
  if (output.dtype() != input.dtype()) c.refuse("output tensor must have the same type as input tensor");
#if TORCH_VERSION_MAJOR >= 2
  if (!input.is_contiguous(input.suggest_memory_format())) C10_THROW_ERROR(ValueError, "Tensors must be contiguous");
#endif
  c10d::checkSplitSizes(input_splits, input, size_);
  c10d::checkSplitSizes(output_splits, output, size_);
  const elements e(input);
  const auto counts = split(input_splits, input, ranks(), e.unit),
             recv_counts = split(output_splits, output, ranks(), e.unit);
  const void *send = c.input(input, {output}, counts == recv_counts ? output.data_ptr() : nullptr);
  if (input_splits.empty() && output_splits.empty()) {
    c.calls = {call_of(TUTTI_ALLTOALL, send, c.output(output), counts[0], e.type)};
  } else {
    c.calls = {call_of(TUTTI_ALLTOALLV, send, c.output(output), 0, e.type)};
    c.calls[0].counts = counts.data();
    c.calls[0].recv_counts = recv_counts.data();
  }
  c.inputs = {input};
  c.results = {{output}};
  return start(c, opts.timeout);
}

work_pointer backend::alltoall(tensors &outputs, tensors &inputs, const c10d::AllToAllOptions &opts) {
  call_builder c("alltoall", TITLE("all_to_all"), c10d::OpType::ALLTOALL);
  if (inputs.size() != ranks() || outputs.size() != ranks())
    c.refuse(c10::str("requires ", size_, " input and output tensors, one for each rank; got ", inputs.size(), " and ",
                      outputs.size()));
  c10d::assertDense(c.refuser(), inputs);
  std::vector<size_t> counts, recv_counts;
  const elements e(inputs[0]);
  for (size_t r = 0; r < ranks(); r++) {
    if (!inputs[r].options().type_equal(inputs[0].options()) || !outputs[r].options().type_equal(inputs[0].options()))
      c.refuse("invalid tensor type: all tensors must have the same type");
    counts.push_back(e.count(inputs[r]));
    recv_counts.push_back(e.count(outputs[r]));
  }
  c.calls = {call_of(TUTTI_ALLTOALLV, nullptr, nullptr, 0, e.type)};
  c.calls[0].counts = counts.data();
  c.calls[0].recv_counts = recv_counts.data();
  const bool shares =
      std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor &in) { return shares_memory(in, outputs); });
  if (shares) c.calls[0].send = c.input(joined(inputs));
  else c.calls[0].send_blocks = c.inputs_at(inputs);
  if (are_apart(outputs)) {
    c.calls[0].recv_blocks = c.outputs_at(outputs);
  } else {
    int64_t total = 0;
    for (const at::Tensor &t : outputs) total += t.numel();
    const at::Tensor all = at::empty({total}, inputs[0].options());
    c.calls[0].recv = c.output(all);
    c.later([list = outputs, all] { spread(all, list); });
  }
  c.inputs = inputs;
  c.results = {outputs};
  return start(c, opts.timeout);
}

work_pointer backend::message(tensors &list, uint32_t peer, int tag, call_builder &c) {
  TORCH_CHECK(list.size() == 1, "ProcessGroupGloo::", c.function_, " takes a single tensor");
  TORCH_CHECK(!list[0].is_sparse(), "input tensor has to be dense");
  TORCH_CHECK(tag >= 0, "Tag must be nonnegative");
  const at::Tensor &t = list[0];
  const elements e(t);
  const bool sends = c.type_ == c10d::OpType::SEND;
  c.calls = {call_of(sends ? TUTTI_SEND : TUTTI_RECV, nullptr, nullptr, e.count(t), e.type)};
  c.use(c.calls[0], t, sends, !sends);
  c.calls[0].peer = peer;
  c.calls[0].tag = static_cast<uint32_t>(tag);
  c.calls[0].message = c.message.get();
  c.inputs = list;
  if (!sends) c.results = {list};
  return start(c, kUnset);
}

work_pointer backend::send(tensors &list, int peer, int tag) {
  call_builder c("send", TITLE("send"), c10d::OpType::SEND);
  if (peer < 0 || peer >= size_) c.refuse("invalid rank: " + std::to_string(peer));
  return message(list, static_cast<uint32_t>(peer), tag, c);
}

work_pointer backend::recv(tensors &list, int peer, int tag) {
  call_builder c("recv", TITLE("recv"), c10d::OpType::RECV);
  if (peer < 0 || peer >= size_) c.refuse("invalid rank: " + std::to_string(peer));
  return message(list, static_cast<uint32_t>(peer), tag, c);
}

work_pointer backend::recvAnysource(tensors &list, int tag) {
  call_builder c("recvAnysource", TITLE("recvAnySource"), c10d::OpType::RECVANYSOURCE);
  c.message = std::make_unique<tutti_message>();
  return message(list, TUTTI_ANY_RANK, tag, c);
}

work_pointer backend::barrier(const c10d::BarrierOptions &opts) {
  call_builder c("barrier", TITLE("barrier"), c10d::OpType::BARRIER);
  c.calls = {call_of(TUTTI_BARRIER, nullptr, nullptr, 0, TUTTI_U8)};
  return start(c, opts.timeout);
}

/* A barrier whose rank 0 finds out which ranks do not come. It goes by the store, so that it leaves the communicator as it
 * is, whatever comes of it. Only rank 0 has the time limit; the others wait for its answer. */
void backend::monitoredBarrier(const c10d::BarrierOptions &opts, bool all) {
  const auto key_of_round = [&](uint64_t round) { return prefix_ + "monitored/" + std::to_string(round) + "/"; };
  /* Rounds that have an answer already are over: this rank has missed them. */
  while (rank_ != 0 && store_->check({key_of_round(monitored_) + "answer"})) monitored_++;
  const std::string round = key_of_round(monitored_++);
  const auto wait_for = [&](const std::string &key, milliseconds time) {
    try {
      store_->wait({round + key}, std::max(time, milliseconds(1)));
      return true;
    } catch (const std::exception &) {
      return false;
    }
  };
  if (rank_ != 0) {
    store_->set(round + std::to_string(rank_), std::vector<uint8_t>{1});
    const bool answered = wait_for("answer", options_->timeout);
    if (answered && store_->get(round + "answer")[0] == 1) return;
    TORCH_CHECK(false, "Rank ", rank_,
                " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                "from rank 0. Please check rank 0 logs for faulty rank.");
  }
  const milliseconds time = limit(opts.timeout);
  const auto begun = std::chrono::steady_clock::now();
  std::vector<int> missing;
  std::string why;
  for (int r = 1; r < size_ && why.empty(); r++) {
    const auto passed = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begun);
    if (!all && passed >= time) {
      why = c10::str("Rank 0 timed out in monitoredBarrier after ", time.count(), " ms.");
    } else if (!wait_for(std::to_string(r), all ? time : time - passed)) {
      missing.push_back(r);
      if (!all) why = c10::str("[Rank 0]: Rank ", r, " failed to pass monitoredBarrier in ", time.count(), " ms");
    }
  }
  if (all && !missing.empty())
    why = c10::str("[Rank 0]: Ranks ", c10::Join(", ", missing), " failed to pass monitoredBarrier in ", time.count(),
                   " ms");
  store_->set(round + "answer", std::vector<uint8_t>{static_cast<uint8_t>(why.empty())});
  TORCH_CHECK(why.empty(), why);
}

/* ---- memory of the library ----------------------------------------------------------------------------------------- */

/* Memory that the other ranks of the host map. It belongs to a communicator of this rank alone in the home world, so it stays
 * when the groups are gone. Never destroyed, because tensors may live until the process ends. */
class shared_memory {
 public:
  static shared_memory &get() {
    static auto *one = new shared_memory;
    return *one;
  }

  /* Returns NULL if there is no world, or no memory left; *why is then the reason. */
  void *acquire(size_t bytes, std::string *why) {
    if (process_ != getpid()) {
      *why = "this process is a child of fork() of a process that has such memory";
      return nullptr;
    }
    std::lock_guard<std::mutex> guard(lock_);
    const auto world = home.get();
    void *memory = nullptr;
    tutti_err err = TUTTI_OK;
    if (!world && !owner_) *why = "there is no process group yet; call init_process_group first";
    if (world && world->world_id != of_) {
      tutti_comm *own;
      err = tutti_comm_self(world->comm, &own);
      if (err == TUTTI_OK) owner_ = own, of_ = world->world_id;
    }
    if (err == TUTTI_OK && owner_) err = tutti_alloc(owner_, std::max<size_t>(bytes, 1), &memory);
    if (err != TUTTI_OK) *why = tutti_error_message(nullptr);
    if (memory) owners_[memory] = owner_;
    return memory;
  }

  /* Returns false if the memory is not from here. */
  bool release(void *memory) {
    if (process_ != getpid())
      return true; /* a child of fork() has no part in it; another thread may have held the lock */
    std::lock_guard<std::mutex> guard(lock_);
    const auto found = owners_.find(memory);
    if (found == owners_.end()) return false;
    (void)tutti_free(found->second, memory);
    owners_.erase(found);
    return true;
  }

 private:
  std::mutex lock_;
  const pid_t process_ = getpid();
  tutti_comm *owner_ = nullptr; /* of what is allocated now */
  uint64_t of_ = 0;             /* id of the world of owner_ */
  std::map<void *, tutti_comm *> owners_;
};

void release_shared(void *memory) { (void)shared_memory::get().release(memory); }

at::Tensor empty(const std::vector<int64_t> &sizes, at::ScalarType type) {
  int64_t items = 1;
  for (const int64_t size : sizes) items *= size;
  std::string why;
  void *memory = shared_memory::get().acquire(static_cast<size_t>(items) * c10::elementSize(type), &why);
  TORCH_CHECK(memory, "tutti.torch.empty: ", why);
  return at::from_blob(memory, sizes, release_shared, at::TensorOptions().dtype(type));
}

at::Tensor backend::allocateTensor(long size, at::TensorOptions options) {
  std::string why;
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  void *memory = shared_memory::get().acquire(static_cast<size_t>(size) * c10::elementSize(type), &why);
  return memory ? at::from_blob(memory, {size}, release_shared, options) : at::empty({size}, options);
}

/* Allocates the memory of all CPU tensors while it is switched on. Short tensors, and those for which there is no memory left,
 * have ordinary memory. Memory is freed by its address, so it does not matter when the allocator is switched off. */
class shared_allocator final : public c10::Allocator {
 public:
  static constexpr size_t BYTES_MIN = 4096;
#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(size_t bytes) override { return provide(bytes); }
  void copy_data(void *to, const void *from, size_t bytes) const override { default_copy_data(to, from, bytes); }
#else
  c10::DataPtr allocate(size_t bytes) const override { return provide(bytes); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return release_raw; }

  /* on: as many uses as there are. */
  static void use(bool on) {
    static std::mutex lock;
    static int uses = 0;
    static shared_allocator *one = nullptr;
    std::lock_guard<std::mutex> guard(lock);
    uses += on ? 1 : -1;
    if (!one) {
      ordinary_ = c10::GetCPUAllocator();
      one = new shared_allocator;
    }
    c10::SetCPUAllocator(uses > 0 ? static_cast<c10::Allocator *>(one) : ordinary_, 255);
  }

 private:
  c10::DataPtr provide(size_t bytes) const {
    std::string why;
    void *memory = bytes >= BYTES_MIN ? shared_memory::get().acquire(bytes, &why) : nullptr;
    return memory ? c10::DataPtr(memory, memory, release_shared, at::Device(at::kCPU)) : ordinary_->allocate(bytes);
  }
  static void release_raw(void *memory) {
    if (!shared_memory::get().release(memory)) ordinary_->raw_deallocate(memory);
  }
  static c10::Allocator *ordinary_; /* that of torch */
};
c10::Allocator *shared_allocator::ordinary_ = nullptr;

/* ---- a call beside c10d -------------------------------------------------------------------------------------------- */

/* allreduce(backend, tensor, op): in place, complete on return. */
PyObject *py_allreduce(PyObject *, PyObject *const *args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 3 && THPVariable_Check(args[1]), "allreduce: expected a group, a tensor and an operation");
  auto &group = pybind11::cast<backend &>(args[0]);
  const at::Tensor &t = THPVariable_Unpack(args[1]);
  const auto op = args[2] == Py_None ? c10d::ReduceOp() : pybind11::cast<c10d::ReduceOp>(args[2]);
  {
    pybind11::gil_scoped_release no_gil;
    group.allreduce_now(t, op);
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

}  // namespace

/* ---- the module ---------------------------------------------------------------------------------------------------- */

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  namespace py = pybind11;
  py::module::import("torch.distributed");
  const auto release = py::call_guard<py::gil_scoped_release>();
  py::class_<backend_options, base::Options, c10::intrusive_ptr<backend_options>>(m, "Options");
  py::class_<backend, base, c10::intrusive_ptr<backend>>(m, "ProcessGroupTutti",
                                                         "A process group of torch.distributed for CPU tensors.")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, const milliseconds &timeout) {
             return c10::make_intrusive<backend>(store, rank, size, timeout);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), release,
           "Collective over the ranks of the group, which meet by the store. timeout: limit of this call, and of the "
           "calls\n"
           "that set none of their own. Raises RuntimeError, with the names of the ranks that are missing.")
      .def_property_readonly("options", [](const backend &b) { return b.options_; })
      .def("_set_default_timeout", [](const backend &b, const milliseconds &timeout) { b.options_->timeout = timeout; })
      .def("_allocate_tensor",
           [](backend &b, long size, const py::object &dtype) {
             TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "_allocate_tensor: dtype is no torch.dtype");
             return b.allocateTensor(size, reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type);
           })
      /* Programs for gloo make devices; they mean nothing here. */
      .def_static(
          "create_device", [](const std::string &, const std::string &) { return py::none(); },
          py::arg("hostname") = "", py::arg("interface") = "")
      .def_static("create_default_device", [] { return py::none(); });
  m.def("empty", [](const std::vector<int64_t> &sizes, const py::object &dtype) {
    TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "empty: dtype is no torch.dtype");
    return empty(sizes, reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type);
  });
  m.def(
      "stop", [] { finisher::get().stop(); }, release);
  m.def("use_memory", &shared_allocator::use, py::arg("on"));
  static PyMethodDef allreduce = {
      "allreduce", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(py_allreduce)), METH_FASTCALL, nullptr};
  m.attr("allreduce") = py::reinterpret_steal<py::object>(PyCFunction_NewEx(&allreduce, nullptr, nullptr));
}
