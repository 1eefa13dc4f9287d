/* gloo_side.cpp: calls Gloo; see gloo_side.h. Gloo's interface takes the buffers anew at each call. */
#include "gloo_side.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/barrier_all_to_one.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstring>

using context_ptr = std::shared_ptr<gloo::rendezvous::Context>;

struct gloo_side {
  context_ptr context;
  /* context of algorithm objects: equal to `context`; with GLOO_SYNC, another one whose connections poll */
  context_ptr bound_context;
  gloo_setting setting;
  gloo_call call;
  /* temporary data: of ranks other than the root in reduce, of all ranks in reduce_scatter */
  std::vector<float> scratch;
  /* Gloo algorithm object with fixed buffers; Gloo offers reduce_scatter only in this form */
  std::unique_ptr<gloo::Algorithm> bound;
  std::unique_ptr<gloo::Algorithm> bound_barrier;
};

/* Runs `work` and catches Gloo's exceptions, because the callers are C code. */
template <typename Work>
static bool guarded(const char *what, Work work) {
  try {
    work();
    return true;
  } catch (const std::exception &error) {
    fprintf(stderr, "gloo_bench: %s: %s\n", what, error.what());
    return false;
  }
}

static std::shared_ptr<gloo::transport::Device> open_device(const char *interface) {
  gloo::transport::tcp::attr attributes;
  if (interface) attributes.iface = interface;
  else attributes.hostname = "127.0.0.1";
  return gloo::transport::tcp::CreateDevice(attributes);
}

static context_ptr connect(const char *folder, const char *prefix, std::shared_ptr<gloo::transport::Device> device,
                           unsigned rank, unsigned ranks) {
  gloo::rendezvous::FileStore files(folder);
  gloo::rendezvous::PrefixStore store(prefix, files);
  auto context = std::make_shared<gloo::rendezvous::Context>((int)rank, (int)ranks);
  context->connectFullMesh(store, device);
  return context;
}

struct gloo_side *gloo_side_open(const char *folder, const char *interface, unsigned rank, unsigned ranks,
                                 enum gloo_setting setting) {
  auto side = std::make_unique<gloo_side>();
  side->setting = setting;
  bool good = guarded("connect", [&] {
    side->context = connect(folder, "calls", open_device(interface), rank, ranks);
    side->bound_context = side->context;
    if (setting != GLOO_SYNC) return;
    side->bound_context = connect(folder, "objects", open_device(interface), rank, ranks);
    for (unsigned r = 0; r < ranks; r++)
      if (r != rank) side->bound_context->getPair((int)r)->setSync(true, true);
    side->bound_barrier = std::make_unique<gloo::BarrierAllToOne>(side->bound_context);
  });
  return good ? side.release() : nullptr;
}

void gloo_side_close(struct gloo_side *side) { delete side; }

/* Returns a Gloo algorithm object that runs the call in place, or nullptr if the call needs no such object. */
static std::unique_ptr<gloo::Algorithm> bind_call(struct gloo_side *side, float *scratch) {
  const gloo_call &c = side->call;
  int ranks = side->context->size, count = (int)c.count;
  const std::vector<float *> out{static_cast<float *>(c.out)};
  if (c.collective == TUTTI_REDUCE_SCATTER)
    return std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
        side->bound_context, std::vector<float *>{scratch}, ranks * count, std::vector<int>(ranks, count));
  if (side->setting != GLOO_SYNC) return nullptr;
  if (c.collective == TUTTI_ALLREDUCE)
    return std::make_unique<gloo::AllreduceHalvingDoubling<float>>(side->bound_context, out, count);
  if (c.collective == TUTTI_BROADCAST)
    return std::make_unique<gloo::BroadcastOneToAll<float>>(side->bound_context, out, count, (int)c.root);
  return nullptr;
}

bool gloo_side_prepare(struct gloo_side *side, const struct gloo_call *call) {
  return guarded("prepare", [&] {
    side->bound.reset();
    side->call = *call;
    size_t ranks = (size_t)side->context->size;
    bool is_reduce_scatter = call->collective == TUTTI_REDUCE_SCATTER;
    side->scratch.assign(is_reduce_scatter                  ? ranks * call->count
                         : call->collective == TUTTI_REDUCE ? call->count
                                                            : 0,
                         0);
    side->bound = bind_call(side, side->scratch.data());
  });
}

/* Runs the algorithm object. It works in place; for a call that is not in place, the copies count as part of the
 * call. */
static void run_bound(struct gloo_side *side) {
  const gloo_call &c = side->call;
  bool is_reduce_scatter = c.collective == TUTTI_REDUCE_SCATTER;
  if (is_reduce_scatter) memcpy(side->scratch.data(), c.in, side->scratch.size() * sizeof(float));
  if (c.collective == TUTTI_ALLREDUCE) memcpy(c.out, c.in, c.count * sizeof(float));
  side->bound->run();
  if (is_reduce_scatter) memcpy(c.out, side->scratch.data(), c.count * sizeof(float));
}

static void run_reducing(struct gloo_side *side, float *in, float *out) {
  const gloo_call &c = side->call;
  if (c.collective == TUTTI_ALLREDUCE) {
    gloo::AllreduceOptions options(side->context);
    options.setInput(in, c.count);
    options.setOutput(out, c.count);
    options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    if (side->setting == GLOO_BCUBE) options.setAlgorithm(gloo::AllreduceOptions::Algorithm::BCUBE);
    gloo::allreduce(options);
  } else {
    gloo::ReduceOptions options(side->context);
    options.setInput(in, c.count);
    /* Gloo requires an output buffer at every rank and writes to it. */
    options.setOutput((unsigned)side->context->rank == c.root ? out : side->scratch.data(), c.count);
    options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    options.setRoot((int)c.root);
    gloo::reduce(options);
  }
}

static void run_rooted(struct gloo_side *side, float *in, float *out) {
  const gloo_call &c = side->call;
  size_t ranks = (size_t)side->context->size;
  bool is_root = (unsigned)side->context->rank == c.root;
  if (c.collective == TUTTI_BROADCAST) {
    gloo::BroadcastOptions options(side->context);
    options.setOutput(out, c.count);
    options.setRoot((int)c.root);
    gloo::broadcast(options);
  } else if (c.collective == TUTTI_GATHER) {
    gloo::GatherOptions options(side->context);
    options.setInput(in, c.count);
    if (is_root) options.setOutput(out, ranks * c.count);
    options.setRoot((int)c.root);
    gloo::gather(options);
  } else {
    gloo::ScatterOptions options(side->context);
    std::vector<float *> blocks;
    for (size_t r = 0; is_root && r < ranks; r++) blocks.push_back(in + r * c.count);
    if (is_root) options.setInputs(blocks, c.count);
    options.setOutput(out, c.count);
    options.setRoot((int)c.root);
    gloo::scatter(options);
  }
}

static void run_moving(struct gloo_side *side, float *in, float *out) {
  const gloo_call &c = side->call;
  size_t ranks = (size_t)side->context->size;
  if (c.collective == TUTTI_ALLGATHER) {
    gloo::AllgatherOptions options(side->context);
    options.setInput(in, c.count);
    options.setOutput(out, ranks * c.count);
    gloo::allgather(options);
  } else {
    gloo::AlltoallOptions options(side->context);
    options.setInput(in, ranks * c.count);
    options.setOutput(out, ranks * c.count);
    gloo::alltoall(options);
  }
}

bool gloo_side_run(struct gloo_side *side) {
  auto in = static_cast<float *>(const_cast<void *>(side->call.in)), out = static_cast<float *>(side->call.out);
  if (side->bound) return guarded("algorithm object", [&] { run_bound(side); });
  switch (side->call.collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE: return guarded("allreduce or reduce", [&] { run_reducing(side, in, out); });
    case TUTTI_BROADCAST:
    case TUTTI_GATHER:
    case TUTTI_SCATTER: return guarded("broadcast, gather or scatter", [&] { run_rooted(side, in, out); });
    case TUTTI_BARRIER: return gloo_side_barrier(side);
    default: return guarded("allgather or alltoall", [&] { run_moving(side, in, out); });
  }
}

bool gloo_side_barrier(struct gloo_side *side) {
  return guarded("barrier", [&] {
    if (side->bound_barrier) return side->bound_barrier->run();
    gloo::BarrierOptions options(side->context);
    gloo::barrier(options);
  });
}

bool gloo_side_combine(struct gloo_side *side, double *values, int count, bool sum) {
  return guarded("allreduce of the results", [&] {
    using function = void (*)(void *, const void *, const void *, size_t);
    gloo::AllreduceOptions options(side->context);
    options.setOutput(values, (size_t)count);
    options.setReduceFunction(sum ? static_cast<function>(&gloo::sum<double>)
                                  : static_cast<function>(&gloo::max<double>));
    gloo::allreduce(options);
  });
}
