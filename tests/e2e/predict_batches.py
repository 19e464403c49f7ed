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
    _, how = result("rows_scored", *model, data, "--local_batch_size=16", "--metrics",
                    f"--target={write('rows_t.h5', t=want.numpy() + 1)}")
    check(how["batch"] == 1 and np.isclose(how["loss"], 1, rtol=1e-4) and "measured" in how["way"],
          f"losses are of each sample: {how}")
    bad = x.copy()
    bad[20, 2] = np.nan
    predict(*model, write("rows_nan.h5", x=bad), "--local_batch_size=16", "-o", place / "no.h5", status=3,
            says=r"sample 20, channel 2.* is nan")


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
    predict(*rows_model("fixed_mean", "h - mean(h, over=N)", "=4"), data, "-o", place / "no.h5", status=3,
            says="fixes its batch, N=4, and relates the samples of a batch.*write N without a size")
    predict(*rows_model("fixed", size="=4"), data, "--local_batch_size=3", "-o", place / "no.h5", status=3,
            says="the model fixes the batch N=4, but the configuration asks for 3")
