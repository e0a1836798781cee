"""A Ray cluster of two nodes and a Slurm cluster of two, on loopback addresses of this machine, for tests."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.project_files import ROOT
from tests.sweep_helpers import wait_for

# 127.0.0.1 stands for the machine's own address in Ray; the others of that net do not.
_RAY_NODES = """
import sys
from ray.cluster_utils import Cluster

node = dict(num_cpus=1, num_gpus=1, memory=2_000_000_000, object_store_memory=80_000_000, include_dashboard=False)
head = dict(node, node_ip_address="127.0.0.2", temp_dir=sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args=head)
second = cluster.add_node(**dict(node, node_ip_address="127.0.0.3", temp_dir=sys.argv[1]))
print(cluster.address, flush=True)
for line in sys.stdin:
    if line == "lose\\n":
        cluster.remove_node(second, allow_graceful=False)
    else:
        second = cluster.add_node(**dict(node, node_ip_address="127.0.0.3", temp_dir=sys.argv[1]))
    print("done", flush=True)
cluster.shutdown()
"""


@dataclass
class RayNodes:
    """One core, one graphics card in name and 2 GB each."""

    name = "ray"
    running_at_once = 2

    address: str
    process: subprocess.Popen[str]

    @property
    def options(self) -> dict[str, str]:
        return {"address": self.address}

    def lose_a_node(self) -> None:
        self._tell("lose")

    def add_a_node(self) -> None:
        self._tell("add")

    def _tell(self, word: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(word, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"


@contextlib.contextmanager
def ray_nodes() -> Iterator[RayNodes]:
    pytest.importorskip("ray", reason="pip install '.[ray]'")
    # Ray's sockets lie in it, and their paths may have 107 characters.
    folder = tempfile.mkdtemp(prefix="auditkit-ray-", dir="/tmp")
    # `Cluster` writes the head's address below RAY_TMPDIR/ray, which no `temp_dir` moves and nobody creates: without
    # this, below /tmp/ray, which only machines have that ran Ray before.
    Path(folder, "ray").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
    with open(f"{folder}/nodes.log", "wb") as words:
        process = subprocess.Popen(
            [sys.executable, "-c", _RAY_NODES, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            env=environment,
        )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, Path(folder, "nodes.log").read_text()
        yield RayNodes(address, process)
    finally:
        with process:
            process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


_SLURM = """
ClusterName=auditkit
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n/slurmd.pid
SlurmdLogFile={folder}/%n/slurmd.log
SlurmdSpoolDir={folder}/%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill,UsePss
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
KillWait=2
MaxArraySize=101
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=2000 Gres=gpu:1
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=2000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2
"""


@dataclass
class SlurmNodes:
    """Two cores and 2,000 MB each, one graphics card in name on the first."""

    name = "slurm"
    running_at_once = 4

    folder: Path
    commands: dict[str, list[str]]
    daemons: dict[str, subprocess.Popen[bytes]]

    @property
    def options(self) -> dict[str, str]:
        return {"poll_s": "0.5"}

    def start(self, name: str) -> None:
        with open(self.folder / f"{name}.out", "wb") as words:
            # A session of its own: Ctrl-C on the tests does not end it before what hangs on it.
            self.daemons[name] = subprocess.Popen(
                self.commands[name], stdout=words, stderr=words, start_new_session=True
            )

    def is_ready(self) -> bool:
        found = subprocess.run(["sinfo", "-hN", "-o", "%T"], capture_output=True, text=True, check=False)
        return found.stdout.split() == ["idle"] * 4

    def call(self, *command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def states(self, name: str) -> list[str]:
        """`JOB STATE NODE` of each job in the queue."""
        return self.call("squeue", "-h", "-a", "--array", f"--name={name}", "-o", "%i %T %N").splitlines()

    def lose_a_node(self) -> None:
        """Kill everything of the second node, as if somebody had pulled its plug, and have the controller know.

        It finds out by itself, too, after 26 s.
        """
        self.daemons["n2"].kill()
        for job in self.call("squeue", "-h", "--array", "--nodelist=n2", "-o", "%A").split():
            for step in processes_with(rf"slurmstepd: \[{job}\."):
                # Its children first: they become init's, which no longer tells whose they were. A step that stands
                # still cannot tell the controller of them.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(step, signal.SIGSTOP)
                for process in (*_children(step), step):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
        self.call("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=lost")

    def add_a_node(self) -> None:
        self.daemons["n2"].kill()
        self.daemons["n2"].wait()
        self.start("n2")
        self.call("scontrol", "update", "NodeName=n2", "State=RESUME")
        wait_for(self.is_ready)


def processes_with(words: str) -> list[int]:
    """Those whose command matches."""
    found = subprocess.run(["pgrep", "-f", words], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def _children(process: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False)
    children = [int(word) for word in found.stdout.split()]
    return [*children, *(one for child in children for one in _children(child))]


@contextlib.contextmanager
def slurm_nodes() -> Iterator[SlurmNodes]:
    daemons = ("munged", "slurmctld", "slurmd")
    paths = {name: shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "" for name in daemons}
    missing = [name for name, path in paths.items() if not path]
    if missing or os.getuid() != 0:
        pytest.skip(
            f"no {missing[0]}: apt install slurm-wlm munge" if missing else "Slurm's daemons are started by root"
        )
    pytest.importorskip("submitit", reason="pip install '.[slurm]'")
    # munge's socket lies in it, and its path may have 107 characters; others may not write above it.
    folder = Path(tempfile.mkdtemp(prefix="auditkit-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    for name in ("state", "n1", "n2"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    with contextlib.ExitStack() as sockets:
        bound = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [one.getsockname()[1] for one in bound]
    (folder / "slurm.conf").write_text(_SLURM.format(folder=folder, ports=ports))
    (folder / "gres.conf").write_text("NodeName=n1 Name=gpu File=/dev/zero\n")
    ends = {"socket": ".sock", "key-file": ".key", "log-file": "d.log", "pid-file": "d.pid", "seed-file": "d.seed"}
    munge = [f"--{name}={folder}/munge{end}" for name, end in ends.items()]
    commands = {
        "munged": [paths["munged"], "--foreground", "--force", *munge],
        "slurmctld": [paths["slurmctld"], "-D", "-c"],
        "n1": [paths["slurmd"], "-D", "-N", "n1"],
        "n2": [paths["slurmd"], "-D", "-N", "n2"],
    }
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    nodes = SlurmNodes(folder, commands, {})
    try:
        for name in commands:
            nodes.start(name)
            if name == "munged":
                wait_for((folder / "munge.sock").exists)
        try:
            wait_for(nodes.is_ready, 20)
        except AssertionError:
            words = "".join(path.read_text(errors="replace")[-300:] for path in folder.glob("*.out"))
            pytest.skip(f"Slurm does not run on this machine: {words[-300:]}")
        yield nodes
    finally:
        if "n1" in nodes.daemons:
            subprocess.run(["scancel", f"--user={os.getuid()}"], capture_output=True, check=False, timeout=30)
        for one in reversed(nodes.daemons.values()):
            one.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(10)
            one.kill()
            one.wait()
        os.environ.pop("SLURM_CONF")
        if before is not None:
            os.environ["SLURM_CONF"] = before
        shutil.rmtree(folder, ignore_errors=True)
