"""Of oracle_predict.py: predictions in batches. Each sample is what it is by itself, whatever is in its batch."""
import numpy as np
from oracle_tools import check, save_tensors, torch
from predict_runs import near, place, predict, result, whole, write
from torch import nn

TEXT = """model Rows({arguments}):
    input x: f32[N{size}, F=6]
    target t: f32[N{size}, F=6]
    h = x |> linear(32) @a |> relu |> linear(6) @b as [N, F]
    y = {y}
    output y
    best = argmax(h, over=F)
    output best
    loss = mse_loss(y, t)
"""


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 32), nn.Linear(32, 6)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def rows_model(name, y="h", size=""):
    (place / f"{name}.dl").write_text(TEXT.format(y=y, size=size, arguments=""))
    return [place / "rows.safetensors", f"--model={place / name}.dl"]


def rows_net():
    torch.manual_seed(4)
    net = Rows()
    save_tensors(place / "rows.safetensors", dict(net.state_dict()))
    return net


def test_batches():
    """A last batch that is not full, fewer samples than a batch, two files, steps of a rollout."""
    net, model = rows_net(), rows_model("rows")
    x = np.random.default_rng(21).standard_normal((37, 6)).astype("f4")
    data, want = write("rows_data.h5", x=x), whole(net, x)
    got, how = result("rows", *model, data, "--local_batch_size=16")
    near("37 rows in batches of 16", got["y"], want)
    check(how["batch"] == 16 and how["samples"] == 37 and how["way"] == "in batches of 16", f"{how}")
    check(np.array_equal(got["best"], want.argmax(1)), "whole numbers of a batch")
    alone, how = result("rows_alone", *model, data, "--local_batch_size=1")
    check(how["batch"] == 1 and how["way"] == "at once", f"one by one: {how}")
    near("rows one by one", alone["y"], want)
    few, how = result("rows_few", *model, data, "--local_batch_size=16", "--samples=30:35")
    near("five rows in batches of four", few["y"], want[30:35])
    check(how["batch"] == 4, f"the batch, halved to the samples: {how}")
    twice, how = result("rows_twice", *model, data, f"{data}:x", "--local_batch_size=16")
    check(how["batch"] == 16 and np.array_equal(twice["y"][:37], got["y"]) and np.array_equal(twice["y"][37:],
                                                                                             got["y"]),
          "two files, neither of whole batches")
    rolled, how = result("rows_rolled", *model, data, "--local_batch_size=8", "--rollout=3")
    step = x
    for k in range(3):
        step = whole(net, step).numpy()
        near(f"step {k + 1} in batches of eight", rolled["y"][:, k], torch.from_numpy(step))
    bad = x.copy()
    bad[20, 2] = np.nan
    predict(*model, write("rows_nan.h5", x=bad), "--local_batch_size=16", "-o", place / "no.h5", status=3,
            says=r"sample 20, channel 2.* is nan")


MEASURES = """model Rows():
    input x: f32[N, F=6]
    target t: f32[N, F=6]
    target k: i64[N]
    h = x |> linear(32) @a |> relu |> linear(6) @b as [N, F]
    output h
    loss = mse_loss(h, t) + 0.5
    metric root = sqrt(mean((h - t) ** 2))
    metric relative = mean(sqrt(sum((h - t) ** 2, over=F) / sum(t ** 2, over=F)))
    metric share = sum((h - t) ** 2) / sum(t ** 2) + 1 / N
    metric worst = max(abs(h - t)) - min(h)
    metric scores = cross_entropy(h, k, over=F)
    joined = h - t |> rearrange("N F -> (N F)") as [T]
    metric joined = sqrt(mean(abs(joined)))
    metric centred = mean((h - mean(h, over=N)) ** 2)
"""


def measures(net, x, t, k):
    """As PyTorch and numpy have them, of each sample by itself, in float64."""
    h = whole(net, x).double()
    each = torch.nn.functional.cross_entropy(h, torch.from_numpy(k), reduction="none").numpy()
    h, d = h.numpy(), h.numpy() - t
    square = (d ** 2).mean(1)
    norm = np.sqrt((d ** 2).sum(1) / (t.astype("f8") ** 2).sum(1))
    return {"loss": square + 0.5, "root": np.sqrt(square), "relative": norm, "share": norm ** 2 + 1,
            "worst": abs(d).max(1) - h.min(1), "scores": each, "joined": np.sqrt(abs(d).mean(1)),
            "centred": square * 0}


def test_measures():
    """Losses and metrics in batches are those of each sample: none is that of a batch."""
    net, r = rows_net(), np.random.default_rng(24)
    x, t, k = r.standard_normal((37, 6)).astype("f4"), r.standard_normal((37, 6)).astype("f4"), r.integers(0, 6, 37)
    (place / "measures.dl").write_text(MEASURES)
    model = [place / "rows.safetensors", f"--model={place / 'measures.dl'}"]
    data, want = write("measured.h5", x=x, t=t, k=k), {n: v.mean() for n, v in measures(net, x, t, k).items()}
    for batch in (16, 1):
        words = [*model, f"{data}:x", f"--local_batch_size={batch}", "--metrics", f"--target=t={data}:t,k={data}:k"]
        _, how = result(f"measured_{batch}", *words)
        got = {"loss": how["loss"], **how["metrics"]}
        check(how["batch"] == batch and got.keys() == want.keys() and
              all(np.isclose(got[n], want[n], rtol=1e-5, atol=1e-7) for n in want), f"in {batch}: {got}, wanted {want}")
    for name, loss in {"softmax": "mean(softmax(h, over=N) * t)", "turned": "mean(roll(h, 1, over=N) * t)",
                       "drawn": "mean((h - rand(h)) * t)"}.items():
        (place / f"{name}.dl").write_text(TEXT.format(y="h", size="", arguments="").replace("mse_loss(y, t)", loss))
        _, how = result(name, model[0], f"--model={place / name}.dl", f"{data}:x", "--local_batch_size=16", "--metrics",
                        f"--target={data}:t")
        check(how["batch"] == 1 and "the loss or a metric relates" in how["way"], f"{name}: {how['way']}")


def test_related_samples():
    """Models in which samples of a batch meet: each is predicted by itself."""
    net = rows_net()
    x = np.random.default_rng(22).standard_normal((12, 6)).astype("f4")
    data = write("related.h5", x=x)
    h = whole(net, x).numpy().astype("f8")
    cases = {"mean": ("h - mean(h, over=N)", h * 0), "softmax": ("softmax(h, over=N)", h * 0 + 1),
             "largest": ("h - max(h, over=N)", h * 0), "sizes": ("h / N", h),
             "cumulated": ("cumsum(h, over=N)", h),
             "pairs": ("sum(h * (h as [M, F]), over=M)", h * h), "turned": ("roll(h, 1, over=N)", h)}
    for name, (y, want) in cases.items():
        got, how = result(f"related_{name}", *rows_model(f"related_{name}", y), data, "--local_batch_size=4")
        check(how["batch"] == 1 and "relates the samples" in how["way"], f"{name}: {how}")
        near(f"{name}, one by one", got["y"][:] + 1, torch.from_numpy(want + 1))


def test_fixed_batch():
    """A model that states its batch predicts in batches of it, unless its samples meet."""
    net = rows_net()
    x = np.random.default_rng(23).standard_normal((10, 6)).astype("f4")
    data = write("fixed_data.h5", x=x)
    for more in ([], ["--local_batch_size=4"]):
        got, how = result("fixed", *rows_model("fixed", size="=4"), data, *more)
        near("ten rows by a model of N=4", got["y"], whole(net, x))
        check(how["batch"] == 4 and how["way"] == "in batches of 4", f"the model's own batch: {how}")
    truth = f"--target={write('fixed_t.h5', t=whole(net, x).numpy() + 2)}"
    _, how = result("fixed_scored", *rows_model("fixed", size="=4"), data, "--metrics", truth)
    check(how["batch"] == 4 and np.isclose(how["loss"], 4, rtol=1e-4), f"ten losses in batches of four: {how}")
    predict(*rows_model("fixed_mean", "h - mean(h, over=N)", "=4"), data, "-o", place / "no.h5", status=3,
            says="fixes its batch, N=4, and relates the samples of a batch.*write N without a size")
    predict(*rows_model("fixed", size="=4"), data, "--local_batch_size=3", "-o", place / "no.h5", status=3,
            says="the model fixes the batch N=4, but the configuration asks for 3")
