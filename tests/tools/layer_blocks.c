/* Blocks of random models, as the field writes them; each keeps the sizes of the spatial axes. */
#include "tests/tools/layers.h"

static const int widths[] = {1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 24, 32};
static int draw_width(layer_maker *m) {
    return widths[below(&m->r, (int)(sizeof widths / sizeof *widths))];
}

static layer_map named(layer_maker *m, layer_map like) {
    like.id = m->maps++;
    return like;
}

/* Convolution, norm and activation in one of their orders. */
static layer_map put_unit(layer_maker *m, layer_map x, int c) {
    switch (below(&m->r, 4)) {
    case 0: x = layer_norm(m, x); return layer_conv(m, layer_bend(m, x), c);
    case 1: return layer_bend(m, layer_norm(m, layer_conv(m, x, c)));
    case 2: return layer_norm(m, layer_bend(m, layer_conv(m, x, c)));
    default: return layer_norm(m, layer_conv(m, x, c));
    }
}

/* x + y, in one of the ways in which people add a branch. */
static layer_map put_sum(layer_maker *m, layer_map x, layer_map y) {
    layer_map z = named(m, x);
    int p = m->params;
    if (y.c != x.c) y = layer_point(m, y, x.c), z = named(m, x);
    switch (below(&m->r, 6)) {
    case 0: dl_putf(&m->out, "    h%d = h%d + 0.2 * h%d\n", z.id, x.id, y.id); break;
    case 1:
        m->params++;
        dl_putf(&m->out, "    param p%d: [C=%d] = 0.1\n    h%d = h%d + p%d * h%d\n", p, x.c, z.id,
                x.id, p, y.id);
        break;
    case 2: dl_putf(&m->out, "    h%d = h%d + drop_path(h%d, 0.25)\n", z.id, x.id, y.id); break;
    case 3: dl_putf(&m->out, "    h%d = h%d + h%d\n", z.id, y.id, x.id); return layer_bend(m, z);
    default: dl_putf(&m->out, "    h%d = h%d + h%d\n", z.id, x.id, y.id);
    }
    return z;
}

static layer_map put_residual(layer_maker *m, layer_map x) {
    layer_map y = x;
    for (int i = 1 + below(&m->r, 2); i; i--) y = put_unit(m, y, i == 1 ? x.c : draw_width(m));
    return put_sum(m, x, y);
}

/* MONAI's: y + f(group_norm(y)), and a resized branch. */
static layer_map put_resized(layer_maker *m, layer_map x) {
    layer_map y = layer_point(m, layer_down(m, x, draw_width(m)), x.c);
    if (one_in(&m->r, 2)) y = layer_norm(m, y);
    return put_sum(m, x, layer_to(m, y, &x));
}

static layer_map put_cat(layer_maker *m, int n, const layer_map *of) {
    layer_map y = named(m, of[0]);
    y.c = 0;
    dl_putf(&m->out, "    h%d = cat(", y.id);
    for (int i = 0; i < n; i++) dl_putf(&m->out, "h%d, ", of[i].id), y.c += of[i].c;
    dl_puts(&m->out, "over=C)\n");
    return y;
}

static layer_map put_dense(layer_maker *m, layer_map x) {
    layer_map of[4] = {x};
    int n = 2 + below(&m->r, 2), growth = 1 + below(&m->r, 8);
    for (int i = 1; i < n; i++) of[i] = put_unit(m, i == 1 ? x : put_cat(m, i, of), growth);
    return put_cat(m, n, of);
}

static layer_map put_inception(layer_maker *m, layer_map x) {
    layer_map of[3];
    of[0] = layer_point(m, x, draw_width(m));
    of[1] = layer_point(m, x, draw_width(m));
    of[1] = put_unit(m, of[1], draw_width(m));
    of[2] = x;
    bool room = true;
    for (int i = 0; i < x.d; i++) room = room && x.size[i] > 1;
    if (room)
        of[2] =
            layer_put(m, x, x,
                      one_in(&m->r, 2) ? "max_pool(3, stride=1, pad=1)"
                                       : "avg_pool(3, stride=1, pad=1, count_include_pad=false)");
    return put_cat(m, 3, of);
}

/* Squeeze and excitation (Hu et al. 2018). */
static layer_map put_squeeze(layer_maker *m, layer_map x) {
    layer_map s = named(m, x), y = named(m, x);
    int l = m->labels;
    m->labels += 2;
    int few = 1 + below(&m->r, 6);
    const char *bend = layer_activation(m);
    dl_putf(&m->out,
            "    h%d = mean(h%d, over=%s) |> linear(%d) @l%d |> %s |> linear(%d) @l%d |> sigmoid\n",
            s.id, x.id, layer_axes(x.d), few, l, bend, x.c, l + 1);
    dl_putf(&m->out, "    h%d = h%d * h%d\n", y.id, x.id, s.id);
    return y;
}

/* Attention over places (CBAM, Woo et al. 2018). */
static layer_map put_places(layer_maker *m, layer_map x) {
    layer_map s = named(m, x), y = named(m, x);
    dl_putf(&m->out,
            "    h%d = cat(unsqueeze(mean(h%d, over=C), over=C, at=1), unsqueeze(max(h%d, over=C), "
            "over=C, "
            "at=1), over=C) "
            "|> conv(1, 3, pad=1) @l%d |> sigmoid\n",
            s.id, x.id, x.id, m->labels++);
    dl_putf(&m->out, "    h%d = h%d * h%d[C=0]\n", y.id, x.id, s.id);
    return y;
}

/* FiLM: a scale and a shift from the whole map. */
static layer_map put_film(layer_maker *m, layer_map x) {
    layer_map s = named(m, x), y = named(m, x);
    dl_putf(&m->out, "    h%d = max(h%d, over=%s) |> linear(%d) @l%d\n", s.id, x.id,
            layer_axes(x.d), 2 * x.c, m->labels++);
    dl_putf(&m->out, "    h%d = h%d * (1 + h%d[C=0:%d]) + h%d[C=%d:%d]\n", y.id, x.id, s.id, x.c,
            s.id, x.c, 2 * x.c);
    return y;
}

/* ConvNeXt (Liu et al. 2022). */
static layer_map put_convnext(layer_maker *m, layer_map x) {
    int wide = x.c * (1 + below(&m->r, 4)), l = m->labels;
    m->labels += 2;
    layer_map y =
        layer_put(m, x, x, dl_format(m->arena, "conv(%d, 7, pad=3, groups=%d) @l%d", x.c, x.c, l));
    if (x.c > 1)
        y = layer_put(m, y, y, dl_format(m->arena, "layer_norm(1e-6, over=C) @l%d", l + 1));
    y = layer_bend(m, layer_point(m, y, wide));
    return put_sum(m, x, layer_point(m, y, x.c));
}

/* A transformer's block over all places, with its norm in front or none. */
static layer_map put_transformer(layer_maker *m, layer_map x) {
    const char *axes = layer_pattern(x.d), *drop = one_in(&m->r, 3) ? ", dropout=0.1" : "",
               *causal = one_in(&m->r, 3) ? ", causal=true" : "", *bend = layer_activation(m);
    int l = m->labels, h = m->maps, c = x.c,
        heads = c % 4 == 0 && one_in(&m->r, 2) ? 4
                : c % 2 == 0                   ? 2
                                               : 1;
    bool norm = c > 1 && !one_in(&m->r, 3);
    dl_buf *o = &m->out;
    m->labels += 8, m->maps += 5;
    dl_putf(o, "    h%d = h%d |> rearrange(\"n c %s -> n (%s) c\") as [N, T, E]\n", h, x.id, axes,
            axes);
    dl_putf(o, "    h%d = h%d |> ", h + 1, h);
    if (norm)
        dl_putf(o, "layer_norm() @l%d\n", l);
    else
        dl_putf(o, "linear(%d) @l%d\n", c, l);
    for (int i = 1; i <= 3; i++)
        dl_putf(o, "    %c%d = h%d |> linear(%d) @l%d\n", "qkv"[i - 1], l, h + 1, c, l + i);
    dl_putf(o, "    h%d = h%d + (attention(q%d, k%d, v%d, %d%s%s) |> linear(%d) @l%d)\n", h + 2, h,
            l, l, l, heads, drop, causal, c, l + 4);
    dl_putf(o, "    h%d = h%d + (h%d |> ", h + 3, h + 2, h + 2);
    if (norm) dl_putf(o, "layer_norm() @l%d |> ", l + 7);
    dl_putf(o, "linear(%d) @l%d |> %s |> dropout(0.1) |> linear(%d) @l%d)\n", 2 * c, l + 5, bend, c,
            l + 6);
    dl_putf(o, "    h%d = h%d |> rearrange(\"n (%s) c -> n c %s\"", h + 4, h + 3, axes, axes);
    for (int i = 0; x.d > 1 && i < x.d; i++) dl_putf(o, ", %c=%d", "dhw"[3 - x.d + i], x.size[i]);
    dl_putf(o, ") as [N, C, %s\n", layer_axes(x.d) + 1);
    x.id = h + 4;
    return x;
}

/* Down, something, up again, and joined with what was there. */
static layer_map put_valley(layer_maker *m, layer_map x, int depth) {
    layer_map y = layer_down(m, x, draw_width(m));
    y = depth > 1 ? put_valley(m, y, depth - 1) : put_unit(m, y, draw_width(m));
    if (one_in(&m->r, 2)) y = layer_up(m, y, draw_width(m));
    bool there = true;
    for (int i = 0; i < x.d; i++) there = there && x.size[i] == y.size[i];
    if (!there) y = layer_to(m, y, &x);
    return one_in(&m->r, 2) ? put_cat(m, 2, (layer_map[]){x, y}) : put_sum(m, x, y);
}

/* One layer, applied twice. */
static layer_map put_shared(layer_maker *m, layer_map x) {
    layer_map y = named(m, x), z = named(m, x);
    int l = m->labels++;
    dl_putf(&m->out, "    s%d = conv(%d, 3, pad=1) @l%d\n", l, x.c, l);
    dl_putf(&m->out, "    h%d = h%d |> s%d |> %s\n", y.id, x.id, l, layer_activation(m));
    dl_putf(&m->out, "    h%d = h%d + s%d(h%d)\n", z.id, x.id, l, y.id);
    return z;
}

/* Moved along an axis, turned, or with a position's own parameter. */
static layer_map put_moved(layer_maker *m, layer_map x) {
    layer_map y = named(m, x);
    switch (below(&m->r, 4)) {
    case 0: dl_putf(&m->out, "    h%d = h%d - roll(h%d, 1, over=W)\n", y.id, x.id, x.id); break;
    case 1:
        dl_putf(&m->out, "    h%d = 0.5 * (h%d + flip(h%d, over=%s))\n", y.id, x.id, x.id,
                layer_axes(x.d));
        break;
    case 2:
        dl_putf(&m->out, "    h%d = cumsum(h%d, over=W) / %d\n", y.id, x.id, x.size[x.d - 1]);
        break;
    default:
        dl_putf(&m->out, "    param p%d: [1, C=%d", m->params, x.c);
        for (int i = 0; i < x.d; i++) dl_putf(&m->out, ", %c=%d", "DHW"[3 - x.d + i], x.size[i]);
        dl_putf(&m->out, "] ~ normal(0, 0.02)\n    h%d = h%d + p%d\n", y.id, x.id, m->params);
        m->params++;
    }
    return y;
}

/* Norms as people write them out, over channels or places. */
static layer_map put_hand_norm(layer_maker *m, layer_map x) {
    layer_map y = named(m, x);
    const char *over = one_in(&m->r, 2) ? "C" : layer_axes(x.d);
    int a = x.id, b = y.id, p = m->params;
    switch (below(&m->r, 5)) {
    case 0:
        dl_putf(&m->out, "    h%d = (h%d - mean(h%d, over=%s)) / sqrt(var(h%d, over=%s) + 1e-3)\n",
                b, a, a, over, a, over);
        break;
    case 1:
        m->params++;
        dl_putf(
            &m->out,
            "    param p%d: [C=%d] = 1\n    h%d = h%d * rsqrt(mean(h%d**2, over=C) + 1e-6) * p%d\n",
            p, x.c, b, a, a, p);
        break;
    case 2: dl_putf(&m->out, "    h%d = h%d / (norm(h%d, over=%s) + 0.1)\n", b, a, a, over); break;
    case 3:
        dl_putf(
            &m->out,
            "    h%d = (h%d - min(h%d, over=%s)) / (max(h%d, over=%s) - min(h%d, over=%s) + 1)\n",
            b, a, a, over, a, over, a, over);
        break;
    default: dl_putf(&m->out, "    h%d = h%d - stop_gradient(mean(h%d))\n", b, a, a);
    }
    return y;
}

/* Channels or places in another order, and back. */
static layer_map put_shuffled(layer_maker *m, layer_map x) {
    const char *axes = layer_pattern(x.d);
    bool even = x.d == 2 && x.size[0] % 2 == 0 && x.size[1] % 2 == 0;
    if (x.c % 2 == 0 && !one_in(&m->r, 3))
        return layer_put(m, x, x,
                         dl_format(m->arena,
                                   "rearrange(\"n (g c) %s -> n (c g) %s\", g=2) as [N, C, %s",
                                   axes, axes, layer_axes(x.d) + 1));
    if (even) {
        layer_map y = x;
        y.c *= 4, y.size[0] /= 2, y.size[1] /= 2;
        y = layer_put(m, x, y,
                      "rearrange(\"n c (h p) (w q) -> n (c p q) h w\", p=2, q=2) as [N, C, H, W]");
        y = put_unit(m, y, 4 * x.c);
        if (y.c != 4 * x.c) y = layer_point(m, y, 4 * x.c);
        return layer_put(
            m, y, x, "rearrange(\"n (c p q) h w -> n c (h p) (w q)\", p=2, q=2) as [N, C, H, W]");
    }
    if (x.d == 2 && x.size[0] == x.size[1])
        return put_sum(m, x,
                       layer_put(m, x, x, "rearrange(\"n c h w -> n c w h\") as [N, C, H, W]"));
    return put_unit(m, x, draw_width(m));
}

/* Each place of an axis twice, one by one or one after the other, and half of them again. */
static layer_map put_repeated(layer_maker *m, layer_map x) {
    static const char *const front[] = {"", "", "h ", "d h "};
    layer_map y = x;
    y.size[x.d - 1] *= 2;
    y = layer_put(
        m, x, y,
        dl_format(m->arena, "expand(R=2) |> rearrange(\"n c %sw r -> n c %s(%s)\") as [N, C, %s",
                  front[x.d], front[x.d], one_in(&m->r, 2) ? "w r" : "r w", layer_axes(x.d) + 1));
    y = layer_put(m, y, y, layer_activation(m));
    if (one_in(&m->r, 2)) y = put_unit(m, y, x.c);
    if (y.c != x.c) y = layer_point(m, y, x.c);
    return put_sum(m, x,
                   layer_put(m, y, x,
                             x.d == 1   ? "avg_pool(2)"
                             : x.d == 2 ? "avg_pool([1, 2])"
                                        : "max_pool([1, 1, 2])"));
}

/* Attention between channels, written out: products by names. */
static layer_map put_gram(layer_maker *m, layer_map x) {
    layer_map y = named(m, x);
    int a = x.id, b = y.id;
    dl_putf(&m->out, "    k%d = h%d as [N, K, %s\n", b, a, layer_axes(x.d) + 1);
    dl_putf(&m->out, "    g%d = softmax(sum(h%d * k%d, over=%s) / %d, over=K)\n", b, a, b,
            layer_axes(x.d), (int)layer_points(&x));
    dl_putf(&m->out, "    h%d = h%d + sum(g%d * k%d, over=K)\n", b, a, b, b);
    return y;
}

/* A cell over the first places of an axis; its last state goes to all of them. */
static layer_map put_recurrent(layer_maker *m, layer_map x) {
    layer_map y = named(m, x);
    int a = x.id, b = y.id, l = m->labels, steps = 1 + below(&m->r, 3), most = x.size[x.d - 1];
    m->labels += 2;
    dl_putf(&m->out, "    u%d = linear(%d) @l%d\n    v%d = linear(%d, bias=false) @l%d\n", b, x.c,
            l, b, x.c, l + 1);
    dl_putf(&m->out, "    r%d = expand(0.0, N=%d, C=%d)\n", b, m->n, x.c);
    for (int i = 0; i < steps && i < most; i++)
        dl_putf(&m->out, "    r%d = tanh(u%d(%s(h%d[W=%d]%s)) + v%d(r%d))\n", b, b,
                x.d > 1 ? "mean" : "", a, i,
                x.d == 1   ? ""
                : x.d == 2 ? ", over=H"
                           : ", over=[D, H]",
                b, b);
    dl_putf(&m->out, "    h%d = h%d + r%d\n", b, a, b);
    return y;
}

layer_map layer_block(layer_maker *m, layer_map x) {
    switch (below(&m->r, 23)) {
    case 0:
    case 1:
    case 2: return put_residual(m, x);
    case 3:
    case 4: return put_resized(m, x);
    case 5: return put_dense(m, x);
    case 6: return put_inception(m, x);
    case 7: return put_squeeze(m, x);
    case 8: return put_places(m, x);
    case 9: return put_film(m, x);
    case 10: return put_convnext(m, x);
    case 11:
        return x.c <= 32 && layer_points(&x) <= 256 ? put_transformer(m, x) : put_residual(m, x);
    case 12:
    case 13: return put_valley(m, x, 1 + below(&m->r, 2));
    case 14: return put_shared(m, x);
    case 15: return put_moved(m, x);
    case 16: return layer_put(m, x, x, one_in(&m->r, 2) ? "dropout(0.2)" : "drop_path(0.1)");
    case 17: return put_hand_norm(m, x);
    case 18: return put_shuffled(m, x);
    case 19: return x.c * x.c <= 1024 ? put_gram(m, x) : put_residual(m, x);
    case 20: return put_recurrent(m, x);
    case 21: return put_repeated(m, x);
    default: return put_unit(m, x, draw_width(m));
    }
}
