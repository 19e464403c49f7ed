/* The models that test_shard.c cuts. */

#include "tests/check.h"

const char mlp[] =
    "model M():\n    input x: f32[N, E=6]\n    target t: f32[N, E=4]\n"
    "    y = x |> linear(8) @a |> gelu |> linear(12) @b |> relu |> linear(4) @c\n    output y\n"
    "    loss = mean((y - t)**2)\n";

const char vit[] =
    "module MLP(hidden, drop)(x: [N, T, E]):\n"
    "    return x |> linear(hidden) @fc1 |> gelu |> dropout(drop) |> linear(E) @fc2 |> "
    "dropout(drop)\n"
    "module Attention(heads, drop)(x: [N, T, E]):\n"
    "    q = x |> linear(E)\n    k = x |> linear(E)\n    v = x |> linear(E)\n"
    "    return attention(q, k, v, heads, dropout=drop) |> linear(E) @proj |> dropout(drop)\n"
    "module Block(heads, drop)(x: [N, T, E]):\n"
    "    x = x + (x |> layer_norm(1e-6) @norm1 |> Attention(heads, drop) @attn)\n"
    "    return x + (x |> layer_norm(1e-6) @norm2 |> MLP(2*E, drop) @mlp)\n"
    "model ViT(drop=0.0):\n    input  x: f32[N, C=2, H=6, W=10]\n    target t: f32[N, C=2, H, W]\n"
    "    param pos: [1, T=15, E=8] ~ normal(0, 0.02)\n"
    "    z = x |> conv(8, 2, stride=2) @patch |> rearrange(\"n c h w -> n (h w) c\") as [N, T, E]\n"
    "    z = dropout(z + pos, drop)\n"
    "    for i in range(2): z = z |> Block(4, drop) @blocks.{i}\n"
    "    y = z |> layer_norm(1e-6) @norm |> linear(8, bias=false) @head\n"
    "          |> rearrange(\"n (h w) (p q c) -> n c (h p) (w q)\", h=3, p=2, q=2) as [N, C, H, "
    "W]\n"
    "    output y\n    loss = mean(norm(y - t, over=[C,H,W]) / norm(t, over=[C,H,W]))\n"
    "    metric \"m\" = mean(sqrt(mean((y - t)[C=0]**2, over=[H,W])))\n";

/* Other names and shapes: keys of another length, gates, a weight read twice, a norm after the
 * queries, products that nothing pairs, an average over the tokens, and who only looks back. */
const char other[] =
    "model Other():\n    input a: f32[N, S=7, F=6]\n    input b: f32[N, R=5, F=6]\n    target t: "
    "f32[N, "
    "K=3]\n"
    "    param w: [F=6, F2=6] ~ normal(0, 0.4)\n"
    "    u = a |> linear(8) @in1 |> layer_norm(1e-5) @n1\n"
    "    v = b |> linear(8) @in2\n"
    "    q = u |> linear(8) @wide |> layer_norm(1e-5) @n2\n"
    "    h = attention(q, v |> linear(8) @ka, v |> linear(8) @va, 4, causal=true) |> tanh |> "
    "linear(8) "
    "@back\n"
    "    h = h + u\n"
    "    g = silu(h |> linear(12) @gate) * (h |> linear(12) @up)\n"
    "    h = h + (g |> linear(8) @down)\n"
    "    h = h + (attention(h |> linear(8) @q2, h |> linear(8) @k2, h |> linear(8) @v2, 2, "
    "causal=true) "
    "|> linear(8) @p2)\n"
    "    y = mean(h, over=S) |> linear(3) @out as [N, K]\n    output y\n"
    "    loss = mean((y - t)**2) + 0.01 * mean(w**2) + 0.1 * mean(mean(h**2, over=[S]))\n";

/* One product makes queries, keys and values, and is cut in three parts: by slices, by a
 * rearrangement (and one that names the heads), head by head, where it is cut as it lies; and one
 * makes gates and what they let through. */
const char fused[] =
    "module MLP(hidden, drop)(x: [N, T, E]):\n"
    "    u = x |> linear(2*hidden) @fc1 as [N, T, G]\n"
    "    return silu(u[G=:hidden]) * u[G=hidden:] |> dropout(drop) |> linear(8) @fc2 as [N, T, E]\n"
    "module Slices(heads)(x: [N, T, E]):\n"
    "    u = x |> linear(3*E) @qkv as [N, T, F]\n"
    "    return attention(u[F=:8] as [N, T, E], u[F=8:16] as [N, T, E], u[F=16:] as [N, T, E], "
    "heads) "
    "|> linear(E) @proj\n"
    "module Turned(heads)(x: [N, T, E]):\n"
    "    u = x |> linear(3*E, bias=false) @qkv |> rearrange(\"n t (k e) -> k n t e\", k=3) as [K, "
    "N, T, E]\n"
    "    return attention(u[K=0], u[K=1], u[K=2], heads) |> linear(E) @proj\n"
    "module Named(heads)(x: [N, T, E]):\n"
    "    u = x |> linear(3*E) @qkv |> rearrange(\"n t (k h d) -> k n t (h d)\", k=3, h=heads) as "
    "[K, N, T, "
    "E]\n"
    "    return attention(u[K=0], u[K=1], u[K=2], heads) |> linear(E) @proj\n"
    "module ByHead(heads)(x: [N, T, E]):\n"
    "    u = x |> linear(3*E) @qkv |> rearrange(\"n t (h k d) -> k n t (h d)\", k=3, h=heads) as "
    "[K, N, T, "
    "E]\n"
    "    return attention(u[K=0], u[K=1], u[K=2], heads) |> linear(E) @proj\n"
    "model Fused(drop=0.0):\n    input  x: f32[N, T=7, E=8]\n    target t: f32[N, T, E]\n    z = "
    "x\n"
    "    z = z + (z |> layer_norm(1e-6) @n1 |> Slices(4) @a1)\n"
    "    z = z + (z |> layer_norm(1e-6) @n2 |> Turned(4) @a2)\n"
    "    z = z + (z |> layer_norm(1e-6) @n3 |> Named(4) @a3)\n"
    "    z = z + (z |> layer_norm(1e-6) @n4 |> ByHead(4) @a4)\n"
    "    z = z + (z |> layer_norm(1e-6) @n5 |> MLP(12, drop) @mlp)\n"
    "    output z\n    loss = mean((z - t)**2)\n";

/* Who only looks back, at keys of its own length and of another: some queries see none of those
 * that are there. */
const char back[] =
    "model Back(drop=0.0):\n    input a: f32[N, S=11, F=6]\n    input b: f32[N, R=7, F=6]\n"
    "    target t: f32[N, S, K=3]\n    target s: f32[N, R, K]\n"
    "    u = a |> linear(8) @in1\n    v = b |> linear(8) @in2\n"
    "    u = u + attention(u |> linear(8) @q1, u |> linear(8) @k1, u |> linear(8) @v1, 4, "
    "dropout=drop, "
    "causal=true)\n"
    "    v = v + attention(v |> linear(8) @q2, v |> linear(8) @k2, v |> linear(8) @v2, 2, "
    "dropout=drop, "
    "causal=true)\n"
    "    w = u + attention(u |> linear(8) @q3, v |> linear(8) @k3, v |> linear(8) @v3, 2, "
    "dropout=drop, "
    "causal=true)\n"
    "    z = v + attention(v |> linear(8) @q4, u |> linear(8) @k4, u |> linear(8) @v4, 4, "
    "dropout=drop, "
    "causal=true)\n"
    "    y = w |> tanh |> linear(3) @out1 as [N, S, K]\n    x = z |> tanh |> linear(3) @out2 as "
    "[N, R, K]\n"
    "    output y\n    loss = mean((y - t)**2) + mean((x - s)**2)\n";
