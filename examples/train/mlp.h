/* mlp.h: a multi-layer perceptron, 784-128-64-10, ReLU between the layers, softmax and cross-entropy at the end.
 *
 * All parameters lie in one array of floats, and so does the gradient: one allreduce sums it. Sums run in a fixed
 * order, so equal inputs give equal bits. */
#ifndef MLP_H
#define MLP_H

#include <stddef.h>
#include <stdint.h>

enum {
  MLP_IN = 784,
  MLP_HIDDEN_1 = 128,
  MLP_HIDDEN_2 = 64,
  MLP_OUT = 10,
  MLP_LAYERS = 3,
  /* a layer: weights[in][out], then bias[out] */
  MLP_PARAMETERS = (MLP_IN + 1) * MLP_HIDDEN_1 + (MLP_HIDDEN_1 + 1) * MLP_HIDDEN_2 + (MLP_HIDDEN_2 + 1) * MLP_OUT,
  MLP_BATCH_MAX = 64
};

/* Random weights scaled for ReLU; the same seed gives the same bits. */
void mlp_init(float parameters[MLP_PARAMETERS], uint64_t seed);

/* What one pass over a batch needs beside the parameters. */
struct mlp_pass {
  uint32_t batch; /* <= MLP_BATCH_MAX */
  float input[MLP_BATCH_MAX * MLP_IN];
  uint8_t labels[MLP_BATCH_MAX];
  float hidden_1[MLP_BATCH_MAX * MLP_HIDDEN_1], hidden_2[MLP_BATCH_MAX * MLP_HIDDEN_2];
  float output[MLP_BATCH_MAX * MLP_OUT]; /* probabilities, after mlp_forward */
  float error_1[MLP_BATCH_MAX * MLP_HIDDEN_1], error_2[MLP_BATCH_MAX * MLP_HIDDEN_2];
  float transposed[MLP_HIDDEN_1 * MLP_HIDDEN_2];
};

/* Fills one row of the input from bytes. */
void mlp_load(struct mlp_pass *pass, uint32_t row, const uint8_t pixels[MLP_IN], uint8_t label);

/* From input to probabilities. Adds to *loss the cross-entropy of every row and to *correct the number of rows whose
 * most probable class is their label. */
void mlp_forward(const float parameters[MLP_PARAMETERS], struct mlp_pass *pass, double *loss, uint64_t *correct);

/* After mlp_forward: the gradient of the batch's summed loss, times `scale`. */
void mlp_backward(const float parameters[MLP_PARAMETERS], struct mlp_pass *pass, float scale,
                  float gradient[MLP_PARAMETERS]);

uint64_t mlp_hash(const float parameters[MLP_PARAMETERS]);

/* splitmix64: a seeded generator, also for the order of the samples. */
uint64_t random_next(uint64_t *state);

#endif
