#!/usr/bin/env python3
"""`dlc lsp` next to a scripted editor: diagnostics, hover, completion, definitions, renaming, outline, form; names of
every shipped model are renamed; input that is no message. And Neovim's own client, set up as the guide has it.

check_lsp.py BUILD
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from checks import check, finish

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = """module Block(width, act=2)(x):
    return x |> conv(width, 3, pad=1) @conv |> relu

model M(width=8):
    input x: f32[N, C=3, H=16, W=16]
    target t: f32[N, K=4]
    h = x
    for i in range(2): h = h |> Block(width=width) @block.{i}
    y = h |> mean(over=[H, W]) |> linear(4) @head as [N, K]
    output y
    loss = mse_loss(y, t)
"""


class Editor:
    """A client: requests wait for their answer; notifications of the server are kept."""

    def __init__(self, dlc):
        self.process = subprocess.Popen([dlc, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number, self.published = 0, {}
        self.timer = threading.Timer(120, self.process.kill)
        self.timer.start()

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self):
        length = 0
        while (line := self.process.stdout.readline()) not in (b"\r\n", b""):
            length = int(line.split(b":")[1])
        message = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.published[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message

    def ask(self, method, uri=None, at=None, **params):
        self.number += 1
        if uri:
            params["textDocument"] = {"uri": uri}
        if at:
            params["position"] = {"line": at[0], "character": at[1]}
        self.send({"id": self.number, "method": method, "params": params})
        while (message := self.read()).get("id") != self.number:
            pass
        return message.get("result") if "error" not in message else message["error"]

    def open(self, uri, text):
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": {
            "uri": uri, "languageId": "dl", "version": 1, "text": text}}})
        return self.wait(uri)

    def change(self, uri, text):
        self.send({"method": "textDocument/didChange", "params": {
            "textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]}})
        return self.wait(uri)

    def wait(self, uri):
        self.published.pop(uri, None)
        while uri not in self.published:
            self.read()
        return self.published[uri]

    def close(self):
        self.ask("shutdown")
        refused = self.ask("textDocument/hover")
        self.send({"method": "exit"})
        self.process.stdin.close()
        self.timer.cancel()
        return self.process.wait(timeout=30), refused


def units(text):
    """Length in UTF-16."""
    return len(text.encode("utf-16-le")) // 2


def find(text, word, nth=0):
    """Line and column of a word."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(word, at + 1)
    line = text.count("\n", 0, at)
    return line, units(text[text.rfind("\n", 0, at) + 1:at])


def offset(text, position):
    line = text.split("\n")[position["line"]]
    head = line.encode("utf-16-le")[:2 * position["character"]].decode("utf-16-le")
    return sum(len(part) + 1 for part in text.split("\n")[:position["line"]]) + len(head)


def edited(text, edits):
    for e in sorted(edits, key=lambda e: -offset(text, e["range"]["start"])):
        begin, end = (offset(text, e["range"][k]) for k in ("start", "end"))
        text = text[:begin] + e["newText"] + text[end:]
    return text


def labels(result):
    return [item["label"] for item in result["items"]]


def check_words(editor):
    uri = "file:///tmp/a%20model.dl"
    check(editor.open(uri, MODEL) == [], "no fault")

    def hover(word, nth=0):
        result = editor.ask("textDocument/hover", uri, find(MODEL, word, nth))
        return result["contents"]["value"] if result else ""
    check("f32[N=2, C=8, H=16, W=16]" in hover("conv(")
          and "block.0.conv.weight: f32[O=8, C=3" in hover("conv(")
          and "conv(channels, kernel" in hover("conv("), f"a layer: {hover('conv(')}")
    check(hover("h = x").startswith("value h") and "f32[N=2, C=3, H=16, W=16]" in hover("h = x"), hover("h = x"))
    check("f32[N=2, C=3" in hover("x: f32") and "input x" in hover("x: f32"), hover("x: f32"))
    check("argument width" in hover("width=8") and "8" in hover("width=8"), hover("width=8"))
    check("head.weight: f32[O=4, C=8]" in hover("linear"), hover("linear"))
    check("module Block" in hover("Block(width=width)"), hover("Block(width=width)"))
    check(editor.ask("textDocument/hover", uri, (3, 0)) is None, "nothing on an empty line")

    piped = editor.ask("textDocument/completion", uri, find(MODEL, "conv(width"))
    check("conv" in labels(piped) and "Block" in labels(piped) and "for" not in labels(piped)
          and "width" not in labels(piped), "layers and modules after |>")
    line, column = find(MODEL, "conv(width")
    begun = labels(editor.ask("textDocument/completion", uri, (line, column + 3)))
    check(begun == ["conv", "conv_transpose"], f"words that begin so: {begun}")
    inside = labels(editor.ask("textDocument/completion", uri, find(MODEL, "pad=1")))
    check({"stride", "pad", "groups", "x", "act"} <= set(inside), f"arguments within a call: {inside[:12]}")
    check("act" in labels(editor.ask("textDocument/completion", uri, find(MODEL, "width=width"))), "of a module, too")

    place = editor.ask("textDocument/definition", uri, find(MODEL, "Block(width=width)"))
    check(place["uri"] == uri and place["range"]["start"] == {"line": 0, "character": 7}, f"a definition: {place}")
    check(len(editor.ask("textDocument/references", uri, find(MODEL, "h = x"))) == 4, "all places of a name")

    for word, nth, new, want in (
            ("width, act", 0, "w", MODEL.replace("Block(width, ", "Block(w, ").replace("conv(width,", "conv(w,")
             .replace("width=width", "w=width")),
            ("width=8", 0, "w", MODEL.replace("M(width=", "M(w=").replace("width=width", "width=w")),
            ("h = x", 0, "hidden", MODEL.replace("h = x", "hidden = x").replace("h = h |>", "hidden = hidden |>")
             .replace("y = h", "y = hidden"))):
        result = editor.ask("textDocument/rename", uri, find(MODEL, word, nth), newName=new)
        got = edited(MODEL, result["changes"][uri])
        check(got == want, f"{word} becomes {new}:\n{got}")
    for new, why in (("x", "another name"), ("for", "is no name"), ("2h", "is no name")):
        result = editor.ask("textDocument/rename", uri, find(MODEL, "h = x"), newName=new)
        check(why in result["message"], f"{new}: {result}")
    check(editor.ask("textDocument/prepareRename", uri, find(MODEL, "loss")) is None, "loss stays")
    outline = editor.ask("textDocument/documentSymbol", uri)
    check([s["name"] for s in outline] == ["Block", "M"]
          and "h" in [c["name"] for c in outline[1]["children"]], f"an outline: {outline}")
    check(editor.ask("textDocument/formatting", uri) == [], "it has the form already")
    loose = MODEL.replace("h = x\n", "h   =  x\n")
    editor.change(uri, loose)
    check(edited(loose, editor.ask("textDocument/formatting", uri)) == MODEL, "the form of dlc fmt")


def check_faults(editor):
    uri = "file:///tmp/b.dl"
    editor.open(uri, MODEL)
    # characters of two units and of three bytes before the fault
    wrong = MODEL.replace("h = x\n", 'h = x  # \U0001f600 \u00fc\n    s = ["\U0001f600\u00fc"]\n', 1)
    wrong = wrong.replace("linear(4)", "linaer(4)")
    found = editor.change(uri, wrong)
    fault = next(d for d in found if d["code"] == "DL-E0302")
    check(fault["severity"] == 1 and "did you mean 'linear'" in fault["message"]
          and fault["range"]["start"] == dict(zip(("line", "character"), find(wrong, "linaer"))), f"a fault: {found}")
    wide = MODEL.replace("linear(4) @head", 'linear(4, name="\U0001f600") @head')
    at = next(d for d in editor.change(uri, wide))["range"]
    check(at["start"]["line"] == find(wide, "linear(4,")[0], f"a fault in a line with wide characters: {at}")
    twice = MODEL.replace("    output y", "    loss = mean(abs(y))\n    output y")
    found = editor.change(uri, twice)
    check([d["severity"] for d in found] == [2] and found[0]["code"] == "DL-W0710"
          and found[0]["relatedInformation"][0]["location"]["uri"] == uri, f"a warning, and its other place: {found}")
    broken = MODEL.replace("linear(4) @head", "lin")
    editor.change(uri, broken)
    check("linear" in labels(editor.ask("textDocument/completion", uri,
                                        (find(broken, "lin")[0], find(broken, "lin as")[1] + 3))), "words while typing")
    editor.change(uri, "model")
    check(editor.ask("textDocument/hover", uri, (0, 2)) is None, "half a file")
    check(editor.change(uri, MODEL) == [], "and well again")
    editor.send({"method": "textDocument/didSave", "params": {"textDocument": {"uri": uri}}})
    check(editor.wait(uri) == [], "it compiles")
    editor.send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}})
    check(editor.wait(uri) == [], "closed")
    check(editor.ask("textDocument/hover", uri, (0, 0))["code"] == -32602, "it is not open")
    check(editor.ask("textDocument/foldingRange", uri)["code"] == -32601, "a method that is not there")


def check_statements(editor):
    """Names in each kind of statement: several at once, strings with values, loops' parameters, losses of their own."""
    uri, text = "file:///tmp/s.dl", """model S(n=2):
    input x: f32[N, T=5, C=3]
    target t: f32[N, K=4]
    y, last = x |> gru(6, states=true) @rnn
    s = 0
    for i in range(n):
        param w{i}: f32[K=4]
        s = s + sum(w * w)
    z = y |> mean(over=T) |> linear(4) @head as [N, K]
    output z
    metric "m{n}" = mean(z)
    loss = mse_loss(z, t) + 0.1 * s + 0 * sum(last)
    optimize adam @rnn, @head: loss
"""
    faults = [d["message"] for d in editor.open(uri, text) if d["severity"] == 1]
    for word, new in (("last", "h"), ("y, last", "states"), ("n=2", "count"), ("i in", "number"), ("w{i}", "v")):
        result = editor.ask("textDocument/rename", uri, find(text, word), newName=new)
        renamed = edited(text, result["changes"][uri])
        again = [d["message"] for d in editor.open(uri, renamed) if d["severity"] == 1]
        check(len(result["changes"][uri]) > 1 and len(again) == len(faults), f"{word}: {again}, {faults}\n{renamed}")
        editor.change(uri, text)


def check_models(editor, dlc, folder):
    """Each name of each shipped model, renamed: the model stays one without faults, of the same layers."""
    for path in sorted((ROOT / "models").glob("*.dl")):
        text, uri = path.read_text(), path.as_uri()
        check(not [d for d in editor.open(uri, text) if d["severity"] == 1], f"{path.name} has no fault")
        outline = editor.ask("textDocument/documentSymbol", uri)
        names = outline + [c for s in outline for c in s["children"]]
        names = [s for s in names if s["name"] != "loss"]
        check(len(names) > 3, f"{path.name}: {len(names)} names")
        new = text
        for i, s in enumerate(names[::max(1, len(names) // 6)]):
            editor.change(uri, new)
            now = editor.ask("textDocument/documentSymbol", uri)
            again = [x for x in now + [c for y in now for c in y["children"]] if x["name"] == s["name"]]
            at = again[0]["selectionRange"]["start"]
            result = editor.ask("textDocument/rename", uri, (at["line"], at["character"]), newName=f"renamed_{i}")
            new = edited(new, result["changes"][uri])
        faults = [d for d in editor.change(uri, new) if d["severity"] == 1]
        check(new != text and not faults, f"{path.name}: renamed, {faults[:1]}")


# What a person does: opens the file, reads faults, mends one, asks, goes to a definition, renames, formats.
SESSION = """
local out = {}
local function reached(what, ready)
  if not vim.wait(60000, ready, 20) then out.never = (out.never or "") .. what .. "; " end
end
local function ask(method, line, character)
  local params = { textDocument = vim.lsp.util.make_text_document_params(0),
                   position = { line = line, character = character } }
  for _, answer in pairs(vim.lsp.buf_request_sync(0, method, params, 60000) or {}) do return answer.result end
end
local function text() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\\n") .. "\\n" end
vim.cmd("edit model.dl")
reached("a fault", function() return #vim.diagnostic.get(0) > 0 end)
out.faults = vim.diagnostic.get(0)
local fault = out.faults[1]
vim.api.nvim_buf_set_text(0, fault.lnum, fault.col, fault.lnum, fault.col + 6, { "linear" })
reached("no fault", function() return #vim.diagnostic.get(0) == 0 end)
out.hover = ask("textDocument/hover", 8, fault.col)
local found = ask("textDocument/completion", 1, 16)
out.words = {}
for _, item in ipairs(found.items) do table.insert(out.words, item.label) end
vim.api.nvim_win_set_cursor(0, { 8, 32 })
vim.lsp.buf.definition()
reached("the definition", function() return vim.api.nvim_win_get_cursor(0)[1] == 1 end)
vim.api.nvim_win_set_cursor(0, { 7, 4 })
vim.lsp.buf.rename("hidden")
reached("another name", function() return text():find("hidden = x", 1, true) ~= nil end)
vim.api.nvim_buf_set_lines(0, 6, 7, false, { "    hidden   =  x" })
if vim.lsp.buf.format then vim.lsp.buf.format() else vim.lsp.buf.formatting_sync(nil, 60000) end
out.text = text()
local file = io.open("out.json", "w")
file:write(vim.json.encode(out))
file:close()
vim.cmd("qa!")
"""


def check_neovim(dlc, folder):
    """Neovim's client, with the lines of the guide in its init.lua."""
    guide = (ROOT / "docs/guide/editors.md").read_text()
    (folder / "init.lua").write_text(re.search(r"```lua\n(.*?)```", guide, re.S)[1])
    (folder / "session.lua").write_text(SESSION)
    (folder / "model.dl").write_text(MODEL.replace("linear(4)", "linaer(4)"))
    path = str(pathlib.Path(dlc).resolve().parent) + os.pathsep + os.environ["PATH"]
    env = {**os.environ, "PATH": path, "HOME": str(folder),
           "XDG_STATE_HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run(["nvim", "--headless", "-n", "-u", "init.lua", "-c", "luafile session.lua"], cwd=folder,
                          env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if not check((folder / "out.json").exists(), f"Neovim: {done.returncode} {done.stderr[-900:]}"):
        return
    out = json.loads((folder / "out.json").read_text())
    check("never" not in out, f"Neovim waited in vain for {out.get('never')}")
    faults = out["faults"]
    check(len(faults) == 1 and (faults[0]["lnum"], faults[0]["col"]) == find(MODEL, "linear")
          and "did you mean 'linear'" in faults[0]["message"], f"Neovim's faults: {faults}")
    check("head.weight: f32[O=4, C=8]" in out["hover"]["contents"]["value"], f"Neovim's hover: {out['hover']}")
    check("conv" in out["words"] and "Block" in out["words"], f"Neovim's completion: {out['words'][:9]}")
    want = MODEL.replace("h = x", "hidden = x").replace("h = h |>", "hidden = hidden |>").replace("y = h", "y = hidden")
    check(out["text"] == want, f"Neovim's text, renamed and formatted:\n{out['text']}")


def check_stream(dlc):
    def end(data):
        done = subprocess.run([dlc, "lsp"], input=data, capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr
    check(end(b"")[0] == 1, "an editor that is gone without a word")
    status, out, _ = end(b"Content-Length: 5\r\n\r\n{nope")
    check(b"-32700" in out and status == 1, f"no JSON: {out}")
    for data in b"hello\r\n\r\n", b"Content-Length: 70\r\n\r\n{}", b"Content-Length: -1\r\n\r\n", b"Content-Le":
        status, _, err = end(data)
        check(status == 3 and b"dlc: error: a " in err, f"{data}: {status} {err}")


def main(build):
    dlc = str(pathlib.Path(build) / "cli/dlc")
    editor = Editor(dlc)
    about = editor.ask("initialize", processId=None, rootUri=None, capabilities={})
    check(about["capabilities"]["renameProvider"]["prepareProvider"] and about["serverInfo"]["name"] == "dlc", "begins")
    editor.send({"method": "initialized", "params": {}})
    check_words(editor)
    check_faults(editor)
    check_statements(editor)
    with tempfile.TemporaryDirectory() as folder:
        check_models(editor, dlc, pathlib.Path(folder))
        if shutil.which("nvim"):
            check_neovim(dlc, pathlib.Path(folder))
    status, refused = editor.close()
    check(status == 0 and refused["code"] == -32600, f"it ends: {status}, {refused}")
    check_stream(dlc)
    finish()


main(*sys.argv[1:])
