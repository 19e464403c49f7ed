"""The models that oracle_onnx.py exports: files of models/ at small sizes, each op with its variants, and layers by
name."""
from small_models import model_file

CHANNELS = ["--n_in_channels=3", "--n_out_channels=3"]
MODELS = {
    "unet": [model_file("unet"), "--full_scale=false", "--data_size=32"],
    "resunet": ["resunet.dl", "--widths=[8,8,16]", "--norm_groups=4", "--heads=2", "--data_size=8"],
    "vit": ["vit.dl", "--config=tiny", "--img_size=[16,32]", "--embed_dim=16", "--depth=2", "--num_heads=4", *CHANNELS,
            "--data_loader_config=synthetic"],
    "convnext": ["convnext.dl", "--img_size=[16,32]", "--embed_dim=8", "--depth=2", "--poles=reflect", *CHANNELS],
    "resnet": ["resnet.dl", "--widths=[4,4,4,4]", "--depths=[1,1,1,1]", "--n_classes=5", "--input_shape=[64,64,3]"],
    "resnet_small": ["resnet.dl", "--small=true", "--widths=[4,4,4,4]", "--depths=[1,1,1,1]", "--expand=1",
                     "--n_classes=5",
                     "--input_shape=[16,16,3]"],
    "cnn_classifier": ["cnn_classifier.dl", "--input_shape=[16,16,3]"],
    "fno": ["field/fno.dl", "--width=6", "--modes=3", "--layers=2", "--hidden=16", "--size=14"],
    "lstm": ["field/lstm.dl", "--days=9", "--forcings=3", "--attributes=2", "--hidden=5", "--layers=2"],
    "cnn_regressor": ["cnn_regressor.dl", "--hidden=4", "--depth=3", "--data_size=8"],
}

# Name: the type of x, and values that are outputs (predict has eight of them at most). v is a parameter [C=4].
OPS = {
    "arithmetic": ("f32[N, C=4, T=10]", [
        "a = prod(x, over=C) + sum(cumsum(x * v, over=T), over=C) + mean(x, over=[C, T])",
        "b = log_softmax(x * v, over=C) + stop_gradient(softmax(x, over=T))",
        "c = where(x != v, min(x, over=C), max(x, over=T)) + where(not (x > 0) and (x <= v) or (x >= 1), v, 0)",
        "d = log1p(abs(x) * 1e-4) * 1e4 + expm1(x * 1e-4) * 1e4 + log1p(abs(x) * 10) + expm1(x)",
        "e = rsqrt(abs(x) + 1) + sqrt(abs(x)) + sin(x) * cos(v) + erf(x) + exp(-x) + log(abs(x) + 0.1) + abs(x)**1.3",
        "f = floor(x) + sign(x - v) + square(x) + max(x, v) * min(x, 0.5) + clamp(x, min=-0.7) + clamp(x, max=0.3) - "
        "clamp(x, min=0, max=1)",
        "g = var(x, over=T) + std(x, over=C) + norm(x, over=C) / 3",
        "h = (any(x > 1.5, over=T) as f32) + (all(x > -2, over=T) as f32)"]),
    "activations": ("f32[N, C=4, T=10]", [
        "a = relu(x) + leaky_relu(x, 0.2) + elu(x, 0.7)",
        "b = gelu(x) + gelu(x, approximate=\"tanh\") * v",
        "c = silu(x) + sigmoid(x) * tanh(x)",
        "d = softplus(x) + softplus(x, 2.0, 30.0)",
        "e = softplus(x, 1.5, 3.0)"]),
    "not_finite": ("f32[N, C=4, T=10]", [
        "a = where(x > 1, 1 / (0 * x), x) |> max(v)",
        "b = log(x) |> relu",
        "c = clamp(sqrt(x), min=-1, max=1)",
        "d = exp(200 * x)"]),
    "windows_1d": ("f32[N, C=4, T=11]", [
        "a = x |> max_pool(4, stride=2, pad=1, ceil_mode=true)",
        "b = avg_pool(x, 4, stride=2, pad=1, count_include_pad=false, ceil_mode=true)",
        "c = avg_pool(x, 4, stride=2, pad=1, ceil_mode=true) + avg_pool(x, 4, stride=2, pad=1, ceil_mode=true)[T=0]",
        "d = max_pool(x, 3, stride=1, pad=1, dilation=2) * v + max_pool(x - 5, 2, stride=4, dilation=4, "
        "ceil_mode=true)[T=2]",
        "e = pad(x, 3, mode=\"reflect\", over=T) - roll(pad(x, 3, mode=\"circular\", over=T), 2, over=T)",
        "f = upsample(x, size=17, mode=\"linear\") + upsample(x, size=17, mode=\"nearest\")",
        "g = avg_pool(x, 3, stride=2, pad=1) + avg_pool(x, 3, stride=2, pad=1, count_include_pad=false)",
        "h = pad(x, 2, mode=\"replicate\", over=T)[T=1:15:3]"]),
    "resizing": ("f32[N, C=4, H=6, W=9]", [
        "a = adaptive_avg_pool(x, [4, 5]) * v",
        "b = adaptive_avg_pool(x, [3, 3]) + adaptive_avg_pool(x, 1)[H=0, W=0]",
        "c = upsample(x, size=[12, 27], mode=\"nearest\")",
        "d = upsample(x, size=[9, 4], mode=\"nearest\")",
        "e = upsample(x, scale_factor=2, mode=\"bilinear\")",
        "f = upsample(x, scale_factor=3, mode=\"bilinear\", align_corners=true)",
        "g = upsample(x, size=[7, 5], mode=\"bilinear\")",
        "h = upsample(x, size=[7, 5], mode=\"bilinear\", align_corners=true)"]),
    "convolutions": ("f32[N, C=4, H=6, W=9]", [
        "a = x |> conv(8, 3, stride=2, pad=same, groups=2) @a",
        "b = x |> conv_transpose(6, [3, 4], stride=2, pad=1, out_pad=1, groups=2, dilation=[1, 2]) @b",
        "c = x |> conv(4, [1, 3], pad=[0, 2], dilation=2, groups=4, bias=false) @c",
        "d = x |> instance_norm |> group_norm(2) @d |> batch_norm @dd",
        "e = x |> layer_norm(over=H) @e |> rearrange(\"n c h w -> n (h w) c\") as [N, S, E] |> linear(3) @ee",
        "f = x |> rearrange(\"n (c d) h (w v) -> n (d h) (v c w)\", d=2, v=3) as [N, A, B]"]),
    "products": ("f32[N, C=4, T=6, E=8]", [
        "a = sum(x * v, over=C)",
        "b = x[C=0] |> linear(6) @b as [N, T, K]",
        "c = attention(x[C=0], x[C=1], x[C=2], 2) + attention(x[C=0], x[C=1], x[C=2], 4, causal=true)",
        "h = attention(x[C=0], x[C=1], x[C=2], 2, mask=(x[C=3, E=0] > 0.5), bias=(x[C=3] as [N, T, S])[S=0:6])",
        "d = sum(x[C=0] * x[C=1] as [N, T, E], over=[T, E])",
        "e = sum((x[C=0] as [N, T, E]) * (x[C=1] as [N, S, E]), over=E)",
        "f = sum((x as [N, C, T, E]) * (x as [N, C, T, K]), over=T) * v",
        "g = sum((x as [N, C, T, E]) * (x as [N, K, T, E]), over=[T, E])"]),
    "recurrent": ("f32[N, C=4, T=6]", [
        "a = x |> lstm(5) @a",
        "b = x |> lstm(3, layers=2, bidirectional=true) @b",
        "c = x |> gru(4, bidirectional=true) @c",
        "d = x |> rnn(5, bias=false) @d",
        "e = x |> rnn(3, nonlinearity=\"relu\", bidirectional=true) @e",
        "f = unsqueeze(x, over=E) |> gru(2) @f",
        "g = sum((x |> lstm(3, layers=2, bidirectional=true, states=true) @g)[2], over=L)",
        "h = x |> lstm(6, h0=unsqueeze(x[C=0], over=L, at=0), c0=unsqueeze(x[C=1], over=L, at=0)) @h",
        "i = (x |> gru(6, bias=false, h0=unsqueeze(x[C=2], over=L, at=0), states=true) @i)[1][L=0]",
        "j = sum((x |> rnn(6, bidirectional=true, h0=x[C=1:3] |> rearrange(\"n c t -> c n t\") as [L, N, T], "
        "states=true) @j)[1], over=L)"]),
    "indices": ("i32[N, T=6]", [
        "a = x |> embedding(4, 3) @a",
        "b = one_hot(x, K=4)",
        "c = cat(embedding(x - 2, 5, 2) @c, embedding(x + 2, 4, 2) @cc, over=T)",
        "d = (max(x, 2 * x) - relu(x - 1) + abs(-x) + clamp(x, max=1) + cumsum(x, over=T)) * mean(v)",
        "e = ((x > 1) == (x > 0)) as f32",
        "f = argmax(one_hot(x, K=4) * 2, over=K) as f32",
        "g = (sum(x, over=T) + prod(x, over=T) + min(x, over=T)) as f32"]),
    "lookups": ("f32[N, C=4, T=6]", [
        "a = gather(x, top_k(x, 3, over=T), over=T)",
        "b = gather(x, argmax(x, over=T), over=T)",
        "c = gather(v, argmax(x, over=C), over=C)",
        "d = gather(x, argmax(x, over=C) - 1, over=C)",
        "f = sort(x, over=T) * (argsort(x as bf16, over=C, descending=true) as f32) + median(x, over=C)",
        "g = sort(floor(2 * x), over=C) * (argsort(floor(2 * x), over=C) as f32)",
        "e = gather(x[C=0], argmax(x, over=C) |> rearrange(\"n t -> t n\") as [S, N], over=T) |> rearrange(\"s n -> n "
        "s\")"]),
    "angles": ("f32[N, C=4, T=11]", [
        "a = atan2(x, v)",
        "b = atan2(x - x[T=0], x[C=1]) + atan2(0 * abs(x), x)",
        "c = asin(tanh(x)) + acos(tanh(x)) * atan(x)"]),
    "scans": ("f32[N, C=4, T=11]", [
        "a = cumsum(x, over=T, reverse=true) + cumsum(x, over=C, exclusive=true)",
        "f = cumsum(x as bf16, over=C) as f32",
        "b = cumprod(x, over=T) + cumprod(x, over=C, reverse=true, exclusive=true)",
        "c = linear_scan(sigmoid(x), x, over=T) + linear_scan(v, x, over=C, reverse=true)",
        "d = linear_scan(0.9, x, over=T, reverse=true) + cumsum((x > 0) as i64, over=T)",
        "e = grad(sum(linear_scan(sigmoid(x), x, over=T)**2), x)"]),
    "transforms": ("f32[N, C=4, H=9, W=14]", [
        "a = rfft(x, over=W) |> irfft(over=W, size=14) |> tanh",
        "b = rfft(x, over=H, modes=3) |> irfft(over=H, modes=3, size=12)",
        "c = fft(rfft(x, over=W, modes=4), over=H, modes=2) |> ifft(over=H, modes=2, size=9)",
        "d = fft(rfft(x, over=H), over=W)"]),
    "complex": ("f32[N, C=4, H=9, W=14]", [
        "f = rfft(x, over=W, modes=4)",
        "a = complex_einsum(\"nchw,ncgw->ncghw\", f, f as [N, C, G, W, Z])",
        "b = complex_einsum(\"nchw,ndhw->ndhc\", f, f as [N, D, H, W, Z])",
        "c = complex_einsum(\"nchw,ncgw->n\", f, f as [N, C, G, W, Z])",
        "d = grad(sum(a**2) + sum(b), x)"]),
    "gradients": ("f32[N, C=4, H=9, W=14]", [
        "a = grad(sum(max_pool(x, 3, stride=2, pad=1)**2), x)",
        "b = grad(sum(avg_pool(x * v, 2)**3), x)",
        "c = grad(sum((pad(x, 2, mode=\"circular\", over=W) |> conv(3, 3, stride=2, groups=1) @c)**2), x)",
        "d = grad(sum((pad(x, 1, mode=\"reflect\", over=H) |> conv_transpose(2, 3, stride=2) @d)**2), x)",
        "e = grad(sum(upsample(x, size=[12, 20], mode=\"bilinear\")**3), x)",
        "f = grad(sum(softmax(x, over=C) * gelu(x)), x) + grad(sum(gather(x, argmax(x, over=W), over=W)**2), x)",
        "g = grad(sum(x |> group_norm(2) @g |> batch_norm @gg), x)",
        "h = grad(sum(roll(x, 1, over=H) * cumsum(x, over=W)), x)"]),
    "sums": ("f32[N, C=4, T=6]", [
        "k = argmax(x, over=C) - 1",
        "a = segment_sum(x, k, over=T, S=3)",
        "b = segment_mean(x * v, k as i64, over=T, S=4)",
        "c = segment_sum(x, argmax(x, over=T) as i32, over=C, P=9)",
        "d = segment_sum(x as f64, argmax(x, over=T) - 1, over=C, P=6)",
        "e = segment_max(x, k, over=T, S=5)",
        "f = segment_min(x * v, argmax(x, over=T) as i64, over=C, P=7)"]),
    "doubles": ("f64[N, C=4, T=6]", [
        "a = softmax(x, over=T) * tanh(x) + leaky_relu(x, 0.1) + elu(x, 0.5) + clamp(x, min=-1)",
        "b = x |> max_pool(2) |> avg_pool(3) |> upsample(scale_factor=2)",
        "c = cumsum(x, over=C) + prod(x, over=C) + cat(x, 2 * x, over=T)[T=3:9]",
        "d = log_softmax(x, over=C) + one_hot(argmax(x, over=C), C=4) + log1p(abs(x)) + expm1(x)",
        "e = x |> linear(3) @e |> layer_norm @ee |> group_norm(2) @eee"]),
}

LAYERS = {
    "volume": """model Volume():
    input  x: f32[N, C=2, D=4, H=6, W=6]
    target t: f32[N, C=2, D, H, W]
    a = x |> conv(4, 3, pad=1) @a |> batch_norm @norm |> relu
    b = a |> max_pool(2) |> conv(6, [1, 3, 3], pad=[0, 1, 1]) @b |> silu |> conv_transpose(4, 2, stride=2) @up
    c = upsample(a |> avg_pool(2), scale_factor=2, mode="trilinear")
    y = cat(b, c, x, over=C) |> conv(2, 1) @c
    output y
    loss = mse_loss(y, t)
""",
    "table": """model Table():
    input  x: f32[N, H=5, W=6]
    target t: f32[N, H, W]
    k = [[0, 1, 0], [1, -4, 1], [0, 1, 0]] as [P, Q]
    param w: [H=5] ~ normal(0, 1)
    wt = cos(linspace(90, -90, over=H) * pi/180) * w
    y = x * wt + mean(k) * x + sum(x * w, over=[H, W])
    output y
    loss = mse_loss(y, t)
""",
    "steps": """module Decay(k)(x, h): return tanh(h * k + x)
module Twice(k)(x, h): return [h * k + x, x, h, h * k]
module Count(n)(a, h): return [a + h, tanh(h |> linear(n) @h)]
model Steps():
    input  x: f32[N, T=6, E=5]
    target t: f32[N, E=5]
    y, h = scan(Decay(0.5), x, x[T=0], over=T, reverse=true)
    a, b, c, g = scan(Twice(0.25), x as f64, x[T=1] as f64, over=T)
    batch, last = scan(Count(5) @count, x |> rearrange("n t e -> t n e") as [K, N, E], h, over=K)
    own, end = scan(linear(5) @own, none, h, over=S, steps=4)
    n = grad(sum(y * y) + sum(last), x)
    z = h + (mean(a + b + c, over=T) as f32) + (g as f32) + mean(batch, over=K) + own[S=2] + end
    output z
    output y
    output n
    loss = mse_loss(z, t)
""",
}
