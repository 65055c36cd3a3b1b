# SPDX-License-Identifier: BSD-3-Clause
"""
What the benchmarks of polling share: a host of their own, disks on tmpfs and on
a real disk, and samples of blkfront-bench and sqlite-bench.

Guests run on one CPU and tapdisks on another, where there are two: left to the
scheduler, both on one CPU or not decides more than any mode does.  Judges
nothing.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import tapdisk  # noqa: E402
from host import BIN, host  # noqa: E402

IMAGE_MIB = 64
TMPFS = "/dev/shm"
RUN_S = 0.55
BUSY = "while True: pass"


class Stand:
    """One host; the disks and whoever uses them."""

    def __init__(self, on, disk_dir, tmpfs_dir, quick):
        self.host = on
        self.disk_dir, self.tmpfs_dir = disk_dir, tmpfs_dir
        self.quick = quick
        self.nr_disks = 0
        cpus = sorted(os.sched_getaffinity(0))
        self.guest_cpu, self.tapdisk_cpu = cpus[0], cpus[-1]

    def own(self):
        """Whose CPU is that of the benchmark, live."""
        return self.host.pids

    def knows(self, option):
        """Whether tap-ctl polling has it."""
        return option in self.host.ctl("polling", "--help").split()

    def image(self, directory, mib):
        self.nr_disks += 1
        path = os.path.join(directory, "%d.img" % self.nr_disks)
        with open(path, "wb") as f:
            # written: what is only allocated costs more the first time
            for _ in range(mib):
                f.write(bytes(1 << 20))
            os.fsync(f.fileno())
        return path

    @contextlib.contextmanager
    def disk(self, where="tmpfs", pinned=True, mib=IMAGE_MIB):
        directory = self.tmpfs_dir if where == "tmpfs" else self.disk_dir
        path = self.image(directory, 8 if self.quick else mib)
        disk = self.host.create("aio:" + path)
        if pinned:
            # the data thread is yet to come, and inherits
            for task in disk.tasks():
                os.sched_setaffinity(task, {self.tapdisk_cpu})
        try:
            yield disk
        finally:
            disk.destroy()
            os.unlink(path)

    def run_s(self, seconds=RUN_S):
        return 0.03 if self.quick else seconds

    def guest(self, program, disk, *args):
        """A run of one of the benchmarks, its JSON."""
        # not host.bench: this is to be pinned
        done = self.host.run(
            "taskset", "-c", str(self.guest_cpu), os.path.join(BIN, program),
            "--json", *disk.name, *args, timeout=600,
        )
        return tapdisk.json.loads(done.stdout)

    def load(self, disk, *args, seconds=RUN_S):
        r = self.guest(
            "blkfront-bench", disk, "--runtime", str(self.run_s(seconds)), *args
        )
        assert not r["io_errors"], r
        return {
            "iops": r["iops"],
            "mean": r["lat_us"]["mean"],
            "p50": r["lat_us"]["p50"],
            "p99": r["lat_us"]["p99"],
            "cpu": r["tapdisk_cpu_us_per_io"] * r["iops"] / 1e6,
        }

    def sqlite(self, disk, transactions, *args):
        r = self.guest(
            "sqlite-bench", disk, "--transactions", str(transactions), *args
        )
        assert r["integrity"] == "ok", r
        return {"tps": r["tps"], "cpu": r["tapdisk_cpu_us_per_commit"]}

    def transactions(self, disk, modes, *args):
        """So many that also the fastest of @modes is busy for long enough."""
        if self.quick:
            return 5
        first = 100
        fastest = max(self.sqlite(disk, first, *m, *args)["tps"] for m in modes)
        return max(first, int(fastest * RUN_S * 1.2))

    @contextlib.contextmanager
    def busy_loop(self):
        """Somebody else who wants tapdisk's CPU."""
        hog = subprocess.Popen(
            ["taskset", "-c", str(self.tapdisk_cpu), sys.executable, "-c", BUSY],
            stdin=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            hog.kill()
            hog.wait()

    @contextlib.contextmanager
    def guests(self, disks, *args):
        """One on each, for as long as it takes."""
        running = []
        try:
            for disk in disks:
                running.append(
                    disk.bench_start("blkfront-bench", "--runtime", "3600", *args)
                )
            yield
        finally:
            for guest in running:
                guest.send_signal(signal.SIGINT)
            for guest in running:
                guest.communicate(timeout=60)

    def counters(self, disk):
        """What tap-ctl polling --json prints, without a process each time."""
        path = os.path.join(self.host.dirs.run, "ctl%d" % disk.pid)
        minor = int(disk.name[-1])
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(tapdisk.PATIENCE_S)
            s.connect(path)
            s.sendall(tapdisk.ours(tapdisk.POLLING, {}, minor))
            reply = tapdisk.receive_all(s)
        assert not tapdisk.errno_of(reply), reply[:64]
        return tapdisk.json_of(reply)


def wish(mode, align="off"):
    """Options of the benchmarks: event, fixed:8ms, adaptive:8ms."""
    return ["--polling", mode, "--align", align]


def wait_quiet(limit, seconds):
    """Until the load is below @limit; whether that came within @seconds."""
    end = time.monotonic() + seconds
    while os.getloadavg()[0] >= limit:
        if time.monotonic() >= end:
            return False
        time.sleep(5)
    return True


def filesystem(path):
    done = subprocess.run(
        ["findmnt", "-n", "-o", "FSTYPE", "-T", path],
        stdout=subprocess.PIPE, text=True, check=True,
    )
    return done.stdout.strip()


def facts():
    """The machine, in a line."""
    model = "unknown CPU"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
    return "%d CPUs (%s), Linux %s, load %.2f, %s" % (
        os.cpu_count(), model, os.uname().release, os.getloadavg()[0],
        time.strftime("%Y-%m-%d %H:%M"),
    )


@contextlib.contextmanager
def stand(disk_dir, quick=False):
    """@disk_dir: on a file system that syncs to a disk."""
    # a test that is ended cleans up
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    slow = tempfile.mkdtemp(prefix="bench.", dir=disk_dir)
    fast = None
    try:
        fast = tempfile.mkdtemp(prefix="bench.", dir=TMPFS)
        with host() as h:
            yield Stand(h, slow, fast, quick)
    finally:
        for directory in slow, fast:
            if directory:
                shutil.rmtree(directory, ignore_errors=True)
