# SPDX-License-Identifier: BSD-3-Clause
"""
For tests of the whole: a host with directories of its own, disks that tap-ctl
creates on it, and guests played by the benchmarks.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

from tapdisk import BUILD, PATIENCE_S, Dirs, directories, until

BIN = os.path.join(BUILD, "bin")


class Disk:
    def __init__(self, host, pid, minor):
        self.host, self.pid, self.minor = host, pid, minor
        self.name = ["-p", str(pid), "-m", str(minor)]

    def ctl(self, command, *args, **options):
        return self.host.ctl(command, *self.name, *args, **options)

    def polling(self, *args):
        return json.loads(self.ctl("polling", "--json", *args))

    def bench(self, *args, **options):
        return self.host.bench("blkfront-bench", *self.name, *args, **options)

    def sqlite(self, *args, **options):
        return self.host.bench("sqlite-bench", *self.name, *args, **options)

    def bench_start(self, program, *args):
        return subprocess.Popen(
            [os.path.join(BIN, program), *self.name, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.host.env,
        )

    def tasks(self):
        return [int(t) for t in os.listdir("/proc/%d/task" % self.pid)]

    def data_thread(self):
        for tid in self.tasks():
            with open("/proc/%d/task/%d/comm" % (self.pid, tid)) as f:
                if f.read() == "tapdisk-ring\n":
                    return tid
        raise AssertionError("no ring is connected")

    def kill(self):
        """As the power would, or the out-of-memory killer."""
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: not os.path.exists("/proc/%d" % self.pid), "not dead")
        self.host.pids.discard(self.pid)

    def destroy(self):
        self.ctl("destroy")
        until(lambda: not os.path.exists("/proc/%d" % self.pid), "lives on")
        self.host.pids.discard(self.pid)


class Host:
    def __init__(self, dirs: Dirs):
        self.dirs = dirs
        self.env = dirs.environment()
        self.pids = set()

    def run(self, *argv, check=True, timeout=PATIENCE_S * 4):
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.env,
        )
        assert not check or done.returncode == 0, (
            argv,
            done.returncode,
            done.stdout,
            done.stderr,
        )
        return done

    def ctl(self, *args, **options):
        return self.run(os.path.join(BIN, "tap-ctl"), *args, **options).stdout

    def bench(self, program, *args, **options):
        done = self.run(os.path.join(BIN, program), "--json", *args, **options)
        return json.loads(done.stdout)

    def create(self, spec):
        path = self.ctl("create", "-a", spec).strip()
        minor = int(re.search(r"tapdisk-(\d+)$", path).group(1))
        row = self.ctl("list", "-m", str(minor)).split()
        pid = int(row[0].partition("=")[2])
        self.pids.add(pid)
        return Disk(self, pid, minor)


@contextlib.contextmanager
def host():
    with directories() as dirs:
        h = Host(dirs)
        try:
            yield h
        finally:
            for pid in h.pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def seconds(what):
    start = time.monotonic()
    what()
    return time.monotonic() - start
