#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a disk costs: asleep, awake, and in the host's limits."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from host import Disk, host
from tapdisk import run, until


def switches(disk):
    """Voluntary context switches of every thread."""
    total = 0
    for tid in disk.tasks():
        with open("/proc/%d/task/%d/status" % (disk.pid, tid)) as f:
            total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", f.read(), re.M)[1])
    return total


def strace(pid, out, *options):
    trace = subprocess.Popen(
        ["strace", "-o", out, "-p", str(pid), *options],
        stderr=subprocess.PIPE,
    )
    trace.stderr.readline()  # "attached"
    return trace


def kib(disk, *names):
    with open("/proc/%d/smaps_rollup" % disk.pid) as f:
        text = f.read()
    return sum(int(re.search(r"^%s:\s+(\d+)" % n, text, re.M)[1]) for n in names)


def an_idle_disk_wakes_nobody_and_gives_its_memory_back():
    with host() as h:
        disk = h.create("aio:" + h.dirs.image("a.img", 64))
        # it stays connected: a guest that goes to sleep
        load = disk.bench_start("blkfront-bench", "--qd", "32", "--runtime", "0.5",
                                "--linger", "20")  # fmt: skip
        until(lambda: disk.polling()["requests"] > 100, "no load")
        last = 0
        while disk.polling()["requests"] != last:
            last = disk.polling()["requests"]
            time.sleep(0.3)
        time.sleep(5)
        before = switches(disk)
        time.sleep(10)
        assert switches(disk) == before, "it woke %d times" % (switches(disk) - before)
        size = kib(disk, "Private_Dirty", "Swap")
        print("Private_Dirty + Swap, idle and connected: %d KiB" % size)
        if not os.environ.get("SAN"):
            assert size < 2048, size
        load.send_signal(signal.SIGTERM)
        load.communicate()
        disk.destroy()


def aio_events_are_reserved_sparingly():
    """16 at open, as many as the ring has slots, at most 128, at connect."""
    with host() as h, tempfile.NamedTemporaryFile("r") as calls:
        pid = int(h.ctl("spawn"))
        h.pids.add(pid)
        h.ctl("allocate")
        h.ctl("attach", "-p", str(pid), "-m", "0")
        disk = Disk(h, pid, 0)
        # not fs.aio-nr: what others on the machine reserve is in it too
        trace = strace(pid, calls.name, "-f", "-e", "trace=io_setup")
        disk.ctl("open", "-a", "aio:" + h.dirs.image("a.img", 8))
        for order in "0", "2", "4":
            disk.bench("--ring-order", order, "--runtime", "0.05")
        trace.send_signal(signal.SIGINT)
        trace.communicate()
        disk.destroy()
        reserved = [int(n) for n in re.findall(r"io_setup\((\d+)", calls.read())]
        assert reserved == [16, 32, 128, 128], reserved


def spinning_makes_no_system_call():
    with host() as h, tempfile.NamedTemporaryFile("r") as counts:
        disk = h.create("aio:" + h.dirs.image("a.img", 8))
        load = disk.bench_start("blkfront-bench", "--polling", "fixed:20000000",
                                "--align", "off", "--runtime", "0.2",
                                "--linger", "20")  # fmt: skip
        until(lambda: disk.polling()["requests"] > 0, "no load")
        time.sleep(1)
        spun = disk.polling()["spin_ns"]
        trace = strace(disk.data_thread(), counts.name, "-c")
        time.sleep(1)
        trace.send_signal(signal.SIGINT)
        trace.communicate()
        calls = [line for line in counts.read().splitlines()[2:-2] if line.strip()]
        load.send_signal(signal.SIGTERM)
        load.communicate()
        disk.destroy()
        # of this thread alone: main looks after the governor
        assert not calls, calls
        assert spun > 0


def spinning_needs_no_event_of_the_guest():
    with host() as h:
        disk = h.create("aio:" + h.dirs.image("a.img", 64))

        # whoever else wants the CPU ends spins: the best of several runs
        def kicks(*options):
            runs = [disk.bench("--runtime", "0.3", *options) for _ in range(5)]
            return [r["kicks_per_io"] for r in runs]

        spinning = min(kicks("--polling", "fixed:8000", "--wait", "spin"))
        asleep = max(kicks("--polling", "event", "--think", "300us"))
        print("kicks per I/O: fixed %.4f, event %.4f" % (spinning, asleep))
        assert spinning <= 0.1, spinning
        assert asleep > 0.5, asleep
        disk.destroy()


if __name__ == "__main__":
    # one after another: they count what the host has
    tests = [
        an_idle_disk_wakes_nobody_and_gives_its_memory_back,
        aio_events_are_reserved_sparingly,
        spinning_makes_no_system_call,
        spinning_needs_no_event_of_the_guest,
    ]
    sys.exit(run(tests, workers=1))
