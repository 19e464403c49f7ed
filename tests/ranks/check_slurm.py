#!/usr/bin/env python3
"""Ranks of a real Slurm, whose daemons this starts for itself on one machine: srun with PMIx and with PMI-2, a job that
is requeued, and two that share a sweep.

    check_slurm.py BUILD      from the project's root; exit 77 where Slurm or MUNGE is not installed

What srun starts has the losses of what mpirun starts. A job of examples/slurm/requeue.sh that gets SIGUSR1 stops with
75, is requeued, goes on, and leaves the bits of an unbroken run.
"""
import glob
import json
import os
import pathlib
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
import shards  # noqa: E402
from check_launch import MODEL  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish  # noqa: E402

PMI = {"openmpi": "pmix", "mpich": "pmi2"}
USER = pwd.getpwuid(os.getuid()).pw_name
CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
AuthType=auth/munge
AuthInfo=socket={at}/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/control.pid
SlurmdPidFile={at}/node.pid
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 Port={node} CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Slurm:
    """A controller and a node of one's own; `env` names them."""

    def __init__(self, build):
        self.at = pathlib.Path(tempfile.mkdtemp(prefix="dlr-slurm-"))
        self.at.chmod(0o755)
        (self.at / "state").mkdir(), (self.at / "spool").mkdir()
        (self.at / "key").write_bytes(os.urandom(128))
        (self.at / "key").chmod(0o400)
        host = socket.gethostname().split(".")[0]
        (self.at / "slurm.conf").write_text(CONF.format(host=host, at=self.at, user=USER,
                                                         control=free_port(), node=free_port()))
        programs = str(pathlib.Path(build).resolve() / "cli")
        self.env = {**mpi.environment(), "SLURM_CONF": str(self.at / "slurm.conf"),
                    "PATH": f"{programs}:{os.environ['PATH']}"}
        at, conf = self.at, self.env["SLURM_CONF"]
        self.daemons = [self.start("munged", "--foreground", "--force", f"--key-file={at}/key",
                                   f"--socket={at}/munge.sock",
                                   f"--pid-file={at}/munged.pid", f"--log-file={at}/munged.log",
                                   f"--seed-file={at}/seed")]
        up = self.wait(lambda: (at / "munge.sock").exists())
        self.daemons += [self.start("slurmctld", "-D", "-f", conf), self.start("slurmd", "-D", "-f", conf, "-N", host)]
        up = up and self.wait(lambda: self.run("sinfo", "-h", "-o", "%T").stdout.strip() == "idle")
        probes = (("srun", "-n", "2", "true"), ("sbatch", "--wait", "--output=/dev/null", "--wrap=true"))
        self.up = up and all(self.run(*probe).returncode == 0 for probe in probes)

    def start(self, name, *args):
        log = open(self.at / f"{name}.out", "w")
        return subprocess.Popen([find(name), *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)

    def run(self, *command, **more):
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors="replace",
                              env={**self.env, **more})

    def wait(self, ready):
        """For a minute: what does not come then will not."""
        for _ in range(600):
            if ready():
                return True
            time.sleep(0.1)
        return False

    def logs(self):
        return "".join(f"\n{p.name}: {p.read_text()[-1500:]}" for p in self.at.glob("*.out"))

    def close(self):
        self.run("scancel", "--user", USER)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()
        shutil.rmtree(self.at)


def result(folder):
    """Losses of a run, and all that its last checkpoint holds."""
    metrics = next(pathlib.Path(folder).rglob("metrics.jsonl"))
    return [re.findall(r'"[^"]*[lL]oss[^"]*": [^,}]*', line) for line in metrics.read_text().splitlines()], \
        shards.tensors(metrics.parent / "checkpoints/last")


def logged(folder, text):
    """Whether a run in that folder has logged this. The run goes on: glob passes over folders that are renamed
    while it walks, where Path.rglob raises FileNotFoundError (step-00000784.tmp)."""
    return any(text in pathlib.Path(f).read_text() for f in glob.glob(f"{folder}/**/metrics.jsonl", recursive=True))


def steps(slurm, build):
    """srun next to mpirun."""
    folder = slurm.at
    for family, pmi in PMI.items():
        mpirun = mpi.find(build, family)
        if not mpirun or f"{pmi}\n" not in slurm.run("srun",
                                                     "--mpi=list").stderr + slurm.run("srun", "--mpi=list").stdout:
            print(f"SKIP {family}: it is not there, or this Slurm has no {pmi}")
            continue
        args = [*MODEL, "--num_iters=24"]
        done = slurm.run("srun", f"--mpi={pmi}", "-n", "2", "dlrun", *args, f"--expdir={folder}/srun_{family}")
        check(done.returncode == 0, f"srun --mpi={pmi}: {done.returncode}: {done.stderr[-600:]}")
        done = slurm.run("dlrun", "-n", "2", *args, f"--expdir={folder}/mpirun_{family}", DLR_MPIRUN=mpirun)
        check(done.returncode == 0, f"{mpirun}: {done.returncode}: {done.stderr[-600:]}")
        check(result(folder / f"srun_{family}") == result(folder / f"mpirun_{family}"),
              f"{family}: other bits by srun than by mpirun")
        done = slurm.run("srun", f"--mpi={pmi}", "-n", "2", "dlrun", *args, "--stop_after=3",
                         f"--expdir={folder}/stopped_{family}")
        check(done.returncode == 75, f"srun's exit status: {done.returncode}: {done.stderr[-600:]}")
    done = slurm.run("srun", "-n", "2", "dlrun", *MODEL, f"--expdir={folder}/alone")
    check(done.returncode == 2 and "SLURM_NTASKS=2 asks for a world of 2 ranks" in done.stderr
          and "--mpi=pmix" in done.stderr,
          f"without PMI: {done.returncode}: {done.stderr[-600:]}")


def devices(slurm):
    """Without PMI, but with a device each: they meet at MASTER_ADDR, as PyTorch's do. DLR_NCCL: the stand-in."""
    done = slurm.run("srun", "-n", "2", "dlrun", *MODEL, "--num_iters=8", "--device=cuda:emulated",
                     f"--expdir={slurm.at}/devices",
                     MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    check(done.returncode == 0 and len(result(slurm.at / "devices")[0]) == 2,
          f"devices: {done.returncode}: {done.stderr[-600:]}")


def requeued(slurm, family):
    folder, pmi = slurm.at, PMI[family]
    args = [*MODEL[3:], "--num_iters=3000"]  # of --config base, which the script has
    sent = slurm.run("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1",
                     f"--output={folder}/job.out",
                     "examples/slurm/requeue.sh", *args, f"--expdir={folder}/job", DLRUN_PMI=pmi)
    job = sent.stdout.strip()
    check(sent.returncode == 0 and job, f"sbatch: {sent.stderr}")
    begun = slurm.wait(lambda: logged(folder / "job", '"iteration": '))
    slurm.run("scancel", "--signal=USR1", job)
    again = slurm.wait(lambda: "PENDING" in slurm.run("squeue", "-h", "-j", job, "-o", "%T").stdout)
    # Slurm would leave it two minutes; within the second in which it revoked the job's credential it would kill it
    slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    ended = slurm.wait(lambda: not slurm.run("squeue", "-h", "-j", job).stdout.strip())
    check(begun and again and ended,
          f"the job has begun: {begun}, waits in the queue again: {again}, ends: {ended}{slurm.logs()}")
    said = (folder / "job.out").read_text()
    job = slurm.run("scontrol", "show", "job", job).stdout
    check("stopped by SIGUSR1" in said and "going on from step " in said,
          f"the job: {said[-900:]}\n{job}{slurm.logs()}")
    done = slurm.run("srun", f"--mpi={pmi}", "-n", "2", "dlrun", *MODEL[:3], *args, f"--expdir={folder}/unbroken")
    check(done.returncode == 0 and result(folder / "job") == result(folder / "unbroken"),
          f"requeued: other bits: {done.stderr[-300:]}")


def swept(slurm):
    """Two jobs are agents of one sweep; one gets Slurm's signal in a trial, queues again and goes on."""
    folder, model = slurm.at, ["models/cnn_regressor.dl", "--config=test2", "--data_size=8", "--depth=2", "--threads=1",
                               "--Nsamples=64", "--Nsamples_val=32"]
    file, sweep = folder / "sweep.yaml", folder / "sweeps/s"
    file.write_text("method: grid\nmetric: {name: val_loss}\nparameters: {lr: {values: [1E-4, 1E-3, 2E-3]}}\n")
    made = slurm.run("dlrun", "sweep", str(file), *model, "--max_epochs=150", f"--root_dir={folder}", "--sweep_id=s")
    check(made.returncode == 0, f"dlrun sweep: {made.stderr}")
    jobs = [slurm.run("sbatch", "--parsable", "--cpus-per-task=1", f"--output={folder}/agent{i}.out",
                      "examples/slurm/sweep.sh", str(sweep)).stdout.strip()
            for i in range(2)]
    begun = slurm.wait(lambda: logged(sweep, '"epoch": 3'))
    events = lambda: [json.loads(line) for line in (sweep / "trials.jsonl").read_text().splitlines()]  # noqa: E731
    job = events()[0]["job"]
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    again = slurm.wait(lambda: "PENDING" in slurm.run("squeue", "-h", "-j", job, "-o", "%T").stdout)
    slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    ended = slurm.wait(lambda: not any(slurm.run("squeue", "-h", "-j", j).stdout.strip() for j in jobs))
    said = "".join((folder / f"agent{i}.out").read_text()[-600:] for i in range(2))
    check(begun and again and ended, f"begun: {begun}, queues again: {again}, ends: {ended} {said}{slurm.logs()}")
    seen = [(e["trial"], e["event"]) for e in events()]
    check(sorted(t for t, what in seen if what == "done") == [0, 1, 2]
          and sum(what == "returned" for _, what in seen) == 1
          and len({e.get("job") for e in events() if e["event"] == "taken"}) == 2, f"two jobs: {events()} {said}")


def check_all(build):
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun", "sbatch") if not find(name)]
    families = [family for family in PMI if mpi.find(build, family)]
    if missing or not families:
        print(f"SKIP: there is no {', '.join(missing) or 'MPI'}")
        return 77
    slurm = Slurm(build)
    try:
        if not slurm.up:
            print(f"SKIP: Slurm itself does not run here{slurm.logs()}")
            return 77
        steps(slurm, build)
        devices(slurm)
        requeued(slurm, families[0])
        swept(slurm)
    finally:
        slurm.close()
    finish()


if __name__ == "__main__":
    sys.exit(check_all(*sys.argv[1:]))
