/* Opens, searches and loads files of stored tensors of any format. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "runtime/formats/stored_internal.h"

const char *dlr_st_bare_name(const char *name) {
    static const char *const prefixes[] = {"module.", "_orig_mod."};
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < 2; i++) {
            size_t n = strlen(prefixes[i]);
            if (strncmp(name, prefixes[i], n) == 0 && name[n]) name += n, again = true;
        }
    }
    return name;
}

static int by_name(const void *a, const void *b, void *tensors) {
    const dlr_st_tensor *t = tensors;
    return strcmp(t[*(const int *)a].name, t[*(const int *)b].name);
}

/* Names are unique in the file, but need not be after stripping. */
bool dlr_st_index_names(dlr_st_file *f, dlr_st_flags flags, dl_error *err) {
    f->tensors = f->private->tensors;
    for (int i = 0; i < f->n && flags & DLR_ST_STRIP; i++)
        f->private->tensors[i].name = dlr_st_bare_name(f->tensors[i].name);
    int *order = f->private->by_name = DL_NEWS(f->private->arena, int, f->n);
    for (int i = 0; i < f->n; i++) order[i] = i;
    if (f->n > 1) qsort_r(order, (size_t)f->n, sizeof *order, by_name, (void *)f->tensors);
    for (int i = 1; i < f->n; i++)
        if (strcmp(f->tensors[order[i - 1]].name, f->tensors[order[i]].name) == 0)
            return dl_fail(err, DL_INPUT,
                           "%s: two tensors are called '%.200s' once prefixes are dropped", f->path,
                           f->tensors[order[i]].name);
    return true;
}

/* The reader of a file's format, by its first bytes; NULL: failed. */
static dlr_st_describe *find_format(const dlr_st_file *f, dl_error *err) {
    unsigned char head[16];
    size_t n = f->private->size < sizeof head ? (size_t)f->private->size : sizeof head;
    if (!dl_read_at(f->private->fd, f->path, head, n, 0, err)) return NULL;
    return dlr_torch_begins(head, n) ? dlr_torch_describe : dlr_safetensors_describe;
}

dlr_st_file *dlr_st_open(const char *path, dlr_st_flags flags, dl_error *err) {
    int fd = flags & DLR_ST_INPUT ? dl_input_open(path, err) : dl_file_open(path, err);
    struct stat st;
    if (fd < 0) return NULL;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_st_file *f = DL_NEW(arena, dlr_st_file);
    f->path = dl_strdup(arena, path);
    f->private = DL_NEW(arena, struct dlr_st_private);
    *f->private = (struct dlr_st_private){.arena = arena, .fd = fd};
    bool ok = fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", path);
    if (ok && st.st_size > 0) {
        f->private->size = (uint64_t)st.st_size;
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        ok = map != MAP_FAILED || dl_fail_errno(err, DL_IO, "cannot map %s", path);
        if (ok) f->private->map = map;
    }
    dlr_st_describe *describe = ok ? find_format(f, err) : NULL;
    if (describe && describe(f, err) && dlr_st_index_names(f, flags, err)) return f;
    dlr_st_close(f);
    return NULL;
}

void dlr_st_close(dlr_st_file *f) {
    if (!f) return;
    struct dlr_st_private *p = f->private;
    for (int i = 0; i < p->n_files; i++) dlr_st_close(p->files[i]);
    if (p->map) munmap(p->map, (size_t)p->size);
    if (p->fd >= 0) close(p->fd);
    dl_arena_free(p->arena);
}

const dlr_st_tensor *dlr_st_find(const dlr_st_file *f, const char *name) {
    for (int low = 0, high = f->n; low < high;) {
        int middle = low + (high - low) / 2;
        const dlr_st_tensor *t = &f->tensors[f->private->by_name[middle]];
        int c = strcmp(name, t->name);
        if (c == 0) return t;
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *dlr_st_metadata(const dlr_st_file *f, const char *key) {
    for (int i = 0; i < f->n_metadata; i++)
        if (strcmp(f->metadata[i].key, key) == 0) return f->metadata[i].value;
    return NULL;
}

bool dlr_st_load(const dlr_st_file *f, const dlr_st_tensor *t, void *dst, dl_error *err) {
    return t->joined ? dlr_st_join(t, dst, err) : dlr_st_load_unjoined(f, t, dst, err);
}
