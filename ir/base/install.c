#include "ir/base/install.h"

#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A loaded object is looked for by an address in it. */
typedef struct {
    uintptr_t address;
    const char *name; /* "" is the program itself */
} loaded_object;

static int find_object(struct dl_phdr_info *info, size_t size, void *of) {
    (void)size;
    loaded_object *wanted = of;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && wanted->address >= start &&
            wanted->address - start < info->dlpi_phdr[i].p_memsz)
            return wanted->name = info->dlpi_name, 1;
    }
    return 0;
}

static bool find_own_file(char path[PATH_MAX]) {
    static const char here; /* an address in this object */
    loaded_object own = {.address = (uintptr_t)&here};
    dl_iterate_phdr(find_object, &own);
    return realpath(own.name && *own.name ? own.name : "/proc/self/exe", path) != NULL;
}

bool dl_install_own_dir(char *dir, size_t n) {
    char path[PATH_MAX];
    if (!find_own_file(path)) return false;
    char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= n) return false;
    *slash = 0;
    strcpy(dir, path);
    return true;
}

/* Cuts "/bin" off "/usr/bin". */
static bool cut_folder(char *path, const char *folder) {
    const size_t n = strlen(path), k = strlen(folder);
    if (n <= k || path[n - k - 1] != '/' || strcmp(path + n - k, folder) != 0) return false;
    path[n - k - 1] = 0;
    return true;
}

static bool join(const char *prefix, const char *folder, char *path, size_t n) {
    const int length = *folder == '/' ? snprintf(path, n, "%s", folder)
                                      : snprintf(path, n, "%s/%s", prefix, folder);
    return length >= 0 && (size_t)length < n;
}

bool dl_install_own_path(const char *folder, char *path, size_t n) {
    char prefix[PATH_MAX];
    return dl_install_own_dir(prefix, sizeof prefix) &&
           (cut_folder(prefix, DL_BINDIR) || cut_folder(prefix, DL_LIBDIR)) &&
           join(prefix, folder, path, n);
}

bool dl_install_configured_path(const char *folder, char *path, size_t n) {
    return join(DL_PREFIX, folder, path, n);
}

bool dl_install_trusts(uid_t owner) {
    char path[PATH_MAX];
    struct stat st;
    if (owner == geteuid() || owner == 0) return true;
    return find_own_file(path) && stat(path, &st) == 0 && owner == st.st_uid;
}
