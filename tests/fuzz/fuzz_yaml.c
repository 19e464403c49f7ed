/* YAML: the reader, and the typed configuration above it with the values it prints, which must read
 * back. */
#include "frontends/yaml/config.h"
#include "tests/fuzz/fuzz.h"

static dl_config *load(dl_arena *arena, const char *path, dl_error *err) {
    char *argv[] = {"fuzz", dl_format(arena, "--yaml_config=%s", path)};
    static const dl_option none[] = {{0}};
    dl_config *c = dl_config_open(arena, 2, argv, none, err);
    return c && dl_config_load(c, err) && dl_config_finish(c, err) ? c : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const dl_yaml *tree = dl_yaml_read(arena, (const char *)data, n, "fuzz.yaml", &err);
    FUZZ_CHECK(tree || err.code == DL_INPUT);
    if (tree) {
        dl_buf b = {0};
        dl_yaml_put(&b, tree);
        dl_yaml_put_python(&b, tree);
        dl_buf_free(&b);
    }
    err = (dl_error){0};
    dl_config *c = load(arena, fuzz_file(data, n), &err);
    FUZZ_CHECK(c || (err.code != DL_OK && err.code != DL_INTERNAL));
    if (c) {
        dl_buf once = {0}, twice = {0};
        dl_config_put_yaml(c, &once);
        dl_error again = {0};
        c = load(arena, fuzz_file(once.at, once.n), &again);
        FUZZ_CHECK(c);
        dl_config_put_yaml(c, &twice);
        FUZZ_CHECK(once.n == twice.n && memcmp(once.at, twice.at, once.n) == 0);
        dl_buf_free(&once), dl_buf_free(&twice);
    }
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {
#define GROUP(title)
#define KEY(name, ...) #name ": ",
#include "frontends/yaml/config.def"
        "base: &base\n",
        "<<: *base\n",
        "&a ",
        "*a",
        "- ",
        "? ",
        "|\n",
        ">\n",
        "{",
        "}",
        "[",
        "]",
        "!!int ",
        "!!str ",
        "~",
        "null",
        "true",
        ".inf",
        ".nan",
        "0x7f",
        "1_000",
        "5E-4",
        "'",
        "\"",
        "\\u0000",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "\n  ",
        "#",
        NULL};
    fuzz_random r = {seed};
    return fuzz_mutate_text((char *)data, n, max, words, &r);
}
