"""A whole Slurm on this machine for the tests, with accounting and GPUs that only claim to be some; needs root.

```
apt-get install slurm-wlm slurmdbd munge mariadb-server
python tests/marking/slurm_cluster.py start [--nodes 2]
python tests/marking/slurm_cluster.py stop
```

Every daemon listens on loopback and keeps its files under one directory. Nothing here needs systemd. Nodes beyond
the first are more `slurmd` of the same machine, each on a port of its own: they show how work spreads, and not how
fast real nodes are. It replaces /etc/slurm/*.conf, so it refuses where somebody else's configuration lies there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HOME = Path(os.environ.get("STEPPROF_SLURM_HOME", "/var/tmp/stepprof-slurm"))
ETC = Path("/etc/slurm")
MARK = "# A Slurm for tests: made by slurm_cluster.py, and made anew at each start.\n"
PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd")
GPUS = 2
"""Of each node. Any character device passes as one."""
DATABASE = "slurm_acct_db"

CONTROLLER = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd-%n.log
# Without cgroups, which a container seldom lets its root have.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStorageTRES=gres/gpu
# A test waits for a job: it is scheduled within seconds, and is not forgotten while the tests run.
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
KillWait=5
MinJobAge=3600
# The urgent partition takes nodes from the other: a job there is put back into the queue.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
PartitionName=grade Nodes=ALL Default=YES MaxTime=01:00:00 DefaultTime=00:05:00 PriorityTier=1 GraceTime=15
PartitionName=urgent Nodes=ALL MaxTime=01:00:00 PriorityTier=10 PreemptMode=OFF
"""

ACCOUNTING = """\
AuthType=auth/munge
DbdHost=localhost
DbdAddr=127.0.0.1
SlurmUser=slurm
LogFile={home}/slurmdbd.log
PidFile={home}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc={database}
"""


def node_names(nodes: int) -> list[str]:
    """The first node bears the machine's name, as a single one must."""
    host = socket.gethostname().partition(".")[0]
    return [host] if nodes == 1 else [f"{host}-{number}" for number in range(1, nodes + 1)]


def configure(nodes: int) -> None:
    """Write the configuration of all daemons."""
    host = socket.gethostname()
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    text = MARK + CONTROLLER.format(home=HOME, host=host)
    gres = MARK
    for number, name in enumerate(node_names(nodes)):
        text += (
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={6818 + 100 * number} CPUs={os.cpu_count()} "
            f"RealMemory={int(0.8 * memory_mb)} Gres=gpu:fake:{GPUS} State=UNKNOWN\n"
        )
        files = f"{HOME}/gpu[0-{GPUS - 1}]"
        # The flag has Slurm set CUDA_VISIBLE_DEVICES.
        gres += f"NodeName={name} Name=gpu Type=fake File={files} Flags=nvidia_gpu_env\n"
    ETC.mkdir(exist_ok=True)
    for name, content in (("slurm.conf", text), ("gres.conf", gres)):
        (ETC / name).write_text(content)
    accounting = ETC / "slurmdbd.conf"
    accounting.touch(mode=0o600)
    accounting.write_text(MARK + ACCOUNTING.format(home=HOME, database=DATABASE))
    accounting.chmod(0o600)  # slurmdbd refuses to read it otherwise
    shutil.chown(accounting, "slurm", "slurm")


def somebody_elses() -> Path | None:
    """A configuration that was not made here."""
    for name in ("slurm.conf", "gres.conf", "slurmdbd.conf"):
        path = ETC / name
        if path.exists() and not path.read_text().startswith(MARK):
            return path
    return None


def answers(*command: str) -> bool:
    """Whether a program ends well."""
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def wait_for(what: str, holds: Callable[[], bool], seconds: float = 40) -> None:
    """Ask again until it holds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise SystemExit(f"{what}: not there after {seconds:g} s; the logs are in {HOME}")
        time.sleep(0.3)


def as_user(user: str, *command: str | Path) -> None:
    """Run one command as a daemon's user, who may not be allowed to see this directory."""
    subprocess.run(["runuser", "-u", user, "--", *map(str, command)], check=True, cwd="/", timeout=60)


def own_directory(path: Path, user: str, mode: int = 0o755) -> None:
    """A directory that belongs to a daemon's user."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    shutil.chown(path, user, user)


def start_munge() -> None:
    """Who asks is who they say: Slurm's daemons rely on it."""
    own_directory(Path("/run/munge"), "munge")
    for path in ("/var/log/munge", "/var/lib/munge"):
        own_directory(Path(path), "munge", 0o700)
    if not answers("sh", "-c", "munge -n | unmunge"):
        as_user("munge", "munged", "--num-threads=2")


def start_database() -> None:
    """MariaDB on a socket alone, and the empty accounting database."""
    own_directory(Path("/run/mysqld"), "mysql")
    data = HOME / "mysql"
    own_directory(data, "mysql")
    if not (data / "mysql").exists():
        command = [
            "mariadb-install-db",
            "--user=mysql",
            f"--datadir={data}",
            "--auth-root-authentication-method=socket",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    if not answers("mariadb-admin", "ping"):
        command = ["mariadbd", "--user=mysql", f"--datadir={data}", "--skip-networking", f"--pid-file={data}/mysql.pid"]
        command += ["--socket=/run/mysqld/mysqld.sock", "--innodb-buffer-pool-size=64M"]
        with (HOME / "mysql.log").open("ab") as log:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/")
        wait_for("MariaDB", lambda: answers("mariadb-admin", "ping"))
    statements = (
        f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
        "CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket",
        f"GRANT ALL ON {DATABASE}.* TO slurm@localhost",
    )
    subprocess.run(["mariadb", "-e", "; ".join(statements)], check=True, timeout=60)


def start(nodes: int) -> None:
    """Everything, in the order in which each needs the one before."""
    own_directory(HOME, "slurm")
    own_directory(HOME / "state", "slurm")
    for number in range(GPUS):
        if not (path := HOME / f"gpu{number}").exists():
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    configure(nodes)
    start_munge()
    start_database()
    as_user("slurm", "slurmdbd")
    wait_for("slurmdbd", lambda: answers("sacctmgr", "-n", "show", "cluster"))
    answers("sacctmgr", "-i", "add", "cluster", "lab")  # it may be there from an earlier start
    as_user("slurm", "slurmctld")
    wait_for("slurmctld", lambda: answers("scontrol", "ping"))
    for name in node_names(nodes):
        subprocess.run(["slurmd", "-N", name] if nodes > 1 else ["slurmd"], check=True, timeout=60, cwd="/")
    wait_for("idle nodes", lambda: idle() == nodes)
    print(f"Slurm is up: {nodes} node{'s' * (nodes > 1)}, partitions grade and urgent, {GPUS} fake GPUs each")


def idle() -> int:
    """How many nodes could take a job."""
    shown = subprocess.run(["sinfo", "-hN", "-p", "grade", "-o", "%T"], capture_output=True, text=True, check=False)
    return shown.stdout.split().count("idle")


def stop() -> None:
    """End all daemons that were started here, whoever asks last first."""
    pids = [*sorted(HOME.glob("slurmd-*.pid")), HOME / "slurmctld.pid", HOME / "slurmdbd.pid"]
    for path in [*pids, HOME / "mysql/mysql.pid", Path("/run/munge/munged.pid")]:
        with contextlib.suppress(OSError, ValueError):
            pid = int(path.read_text())
            os.kill(pid, signal.SIGTERM)
            wait_for(path.stem, lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]
    print("Slurm is down")


def refused() -> str | None:
    """Why it cannot be started here."""
    if os.geteuid():
        return "the daemons need root"
    if missing := [name for name in PROGRAMS if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]:
        return f"not installed: {', '.join(missing)} (apt-get install slurm-wlm slurmdbd munge mariadb-server)"
    if unknown := [name for name in ("slurm", "munge", "mysql") if name not in {one.pw_name for one in pwd.getpwall()}]:
        return f"no user {', '.join(unknown)}"
    if other := somebody_elses():
        return f"{other} is somebody's own configuration, and is not replaced"
    return None


def main() -> None:
    """Start or stop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("start", "stop"))
    parser.add_argument("--nodes", type=int, default=1)
    asked = parser.parse_args()
    if why := refused():
        sys.exit(f"slurm_cluster.py: {why}")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if asked.what == "stop":
        stop()
    else:
        start(asked.nodes)


if __name__ == "__main__":
    main()
