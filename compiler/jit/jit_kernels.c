#include "compiler/jit/jit_kernels.h"

#include <string.h>

#include "ir/base/hash.h"
#include "ir/base/output.h"

/* A relocatable object with some kernels, in the cache and in the work folder. */
typedef struct {
    uint64_t key;
    const char *path; /* NULL: it is not there, or of no use */
} group;

/* A row of an index: a kernel, and the group that holds it. */
typedef struct {
    uint64_t kernel, group;
} row;
typedef DL_ARRAY(row) rows;
enum { MOST_ROWS = 1 << 14 }; /* those that were added last */

/* A source of missing kernels. */
typedef struct {
    int object;
    DL_ARRAY(int) texts; /* of this object */
    dl_buf text;
    uint64_t key; /* of the group that it becomes */
} source;

typedef DL_ARRAY(const char *) names;

typedef struct {
    dl_arena *arena;
    const dl_jit_way *way;
    const dl_cache *cache;
    const char *work;
    const dl_console *out;
    const dl_plan_object *const *objects;
    uint64_t *indices; /* by object: the key of its index */
    uint64_t **keys;   /* by object and kernel */
    names *files;      /* by object */
    DL_ARRAY(group) groups;
    DL_ARRAY(source) sources;
} search;

/* Writes an entry of the cache to where it can be linked, once. */
static const char *take_group(search *s, uint64_t key) {
    for (int i = 0; i < s->groups.n; i++)
        if (s->groups.at[i].key == key) return s->groups.at[i].path;
    group g = {.key = key};
    dl_jit_job job = {.kind = DL_JIT_KERNELS};
    dl_error ignored = {0}; /* its kernels are compiled again */
    job.image = dl_cache_find(s->arena, s->cache, key, &job.bytes);
    const char *path = dl_format(s->arena, "%s/g%d.o", s->work, s->groups.n);
    if (job.image && dl_jit_loads(&job, &ignored) &&
        dl_write_file(path, (const char *)job.image, job.bytes, &ignored))
        g.path = path;
    dl_push(s->arena, &s->groups, g);
    return g.path;
}

static void add_file(search *s, int object, const char *path) {
    for (int i = 0; i < s->files[object].n; i++)
        if (!strcmp(s->files[object].at[i], path)) return;
    dl_push(s->arena, &s->files[object], path);
}

/* ---- the index ---- */

static rows read_index(const search *s, uint64_t key) {
    rows found = {0};
    size_t bytes = 0;
    const unsigned char *data = dl_cache_find(s->arena, s->cache, key, &bytes);
    for (size_t at = 0; data && at + sizeof(row) <= bytes; at += sizeof(row)) {
        row r;
        memcpy(&r, data + at, sizeof r);
        dl_push(s->arena, &found, r);
    }
    return found;
}

/* Adds the kernels of an object that were compiled to what its index has by now. */
static bool extend_index(search *s, int object, dl_error *err) {
    const uint64_t key = s->indices[object];
    rows made = {0};
    for (int i = 0; i < s->sources.n; i++) {
        const source *from = &s->sources.at[i];
        for (int k = 0; k < from->texts.n && from->object == object; k++)
            dl_push(s->arena, &made, ((row){s->keys[object][from->texts.at[k]], from->key}));
    }
    if (!made.n) return true;
    rows all = read_index(s, key);
    for (int i = 0; i < made.n; i++) dl_push(s->arena, &all, made.at[i]);
    const int most = all.n < MOST_ROWS ? all.n : MOST_ROWS;
    return dl_cache_keep(s->cache, key, all.at + all.n - most, sizeof(row) * (size_t)most, s->out,
                         err);
}

static bool find_kernel(search *s, int object, const rows *index, uint64_t key) {
    for (int i = index->n - 1; i >= 0; i--) {
        if (index->at[i].kernel != key) continue;
        const char *path = take_group(s, index->at[i].group);
        if (path) return add_file(s, object, path), true;
    }
    return false;
}

/* ---- what is missing ---- */

/* Does the object hold an earlier kernel of the same text? */
static bool is_twin(const search *s, int object, int kernel) {
    for (int i = 0; i < kernel; i++)
        if (s->keys[object][i] == s->keys[object][kernel]) return true;
    return false;
}

/* Puts missing kernels into sources: as many as compile side by side, of nearly equal length, but
 * none so short that reading the opening takes most of its time. */
static void put_sources(search *s, int object, int n, const int *missing) {
    enum { SHORT = 16 << 10 };
    const dl_plan_object *o = s->objects[object];
    size_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += strlen(o->texts.at[missing[i]].text);
    int most = dl_jit_at_a_time();
    if ((size_t)most > bytes / SHORT + 1) most = (int)(bytes / SHORT + 1);
    const int first = s->sources.n;
    for (int i = 0; i < most && i < n; i++) {
        dl_push(s->arena, &s->sources, (source){.object = object});
        dl_puts(&s->sources.at[s->sources.n - 1].text, o->opening);
    }
    for (int i = 0; i < n; i++) {
        source *to = &s->sources.at[first];
        for (int k = first + 1; k < s->sources.n; k++)
            if (s->sources.at[k].text.n < to->text.n) to = &s->sources.at[k];
        dl_push(s->arena, &to->texts, missing[i]);
        dl_puts(&to->text, o->texts.at[missing[i]].text);
    }
}

static void find_missing(search *s, int object) {
    const dl_plan_object *o = s->objects[object];
    const uint64_t opening = dl_hash_str(o->opening, dl_hash_str("kernel", s->way->cc.key));
    int *missing = DL_NEWS(s->arena, int, o->texts.n + 1), n = 0;
    s->indices[object] = dl_hash_str("index", opening);
    const rows index = read_index(s, s->indices[object]);
    s->keys[object] = DL_NEWS(s->arena, uint64_t, o->texts.n + 1);
    for (int i = 0; i < o->texts.n; i++) {
        s->keys[object][i] = dl_hash_str(o->texts.at[i].text, opening);
        if (!is_twin(s, object, i) && !find_kernel(s, object, &index, s->keys[object][i]))
            missing[n++] = i;
    }
    if (n) put_sources(s, object, n, missing);
}

static bool compile_sources(search *s, int *stopped, dl_error *err) {
    const int n = s->sources.n;
    if (!n) return true;
    dl_jit_job *jobs = DL_NEWS(s->arena, dl_jit_job, n);
    for (int i = 0; i < n; i++)
        jobs[i] = (dl_jit_job){.kind = DL_JIT_KERNELS, .source = s->sources.at[i].text.at};
    bool ok = dl_jit_run(s->arena, s->way, n, jobs, s->work, s->out, stopped, err);
    for (int i = 0; i < n && ok; i++) {
        source *from = &s->sources.at[i];
        from->key = dl_hash_str(from->text.at, dl_hash_str("kernels", s->way->cc.key));
        add_file(s, from->object, jobs[i].path);
        ok = dl_cache_keep(s->cache, from->key, jobs[i].image, jobs[i].bytes, s->out, err);
    }
    return ok;
}

/* ---- linking ---- */

/* Gives the kernels the names that they have in the plan, and drops what they do not need: kernels
 * of other plans, the libraries' other loops. */
static bool put_linkage(search *s, int object, dl_jit_linkage *to, dl_error *err) {
    const dl_plan_object *o = s->objects[object];
    names flags = {0};
    dl_buf exports = {0};
    dl_push(s->arena, &flags, "-Wl,--gc-sections");
    /* Two files may hold one kernel, which two plans compiled at once. Its name is by its text, so
     * that either will do. */
    dl_push(s->arena, &flags, "-Wl,-z,muldefs");
    dl_puts(&exports, "{\n  global:\n");
    for (int i = 0; i < o->texts.n; i++)
        for (int phase = 0; phase < o->texts.at[i].phases; phase++) {
            const dl_plan_text *p = &o->texts.at[i];
            dl_push(s->arena, &flags,
                    dl_format(s->arena, "-Wl,-u,%s_%d,--defsym=%s_%d=%s_%d", p->symbol, phase,
                              p->name, phase, p->symbol, phase));
            dl_putf(&exports, "    %s_%d;\n", p->name, phase);
        }
    dl_puts(&exports, "  local: *;\n};\n");
    const char *path = dl_format(s->arena, "%s/x%d.map", s->work, object);
    dl_push(s->arena, &flags, dl_format(s->arena, "-Wl,--version-script=%s", path));
    dl_push(s->arena, &flags, NULL);
    *to = (dl_jit_linkage){
        .nfiles = s->files[object].n, .files = s->files[object].at, .flags = flags.at};
    bool ok = dl_write_file(path, exports.at, exports.n, err);
    dl_buf_free(&exports);
    return ok;
}

bool dl_jit_find_kernels(dl_arena *arena, const dl_jit_way *way, const dl_cache *cache, int n,
                         const dl_plan_object *const *objects, const char *work,
                         const dl_console *out, int *stopped, dl_jit_linkage *linkage,
                         dl_error *err) {
    search s = {.arena = arena,
                .way = way,
                .cache = cache,
                .work = work,
                .out = out,
                .objects = objects,
                .indices = DL_NEWS(arena, uint64_t, n + 1),
                .keys = DL_NEWS(arena, uint64_t *, n + 1),
                .files = DL_NEWS(arena, names, n + 1)};
    for (int i = 0; i < n; i++)
        if (objects[i]->texts.n) find_missing(&s, i);
    bool ok = compile_sources(&s, stopped, err);
    for (int i = 0; i < n && ok; i++) ok = extend_index(&s, i, err);
    for (int i = 0; i < s.sources.n; i++) dl_buf_free(&s.sources.at[i].text);
    for (int i = 0; i < n && ok && !*stopped; i++)
        if (objects[i]->texts.n) ok = put_linkage(&s, i, &linkage[i], err);
    return ok;
}
