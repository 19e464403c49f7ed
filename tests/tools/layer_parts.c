/* Single layers of random models: convolutions, pools, resizing, norms, activations. */
#include "tests/tools/layers.h"

int64_t layer_points(const layer_map *x) {
    int64_t n = 1;
    for (int i = 0; i < x->d; i++) n *= x->size[i];
    return n;
}

const char *layer_axes(int d) { return d == 1 ? "[W]" : d == 2 ? "[H, W]" : "[D, H, W]"; }
const char *layer_pattern(int d) { return d == 1 ? "w" : d == 2 ? "h w" : "d h w"; }

layer_map layer_put(layer_maker *m, layer_map from, layer_map like, const char *stages) {
    like.id = m->maps++;
    dl_putf(&m->out, "    h%d = h%d |> %s\n", like.id, from.id, stages);
    return like;
}

/* One number, or one a spatial axis: "[2, 1]". */
static const char *numbers(layer_maker *m, int d, const int *v) {
    bool same = true;
    for (int i = 1; i < d; i++) same = same && v[i] == v[0];
    if (same && !one_in(&m->r, 4)) return dl_format(m->arena, "%d", v[0]);
    return d == 1   ? dl_format(m->arena, "[%d]", v[0])
           : d == 2 ? dl_format(m->arena, "[%d, %d]", v[0], v[1])
                    : dl_format(m->arena, "[%d, %d, %d]", v[0], v[1], v[2]);
}

const char *layer_activation(layer_maker *m) {
    static const char *const all[] = {"relu",
                                      "relu",
                                      "gelu",
                                      "silu",
                                      "leaky_relu(0.2)",
                                      "elu",
                                      "elu(alpha=0.5)",
                                      "gelu(approximate=\"tanh\")",
                                      "softplus",
                                      "softplus(beta=2.0)",
                                      "sigmoid",
                                      "tanh",
                                      "clamp(min=0, max=6)",
                                      "clamp(min=-1)",
                                      "abs",
                                      "sin",
                                      "square"};
    return all[below(&m->r, (int)(sizeof all / sizeof *all))];
}

static const int group_counts[] = {8, 4, 3, 2, 1};

/* A number of groups that divides both. */
static int draw_groups(layer_maker *m, int a, int b) {
    int g;
    do g = one_in(&m->r, 4) ? a : group_counts[below(&m->r, 5)];
    while (a % g || b % g);
    return g;
}

const char *layer_norm_of(layer_maker *m, const layer_map *x) {
    int l = m->labels++;
    switch (below(&m->r, 6)) {
    case 0: return dl_format(m->arena, "batch_norm() @l%d", l);
    case 1:
        return dl_format(m->arena, "instance_norm(affine=%s) @l%d",
                         one_in(&m->r, 2) ? "true" : "false", l);
    case 2:
        return x->c > 1 ? dl_format(m->arena, "layer_norm(over=C) @l%d", l)
                        : dl_format(m->arena, "batch_norm(momentum=0.8) @l%d", l);
    case 3:
        return dl_format(m->arena, "group_norm(%d, affine=false) @l%d", draw_groups(m, x->c, x->c),
                         l);
    default: {
        int groups = draw_groups(m, x->c, x->c);
        return dl_format(m->arena, "group_norm(%d%s) @l%d", groups,
                         one_in(&m->r, 3) ? ", eps=0.001" : "", l);
    }
    }
}

layer_map layer_norm(layer_maker *m, layer_map x) {
    return layer_points(&x) < 2 ? x : layer_put(m, x, x, layer_norm_of(m, &x));
}

layer_map layer_bend(layer_maker *m, layer_map x) {
    layer_map y = x;
    int a = x.id, b, half = x.c / 2;
    if (!one_in(&m->r, 5)) return layer_put(m, x, x, layer_activation(m));
    b = y.id = m->maps++;
    switch (below(&m->r, 6)) {
    case 0: dl_putf(&m->out, "    h%d = h%d * tanh(softplus(h%d))\n", b, a, a); break;
    case 1: dl_putf(&m->out, "    h%d = h%d * clamp(h%d + 3, min=0, max=6) / 6\n", b, a, a); break;
    case 2: dl_putf(&m->out, "    h%d = where(h%d > 0, h%d, 0.1 * h%d)\n", b, a, a, a); break;
    case 3: dl_putf(&m->out, "    h%d = softmax(h%d, over=C) * h%d\n", b, a, a); break;
    case 4:
        dl_putf(&m->out,
                "    param p%d: [C=%d] = 0.25\n    h%d = max(h%d, 0) + p%d * min(h%d, 0)\n",
                m->params, x.c, b, a, m->params, a);
        m->params++;
        break;
    default:
        if (x.c % 2) {
            dl_putf(&m->out, "    h%d = h%d * sigmoid(1.702 * h%d)\n", b, a, a);
            break;
        }
        y.c = half;
        dl_putf(&m->out, "    h%d = h%d[C=0:%d] * sigmoid(h%d[C=%d:%d])\n", b, a, half, a, half,
                x.c);
    }
    return y;
}

layer_map layer_point(layer_maker *m, layer_map x, int c) {
    layer_map y = x;
    y.c = c;
    return layer_put(m, x, y,
                     dl_format(m->arena, "conv(%d, 1%s) @l%d", c,
                               one_in(&m->r, 3) ? ", bias=false" : "", m->labels++));
}

/* In front of a convolution: padding of another kind along each axis. */
static const char *other_padding(layer_maker *m, const layer_map *x, const int *pad) {
    static const char *const modes[] = {"circular", "reflect", "replicate", "constant"};
    static const char *const names[] = {"D", "H", "W"};
    dl_buf b = {0};
    for (int i = 0; i < x->d; i++)
        dl_putf(&b, "pad(%d, mode=\"%s\", over=%s) |> ", pad[i], modes[below(&m->r, 4)],
                names[3 - x->d + i]);
    const char *t = dl_format(m->arena, "%s", b.at);
    dl_buf_free(&b);
    return t;
}

layer_map layer_conv(layer_maker *m, layer_map x, int c) {
    static const int kernels[] = {1, 3, 3, 3, 5, 7};
    layer_map y = x;
    int kernel[3], pad[3] = {0}, dilation[3],
                   groups = one_in(&m->r, 3) ? draw_groups(m, x.c, c) : 1;
    bool same = one_in(&m->r, 5), fits = true;
    int each = kernels[below(&m->r, 6)];
    for (int i = 0; i < x.d; i++) {
        kernel[i] = one_in(&m->r, 5) ? kernels[below(&m->r, 6)] : each;
        dilation[i] = one_in(&m->r, 6) ? 2 : 1;
        pad[i] = kernel[i] / 2 * dilation[i];
        fits = fits && pad[i] < x.size[i];
    }
    y.c = c;
    const char *pads = same ? "same" : numbers(m, x.d, pad), *front = "";
    if (fits && one_in(&m->r, 5)) front = other_padding(m, &x, pad), pads = "0";
    const char *edges = numbers(m, x.d, kernel), *spread = numbers(m, x.d, dilation),
               *bias = one_in(&m->r, 3) ? ", bias=false" : "",
               *split = groups > 1 ? dl_format(m->arena, ", groups=%d", groups) : "";
    return layer_put(m, x, y,
                     dl_format(m->arena, "%sconv(%d, %s, pad=%s, dilation=%s%s%s) @l%d", front, c,
                               edges, pads, spread, split, bias, m->labels++));
}

/* The size of an axis after a window. */
static int windows(int n, int kernel, int stride, int pad) {
    return (n + 2 * pad - kernel) / stride + 1;
}

static layer_map put_pool(layer_maker *m, layer_map x) {
    layer_map y = x;
    int kernel[3], stride[3], pad[3] = {0};
    bool up = one_in(&m->r, 4);
    for (int i = 0; i < x.d; i++) {
        kernel[i] = 2 + below(&m->r, 2), stride[i] = 1 + below(&m->r, 3), pad[i] = below(&m->r, 2);
        if (kernel[i] > x.size[i]) kernel[i] = 1, stride[i] = 1, pad[i] = 0;
        int rest = (x.size[i] + 2 * pad[i] - kernel[i]) % stride[i];
        y.size[i] = windows(x.size[i], kernel[i], stride[i], pad[i]);
        if (up && rest && y.size[i] * stride[i] < x.size[i] + pad[i]) y.size[i]++;
    }
    const char *kind = one_in(&m->r, 2) ? "max_pool" : "avg_pool", *edges = numbers(m, x.d, kernel),
               *strides = numbers(m, x.d, stride), *pads = numbers(m, x.d, pad);
    return layer_put(m, x, y,
                     dl_format(m->arena, "%s(%s, stride=%s, pad=%s%s)", kind, edges, strides, pads,
                               up ? ", ceil_mode=true" : ""));
}

static layer_map put_strided(layer_maker *m, layer_map x, int c) {
    layer_map y = x;
    int kernel[3], stride[3], pad[3];
    for (int i = 0; i < x.d; i++) {
        stride[i] = 1 + below(&m->r, 3), kernel[i] = 1 + below(&m->r, 4);
        if (kernel[i] > x.size[i]) kernel[i] = 1;
        pad[i] = kernel[i] / 2;
        y.size[i] = windows(x.size[i], kernel[i], stride[i], pad[i]);
    }
    y.c = c;
    const char *edges = numbers(m, x.d, kernel), *strides = numbers(m, x.d, stride),
               *pads = numbers(m, x.d, pad);
    return layer_put(m, x, y,
                     dl_format(m->arena, "conv(%d, %s, stride=%s, pad=%s) @l%d", c, edges, strides,
                               pads, m->labels++));
}

layer_map layer_down(layer_maker *m, layer_map x, int c) {
    static const char *const names[] = {"D", "H", "W"};
    layer_map y = x;
    int one[3];
    switch (below(&m->r, 5)) {
    case 0: y = put_pool(m, x); return c == x.c ? y : layer_point(m, y, c);
    case 1:
        for (int i = 0; i < x.d; i++) y.size[i] = one[i] = 1 + below(&m->r, x.size[i]);
        y = layer_put(m, x, y, dl_format(m->arena, "adaptive_avg_pool(%s)", numbers(m, x.d, one)));
        return c == x.c ? y : layer_point(m, y, c);
    case 2: { /* every second element, along an axis */
        int i = below(&m->r, x.d);
        if (x.size[i] < 3) return layer_point(m, x, c);
        y.size[i] = (x.size[i] + 1) / 2, y.id = m->maps++;
        dl_putf(&m->out, "    h%d = h%d[%s=0:%d:2]\n", y.id, x.id, names[3 - x.d + i], x.size[i]);
        return layer_point(m, y, c);
    }
    default: return put_strided(m, x, c);
    }
}

static const char *resizing(layer_maker *m, int d) {
    static const char *const linear[] = {"", "linear", "bilinear", "trilinear"};
    if (one_in(&m->r, 3)) return "mode=\"nearest\"";
    return dl_format(m->arena, "mode=\"%s\"%s", linear[d],
                     one_in(&m->r, 3) ? ", align_corners=true" : "");
}

layer_map layer_to(layer_maker *m, layer_map x, const layer_map *s) {
    layer_map y = *s;
    y.c = x.c;
    const char *sizes = numbers(m, x.d, s->size), *mode = resizing(m, x.d);
    return layer_put(m, x, y, dl_format(m->arena, "upsample(size=%s, %s)", sizes, mode));
}

/* Channels become elements of the spatial axes. */
static layer_map put_shuffle(layer_maker *m, layer_map x) {
    layer_map y = x;
    int r = 1 << x.d;
    for (int i = 0; i < x.d; i++) y.size[i] *= 2;
    if (x.c % r) x = layer_point(m, x, r * (1 + below(&m->r, 3)));
    y.c = x.c / r;
    return layer_put(
        m, x, y,
        x.d == 1   ? "rearrange(\"n (c p) w -> n c (w p)\", p=2) as [N, C, W]"
        : x.d == 2 ? "rearrange(\"n (c p q) h w -> n c (h p) (w q)\", p=2, q=2) as [N, C, H, W]"
                   : "rearrange(\"n (c o p q) d h w -> n c (d o) (h p) (w q)\", o=2, p=2, q=2) "
                     "as [N, C, D, H, W]");
}

layer_map layer_up(layer_maker *m, layer_map x, int c) {
    layer_map y = x;
    int factor[3], out = 1 + below(&m->r, 2);
    for (int i = 0; i < x.d; i++)
        y.size[i] *= factor[i] = one_in(&m->r, 6) ? 1 + below(&m->r, 3) : out + 1;
    y.c = c;
    if (layer_points(&y) * c * m->n > m->largest) return layer_point(m, x, c);
    if (one_in(&m->r, 4)) {
        y = put_shuffle(m, x);
        return y.c == c ? y : layer_point(m, y, c);
    }
    if (one_in(&m->r, 2)) {
        y.c = x.c;
        const char *factors = numbers(m, x.d, factor), *mode = resizing(m, x.d);
        y = layer_put(m, x, y, dl_format(m->arena, "upsample(scale_factor=%s, %s)", factors, mode));
        return c == x.c ? y : layer_point(m, y, c);
    }
    int kernel[3], pad[3], groups = one_in(&m->r, 4) ? draw_groups(m, x.c, c) : 1;
    for (int i = 0; i < x.d; i++) {
        kernel[i] = factor[i] + (one_in(&m->r, 2) && factor[i] > 1 ? 2 : 0);
        pad[i] = (kernel[i] - factor[i]) / 2;
    }
    const char *edges = numbers(m, x.d, kernel), *strides = numbers(m, x.d, factor),
               *pads = numbers(m, x.d, pad),
               *split = groups > 1 ? dl_format(m->arena, ", groups=%d", groups) : "";
    return layer_put(m, x, y,
                     dl_format(m->arena, "conv_transpose(%d, %s, stride=%s, pad=%s%s) @l%d", c,
                               edges, strides, pads, split, m->labels++));
}
