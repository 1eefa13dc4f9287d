/* env_test.c: tests of the environment table: unknown names are refused by name, values are parsed or refused. */
#include "base/env.h"

#include "test.h"

static void forget_all(void) {
  for (size_t i = 0; i < tu_env_name_count; i++) unsetenv(tu_env_names[i].name);
}

static void test_check(void) {
  static const struct {
    const char *name, *part; /* name of the variable, and a part of the expected error message */
  } table[] = {
      {"TUTTI_RNAK", "TUTTI_RANK?"},
      {"TUTTI_RANKS", "TUTTI_RANK?"},
      {"TUTTI_TIMEOUT", "TUTTI_TIMEOUT_MS?"},
      {"TUTTI_WORLDSIZE", "TUTTI_WORLD_SIZE?"},
      {"TUTTI_rank", "unknown variable TUTTI_rank"},
      {"TUTTI_ZZZZZZZZZ", "TUTTI_RANK, "},
      {"TUTTI_", "unknown variable TUTTI_;"},
  };
  forget_all();
  struct tu_error error = {0};
  CHECK(tu_env_check(&error) == TUTTI_OK, "'%s'", error.text);
  setenv("TUTTI", "1", 1);
  setenv("MY_TUTTI_RNAK", "1", 1);
  for (size_t i = 0; i < tu_env_name_count; i++) setenv(tu_env_names[i].name, "1", 1);
  CHECK(tu_env_check(&error) == TUTTI_OK, "all known names: '%s'", error.text);
  forget_all();
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    setenv(table[i].name, "1", 1);
    CHECK(tu_env_check(&error) == TUTTI_ERR_ENVIRONMENT, "%s was taken", table[i].name);
    CHECK(strstr(error.text, table[i].part) && strstr(error.text, table[i].name), "%s: '%s'", table[i].name,
          error.text);
    unsetenv(table[i].name);
  }
}

static void test_values(void) {
  forget_all();
  struct tu_error error = {0};
  uint64_t number = 77;
  CHECK(!tu_env("TUTTI_SECRET"), "an unset variable has no value");
  setenv("TUTTI_SECRET", "", 1);
  CHECK(!tu_env("TUTTI_SECRET"), "an empty variable has no value");
  CHECK(tu_env_is_set("TUTTI_SECRET") && !tu_env_is_set("TUTTI_SPIN_US"), "but it is set");
  setenv("TUTTI_SECRET", "abc", 1);
  CHECK(tu_env("TUTTI_SECRET") && strcmp(tu_env("TUTTI_SECRET"), "abc") == 0, "'abc' was set");
  CHECK(tu_env_uint("TUTTI_RANK", 10, &number, &error) == TUTTI_OK && number == 77, "unset leaves it alone");
  setenv("TUTTI_RANK", "10", 1);
  CHECK(tu_env_uint("TUTTI_RANK", 10, &number, &error) == TUTTI_OK && number == 10, "'%s'", error.text);
  setenv("TUTTI_RANK", "11", 1);
  CHECK(tu_env_uint("TUTTI_RANK", 10, &number, &error) == TUTTI_ERR_ENVIRONMENT && number == 10, "11 was taken");
  CHECK(strstr(error.text, "TUTTI_RANK is '11'") && strstr(error.text, "0 to 10"), "'%s'", error.text);
  setenv("TUTTI_SLOT_BYTES", "32K", 1);
  CHECK(tu_env_bytes("TUTTI_SLOT_BYTES", &number, &error) == TUTTI_OK && number == 32768, "'%s'", error.text);
  setenv("TUTTI_SLOT_BYTES", "lots", 1);
  CHECK(tu_env_bytes("TUTTI_SLOT_BYTES", &number, &error) == TUTTI_ERR_ENVIRONMENT, "'lots' was taken");
  CHECK(strstr(error.text, "TUTTI_SLOT_BYTES is 'lots'"), "'%s'", error.text);
  forget_all();
}

int main(int argc, char **argv) {
  static const struct test tests[] = {{"check", test_check}, {"values", test_values}};
  return test_main(tests, sizeof tests / sizeof tests[0], argc, argv);
}
