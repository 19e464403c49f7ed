#!/usr/bin/env python3
"""The zoo of public libraries: each model exported, imported, checked and compared with PyTorch.

zoo.py BUILD OUT [--list more | other | science | written] [--only PATTERN] [--order SEED] [--times no]
[--table FILE.md] (tests/zoo/zoo)

OUT keeps archives and results: what is there is not done again, so that a run goes on where another stopped. The table
has one line a model: whether `dlc import` writes all of it, lines of text, the largest differences from PyTorch in
float64, and the time of a training step as a multiple of PyTorch's. --list more and other: the models of
library_more.py and library_other.py; --list written: those of library_written.py, which need torch alone. --order: the
models in an order by chance, so that those of a run that ends early stand for all; the table says how many it lacks.
--times no: for a machine that does more.
"""
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import textwrap
import traceback
from importlib import metadata

import library_export
import library_more
import library_other
import library_science
import library_written_shared

HERE = pathlib.Path(__file__).resolve().parent
EXPORT_S, COMPARE_S = 600, 900


def export(folder, library, name, times):
    """In a process of its own, which has the libraries in memory already. Returns why it failed, or None."""
    if (folder / "info.json").exists():
        return None
    folder.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(EXPORT_S)
            library_export.export(folder, library, name, times)
            status = 0
        except SystemExit as e:
            (folder / "failed").write_text(str(e))
        except BaseException:
            (folder / "failed").write_text(traceback.format_exc())
        os._exit(status)
    _, status = os.waitpid(child, 0)
    if status == 0:
        return None
    why = folder / "failed"
    return why.read_text().strip().splitlines()[-1][:120] if why.exists() else "no answer in time"


def run(*args, seconds):
    try:
        return subprocess.run(list(map(str, args)), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=seconds)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(args, 1, "", f"no answer in {seconds} s")


def last(r):
    lines = (r.stderr or r.stdout).strip().splitlines()
    return lines[-1][-160:] if lines else f"exit {r.returncode}"


def judge(build, folder):
    """Imports, checks and compares an exported model: a dictionary for the table."""
    model, weights = folder / "model.dl", folder / "model.w"
    r = run(build / "cli/dlc", "import", folder / "model.pt2", "-o", model, f"--weights={weights}", "--loss=mse",
            "--report", seconds=300)
    if r.returncode:
        lacks = [re.sub(r", (in|line) .*", "", line.strip()) for line in r.stdout.splitlines()[1:]]
        return {"stage": "import", "why": last(r), "lacks": lacks}
    text = model.read_text()
    lines = sum(bool(line.strip()) for line in text.splitlines())
    r = run(build / "cli/dlc", "check", model, seconds=300)
    if r.returncode:
        return {"stage": "check", "why": last(r), "lines": lines}
    kept = folder / "result.json"
    if kept.exists() and (result := json.loads(kept.read_text())).get("text") == text:
        return result
    r = run(sys.executable, HERE / "library_compare.py", build, folder, model, weights, seconds=COMPARE_S)
    result = {"text": text, "lines": lines, "stage": "run"}
    result.update(json.loads(r.stdout) if r.returncode == 0 else {"why": last(r)})
    if "agrees" in result:
        result["stage"] = "agrees" if result["agrees"] else "differs"
        kept.write_text(json.dumps(result))
    return result


def sentences(*parts):
    """A paragraph of lines."""
    return textwrap.fill(" ".join(parts), 118, break_on_hyphens=False, break_long_words=False)


def machine():
    of = dict(re.findall(r"^(.*?)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[::-1])
    return f"{of.get('model name', 'another processor')}, family {of.get('cpu family')}, model {of.get('model')}"


def put_table(path, rows, lacking, left, command):
    """The whole page: the command, one row a model, the ops that lack, and the models that were not exported."""
    packages = ("torch", "timm", "torchvision", "monai", "segmentation-models-pytorch", "neuraloperator", "diffusers",
                "transformers")
    exported = {k: r for k, r in rows.items() if r["stage"] != "export"}
    done = collections.Counter(r["stage"] for r in exported.values())
    n, agree, imported = len(exported), done["agrees"], done["run"] + done["differs"] + done["agrees"]
    steps = sorted(r["step"] for r in exported.values() if "step" in r)
    times = "Steps were not timed."
    if steps:
        times = (f"{sum(s <= 1 for s in steps)} of {len(steps)} that were timed, with one thread each ({machine()}), "
                 f"train a step no slower than PyTorch; the median takes {steps[len(steps) // 2]:.2f} of its time.")
    out = ["# The zoo of public libraries", "",
           sentences(f"Made by `{command}`, with {', '.join(f'{p} {metadata.version(p)}' for p in packages)}. A model",
                     "agrees where outputs, loss and all gradients are within 1e-5 of PyTorch's, in float64."), "",
           sentences(f"{n} models exported{f' ({left} of the list are not run)' if left else ''}, {imported} import",
                     f"and pass `dlc check` ({imported / max(n, 1):.1%}), {agree} agree with PyTorch in outputs, loss",
                     f"and all gradients ({agree / max(n, 1):.1%}).", times), "",
           "| model | result | lines | outputs | loss | gradients | step / PyTorch's |",
           "|---|---|---|---|---|---|---|"]
    for name, r in sorted(exported.items()):
        numbers = [f"{r[k]:.0e}" if k in r else "" for k in ("output", "loss", "grad")]
        numbers.append(f"{r['step']:.2f}" if "step" in r else "")
        out.append(f"| {name} | {r['stage']} | {r.get('lines', '')} | " + " | ".join(numbers) + " |")
    out += ["", "Operations that are lacking, by the number of models:", ""]
    out += [f"- {count} {op}" for op, count in lacking.most_common(40)] or ["- none"]
    refused = {k: r["why"] for k, r in sorted(rows.items()) if r["stage"] == "export"}
    out += ["", "Models that their library or `torch.export` refuses:", ""]
    out += [textwrap.fill(f"- {k}: {why}", 118, subsequent_indent="  ") for k, why in refused.items()] or ["- none"]
    pathlib.Path(path).write_text("\n".join(out) + "\n")


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
    rows, lacking = {}, collections.Counter()
    lists = {"first": library_more.FIRST, "more": library_more.MORE, "other": library_other.OTHER,
             "science": library_science.SCIENCE,
             "written": library_written_shared.WRITTEN}
    chosen = [(f"{library}.{name}", library, name)
              for library, models in lists[options.get("--list", "first")].items() for name in models]
    chosen = [of for of in chosen if re.search(options.get("--only", ""), of[0])]
    if "--order" in options:
        random.Random(options["--order"]).shuffle(chosen)
    for full, library, name in chosen:
        folder = out / full
        why = export(folder, library, name, options.get("--times") != "no")
        rows[full] = {"stage": "export", "why": why} if why else judge(build, folder)
        lacking.update({re.sub(r"^\d+ +", "", op) for op in rows[full].get("lacks", [])})
        shown = {k: v for k, v in rows[full].items() if k in ("why", "lacks", "lines", "loss", "grad", "output")}
        print(full, rows[full]["stage"], shown, flush=True)
        if "--table" in options:
            words = [w for w in sys.argv[3:] if w != options["--table"]]
            command = f"tests/zoo/zoo BUILD OUT {' '.join(words)} FILE.md"
            put_table(options["--table"], rows, lacking, len(chosen) - len(rows), command)
    return any(r["stage"] in ("differs", "run", "check") for r in rows.values())


if __name__ == "__main__":
    sys.exit(main())
