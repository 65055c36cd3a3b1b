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
    with host() as h:
        disk = h.create("aio:" + h.dirs.image("a.img", 8))
        for _ in range(5):
            lost = disk.polling()["lost"]
            if a_clean_gap(disk):
                break
            # whoever else wants the CPU ends a spin, and nothing else does
            assert disk.polling()["lost"] > lost, "a call without a cause"
        disk.destroy()


def a_clean_gap(disk):
    """Nearly a second between two requests, spun and without a call."""
    with tempfile.NamedTemporaryFile("r") as calls:
        load = disk.bench_start("blkfront-bench", "--polling", "fixed:20000000",
                                "--align", "off", "--rate", "1", "--runtime",
                                "5")  # fmt: skip
        requests = disk.polling()["requests"]
        until(lambda: disk.polling()["requests"] > requests, "no load")
        # of this thread alone: main looks after the governor
        trace = strace(disk.data_thread(), calls.name, "-ttt")
        before = disk.polling()["spin_ns"]
        time.sleep(3.5)
        spun = disk.polling()["spin_ns"] - before
        trace.send_signal(signal.SIGINT)
        trace.communicate()
        load.send_signal(signal.SIGTERM)
        load.communicate()
        made = re.findall(r"^(?:\d+ +)?(\d+\.\d+) (\w+)\(", calls.read(), re.M)
        gaps = [
            float(after) - float(when)
            for (when, call), (after, _) in zip(made, made[1:])
            if "wait" not in call and "getevents" not in call
        ]
        print("under strace: %d calls, %.2f s spun, gaps without a call up to %.2f s"
              % (len(made), spun / 1e9, max(gaps, default=0)))  # fmt: skip
        # the counter moves when a part of a spin ends
        return max(gaps, default=0) > 0.9 and spun > 0.9e9


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
