/* core.cpp: the extension module tutti._core: communicators, memory of tutti_alloc, and one method that runs any call of
 * tutti.h on objects with the buffer protocol or DLPack. Names, defaults and units that a Python user meets are in
 * tutti/__init__.py.
 *
 * The global interpreter lock is released while the library runs. A wait looks for signals every SIGNALS_MS ms, so that
 * Ctrl-C ends it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <tutti/tutti.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "dlpack.h"

namespace {

constexpr int SIGNALS_MS = 50; /* longest time in ms without a look at signals */

struct request_object;

/* A communicator of this rank alone, in the same world as the communicator that it was made from. While it lives, the
 * world's shared memory stays mapped, so memory of tutti_alloc may outlive all communicators of the program. */
struct keeper {
  tutti_comm *comm;
  size_t users; /* the communicator's object and objects of its memory; guarded by the interpreter lock */
};

struct comm_object {
  PyObject_HEAD request_object *requests; /* list of the requests that have a handle */
  keeper *memory;                         /* NULL until the first alloc_bytes() */
  tutti_comm *comm;                       /* NULL: freed */
  unsigned active;                        /* threads inside a call; guarded by the interpreter lock */
};

PyObject *error_classes[TUTTI_ERR_UNSUPPORTED + 1]; /* by tutti_err; [0] is their base class */
PyObject *in_place;                                 /* the object tutti.IN_PLACE */

/* Raises the exception of a library error. The text is the library's message. Returns NULL. */
PyObject *raise(tutti_err err, const tutti_comm *comm) {
  PyObject *type = err < std::size(error_classes) ? error_classes[err] : error_classes[0];
  PyErr_SetString(type, tutti_error_message(comm));
  return nullptr;
}

PyObject *refuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(error_classes[TUTTI_ERR_ARGUMENT], format, arguments);
  va_end(arguments);
  return nullptr;
}

/* Returns the communicator, or NULL with an exception if it is freed. */
tutti_comm *living(comm_object *self) {
  if (!self->comm) refuse("this communicator is freed; make another one with tutti.init(), split() or dup()");
  return self->comm;
}

/* ---- buffers ------------------------------------------------------------------------------------------------------ */

/* A tensor that another library has exported by DLPack, and that belongs to this object until it is destroyed. */
class borrowed_tensor {
 public:
  borrowed_tensor() = default;
  borrowed_tensor(const borrowed_tensor &) = delete;
  borrowed_tensor &operator=(const borrowed_tensor &) = delete;
  ~borrowed_tensor();

  /* Takes the tensor of a capsule. Returns false with an exception if there is none that this module understands. */
  bool take(PyObject *capsule, const char *name);
  /* Checks that a call can use the memory. Returns false with an exception otherwise. */
  bool check(const char *name, bool writable) const;

  const dlpack::tensor *get() const {
    return versioned_ ? &versioned_->dl_tensor : plain_ ? &plain_->dl_tensor : nullptr;
  }
  /* Returns the length in bytes, or SIZE_MAX if the tensor has gaps, is not in C order, or is too long. */
  size_t bytes() const;

 private:
  dlpack::managed *plain_ = nullptr;
  dlpack::managed_versioned *versioned_ = nullptr;
};

borrowed_tensor::~borrowed_tensor() {
  PyObject *type, *value, *trace; /* a deleter may run any code, and this may be on the way of an exception */
  PyErr_Fetch(&type, &value, &trace);
  if (plain_ && plain_->deleter) plain_->deleter(plain_);
  if (versioned_ && versioned_->deleter) versioned_->deleter(versioned_);
  PyErr_Restore(type, value, trace);
}

bool borrowed_tensor::take(PyObject *capsule, const char *name) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    versioned_ = static_cast<dlpack::managed_versioned *>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    (void)PyCapsule_SetName(capsule, "used_dltensor_versioned");
    if (versioned_->major == dlpack::MAJOR) return true;
    refuse("%s: exported by DLPack %u.%u; expected a version 1", name, versioned_->major, versioned_->minor);
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    plain_ = static_cast<dlpack::managed *>(PyCapsule_GetPointer(capsule, "dltensor"));
    return PyCapsule_SetName(capsule, "used_dltensor") == 0;
  } else {
    refuse("%s: its method __dlpack__ returned no new capsule of DLPack", name);
  }
  return false;
}

size_t borrowed_tensor::bytes() const {
  const dlpack::tensor *t = get();
  size_t count = 1, bytes, next = 1; /* next: stride of the dimension that is looked at */
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] == 0) return 0;
  for (int32_t i = t->ndim - 1; i >= 0; i--) {
    if (t->shape[i] < 0 || __builtin_mul_overflow(count, static_cast<size_t>(t->shape[i]), &count)) return SIZE_MAX;
    if (t->strides && t->shape[i] > 1 && t->strides[i] != static_cast<int64_t>(next)) return SIZE_MAX;
    next = count;
  }
  const size_t element_bytes = t->dtype.bits / 8u * t->dtype.lanes;
  return __builtin_mul_overflow(count, element_bytes, &bytes) || bytes > PY_SSIZE_T_MAX ? SIZE_MAX : bytes;
}

bool borrowed_tensor::check(const char *name, bool writable) const {
  const dlpack::tensor *t = get();
  if (t->device_type != dlpack::CPU && t->device_type != dlpack::CUDA_HOST && t->device_type != dlpack::ROCM_HOST)
    refuse("%s: expected memory of the CPU, got memory of DLPack's device type %d; copy it to the CPU first", name,
           int{t->device_type});
  else if (t->dtype.bits % 8 != 0 || t->dtype.bits == 0 || t->dtype.lanes == 0)
    refuse("%s: elements of %d bits cannot be used; expected whole bytes", name, t->dtype.bits);
  else if (writable && versioned_ && versioned_->flags & (dlpack::READ_ONLY | dlpack::IS_COPIED))
    refuse("%s: expected memory that may be written, got %s", name,
           versioned_->flags & dlpack::READ_ONLY ? "read-only memory" : "a copy");
  else if (bytes() == SIZE_MAX || (bytes() > 0 && !t->data))
    refuse("%s: expected contiguous memory in C order; pass a copy, such as tensor.contiguous()", name);
  else return true;
  return false;
}

/* The memory of one argument, which stays exported while this object lives. */
class buffer {
 public:
  buffer() = default;
  buffer(const buffer &) = delete;
  buffer &operator=(const buffer &) = delete;
  ~buffer() {
    if (held_) PyBuffer_Release(&view_);
  }

  /* Returns false with an exception if the object has no memory that a call can use. `name` is the parameter. */
  bool open(PyObject *object, const char *name, bool writable);
  /* Sets *type to the datatype of the elements. Returns false with an exception if it has none. */
  bool datatype(const char *name, tutti_datatype *type) const;

  bool is_memory() const { return held_ || tensor_.get(); }
  bool is_in_place() const { return in_place_; }
  size_t bytes() const { return bytes_; }
  void *address() const { return address_; }

 private:
  bool open_view(PyObject *object, const char *name, bool writable);
  bool open_tensor(PyObject *object, const char *name, bool writable);

  Py_buffer view_{}; /* of the buffer protocol; only if held_ */
  borrowed_tensor tensor_;
  void *address_ = nullptr;
  size_t bytes_ = 0;
  bool held_ = false, in_place_ = false, has_format_ = true;
};

bool buffer::open_view(PyObject *object, const char *name, bool writable) {
  const int flags = PyBUF_ND | (writable ? PyBUF_WRITABLE : 0);
  held_ = PyObject_GetBuffer(object, &view_, flags | PyBUF_FORMAT) == 0;
  if (!held_ && PyErr_ExceptionMatches(PyExc_ValueError)) { /* there may be no format for the elements */
    PyErr_Clear();
    held_ = PyObject_GetBuffer(object, &view_, flags) == 0;
    has_format_ = false;
  }
  if (held_) {
    address_ = view_.buf;
    bytes_ = static_cast<size_t>(view_.len);
  } else if (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError)) {
    PyErr_Clear();
    refuse("%s: expected contiguous memory in C order%s; pass a copy, such as numpy.ascontiguousarray(array)", name,
           writable ? " that may be written" : "");
  }
  return held_;
}

/* An object that cannot export its memory raises one of these. The refusal has the same text. */
void refuse_export(PyObject *object, const char *name) {
  for (PyObject *kind : {PyExc_BufferError, PyExc_RuntimeError, PyExc_ValueError, PyExc_TypeError}) {
    if (!PyErr_ExceptionMatches(kind)) continue;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    refuse("%s: %s cannot export its memory: %S", name, Py_TYPE(object)->tp_name, value ? value : type);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return;
  }
}

/* Returns a capsule. Exporters of before DLPack 1.0 do not know max_version. The method __dlpack_device__ is not asked,
 * because it takes 5 us in torch, and the tensor tells its device, too. */
PyObject *export_tensor(PyObject *object) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject *none = PyTuple_New(0), *options = Py_BuildValue("{s(II)}", "max_version", dlpack::MAJOR, 0u);
  PyObject *capsule = method && none && options ? PyObject_Call(method, none, options) : nullptr;
  if (!capsule && method && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(method);
  }
  Py_XDECREF(options);
  Py_XDECREF(none);
  Py_XDECREF(method);
  return capsule;
}

bool buffer::open_tensor(PyObject *object, const char *name, bool writable) {
  PyObject *capsule = export_tensor(object);
  if (!capsule) {
    refuse_export(object, name);
    return false;
  }
  const bool valid = tensor_.take(capsule, name) && tensor_.check(name, writable);
  Py_DECREF(capsule);
  if (!valid) return false;
  bytes_ = tensor_.bytes();
  if (bytes_ > 0) address_ = static_cast<char *>(tensor_.get()->data) + tensor_.get()->byte_offset;
  return true;
}

bool buffer::open(PyObject *object, const char *name, bool writable) {
  in_place_ = object == in_place;
  if (in_place_) address_ = TUTTI_IN_PLACE;
  if (object == Py_None || in_place_) return true;
  if (PyObject_CheckBuffer(object)) return open_view(object, name, writable);
  if (PyObject_HasAttrString(object, "__dlpack__")) return open_tensor(object, name, writable);
  refuse(
      "%s: expected an object with the buffer protocol, such as a numpy array, or with DLPack, such as a tensor, got "
      "%s",
      name, Py_TYPE(object)->tp_name);
  return false;
}

/* A code of the struct module: its kind of number. */
dlpack::type_code kind_of(char code) {
  if (std::strchr("bhilqn", code)) return dlpack::INT;
  if (std::strchr("BHILQN", code)) return dlpack::UINT;
  if (code == '?') return dlpack::BOOL;
  return std::strchr("efd", code) ? dlpack::FLOAT : dlpack::NO_TYPE;
}

/* Sets *type to the datatype of elements. Returns false if there is none. */
bool find_type(dlpack::type_code kind, size_t bytes, tutti_datatype *type) {
  static constexpr struct {
    dlpack::type_code kind;
    size_t bytes;
    tutti_datatype type;
  } types[] = {{dlpack::INT, 1, TUTTI_I8},
               {dlpack::UINT, 1, TUTTI_U8},
               {dlpack::INT, 2, TUTTI_I16},
               {dlpack::UINT, 2, TUTTI_U16},
               {dlpack::INT, 4, TUTTI_I32},
               {dlpack::UINT, 4, TUTTI_U32},
               {dlpack::INT, 8, TUTTI_I64},
               {dlpack::UINT, 8, TUTTI_U64},
               {dlpack::FLOAT, 2, TUTTI_F16},
               {dlpack::FLOAT, 4, TUTTI_F32},
               {dlpack::FLOAT, 8, TUTTI_F64},
               {dlpack::BFLOAT, 2, TUTTI_BF16},
               {dlpack::FLOAT8_E4M3FN, 1, TUTTI_F8E4M3},
               {dlpack::FLOAT8_E5M2, 1, TUTTI_F8E5M2},
               {dlpack::BOOL, 1, TUTTI_BOOL}};
  for (const auto &row : types) {
    if (row.kind != kind || row.bytes != bytes) continue;
    *type = row.type;
    return true;
  }
  return false;
}

bool buffer::datatype(const char *name, tutti_datatype *type) const {
  static constexpr const char *advice =
      "expected integers, floats or bools in the byte order of this machine, or name the datatype with dtype=, such as "
      "dtype=tutti.BF16";
  if (const dlpack::tensor *t = tensor_.get()) {
    const dlpack::data_type of = t->dtype;
    if (of.lanes == 1 && find_type(static_cast<dlpack::type_code>(of.code), of.bits / 8u, type)) return true;
    refuse("%s: elements of DLPack's type code %d, %d bits and %d lanes are no datatype of the library; %s", name,
           of.code, of.bits, of.lanes, advice);
    return false;
  }
  if (!has_format_) {
    refuse("%s: the object tells no format of its elements; name the datatype with dtype=, such as dtype=tutti.BF16",
           name);
    return false;
  }
  const char *format = view_.format ? view_.format : "B";
  const char *code = format + (*format == '@' || *format == '=' || *format == '<');
  if (code[0] && !code[1] && find_type(kind_of(code[0]), static_cast<size_t>(view_.itemsize), type)) return true;
  refuse("%s: elements of format '%s' are no datatype of the library; %s", name, format, advice);
  return false;
}

/* ---- one call ----------------------------------------------------------------------------------------------------- */

/* The arguments of Comm._run, Comm._start and Comm._prepare. */
enum { COLLECTIVE, SEND, RECV, DTYPE, OP, ROOT, PEER, TAG, ALGORITHM, LANES, TIMEOUT_MS, ARGUMENTS };
/* Those of vector variants are followed by counts, offsets, recv_counts and recv_offsets, each a sequence or None. The last
 * two may be those of a reduction that has an order or leaves: the name of the order, and a number. */
enum { ARRAYS = 4 };
enum { ORDER, LEAVES, OF_REDUCTIONS };

/* Which buffers of a collective hold one block per rank. The others hold one block, which is tutti_call.count. */
struct shape {
  bool send_is_long, recv_is_long;
};

shape shape_of(tutti_collective collective) {
  switch (collective) {
    case TUTTI_GATHER:
    case TUTTI_ALLGATHER: return {false, true};
    case TUTTI_SCATTER:
    case TUTTI_REDUCE_SCATTER: return {true, false};
    case TUTTI_ALLTOALL: return {true, true};
    default: return {false, false};
  }
}

/* Sets call->count to the elements of one block, and checks that a buffer has a whole number of them. */
bool measure(tutti_call *call, const buffer &memory, const char *name, size_t blocks, bool *known) {
  if (!memory.is_memory()) return true;
  const size_t block_bytes = blocks * tutti_datatype_size(call->type);
  if (!*known && memory.bytes() % block_bytes == 0) call->count = memory.bytes() / block_bytes;
  else if (!*known) {
    refuse("%s: %zu bytes cannot be divided into %zu blocks of %s elements", name, memory.bytes(), blocks,
           tutti_datatype_name(call->type));
    return false;
  }
  if (memory.bytes() != call->count * block_bytes) {
    refuse("%s: expected %zu bytes (%zu blocks of %zu %s elements), got %zu", name, call->count * block_bytes, blocks,
           call->count, tutti_datatype_name(call->type), memory.bytes());
    return false;
  }
  *known = true;
  return true;
}

/* Sets the datatype of a call to that of its buffers, unless one is given. */
bool describe_type(tutti_call *call, const buffer &send, const buffer &recv, bool has_type) {
  tutti_datatype other;
  if (!has_type) {
    if (send.is_memory() && !send.datatype("send", &call->type)) return false;
    if (recv.is_memory() && !recv.datatype("recv", &other)) return false;
    if (recv.is_memory() && send.is_memory() && other != call->type) {
      refuse("send has elements of %s and recv of %s; expected the same", tutti_datatype_name(call->type),
             tutti_datatype_name(other));
      return false;
    }
    if (recv.is_memory()) call->type = other;
  } else if (tutti_datatype_size(call->type) == 0) {
    refuse("dtype: %d is no datatype; expected one of tutti.Datatype", static_cast<int>(call->type));
    return false;
  }
  return true;
}

/* Sets the count of a call whose blocks are equal, and checks the lengths of its buffers. In place, recv holds the leaves. */
bool describe_count(tutti_call *call, const tutti_comm *comm, const buffer &send, const buffer &recv, bool in_place) {
  const shape shape = shape_of(call->collective);
  const size_t ranks = tutti_ranks(comm), leaves = call->leaves ? call->leaves : 1;
  bool known = false;
  return measure(call, send, "send", (shape.send_is_long ? ranks : 1) * leaves, &known) &&
         measure(call, recv, "recv", (shape.recv_is_long ? ranks : 1) * (in_place ? leaves : 1), &known);
}

/* The arguments of one call that the library reads until the call is started (arrays) or complete (buffers). */
struct inputs {
  buffer send, recv;
  std::vector<size_t> arrays[ARRAYS];
};

/* Reads an argument that is None or a sequence of one number per rank. Returns false with an exception if it is wrong. */
bool read_array(PyObject *object, const char *name, size_t ranks, std::vector<size_t> *array, const size_t **field) {
  if (object == Py_None) return true;
  PyObject *items = PySequence_Fast(object, "counts and offsets: expected sequences of numbers, one per rank");
  if (!items) return false;
  const size_t count = static_cast<size_t>(PySequence_Fast_GET_SIZE(items));
  for (size_t i = 0; i < count && !PyErr_Occurred(); i++) {
    PyObject *number = PyNumber_Index(PySequence_Fast_GET_ITEM(items, static_cast<Py_ssize_t>(i)));
    const Py_ssize_t value = number ? PyLong_AsSsize_t(number) : -1;
    Py_XDECREF(number);
    if (value < 0 && !PyErr_Occurred()) refuse("%s[%zu]: expected 0 or more, got %zd", name, i, value);
    array->push_back(static_cast<size_t>(value));
  }
  Py_DECREF(items);
  if (!PyErr_Occurred() && count != ranks)
    refuse("%s: expected %zu numbers, one per rank, got %zu", name, ranks, count);
  *field = array->data();
  return !PyErr_Occurred();
}

/* Checks that the blocks lie in the buffer, as often as it has leaves. */
bool holds(const tutti_call *call, const buffer &memory, const char *name, const size_t *counts, const size_t *offsets,
           size_t ranks, size_t leaves = 1) {
  if (!memory.is_memory()) return true;
  if (!counts) return refuse("%s: the counts of its blocks are missing; expected one number per rank", name) != nullptr;
  const size_t elements = memory.bytes() / tutti_datatype_size(call->type) / leaves;
  size_t next = 0;
  for (size_t i = 0; i < ranks; i++) {
    const size_t begin = offsets ? offsets[i] : next;
    if (counts[i] > 0 && (begin > elements || counts[i] > elements - begin)) {
      refuse("%s: block %zu (%zu elements from element %zu on) does not lie in the buffer of %zu elements%s", name, i,
             counts[i], begin, elements, leaves > 1 ? " for each leaf" : "");
      return false;
    }
    next = begin + counts[i];
  }
  return true;
}

/* Checks the short buffer of a vector variant, which holds this rank's block, and sets call->count. */
bool measure_own(tutti_call *call, const buffer &memory, const char *name, size_t rank) {
  const size_t elements = memory.bytes() / tutti_datatype_size(call->type);
  call->count = call->counts ? call->counts[rank] : elements;
  if (!memory.is_memory() || elements == call->count) return true;
  refuse("%s: expected counts[%zu] = %zu elements, got %zu", name, rank, call->count, elements);
  return false;
}

/* Sets the fields of vector variants from the arguments behind those of all calls, and checks the buffers. */
bool describe_blocks(tutti_call *call, const tutti_comm *comm, PyObject *const *arguments, inputs *in) {
  static constexpr const char *names[ARRAYS] = {"counts", "offsets", "recv_counts", "recv_offsets"};
  const size_t **fields[ARRAYS] = {&call->counts, &call->offsets, &call->recv_counts, &call->recv_offsets};
  const size_t ranks = tutti_ranks(comm), rank = tutti_rank(comm);
  for (size_t i = 0; i < ARRAYS; i++)
    if (!read_array(arguments[i], names[i], ranks, &in->arrays[i], fields[i])) return false;
  if (call->collective == TUTTI_ALLTOALLV)
    return holds(call, in->send, "send", call->counts, call->offsets, ranks) &&
           holds(call, in->recv, "recv", call->recv_counts, call->recv_offsets, ranks);
  if (call->collective == TUTTI_GATHERV || call->collective == TUTTI_ALLGATHERV)
    return measure_own(call, in->send, "send", rank) &&
           holds(call, in->recv, "recv", call->counts, call->offsets, ranks);
  return measure_own(call, in->recv, "recv", rank) &&
         holds(call, in->send, "send", call->counts, call->offsets, ranks, call->leaves ? call->leaves : 1);
}

bool has_blocks(tutti_collective collective) { return collective >= TUTTI_GATHERV && collective <= TUTTI_ALLTOALLV; }

/* A wait for a request that is open. */
struct waiting {
  int limit_ms = TUTTI_NO_TIMEOUT; /* time after which the wait gives up; 0: it does not wait */
  bool done = false;               /* result: the request is complete or has failed */
  bool interrupted = false;        /* result: a signal handler has raised; the request is still open */
};

/* Waits for a request, and returns its result; TUTTI_OK if the wait gives up or is interrupted. Runs without the
 * interpreter lock `state`, and takes it to look for signals. */
tutti_err wait_unlocked(tutti_request **request, PyThreadState **state, waiting *wait) {
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::milliseconds(wait->limit_ms);
  int left_ms = wait->limit_ms;
  for (;;) {
    const int slice_ms = left_ms < 0 ? SIGNALS_MS : std::min(left_ms, SIGNALS_MS);
    const tutti_err err = tutti_wait_for(request, slice_ms, &wait->done);
    if (err != TUTTI_OK || wait->done) return err;
    if (wait->limit_ms >= 0) {
      left_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count());
      if (left_ms <= 0) return TUTTI_OK;
    }
    PyEval_RestoreThread(*state);
    wait->interrupted = PyErr_CheckSignals() != 0;
    *state = PyEval_SaveThread();
    if (wait->interrupted) return TUTTI_OK;
  }
}

/* Runs a function of the library without the interpreter lock. */
template <typename F>
tutti_err unlocked(F &&f) {
  PyThreadState *state = PyEval_SaveThread();
  const tutti_err err = f();
  PyEval_RestoreThread(state);
  return err;
}

/* Starts the call and waits until it is complete. Returns its result. If a signal handler raises, the communicator is
 * aborted, so that the library no longer uses the buffers. */
tutti_err run_and_wait(tutti_comm *comm, const tutti_call *call, bool *interrupted) {
  PyThreadState *state = PyEval_SaveThread();
  tutti_request *request = nullptr;
  tutti_err err = tutti_start(comm, call, &request);
  waiting wait;
  if (err == TUTTI_OK) err = wait_unlocked(&request, &state, &wait);
  *interrupted = wait.interrupted;
  if (wait.interrupted) {
    tutti_abort(comm, "a signal handler of Python raised an exception");
    err = tutti_wait(&request);
  }
  PyEval_RestoreThread(state);
  return err;
}

/* Sets all fields but the buffers. Returns false with an exception if an argument has the wrong type or range. */
bool read_call(PyObject *const *arguments, tutti_call *call) {
  long numbers[ARGUMENTS];
  for (int i = 0; i < ARGUMENTS; i++) {
    if (i == SEND || i == RECV || i == ALGORITHM) continue;
    numbers[i] = PyLong_AsLong(arguments[i]);
    if (numbers[i] == -1 && PyErr_Occurred()) return false;
    const bool is_free = i == DTYPE || i == TIMEOUT_MS;
    if ((numbers[i] < 0 && !is_free) || numbers[i] > static_cast<long>(UINT32_MAX)) {
      refuse("op, root, peer, tag and lanes: expected numbers from 0 to 2^32 - 1, got %ld", numbers[i]);
      return false;
    }
  }
  call->collective = static_cast<tutti_collective>(numbers[COLLECTIVE]);
  if (numbers[DTYPE] >= 0) call->type = static_cast<tutti_datatype>(numbers[DTYPE]);
  call->op = static_cast<tutti_op>(numbers[OP]);
  call->root = static_cast<uint32_t>(numbers[ROOT]);
  call->peer = static_cast<uint32_t>(numbers[PEER]);
  call->tag = static_cast<uint32_t>(numbers[TAG]);
  call->lanes = static_cast<uint32_t>(numbers[LANES]);
  call->timeout_ms = static_cast<int>(numbers[TIMEOUT_MS]);
  if (arguments[ALGORITHM] != Py_None) call->algorithm = PyUnicode_AsUTF8(arguments[ALGORITHM]);
  return !PyErr_Occurred();
}

/* Reads the name of an order. Returns false with an exception if there is no such order. */
bool read_order(const char *function, const char *name, tutti_order *order) {
  *order = TUTTI_ORDER_ANY;
  if (name && std::strcmp(name, "canonical") == 0) *order = TUTTI_ORDER_CANONICAL;
  else if (name && std::strcmp(name, "any") != 0) refuse("%s: expected any or canonical, got '%s'", function, name);
  return !PyErr_Occurred();
}

/* Reads the arguments that only reductions have. */
bool read_reduction(PyObject *const *arguments, tutti_call *call) {
  const long leaves = PyLong_AsLong(arguments[LEAVES]);
  if (leaves == -1 && PyErr_Occurred()) return false;
  if (leaves < 0 || leaves > static_cast<long>(UINT32_MAX))
    return refuse("leaves: expected 0 or more, got %ld", leaves) != nullptr;
  call->leaves = static_cast<uint32_t>(leaves);
  return arguments[ORDER] == Py_None || read_order("order", PyUnicode_AsUTF8(arguments[ORDER]), &call->order);
}

/* Describes a call whose arguments are those of Comm._run. The buffers stay exported while *in lives, and *call points
 * into *in. Returns false with an exception if an argument is wrong. */
bool read_arguments(comm_object *self, PyObject *const *arguments, Py_ssize_t count, tutti_call *call, inputs *in) {
  if (count < ARGUMENTS || !living(self) || !read_call(arguments, call)) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "expected %d arguments", int{ARGUMENTS});
    return false;
  }
  const bool blocks = has_blocks(call->collective);
  const Py_ssize_t plain = ARGUMENTS + (blocks ? ARRAYS : 0);
  if (count != plain && count != plain + OF_REDUCTIONS) {
    PyErr_Format(PyExc_TypeError, "expected other than %zd arguments", count);
    return false;
  }
  if (count > plain && !read_reduction(arguments + plain, call)) return false;
  const bool shared = arguments[SEND] == arguments[RECV]; /* in place: one view serves both */
  if (!in->recv.open(arguments[RECV], "recv", true)) return false;
  if (!shared && !in->send.open(arguments[SEND], "send", false)) return false;
  if (!describe_type(call, in->send, in->recv, PyLong_AsLong(arguments[DTYPE]) >= 0)) return false;
  call->send = shared ? in->recv.address() : in->send.address();
  call->recv = in->recv.address();
  return blocks ? describe_blocks(call, self->comm, arguments + ARGUMENTS, in)
                : describe_count(call, self->comm, in->send, in->recv, shared);
}

PyObject *comm_run(comm_object *self, PyObject *const *arguments, Py_ssize_t count) {
  tutti_call call{};
  inputs in;
  if (!read_arguments(self, arguments, count, &call, &in)) return nullptr;
  bool interrupted = false;
  self->active++;
  const tutti_err err = run_and_wait(self->comm, &call, &interrupted);
  self->active--;
  if (interrupted) return nullptr;
  if (err != TUTTI_OK) return raise(err, self->comm);
  Py_RETURN_NONE;
}

/* ---- requests ----------------------------------------------------------------------------------------------------- */

/* While a request is open it holds a reference to itself, so its buffers stay exported even if the program drops it.
 * comm->requests lists the requests with a handle. They hold a reference to comm; comm holds none to them. */
struct request_object {
  PyObject_HEAD comm_object *comm;
  tutti_request *handle; /* NULL: complete, or the communicator has ended */
  inputs *memory;        /* the arguments */
  request_object *next, **link;
  bool open, persistent, busy; /* busy: a thread is inside a test or wait of this request */
};

PyTypeObject *request_type;

void forget_handle(request_object *self) {
  self->handle = nullptr;
  *self->link = self->next;
  if (self->next) self->next->link = self->link;
}

/* Notes that the library no longer uses the buffers. May free self. */
void note_end(request_object *self) {
  if (!self->handle || !self->persistent) {
    delete self->memory;
    self->memory = nullptr;
  }
  if (!self->open) return;
  self->open = false;
  Py_DECREF(self);
}

/* Waits for an open request for at most limit_ms; 0: tests it. Returns true if it is complete without an error. Returns
 * false if it is open, or with an exception. */
bool look_at(request_object *self, int limit_ms) {
  if (!self->open) return true;
  if (self->busy) {
    refuse("another thread is inside test() or wait() of this request; one thread at a time");
    return false;
  }
  Py_INCREF(self);
  self->busy = true;
  self->comm->active++;
  tutti_request *handle = self->handle;
  waiting wait;
  wait.limit_ms = limit_ms;
  PyThreadState *state = PyEval_SaveThread();
  const tutti_err err = wait_unlocked(&handle, &state, &wait);
  PyEval_RestoreThread(state);
  const bool done = wait.done || err != TUTTI_OK;
  self->comm->active--;
  self->busy = false;
  if (!handle) forget_handle(self);
  if (done) note_end(self);
  if (err != TUTTI_OK) raise(err, self->comm->comm);
  Py_DECREF(self);
  return done && err == TUTTI_OK;
}

/* Tests the open requests that the program has dropped, so that their memory comes back. Their errors are verdicts of
 * the communicator, which the next call returns. */
void reap(comm_object *comm) {
  for (request_object *request = comm->requests, *next; request; request = next) {
    next = request->next;
    if (!request->open || request->busy || Py_REFCNT(request) > 1) continue;
    if (!look_at(request, 0)) PyErr_Clear();
    return; /* the list may have changed meanwhile; the next start goes on */
  }
}

/* Makes a request of a call by `make`, which is a function of the library. */
template <typename F>
PyObject *make_request(comm_object *comm, PyObject *const *arguments, Py_ssize_t count, bool persistent, F &&make) {
  reap(comm);
  request_object *self = reinterpret_cast<request_object *>(request_type->tp_alloc(request_type, 0));
  if (!self) return nullptr;
  self->comm = reinterpret_cast<comm_object *>(Py_NewRef(comm));
  self->persistent = persistent;
  self->memory = new inputs;
  tutti_call call{};
  tutti_err err = TUTTI_OK;
  bool valid = read_arguments(comm, arguments, count, &call, self->memory);
  comm->active++;
  if (valid) err = unlocked([&] { return make(comm->comm, &call, &self->handle); });
  comm->active--;
  if (!valid || err != TUTTI_OK) {
    if (valid) raise(err, comm->comm);
    Py_DECREF(self);
    return nullptr;
  }
  self->next = comm->requests;
  self->link = &comm->requests;
  if (self->next) self->next->link = &self->next;
  comm->requests = self;
  if (!persistent) {
    self->open = true;
    Py_INCREF(self);
  }
  return reinterpret_cast<PyObject *>(self);
}

PyObject *comm_start(comm_object *self, PyObject *const *arguments, Py_ssize_t count) {
  return make_request(
      self, arguments, count, false,
      [](tutti_comm *comm, const tutti_call *call, tutti_request **made) { return tutti_start(comm, call, made); });
}

PyObject *comm_prepare(comm_object *self, PyObject *const *arguments, Py_ssize_t count) {
  return make_request(self, arguments, count, true, [](tutti_comm *comm, const tutti_call *call, tutti_request **made) {
    return tutti_prepare(comm, call, made);
  });
}

PyObject *request_start(request_object *self, PyObject *) {
  if (!self->persistent) return refuse("start: expected a request of prepare(); this one has been started already");
  if (!self->handle) return refuse("start: the communicator of this request has ended");
  if (self->open) return refuse("start: the request is open; wait for it first");
  self->open = true;
  Py_INCREF(self);
  self->busy = true;
  self->comm->active++;
  const tutti_err err = unlocked([&] { return tutti_restart(self->handle); });
  self->comm->active--;
  self->busy = false;
  if (err == TUTTI_OK) Py_RETURN_NONE;
  raise(err, self->comm->comm);
  note_end(self);
  return nullptr;
}

/* Sets *limit_ms to a number of seconds; None: no limit. Returns false with an exception if it is none. */
bool read_limit(PyObject *timeout, int *limit_ms) {
  constexpr double SECONDS_MAX = 2000000;
  *limit_ms = TUTTI_NO_TIMEOUT;
  if (timeout == Py_None) return true;
  const double seconds = PyFloat_AsDouble(timeout);
  if (seconds == -1 && PyErr_Occurred()) return false;
  if (std::isinf(seconds) && seconds > 0) return true;
  if (!(seconds >= 0 && seconds <= SECONDS_MAX)) {
    refuse("timeout: expected seconds from 0 to 2,000,000, math.inf or None, got %S", timeout);
    return false;
  }
  *limit_ms = static_cast<int>(std::ceil(seconds * 1000));
  return true;
}

PyObject *request_wait(request_object *self, PyObject *arguments, PyObject *keywords) {
  static const char *names[] = {"timeout", nullptr};
  PyObject *timeout = Py_None;
  int limit_ms;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:wait", const_cast<char **>(names), &timeout) ||
      !read_limit(timeout, &limit_ms))
    return nullptr;
  if (look_at(self, limit_ms)) Py_RETURN_NONE;
  if (!PyErr_Occurred())
    PyErr_Format(error_classes[TUTTI_ERR_TIMEOUT], "wait: the call is not complete after %d ms; the request stays open",
                 limit_ms);
  return nullptr;
}

PyObject *request_test(request_object *self, PyObject *) {
  const bool done = look_at(self, 0);
  return PyErr_Occurred() ? nullptr : PyBool_FromLong(done);
}

/* A thread that waits for a request may free the handle, so it is not asked then. */
PyObject *request_done(request_object *self, void *) {
  return PyBool_FromLong(!self->open || (!self->busy && tutti_request_done(self->handle)));
}

/* ---- lists of requests ---- */

/* The open requests of a list, which this thread uses while the object lives. NULL: no request, or one that is not
 * open. */
class request_list {
 public:
  request_list() = default;
  request_list(const request_list &) = delete;
  request_list &operator=(const request_list &) = delete;
  ~request_list() {
    for (size_t i = 0; i < requests_.size(); i++) leave(i);
  }

  /* Returns false with an exception if an item is no request, or is in use. */
  bool open(PyObject *items);
  /* Tests the requests. Returns the positions of those that have become complete, or NULL with an exception. */
  PyObject *test();

 private:
  /* Ends the use of a request, which may free it. */
  void leave(size_t i) {
    request_object *request = std::exchange(requests_[i], nullptr);
    if (!request) return;
    request->busy = false;
    request->comm->active--;
    Py_DECREF(request);
  }
  std::vector<request_object *> requests_;
  std::vector<tutti_request *> handles_;
};

bool request_list::open(PyObject *items) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); i++) {
    PyObject *item = PySequence_Fast_GET_ITEM(items, i);
    request_object *request = item == Py_None ? nullptr : reinterpret_cast<request_object *>(item);
    if (request && !PyObject_TypeCheck(item, request_type))
      return refuse("test_some: expected requests or None, got %s", Py_TYPE(item)->tp_name) != nullptr;
    if (request && !request->open) request = nullptr;
    if (request && request->busy)
      return refuse("test_some: request %zd is in the list twice, or another thread is inside test() or wait() of it",
                    i) != nullptr;
    requests_.push_back(request);
    handles_.push_back(request ? request->handle : nullptr);
    if (!request) continue;
    Py_INCREF(request);
    request->busy = true;
    request->comm->active++;
  }
  return true;
}

PyObject *request_list::test() {
  std::vector<size_t> indices(handles_.size());
  size_t done = 0;
  const tutti_err err =
      unlocked([&] { return tutti_test_some(handles_.data(), handles_.size(), indices.data(), &done); });
  if (err != TUTTI_OK) raise(err, done > 0 ? requests_[indices[done - 1]]->comm->comm : nullptr);
  PyObject *positions = err == TUTTI_OK ? PyList_New(static_cast<Py_ssize_t>(done)) : nullptr;
  for (size_t k = 0; k < done; k++) {
    request_object *request = requests_[indices[k]];
    if (!handles_[indices[k]]) forget_handle(request);
    note_end(request);
    leave(indices[k]);
    if (positions) PyList_SET_ITEM(positions, static_cast<Py_ssize_t>(k), PyLong_FromSize_t(indices[k]));
  }
  return positions;
}

PyObject *test_some(PyObject *, PyObject *requests) {
  PyObject *items = PySequence_Fast(requests, "test_some: expected a sequence of requests");
  if (!items) return nullptr;
  request_list list;
  const bool opened = list.open(items);
  Py_DECREF(items);
  return opened ? list.test() : nullptr;
}

PyObject *request_comm(request_object *self, void *) { return Py_NewRef(reinterpret_cast<PyObject *>(self->comm)); }

/* The request is not open, since an open one holds a reference to itself. */
void request_dealloc(request_object *self) {
  PyTypeObject *type = Py_TYPE(self);
  if (self->handle) {
    tutti_request_free(self->handle);
    forget_handle(self);
  }
  delete self->memory;
  Py_XDECREF(self->comm);
  type->tp_free(self);
  Py_DECREF(type);
}

unsigned count_open(const comm_object *comm) {
  unsigned open = 0;
  for (const request_object *request = comm->requests; request; request = request->next) open += request->open;
  return open;
}

/* Before a communicator ends: frees its persistent requests that are not open. */
void free_idle(comm_object *comm) {
  for (request_object *request = comm->requests, *next; request; request = next) {
    next = request->next;
    if (request->open) continue;
    tutti_request_free(request->handle);
    forget_handle(request);
    note_end(request);
  }
}

/* ---- memory of tutti_alloc ---------------------------------------------------------------------------------------- */

struct memory_object {
  PyObject_HEAD keeper *owner;
  void *address; /* NULL: not allocated */
  Py_ssize_t bytes;
};

PyTypeObject *memory_type;

/* Never waits: destructors call it. In a child of fork() the library refuses the call, which then has no effect. */
void drop(keeper *memory) {
  if (!memory || --memory->users > 0) return;
  (void)tutti_comm_close(memory->comm);
  delete memory;
}

/* Makes comm->memory if there is none. Returns false with an exception if the library refuses. */
bool make_keeper(comm_object *comm) {
  static uint64_t tags = 0x7475747469000000; /* the communicators have tags of their own, since threads may meet here */
  if (comm->memory) return true;
  tutti_comm *alone = nullptr;
  const uint32_t rank = tutti_rank(comm->comm);
  const uint64_t tag = tags++;
  comm->active++;
  const tutti_err err = unlocked([&] { return tutti_comm_create(comm->comm, &rank, 1, tag, &alone); });
  comm->active--;
  if (err != TUTTI_OK) return raise(err, nullptr) != nullptr;
  if (comm->memory) (void)tutti_comm_close(alone); /* another thread has made one meanwhile */
  else comm->memory = new keeper{alone, 1};
  return true;
}

PyObject *comm_alloc_bytes(comm_object *self, PyObject *number) {
  const Py_ssize_t bytes = PyNumber_AsSsize_t(number, nullptr); /* clips */
  if (bytes == -1 && PyErr_Occurred()) return nullptr;
  if (bytes < 0) return refuse("alloc_bytes: expected 0 or more bytes, got %zd", bytes);
  if (!living(self) || !make_keeper(self)) return nullptr;
  memory_object *memory = reinterpret_cast<memory_object *>(memory_type->tp_alloc(memory_type, 0));
  if (!memory) return nullptr;
  memory->owner = self->memory;
  memory->owner->users++;
  memory->bytes = bytes;
  const tutti_err err =
      unlocked([&] { return tutti_alloc(memory->owner->comm, static_cast<size_t>(bytes), &memory->address); });
  if (err == TUTTI_OK) return reinterpret_cast<PyObject *>(memory);
  raise(err, nullptr);
  Py_DECREF(memory);
  return nullptr;
}

/* All views and arrays of the memory hold a reference to the object, so none is left. */
void memory_dealloc(memory_object *self) {
  PyTypeObject *type = Py_TYPE(self);
  if (self->address) (void)tutti_free(self->owner->comm, self->address);
  drop(self->owner);
  type->tp_free(self);
  Py_DECREF(type);
}

int memory_export(memory_object *self, Py_buffer *view, int flags) {
  return PyBuffer_FillInfo(view, reinterpret_cast<PyObject *>(self), self->address, self->bytes, 0, flags);
}

/* What __dlpack__ returns: a tensor of bytes, with the arrays that it points to. M is dlpack::managed or
 * dlpack::managed_versioned. */
template <typename M>
struct exported_bytes {
  M tensor;
  int64_t length, stride;
};

/* The deleter of exported memory. Any thread may call it. If Python has ended, the memory is not freed. */
template <typename M>
void end_export(M *tensor) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(static_cast<PyObject *>(tensor->manager_ctx));
  PyGILState_Release(state);
  delete reinterpret_cast<exported_bytes<M> *>(tensor);
}

template <typename M>
constexpr const char *capsule_name = "dltensor";
template <>
constexpr const char *capsule_name<dlpack::managed_versioned> = "dltensor_versioned";

/* Ends a capsule that no consumer has taken. */
template <typename M>
void end_capsule(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, capsule_name<M>))
    end_export(static_cast<M *>(PyCapsule_GetPointer(capsule, capsule_name<M>)));
}

template <typename M>
PyObject *make_capsule(memory_object *self) {
  auto *made = new exported_bytes<M>{{}, self->bytes, 1};
  made->tensor.dl_tensor.data = self->address;
  made->tensor.dl_tensor.device_type = dlpack::CPU;
  made->tensor.dl_tensor.ndim = 1;
  made->tensor.dl_tensor.dtype = {dlpack::UINT, 8, 1};
  made->tensor.dl_tensor.shape = &made->length;
  made->tensor.dl_tensor.strides = &made->stride;
  made->tensor.manager_ctx = Py_NewRef(reinterpret_cast<PyObject *>(self));
  made->tensor.deleter = end_export<M>;
  if constexpr (std::is_same_v<M, dlpack::managed_versioned>) made->tensor.major = dlpack::MAJOR;
  PyObject *capsule = PyCapsule_New(&made->tensor, capsule_name<M>, end_capsule<M>);
  if (!capsule) end_export(&made->tensor);
  return capsule;
}

/* The keywords are those of the array API standard. */
PyObject *memory_dlpack(memory_object *self, PyObject *arguments, PyObject *keywords) {
  static const char *names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__", const_cast<char **>(names), &stream,
                                   &version, &device, &copy))
    return nullptr;
  long device_type = dlpack::CPU, device_id = 0;
  unsigned long major = 0, minor = 0;
  for (PyObject *pair : {version, device})
    if (pair != Py_None && !PyTuple_Check(pair))
      return PyErr_Format(PyExc_TypeError, "max_version and dl_device: expected tuples of two numbers, got %R", pair);
  if (device != Py_None && !PyArg_ParseTuple(device, "ll:dl_device", &device_type, &device_id)) return nullptr;
  if (version != Py_None && !PyArg_ParseTuple(version, "kk:max_version", &major, &minor)) return nullptr;
  if (device_type != dlpack::CPU || copy == Py_True || stream != Py_None) {
    PyErr_SetString(PyExc_BufferError, "memory of tutti is exported to the CPU, without a stream, and never copied");
    return nullptr;
  }
  return major >= dlpack::MAJOR ? make_capsule<dlpack::managed_versioned>(self) : make_capsule<dlpack::managed>(self);
}

PyObject *memory_device(memory_object *, PyObject *) { return Py_BuildValue("(ii)", dlpack::CPU, 0); }

Py_ssize_t memory_length(memory_object *self) { return self->bytes; }

PyObject *memory_print(memory_object *self) { return PyUnicode_FromFormat("<tutti.Memory of %zd bytes>", self->bytes); }

/* ---- communicators ------------------------------------------------------------------------------------------------ */

/* Wraps a communicator in an object of `type`, or None if there is none. Closes it if there is no memory. */
PyObject *wrap(PyTypeObject *type, tutti_comm *comm) {
  if (!comm) Py_RETURN_NONE;
  PyObject *object = type->tp_alloc(type, 0);
  if (object) reinterpret_cast<comm_object *>(object)->comm = comm;
  else (void)tutti_comm_close(comm);
  return object;
}

/* Makes a communicator of self by `make`, which is a function of the library. */
template <typename F>
PyObject *derive(comm_object *self, F &&make) {
  tutti_comm *parent = living(self), *made = nullptr;
  if (!parent) return nullptr;
  self->active++;
  const tutti_err err = unlocked([&] { return make(parent, &made); });
  self->active--;
  return err == TUTTI_OK ? wrap(Py_TYPE(self), made) : raise(err, nullptr);
}

PyObject *comm_init(PyObject *type, PyObject *arguments, PyObject *keywords) {
  static const char *names[] = {"timeout_ms", "join_timeout_ms", "rank",  "ranks", "address", "port", "secret",
                                "spin_us",    "progress_thread", "order", nullptr};
  tutti_options options{};
  int progress_thread = 0;
  const char *order = "any";
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|iiIIzHzips:init", const_cast<char **>(names),
                                   &options.timeout_ms, &options.join_timeout_ms, &options.rank, &options.ranks,
                                   &options.address, &options.port, &options.secret, &options.spin_us, &progress_thread,
                                   &order))
    return nullptr;
  options.progress_thread = progress_thread ? 1 : 0;
  if (!read_order("init: order", order, &options.order)) return nullptr;
  tutti_comm *world = nullptr;
  const tutti_err err = unlocked([&] { return tutti_init(&options, &world); });
  return err == TUTTI_OK ? wrap(reinterpret_cast<PyTypeObject *>(type), world) : raise(err, nullptr);
}

PyObject *comm_split(comm_object *self, PyObject *arguments) {
  int color, key;
  if (!PyArg_ParseTuple(arguments, "ii:split", &color, &key)) return nullptr;
  return derive(self,
                [&](tutti_comm *parent, tutti_comm **made) { return tutti_comm_split(parent, color, key, made); });
}

PyObject *comm_create(comm_object *self, PyObject *arguments) {
  PyObject *list;
  unsigned long long tag;
  if (!PyArg_ParseTuple(arguments, "OK:create", &list, &tag)) return nullptr;
  PyObject *items = PySequence_Fast(list, "create: expected a sequence of ranks");
  if (!items) return nullptr;
  std::vector<uint32_t> ranks;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items) && !PyErr_Occurred(); i++) {
    const long rank = PyLong_AsLong(PySequence_Fast_GET_ITEM(items, i));
    if ((rank < 0 || rank > static_cast<long>(UINT32_MAX)) && !PyErr_Occurred())
      refuse("create: expected ranks of this communicator, got %ld", rank);
    ranks.push_back(static_cast<uint32_t>(rank));
  }
  Py_DECREF(items);
  if (PyErr_Occurred()) return nullptr;
  return derive(self, [&](tutti_comm *parent, tutti_comm **made) {
    return tutti_comm_create(parent, ranks.data(), ranks.size(), tag, made);
  });
}

PyObject *comm_dup(comm_object *self, PyObject *) { return derive(self, tutti_comm_dup); }

PyObject *comm_alone(comm_object *self, PyObject *) { return derive(self, tutti_comm_self); }

/* Ends the communicator by `end`, which is tutti_comm_free or tutti_comm_close. A second call does nothing. */
PyObject *finish(comm_object *self, tutti_err (*end)(tutti_comm *)) {
  if (!self->comm) Py_RETURN_NONE;
  if (self->active > 0)
    return refuse("%u threads are inside calls on this communicator; wait for them before it ends", self->active);
  const unsigned open = count_open(self);
  if (open > 0 && end == tutti_comm_free)
    return refuse("%u requests of this communicator are open; wait for them before free()", open);
  free_idle(self);
  tutti_comm *comm = self->comm;
  self->comm = nullptr;
  drop(self->memory);
  self->memory = nullptr;
  const tutti_err err = unlocked([&] { return end(comm); });
  if (err != TUTTI_OK) raise(err, nullptr);
  while (self->requests) { /* close() has ended them */
    request_object *request = self->requests;
    forget_handle(request);
    note_end(request);
  }
  return err == TUTTI_OK ? Py_NewRef(Py_None) : nullptr;
}

PyObject *comm_free(comm_object *self, PyObject *) { return finish(self, tutti_comm_free); }

PyObject *comm_close(comm_object *self, PyObject *) { return finish(self, tutti_comm_close); }

PyObject *comm_abort(comm_object *self, PyObject *arguments) {
  const char *reason;
  if (!PyArg_ParseTuple(arguments, "z:abort", &reason) || !living(self)) return nullptr;
  tutti_abort(self->comm, reason);
  Py_RETURN_NONE;
}

PyObject *comm_set_timeout(comm_object *self, PyObject *arguments) {
  int timeout_ms;
  if (!PyArg_ParseTuple(arguments, "i:set_timeout_ms", &timeout_ms) || !living(self)) return nullptr;
  const tutti_err err = tutti_comm_set_timeout(self->comm, timeout_ms);
  if (err != TUTTI_OK) return raise(err, nullptr);
  Py_RETURN_NONE;
}

/* Returns the fields of tutti_rank_stats, in their order. */
PyObject *comm_stats(comm_object *self, PyObject *number) {
  const Py_ssize_t rank = PyNumber_AsSsize_t(number, nullptr); /* clips */
  if (rank == -1 && PyErr_Occurred()) return nullptr;
  tutti_comm *comm = living(self);
  if (!comm) return nullptr;
  if (rank < 0 || rank > static_cast<Py_ssize_t>(UINT32_MAX))
    return refuse("stats: expected a rank from 0 to %u, got %zd", tutti_ranks(comm) - 1, rank);
  tutti_rank_stats known{};
  self->active++;
  const tutti_err err = unlocked([&] { return tutti_stats(comm, static_cast<uint32_t>(rank), &known); });
  self->active--;
  if (err != TUTTI_OK) return raise(err, nullptr);
  const unsigned long long fields[] = {known.calls,     known.messages,   known.message_bytes,
                                       known.waited_ns, known.awaited_ns, known.awaited_here_ns};
  return Py_BuildValue("(KKKKKK)", fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]);
}

PyObject *comm_rank(comm_object *self, void *) {
  return living(self) ? PyLong_FromUnsignedLong(tutti_rank(self->comm)) : nullptr;
}

PyObject *comm_size(comm_object *self, void *) {
  return living(self) ? PyLong_FromUnsignedLong(tutti_ranks(self->comm)) : nullptr;
}

/* A destructor never waits for other ranks. */
void comm_dealloc(comm_object *self) {
  PyTypeObject *type = Py_TYPE(self);
  drop(self->memory);
  if (self->comm) (void)tutti_comm_close(self->comm);
  type->tp_free(self);
  Py_DECREF(type);
}

template <typename F>
PyCFunction method(F *function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyObject *comm_progress(comm_object *self, PyObject *) {
  tutti_comm *comm = living(self);
  if (!comm) return nullptr;
  self->active++;
  const tutti_err err = unlocked([&] { return tutti_progress(comm, SIGNALS_MS); });
  self->active--;
  return err == TUTTI_OK ? Py_NewRef(Py_None) : raise(err, comm);
}

PyMethodDef request_methods[] = {
    {"start", method(request_start), METH_NOARGS, "start($self, /)\n--\n\nStarts a request of prepare() once more."},
    {"wait", method(request_wait), METH_VARARGS | METH_KEYWORDS,
     "wait($self, /, timeout=None)\n--\n\n"
     "Waits until the request is complete. After `timeout` seconds the wait gives up: TimeoutError. None: no limit."},
    {"test", method(request_test), METH_NOARGS,
     "test($self, /)\n--\n\nAdvances the request. Returns True if it is complete."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef request_properties[] = {
    {"done", reinterpret_cast<getter>(request_done), nullptr,
     "True if the call is complete or has failed, so that wait() returns at once. Advances nothing.", nullptr},
    {"communicator", reinterpret_cast<getter>(request_comm), nullptr, "The communicator of the request.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot request_slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(request_dealloc)},
                               {Py_tp_methods, request_methods},
                               {Py_tp_getset, request_properties},
                               {0, nullptr}};

PyType_Spec request_spec = {"tutti.Request", sizeof(request_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, request_slots};

PyMethodDef memory_methods[] = {
    {"__dlpack__", method(memory_dlpack), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "Exports the memory as a tensor of bytes, for from_dlpack() of numpy, torch and others."},
    {"__dlpack_device__", method(memory_device), METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nReturns (1, 0), the CPU."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(memory_dealloc)},  {Py_tp_methods, memory_methods},
    {Py_tp_repr, reinterpret_cast<void *>(memory_print)},       {Py_sq_length, reinterpret_cast<void *>(memory_length)},
    {Py_bf_getbuffer, reinterpret_cast<void *>(memory_export)}, {0, nullptr}};

PyType_Spec memory_spec = {"tutti.Memory", sizeof(memory_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots};

PyMethodDef comm_methods[] = {
    {"_init", method(comm_init), METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {"_run", method(comm_run), METH_FASTCALL, nullptr},
    {"_start", method(comm_start), METH_FASTCALL, nullptr},
    {"_prepare", method(comm_prepare), METH_FASTCALL, nullptr},
    {"_progress", method(comm_progress), METH_NOARGS, nullptr},
    {"_split", method(comm_split), METH_VARARGS, nullptr},
    {"_create", method(comm_create), METH_VARARGS, nullptr},
    {"_abort", method(comm_abort), METH_VARARGS, nullptr},
    {"_set_timeout_ms", method(comm_set_timeout), METH_VARARGS, nullptr},
    {"_stats", method(comm_stats), METH_O, nullptr},
    {"alloc_bytes", method(comm_alloc_bytes), METH_O,
     "alloc_bytes($self, bytes, /)\n--\n\n"
     "Returns a Memory of this many bytes, which all ranks of the host map. Not collective.\n\n"
     "It has the buffer protocol (writable bytes) and DLPack. Its content is undefined. Calls need fewer copies\n"
     "if their buffers lie in it. It is freed with the last array or view of it, which may outlive the\n"
     "communicator.\n\n"
     "OutOfMemoryError: TUTTI_SHM_BYTES, the memory that a rank may share, is used up."},
    {"dup", method(comm_dup), METH_NOARGS, "dup($self, /)\n--\n\nMakes a communicator of the same ranks. Collective."},
    {"alone", method(comm_alone), METH_NOARGS,
     "alone($self, /)\n--\n\nMakes a communicator that contains only this rank. Local."},
    {"free", method(comm_free), METH_NOARGS,
     "free($self, /)\n--\n\nFrees the communicator. Collective: waits for the other ranks."},
    {"close", method(comm_close), METH_NOARGS,
     "close($self, /)\n--\n\nEnds the communicator on this rank alone. Never waits."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef comm_properties[] = {
    {"rank", reinterpret_cast<getter>(comm_rank), nullptr, "The rank of this process.", nullptr},
    {"size", reinterpret_cast<getter>(comm_size), nullptr, "The number of ranks.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot comm_slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(comm_dealloc)},
                            {Py_tp_methods, comm_methods},
                            {Py_tp_getset, comm_properties},
                            {0, nullptr}};

PyType_Spec comm_spec = {"tutti._core.Comm", sizeof(comm_object), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, comm_slots};

/* ---- the module --------------------------------------------------------------------------------------------------- */

/* Takes the exception classes, by tutti_err, and the object that stands for TUTTI_IN_PLACE. */
PyObject *set_up(PyObject *, PyObject *arguments) {
  PyObject *classes, *mark;
  if (!PyArg_ParseTuple(arguments, "O!O:set_up", &PyTuple_Type, &classes, &mark)) return nullptr;
  if (PyTuple_GET_SIZE(classes) != static_cast<Py_ssize_t>(std::size(error_classes)))
    return PyErr_Format(PyExc_SystemError, "set_up: expected %zu classes", std::size(error_classes));
  for (size_t i = 0; i < std::size(error_classes); i++)
    Py_XSETREF(error_classes[i], Py_NewRef(PyTuple_GET_ITEM(classes, static_cast<Py_ssize_t>(i))));
  Py_XSETREF(in_place, Py_NewRef(mark));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"set_up", set_up, METH_VARARGS, nullptr},
                           {"test_some", test_some, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tutti._core", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

/* Makes a type and adds it to the module. Returns a borrowed reference, which the module keeps. */
PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name) {
  PyObject *type = PyType_FromSpec(spec);
  if (!type || PyModule_AddObjectRef(module, name, type) < 0) {
    Py_XDECREF(type);
    return nullptr;
  }
  Py_DECREF(type);
  return reinterpret_cast<PyTypeObject *>(type);
}

}  // namespace

PyMODINIT_FUNC PyInit__core() {
  PyObject *module = PyModule_Create(&definition);
  if (!module) return nullptr;
  request_type = add_type(module, &request_spec, "Request");
  memory_type = add_type(module, &memory_spec, "Memory");
  if (request_type && memory_type && add_type(module, &comm_spec, "Comm")) return module;
  Py_DECREF(module);
  return nullptr;
}
