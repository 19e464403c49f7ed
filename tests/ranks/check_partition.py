#!/usr/bin/env python3
"""A network that stops carrying in each phase of a run: two ranks in two network namespaces of this machine, a third
that routes between them, and stops. Each side names the other within the timeout and 5 s, all end, nobody is left.

    check_partition.py BUILD [PHASE...]

As root, by iproute2; else it is skipped. Open MPI reaches the other side by an agent in ssh's place, which enters the
namespace; messages go by TCP. Nothing tells an end that the other is cut off: packets vanish in the third namespace.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import Gate, check, finish  # noqa: E402
from check_faults import left  # noqa: E402
from check_phases import MODEL, TIMEOUT, named_at, run_timed, shim  # noqa: E402

HERE, THERE, ROUTER = (f"dlr{os.getpid()}{x}" for x in "abr")
ADDRESSES = {HERE: ("10.201.1.2", "10.201.1.1"), THERE: ("10.201.2.2", "10.201.2.1")}  # its own, the router's
AGENT = """#!/bin/sh
# In ssh's place: HOST COMMAND...
shift
unset DLRUN_STATUS_FILE DLRUN_STATUS_PLACE # another machine would not have them
exec ip netns exec {there} unshare --uts sh -c 'hostname there; eval "$*"' _ "$@"
"""


def do(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def build_network():
    for name in (HERE, THERE, ROUTER):
        do("ip", "netns", "add", name)
    for i, (name, (own, router)) in enumerate(ADDRESSES.items()):
        inside = ["ip", "-n", name]
        do(*inside, "link", "add", "eth", "type", "veth", "peer", "name", f"port{i}", "netns", ROUTER)
        do(*inside, "addr", "add", f"{own}/24", "dev", "eth")
        do("ip", "-n", ROUTER, "addr", "add", f"{router}/24", "dev", f"port{i}")
        for device, where in (("lo", name), ("eth", name), (f"port{i}", ROUTER)):
            do("ip", "-n", where, "link", "set", device, "up")
        do(*inside, "route", "add", "default", "via", router)


def carry(on):
    do("ip", "netns", "exec", ROUTER, "sh", "-c", f"echo {int(on)} > /proc/sys/net/ipv4/ip_forward")


def main(build, *phases):
    mpirun = mpi.find(build, "openmpi")
    if not mpirun:
        print("SKIP: no openmpi, or this build has no module for it")
        return 77
    folder = tempfile.mkdtemp(prefix="dlr-partition-")
    try:
        try:
            build_network()
            carry(True)
            do("ip", "netns", "exec", HERE, "unshare", "--uts", "hostname", "here")
        except (OSError, subprocess.CalledProcessError) as e:
            print(f"SKIP: no network namespaces: {e}: {getattr(e, 'output', b'') or b''!r}")
            return 77
        agent = pathlib.Path(folder, "agent")
        agent.write_text(AGENT.format(there=THERE))
        agent.chmod(0o700)
        env = {**mpi.environment(), "DLR_MPIRUN": mpirun,
               "DLR_MPIRUN_ARGS": "--host " + ",".join(f"{a[0]}:1" for a in ADDRESSES.values()),
               "OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self",
               "OMPI_MCA_oob_tcp_if_include": "10.201.0.0/16", "OMPI_MCA_btl_tcp_if_include": "10.201.0.0/16"}

        def run(name, *args, started=lambda p: None, **more):
            return run_timed(["ip", "netns", "exec", HERE, "unshare", "--uts", "sh", "-c", 'hostname here; exec "$@"',
                              "_",
                              str(pathlib.Path(build) / "cli/dlrun"), "-n", "2", *MODEL, f"--comm_timeout={TIMEOUT}",
                              f"--expdir={folder}/{name}", *args], {**env, **more}, started)

        status, lines = run("whole", "--comm_timeout=600")
        check(status == 0, f"a network that carries: {status} {lines[-3:]}")
        for phase in phases or ("init", "forward", "all_reduce", "checkpoint", "shutdown"):
            gate, cut = Gate(phase, 0, folder), []
            carry(True)
            begin = time.monotonic()

            def cut_off(p):
                if gate.wait(p):
                    carry(False)
                cut.append(time.monotonic() - begin)
                gate.open()

            status, lines = run(phase, started=cut_off, PHASE=phase, PHASE_RANK="1", LD_PRELOAD=shim(build),
                                ENABLE_PROFILING="1", **gate.of_rank)
            gate.close()
            cut = cut[0]
            named, text = named_at(lines, 1), "".join(line for _, line in lines)
            check(status == 8, f"{phase}: exit {status}: {text[-900:]}")
            check(named is not None and cut < named < cut + TIMEOUT + 5,
                  f"{phase}: cut at {cut:.1f} s, named at {named}: {text[-900:]}")
            check(lines[-1][0] < cut + TIMEOUT + 8, f"{phase}: it ends {lines[-1][0] - cut:.1f} s after the cut")
            # what rank 1 says cannot be heard here; what it writes can be read
            if phase in ("forward", "all_reduce", "checkpoint"):
                flights = sorted(p.name for p in pathlib.Path(folder, phase).rglob("flight-*.txt"))
                check(flights == ["flight-0.txt", "flight-1.txt"], f"{phase}: {flights}")
            for _ in range(50):
                if not left(f"{folder}/{phase}"):
                    break
                time.sleep(0.1)
            check(not left(f"{folder}/{phase}"), f"{phase}: processes {left(f'{folder}/{phase}')} are left")
        carry(True)
        status, lines = run("checkpoint", "--resume")
        check(status == 0, f"the run goes on when the network does: {status} {lines[-3:]}")
    finally:
        for name in (HERE, THERE, ROUTER):
            subprocess.run(["ip", "netns", "del", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
