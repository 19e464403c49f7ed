"""Runs looked at: `dlrun list`, `show`, `compare` and `report`, held against what the runs' files say.

check_runs.py BUILD     from the project's root; needs Python's own library, and Debian's chromium for one check
"""
import base64
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

from checks import ENV, TMP, check, finish, ink

BIN = os.path.join(os.path.abspath(sys.argv[1]), "cli")
ENV["PATH"] = BIN + os.pathsep + ENV["PATH"]
ODD = "r<b>&'\"1"  # a directory's name that is no text of HTML
MODEL = """model Tiny(width=4):
    input x: f32[N, C=2, H=8, W=8]
    target t: f32[N, C=1, H=8, W=8]
    y = x |> conv(width, 3, pad=1) @first |> gelu |> conv(1, 3, pad=1) @last
    output y
    loss = mse_loss(y, t)
    metric mae = mean(abs(y - t))
"""


def run(*words):
    return subprocess.run(words, cwd=TMP, capture_output=True, text=True, env=ENV, timeout=300,
                          stdin=subprocess.DEVNULL)


def train(folder, *args):
    r = run("dlrun", "tiny.dl", "--data_loader_config=synthetic", "--local_batch_size=4", "--Nsamples=32",
            "--Nsamples_val=8", f"--run_dir={folder}", *args)
    check(r.returncode == 0, f"training {folder}: {r.stderr[-500:]}")


with open(f"{TMP}/tiny.dl", "w") as f:
    f.write(MODEL)
train("runs/a", "--num_epochs=3", "--profile")
train(f"runs/{ODD}", "--num_epochs=5", "--width=8", "--start_lr=0.01")
POINTS = [[json.loads(line) for line in open(f"{TMP}/runs/{name}/metrics.jsonl")] for name in ("a", ODD)]


def least(points, tag):
    return min(p[tag] for p in points if tag in p)


def test_list():
    r = run("dlrun", "list")
    rows = [x.split() for x in r.stdout.splitlines()[1:]]
    check(r.returncode == 0 and [x[0] for x in rows] == ["runs/a", f"runs/{ODD}"], f"list: {r.stdout} {r.stderr}")
    for row, points in zip(rows, POINTS):
        check(row[1:3] == [str(points[-1]["epoch"]), str(points[-1]["iteration"])]
              and abs(float(row[3]) - least(points, "Loss/valid")) < 1e-5 and row[-1] == "done", f"{row}")
    check(run("dlrun", "list", "runs/a").stdout.count("\n") == 2, "list of one run")


def test_anew():
    """Runs that start anew where others were: each has its own times and its own end, though the log stays in place."""
    def shown(folder):
        r = run("dlrun", "show", folder)
        said = re.search(r"(\d{4}-\S+ \S+) to (\d{4}-\S+ \S+?),? (done|not done)", r.stdout)
        return said.groups() if check(r.returncode == 0 and said, f"show {folder}: {r.stdout} {r.stderr}") else 3 * [""]

    train("again/x", "--num_epochs=1")
    first = shown("again/x")
    r = run("dlrun", "tiny.dl", "--data_loader_config=synthetic", "--local_batch_size=4", "--Nsamples=32",
            "--Nsamples_val=8", "--run_dir=again/x", "--num_epochs=4", "--stop_after=9")
    check(r.returncode == 75, f"stopped: {r.returncode} {r.stderr[-300:]}")
    stopped = shown("again/x")
    check(shown("again/x.1") == first and stopped[2] == "not done" and stopped[0] >= first[1], f"{first} {stopped}")
    train("again/x", "--num_epochs=4", "--resume")
    resumed = shown("again/x")
    check(resumed[0] == stopped[0] and resumed[1] >= stopped[1] and resumed[2] == "done", f"{stopped} {resumed}")
    train("again/x", "--num_epochs=1")
    last = shown("again/x")
    check(shown("again/x.1") == first and shown("again/x.2") == resumed and last[0] >= resumed[1]
          and last[2] == "done", f"{first} {resumed} {last}")
    shutil.rmtree(f"{TMP}/again")


def test_show_and_compare():
    r = run("dlrun", "show", "runs/a")
    check(re.search(r"^  num_epochs +3$", r.stdout, re.M) and not re.search("^  optimizer ", r.stdout, re.M)
          and re.search(rf"^  Loss/train +{POINTS[0][-1]['Loss/train']:.6g} ", r.stdout, re.M),
          f"show: {r.stdout} {r.stderr}")
    r = run("dlrun", "compare", "runs/a", f"runs/{ODD}")
    settings = r.stdout.partition("settings that differ\n")[2].partition("values\n")[0].splitlines()
    check({x.split()[0]: x.split()[1:] for x in settings} ==
          {"num_epochs": ["3", "5"], "lr_schedule.start_lr": ["0.0001", "0.01"], "width": ["4", "8"],
           "run_dir": ["runs/a", f"runs/{ODD}"]}, f"compare: {r.stdout}")
    both = [f"{p[-1]['mae/valid']:.6g} (least {least(p, 'mae/valid'):.6g})" for p in POINTS]
    check(re.search(rf"^mae/valid +{re.escape(both[0])} +{re.escape(both[1])}$", r.stdout, re.M),
          f"values: {r.stdout} {both}")


class Page(html.parser.HTMLParser):
    """Rows of tables, plots by their title, what is loaded; fails at a tag that is not closed."""
    VOID = ("meta", "img")

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.plots, self.loaded, self.text = [], [], {}, [], ""
        self.feed(text)
        check(not self.open, f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.loaded += [v for k, v in attrs.items() if k in ("src", "href")]
        if tag in self.VOID:
            return
        self.open.append((tag, attrs.get("class")))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "svg":
            self.plot = {"title": "", "paths": [], "points": 0}
        elif tag == "path" and attrs.get("class") == "line":
            self.plot["paths"].append(attrs["d"])
        elif tag == "circle":
            self.plot["points"] += 1

    def handle_endtag(self, tag):
        if tag == "svg":
            self.plots.setdefault(self.plot["title"], []).append(self.plot)
        check(self.open and self.open.pop()[0] == tag, f"</{tag}> closes another")

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] == ("text", "title"):
            self.plot["title"] += data
        if any(t in ("td", "th") for t, _ in self.open):
            self.rows[-1][-1] += data


def report(*runs):
    r = run("dlrun", "report", *runs, "-o", "r.html")
    check(r.returncode == 0 and not r.stdout + r.stderr, f"report {runs}: {r.returncode} {r.stderr}")
    return open(f"{TMP}/r.html", encoding="utf-8").read()


def test_report():
    text = report("runs/a", f"runs/{ODD}")
    page = Page(text)
    check(len(text) > 20000 and not re.search("https?://", text) and all(x.startswith("data:image/png;base64,")
                                                                         for x in page.loaded), "it loads something")
    check([x for x in page.rows if x[0] == "width"] == [["width", "4", "8"]]
          and ["num_epochs", "3", "5"] in page.rows, "what differs")
    check(f"runs/{ODD}" in page.text and "<b>&" not in text, "a directory's name is text")
    # A point of a curve for each point of the files.
    for title, tag in (("Loss", "Loss/train"), ("mae", "mae/valid"), ("Learning Rate", "Learning Rate")):
        paths = page.plots[title][0]["paths"]
        want = sorted(sum(tag in p for p in points) for points in POINTS)
        check(sorted(1 + d.count("L") for d in paths[-2:]) == want or
              sorted(1 + d.count("L") for d in paths[::2]) == want, f"{title}: {paths}, not {want} points")
    picture = open(f"{TMP}/runs/a/prediction.png", "rb").read()
    check(base64.b64decode(page.loaded[0].partition(",")[2]) == picture, "the picture")
    # Kernels, memory and lines as `dlc compile` has them.
    args = ("tiny.dl", "--local_batch_size=4")
    plan = json.loads(run("dlc", "compile", *args, "--json").stdout)
    names = {k["name"]: k for k in plan["kernel_table"]}
    rows = {x[0]: x for x in page.rows if x[0].startswith("train_k")}
    check(rows and all(name in names and rows[name][1] == names[name]["where"]
                       for name in rows), f"kernels: {sorted(rows)} {sorted(names)}")
    check(any(x[6] != "-" for x in page.rows if x[0] in names and len(x) == 8), "no kernel is measured")
    check(page.plots["Roofline of a training step"][0]["points"] > 3
          and len(page.plots["Roofline of a training step"]) == 2, "roofline")
    check("model Tiny(width=4)" in page.text, "the model's text")


def test_memory():
    """The plot's highest point is the arena of `dlc compile --dump=memory`, less what packing adds."""
    text = report("runs/a")
    plot = Page(text).plots["Memory over a training step"][0]
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", plot["paths"][0])]
    ticks = re.findall(r'd="M66 ([\d.]+) H506"/><text x="60" y="[\d.]+" text-anchor="end">([\d.e+-]+)<',
                       text[text.index("Memory over a training step"):])
    (y0, v0), (y1, v1) = [(float(a), float(b)) for a, b in (ticks[0], ticks[-1])]
    most = v0 + (min(heights) - y0) * (v1 - v0) / (y1 - y0)
    r = run("dlc", "compile", "tiny.dl", "--local_batch_size=4", "--dump=memory")
    arena = float(r.stdout.split()[0])
    check(0.8 * arena <= most <= 1.001 * arena + 0.002, f"memory: {most} MiB of {arena}")


def test_browser():
    browser = shutil.which("chromium")
    if not browser:
        return
    report("runs/a", f"runs/{ODD}")
    shot = f"{TMP}/r.png"
    subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    f"--user-data-dir={TMP}/browser", "--window-size=1200,2400", f"--screenshot={shot}",
                    f"file://{TMP}/r.html"], capture_output=True, timeout=120)
    check(os.path.exists(shot) and ink(shot) > 1200, "chromium draws the report")


def test_refusals():
    os.makedirs(f"{TMP}/empty", exist_ok=True)
    os.makedirs(f"{TMP}/begun", exist_ok=True)
    shutil.copy(f"{TMP}/runs/a/metrics.jsonl", f"{TMP}/begun/metrics.jsonl")
    for args, code, text in ((["report", "runs/a"], 2, "-o FILE.html"), (["report", "-o", "x.html"], 2, "RUN..."),
                             (["report", "empty", "-o", "x.html"], 3, "empty is no run: it has no metrics.jsonl"),
                             (["show"], 2, "usage"), (["show", "empty"], 3, "is no run"),
                             (["compare", "runs/a"], 2, "RUN RUN"), (["list", "nowhere"], 4, "no directory nowhere"),
                             (["list", "empty"], 3, "no run in empty")):
        r = run("dlrun", *args)
        check(r.returncode == code and text in r.stderr and r.stderr.count("\n") == 1,
              f"{args}: {r.returncode} {r.stderr}")
    check(not os.path.exists(f"{TMP}/x.html"), "a refused report leaves nothing")
    r = run("dlrun", "report", "begun", "-o", "begun.html")
    check(r.returncode == 0 and "no kernels and memory of begun" in r.stderr, f"without a checkpoint: {r.stderr}")
    check("Loss" in Page(open(f"{TMP}/begun.html").read()).plots, "curves without a checkpoint")


for test in [v for k, v in list(globals().items()) if k.startswith("test_")]:
    test()
finish()
