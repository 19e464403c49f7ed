#!/usr/bin/env python3
"""Colours of model files in editors (tools/editors): the files are those of scripts/editor-syntax; the TextMate grammar
splits every shipped model into words, and names each as the language has it; so does Vim, where there is one.

check_editors.py
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from checks import check, finish

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRAMMAR = json.loads((ROOT / "tools/editors/vscode/syntaxes/dlc.tmLanguage.json").read_text())
RULES = [(rule["name"], re.compile(rule["match"])) for rule in GRAMMAR["patterns"]]


def tokens(line):
    """(text, scope) from left to right: at each place the rule that matches first, of several the one listed first."""
    at, found = 0, []
    while at < len(line):
        best = None
        for name, pattern in RULES:
            m = pattern.search(line, at)
            if m and m.end() > m.start() and (best is None or m.start() < best[1].start()):
                best = name, m
        end = best[1].start() if best else len(line)
        if end > at:
            found.append((line[at:end], ""))
        if not best:
            break
        found.append((best[1].group(), best[0]))
        at = best[1].end()
    return found


def own_words():
    text = (ROOT / "frontends/dl/keywords.def").read_text()
    return set(re.findall(r'^KEYWORD\("(\w+)"', text, re.M)), set(re.findall(r'^OPENER\("(\w+)"', text, re.M))


def check_models():
    keywords, openers = own_words()
    for path in sorted((ROOT / "models").glob("*.dl")):
        seen = set()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = tokens(line)
            check("".join(text for text, _ in found) == line, f"{path.name}:{number}: all of the line")
            for text, scope in found:
                seen.add(scope)
                if scope:
                    continue
                left = set(re.findall(r"[A-Za-z_]\w*", text)) & keywords
                check(not left and not re.search(r"[#\"'@|]|\d(?![\w\]])", re.sub(r"\w*[A-Za-z_]\w*", "", text)),
                      f"{path.name}:{number}: {text!r} of {line!r} has no colour")
        want = {"storage.type.dlc", "keyword.declaration.dlc", "support.function.dlc", "support.type.dlc",
                "keyword.operator.pipe.dlc", "constant.numeric.dlc"}
        check(want <= seen, f"{path.name}: {want - seen} is not there")


def scope_of(line, word):
    return next((scope for text, scope in tokens(line) if text.strip() == word), None) or None


def check_rules():
    for line, word, want in (
            ("module Down(c)(x): return x |> conv(c, 4) @0", "conv", "support.function.dlc"),
            ("    h = x |> Down(3) @down.{i}", "Down", "entity.name.function.dlc"),
            ("    h = x |> Down(3) @down.{i}", "@down.{i}", "entity.name.tag.label.dlc"),
            ("    input x: f32[N, C=3]", "input", "keyword.declaration.dlc"),
            ("    input x: f32[N, C=3]", "f32", "support.type.dlc"),
            ("    input = 3", "input", None),
            ("    for i in range(3): init conv: weight ~ normal(0, 1)", "init", "keyword.declaration.dlc"),
            ("    a = 'it # is' # not", "'it # is'", "string.quoted.single.dlc"),
            ("    a = 'it # is' # not", "# not", "comment.line.number-sign.dlc"),
            ("    a = none if not b else 1.5e-3", "1.5e-3", "constant.numeric.dlc"),
            ("    a = none if not b else 1.5e-3", "not", "keyword.operator.logical.dlc"),
            ("    a = none if not b else 1.5e-3", "none", "constant.language.dlc"),
            ("    mean = 2", "mean", None)):
        check(scope_of(line, word) == want, f"{word!r} of {line!r} is {scope_of(line, word)}, not {want}")


def check_vim():
    """The groups that Vim itself gives to words of a model."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        script = pathlib.Path(folder) / "s.vim"
        ask = [(2, "conv"), (2, "return"), (3, "@0"), (6, "input"), (7, "f32"), (1, "3-D")]
        lines = "".join(f"call add(g, synIDattr(synID({line}, match(getline({line}), '{word}') + 1, 1), 'name'))\n"
                        for line, word in ask)
        script.write_text(f"set rtp+={ROOT}/tools/editors/vim\nfiletype plugin on\nsyntax on\n"
                          f"edit {ROOT}/models/unet.dl\nlet g = [&filetype]\n{lines}call writefile(g, '{out}')\nqa!\n")
        subprocess.run(["vim", "-u", "NONE", "-N", "-n", "-es", "-S", str(script)], stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=60)
        got = out.read_text().split() if out.exists() else None
        check(got == ["dlc", "dlFunction", "dlKeyword", "dlLabel", "dlOpener", "dlType", "dlComment"], f"Vim: {got}")


def main():
    done = subprocess.run([sys.executable, str(ROOT / "scripts/editor-syntax"), "--check"], capture_output=True,
                          text=True, timeout=60)
    check(done.returncode == 0, f"written by scripts/editor-syntax: {done.stdout}{done.stderr}")
    package = json.loads((ROOT / "tools/editors/vscode/package.json").read_text())["contributes"]["grammars"][0]
    check((ROOT / "tools/editors/vscode" / package["path"]).exists() and package["scopeName"] == GRAMMAR["scopeName"],
          "the extension has the grammar")
    json.loads((ROOT / "tools/editors/vscode/language-configuration.json").read_text())
    check_models()
    check_rules()
    if shutil.which("vim"):
        check_vim()
    finish()


main()
