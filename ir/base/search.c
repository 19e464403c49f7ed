#include "ir/base/search.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/str.h"

enum { MOST_NAMES = 4 };

/* Whether it is a shared object for this machine: files of another machine's package are
 * skipped. */
static bool is_ours(const char *path) {
    ElfW(Ehdr) ours, head;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
              read(fd, &head, sizeof head) == (ssize_t)sizeof head &&
              memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;
    if (fd >= 0) close(fd);
    fd = ok ? open("/proc/self/exe", O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return ok;
    if (read(fd, &ours, sizeof ours) == (ssize_t)sizeof ours)
        ok = ours.e_machine == head.e_machine && ours.e_ident[EI_CLASS] == head.e_ident[EI_CLASS];
    close(fd);
    return ok;
}

static void add_file(dl_arena *arena, dl_candidates *c, const char *path, bool override) {
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->at[i].path, path)) return;
    if (is_ours(path)) dl_push(arena, c, (dl_candidate){dl_strdup(arena, path), override});
}

/* The library in every folder that the pattern matches, under its best name there; folders in the
 * order of their names. */
static void add_folders(dl_arena *arena, dl_candidates *c, const char *const *names,
                        const char *pattern, bool override) {
    glob_t found;
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            for (int k = 0; names[k]; k++)
                add_file(arena, c, dl_format(arena, "%s/%s", found.gl_pathv[i], names[k]),
                         override);
    globfree(&found);
}

/* A path of the environment before a pattern, with glob's special characters escaped. */
static const char *literal(dl_arena *arena, const char *path) {
    char *to = dl_alloc(arena, 2 * strlen(path) + 1), *p = to;
    for (; *path; path++) {
        if (strchr("*?[\\", *path)) *p++ = '\\';
        *p++ = *path;
    }
    return to;
}

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The packages under a folder that holds `nvidia`. */
static void add_packages(dl_arena *arena, dl_candidates *c, const char *const *names,
                         const char *folder) {
    add_folders(arena, c, names, dl_format(arena, "%s/nvidia/cu13/lib", folder), false);
    add_folders(arena, c, names, dl_format(arena, "%s/nvidia/*/lib", folder), false);
}

/* The user's own cache: XDG_CACHE_HOME, or HOME/.cache; NULL without either. */
static const char *user_cache(dl_arena *arena) {
    const char *xdg = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    return xdg ? xdg : home ? dl_format(arena, "%s/.cache", home) : NULL;
}

static void add_python(dl_arena *arena, dl_candidates *c, const char *const *names,
                       const char *own) {
    const char *roots[] = {variable("VIRTUAL_ENV"), variable("CONDA_PREFIX")};
    for (int i = 0; i < 2; i++)
        if (roots[i])
            add_packages(
                arena, c, names,
                dl_format(arena, "%s/lib/python3*/site-packages", literal(arena, roots[i])));
    const char *cache = user_cache(arena), *home = variable("HOME");
    if (cache && own)
        add_packages(arena, c, names, dl_format(arena, "%s/%s", literal(arena, cache), own));
    if (home)
        add_packages(
            arena, c, names,
            dl_format(arena, "%s/.local/lib/python3*/site-packages", literal(arena, home)));
    add_packages(arena, c, names, "/usr/local/lib/python3*/*-packages");
    add_packages(arena, c, names, "/usr/lib/python3*/*-packages");
}

const char *dl_cuda_loaded_from(dl_arena *arena, void *handle) {
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map->l_name || !*map->l_name) return NULL;
    return dl_strdup(arena, map->l_name);
}

/* The candidates for these names, whatever the driver's version. */
static dl_candidates search(dl_arena *arena, const char *const *names, const char *override,
                            const char *own) {
    dl_candidates c = {0};
    const char *chosen = variable(override);
    if (chosen) {
        add_file(arena, &c, chosen, true);
        add_folders(arena, &c, names, literal(arena, chosen), true);
        return c;
    }
    for (int i = 0; names[i]; i++) {
        void *handle = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        const char *path = handle ? dl_cuda_loaded_from(arena, handle) : NULL;
        if (path) add_file(arena, &c, path, false);
        if (handle)
            dlclose(handle); /* releases RTLD_NOLOAD's reference; the library stays loaded */
    }
    add_python(arena, &c, names, own);
    const char *conda = variable("CONDA_PREFIX");
    if (conda)
        add_folders(arena, &c, names, dl_format(arena, "%s/lib", literal(arena, conda)), false);
    for (int i = 0; names[i]; i++) dl_push(arena, &c, (dl_candidate){names[i], false});
    const char *roots[] = {variable("CUDA_HOME"), variable("CUDA_PATH"), "/usr/local/cuda"};
    const char *const below[] = {"lib64", "lib", "targets/*/lib"};
    for (int i = 0; i < 3; i++)
        for (int k = 0; roots[i] && k < 3; k++)
            add_folders(arena, &c, names,
                        dl_format(arena, "%s/%s", literal(arena, roots[i]), below[k]), false);
    return c;
}

/* The driver's file under its version in a folder, or NULL; of several the newest one of a name. */
static void *open_version(dl_arena *arena, const char *folder) {
    void *driver = NULL;
    glob_t found;
    if (glob(dl_format(arena, "%s/libcuda.so.[0-9]*.[0-9]*", folder), 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i-- > 0 && !driver;)
            if (is_ours(found.gl_pathv[i]))
                driver = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return driver;
}

void *dl_cuda_driver(const char **why) {
    static const char *const folders[] = {"/usr/lib/*-linux-gnu",
                                          "/usr/lib64",
                                          "/usr/lib",
                                          "/usr/local/nvidia/lib64",
                                          "/usr/local/nvidia/lib",
                                          "/.singularity.d/libs",
                                          "/usr/lib/wsl/lib"};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    *why = driver ? "" : dl_intern(dlerror());
    if (driver) return driver;
    dl_arena *arena = dl_arena_new(NULL);
    const char *path = variable("LD_LIBRARY_PATH");
    for (size_t n; path && *path && !driver; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        if (n) driver = open_version(arena, literal(arena, dl_strndup(arena, path, n)));
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !driver; i++)
        driver = open_version(arena, folders[i]);
    dl_arena_free(arena);
    return driver;
}

int dl_cuda_version_of(void *driver, int *version) {
    int (*get)(int *version);
    void *address =
        dlsym(driver, "cuDriverGetVersion"); /* drivers of all times have it under this name */
    *version = 0;
    if (!address) return 0;
    memcpy(&get, &address, sizeof get);
    int result = get(version);
    if (result) *version = 0;
    return result;
}

/* The major version of CUDA that this machine's driver is of, or 0: it has none. */
static int driver_major(void) {
    const char *why;
    void *driver = dl_cuda_driver(&why);
    int version = 0;
    if (driver) dl_cuda_version_of(driver, &version);
    return version / 1000;
}

dl_candidates dl_cuda_search(dl_arena *arena, const char *const *names, const char *override,
                             const char *own) {
    const char *first[MOST_NAMES + 1] = {0}, *then[MOST_NAMES + 1] = {0};
    int driver = driver_major(), n = 0, newer = 0;
    for (int i = 0; names[i] && i < MOST_NAMES; i++) {
        const char *dot = strrchr(names[i], '.');
        bool fits = driver == 0 || !dot || atoi(dot + 1) <= driver || variable(override);
        *(fits ? &first[n++] : &then[newer++]) = names[i];
    }
    dl_candidates c = search(arena, first, override, own);
    const dl_candidates more = newer ? search(arena, then, override, own) : (dl_candidates){0};
    for (int i = 0; i < more.n; i++) dl_push(arena, &c, more.at[i]);
    return c;
}

const char *dl_cuda_places(dl_arena *arena, const char *override, const char *own) {
    const char *chosen = variable(override), *cache = user_cache(arena);
    if (chosen) return dl_format(arena, "%s=%s alone, because it is set", override, chosen);
    const char *folder =
        own ? dl_format(arena, "%s/%s", cache ? cache : "~/.cache", own) : "the user";
    return dl_format(
        arena,
        "libraries already loaded, Python packages (of VIRTUAL_ENV, CONDA_PREFIX, %s and the "
        "system), CONDA_PREFIX/lib, the loader's path, CUDA_HOME, CUDA_PATH and /usr/local/cuda",
        folder);
}
