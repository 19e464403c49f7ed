/* Configurations for unit tests: command lines and files as text, in a folder of their own. */
#ifndef DL_CONFIGURED_H
#define DL_CONFIGURED_H
#include <stdlib.h>
#include <unistd.h>

#include "frontends/yaml/config.h"
#include "frontends/yaml/data_file.h"
#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/check.h"

static dl_arena *arena;
static char directory[] = "/tmp/dl_config_XXXXXX";

static const dl_option options[] = {
    {"json", 0, NULL, "machine-readable output"},
    {"output", 'o', "FILE", "where the plan goes"},
    {"passes", 0, "[LIST]", "what runs"},
    {"help", 'h', NULL, "this text"},
    {0},
};

static inline void write_text(const char *path, const char *text) {
    dl_error err = {0};
    dl_input_forget(); /* the cases read and rewrite one file */
    CHECK(dl_write_file(path, text, strlen(text), &err), "%s", err.message);
}

/* Opens a command line written as one string with blanks between the arguments. */
static inline dl_config *open_line(const char *line, dl_error *err) {
    char *argv[40] = {"prog"};
    int argc = 1;
    for (char *save = NULL, *word = strtok_r(dl_strdup(arena, line), " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    *err = (dl_error){0};
    return dl_config_open(arena, argc, argv, options, err);
}

/* The whole way: command line, f.yaml with this text (NULL: as it is), the end. NULL and the error
 * when one fails. */
static inline dl_config *configure(const char *yaml, const char *line, dl_error *err) {
    if (yaml) write_text("f.yaml", yaml);
    dl_config *c = open_line(dl_format(arena, "--yaml_config f.yaml %s", line), err);
    return c && dl_config_load(c, err) && dl_config_finish(c, err) ? c : NULL;
}
static inline dl_config *configure_ok(const char *yaml, const char *line) {
    dl_error err;
    dl_config *c = configure(yaml, line, &err);
    CHECK(c, "%s: %s", line, err.message);
    return c ? c : open_line("", &err);
}

static inline void check_fault(const char *yaml, const char *line, dl_code code, const char *want) {
    dl_error err;
    CHECK(!configure(yaml, line, &err) && err.code == code, "%s, %s: code %d", yaml ? yaml : "",
          line, err.code);
    CHECK(strstr(err.message, want), "got '%s', want '%s'", err.message, want);
}
static inline void check_file_fault(const char *keys, const char *want) {
    check_fault(dl_format(arena, "base:\n%s\n", keys), "", DL_INPUT, want);
}
static inline void check_line_fault(const char *line, const char *want) {
    check_fault("base: {}\n", line, DL_USAGE, want);
}

/* ---- a model's arguments ---- */

static const dl_yaml_place in_model = {"m.dl", 3, 7};

static inline bool declare(dl_config *c, const char *name, dl_config_type type,
                           const char *fallback, dl_error *err) {
    dl_config_argument a = {name, type, type == DL_CONFIG_LIST ? DL_CONFIG_INT : DL_CONFIG_ANY,
                            fallback, in_model};
    return dl_config_declare(c, &a, err);
}

/* Makes the folder, and enters it. */
static inline bool configured_begin(void) {
    if (!mkdtemp(directory) || chdir(directory) != 0) return false;
    return arena = dl_arena_new(NULL), true;
}

/* Removes it; the test's status. */
static inline int configured_end(void) {
    dl_arena_free(arena);
    const char *made[] = {"f.yaml", "own/config/net.yaml",    "own/config",
                          "own",    "models/config/net.yaml", "models/config",
                          "models"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (unlink(made[i]) != 0) rmdir(made[i]);
    CHECK(chdir("/") == 0 && rmdir(directory) == 0, "%s stays", directory);
    return dl_test_end();
}
#endif
