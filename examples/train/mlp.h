/* mlp.h: a multi-layer perceptron, 784-128-64-10, with ReLU between the layers and softmax and cross-entropy at the
 * end.
 *
 * All parameters are in one array of floats, and so is the gradient, so that one allreduce sums it. Sums have a fixed
 * order, so that equal inputs give equal bits. */
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
  /* each layer: weights[in][out], then bias[out] */
  MLP_PARAMETERS = (MLP_IN + 1) * MLP_HIDDEN_1 + (MLP_HIDDEN_1 + 1) * MLP_HIDDEN_2 + (MLP_HIDDEN_2 + 1) * MLP_OUT,
  MLP_BATCH_MAX = 64
};

/* Initializes the model with random weights, scaled for ReLU. Equal seeds give equal bits. */
void mlp_init(float parameters[MLP_PARAMETERS], uint64_t seed);

/* The data of one pass over a batch, without the parameters. */
struct mlp_pass {
  uint32_t batch; /* number of rows, at most MLP_BATCH_MAX */
  float input[MLP_BATCH_MAX * MLP_IN];
  uint8_t labels[MLP_BATCH_MAX];
  float hidden_1[MLP_BATCH_MAX * MLP_HIDDEN_1], hidden_2[MLP_BATCH_MAX * MLP_HIDDEN_2];
  float output[MLP_BATCH_MAX * MLP_OUT]; /* output: probabilities of the classes, after mlp_forward */
  float error_1[MLP_BATCH_MAX * MLP_HIDDEN_1], error_2[MLP_BATCH_MAX * MLP_HIDDEN_2];
  float transposed[MLP_HIDDEN_1 * MLP_HIDDEN_2];
};

/* Fills one row of the input from pixels. */
void mlp_load(struct mlp_pass *pass, uint32_t row, const uint8_t pixels[MLP_IN], uint8_t label);

/* Computes probabilities from the input. Adds the cross-entropy of every row to *loss, and the number of rows whose
 * most probable class is their label to *correct. */
void mlp_forward(const float parameters[MLP_PARAMETERS], struct mlp_pass *pass, double *loss, uint64_t *correct);

/* Computes the gradient of the batch's summed loss, times `scale`. Call it after mlp_forward. */
void mlp_backward(const float parameters[MLP_PARAMETERS], struct mlp_pass *pass, float scale,
                  float gradient[MLP_PARAMETERS]);

uint64_t mlp_hash(const float parameters[MLP_PARAMETERS]);

/* Returns the next value of splitmix64, a seeded random generator. */
uint64_t random_next(uint64_t *state);

#endif
