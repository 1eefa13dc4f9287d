/* mlp.c: forward and backward pass of the network. Both use one kernel, C += A * B, which reads A along rows or
 * columns. The inner loop runs over the columns of B and C, so that vectorization does not change the order of any
 * sum. */
#include "mlp.h"

#include <math.h>
#include <string.h>

static const uint32_t sizes[MLP_LAYERS + 1] = {MLP_IN, MLP_HIDDEN_1, MLP_HIDDEN_2, MLP_OUT};

/* Returns the index of a layer's first weight; the bias follows the weights. */
static size_t weights_at(uint32_t layer) {
  size_t at = 0;
  for (uint32_t i = 0; i < layer; i++) at += (size_t)(sizes[i] + 1) * sizes[i + 1];
  return at;
}

static size_t bias_at(uint32_t layer) { return weights_at(layer) + (size_t)sizes[layer] * sizes[layer + 1]; }

uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void mlp_init(float parameters[MLP_PARAMETERS], uint64_t seed) {
  memset(parameters, 0, MLP_PARAMETERS * sizeof *parameters);
  for (uint32_t layer = 0; layer < MLP_LAYERS; layer++) {
    float *weights = parameters + weights_at(layer);
    size_t count = (size_t)sizes[layer] * sizes[layer + 1];
    float range = sqrtf(6.0f / (float)sizes[layer]);
    for (size_t i = 0; i < count; i++) {
      float unit = (float)(random_next(&seed) >> 40) * 0x1p-24f;
      weights[i] = (2.0f * unit - 1.0f) * range;
    }
  }
}

void mlp_load(struct mlp_pass *pass, uint32_t row, const uint8_t pixels[MLP_IN], uint8_t label) {
  float *input = pass->input + (size_t)row * MLP_IN;
  /* normalization: mean 0.286 and standard deviation 0.353 of the training set */
  for (uint32_t i = 0; i < MLP_IN; i++) input[i] = ((float)pixels[i] * (1.0f / 255.0f) - 0.286f) * (1.0f / 0.353f);
  pass->labels[row] = label;
}

/* A read-only matrix: element (i, k) is at[i * row_step + k * column_step]. */
struct matrix {
  const float *at;
  size_t row_step, column_step;
};

/* Computes c[rows][columns] += a[rows][depth] * b[depth][columns]. Each pass over a row of c adds four terms, so that
 * the row is loaded and stored a quarter as often. Each element still adds its terms one after the other. */
static void multiply_add(float *restrict c, struct matrix a, const float *restrict b, uint32_t rows, uint32_t depth,
                         uint32_t columns) {
  for (uint32_t i = 0; i < rows; i++) {
    float *restrict row = c + (size_t)i * columns;
    const float *x = a.at + i * a.row_step;
    uint32_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      const float *b0 = b + (size_t)k * columns, *b1 = b0 + columns, *b2 = b1 + columns, *b3 = b2 + columns;
      const float x0 = x[k * a.column_step], x1 = x[(k + 1) * a.column_step];
      const float x2 = x[(k + 2) * a.column_step], x3 = x[(k + 3) * a.column_step];
      for (uint32_t j = 0; j < columns; j++) row[j] = (((row[j] + x0 * b0[j]) + x1 * b1[j]) + x2 * b2[j]) + x3 * b3[j];
    }
    for (; k < depth; k++) {
      const float *b0 = b + (size_t)k * columns;
      const float x0 = x[k * a.column_step];
      for (uint32_t j = 0; j < columns; j++) row[j] += x0 * b0[j];
    }
  }
}

/* Computes out = in * weights + bias. */
static void layer_forward(const float *parameters, uint32_t layer, const float *in, uint32_t batch, float *out) {
  uint32_t width = sizes[layer + 1];
  for (uint32_t i = 0; i < batch; i++)
    memcpy(out + (size_t)i * width, parameters + bias_at(layer), width * sizeof *out);
  multiply_add(out, (struct matrix){in, sizes[layer], 1}, parameters + weights_at(layer), batch, sizes[layer], width);
}

static void relu(float *values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = values[i] > 0.0f ? values[i] : 0.0f;
}

static uint32_t row_softmax(float row[MLP_OUT]) {
  uint32_t best = 0;
  for (uint32_t j = 1; j < MLP_OUT; j++)
    if (row[j] > row[best]) best = j;
  float highest = row[best], sum = 0.0f;
  for (uint32_t j = 0; j < MLP_OUT; j++) sum += row[j] = expf(row[j] - highest);
  for (uint32_t j = 0; j < MLP_OUT; j++) row[j] /= sum;
  return best;
}

void mlp_forward(const float parameters[MLP_PARAMETERS], struct mlp_pass *pass, double *loss, uint64_t *correct) {
  uint32_t batch = pass->batch;
  layer_forward(parameters, 0, pass->input, batch, pass->hidden_1);
  relu(pass->hidden_1, (size_t)batch * MLP_HIDDEN_1);
  layer_forward(parameters, 1, pass->hidden_1, batch, pass->hidden_2);
  relu(pass->hidden_2, (size_t)batch * MLP_HIDDEN_2);
  layer_forward(parameters, 2, pass->hidden_2, batch, pass->output);
  for (uint32_t i = 0; i < batch; i++) {
    float *row = pass->output + (size_t)i * MLP_OUT;
    *correct += row_softmax(row) == pass->labels[i];
    *loss -= log((double)row[pass->labels[i]] + 1e-30);
  }
}

/* Computes the gradient of one layer from the error of its output: weights += in^T * error, bias += sum of error. */
static void layer_gradient(uint32_t layer, const float *in, const float *error, uint32_t batch, float *gradient) {
  uint32_t width = sizes[layer + 1];
  float *restrict bias = gradient + bias_at(layer);
  multiply_add(gradient + weights_at(layer), (struct matrix){in, 1, sizes[layer]}, error, sizes[layer], batch, width);
  for (uint32_t i = 0; i < batch; i++)
    for (uint32_t j = 0; j < width; j++) bias[j] += error[(size_t)i * width + j];
}

/* Computes the error of a layer's input: error * weights^T, or 0 where the preceding ReLU returned 0. */
static void layer_backward(const float *parameters, struct mlp_pass *pass, uint32_t layer, const float *in,
                           const float *error, float *in_error) {
  uint32_t depth = sizes[layer + 1], width = sizes[layer], batch = pass->batch;
  const float *weights = parameters + weights_at(layer);
  for (uint32_t i = 0; i < width; i++)
    for (uint32_t j = 0; j < depth; j++) pass->transposed[(size_t)j * width + i] = weights[(size_t)i * depth + j];
  memset(in_error, 0, (size_t)batch * width * sizeof *in_error);
  multiply_add(in_error, (struct matrix){error, depth, 1}, pass->transposed, batch, depth, width);
  for (size_t i = 0; i < (size_t)batch * width; i++) in_error[i] = in[i] > 0.0f ? in_error[i] : 0.0f;
}

void mlp_backward(const float parameters[MLP_PARAMETERS], struct mlp_pass *pass, float scale,
                  float gradient[MLP_PARAMETERS]) {
  uint32_t batch = pass->batch;
  float *error = pass->output; /* gradient of softmax and cross-entropy together: probability - truth */
  for (uint32_t i = 0; i < batch; i++) error[(size_t)i * MLP_OUT + pass->labels[i]] -= 1.0f;
  for (size_t i = 0; i < (size_t)batch * MLP_OUT; i++) error[i] *= scale;
  memset(gradient, 0, MLP_PARAMETERS * sizeof *gradient);
  layer_gradient(2, pass->hidden_2, error, batch, gradient);
  layer_backward(parameters, pass, 2, pass->hidden_2, error, pass->error_2);
  layer_gradient(1, pass->hidden_1, pass->error_2, batch, gradient);
  layer_backward(parameters, pass, 1, pass->hidden_1, pass->error_2, pass->error_1);
  layer_gradient(0, pass->input, pass->error_1, batch, gradient);
}

uint64_t mlp_hash(const float parameters[MLP_PARAMETERS]) {
  const uint8_t *bytes = (const uint8_t *)parameters;
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a hash */
  for (size_t i = 0; i < MLP_PARAMETERS * sizeof *parameters; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}
