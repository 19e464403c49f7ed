/* Whole random models: an input, blocks that may change the sizes, a head and a loss. */
#include "ir/base/hash.h"
#include "tests/tools/layers.h"

/* ", H=6, W=4]" after the channels. */
static void put_sizes(layer_maker *m, const layer_map *x) {
    for (int i = 0; i < x->d; i++) dl_putf(&m->out, ", %c=%d", "DHW"[3 - x->d + i], x -> size[i]);
    dl_puts(&m->out, "]\n");
}

static layer_map put_input(layer_maker *m, bool small) {
    static const int edges[] = {40, 12, 8}, large[] = {3000, 56, 18};
    layer_map x = {.id = m->maps++, .c = 1 + below(&m->r, 5), .d = 1 + below(&m->r, 3)};
    const int edge = small ? edges[x.d - 1] : large[x.d - 1];
    int one = 2 + below(&m->r, edge);
    for (int i = 0; i < x.d; i++) x.size[i] = one_in(&m->r, 2) ? one : 2 + below(&m->r, edge);
    if (x.d == 1 && one_in(&m->r, 4)) { /* words, by number */
        dl_putf(&m->out, "    input x: i64[N=%d, T=%d]\n", m->n, x.size[0]);
        dl_putf(&m->out,
                "    h%d = min(abs(x), 9) |> embedding(10, %d) @e |> rearrange(\"n t e -> n e t\") "
                "as [N, C, "
                "W]\n",
                x.id, x.c);
        return x;
    }
    dl_putf(&m->out, "    input x: f32[N=%d, C=%d", m->n, x.c);
    put_sizes(m, &x);
    dl_putf(&m->out, "    h%d = x\n", x.id);
    return x;
}

/* A loss of a map of the target's sizes. */
static void put_dense_loss(layer_maker *m, const layer_map *y) {
    static const char *const losses[] = {"mse_loss(h%d, t)",   "l1_loss(h%d, t)",
                                         "huber_loss(h%d, t)", "smooth_l1_loss(h%d, t)",
                                         "mean((h%d - t)**2)", "relative_l2_loss(h%d, t)",
                                         "mean(abs(h%d - t))"};
    dl_putf(&m->out, "    target t: f32[N=%d, C=%d", m->n, y->c);
    put_sizes(m, y);
    const char *loss = losses[below(&m->r, 7)];
    dl_putf(&m->out, "    output h%d\n    loss = ", y->id);
    dl_putf(&m->out, loss, y->id);
    dl_puts(&m->out, "\n");
    if (one_in(&m->r, 3)) dl_putf(&m->out, "    metric \"mae\" = mean(abs(h%d - t))\n", y->id);
}

static void put_class_loss(layer_maker *m, const layer_map *y) {
    int classes = 2 + below(&m->r, 9), z = m->maps++;
    dl_putf(&m->out, "    target t: i64[N=%d]\n", m->n);
    if (one_in(&m->r, 2))
        dl_putf(&m->out, "    h%d = mean(h%d, over=%s)", z, y->id, layer_axes(y->d));
    else
        dl_putf(&m->out, "    h%d = h%d |> rearrange(\"n c %s -> n (c %s)\") as [N, C]", z, y->id,
                layer_pattern(y->d), layer_pattern(y->d));
    dl_putf(&m->out, " |> linear(%d) @l%d as [N, K]\n    output h%d\n", classes, m->labels++, z);
    dl_putf(&m->out, "    c = min(abs(t), %d)\n    loss = cross_entropy(h%d, c%s)\n", classes - 1,
            z, one_in(&m->r, 3) ? ", label_smoothing=0.1" : "");
    dl_putf(&m->out, "    metric \"top2\" = mean(in_top_k(h%d, c, %d))\n", z, 2);
}

const char *layer_model(dl_arena *arena, uint64_t seed, bool small) {
    layer_maker m = {
        .arena = arena, .r = {dl_hash(&seed, sizeof seed, 43)}, .largest = small ? 6000 : 200000};
    m.n = one_in(&m.r, 3) ? 1 : 1 + below(&m.r, 3);
    dl_puts(&m.out, "model M():\n");
    layer_map x = put_input(&m, small), aside = x;
    int blocks = 2 + below(&m.r, small ? 3 : 5);
    for (int i = 0; i < blocks; i++) {
        layer_map before = x;
        size_t mark = m.out.n;
        switch (below(&m.r, 6)) {
        case 0: x = layer_down(&m, x, 1 + below(&m.r, 16)); break;
        case 1: x = layer_up(&m, x, 1 + below(&m.r, 16)); break;
        default: x = layer_block(&m, x);
        }
        if (layer_points(&x) * x.c * m.n > m.largest || x.c > 128)
            m.out.n = mark, m.out.at[mark] = 0, x = before;
        if (one_in(&m.r, 3)) aside = x;
    }
    x = layer_point(&m, x, 1 + below(&m.r, 6));
    if (one_in(&m.r, 4))
        put_class_loss(&m, &x);
    else
        put_dense_loss(&m, &x);
    if (one_in(&m.r, 5))
        dl_putf(&m.out, "    loss += 0.3 * mean(abs(h%d |> conv(2, 1) @aside))\n", aside.id);
    if (one_in(&m.r, 5)) dl_puts(&m.out, "    loss += 1e-4 * sum_squares(conv.weight)\n");
    const char *text = dl_strdup(arena, m.out.at);
    dl_buf_free(&m.out);
    return text;
}
