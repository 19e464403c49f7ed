"""Weights & Biases' own package takes what a run leaves: its reader, its messages, and `wandb sync`, whole, to a
stand-in for its server.

oracle_wandb.py DLRUN     from the project's root; DLC_TEST_WANDB=PYTHON names an interpreter that has the package
                          (python3 -m venv V; V/bin/pip install wandb); without the package it says SKIP (exit status
                          77)

The stand-in listens on this machine alone; no account, and nothing goes out. Checked with 0.16.6 (whose DataStore reads
the file in Python) and 0.31.0 (whose core does).
"""
import hashlib
import http.server
import json
import gzip
import os
import subprocess
import sys
import threading

from checks import ENV, TMP, check, finish
from wandb_file import Run, records

DLRUN = os.path.abspath(sys.argv[1])
PYTHON = os.environ.get("DLC_TEST_WANDB") or sys.executable
for variable in [v for v in ENV if v.startswith("WANDB_")]:
    del ENV[variable]

# Runs in their interpreter: every record by their reader, where there is one in Python, and their messages: what those
# do not know is a fault.
READER = """
import json, sys
import wandb
wandb._assert_is_internal_process = True
from wandb.proto import wandb_internal_pb2 as pb
try:
    from wandb.sdk.internal.datastore import DataStore
    store = DataStore()
    store.open_for_scan(sys.argv[1])
    records = iter(store.scan_data, None)
except ImportError:
    records = [bytes.fromhex(line) for line in sys.stdin.read().split()]
seen = []
for data in records:
    r = pb.Record()
    r.ParseFromString(data)
    kind = r.WhichOneof("record_type")
    body = {}
    if kind == "history":
        body = {i.key: json.loads(i.value_json) for i in r.history.item}
        assert r.history.step.num == body["_step"]
    elif kind == "run":
        body = {"run_id": r.run.run_id, "entity": r.run.entity, "project": r.run.project, \
            "run_group": r.run.run_group, "display_name": r.run.display_name,
                "config": {i.key: json.loads(i.value_json) for i in r.run.config.update}, \
                    "start": r.run.start_time.seconds}
    elif kind == "files":
        body = [f.path for f in r.files.files]
    elif kind == "exit":
        body = r.exit.exit_code
    r.DiscardUnknownFields()
    assert len(r.SerializeToString()) == len(data), "fields that they do not know"
    seen.append([r.num, kind, body])
print(json.dumps([wandb.__version__, seen]))
"""


class Server(http.server.ThreadingHTTPServer):
    """Answers what `wandb sync` asks, and keeps what it sends."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.buckets, self.lines, self.uploads, self.ends, self.preempting = [], {}, {}, [], False
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while n := int(self.rfile.readline(), 16):
                data += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

    def say(self, what):
        text = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.say({})

    def do_PUT(self):
        self.server.uploads[self.path.removeprefix("/up/").split("?")[0]] = hashlib.sha256(self.body()).hexdigest()
        self.say({})

    def do_POST(self):
        data = self.body()
        if self.path.startswith("/graphql"):
            q = json.loads(data)
            return self.say({"data": self.answer(q["query"], q.get("variables") or {})})
        if "file_stream" in self.path:
            stream = json.loads(data)
            part = stream.get("files", {}).get("wandb-history.jsonl")
            for i, line in enumerate(part["content"] if part else []):
                self.server.lines[part["offset"] + i] = json.loads(line)
            self.server.preempting |= stream.get("preempting", False)
            if stream.get("complete"):
                self.server.ends.append(stream["exitcode"])
        self.say({"exitcode": None, "limits": {}})

    def answer(self, text, v):
        project = {"id": "p", "name": "test", "entity": {"id": "e", "name": "nersc"}}
        run = {"id": "r", "name": v.get("name"), "displayName": v.get("displayName"), "description": None,
               "config": "{}", "sweepName": None, "historyLineCount": 0, "project": project}
        if "upsertBucket" in text:
            self.server.buckets.append(v)
            return {"upsertBucket": {"bucket": run, "inserted": True}}
        if "createRunFiles" in text:
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [],
                                       "files": [{"name": f, "uploadUrl": f"{self.server.url}/up/{f}"}
                                                 for f in v["files"]]}}
        if "RunUploadUrls" in text:
            files = [{"node": {"name": f, "url": f"{self.server.url}/up/{f}", "uploadUrl": f"{self.server.url}/up/{f}",
                               "updatedAt": None}} for f in v["files"]]
            return {"model": {"bucket": {"id": "r", "files": {"uploadHeaders": [], "edges": files}}}}
        if "viewer" in text:
            return {"viewer": {"id": "v", "entity": "nersc", "username": "me", "flags": "{}", "teams": {"edges": []}},
                    "serverInfo": {"cliVersionInfo": {"max_cli_version": "9.9.9"}, "latestLocalVersionInfo": None,
                                   "features": []}}
        if "__type" in text or "__schema" in text:
            return {name: {"fields": [], "inputFields": []}
                    for name in ("TypeInfo", "QueryType", "MutationType", "ServerInfoType", "CreateRunFilesInput",
                                 "__type")}
        return {"serverInfo": {"features": []}, "model": None, "project": None}


def train(*more, rc=0):
    r = subprocess.run([DLRUN, "models/cnn_regressor.dl", "--yaml_config=tests/data/theirs/c.yaml", "--config=test2",
                        "--hidden=4", "--depth=3", "--data_size=8",
                        "--batch_size=4", "--Nsamples=16", "--Nsamples_val=8", "--device=cpu", f"--root_dir={TMP}/run",
                        *more], capture_output=True, text=True, env=ENV, stdin=subprocess.DEVNULL)
    check(r.returncode == rc, f"{more}: exit {r.returncode}: {r.stderr[-800:]}")
    return Run(f"{TMP}/run/expts/test2/0/wandb")


def test_reader(w):
    r = subprocess.run([PYTHON, "-c", READER, w.path], input="\n".join(x.hex() for x in records(w.raw)),
                       capture_output=True, text=True, env=ENV)
    check(r.returncode == 0, r.stderr[-2000:])
    if r.returncode:
        return None
    version, seen = json.loads(r.stdout.splitlines()[-1])
    print(f"wandb {version}: {len(seen)} records")
    check([(n, k) for n, k, _ in seen] == [(i + 1, k) for i, (k, _) in enumerate(w.records)],
          f"{[(n, k) for n, k, _ in seen]}")
    check([b for _, k, b in seen if k == "history"] == w.history and [b for _, k, b in seen if k == "exit"] == w.exit,
          "points and end")
    check([b for _, k, b in seen if k == "files"] == w.all("files"), "files")
    (run,) = [b for _, k, b in seen if k == "run"]
    check(all(run[k] == w.run[k] for k in run), f"{run}")
    return version


def sync(w):
    """What arrives."""
    server = Server()
    os.makedirs(f"{TMP}/home", exist_ok=True)
    env = {**ENV, "HOME": f"{TMP}/home", "WANDB_BASE_URL": server.url, "WANDB_API_KEY": "0" * 40,
           "WANDB_ERROR_REPORTING": "false", "no_proxy": "127.0.0.1"}
    r = subprocess.run([PYTHON, "-m", "wandb", "sync", w.folder], capture_output=True, text=True, env=env,
                       stdin=subprocess.DEVNULL, cwd=TMP)
    check(r.returncode == 0, f"exit {r.returncode}: {r.stdout[-1500:]} {r.stderr[-1500:]}")
    server.shutdown()
    return server


def test_sync(w):
    """All of it: run, configuration, every point, every file; and how it ended."""
    server = sync(w)
    check(os.path.exists(f"{w.path}.synced"), "marked as uploaded")
    first = server.buckets[0] if server.buckets else {}
    check((first.get("name"), first.get("project"), first.get("entity"), first.get("groupName"),
           first.get("displayName"))
          == (w.run["run_id"], "test", "nersc", "op_test2", "test2_0"), f"{first}")
    sent = {}
    for b in server.buckets:
        sent.update({k: v["value"] for k, v in json.loads(b.get("config") or "{}").items() if not k.startswith("_")})
    check(
        sent == w.config,
        f"{ {k: (sent.get(k), w.config.get(k)) for k in set(sent) | set(w.config) if sent.get(k) != w.config.get(k)} }")
    got = [server.lines[i] for i in sorted(server.lines)]
    check(sorted(server.lines) == list(range(len(w.history))) and got == w.history, f"{got}")
    check(server.ends == w.exit and server.preempting == (w.exit == [75]),
          f"{server.ends} and {w.exit}, preempting {server.preempting}")
    for path in {f for files in w.all("files") for f in files}:
        with open(f"{w.folder}/files/{path}", "rb") as f:
            check(server.uploads.get(path) == hashlib.sha256(f.read()).hexdigest(),
                  f"{path} of {sorted(server.uploads)}")


def test_cut(w, version):
    """A killed run: without preempting, exit and final; then with half of its last point."""
    whole = [7 + len(r) for r in records(w.raw)]
    for bytes, steps in ((sum(whole[-3:]), len(w.history)), (sum(whole[-3:]) + 5, len(w.history) - 1)):
        with open(w.path, "wb") as f:
            f.write(w.raw[:-bytes])
        server = sync(w)
        check(sorted(server.lines) == list(range(steps))
              and [server.lines[i] for i in range(steps)] == w.history[:steps], f"{server.lines}")
        check(server.ends == [0 if version.startswith("0.16.") else 1], f"{server.ends}")  # their own choice
        if os.path.exists(f"{w.path}.synced"):
            os.remove(f"{w.path}.synced")
    with open(w.path, "wb") as f:
        f.write(w.raw)


if subprocess.run([PYTHON, "-c", "import wandb, wandb.proto.wandb_internal_pb2"], capture_output=True, env=ENV,
                  cwd=TMP).returncode:
    print("SKIP: needs the package wandb (DLC_TEST_WANDB=PYTHON that has it)")
    sys.exit(77)
part = train("--max_epochs=4", "--stop_after=10", rc=75)
test_cut(part, test_reader(part) or "")
test_sync(part)
whole = train("--max_epochs=5")
check(whole.run["run_id"] == part.run["run_id"] and len(whole.history) == 5, "the same run")
test_reader(whole)
test_sync(whole)  # once more, from its beginning
finish()
