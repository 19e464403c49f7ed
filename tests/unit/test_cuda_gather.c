/* Inputs that a device makes of a batch's numbers, by the CUDA text that stands in every plan for a
 * GPU, emulated: in each type and order of axes an input can have, the bits that the host writes
 * for the same samples. */
#include "tests/check.h"

#include <math.h>
#include <unistd.h>

#include "compiler/target/backend.h"
#include "ir/base/dirs.h"
#include "ir/plan/feed.h"
#include "runtime/base/rng.h"
#include "runtime/data/array_dataset.h"
#include "runtime/data/noise.h"
#include "runtime/data/picture.h"
#include "runtime/data/rotate.h"
#include "runtime/data/statistics.h"
#include "runtime/train/feed.h"
#include "tests/emulator/cuda_emulator.h"
#include "tests/unit/plan_fixture.h"

enum { N = DLR_ROTATIONS, C = 5, S = 7, CROP = C * S * S * S, H = 6, W = 9, PICTURE = 3 * H * W };

/* ---- a plan that is nothing but inputs ---- */

static const dl_layout row = {0}, last = {.kind = DL_CL};
static const struct {
    const char *name;
    dl_dtype dtype;
    const dl_layout *layout;
    int rank;
    bool scaled;
} inputs[] = {{"crop", DL_F32, &last, 5, false},        {"crop_rows", DL_F32, &row, 5, false},
              {"crop_bf16", DL_BF16, &last, 5, true},   {"crop_f16", DL_F16, &row, 5, true},
              {"field", DL_F32, &row, 4, true},         {"field_last", DL_F32, &last, 4, true},
              {"field_f16", DL_F16, &last, 4, false},   {"field_f64", DL_F64, &row, 4, true},
              {"flat", DL_F32, &row, 2, true},          {"picture", DL_F32, &row, 4, false},
              {"picture_last", DL_F32, &last, 4, true}, {"picture_bf16", DL_BF16, &last, 4, false},
              {"picture_f16", DL_F16, &row, 4, true}};
enum { INPUTS = sizeof inputs / sizeof *inputs };
static const int64_t crop_size[] = {N, C, S, S, S}, field_size[] = {N, C, H, W},
                     flat_size[] = {N, C}, picture_size[] = {N, 3, H, W};

static bool is_picture(int i) { return strncmp(inputs[i].name, "picture", 7) == 0; }

static const int64_t *size_of(int i) {
    const int rank = inputs[i].rank;
    return is_picture(i) ? picture_size
           : rank == 5   ? crop_size
           : rank == 4   ? field_size
                         : flat_size;
}

static dl_plan *make_plan(void) {
    dl_error err = {0};
    int compiled;
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a:emulated", &err);
    dl_plan *p = new_plan(0);
    p->target = t->name;
    for (int i = 0; i < INPUTS; i++) {
        dl_type type = type_of(inputs[i].dtype, *inputs[i].layout, inputs[i].rank, size_of(i));
        add_var(p, DL_VAR_INPUT, inputs[i].name, type, (dl_init){0}, p->arena_bytes);
        p->arena_bytes += dl_plan_round(dl_type_bytes(&type));
    }
    dl_buf b = {0};
    t->backend->feed(&b, t);
    dl_push(p->arena, &p->objects, ((dl_plan_object){.source = dl_strdup(p->arena, b.at)}));
    dl_buf_free(&b);
    if (t->backend->build(p->arena, 1, p->objects.at, t, NULL, &compiled, &err)) return p;
    dl_test_skip("%s", err.message);
    dl_arena_free(p->arena);
    return NULL;
}

/* ---- samples, and their numbers ---- */

static float numbers[INPUTS][N * CROP], samples[INPUTS][N * CROP], mean[C], deviation[C];
static dlr_layout_map how[INPUTS][N];
static dlr_raw raw[INPUTS];
static dlr_arrays arrays;

/* Numbers of all sizes, and what is none; where they are scaled data are finite. */
static void draw(int i, int64_t n) {
    static const float odd[] = {0, -0.0f, 1e-41f, -3e-8f, 65519, 65520, -7e4f, 3e38f, 1e-7f};
    dlr_normals((dlr_rng_place){7, 0, (uint32_t)i, 0}, 0, (size_t)n, 0, 1, numbers[i]);
    for (int64_t k = 0; k < n; k += 11) numbers[i][k] = odd[k / 11 % 9];
    for (int64_t k = 0; !inputs[i].scaled && k < n; k += 101)
        numbers[i][k] = k & 1 ? INFINITY : -INFINITY;
}

/* Sample s of crops is turned by rotation s + 1; every other one has its channels last among its
 * numbers. */
static void turn_crops(int i) {
    for (int s = 0; s < N; s++) {
        const dlr_rotation *r = &dlr_rotations[s];
        bool channels_last = s & 1;
        int64_t voxel = channels_last ? C : 1, stored[3] = {S * S * voxel, S * voxel, voxel};
        dlr_layout_map *p = &how[i][s];
        p->axis[0] = dlr_along(C, channels_last ? 1 : S * S * S, false);
        for (int a = 0; a < 3; a++) p->axis[1 + a] = dlr_along(S, stored[r->axis[a]], r->flip[a]);
        for (int c = 0; c < C; c++) { /* what the host does: each voxel to its place */
            float plane[S][S * S], *out = samples[i] + s * CROP + c * S * S * S;
            const float *planes[S], *in = numbers[i] + s * CROP;
            for (int v = 0; v < S * S * S; v++)
                plane[v / S / S][v % (S * S)] = in[v * voxel + c * p->axis[0].step];
            for (int k = 0; k < S; k++) planes[k] = plane[k];
            dlr_voxel_map to = dlr_voxel_map_of(s + 1, S);
            dlr_voxel_map_copy(&to, S, 0, S, planes, S, out);
        }
    }
}

/* Bytes, each picture moved in its own way, the first not at all; scaled as Keras' caffe mode. */
static void move_pictures(int i) {
    static const float means[3] = {103.939f, 116.779f, 123.68f}, one[3] = {1, 1, 1}, none = 0,
                       all = 255;
    static _Alignas(64) char scratch[1024];
    unsigned char *bytes = (unsigned char *)numbers[i];
    const bool caffe = inputs[i].scaled;
    CHECK(dlr_picture_scratch(H, W) <= sizeof scratch);
    for (int s = 0; s < N; s++) {
        float planes[PICTURE];
        const dlr_moves moves = {.shift = 0.4 * (s & 1), .zoom = 0.3 * (s & 2), .flip = true};
        dlr_move m = {.zoom = {1, 1}};
        if (s)
            m = dlr_move_draw(&moves,
                              (dlr_rng_place){3, DLR_STREAM_TRAIN, (uint32_t)i, (uint32_t)s});
        for (int k = 0; k < PICTURE; k++)
            planes[k] = bytes[s * PICTURE + k] = (unsigned char)(k * 37 + s * 91 + k * s % 7 * 11);
        dlr_picture_write(planes, H, W, &m, caffe ? DLR_SCALING_CAFFE : DLR_SCALING_UNIT,
                          samples[i] + s * PICTURE, scratch);
        how[i][s].axis[0] = dlr_along(3, H * W, caffe);
        how[i][s].axis[1] =
            (dlr_layout_axis){.step = W, .points = H, .zoom = m.zoom[0], .shift = m.shift[0] * H};
        how[i][s].axis[2] = (dlr_layout_axis){.step = 1,
                                              .points = W,
                                              .zoom = m.flip ? -m.zoom[1] : m.zoom[1],
                                              .shift = m.shift[1] * W};
    }
    raw[i] = (dlr_raw){.type = DLR_EL_U8,
                       .mean = caffe ? means : &none,
                       .deviation = caffe ? one : &all,
                       .axis = caffe ? 0 : -1};
}

static void make_samples(const dl_plan *p) {
    for (int c = 0; c < C; c++)
        mean[c] = 0.37f * (float)c - 0.5f, deviation[c] = 0.3f + 1.7f * (float)c;
    for (int i = 0; i < INPUTS; i++) {
        dl_error err = {0};
        const int64_t all = dl_type_count(&p->vars.at[i].type), channel = all / N / C;
        CHECK(dlr_arrays_add(&arrays, inputs[i].name, false, &p->vars.at[i].type, &err), "%s",
              err.message);
        if (is_picture(i)) {
            move_pictures(i);
            continue;
        }
        draw(i, all);
        memcpy(samples[i], numbers[i], (size_t)all * sizeof(float));
        if (inputs[i].rank == 5) turn_crops(i);
        for (int s = 0; s < N && inputs[i].rank < 5; s++) {
            how[i][s].axis[0] = dlr_along(C, channel, false);
            how[i][s].axis[1] = dlr_along(H, W, false), how[i][s].axis[2] = dlr_along(W, 1, false);
        }
        raw[i] = (dlr_raw){.type = DLR_EL_F32};
        if (inputs[i].scaled) raw[i].mean = mean, raw[i].deviation = deviation;
        for (int k = 0; k < N * C && inputs[i].scaled; k++)
            CHECK(dlr_normalise(samples[i] + k * channel, (size_t)channel, mean[k % C],
                                deviation[k % C]) < 0);
    }
}

/* ---- both ways ---- */

static char *bytes_of(dlr_exec *e, const dl_plan *p, int i) {
    dlr_view v = dlr_exec_variable(e, inputs[i].name);
    size_t n = (size_t)dl_type_bytes(v.type);
    return memcpy(dl_alloc(p->arena, n), dlr_exec_host(e, v, DLR_READ), n);
}

static void test_bits(const dl_plan *p, bool hasty) {
    dl_error err = {0};
    dlr_feed feed;
    emulator()->set((cuda_emulator_options){.hasty = hasty});
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
    CHECK(e && dlr_exec_gathers(e) && dlr_feed_open(&feed, e, &arrays, &err), "%s", err.message);
    if (!e) return;
    void *host[INPUTS], *file[INPUTS];
    dlr_layout_map *places[INPUTS];
    for (int i = 0; i < INPUTS; i++) host[i] = samples[i], file[i] = numbers[i], places[i] = how[i];
    dlr_feed_batch(&feed, &(dlr_batch){.arrays = &arrays, .data = host});
    char *want[INPUTS];
    for (int i = 0; i < INPUTS; i++) want[i] = bytes_of(e, p, i);
    for (int again = 0; again < 3; again++) { /* by either buffer, over what was there */
        dlr_feed_batch(&feed,
                       &(dlr_batch){.arrays = &arrays, .data = file, .raw = raw, .how = places});
        for (int i = 0; i < INPUTS; i++) {
            const char *got = bytes_of(e, p, i);
            int64_t n = dl_type_bytes(&p->vars.at[i].type), at = 0;
            while (at < n && got[at] == want[i][at]) at++;
            CHECK(at == n, "%s: byte %lld of %lld", inputs[i].name, (long long)at, (long long)n);
        }
        dlr_feed_batch(&feed, &(dlr_batch){.arrays = &arrays, .data = file}); /* others */
    }
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);
    emulator()->set((cuda_emulator_options){0});
}

/* ---- where they lie ---- */

/* Whether the first input comes through whole when its batch goes back to who reads the next one.
 */
static bool comes_whole(const dl_plan *p, bool waits) {
    dl_error err = {0};
    dlr_feed feed;
    dlr_prefetch_raw ring;
    const dl_type *t = &p->vars.at[0].type;
    dl_feed_places at = dl_feed_place(t);
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
    CHECK(e && dlr_feed_open(&feed, e, &arrays, &err), "%s", err.message);
    char *memory = aligned_alloc(4096, (size_t)(at.end + 4095) & ~(size_t)4095);
    dlr_feed_raw_options(&feed, &ring);
    CHECK(ring.front[0] == (size_t)at.numbers);
    ring.pin(ring.user, memory, (size_t)at.end);
    CHECK(feed.pinned);
    void *file[INPUTS] = {memory + ring.front[0]}, *host[INPUTS] = {samples[0]};
    dlr_layout_map *places[INPUTS] = {how[0]};
    memcpy(file[0], numbers[0], (size_t)dl_type_count(t) * sizeof(float));
    feed.n = 1;
    dlr_feed_batch(&feed, &(dlr_batch){.arrays = &arrays, .data = file, .raw = raw, .how = places});
    if (waits) ring.back(ring.user);
    memset(file[0], 0, (size_t)dl_type_count(t) * sizeof(float)); /* the next batch is read */
    const char *got = bytes_of(e, p, 0);
    ring.unpin(ring.user, memory);
    CHECK(!feed.pinned);
    free(memory);
    dlr_feed_batch(&feed, &(dlr_batch){.arrays = &arrays, .data = host});
    bool same = memcmp(got, bytes_of(e, p, 0), (size_t)dl_type_bytes(t)) == 0;
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);
    return same;
}

/* Sent from where they were read, which the workers have again when that is done; or copied once
 * more. */
static void test_ring(const dl_plan *p) {
    dl_error err = {0};
    char page[64];
    CHECK(comes_whole(p, true), "batches that lie in the ring");
    CHECK(!comes_whole(p, false), "a batch that is still on its way is overwritten");
    emulator()->set((cuda_emulator_options){.no_register = true});
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err);
    CHECK(e && !dlr_exec_pin(e, page, sizeof page, &err) && strstr(err.message, "cannot be pinned"),
          "%s", err.message);
    err = (dl_error){0};
    CHECK(dlr_exec_check(e, &err), "the device goes on: %s", err.message);
    dlr_exec_close(e);
    emulator()->set((cuda_emulator_options){0});
}

/* ---- who can ---- */

static void test_reasons(const dl_plan *p) {
    dl_error err = {0};
    dlr_feed feed;
    dlr_noise_options noise = {.samples = N};
    dlr_dataset *d =
        dlr_dataset_open(&dlr_noise_loader, &noise,
                         &(dlr_dataset_options){.split = DLR_TRAIN, .arrays = &arrays}, &err);
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err);
    CHECK(d && e && dlr_feed_open(&feed, e, &arrays, &err), "%s", err.message);
    CHECK(!dlr_feed_gathers(&feed, d, &err) && strstr(err.message, "makes its samples itself"),
          "%s", err.message);
    dlr_exec_close(e);
    dl_plan bare = *p;
    bare.objects.n = 0, err = (dl_error){0};
    e = dlr_exec_open(&bare, (dlr_exec_options){.threads = 1}, &err);
    CHECK(e && !dlr_exec_gathers(e) && dlr_feed_open(&feed, e, &arrays, &err), "%s", err.message);
    CHECK(!dlr_feed_gathers(&feed, d, &err) && strstr(err.message, "no kernel"), "%s", err.message);
    dlr_exec_close(e);
    dlr_dataset_close(d);
}

/* ---- held by the device ---- */

/* A file of one array u8 [N, H, W] whose numbers count up, and the data set of it. */
static dlr_dataset *open_counting(const char *folder, const dlr_arrays *takes, dl_error *err) {
    static char path[64];
    static const char *file = path;
    char head[128] = "\x93NUMPY\1\0";
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d, %d), }", N, H, W);
    snprintf(path, sizeof path, "%s/x.npy", folder);
    head[8] = (char)n;
    FILE *f = fopen(path, "wb");
    fwrite(head, 1, (size_t)n + 10, f);
    for (int i = 0; i < N * H * W; i++) fputc(i & 255, f);
    fclose(f);
    const dlr_array_dataset_variable one = {.files = {&file, 1}};
    dlr_array_dataset_options o = {
        .source[0] = {.key = "data.inputs.x", .variables = &one, .n_variables = 1},
        .split = {.range = {{0, N - 1}, {N - 1, N}}, .kind = DLR_SPLIT_RANGE}};
    return dlr_dataset_open(&dlr_array_dataset_loader, &o,
                            &(dlr_dataset_options){.split = DLR_TRAIN, .arrays = takes}, err);
}

/* A data set that fits next to the run is brought there, and counted in what is predicted; another
 * is not. */
static void test_held(const dl_plan *all, const char *folder) {
    dl_error err = {0};
    dlr_feed feed;
    dlr_store store;
    dlr_device_memory m;
    dl_plan one = *all;
    dlr_arrays takes = {0};
    dl_type type = dl_scalar(DL_F32);
    dl_type_push(&type, "N", 2), dl_type_push(&type, "H", H), dl_type_push(&type, "W", W);
    one.vars.n = 1;
    dl_plan_var x = one.vars.at[0], *var = &x;
    x.name = "x", x.type = type, one.vars.at = var;
    CHECK(dlr_arrays_add(&takes, "x", false, &type, &err), "%s", err.message);
    dlr_dataset *d = open_counting(folder, &takes, &err);
    CHECK(d && dlr_dataset_store(d, &store), "%s", err.message);
    if (!d) return;
    CHECK(store.bytes == (((N - 1) * H * W + 63) & ~63), "the training part alone: %lld",
          (long long)store.bytes);
    for (int fits = 0; fits < 2; fits++) {
        emulator()->set((cuda_emulator_options){
            .memory = fits ? 0 : (size_t)dl_plan_round(one.arena_bytes) + 20000});
        dlr_exec *e = dlr_exec_open(&one, (dlr_exec_options){.threads = 1}, &err);
        CHECK(e && dlr_feed_open(&feed, e, &takes, &err), "%s", err.message);
        if (!e) continue;
        bool held = dlr_feed_hold(&feed, (const dlr_dataset *const[2]){d}, &err);
        CHECK(held == fits, "%s", err.message);
        CHECK(fits || strstr(err.message, "MiB left for it"), "%s", err.message);
        CHECK(dlr_exec_memory(e, &m) && m.held == (fits ? 2 << 20 : 0), "%lld", (long long)m.held);
        CHECK(fits == (dlr_device_left(&m) > store.bytes), "%lld", (long long)dlr_device_left(&m));
        dlr_exec_close(e);
        err = (dl_error){0};
    }
    dlr_dataset_close(d);
    emulator()->set((cuda_emulator_options){0});
}

int main(void) {
    char folder[] = "/tmp/dl_cuda_gather_XXXXXX";
    dl_error err = {0};
    CHECK(mkdtemp(folder) != NULL);
    setenv("DLR_CACHE_DIR", folder, 1);
    dl_plan *p = make_plan();
    if (p) {
        make_samples(p);
        test_bits(p, false);
        test_bits(p, true);
        test_ring(p);
        test_reasons(p);
        test_held(p, folder);
        dl_arena_free(p->arena);
    }
    CHECK(dl_remove_tree(folder, &err), "%s", err.message);
    CHECK(emulator()->lost() == 0, "%d things not given back", emulator()->lost());
    return p ? dl_test_end() : 77;
}
