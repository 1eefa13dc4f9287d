/* describe.c: describes a job to an agent. All of it goes through the pipe: other users can read the arguments of a
 * process. */
#include "cli/run/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

static void put_text(struct run_sink *sink, enum run_text what, const char *text) {
  run_frame_put(sink, RUN_TEXT, what, text, strlen(text));
}

tutti_err describe_directory(char directory[PATH_MAX], struct tu_error *error) {
  const char *named = getenv("PWD");
  struct stat here, there;
  if (named && *named == '/' && strlen(named) < PATH_MAX && stat(".", &here) == 0 && stat(named, &there) == 0 &&
      here.st_dev == there.st_dev && here.st_ino == there.st_ino) {
    snprintf(directory, PATH_MAX, "%s", named);
    return TUTTI_OK;
  }
  return getcwd(directory, PATH_MAX) ? TUTTI_OK : tu_fail_errno(error, "cannot determine the working directory");
}

/* Returns true if the program can be executed; `text` is replaced by its absolute path. */
static bool try_program(struct tu_text *text, const char *directory, const char *folder, int length, const char *name) {
  struct stat file;
  const bool absolute = *folder == '/';
  text->length = 0;
  tu_text_print(text, "%s%s%.*s/%s", absolute ? "" : directory, absolute ? "" : "/", length, folder, name);
  return access(text->chars, X_OK) == 0 && stat(text->chars, &file) == 0 && S_ISREG(file.st_mode);
}

/* Finds the absolute path of a program. A name that is not in PATH stays; the agents look it up. */
static void find_program(const char *name, const char *directory, struct tu_text *program) {
  const char *path = getenv("PATH");
  if (*name != '/' && strchr(name, '/')) {
    tu_text_print(program, "%s/%s", directory, name);
    return;
  }
  for (const char *at = path; at && *at && *name != '/';) {
    const size_t length = strcspn(at, ":");
    if (try_program(program, directory, at, (int)length, name)) return;
    at += length + (at[length] == ':');
  }
  program->length = 0;
  tu_text_print(program, "%s", name);
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Returns true if all ranks get this variable. Those that describe another job, or one host, stay here. */
static bool is_passed(const char *entry) {
  static const char *const kept[] = {"TUTTI_HOST=", "TUTTI_RSH=", "TUTTI_SECRET=", "TUTTI_SECRET_FILE="};
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
    if (begins(entry, kept[i])) return false;
  return begins(entry, "TUTTI_") || begins(entry, "PATH=") || begins(entry, "LD_LIBRARY_PATH=") ||
         begins(entry, "PYTHON");
}

static void put_variables(struct run_sink *sink, const struct cli_list *more) {
  for (char **entry = environ; *entry; entry++)
    if (is_passed(*entry)) put_text(sink, RUN_VARIABLE, *entry);
  for (uint32_t i = 0; i < more->count; i++) {
    const char *item = more->items[i], *value = strchr(item, '=') ? NULL : getenv(item);
    if (!value) {
      put_text(sink, RUN_VARIABLE, item);
      continue;
    }
    const size_t bytes = strlen(item) + 1 + strlen(value) + 1;
    char *text = tu_allocate(bytes, 1);
    snprintf(text, bytes, "%s=%s", item, value);
    put_text(sink, RUN_VARIABLE, text);
    free(text);
  }
}

void describe_job(struct run_sink *sink, const struct run_request *request, const struct run_meeting *meeting,
                  const char *directory, const struct run_host *host, bool alone) {
  struct tu_text program = {0};
  struct run_order order;
  memset(&order, 0, sizeof order);
  order.world = request->count;
  order.count = host->count;
  order.timeout_ms = request->timeout_ms;
  order.bind = request->bind;
  order.alone = alone;
  order.traced = request->trace != NULL;
  run_frame_put(sink, RUN_ORDER, 0, &order, sizeof order);
  run_frame_put(sink, RUN_PLACES, 0, host->ranks, host->count * sizeof *host->ranks);
  find_program(request->program[0], directory, &program);
  put_text(sink, RUN_DIRECTORY, directory);
  put_text(sink, RUN_PROGRAM, program.chars);
  tu_text_fini(&program);
  put_text(sink, RUN_SECRET, meeting->secret);
  for (char **argument = request->program; *argument; argument++) put_text(sink, RUN_ARGUMENT, *argument);
  put_variables(sink, &request->variables);
  run_frame_put(sink, RUN_PREPARE, 0, "", 0);
}
