/* Writes the inputs that binary formats start from into a directory a format, by our own writers,
 * so that they are always of the present version:   make_seeds DIR */
#include <stdio.h>
#include <string.h>

#include "dldata/jpeg_file.h"
#include "ir/base/dirs.h"
#include "ir/base/output.h"
#include "runtime/data/hdf5_facts.h"
#include "runtime/formats/checkpoint_internal.h"
#include "runtime/formats/torch_file.h"
#include "tests/unit/plan_fixture.h"

static dl_arena *arena;
static dl_error err;

static const char *in(const char *dir, const char *format, const char *name) {
    const char *folder = dl_format(arena, "%s/%s", dir, format);
    return dl_make_dirs(folder, 0700, &err) ? dl_format(arena, "%s/%s", folder, name) : NULL;
}

static bool make_safetensors(const char *dir) {
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    static const double d[2] = {1e300, -0.0};
    static const uint16_t h[3] = {0x3c00, 0x7c00, 0x0001};
    static const unsigned char truth[4] = {1, 0, 1, 1};
    const dlr_st_tensor all[] = {
        {.name = "conv.weight", .dtype = DLR_ST_F32, .rank = 2, .shape = {2, 3}, .data = w},
        {.name = "module.conv.bias", .dtype = DLR_ST_F64, .rank = 1, .shape = {2}, .data = d},
        {.name = "_orig_mod.half", .dtype = DLR_ST_F16, .rank = 1, .shape = {3}, .data = h},
        {.name = "brain", .dtype = DLR_ST_BF16, .rank = 1, .shape = {3}, .data = h},
        {.name = "mask", .dtype = DLR_ST_BOOL, .rank = 1, .shape = {4}, .data = truth},
        {.name = "none", .dtype = DLR_ST_F32, .rank = 2, .shape = {0, 5}, .data = w},
        {.name = "scalar", .dtype = DLR_ST_F32, .rank = 0, .data = w},
    };
    const dlr_st_meta meta[] = {{"format", "pt"}, {"model", "U-Net \u00e9"}};
    dlr_st_content content = {.tensors = all, .n = 7, .metadata = meta, .n_metadata = 2};
    if (!dlr_st_write(in(dir, "safetensors", "seven"), &content, NULL, &err)) return false;
    content.n = 1, content.n_metadata = 0;
    if (!dlr_st_write(in(dir, "safetensors", "one"), &content, NULL, &err)) return false;
    const dlr_st_meta boxes = {DLR_ST_BOXES, "{\"conv.weight\": {\"" DLR_ST_OFFSETS "\": [0, 0]}}"};
    content.metadata = &boxes, content.n_metadata = 1;
    return dlr_st_write(in(dir, "safetensors", "box"), &content, NULL, &err);
}

static dlr_torch_value text(const char *v) {
    return (dlr_torch_value){.kind = DLR_TORCH_TEXT, .text = v};
}
static dlr_torch_value whole(int64_t v) {
    return (dlr_torch_value){.kind = DLR_TORCH_INT, .integer = v};
}
static dlr_torch_value real(double v) {
    return (dlr_torch_value){.kind = DLR_TORCH_REAL, .real = v};
}

static dlr_torch_value container(dlr_torch_kind kind, const dlr_torch_value *at, int n) {
    dlr_torch_items *items = DL_NEW(arena, dlr_torch_items);
    dlr_torch_value *own = DL_NEWS(arena, dlr_torch_value, n + 1);
    memcpy(own, at, (size_t)n * sizeof *own);
    *items = (dlr_torch_items){.at = own, .n = n};
    return (dlr_torch_value){.kind = kind, .items = items};
}

/* A run to go on from: one parameter and two moments of it. */
static bool make_run(const char *dir, const char *name, const char *first, const char *second) {
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    dlr_st_tensor all[3];
    for (int i = 0; i < 3; i++)
        all[i] = (dlr_st_tensor){
            .name = "w", .dtype = DLR_ST_F32, .rank = 2, .shape = {2, 3}, .data = w};
    dlr_st_content tensors = {.tensors = all, .n = 3};
#define TENSOR(i) ((dlr_torch_value){.kind = DLR_TORCH_TENSOR, .tensor = &all[i]})
#define MAP(...)                                                                                   \
    container(DLR_TORCH_DICT, (dlr_torch_value[]){__VA_ARGS__},                                    \
              (int)(sizeof(dlr_torch_value[]){__VA_ARGS__} / sizeof(dlr_torch_value)))
    dlr_torch_value zero = whole(0);
    dlr_torch_value betas =
        container(DLR_TORCH_TUPLE, (dlr_torch_value[]){real(0.9), real(0.999)}, 2);
    dlr_torch_value group = MAP(text("lr"), real(0.1), text("betas"), betas, text("amsgrad"),
                                real(0), text("params"), container(DLR_TORCH_LIST, &zero, 1));
    dlr_torch_value state =
        MAP(text(first), TENSOR(1), text(second), TENSOR(2), text("step"), real(3));
    if (strcmp(second, "step") == 0) state = MAP(text(first), TENSOR(1));
    dlr_torch_value optimizer = MAP(text("state"), MAP(whole(0), state), text("param_groups"),
                                    container(DLR_TORCH_LIST, &group, 1));
    dlr_torch_value root =
        MAP(text("iters"), whole(3), text("epoch"), whole(2), text("model_state"),
            MAP(text("w"), TENSOR(0)), text("optimizer_state_dict"), optimizer,
            text("scheduler_state_dict"),
            MAP(text("best"), real(0.5), text("num_bad_epochs"), whole(1)));
#undef MAP
#undef TENSOR
    return dlr_torch_write(in(dir, "torch", name), &root, &tensors, NULL, &err);
}

static bool make_torch(const char *dir) {
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    static const unsigned char truth[4] = {1, 0, 1, 1};
    const dlr_st_tensor all[] = {
        {.name = "module.w", .dtype = DLR_ST_F32, .rank = 2, .shape = {2, 3}, .data = w},
        {.name = "mask", .dtype = DLR_ST_BOOL, .rank = 1, .shape = {4}, .data = truth},
        {.name = "none", .dtype = DLR_ST_F16, .rank = 2, .shape = {0, 5}, .data = w},
    };
    dlr_st_content content = {.tensors = all, .n = 3};
    if (!dlr_st_write(in(dir, "torch", "state.pt"), &content, NULL, &err)) return false;
    dlr_torch_value state[] = {{.kind = DLR_TORCH_TEXT, .text = "w"},
                               {.kind = DLR_TORCH_TENSOR, .tensor = all}};
    dlr_torch_items state_items = {.at = state, .n = 2, .ordered = true};
    dlr_torch_value list[] = {{.kind = DLR_TORCH_REAL, .real = 0.9},
                              {.kind = DLR_TORCH_NONE},
                              {.kind = DLR_TORCH_BOOL, .truth = true},
                              {.kind = DLR_TORCH_INT, .integer = 1LL << 40}};
    dlr_torch_items tuple = {.at = list, .n = 4}, one = {.at = list, .n = 1};
    dlr_torch_value top[] = {{.kind = DLR_TORCH_TEXT, .text = "model_state"},
                             {.kind = DLR_TORCH_DICT, .items = &state_items},
                             {.kind = DLR_TORCH_TEXT, .text = "betas"},
                             {.kind = DLR_TORCH_TUPLE, .items = &tuple},
                             {.kind = DLR_TORCH_INT, .integer = -1},
                             {.kind = DLR_TORCH_LIST, .items = &one}};
    dlr_torch_items items = {.at = top, .n = 6};
    content.n = 1;
    return dlr_torch_write(in(dir, "torch", "tree.tar"),
                           &(dlr_torch_value){.kind = DLR_TORCH_DICT, .items = &items}, &content,
                           NULL, &err) &&
           make_run(dir, "adam.tar", "exp_avg", "exp_avg_sq") &&
           make_run(dir, "sgd.tar", "momentum_buffer", "step");
}

static void put_number(dl_buf *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++, v >>= 8) dl_putn(out, (const char[]){(char)v}, 1);
}

/* A zip of one entry, w.npy: as it is, or as a block that deflate does not pack (RFC 1951, 3.2.4).
 */
static bool make_npz(const char *dir, const char *name, const void *npy, size_t n, bool deflated) {
    dl_buf data = {0}, zip = {0};
    if (deflated) put_number(&data, 1, 1), put_number(&data, n, 2), put_number(&data, ~n, 2);
    dl_putn(&data, npy, n);
    for (int central = 0; central < 2; central++) {
        put_number(&zip, central ? 0x02014b50 : 0x04034b50, 4);
        if (central) put_number(&zip, 20, 2);
        put_number(&zip, 20, 4), put_number(&zip, deflated ? 8 : 0, 2), put_number(&zip, 0, 8);
        put_number(&zip, data.n, 4), put_number(&zip, n, 4), put_number(&zip, 5, 4);
        if (central) put_number(&zip, 0, 14);
        dl_puts(&zip, "w.npy");
        if (!central) dl_putn(&zip, data.at, data.n);
    }
    size_t directory = 46 + 5, at = zip.n - directory;
    put_number(&zip, 0x06054b50, 4), put_number(&zip, 0, 4), put_number(&zip, 1, 2),
        put_number(&zip, 1, 2);
    put_number(&zip, directory, 4), put_number(&zip, at, 4), put_number(&zip, 0, 2);
    bool ok = dl_write_file(in(dir, "arrays", dl_format(arena, "%s-%d.npz", name, deflated)),
                            zip.at, zip.n, &err);
    dl_buf_free(&data), dl_buf_free(&zip);
    return ok;
}

static bool make_npy(const char *dir) {
    static const struct {
        const char *name, *dict;
        size_t bytes;
    } all[] = {{"f4", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24},
               {"b1", "{'descr': '|b1', 'fortran_order': False, 'shape': (5,), }", 5},
               {"fortran", "{'descr': '<f8', 'fortran_order': True, 'shape': (1, 2), }", 16},
               {"record", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4},
               {"scalar", "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 8}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned char file[512] = "\x93NUMPY\x01";
        int n = snprintf((char *)file + 10, 400, "%-117s\n", all[i].dict);
        file[8] = (unsigned char)n, file[9] = (unsigned char)(n >> 8);
        memset(file + 10 + n, 0x3f, all[i].bytes);
        size_t bytes = 10 + (size_t)n + all[i].bytes;
        if (!dl_write_file(in(dir, "npy", all[i].name), file, bytes, &err) ||
            !dl_write_file(in(dir, "arrays", all[i].name), file, bytes, &err) ||
            !make_npz(dir, all[i].name, file, bytes, false) ||
            !make_npz(dir, all[i].name, file, bytes, true))
            return false;
    }
    return true;
}

static void put_big(dl_buf *out, uint64_t v, int bytes) {
    for (int i = bytes - 1; i >= 0; i--) dl_putn(out, (const char[]){(char)(v >> 8 * i)}, 1);
}

static void put_padded(dl_buf *out, const char *text, int wide) {
    put_big(out, strlen(text), wide), dl_puts(out, text);
    while (out->n % 4) dl_putn(out, "", 1);
}

/* A NetCDF-3 file of two records: v(time, x) of i16 with a scale, one of each type of CDF-5. */
static bool make_netcdf3(const char *dir, int version) {
    const int wide = version == 5 ? 8 : 4, place = version == 1 ? 4 : 8;
    dl_buf f = {0};
    dl_puts(&f, "CDF"), put_big(&f, (uint64_t)version, 1), put_big(&f, 2, wide);
    put_big(&f, 10, 4), put_big(&f, 2, wide); /* dimensions */
    put_padded(&f, "time", wide), put_big(&f, 0, wide);
    put_padded(&f, "x", wide), put_big(&f, 3, wide);
    put_big(&f, 12, 4), put_big(&f, 1, wide); /* attributes */
    put_padded(&f, "title", wide), put_big(&f, 2, 4), put_padded(&f, "seed", wide);
    put_big(&f, 11, 4), put_big(&f, 2, wide); /* variables */
    for (int i = 0; i < 2; i++) {
        put_padded(&f, i ? "w" : "v", wide), put_big(&f, 2, wide);
        put_big(&f, 0, wide), put_big(&f, 1, wide);
        put_big(&f, 12, 4), put_big(&f, 1, wide);
        put_padded(&f, i ? "_FillValue" : "scale_factor", wide);
        put_big(&f, i ? 3 : 5, 4), put_big(&f, 1, wide);
        put_big(&f, i ? 0xffff0000 : 0x3f000000, 4);
        put_big(&f, i && version == 5 ? 8 : 3, 4), put_big(&f, 8, wide);
        put_big(&f, f.n + (uint64_t)place + (i ? 8 : 100), place);
    }
    for (int i = 0; i < 40; i++) put_big(&f, (uint64_t)i, 4);
    bool ok = dl_write_file(in(dir, "arrays", dl_format(arena, "netcdf-%d.nc", version)), f.at, f.n,
                            &err);
    dl_buf_free(&f);
    return ok;
}

static bool make_zarr(const char *dir) {
    static const char two[] =
        "{\"zarr_format\": 2, \"shape\": [4, 6], \"chunks\": [2, 6], \"dtype\": \">f4\", "
        "\"order\": \"F\",\n"
        " \"compressor\": {\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 5, \"shuffle\": 1},\n"
        " \"filters\": [{\"id\": \"shuffle\", \"elementsize\": 4}], \"fill_value\": \"NaN\",\n"
        " \"dimension_separator\": \"/\"}";
    static const char three[] =
        "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [4, 6], \"data_type\": "
        "\"int16\",\n"
        " \"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": [2, 6]}},\n"
        " \"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": {\"separator\": "
        "\".\"}},\n"
        " \"fill_value\": 7, \"codecs\": [{\"name\": \"bytes\", \"configuration\": {\"endian\": "
        "\"big\"}},\n"
        " {\"name\": \"gzip\", \"configuration\": {\"level\": 1}}, {\"name\": \"crc32c\"}],\n"
        " \"attributes\": {\"units\": \"K\", \"scale_factor\": 0.5, \"_ARRAY_DIMENSIONS\": [\"t\", "
        "\"x\"]},\n"
        " \"dimension_names\": [\"t\", null]}";
    return dl_write_file(in(dir, "zarr", "two"), two, sizeof two - 1, &err) &&
           dl_write_file(in(dir, "zarr", "three"), three, sizeof three - 1, &err);
}

/* Facts of a contiguous set of HDF5, as a child process reports them. */
static bool make_hdf5(const char *dir) {
    dlr_hdf5_set set = {.name = "group/x", .path = "group/x", .type = "f32", .rank = 2};
    set.dims[0] = 4, set.dims[1] = 6, set.element = DLR_EL_F32, set.plain = true;
    set.offset = 2048, set.stored = 96;
    return dl_write_file(in(dir, "hdf5", "set"), (const char *)&set, sizeof set, &err);
}

static bool make_images(const char *dir) {
    unsigned char rgb[24 * 17 * 3], record[2 * 3073] = {3};
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (unsigned char)(i * i / 7);
    dl_buf jpeg = {0};
    bool ok = jpeg_encode(rgb, 24, 17, 80, &jpeg, &err) &&
              dl_write_file(in(dir, "image", "jpeg"), jpeg.at, jpeg.n, &err) &&
              dl_write_file(in(dir, "image", "cifar"), record, sizeof record, &err);
    dl_buf_free(&jpeg);
    return ok;
}

static bool make_plan(const char *dir) {
    dl_plan *p = new_plan(1024);
    add_var(p, DL_VAR_PARAM, "conv.weight", vector(16), (dl_init){0}, 0);
    add_var(p, DL_VAR_INPUT, "x",
            type_of(DL_F32, (dl_layout){.kind = DL_CL}, 3, (int64_t[]){2, 4, 8}), (dl_init){0}, 64);
    add_var(p, DL_VAR_TABLE, "list 1", vector(2), (dl_init){0}, 320);
    dl_push(p->arena, &p->vars.at[2].numbers, 0.5);
    dl_push(p->arena, &p->vars.at[2].numbers, -3);
    dl_push(p->arena, &p->objects,
            ((dl_plan_object){.key = 7,
                              .source = "void k_0(void) {}",
                              .bytes = 4,
                              .image = (const unsigned char *)"\x7f"
                                                              "ELF"}));
    add_kernel(p, "k", 1, 3, 0, 128, 64, 2, (int64_t[]){64, 256});
    dl_plan_program *train = add_program(p, "train");
    add_launch(p, train, 0, (int64_t[]){0, 64});
    dl_push(p->arena, &train->results,
            ((dl_plan_result){.role = DL_RESULT_LOSS,
                              .name = "loss",
                              .type = dl_scalar(DL_F32),
                              .offset = 512,
                              .var = -1}));
    add_program(p, "eval");
    bool ok = dl_plan_write(p, in(dir, "plan", "small"), &err);
    dl_arena_free(p->arena);
    return ok;
}

static bool make_state(const char *dir) {
    const double reals[] = {0.5, 1e300};
    const dlr_state_value values[] = {
        {.key = "lr", .kind = DLR_STATE_REALS, .reals = reals, .n_reals = 2},
        {.key = "samples", .kind = DLR_STATE_INT, .integer = 96},
        {.key = "model", .kind = DLR_STATE_TEXT, .text = "UNet"}};
    const dlr_state_part parts[] = {
        {"model", {.bytes = 4096, .checksum = 12345}},
        {"optimizer-00001-of-00001", {.bytes = 8192, .checksum = 54321}}};
    const dlr_state state = {.epoch = 1,
                             .iteration = 24,
                             .position = 3,
                             .seed = 7,
                             .best_loss = 0.0625,
                             .epoch_loss = 1.5,
                             .values = values,
                             .n_values = 3};
    dl_buf b = {0};
    dlr_checkpoint_state_print(&b, &state, parts, 2);
    bool ok = dl_write_file(in(dir, "state", "three"), b.at, b.n, &err);
    dl_buf_free(&b);
    return ok;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: make_seeds DIR\n");
        return DL_USAGE;
    }
    arena = dl_arena_new(NULL);
    bool ok = make_safetensors(argv[1]) && make_torch(argv[1]) && make_npy(argv[1]) &&
              make_netcdf3(argv[1], 1) && make_netcdf3(argv[1], 2) && make_netcdf3(argv[1], 5) &&
              make_zarr(argv[1]) && make_hdf5(argv[1]) && make_images(argv[1]) &&
              make_plan(argv[1]) && make_state(argv[1]);
    if (!ok) fprintf(stderr, "make_seeds: %s\n", err.message);
    dl_arena_free(arena);
    return ok ? 0 : (int)err.code;
}
