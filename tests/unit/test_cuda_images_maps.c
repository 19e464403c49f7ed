/* The im2col maps of a plan: padding, damaged ones, drivers without the function, and kernels that
 * have none. */
#include "tests/unit/cuda_images.h"

static dl_tensor_map *map_of(const dl_plan *p) {
    dl_plan_entry *e = entry_with_maps(p);
    for (int i = 0; e && i < e->maps.n; i++)
        if (e->maps.at[i].windows) return &e->maps.at[i];
    CHECK(e == NULL, "no map of images");
    return NULL;
}

void test_padding(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text = text_of(arena, &by_weight);
    dl_plan *p = mapped_plan(arena, text, t, true);
    mapped_numbers all = mapped_interpret(arena, text, 1, 24 * 63); /* a corner of an image */
    int64_t finite = 0, wrong = mapped_wrong(p, &all, &err);
    for (int64_t i = 0; i < all.n; i++) finite += isfinite(all.want[i]);
    CHECK(wrong == 0 && finite > 0 && finite < all.n && map_of(p), "%lld wrong, %lld finite: %s",
          (long long)wrong, (long long)finite, err.message);
    mapped_free(&all);
    dl_arena_free(arena);
}

/* ---- what has no such way ---- */

void test_demands(const dl_target *t) {
    convolution of[9];
    int n = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        of[i] = i == 7 ? by_weight : i == 8 ? strided : plain;
    of[n++].c = 40;     /* a tile's terms would be two taps' */
    of[n++].groups = 8; /* of 8 channels each */
    of[n].size[1] = 20, of[n++].stride[1] = 9;
    of[n].low[1] = 129, of[n++].size[1] = 3; /* a corner of more than 8 bits */
    of[n].size[2] = 300, of[n++].dilation[2] = 128;
    of[n].of = BY_IMAGE, of[n].o = 32, of[n++].stride[1] = 2; /* parities of unlike taps */
    of[n].windows = 3, of[n].size[0] = 40, of[n].dilation[0] = 16, of[n].taps[0] = 3, n++;
    of[n++].c = 96;
    of[n++].type = DL_F32, of[8].of = BY_WEIGHT, of[8].c = 64; /* nothing turns floats */
    for (int i = 0; i < n; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        const dl_plan *p = mapped_plan(arena, text_of(arena, &of[i]), t, false);
        const char *variant = p ? p->kernels.at[p->kernels.n - 1].variant : "";
        CHECK(p && !(variant && strstr(variant, "im2col")), "%d: %s", i, variant);
        dl_arena_free(arena);
    }
    static const division parts[] = {
        {{{48, 16}}}, {{{16, 48}}}, {{{96, 32}}}}; /* a box would be of both */
    for (int i = 0; i < 3; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        convolution c = i == 2 ? by_weight : plain;
        if (i == 2) c.c = 128;
        const dl_plan *p = mapped_plan(arena, text_of_parts(arena, &c, &parts[i]), t, false);
        const char *variant = p ? p->kernels.at[p->kernels.n - 1].variant : "";
        CHECK(p && !(variant && strstr(variant, "im2col")), "%d: %s", i, variant);
        dl_arena_free(arena);
    }
    dl_target without = *t;
    without.has_maps = false;
    dl_arena *arena = dl_arena_new(NULL);
    CHECK(!entry_with_maps(mapped_plan(arena, text_of(arena, &plain), &without, false)));
    dl_arena_free(arena);
}

void test_damaged(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = mapped_plan(arena, text_of(arena, &plain), t, true);
    dl_tensor_map *m = map_of(p), good = m ? *m : (dl_tensor_map){0};
    CHECK(dl_plan_check(p, &(dl_error){0}));
    for (int i = 0; m && i < 14; i++) {
        dl_error err = {0};
        *m = good;
        if (i == 0) m->windows = 4;
        if (i == 1) m->windows = 1;
        if (i == 2) m->lower[0] = -129;
        if (i == 3) m->lower[1] = 128;
        if (i == 4) m->upper[0] = 128;
        if (i == 5) m->upper[1] = -129;
        if (i == 6) m->traversal[0] = 0;
        if (i == 7) m->traversal[1] = 9;
        if (i == 8) m->lower[0] = 9; /* a box of no pixels */
        if (i == 9) m->box[2] = 2;
        if (i == 10) m->size[3]++;
        if (i == 11) m->step[2] += 8;
        if (i == 12) m->traversal[2] = 1;
        if (i == 13) m->box[1] = 257;
        CHECK(!dl_plan_check(p, &err) && strstr(err.message, "entry"), "%d: %s", i, err.message);
    }
    dl_arena_free(arena);
}

void test_old_driver(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_plan *p = mapped_plan(arena, text_of(arena, &plain), t, true);
    emulator()->set((cuda_emulator_options){.no_images = true});
    dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err) : NULL;
    CHECK(!exec && err.code == DL_RESOURCE && strstr(err.message, "cuTensorMapEncodeIm2col"), "%s",
          err.message);
    dlr_exec_close(exec);
    emulator()->set((cuda_emulator_options){0});
    dl_arena_free(arena);
}

/* ---- maps of other pixels ---- */

void test_other_maps(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *text = text_of(arena, &strided);
    dl_plan *p = mapped_plan(arena, text, t, true);
    dl_tensor_map *m = map_of(p), good = m ? *m : (dl_tensor_map){0};
    mapped_numbers all = mapped_interpret(arena, text, -1, 1);
    for (int i = 0; m && i < 15; i++) {
        dl_error err = {0};
        *m = good;
        if (i == 1) m->lower[0]--;
        if (i == 2) m->lower[1]++;
        if (i == 3) m->upper[0] += m->traversal[0];
        if (i == 4) m->upper[1] -= m->traversal[1];
        if (i == 5) m->traversal[0]--;
        if (i == 6) m->traversal[1]--;
        if (i == 7) m->box[1] /= 2;
        if (i == 8) m->size[1] -= 2, m->upper[0] += 2;
        if (i == 9) m->size[2] -= 2, m->upper[1] += 2;
        if (i == 10) m->size[3]--;
        if (i == 11) m->size[0] -= 8;
        if (i == 12) m->offset += 16, m->size[3]--;
        if (i == 13)
            m->lower[0] = m->lower[1], m->lower[1] = good.lower[0]; /* axes the other way round */
        if (i == 14) m->traversal[0] = m->traversal[1], m->traversal[1] = good.traversal[0];
        CHECK(dl_plan_check(p, &err), "%d: %s", i, err.message);
        int64_t wrong = mapped_wrong(p, &all, &err);
        CHECK(i ? wrong != 0 : wrong == 0, "%d: %lld %s", i, (long long)wrong, err.message);
        if (getenv("DL_TEST_SHOW")) printf("map %d: %lld %s\n", i, (long long)wrong, err.message);
    }
    mapped_free(&all);
    dl_arena_free(arena);
}
