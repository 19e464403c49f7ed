#!/usr/bin/env python3
"""`dlrun predict` next to PyTorch on the whole field, next to h5py and numpy: pieces, rollouts, statistics, memory,
faults.

oracle_predict.py BUILD
"""
import os
import sys

import predict_batches
import predict_data
from oracle_tools import check, finish, np, relative, save_tensors, torch
from predict_nets import Both, Plane, Stack, Tokens, UNet, ViT, Wave
from predict_runs import h5py, model_of, near, place, predict, result, whole, write
from torch import nn


def test_unet():
    """128^3 with a model of 64^3: at once, and in pieces whose edges are discarded, to the same bits."""
    net = UNet()
    weights, model = model_of(net, "narrow")
    x = np.random.default_rng(1).standard_normal((4, 128, 128, 128)).astype("f4")
    want = whole(net, x[None])[0]
    data = write("box.h5", Nbody=x, Hydro=want.numpy())
    once, how = result("once", *weights, data, *model, "--data_size=64")
    near("U-Net, 128^3 at once", once["y"], want)
    check(how["tiles"] == "whole" and how["pieces"] == [1, 1, 1], f"at once: {how}")
    exact, how = result("exact", *weights, data, *model, "--data_size=96", "--tiles=exact", "--metrics",
                        f"--target={data}")
    near("U-Net, 128^3 in pieces of 96^3", exact["y"], want)
    check(np.array_equal(exact["y"], once["y"]), "the same bits as at once")
    check(how["tiles"] == "exact" and how["pieces"] == [2, 2, 2] and "sees 43" in how["way"], f"its pieces: {how}")
    off = exact["y"][:].astype("f8") - want.numpy().astype("f8")
    error, mean = np.sqrt((off**2).mean((1, 2, 3))), np.abs(off).mean((1, 2, 3))
    check(np.allclose(how["rmse"], error, 1e-6, 0) and len(how["rmse"]) == 5, f"RMSE of each channel: {how['rmse']}")
    check(np.allclose(how["mae"], mean, 1e-6, 0), f"mean absolute errors: {how['mae']}, not {mean}")
    predict(*weights, data, *model, "--data_size=32", "--tiles=exact", "-o", place / "no.h5", status=3,
            says="sees 43 positions, too many for pieces of 32")
    blended, how = result("blended", *weights, data, *model, "--data_size=64", "--tiles=blend")
    error = relative(torch.from_numpy(blended["y"][:]), want)
    check(how["pieces"] == [3, 3, 3] and 1e-4 < error < 0.1, f"blended pieces of 64^3 are near: {error:.3f}")


def test_winograd():
    """Errors from float64 next to PyTorch's own, by Winograd's transforms and directly."""
    for spatial, size in ((2, (40, 38)), (3, (9, 18, 16))):
        net = Stack(spatial)
        weights, model = model_of(net, f"stack{spatial}")
        x = np.random.default_rng(6).standard_normal((2, 24, *size)).astype("f4")
        data = write(f"stack{spatial}.h5", x=x)
        last = torch.channels_last if spatial == 2 else torch.channels_last_3d
        field = torch.from_numpy(x)
        kept, other, want = net.results(field), net.results(field, last), net.results(field.double())
        for key in "auto", "off":
            got, _ = result(f"stack{spatial}{key}", *weights, data, *model, f"--winograd={key}")
            for name in want:
                error = relative(torch.from_numpy(got[name][:].astype("f8")), want[name])
                theirs = max(relative(kept[name], want[name]), relative(other[name], want[name]))
                check(0 < error <= 1.5 * theirs,
                      f"{spatial}-D, winograd: {key}: {name}: {error:.2e} from float64, PyTorch {theirs:.2e}")


def test_pieces():
    """A field that the model's own size does not reach, several samples, and attributes."""
    net = Plane()
    weights, model = model_of(net, "plane")
    x = np.random.default_rng(2).standard_normal((4, 3, 60, 72)).astype("f4")
    want = whole(net, x)
    data = write("plane_data.h5", x=x, lat=np.linspace(-1, 1, 60), time=np.arange(4), lon=np.arange(72))
    with h5py.File(data, "r+") as f:
        f["lat"].attrs["units"], f["lat"].attrs["scale_factor"] = "degrees_north", 2.0
        f["lat"].attrs["flags"], f["x"].attrs["units"] = [1, 2], "K"
    got, how = result("plane", *weights, data, *model)
    near("2-D, two outputs, 60 x 72 with a model of 24 x 36", got["y"], want)
    near("its second output", got["z"], torch.tanh(want) * 3)
    check(how["tiles"] == "exact" and how["samples"] == 4 and "states the size of its input itself" in how["way"],
          f"exactly: {how}")
    check(np.array_equal(got["lat"], np.linspace(-1, 1, 60)) and list(got["time"]) == [0, 1, 2, 3] and "lon" in got,
          "coordinates go along")
    check(dict(got["lat"].attrs) == {"units": b"degrees_north", "scale_factor": 2.0} and not dict(got["y"].attrs),
          f"their attributes, too; an output that is not the input's next state has none: {dict(got['lat'].attrs)}")
    check(got.attrs["model"] == b"Plane" and got["y"].chunks is None and got["y"].dtype == np.dtype("<f4"),
          "contiguous f32; the model named")
    one, _ = result("one", *weights, data, *model, "--samples=1:2")
    check(one["y"].shape == (1, 2, 60, 72) and np.array_equal(one["y"][0], got["y"][1]) and "time" not in one,
          "a part of the samples")
    two, how = result("two", *weights, data, f"{data}:x", *model)
    check(how["samples"] == 8 and np.array_equal(two["y"][4:], got["y"]), "two files, one after the other")
    predict(*weights, write("odd.h5", x=x[:, :, :, :71]), *model, "-o", place / "no.h5", "--tiles=exact", status=3,
            says="multiple of 6 \\(66 would do\\)")
    predict(*weights, write("less.h5", x=x[:, :, :20]), *model, "-o", place / "no.h5", status=3,
            says="20 positions along H, fewer than the 24.*; not whole: the model states the size")
    wave = Wave()
    weights, model = model_of(wave, "wave")
    x = np.random.default_rng(4).standard_normal((2, 300)).astype("f4")
    got, how = result("wave", *weights, write("wave_data.h5", x=x), *model)
    near("1-D, strides of 3", got["y"], whole(wave, x[None])[0])
    check(how["tiles"] == "exact" and how["pieces"][2] > 1, f"1-D pieces: {how}")
    predict(*weights, place / "wave_data.h5", *model, "-o", place / "wave.npy")
    alone = np.load(place / "wave.npy")
    check(alone.dtype == np.dtype("<f4") and np.array_equal(alone, got["y"]),
          "a .npy file, as its name says: the one output's numbers")


def test_inputs():
    """Several inputs, in pieces and at once: fields are cut alike, an array of one sample serves all, numbers without
    places go whole."""
    net = Both()
    weights, model = model_of(net, "both")
    r = np.random.default_rng(7)
    x, s, v = (r.standard_normal(n).astype("f4") for n in ((3, 3, 60, 72), (1, 60, 72), (3, 4)))
    with torch.no_grad():
        want = net(torch.from_numpy(x), torch.from_numpy(s).expand(3, 1, 60, 72), torch.from_numpy(v))
    data = write("both_data.h5", x=x, s=s, v=v)
    named = [f"x={data}:x", f"v={data}:v", f"s={data}:s"]
    got, how = result("both", *weights, *named, *model)
    near("three inputs, 60 x 72 with a model of 24 x 36", got["y"], want)
    check(how["tiles"] == "exact" and how["samples"] == 3 and how["pieces"][1] > 1, f"in exact pieces: {how}")
    check(got.attrs["input v"].decode().endswith(": 'v'"), f"the inputs named: {dict(got.attrs)}")
    with open(place / "both_open.dl", "w") as f:
        f.write(
            net.text.replace("C=3, H=24, W=36",
                             "C=3, H, W").replace("C=1, H=24, W=36",
                                                  "C=1, H, W").replace("C=2, H=24, W=36", "C=2, H, W"))
    once, how = result("both_once", *weights, *named, f"--model={place / 'both_open.dl'}", "--data_size=24")
    near("three inputs at once", once["y"], want)
    check(how["tiles"] == "whole" and how["pieces"] == [1, 1, 1], f"at once: {how}")
    check(np.array_equal(once["y"], got["y"]), "the same bits as in pieces")
    part, _ = result("both_part", *weights, *named, *model, "--samples=1:3")
    check(np.array_equal(part["y"], got["y"][1:]), "samples of all inputs go together")
    twice, how = result("both_twice", *weights, *named, *named, *model)
    check(how["samples"] == 6 and np.array_equal(twice["y"][3:], got["y"]), "two files of each")
    _, how = result("both_scored", *weights, *named, *model, "--metrics",
                    f"--target={write('both_truth.h5', t=want.numpy() + 2)}")
    check(np.allclose(how["rmse"], [2, 2], rtol=1e-5), f"next to a target: {how['rmse']}")
    out = ["-o", place / "no.h5"]
    less = write("both_less.h5", s=s[:, :50], v=v[:2])
    for status, says, args in [
        (2, "3 inputs, and each is named: .*x=FILE", [f"{data}:x"]), (2, "each is named", [*named, f"w={data}:v"]),
        (2, "the input '[sv]' has 0 files, another 1: as many", [named[0]]),
        (2, "has 1 files, another 2", [*named, named[0]]),
        (3, "different sizes, for one sample", [*named[:2], f"s={less}:s"]),
        (3, "has [23] samples, and another input's array [23]: as many", [named[0], f"v={less}:v", named[2]]),
        (3, "must be of floats and of its shape", [*named, "--rollout=2"]),
        (2, "say where the truth is", [*named, "--metrics"]),
    ]:
        predict(*weights, *args, *model, *out, status=status, says=says)
    with open(place / "some.dl", "w") as f:
        f.write("model M():\n    input x: f32[N, C=3, H=24, W=36]\n    input r: f32[N, C=3, H=24]\n"
                "    target t: f32[N, C=3, H, W]\n"
                "    y = (x + r) |> conv(3, 1) @a\n    output y\n    loss = mean((y - t)**2)\n")
    save_tensors(place / "some.safetensors", {"a.weight": torch.ones(3, 3, 1, 1), "a.bias": torch.zeros(3)})
    rows = write("some.h5", x=x[:, :, :24, :36], r=x[:, :, :24, 0])
    named = [f"r={rows}:r", f"--model={place / 'some.dl'}"]
    predict(place / "some.safetensors", f"x={data}:x", *named, *out, status=3,
            says="has some of the axes along which larger")
    got, _ = result("some_out", place / "some.safetensors", f"x={rows}:x", *named)
    near("an input with some of the axes, at the model's own size", got["y"],
         torch.from_numpy((x[:, :, :24, :36] + x[:, :, :24, :1]).sum(1, keepdims=True).repeat(3, 1)))


def test_whole_numbers():
    """Inputs of whole numbers and truth values, of any type of numbers in the files; what the model's type does not
    hold is refused."""
    net = Tokens()
    (place / "tokens.dl").write_text(net.text)
    save_tensors(place / "tokens.safetensors", dict(net.state_dict()))
    r = np.random.default_rng(8)
    x, tokens, seen, kind = r.standard_normal((5, 9, 3)).astype("f4"), r.integers(0, 70000, (5, 9)), r.random(
        (5, 9)) > 0.3, np.array([0, 3, 1, 2, 3], "u1")
    tokens[1, 2] = 69999
    with torch.no_grad():
        want = net(torch.from_numpy(x), torch.from_numpy(tokens), torch.from_numpy(seen),
                   torch.from_numpy(kind.astype("i8")))
    data = write("tokens_data.h5", x=x, tokens=tokens, seen=seen, kind=kind, half=tokens + 0.5,
                 large=np.where(tokens == 69999, 2**53, tokens), two=seen * 2,
                 floats=tokens.astype("f8"))
    args = [place / "tokens.safetensors", f"--model={place / 'tokens.dl'}", f"x={data}:x", f"kind={data}:kind"]
    for name in ("tokens", "floats"):
        got, how = result(f"tokens_{name}", *args, f"tokens={data}:{name}", f"seen={data}:seen")
        near(f"tokens from {name}", got["y"], want)
        check(how["samples"] == 5, f"all samples: {how}")
    for says, name, seen in (("sample 0, channel 0, .*the model wants whole numbers", "half", "seen"),
                             ("wants 0 or 1", "tokens", "two"),
                             ("sample 1, channel 2, .* 9007199254740992: whole numbers are read below 2\^53", "large",
                              "seen")):
        predict(*args, f"tokens={data}:{name}", f"seen={data}:{seen}", "-o", place / "no.h5", status=3, says=says)
    alone = Tokens.text.replace("    input  x: f32[N, T=9, F=3]\n",
                                "").replace("i64[N, T]", "i64[N, T=9]").replace(" + (x |> linear(6) @x as [N, T, E])",
                                                                                "")
    (place / "alone.dl").write_text(alone)
    save_tensors(place / "alone.safetensors", {k: v for k, v in net.state_dict().items() if not k.startswith("x.")})
    nn.init.zeros_(net.x.weight), nn.init.zeros_(net.x.bias)
    with torch.no_grad():
        want = net(torch.from_numpy(x), torch.from_numpy(tokens), torch.from_numpy(r.random((5, 9)) > -1),
                   torch.zeros(5, dtype=torch.int64))
    ones = write("ones.h5", seen=np.ones((5, 9), bool), kind=np.zeros(5, "i4"))
    got, _ = result("alone", place / "alone.safetensors", f"--model={place / 'alone.dl'}", f"tokens={data}:tokens",
                    f"seen={ones}:seen", f"kind={ones}:kind")
    near("whole numbers alone", got["y"], want)


def test_large_numbers():
    """Whole numbers that a float does not hold, as input and as a metric's target."""
    (place / "parity.dl").write_text("""model Parity(base=4503599627370496):
    input k: i64[N, C=2, T=3]
    target t: i64[N, C=2, T=3]
    param w: [C=2] = 1.0
    y = w * (k - base)
    output y
    loss = mean(y)
    metric same = mean(k == t)
""")
    k = 2**52 + np.arange(24).reshape(4, 2, 3)
    save_tensors(place / "parity.safetensors", {"w": torch.ones(2)})
    data = write("parity_data.h5", k=k, other=k + (k % 4 == 1))
    got, how = result("parity", place / "parity.safetensors", f"--model={place / 'parity.dl'}", f"{data}:k",
                      "--metrics", f"--target={data}:other")
    near("numbers near 2^52", got["y"], torch.from_numpy(k - 2**52))
    check(abs(how["metrics"]["same"] - 0.75) < 1e-6, f"targets as exactly: {how}")


def test_whole_outputs():
    """Classes and masks next to scores, in pieces too; means of classes there are none of, and what a float does not
    hold is refused."""
    torch.manual_seed(5)  # whichever tests ran before: both classes are best somewhere
    weights, _ = model_of(Plane(), "plane")
    (place / "classes.dl").write_text(Plane.text.replace("    z = tanh(y) * 3\n    output z\n",
                                                         "    best = argmax(y, over=C)\n    output best\n"
                                                         "    above = y > 0\n    output above\n"))
    model = [f"--model={place / 'classes.dl'}"]
    x = np.random.default_rng(12).standard_normal((3, 3, 60, 72)).astype("f4")
    data = write("classes_data.h5", x=x)
    got, how = result("classes", *weights, data, *model)
    check(how["tiles"] == "exact" and got["best"].shape == (3, 60, 72) and got["best"].dtype == np.dtype("<i8"),
          f"classes: {how} {got['best']}")
    check(np.array_equal(got["best"], got["y"][:].argmax(1)) and 0 < got["best"][:].mean() < 1,
          "the best of each position")
    check(np.array_equal(got["above"], got["y"][:] > 0) and got["above"].dtype == np.dtype("<i8"), "a mask")
    predict(*weights, data, *model, "--tiles=blend", "-o", place / "no.h5", status=3,
            says="takes means where pieces overlap, and the output 'best' is i32")
    net = Tokens()
    (place / "many.dl").write_text(net.text.replace("    output y\n",
                                                    "    output y\n    far = tokens * 300\n    output far\n"
                                                    "    wide = tokens * 161061273600\n    output wide\n"))
    save_tensors(place / "tokens.safetensors", dict(net.state_dict()))
    ones = write("far_data.h5", x=np.zeros((2, 9, 3), "f4"), tokens=np.full((2, 9), 55924), seen=np.ones((2, 9), bool),
                 kind=np.zeros(2, "i4"), more=np.full((2, 9), 55925))
    args = [place / "tokens.safetensors", f"--model={place / 'many.dl'}",
            *(f"{name}={ones}:{name}" for name in ("x", "seen", "kind"))]
    got, _ = result("far", *args, f"tokens={ones}:tokens")
    check(np.array_equal(got["far"], np.full((2, 9), 55924 * 300)), "large whole numbers")
    check(np.array_equal(got["wide"], np.full((2, 9), 55924 * 161061273600)), "whole numbers beyond a float's")
    predict(*args, f"tokens={ones}:more", "-o", place / "no.h5", status=3,
            says="the output 'wide' has 9007351726080000: predict writes whole numbers below 2.53")


def test_rollout():
    """Ten steps of a ViT from files of weather, each next to PyTorch's; RMSE by lead time in the data's units, pairs dt
    steps apart."""
    c, h, w, times, dt, steps = 3, 16, 24, 40, 2, 10
    net = ViT((h, w), c, 8, 32, 2, 4)
    save_tensors(place / "vit.safetensors", dict(net.state_dict()))
    r = np.random.default_rng(5)
    mean, std = np.array([3, -20, 1e4], "f4"), np.array([2, 7, 800], "f4")
    fields = (r.standard_normal((times, c, 17, 25)) * std[:, None, None] + mean[:, None, None]).astype("f4")
    np.save(place / "means.npy", mean.reshape(1, c, 1, 1)), np.save(place / "stds.npy", std.reshape(1, c, 1, 1))
    data = write("2007.h5", fields=fields, lat=np.linspace(90, -90, 17), lon=np.arange(25))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    model = [f"--model={root}/models/vit.dl", f"--img_size=[{h},{w}]", f"--n_in_channels={c}", f"--n_out_channels={c}",
             "--embed_dim=32", "--depth=2",
             "--num_heads=4", f"--dt={dt}", "--data_loader_config=pytorch",
             f"--global_means_path={place / 'means.npy'}",
             f"--global_stds_path={place / 'stds.npy'}"]
    got, how = result("roll", place / "vit.safetensors", data, *model, f"--rollout={steps}", "--metrics")
    x = torch.from_numpy((fields[:, :, :h, :w] - mean[:, None, None]) / std[:, None, None])
    scale = lambda y: y.double() * torch.from_numpy(std.astype("f8"))[:, None, None] + torch.from_numpy(
        mean.astype("f8"))[:, None, None]
    errors = []
    check(got["y"].shape == (times, steps, c, h, w), f"times, steps, channels, lat, lon: {got['y'].shape}")
    with torch.no_grad():
        for step in range(steps):
            x = net(x)
            error = relative(torch.from_numpy(got["y"][:, step] - mean[:, None,
                                                                       None]) / torch.from_numpy(std)[:, None, None], x)
            if step in (0, steps - 1):
                check(error < 1e-4, f"step {step + 1} of the rollout: {error:.1e} from PyTorch (at most 1e-04)")
            lead = (step + 1) * dt
            errors.append(((scale(x)[:times - lead] - torch.from_numpy(fields[lead:, :, :h, :w]).double())**2).mean(
                (0, 2, 3)).sqrt().tolist())
    check(np.allclose(how["rmse"], errors, rtol=1e-4), f"RMSE by lead time: {how['rmse'][-1]} next to {errors[-1]}")
    check(how["tiles"] == "crop" and got["lat"].shape == (h,) and got["lon"].shape == (w,),
          "from the origin, coordinates too")
    again, _ = result("again", place / "vit.safetensors", data, *model, f"--rollout={steps}", "--threads=1",
                      "--samples=7:9")
    check(np.array_equal(again["y"], got["y"][7:9]), "the same bits on one thread")
    write("nan.h5", fields=np.where(np.arange(17)[:, None] == 3, np.nan, fields[:5]).astype("f4"))
    predict(place / "vit.safetensors", place / "nan.h5", *model, "-o", place / "no.h5", status=3,
            says=r"sample 0, channel 0, place \[0, 3, 0\] is nan")
    predict(place / "vit.safetensors", data, *model, "-o", place / "no.h5", "--tiles=exact", status=3,
            says="there is no bound to what an output sees")


for name, test in {**globals(), **vars(predict_data), **vars(predict_batches)}.items():
    if name.startswith("test_") and (len(sys.argv) < 3 or name[5:] in sys.argv[2:]):
        test()
finish()
