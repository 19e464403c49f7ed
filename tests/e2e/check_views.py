"""What shows a model: `dlc summary` and `dlc graph`; and what there is: `dlc list`.

check_views.py BUILD     from the project's root; needs Python's own library, and Debian's chromium for one check
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as tree

from checks import ENV, TMP, check, finish, ink

DLC = os.path.join(os.path.abspath(sys.argv[1]), "cli/dlc")
SVG = "{http://www.w3.org/2000/svg}"
MODELS = sorted(glob.glob("models/*.dl"))


def dlc(*args, **more):
    return subprocess.run([DLC, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=ENV, timeout=300,
                          **more)


def layers(*args):
    r = dlc("summary", "--json", *args)
    check(r.returncode == 0 and not r.stderr, f"summary {args}: exit {r.returncode} {r.stderr}")
    return json.loads(r.stdout or '{"layers": [], "parameters": 0, "flops": 0}')


def test_numbers():
    """The U-Net's convolutions, counted by hand: weights, biases and a multiply-add of each tap of each output."""
    got = {x["name"]: x for x in layers("models/unet.dl")["layers"]}
    for name, inner, outer, to, edge in (("conv_down1.0", 4, 64, 32, 32), ("conv_down2.0", 64, 128, 16, 16),
                                         ("conv_up2.0", 256, 64, 32, 16)):
        row, points = got[name], outer * to**3
        check(row["parameters"] == inner * outer * 64 + outer, f"{name}: {row['parameters']} parameters")
        # A transposed convolution multiplies each of its input's points by each tap; then bias and activation.
        products = 2 * 64 * (inner * points if "down" in name else inner * outer * edge**3)
        check(row["flops"] == products + 2 * points, f"{name}: {row['flops']} flops, not {products + 2 * points}")
        check(row["shape"] == [1, outer, to, to, to] and row["axes"] == ["N", "C", "D", "H", "W"]
              and row["bytes"] == 4 * points, f"{name}: {row}")
    table = dlc("summary", "models/unet.dl").stdout
    check(re.search(r"^conv_down2\.0 +conv +N=1, C=128, D=16, H=16, W=16 +524416 +4296\.02 +2\.000$", table, re.M),
          f"the table: {table}")
    twice = {x["name"]: x for x in layers("models/unet.dl", "--local_batch_size=2")["layers"]}
    check(twice["conv_last"]["flops"] == 2 * got["conv_last"]["flops"], "a batch of 2 takes twice the arithmetic")


def test_sums():
    """Of every model: parameters and arithmetic add up, by groups too."""
    for model in MODELS:
        whole = layers(model)
        for depth in ("1", "2"):
            part = layers(model, f"--depth={depth}")
            check([part[k] for k in ("parameters", "flops")] == [whole[k] for k in ("parameters", "flops")]
                  and len(part["layers"]) <= len(whole["layers"]), f"{model}: --depth={depth} has other sums")
            check(sum(x["parameters"] for x in part["layers"]) == whole["parameters"],
                  f"{model}: parameters at --depth={depth}")
        check(sum(x["parameters"] for x in whole["layers"]) == whole["parameters"], f"{model}: parameters")
        all_flops = sum(x["flops"] for x in whole["layers"])
        check(0 < all_flops <= whole["flops"] < 1.001 * all_flops, f"{model}: {all_flops} of {whole['flops']} flops")
        names = [x["name"] for x in whole["layers"] if x["name"]]
        check(len(names) == len(set(names)), f"{model}: a name stands twice")
    check(layers("models/vit.dl")["parameters"] == 23832960, "vit: its parameters in PyTorch")


def boxes(svg):
    """(name, x0, y0, x1, y1) of each box."""
    for g in svg.iter(SVG + "g"):
        r = g.find(SVG + "rect")
        x, y, w, h = (float(r.get(k)) for k in ("x", "y", "width", "height"))
        yield g.find(SVG + "text").text, x, y, x + w, y + h


def ends(path):
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path)]
    return numbers[:2], numbers[-2:]


def test_picture():
    """Boxes do not overlap and lie within the picture; each edge leaves the bottom of one and ends at the top of
    another further down; every layer has its box."""
    for model in MODELS:
        for depth in ([], ["--depth=1"]):
            path = f"{TMP}/graph.svg"
            r = dlc("graph", model, "-o", path, *depth)
            check(r.returncode == 0 and not r.stdout + r.stderr, f"graph {model}: {r.returncode} {r.stderr}")
            svg = tree.parse(path).getroot()
            all_boxes = list(boxes(svg))
            wide, high = float(svg.get("width")), float(svg.get("height"))
            names = [b[0] for b in all_boxes]
            want = [x["name"] for x in layers(model, *depth)["layers"] if x["name"]]
            check(all(n in names for n in want) and names.count("output") >= 1, f"{model}: a layer has no box")
            check(all(0 <= b[1] and b[3] <= wide and 0 <= b[2] and b[4] <= high for b in all_boxes),
                  f"{model}: a box leaves the picture")
            over = [(a[0], b[0]) for i, a in enumerate(all_boxes) for b in all_boxes[:i]
                    if a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4]]
            check(not over, f"{model}: boxes overlap: {over[:3]}")
            paths = [ends(p.get("d")) for p in svg.iter(SVG + "path")]
            bottoms = {(round((b[1] + b[3]) / 2), round(b[4])) for b in all_boxes}
            tops = {(round((b[1] + b[3]) / 2), round(b[2])) for b in all_boxes}

            def near(point, places):
                return any(abs(point[0] - x) <= 1.1 and abs(point[1] - y) <= 1.1 for x, y in places)
            check(paths and all(near(a, bottoms) and near(b, tops) and a[1] < b[1] for a, b in paths),
                  f"{model} {depth}: an edge ends in the air")
            axes = [t.text for t in svg.iter(SVG + "text") if t.get("class") == "axes"]
            check(len(axes) >= len(want), f"{model}: {len(axes)} edges have axes")


def test_browser():
    """Debian's chromium draws the picture."""
    browser = shutil.which("chromium")
    if not browser:
        return
    dlc("graph", "models/unet.dl", "-o", f"{TMP}/u.svg")
    shot = f"{TMP}/u.png"
    subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    f"--user-data-dir={TMP}/browser", "--window-size=900,1700", f"--screenshot={shot}",
                    f"file://{TMP}/u.svg"], capture_output=True, timeout=120)
    check(os.path.exists(shot) and ink(shot) > 1200, "chromium draws the graph")


def test_list():
    """Models with the first sentence of each, configurations by name, presets; what is shipped, without a folder."""
    place = f"{TMP}/listed"
    os.makedirs(f"{place}/inner/deeper"), os.makedirs(f"{place}/config")
    texts = {"a.dl": "# A net (Lu et al. 2021), of two\n# layers. And more.\nmodel A():\n", "b.dl": "model B():\n",
             "notes.txt": "# no model", "other.yaml": "no: configuration", "inner/c.dl": "# Deep.\n",
             "inner/deeper/d.dl": "# Deeper than a folder in the folder.\n",
             "config/a.yaml": "base: {lr: 1}\ntiny: {lr: 2}\n", "config/b.yaml": "lr: 1\nnum_epochs: 3\n",
             "config/names.yaml": "one: {two: 3}\n"}
    for name, text in texts.items():
        with open(f"{place}/{name}", "w") as f:
            f.write(text)
    r = dlc("list", place, "--json")
    got = json.loads(r.stdout)
    check(r.returncode == 0 and [(x["path"][len(place) + 1:], x["about"]) for x in got["models"]] ==
          [("a.dl", "A net (Lu et al. 2021), of two layers."), ("b.dl", ""), ("inner/c.dl", "Deep.")], f"list: {got}")
    found = [(x["path"][len(place) + 1:], x["names"]) for x in got["configurations"]]
    check(found == [("config/a.yaml", "base, tiny"), ("config/b.yaml", "one")], f"configurations: {found}")
    r = dlc("list", place)
    lines = r.stdout.splitlines()
    about = r"A net \(Lu et al\. 2021\), of two layers\."
    check(lines[0] == "models" and re.fullmatch(rf"  {place}/a\.dl +{about}", lines[1])
          and "configurations (--config NAME)" in lines and "presets (preset: NAME)" in lines, f"list: {r.stdout}")
    shipped = json.loads(dlc("list", "--json").stdout)
    check({os.path.basename(m) for m in MODELS} <= {os.path.basename(x["path"]) for x in shipped["models"]}
          and all(os.path.exists(x["path"]) and x["about"].endswith(".") for x in shipped["models"]),
          "all that is shipped")
    presets = {x["name"] for x in shipped["presets"]}
    r = dlc("check", "models/cnn_regressor.dl", "--preset=nobody")
    check(r.returncode == 2 and len(presets) > 2 and all(p in r.stderr for p in presets), f"{presets}: {r.stderr}")
    r = dlc("list", f"{place}/none")
    check(r.returncode == 4 and "cannot list" in r.stderr and r.stderr.count("\n") == 1, f"no folder: {r.stderr}")
    r = dlc("list", place, place)
    check(r.returncode == 2 and "one argument too many" in r.stderr, f"two folders: {r.stderr}")
    with open(f"{place}/config/a.yaml", "w") as f:
        f.write("base: {lr: 1\n")
    r = dlc("list", place)
    check(r.returncode == 3 and f"{place}/config/a.yaml:" in r.stderr, f"a torn file: {r.returncode} {r.stderr}")


def test_refusals():
    """Faults have their place; a name of a file cannot leave the text."""
    r = dlc("graph", "models/unet.dl")
    check(r.returncode == 2 and "-o FILE.svg" in r.stderr, f"graph without -o: {r.returncode} {r.stderr}")
    with open(f"{TMP}/none.dl", "w") as f:
        f.write("model M():\n    input x: f32[N, C=3]\n    y = x |> linaer(4)\n    loss = mean(y)\n")
    r = dlc("summary", f"{TMP}/none.dl")
    check(r.returncode == 3 and "none.dl:3:14: error:" in r.stderr, f"a faulty model: {r.returncode} {r.stderr}")
    r = dlc("summary", "models/unet.dl", "--depth=0")
    check(r.returncode == 2 and "--depth needs a whole number from 1" in r.stderr,
          f"--depth=0: {r.returncode} {r.stderr}")
    with open(f"{TMP}/twice.dl", "w") as f:
        f.write("module A()(x): return x |> linear(3) @a\nmodel M():\n    input x: f32[N, C=3]\n    b = x |> A() @m\n"
                "    y = cat(b, x, over=C) |> linear(2) @head as [N, K]\n    output y\n    target t: f32[N, K=2]\n"
                "    loss = mse_loss(y, t)\n")
    got = layers(f"{TMP}/twice.dl")
    check([(x["name"], x["layer"], x["parameters"]) for x in got["layers"]] ==
          [("x", "input", 0), ("m.a", "linear", 12), ("", "cat", 0), ("head", "linear", 14)], f"layers: {got}")


for test in [v for k, v in list(globals().items()) if k.startswith("test_")]:
    test()
finish()
