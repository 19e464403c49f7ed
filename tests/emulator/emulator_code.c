/* The emulated driver's modules, which are emulated objects, its launches, and graphs, which are
 * lists of launches. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "ir/plan/plan.h"
#include "tests/emulator/emulator.h"

/* ---- modules and launches ---- */

/* The size of an image. A driver gets its address alone; an ELF file's tables give its end. */
static size_t elf_bytes(const void *image) {
    Elf64_Ehdr h;
    memcpy(&h, image, EI_NIDENT);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64) return 0;
    memcpy(&h, image, sizeof h);
    size_t end = h.e_shoff + (size_t)h.e_shnum * h.e_shentsize;
    for (int i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, (const char *)image + h.e_shoff + (size_t)i * h.e_shentsize, sizeof s);
        if (s.sh_type != SHT_NOBITS && s.sh_offset + s.sh_size > end) end = s.sh_offset + s.sh_size;
    }
    return end;
}

static dlr_cu_result module_load(dlr_cu_module *module, const void *image) {
    dl_error err = {0};
    dlr_cu_result r = emulator_outside(false);
    if (r) return r;
    if (gpu.options.fail_load) return gpu.options.fail_load;
    struct CUmod_st *m = calloc(1, sizeof *m);
    void *address = NULL;
    bool loaded = m && dl_object_load(&m->object, image, elf_bytes(image), &err);
    if (loaded) address = dl_object_find(&m->object, "dl_emulated_launch");
    if (!address) {
        snprintf(gpu.detail, sizeof gpu.detail, "%s",
                 loaded ? "the object has no function dl_emulated_launch" : err.message);
        if (loaded) dl_object_unload(&m->object);
        free(m);
        return DLR_CU_INVALID_IMAGE;
    }
    memcpy(&m->launch, &address, sizeof address);
    if ((address = dl_object_find(&m->object, "dl_emulated_arguments")))
        memcpy(&m->arguments, &address, sizeof address);
    m->bytes = elf_bytes(image), gpu.code += m->bytes;
    *module = m;
    PUSH(&gpu.modules, m);
    return 0;
}
static void free_module(struct CUmod_st *m) {
    for (int i = 0; i < m->functions.n; i++) free(m->functions.at[i]);
    dl_object_unload(&m->object);
    gpu.code -= m->bytes;
    free(m->functions.at), free(m);
}
static dlr_cu_result module_unload(dlr_cu_module m) {
    emulator_drain_all();
    REMOVE(&gpu.modules, m);
    return free_module(m), 0;
}
static dlr_cu_result module_function(dlr_cu_function *function, dlr_cu_module m, const char *name) {
    char error[400];
    /* a function has one handle, however often it is looked up */
    for (int i = 0; i < m->functions.n; i++)
        if (!strcmp(m->functions.at[i]->name, name)) return *function = m->functions.at[i], 0;
    if (m->launch(name, -1, NULL, 0, 32, 0, 0, error, sizeof error) != 0) return DLR_CU_NOT_FOUND;
    struct CUfunc_st *f = malloc(sizeof *f + strlen(name) + 1);
    if (!f) return DLR_CU_OUT_OF_MEMORY;
    *f = (struct CUfunc_st){
        .launch = m->launch, .shared = 48 << 10, .pointers = MOST_ARGS, .nargs = -1};
    if (m->arguments) f->nargs = m->arguments(name, &f->maps, &f->pointers, f->table);
    strcpy(f->name, name);
    PUSH(&m->functions, f);
    *function = f;
    return 0;
}
static dlr_cu_result function_set(dlr_cu_function f, int attribute, int value) {
    if (attribute != DLR_CU_SHARED_DYNAMIC_MOST || value < 0 || value > emulator_shared())
        return DLR_CU_INVALID_VALUE;
    return f->shared = value, 0;
}
static dlr_cu_result function_get(int *value, int attribute, dlr_cu_function f) {
    *value = attribute == DLR_CU_SHARED_DYNAMIC_MOST ? f->shared : 0;
    return attribute == DLR_CU_SHARED_STATIC || attribute == DLR_CU_SHARED_DYNAMIC_MOST
               ? 0
               : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result launch(dlr_cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                            dlr_cu_stream s, void **params, void **extra) {
    bool ok = grid_x > 0 && grid_x <= INT32_MAX && grid_y == 1 && grid_z == 1 && block_x > 0 &&
              block_x <= 1024 && block_y == 1 && block_z == 1 && shared <= (unsigned)f->shared &&
              params && !extra;
    int n = 0;
    while (ok && n <= MOST_ARGS && params[n]) n++;
    ok = ok && n <= MOST_ARGS && (f->nargs < 0 || n == f->nargs);
    size_t maps = (size_t)DL_MAP_BYTES * (size_t)f->maps,
           words = (size_t)(f->table[0] ? f->table[0] + f->table[1] : n - f->maps),
           bytes = maps + sizeof(uint64_t) * words;
    if (!ok || bytes / sizeof(uint64_t) > MOST_ARGS) return DLR_CU_INVALID_VALUE;
    char *args = malloc(bytes + 1);
    if (!args) return DLR_CU_OUT_OF_MEMORY;
    if (f->table[0]) memcpy(args, params[0], bytes);
    for (int i = 0; i < n && !f->table[0]; i++) {
        bool map = i < f->maps;
        size_t at = map ? (size_t)DL_MAP_BYTES * (size_t)i
                        : maps + sizeof(uint64_t) * (size_t)(i - f->maps);
        memcpy(args + at, params[i], map ? (size_t)DL_MAP_BYTES : sizeof(uint64_t));
    }
    return emulator_add(s, (work){.kind = LAUNCH,
                                  .function = f,
                                  .grid = grid_x,
                                  .block = block_x,
                                  .shared = shared,
                                  .bytes_of_args = bytes,
                                  .args = (uint64_t *)(void *)args});
}

/* Checks a tensor map as the driver's documentation specifies. Whether its memory exists is checked
 * when a kernel runs. `m` has the parameters that one of the two functions has alone. */
static dlr_cu_result encode(void *map, dl_tensor_map m, int type, unsigned axes, void *address,
                            const uint64_t *size, const uint64_t *step, const uint32_t *each,
                            int interleave, int swizzle, int promotion, int outside) {
    static const struct {
        int type;
        dl_dtype dtype;
    } types[] = {{DLR_CU_MAP_F16, DL_F16}, {DLR_CU_MAP_F32, DL_F32}, {DLR_CU_MAP_BF16, DL_BF16}};
    m.dtype = DL_NDTYPES, m.swizzle = swizzle == DLR_CU_MAP_SWIZZLE_64 ? 64 : 128;
    bool ok = (uintptr_t)map % DL_MAP_ALIGN == 0 && (int)axes == dl_tensor_map_axes(m.windows) &&
              (uintptr_t)address % 16 == 0 && interleave == DLR_CU_MAP_INTERLEAVE_NONE &&
              outside == DLR_CU_MAP_OUTSIDE_ZERO &&
              (swizzle == DLR_CU_MAP_SWIZZLE_64 || swizzle == DLR_CU_MAP_SWIZZLE_128) &&
              promotion >= 0 && promotion <= 3;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) m.dtype = types[i].dtype;
    for (int i = 0; ok && i < (int)axes; i++) {
        bool spatial = i >= 1 && i <= m.windows;
        ok = (spatial || each[i] == 1) && size[i] <= (uint64_t)1 << 32;
        m.size[i] = (int64_t)size[i];
        if (spatial) m.traversal[i - 1] = each[i] <= 255 ? (int)each[i] : 0;
        if (i < (int)axes - 1) m.step[i] = (int64_t)step[i];
    }
    if (!ok || m.dtype == DL_NDTYPES || !dl_tensor_map_fits(&m, INT64_MAX))
        return DLR_CU_INVALID_VALUE;
    const dl_emulated_map e = dl_tensor_map_emulated(&m, (uint64_t)(uintptr_t)address);
    memset(map, 0, DL_MAP_BYTES), memcpy(map, &e, sizeof e);
    return 0;
}

static int small(uint32_t n) { return n <= 256 ? (int)n : 0; }

static dlr_cu_result encode_tiled(void *map, int type, unsigned axes, void *address,
                                  const uint64_t *size, const uint64_t *step, const uint32_t *box,
                                  const uint32_t *each, int interleave, int swizzle, int promotion,
                                  int outside) {
    dl_tensor_map m = {0};
    for (int i = 0; i < DL_MAP_BOX && axes == DL_MAP_BOX; i++) m.box[i] = small(box[i]);
    return encode(map, m, type, axes, address, size, step, each, interleave, swizzle, promotion,
                  outside);
}

static dlr_cu_result encode_im2col(void *map, int type, unsigned axes, void *address,
                                   const uint64_t *size, const uint64_t *step, const int *lower,
                                   const int *upper, uint32_t channels, uint32_t pixels,
                                   const uint32_t *each, int interleave, int swizzle, int promotion,
                                   int outside) {
    if (axes < 3 || axes > DL_MAP_AXES) return DLR_CU_INVALID_VALUE;
    dl_tensor_map m = {.windows = (int)axes - 2, .box = {small(channels), small(pixels), 1}};
    for (int i = 0; i < m.windows; i++) m.lower[i] = lower[i], m.upper[i] = upper[i];
    return encode(map, m, type, axes, address, size, step, each, interleave, swizzle, promotion,
                  outside);
}

/* ---- graphs ---- */

enum { NODE = 3000 /* bytes of device memory that a graph's launch keeps */ };

static dlr_cu_result capture_begin(dlr_cu_stream s, int mode) {
    dlr_cu_result r = emulator_ready();
    if (r) return r;
    if (s->capture || mode != DLR_CU_CAPTURE_THREAD_LOCAL) return DLR_CU_INVALID_VALUE;
    s->lane = 0;
    s->capture = calloc(1, sizeof *s->capture);
    if (!s->capture) return DLR_CU_OUT_OF_MEMORY;
    return s->capture->users = s->capture->lanes = 1, 0;
}
/* Whether the last work of every other stream is an event that somebody waits for. */
static bool is_joined(const struct CUgraph_st *g) {
    for (int lane = 1; lane < g->lanes; lane++) {
        int last = -1;
        bool waited = false;
        for (int i = 0; i < g->list.n; i++)
            if (g->list.at[i].lane == lane) last = i;
        for (int i = last + 1; i < g->list.n; i++)
            waited |= g->list.at[i].kind == WAIT && g->list.at[i].target == last;
        if (!waited) return false;
    }
    return true;
}
static dlr_cu_result capture_end(dlr_cu_stream s, dlr_cu_graph *graph) {
    struct CUgraph_st *g = s->capture;
    if (!g || s->lane) return DLR_CU_INVALID_VALUE;
    for (int i = 0; i < gpu.streams.n; i++)
        if (gpu.streams.at[i]->capture == g)
            gpu.streams.at[i]->capture = NULL, gpu.streams.at[i]->lane = 0;
    dlr_cu_result r = g->invalid      ? DLR_CU_STREAM_CAPTURE_INVALIDATED
                      : !is_joined(g) ? DLR_CU_STREAM_CAPTURE_UNJOINED
                                      : 0;
    if (r == 0 && !g->ran) {
        g->ran = calloc((size_t)g->list.n + 1, sizeof *g->ran);
        g->at = calloc((size_t)g->lanes, sizeof *g->at);
        if (!g->ran || !g->at) r = DLR_CU_OUT_OF_MEMORY;
    }
    *graph = r ? NULL : g;
    if (r) emulator_unuse(g);
    return r;
}
/* A graph whose streams have priorities must keep them: a driver would drop them in silence. */
static dlr_cu_result instantiate(dlr_cu_graph_exec *exec, dlr_cu_graph graph, uint64_t flags) {
    bool keeps = flags == DLR_CU_GRAPH_NODE_PRIORITY;
    if ((flags && !keeps) || (graph->ranked && !keeps) || emulator_captures())
        return DLR_CU_INVALID_VALUE;
    if (!(*exec = malloc(sizeof **exec))) return DLR_CU_OUT_OF_MEMORY;
    graph->users++;
    gpu.code += NODE * (size_t)graph->list.n;
    PUSH(&gpu.execs, *exec);
    return **exec = (struct CUgraphExec_st){graph}, 0;
}
static dlr_cu_result upload(dlr_cu_graph_exec exec, dlr_cu_stream s) {
    (void)exec, (void)s;
    return gpu.fault;
}
static dlr_cu_result graph_launch(dlr_cu_graph_exec exec, dlr_cu_stream s) {
    exec->graph->users++;
    dlr_cu_result r = emulator_add(s, (work){.kind = GRAPH, .graph = exec->graph});
    if (r) exec->graph->users--;
    return r;
}
static void free_exec(struct CUgraphExec_st *exec) {
    gpu.code -= NODE * (size_t)exec->graph->list.n;
    emulator_unuse(exec->graph), free(exec);
}
static dlr_cu_result exec_destroy(dlr_cu_graph_exec exec) {
    REMOVE(&gpu.execs, exec);
    return free_exec(exec), 0;
}
static dlr_cu_result graph_destroy(dlr_cu_graph graph) { return emulator_unuse(graph), 0; }

void emulator_drop_code(void) {
    for (int i = 0; i < gpu.execs.n; i++) free_exec(gpu.execs.at[i]);
    for (int i = 0; i < gpu.modules.n; i++) free_module(gpu.modules.at[i]);
    gpu.execs.n = gpu.modules.n = 0;
}

void emulator_code(dlr_driver *t) {
    t->StreamBeginCapture = capture_begin;
    t->StreamEndCapture = capture_end;
    t->ModuleLoadData = module_load;
    t->ModuleUnload = module_unload;
    t->ModuleGetFunction = module_function;
    t->FuncSetAttribute = function_set;
    t->FuncGetAttribute = function_get;
    t->LaunchKernel = launch;
    t->GraphInstantiateWithFlags = instantiate;
    t->GraphUpload = upload;
    t->GraphLaunch = graph_launch;
    t->GraphExecDestroy = exec_destroy;
    t->GraphDestroy = graph_destroy;
    t->TensorMapEncodeTiled = encode_tiled;
    t->TensorMapEncodeIm2col = encode_im2col;
}
