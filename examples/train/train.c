/* train.c: trains a small network on Fashion-MNIST with 1, 2 or 4 processes. Each process computes the gradient of its
 * part of every batch, and one allreduce sums the gradients.
 *
 *   tutti run -n 4 -- build/examples/train
 *
 * Every batch is cut into four shards for any number of processes. The gradients of the shards are leaves of the allreduce,
 * which are summed as (g0 + g1) + (g2 + g3), within a process and between processes (tutti_fold). So the trained models of
 * 1, 2 and 4 processes are equal bit by bit. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "idx.h"
#include "mlp.h"

enum { SHARDS = 4, SHARD_ROWS = 32, BATCH = SHARDS * SHARD_ROWS };

struct options {
  unsigned long epochs, samples, seed; /* samples: number of training images; 0: all */
  const char *data, *result;           /* result: file for accuracy and hash; NULL: none */
  bool check;
};

struct trainer {
  struct options options;
  tutti_comm *world;
  uint32_t rank, ranks;
  struct images train, test;
  uint32_t *order; /* permutation of the training images in this epoch */
  float *model, *velocity;
  float *gradient; /* gradient of a shard, and then of the batch */
  tutti_call sum;  /* sums the gradients of all shards */
  tutti_fold *fold;
  struct mlp_pass *pass;
  double loss; /* loss, summed over this rank's training images in the epoch */
  double started, collective_seconds;
};

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Prints the reason, aborts the communicator so that the other ranks fail, too, and exits. */
static _Noreturn void give_up(tutti_comm *world, const char *why) {
  fprintf(stderr, "train: %s\n", why);
  if (world) {
    tutti_abort(world, why);
    tutti_comm_free(world);
  }
  exit(1);
}

static void must(tutti_comm *world, tutti_err err) {
  if (err == TUTTI_OK) return;
  fprintf(stderr, "train: %s: %s\n", tutti_err_name(err), tutti_error_message(world));
  exit(1);
}

static void *allocate(tutti_comm *world, size_t count, size_t item_bytes) {
  void *memory = calloc(count, item_bytes);
  if (!memory) give_up(world, "out of memory");
  return memory;
}

/* ---- training ---- */

/* Shuffles the training images. All ranks get the same order, because they use the same seed. */
static void shuffle(struct trainer *t, uint64_t epoch) {
  uint64_t state = t->options.seed * 0x9e3779b9u + epoch;
  for (uint32_t i = 0; i < t->train.count; i++) t->order[i] = i;
  for (uint32_t i = t->train.count - 1; i > 0; i--) {
    uint32_t other = (uint32_t)(random_next(&state) % (i + 1)), kept = t->order[i];
    t->order[i] = t->order[other];
    t->order[other] = kept;
  }
}

static void shard_gradient(struct trainer *t, const uint32_t *rows, float *gradient) {
  uint64_t correct = 0;
  t->pass->batch = SHARD_ROWS;
  for (uint32_t i = 0; i < SHARD_ROWS; i++)
    mlp_load(t->pass, i, t->train.pixels + (size_t)rows[i] * IMAGE_PIXELS, t->train.labels[rows[i]]);
  mlp_forward(t->model, t->pass, &t->loss, &correct);
  mlp_backward(t->model, t->pass, 1.0f / BATCH, gradient);
}

/* Computes the gradient of a whole batch into t->gradient, on every rank. */
static void batch_gradient(struct trainer *t, const uint32_t *rows) {
  uint32_t mine = SHARDS / t->ranks;
  for (uint32_t s = 0; s < mine; s++) {
    shard_gradient(t, rows + (size_t)(t->rank * mine + s) * SHARD_ROWS, t->gradient);
    must(NULL, tutti_fold_add(t->fold, t->gradient));
  }
  double before = seconds();
  t->sum.send = tutti_fold_result(t->fold);
  must(t->world, tutti_run_call(t->world, &t->sum));
  t->collective_seconds += seconds() - before;
}

/* Updates the model by gradient descent with momentum 0.9. */
static void step(struct trainer *t, float rate) {
  float *restrict model = t->model, *restrict velocity = t->velocity;
  const float *restrict gradient = t->gradient;
  for (size_t i = 0; i < MLP_PARAMETERS; i++) {
    velocity[i] = 0.9f * velocity[i] - rate * gradient[i];
    model[i] += velocity[i];
  }
}

/* Returns the fraction of the test set that is classified correctly. Each rank tests a part; an allreduce sums the
 * results. */
static double test_accuracy(struct trainer *t) {
  uint64_t correct = 0, count = t->test.count;
  double loss = 0.0;
  uint32_t end = (uint32_t)(count * (t->rank + 1) / t->ranks);
  for (uint32_t at = (uint32_t)(count * t->rank / t->ranks); at < end; at += t->pass->batch) {
    t->pass->batch = end - at < MLP_BATCH_MAX ? end - at : MLP_BATCH_MAX;
    for (uint32_t i = 0; i < t->pass->batch; i++)
      mlp_load(t->pass, i, t->test.pixels + (size_t)(at + i) * IMAGE_PIXELS, t->test.labels[at + i]);
    mlp_forward(t->model, t->pass, &loss, &correct);
  }
  double before = seconds();
  must(t->world, tutti_allreduce(t->world, &correct, &correct, 1, TUTTI_U64, TUTTI_SUM));
  t->collective_seconds += seconds() - before;
  return (double)correct / (double)count;
}

/* ---- output: only rank 0 prints ---- */

static void show_progress(const struct trainer *t, unsigned long epoch, uint32_t done, uint32_t batches) {
  if (t->rank != 0 || !isatty(STDOUT_FILENO)) return;
  static double shown;
  if (seconds() - shown < 0.1) return;
  shown = seconds();
  char bar[31] = "";
  uint32_t filled = done * 30 / batches;
  for (uint32_t i = 0; i < 30; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
  uint32_t rows = done * (BATCH / t->ranks);
  printf("\repoch %2lu/%lu [%s] %3u%%  loss %.4f", epoch + 1, t->options.epochs, bar, done * 100 / batches,
         t->loss / rows);
  fflush(stdout);
}

static void show_epoch(const struct trainer *t, unsigned long epoch, double loss, double accuracy) {
  if (t->rank != 0) return;
  double spent = seconds() - t->started;
  printf("%sepoch %2lu/%lu  loss %.4f  test accuracy %.4f  %5.1f s  collectives %4.1f %%\n",
         isatty(STDOUT_FILENO) ? "\r\033[K" : "", epoch + 1, t->options.epochs, loss, accuracy, spent,
         100.0 * t->collective_seconds / spent);
  fflush(stdout);
}

static void show_result(const struct trainer *t, double accuracy) {
  double spent = seconds() - t->started;
  unsigned long long hash = mlp_hash(t->model);
  printf("test accuracy %.4f after %.1f s, %.1f %% of the time in collectives, including waiting\n", accuracy, spent,
         100.0 * t->collective_seconds / spent);
  if (t->options.check) printf("model %016llx\n", hash);
  if (!t->options.result) return;
  FILE *file = fopen(t->options.result, "w");
  if (!file || fprintf(file, "accuracy %.4f\nmodel %016llx\n", accuracy, hash) < 0 || fclose(file) != 0) {
    perror(t->options.result);
    give_up(t->world, "cannot write the result file");
  }
}

static double train_epoch(struct trainer *t, unsigned long epoch) {
  uint32_t batches = t->train.count / BATCH;
  double steps = (double)batches * (double)t->options.epochs;
  t->loss = 0.0;
  shuffle(t, epoch);
  for (uint32_t i = 0; i < batches; i++) {
    batch_gradient(t, t->order + (size_t)i * BATCH);
    /* fraction of all steps that are done; the learning rate falls linearly to 0 */
    double gone = ((double)batches * (double)epoch + i) / steps;
    step(t, (float)(0.05 * (1.0 - gone)));
    show_progress(t, epoch, i + 1, batches);
  }
  must(t->world, tutti_allreduce(t->world, &t->loss, &t->loss, 1, TUTTI_F64, TUTTI_SUM));
  return t->loss / ((double)batches * BATCH);
}

/* ---- options, set-up and main program ---- */

static const char usage[] =
    "usage: train [--epochs N] [--samples N] [--seed N] [--data FOLDER] [--check]\n"
    "Trains a 784-128-64-10 network on Fashion-MNIST, data-parallel over 1, 2 or 4 processes:\n"
    "  tutti run -n 4 -- train\n"
    "  --epochs N     number of passes over the training set (4)\n"
    "  --samples N    use only the first N training images (all 60,000)\n"
    "  --seed N       seed of the initial weights and of the order of images (1)\n"
    "  --data FOLDER  folder of the four .gz files (/usr/share/datasets/fashion-mnist)\n"
    "  --check        print a hash of the trained model\n"
    "  --result FILE  write accuracy and hash to FILE\n";

static _Noreturn void bad_usage(const char *what, const char *argument) {
  fprintf(stderr, "train: %s '%s'\n%s", what, argument, usage);
  exit(2);
}

static unsigned long number(const char *option, const char *chars) {
  char *end;
  if (!chars || chars[0] < '0' || chars[0] > '9') bad_usage("expected a number after", option);
  unsigned long value = strtoul(chars, &end, 10);
  if (*end || value > UINT32_MAX) bad_usage("expected a number of at most 32 bits, found", chars);
  return value;
}

static struct options options_read(int argc, char **argv) {
  struct options o = {.epochs = 4, .seed = 1, .data = "/usr/share/datasets/fashion-mnist"};
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(name, "--help") == 0) {
      fputs(usage, stdout);
      exit(0);
    }
    if (strcmp(name, "--check") == 0) {
      o.check = true;
      continue;
    }
    if (strcmp(name, "--epochs") == 0) o.epochs = number(name, value);
    else if (strcmp(name, "--samples") == 0) o.samples = number(name, value);
    else if (strcmp(name, "--seed") == 0) o.seed = number(name, value);
    else if (strcmp(name, "--data") == 0 && value) o.data = value;
    else if (strcmp(name, "--result") == 0 && value) o.result = value;
    else bad_usage("unknown or incomplete option", name);
    i++;
  }
  return o;
}

static void trainer_init(struct trainer *t) {
  char why[700];
  must(NULL, tutti_init(NULL, &t->world));
  t->rank = tutti_rank(t->world);
  t->ranks = tutti_ranks(t->world);
  if (SHARDS % t->ranks) {
    snprintf(why, sizeof why, "expected 1, 2 or 4 processes, because a batch has 4 shards; found %u", t->ranks);
    give_up(t->world, why);
  }
  if (images_read(t->options.data, "train", &t->train, why, sizeof why) ||
      images_read(t->options.data, "t10k", &t->test, why, sizeof why))
    give_up(t->world, why);
  if (t->options.samples && t->options.samples < t->train.count) t->train.count = (uint32_t)t->options.samples;
  if (t->train.count < BATCH) {
    snprintf(why, sizeof why, "--samples: expected at least %d, one batch; found %u", BATCH, t->train.count);
    give_up(t->world, why);
  }
  t->order = allocate(t->world, t->train.count, sizeof *t->order);
  t->model = allocate(t->world, MLP_PARAMETERS, sizeof *t->model);
  t->velocity = allocate(t->world, MLP_PARAMETERS, sizeof *t->velocity);
  t->gradient = allocate(t->world, MLP_PARAMETERS, sizeof *t->gradient);
  t->pass = allocate(t->world, 1, sizeof *t->pass);
  t->sum = (tutti_call){.collective = TUTTI_ALLREDUCE,
                        .recv = t->gradient,
                        .count = MLP_PARAMETERS,
                        .type = TUTTI_F32,
                        .op = TUTTI_SUM,
                        .leaves = SHARDS / t->ranks,
                        .folded = true};
  must(NULL, tutti_fold_create(t->world, &t->sum, &t->fold));

  /* Rank 0 initializes the model and broadcasts it. */
  if (t->rank == 0) mlp_init(t->model, t->options.seed);
  must(t->world, tutti_broadcast(t->world, t->model, MLP_PARAMETERS, TUTTI_F32, 0));
}

static void trainer_fini(struct trainer *t) {
  tutti_fold_free(t->fold);
  must(NULL, tutti_comm_free(t->world));
  images_free(&t->train);
  images_free(&t->test);
  free(t->order);
  free(t->model);
  free(t->velocity);
  free(t->gradient);
  free(t->pass);
}

int main(int argc, char **argv) {
  struct trainer t = {.options = options_read(argc, argv)};
  trainer_init(&t);
  if (t.rank == 0)
    printf("Fashion-MNIST: %u training and %u test images, %d parameters, batches of %d over %u process%s\n",
           t.train.count, t.test.count, MLP_PARAMETERS, BATCH, t.ranks, t.ranks == 1 ? "" : "es");
  t.started = seconds();
  double accuracy = 0.0;
  for (unsigned long epoch = 0; epoch < t.options.epochs; epoch++) {
    double loss = train_epoch(&t, epoch);
    accuracy = test_accuracy(&t);
    show_epoch(&t, epoch, loss, accuracy);
  }
  if (t.rank == 0) show_result(&t, accuracy);
  trainer_fini(&t);
  return 0;
}
