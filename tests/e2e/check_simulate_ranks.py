"""`dlc simulate-ranks`: 2 and 4 ranks of small models, in one process, against one rank that has the whole batch. What
is drawn is drawn by a sample's place in the global batch, so dropout, drop path and attention's dropout differ no more
than the order of adding does; where ranks do compute something else (batch norm of their own samples), it is found.

check_simulate_ranks.py DLC     from the project's root; needs nothing but Python's own library
"""
import json
import os
import re
import subprocess
import sys

from checks import DRAW, ENV, SHARE, TMP, check, finish

DLC = os.path.abspath(sys.argv[1])
VIT = ["models/vit.dl", "--img_size=[16,32]", "--n_in_channels=3", "--n_out_channels=2", "--patch_size=4",
       "--embed_dim=32",
       "--depth=2", "--num_heads=4"]
CNN = ["models/cnn_classifier.dl", "--input_shape=[32,32,3]"]
RESNET = ["models/resnet.dl", "--small=true", "--depths=[1,1,1,1]", "--strides=[1,2,2,2]", "--widths=[4,8,8,16]",
          "--expand=1",
          "--n_classes=10", "--input_shape=[16,16,3]"]
LOSS, GRADIENT = 1e-5, 1e-5
turn = 0


def simulate(args, ranks):
    return subprocess.run([DLC, "simulate-ranks", *args, f"--ranks={ranks}", "--global_batch_size=8", "--json"],
                          capture_output=True,
                          text=True, env=ENV, stdin=subprocess.DEVNULL)


def same(what, args, loss=LOSS, gradient=GRADIENT, worlds=(2, 4), always=False):
    """Ranks agree with one. Of a share: every third case, as drawn, and one number of ranks, in turn. `always`: no
    other case has what this one tests, so it takes no turns."""
    global turn
    turn += 1
    if SHARE > 1 and (turn + DRAW) % 3 and not always:
        return
    for ranks in worlds if SHARE == 1 else [worlds[(turn + DRAW) // 3 % len(worlds)]]:
        r = simulate(args, ranks)
        check(r.returncode == 0, f"{what}, {ranks} ranks: {r.returncode} {r.stdout[-300:]} {r.stderr[-300:]}")
        if r.returncode:
            continue
        found = json.loads(r.stdout)
        check(found["ranks"] == ranks and found["steps"] >= 3 and found["collectives"] > 0,
              f"{what}, {ranks} ranks: {found}")
        check(found["worst_loss"] <= loss, f"{what}, {ranks} ranks: losses differ by {found['worst_loss']}")
        check(found["worst_gradient"] <= gradient,
              f"{what}, {ranks} ranks: {found['gradient']} differs by {found['worst_gradient']}")


def other(what, args):
    """They do not, and exit status 7 says so."""
    r = simulate(args, 2)
    check(r.returncode == 7, f"{what}: {r.returncode} {r.stdout[-300:]} {r.stderr[-300:]}")
    if r.returncode == 7:
        found = json.loads(r.stdout)
        check(found["worst_loss"] > 1e-4 or found["worst_gradient"] > 1e-4, f"{what}: {found}")


def related(what, loss, line=None):
    """Whether a warning names the line by which a loss relates a rank's own samples."""
    path = os.path.join(TMP, "related.dl")
    with open(path, "w") as f:
        f.write("model M():\n    input x: f32[N, C=6]\n    target k: i64[N]\n    y = x |> linear(5) @a as [N, K]\n"
                f"    output y\n    figure f = [y, y[N=0:1]]\n    loss = {loss}\n")
    r = subprocess.run([DLC, "compile", path, "--ranks=2", "--local_batch_size=3", "--dump=ast"], capture_output=True,
                       text=True, env=ENV, stdin=subprocess.DEVNULL)
    told = re.findall(r"related\.dl:(\d+):\d+: this relates the samples.*each of the 2 ranks takes its own 3", r.stderr)
    check(r.returncode == 0 and told == ([line] if line else []), f"{what}: {r.returncode} {r.stderr[-400:]}")


def model(name, body):
    path = os.path.join(TMP, f"{name}.dl")
    with open(path, "w") as f:
        f.write(f"model M():\n    input  x: f32[N, C=6, W=10]\n    target t: f32[N, C=6, W=10]\n"
                f"    init linear: weight ~ normal(0, 0.3), bias = 0\n{body}    output y\n"
                "    loss = mean((y - t)**2)\n")
    return [path]


def looking_back():
    """Causal attention over 211 tokens and 67, of themselves and of each other: round a ring of four some queries see
    nothing for turns."""
    def attention(q, k, heads, n):
        return (f"attention({q} |> linear(32) @q{n}, {k} |> linear(32) @k{n}, {k} |> linear(32) @v{n}, {heads}, "
                "dropout=0.2, causal=true)")

    path = os.path.join(TMP, "back.dl")
    with open(path, "w") as f:
        f.write("model M():\n    input  a: f32[N, S=211, F=6]\n    input  b: f32[N, R=67, F=6]\n"
                "    target t: f32[N, S, K=3]\n"
                "    target s: f32[N, R, K]\n    u = a |> linear(32) @in1\n    v = b |> linear(32) @in2\n"
                f"    u = u + {attention('u', 'u', 4, 1)}\n    v = v + {attention('v', 'v', 2, 2)}\n"
                f"    w = u + {attention('u', 'v', 2, 3)}\n    z = v + {attention('v', 'u', 4, 4)}\n"
                "    y = w |> tanh |> linear(3) @out1 as [N, S, K]\n    x = z |> tanh |> linear(3) @out2 as [N, R, K]\n"
                "    output y\n    loss = mean((y - t)**2) + mean((x - s)**2)\n")
    return [path]


def compiled(*args):
    r = subprocess.run([DLC, "compile", *args], capture_output=True, text=True, env=ENV, stdin=subprocess.DEVNULL)
    check(r.returncode == 0, f"{args}: {r.returncode} {r.stderr[-300:]}")
    return r.stdout


def state_in_shares():
    """The optimiser's state of two ranks is half of each one's, but for biases and counts."""
    def of(told):
        return [float(re.search(rf"([\d.]+) MiB  {what}", told).group(1))
                for what in ("the arena; graph 'train'", r"\d+ state variables")]

    (peak, state), (less,
                    half) = (of(compiled("models/unet.dl", "--ranks=2", f"--zero={zero}", "--dump=memory"))
                             for zero in (0, 1))
    check(abs(state - 892.5) < 0.1 and abs(half / state - 0.5) < 1e-4, f"the U-Net's state: {state} and {half} MiB")
    check(peak - less > 0.75 * (state - half), f"the U-Net's peak: {peak} and {less} MiB")
    whole, shared = (of(compiled(*VIT, "--embed_dim=64", "--ranks=4", f"--zero={zero}", "--dump=memory"))[1]
                     for zero in (0, 1))
    check(0.25 * whole < shared < 0.32 * whole, f"a ViT's on four ranks: {whole} and {shared} MiB")


def of_one_layer():
    """Queries, keys and values of one layer are split as those of three are: as much state on a rank, and the same
    numbers."""
    with open("models/vit.dl") as f:
        text = f.read()
    three = re.compile(r"    q = x \|> linear\(E\)\n    k = .*\n    v = .*\n    return attention\(q, k, v,")
    check(three.search(text), "the text of VIT's attention")
    path = os.path.join(TMP, "one_layer.dl")
    with open(path, "w") as f:
        f.write(three.sub("    u = x |> linear(3*E) @qkv as [N, T, F]\n    return attention(u[F=:E] as [N, T, E], "
                          "u[F=E:2*E] as [N, T, E], "
                          "u[F=2*E:] as [N, T, E],", text))
    args = [*VIT[1:], "--tensor_parallel=2"]
    one, of_three = (json.loads(compiled(model, *args, "--ranks=2", "--json"))["state_bytes"]
                     for model in (path, VIT[0]))
    check(one == of_three, f"state of a rank, of one layer and of three: {one} and {of_three}")
    same("queries, keys and values of one layer", [path, *args, "--dropout=0.1"])
    same("queries, keys and values of one layer, state in shares", [path, *args, "--embed_dim=64", "--zero=1"],
         worlds=(4,))


def main():
    state_in_shares()
    of_one_layer()
    same("keys and values round a ring, uneven", [*VIT, "--context_parallel=2", "--cp_comm_type=p2p"])
    same("who looks back, round a ring", [*looking_back(), "--context_parallel=4", "--cp_comm_type=p2p"], worlds=(4,))
    same("in shares, and tokens split", [*VIT, "--embed_dim=64", "--zero=1", "--context_parallel=2"])
    same("a ViT with dropout, of attention too", [*VIT, "--dropout=0.1"])
    same("a ConvNeXt with drop path",
         ["models/convnext.dl", "--img_size=[16,32]", "--n_in_channels=3", "--n_out_channels=2",
                                      "--patch_size=4", "--embed_dim=32", "--depth=3", "--drop_path_rate=0.5"])
    same("a classifier with dropout", CNN)
    # a bias in front of a norm nearly cancels
    same("a U-Net", ["models/resunet.dl", "--data_size=16", "--widths=[8,16,16]"], LOSS, 1e-4)
    same("a seed of many digits", [*CNN, "--seed=123456789012345"])
    same("random numbers of samples, and of all",
         model("drawn", "    y = (x + randn(x)) |> linear(10) @a |> dropout(0.3, over=[N, C])\n"
               "    y = y * (1 + randint(x, 0, 9, over=N)) + rand(x, over=[C, W]) * rand(mean(x, over=N))\n"),
         always=True)
    # weights' gradients are rounded rank by rank
    same("a ViT in fp16", [*VIT, "--dropout=0.1", "--amp_mode=fp16"], LOSS, 1e-3)
    same("rows of which none begins a vector",
         model("odd", "    y = x |> linear(5) @a |> dropout(0.4) |> linear(10) @b\n"))
    norms = model("norms", "    y = x |> linear(8) @a |> batch_norm @n |> relu |> linear(10) @b\n")
    other("batch norm of a rank's own samples", norms)
    same("batch norms of all ranks' samples", [*norms, "--sync_batch_norm"])
    same("batch norms of all ranks' samples, in bf16", [*norms, "--sync_batch_norm", "--amp_mode=bf16"])
    # samples after another axis: numbers of its own for each rank, but not those of one rank
    other("samples that are not first",
          model("turned", "    y = x |> linear(10) @a |> rearrange(\"n c w -> c n w\") |> dropout(0.4)"
                                                        " |> rearrange(\"c n w -> n c w\") |> linear(10) @b\n"))
    related("sums of samples alone", "cross_entropy(y, k, ignore_index=2) + sqrt(mean((y - mean(y, over=N))**2))")
    related("samples joined with another axis",
            'mean((rearrange(y, "n k -> (k n)") as [B])**2) + norm(einsum("nk,nl->kl", y, y))')
    related("a softmax over the samples", "mean(softmax(y, over=N)**2)", "7")
    related("the largest of the samples", "sum(max(y, over=N))", "7")
    related("a table of all pairs", 'mean(einsum("nk,mk->nm", y, y)**2)', "7")
    related("a metric of the first sample", "mean(y**2)\n    metric m = mean(y[N=0])", "8")
    if SHARE == 1:  # of what the cases above have together with something else
        same("a ViT whose state is in shares", [*VIT, "--embed_dim=64", "--zero=1"])
        same("a ViT with no dropout", VIT)
        same("a ViT in bf16", [*VIT, "--dropout=0.1", "--amp_mode=bf16"])
        other("batch norm of a rank's own samples, a whole model", RESNET)


main()
finish()
