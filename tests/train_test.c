/* train_test.c: the network of examples/train: its gradient against finite differences, and its results, bit by bit,
 * against those of a batch in several parts. */
#include "../examples/train/mlp.c"

#include "test.h"

static float model[MLP_PARAMETERS], gradient[MLP_PARAMETERS], other[MLP_PARAMETERS];
static struct mlp_pass pass;

static void fill(uint32_t batch, uint64_t *state) {
  pass.batch = batch;
  for (uint32_t row = 0; row < batch; row++) {
    uint8_t pixels[MLP_IN];
    for (uint32_t i = 0; i < MLP_IN; i++) pixels[i] = (uint8_t)(random_next(state) >> 56);
    mlp_load(&pass, row, pixels, (uint8_t)(random_next(state) % MLP_OUT));
  }
}

static double loss_of(const float *parameters) {
  double loss = 0.0;
  uint64_t correct = 0;
  mlp_forward(parameters, &pass, &loss, &correct);
  return loss;
}

static void gradient_is_the_slope(void) {
  uint64_t state = test_seed();
  mlp_init(model, state);
  fill(8, &state);
  loss_of(model);
  mlp_backward(model, &pass, 1.0f, gradient);
  /* Tests the slope along a random direction of small numbers, in double; it depends on every parameter. */
  for (int trial = 0; trial < 20; trial++) {
    double slope = 0.0;
    uint64_t direction = state + (uint64_t)trial;
    double losses[2];
    for (int side = 0; side < 2; side++) {
      uint64_t s = direction;
      for (size_t i = 0; i < MLP_PARAMETERS; i++) {
        float delta = (random_next(&s) & 1 ? 1.0f : -1.0f) * 0x1p-14f;
        other[i] = model[i] + (side ? delta : -delta);
        if (side) slope += (double)gradient[i] * delta;
      }
      losses[side] = loss_of(other);
    }
    double measured = (losses[1] - losses[0]) / 2.0;
    CHECK(fabs(measured - slope) <= 0.02 * fabs(slope) + 2e-3, "trial %d: slope %g, measured %g", trial, slope,
          measured);
  }
}

static void every_layer_has_a_slope(void) {
  uint64_t state = test_seed();
  mlp_init(model, state);
  fill(8, &state);
  loss_of(model);
  mlp_backward(model, &pass, 1.0f, gradient);
  for (uint32_t layer = 0; layer < MLP_LAYERS; layer++) {
    /* Finds the parameter of the layer with the steepest slope. */
    size_t best = weights_at(layer), end = weights_at(layer + 1);
    for (size_t i = best; i < end; i++)
      if (fabsf(gradient[i]) > fabsf(gradient[best])) best = i;
    float kept = model[best], delta = 0x1p-13f; /* small, as a ReLU may have its bend in between */
    model[best] = kept + delta;
    double above = loss_of(model);
    model[best] = kept - delta;
    double below = loss_of(model);
    model[best] = kept;
    double measured = (above - below) / (2.0 * (double)delta), slope = (double)gradient[best];
    CHECK(fabs(measured - slope) <= 0.1 * fabs(slope), "layer %u, parameter %zu: slope %g, measured %g", layer, best,
          slope, measured);
  }
}

static void same_seed_same_bits(void) {
  mlp_init(model, 7);
  mlp_init(other, 7);
  CHECK(mlp_hash(model) == mlp_hash(other), "two models of one seed differ");
  mlp_init(other, 8);
  CHECK(mlp_hash(model) != mlp_hash(other), "two models of two seeds are equal");
  other[MLP_PARAMETERS - 1] += 1.0f;
  uint64_t before = mlp_hash(other);
  other[MLP_PARAMETERS - 1] += 0x1p-20f;
  CHECK(mlp_hash(other) != before, "the hash does not depend on the last parameter");
}

int main(int argc, char **argv) {
  const struct test tests[] = {{"gradient_is_the_slope", gradient_is_the_slope},
                               {"every_layer_has_a_slope", every_layer_has_a_slope},
                               {"same_seed_same_bits", same_seed_same_bits}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
