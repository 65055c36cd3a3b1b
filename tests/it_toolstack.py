#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
What the xapi toolstack runs, in its order, and how it reads the answers.

The table: each command line that a storage manager may send, the exit status
and the output it counts on.  The sequences: plug, unplug, refresh, snapshot,
coalesce, failures.  Three programs parse "list", and all three are here; every
listing goes through each of them.  Raw images stand for VHDs.

Not here yet, because the tapdisk refuses it with EOPNOTSUPP: the NBD sockets,
mirrors (open and unpause -2) and changed-block tracking (-C and -c).

Of the field's failures: T06, T11, T12, T14, T17, T19.
"""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

from host import BIN, host
from tapdisk import run, until

TAP_CTL = os.path.join(BIN, "tap-ctl")
ENOENT, EAGAIN, ENODEV, EINVAL, ENOTSUP, EALREADY = 2, 11, 19, 22, 95, 114
EMEDIUMTYPE = 124

# ----------------------------------------------------- who reads a listing


def storage_manager(text):
    """SM: at most three splits at spaces, a field has one equals sign."""
    rows = []
    for line in text.splitlines():
        row = {}
        for field in line.rstrip().split(" ", 3):
            words = field.split("=")
            if len(words) != 2:
                continue
            key, value = words
            if key in ("pid", "minor"):
                row[key] = int(value)
            elif key == "state":
                row[key] = int(value, 16)
            elif key == "args":
                type_, path = value.split(":", 1)
                assert type_ in ("aio", "vhd"), "an unknown type breaks SM: " + line
                row[key] = (type_, path)
        rows.append(row)
    return rows


def iostat(text):
    """rrdp-iostat: scanf "pid=%d minor=%d state=%s args=%s@:%s"."""
    pattern = re.compile(r"pid=(\d+) minor=(\d+) state=(\S*) args=([^:\s]*):(\S*)")
    rows = [pattern.match(line) for line in text.splitlines()]
    return [(int(m[1]), int(m[2]), m[4], m[5]) for m in rows if m]


def xapi(text):
    """tapctl: three words, then what follows args= up to the first colon."""
    rows = []
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) < 4:
            continue
        m = re.fullmatch(r"pid=(\d+) minor=(\d+) state=(\S+)", " ".join(words[:3]))
        assert m, line
        type_, _, path = line.partition("args=")[2].partition(":")
        paused = m[3] == "0x2a"  # the very string
        rows.append((int(m[1]), int(m[2]), paused, type_, path))
    return rows


# ------------------------------------------------------------------ a host


class Toolstack:
    def __init__(self, h):
        self.h = h
        self.dirs = h.dirs
        os.rmdir(os.path.join(h.dirs.run, "tapdisk"))  # nobody made it yet

    def __call__(self, *args):
        return subprocess.run(
            [TAP_CTL, *map(str, args)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env=self.h.env,
        )

    def must(self, *args, status=0, out=""):
        got = self(*args)
        assert got.returncode == status, (args, status, got)
        assert re.fullmatch(out, got.stdout), (args, out, got)
        if status == 0:
            assert got.stderr == "", got
        else:
            words = os.strerror(status)
            if args[0] not in ("attach", "detach"):  # the real reason there
                assert got.stderr.rstrip().endswith(words), (args, got)
        return got.stdout

    def list(self, *args):
        """As the storage manager sees it; the others see the same."""
        text = self.must("list", *args, out=r"(?s).*")
        rows = storage_manager(text)
        whole = [r for r in rows if len(r) == 4]
        assert iostat(text) == [(r["pid"], r["minor"], *r["args"]) for r in whole]
        assert xapi(text) == [
            (r["pid"], r["minor"], r["state"] == 0x2A, *r["args"]) for r in whole
        ]
        return rows

    def spawn(self):
        pid = int(self.must("spawn", out=r"\d+\n"))
        self.h.pids.add(pid)
        return pid

    def allocate(self):
        where = re.escape(os.path.join(self.dirs.run, "tapdisk"))
        text = self.must("allocate", out=where + r"/tapdisk-\d+\n")
        assert os.path.exists(text.strip())
        return int(text.rpartition("-")[2])

    def plug(self, path, *options):
        """VDI.activate: which pid and minor it has."""
        assert self.list("-f", path) == []
        minor = self.allocate()
        assert self.list("-f", path) == []
        pid = self.spawn()
        name = ("-p", pid, "-m", minor)
        self.must("attach", *name)
        self.must("open", *name, "-a", "aio:" + path, *options)
        row = {"pid": pid, "minor": minor, "state": 0, "args": ("aio", path)}
        assert self.list("-m", minor) == [row]
        return name

    def unplug(self, name):
        """VDI.deactivate, up to a host with nothing left of it."""
        pid, minor = name[1], name[3]
        assert len(self.list("-m", minor)) == 1
        self.must("close", *name, "-t", 120)
        self.must("detach", *name)
        self.must("free", "-m", minor)
        until(lambda: not os.path.exists("/proc/%d" % pid), "it lives on")
        self.h.pids.discard(pid)
        assert self.list("-m", minor) == []

    def state(self, name):
        (row,) = self.list("-m", name[3], "-p", name[1])
        return row["state"], row.get("args")


@contextlib.contextmanager
def toolstack():
    with host() as h:
        yield Toolstack(h)


# --------------------------------------------------------------- the table


def every_row_of_the_table_answers_as_the_toolstack_expects():
    with toolstack() as t:
        f, g = t.dirs.image("f.img"), t.dirs.image("g.img")
        t.must(out=r"usage: tap-ctl(?s:.*)")  # 1
        t.must("list")  # 2
        t.must("free", "-m", 77, status=ENOENT)  # 3
        t.must("attach", "-p", 99999, "-m", 0, status=ENOENT)  # 4
        assert t.allocate() == 0  # 5
        assert t.allocate() == 1  # 6
        t.must("free", "-m", 1)
        assert t.allocate() == 1
        t.must("free", "-m", 1)
        t.must("list", out="minor=0\n")  # 7
        pid = t.spawn()  # 8
        with open("/proc/%d/cmdline" % pid) as cmdline:
            assert cmdline.read().rstrip("\0") == "tapdisk"
        assert os.path.exists(os.path.join(t.dirs.run, "ctl%d" % pid))
        t.must("list", out="pid=%d\nminor=0\n" % pid)  # 9
        name = ("-p", pid, "-m", 0)
        t.must("attach", *name)  # 10
        t.must("free", "-m", 0, status=EAGAIN)
        t.must("list", out="pid=%d minor=0 state=0\n" % pid)
        t.must("open", *name, "-a", "aio:/none", status=ENOENT)  # 11
        for options in (), ("-R",), ("-D",), ("-t", 60), ("-R", "-t", 5, "-D"):  # 12
            t.must("open", *name, "-a", "aio:" + f, *options)
            t.must("open", *name, "-a", "aio:" + f, status=EALREADY)
            t.must("close", *name)
        t.must("open", *name, "-a", "aio:" + f)
        row = "pid=%d minor=0 state=0 args=aio:%s\n" % (pid, re.escape(f))
        for args in (), ("-m", 0), ("-f", f), ("-m", 0, "-p", pid), ("-t", "aio"):  # 13
            t.must("list", *args, out=row)
        for args in ("-f", "/other"), ("-t", "vhd"), ("-m", 5):  # 14
            t.must("list", *args)
        stats_are_what_their_readers_need(t, name, "aio:" + f)  # 15
        t.must("pause", *name)  # 16
        paused = row.replace("state=0", "state=0x2a")
        t.must("list", "-m", 0, out=paused)
        since = time.monotonic()
        t.must("unpause", *name, "-a", "aio:/none", status=ENOENT)  # 17
        assert time.monotonic() - since < 30
        t.must("list", out=row.replace("state=0", "state=0x22a"))
        t.must("unpause", *name, "-a", "aio:" + g)  # 18
        t.must("list", out=row.replace("f\\.img", "g\\.img"))
        for command in "pause", "unpause", "close":  # 19
            t.must(command, "-p", pid, "-m", 99, status=ENODEV)
        t.must("close", *name, "-t", 120)  # 20
        t.must("list", out="pid=%d minor=0 state=0x2\n" % pid)
        t.must("detach", *name)  # 21
        until(lambda: not os.path.exists("/proc/%d" % pid), "it lives", 10)
        t.h.pids.discard(pid)
        # the log is kept, as some opens failed
        assert os.listdir(t.dirs.run) == ["tapdisk"] and not os.listdir(t.dirs.shm)
        t.must("free", "-m", 0)  # 22
        t.must("list")
        for command in "attach detach open close pause unpause stats free".split():
            got = t(command)  # 23
            assert got.returncode == EINVAL and got.stdout == "", got
            assert "usage: " in got.stderr, got


def stats_are_what_their_readers_need(t, name, spec):
    text = t.must("stats", *name, out=r"(?s).*")
    line, rest = text.split("\n", 1)
    assert rest == "\n", rest
    stats = json.loads(line)
    assert stats["name"] == spec and stats["secs"] == [0, 0], stats
    image = stats["images"][-1]
    assert image["driver"]["type"] == 0 and image["driver"]["name"] == "aio"
    assert image["hits"] == [0, 0] and image["fail"] == [0, 0]
    assert image["name"] == spec.partition(":")[2]
    for key in "nbd_mirror_failed", "reqs_outstanding", "FIXME_enospc_redirect_count":
        assert stats[key] == 0, key
    assert stats["read_caching"] == "false"
    assert stats["tapdisk"]["latency"]["total"]["count"] == 0
    assert stats["tapdisk"]["polling"]["mode"] == "event"


def the_corner_cases_keep_their_exit_status():
    """T09: no name is cut; T16: errors are on stderr and nowhere else."""
    with toolstack() as t:
        f = t.dirs.image("f.img")
        name = t.plug(f)
        pid = name[1]
        other = ("-p", pid, "-m", 700)
        table = [
            (0, "frobnicate"),
            (EINVAL, "list", "-Z"),
            (EINVAL, "attach", *other),
            (EINVAL, "open", *other, "-a", "aio:" + f),
            (EINVAL, "attach", *name),
            (EINVAL, "detach", *name),
            (EINVAL, "detach", *other),
            (ENODEV, "stats", *other),
            (EINVAL, "unpause", *name),
            (EALREADY, "open", *name, "-a", "aio:" + f),
            (36, "open", *name, "-a", "aio:/" + 300 * "x"),
        ]
        for status, *args in table:
            got = t(*args)
            assert got.returncode == status, (args, status, got)
            assert status == 0 or got.stdout == "", got
        for _ in range(2):
            t.must("pause", *name)
        t.must("pause", *name, "-t", 5)
        t.must("unpause", *name)
        for _ in range(2):
            t.must("close", *name)
        for status, spec in (ENOENT, "none:/x"), (EINVAL, f), (ENOENT, "aio:/none"):
            t.must("open", *name, "-a", spec, status=status)
        t.must("open", *name, "-a", "aio:" + f)
        t.unplug(name)


def what_is_not_there_yet_says_so():
    with toolstack() as t:
        f = t.dirs.image("f.img")
        pid, minor = t.spawn(), t.allocate()
        name = ("-p", pid, "-m", minor)
        t.must("attach", *name)
        log = t.dirs.image("log")
        for options in ("-C", log), ("-2", "aio:" + f), ("-r",), ("-e", 3):
            t.must("open", *name, "-a", "aio:" + f, *options, status=ENOTSUP)
        t.must("open", *name, "-a", "aio:" + f)
        t.must("pause", *name)
        for options in ("-c", log), ("-2", "nbd:x"):
            t.must("unpause", *name, *options, status=ENOTSUP)
        t.must("unpause", *name, "-2", "null")  # ends a mirror: there is none
        t.unplug(name)


# ----------------------------------------------------------- the sequences


def plug_and_unplug_leave_nothing():
    with toolstack() as t:
        f = t.dirs.image("f.img")
        for options in (), ("-R",), ("-D", "-t", 60):
            t.unplug(t.plug(f, *options))
            assert t.dirs.left() == [], t.dirs.left()


def a_failed_open_is_undone_by_detach_term_and_free():
    with toolstack() as t:
        minor, pid = t.allocate(), t.spawn()
        name = ("-p", pid, "-m", minor)
        t.must("attach", *name)
        t.must("open", *name, "-a", "aio:/none", status=ENOENT)
        t.must("detach", *name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        until(lambda: not os.path.exists("/proc/%d" % pid), "it lives on")
        t.h.pids.discard(pid)
        t.must("free", "-m", minor)
        t.must("list")
        t.unplug(t.plug(t.dirs.image("f.img")))


def a_refresh_opens_the_same_path_or_the_one_it_moved_to():
    with toolstack() as t:
        f = t.dirs.image("f.img")
        name = t.plug(f)
        for path in f, os.path.join(t.dirs.td, "moved.img"):
            t.must("pause", *name)
            assert t.state(name) == (0x2A, ("aio", f))
            with contextlib.suppress(FileNotFoundError):
                os.rename(f, path)
            t.must("unpause", *name, "-a", "aio:" + path)
            assert t.state(name) == (0, ("aio", path))
        t.unplug(name)


def a_resize_is_a_refresh_and_a_smaller_image_is_refused():
    with toolstack() as t:
        f = t.dirs.image("f.img", 8)
        name = t.plug(f)
        t.must("pause", *name)
        os.truncate(f, 16 << 20)
        t.must("unpause", *name, "-a", "aio:" + f)
        t.must("pause", *name)
        os.truncate(f, 8 << 20)
        t.must("unpause", *name, "-a", "aio:" + f, status=EMEDIUMTYPE)
        assert t.state(name) == (0x22A, ("aio", f))
        os.truncate(f, 16 << 20)
        t.must("unpause", *name)
        t.unplug(name)


def a_snapshot_puts_another_image_under_the_same_path():
    with toolstack() as t:
        f = t.dirs.image("leaf")
        name = t.plug(f)
        t.must("pause", *name)
        # the image is closed: it may be renamed and the path used again
        assert not any(
            os.readlink("/proc/%d/fd/%s" % (name[1], fd)).startswith(t.dirs.td)
            for fd in os.listdir("/proc/%d/fd" % name[1])
        )
        os.rename(f, f + ".parent")
        t.dirs.image("leaf")
        t.must("unpause", *name, "-a", "aio:" + f)
        assert t.state(name) == (0, ("aio", f))
        t.unplug(name)


def a_failed_snapshot_is_taken_back_by_unpause():
    with toolstack() as t:
        f = t.dirs.image("f.img")
        name = t.plug(f)
        t.must("pause", *name)
        t.must("unpause", *name, "-a", "aio:/none", status=ENOENT)
        t.must("unpause", *name, "-a", "none:/x", status=ENOENT)
        t.must("unpause", *name)
        assert t.state(name) == (0, ("aio", f))
        t.unplug(name)


def a_leaf_is_coalesced_under_a_paused_disk():
    with toolstack() as t:
        f = t.dirs.image("leaf")
        parent = t.dirs.image("parent")
        name = t.plug(f)
        t.must("pause", *name)
        os.unlink(f)
        t.must("unpause", *name, "-a", "aio:" + parent)
        assert t.list("-f", f) == [] and len(t.list("-f", parent)) == 1
        t.unplug(name)


def after_a_kill_the_minor_is_free_again():
    with toolstack() as t:
        f = t.dirs.image("f.img")
        name = t.plug(f)
        os.kill(name[1], signal.SIGKILL)
        until(lambda: not os.path.exists("/proc/%d" % name[1]), "not dead")
        t.h.pids.discard(name[1])
        t.must("list", out="minor=0\n")
        t.must("free", "-m", 0)
        t.unplug(t.plug(f))


def a_listing_survives_what_paths_may_hold():
    with toolstack() as t:
        name = t.plug(t.dirs.image("a.img"))
        spaces = os.path.join(t.dirs.td, "a b:c.img")
        os.rename(os.path.join(t.dirs.td, "a.img"), spaces)
        t.must("pause", *name)
        t.must("unpause", *name, "-a", "aio:" + spaces)
        text = t.must("list", out=r"(?s).*")
        assert storage_manager(text)[0]["args"] == ("aio", spaces)
        assert xapi(text)[0][3:] == ("aio", spaces)
        t.must("close", *name)
        t.unplug(name)


def the_other_dialect_is_a_switch_in_the_environment():
    with toolstack() as t:
        f = t.dirs.image("f.img")
        t.must("major", out=r"usage: (?s:.*)")
        t.h.env["TAP_CTL_DIALECT"] = "xcp-ng"
        t.must("allocate", out="/dev/xen/blktap-2/tapdev0\n")
        t.must("check", out="ok\n")
        with open("/proc/devices") as devices:
            module = re.search(r"^ *(\d+) tapdev$", devices.read(), re.M)
        if module:
            t.must("major", out=module[1] + "\n")
        else:
            t.must("major", status=ENODEV)
        for args in (
            ("commit", "-p", 1, "-m", 0, "-a", "qcow2:/x"),
            ("query", "-p", 1, "-m", 0),
            ("cancel", "-p", 1, "-m", 0, "-w"),
        ):
            t.must(*args, status=ENOTSUP)
        text = t.must("create", "-a", "aio:" + f, out="/dev/xen/.*\n")
        minor = re.fullmatch(r"/dev/xen/blktap-2/(blktap|tapdev)(\d+)", text.rstrip())
        (row,) = t.list("-m", minor[2])
        t.h.pids.add(row["pid"])
        t.must("free", "-m", 0)
        t.must("destroy", "-p", row["pid"], "-m", minor[2])
        t.h.pids.discard(row["pid"])


def a_stopped_tapdisk_is_marked_and_holds_nobody_up():
    """T02, T03; and a killed one is not shown at all."""
    with toolstack() as t:
        names = [t.plug(t.dirs.image("%d.img" % i)) for i in range(4)]
        stopped, killed = names[1][1], names[2][1]
        os.kill(stopped, signal.SIGSTOP)
        os.kill(killed, signal.SIGKILL)
        until(lambda: not os.path.exists("/proc/%d" % killed), "not dead")
        took, shown = [], []
        for _ in range(3):
            since = time.monotonic()
            got = t("list")
            took.append(time.monotonic() - since)
            assert got.returncode == 0 and "stopped" in got.stderr, got
            shown = [r.get("pid") for r in storage_manager(got.stdout) if len(r) == 4]
            assert "pid=%d\n" % stopped in got.stdout, got
            assert "pid=%d" % killed not in got.stdout, got
        assert sorted(shown) == sorted([names[0][1], names[3][1]]), shown
        assert min(took) < 1, took
        since = time.monotonic()
        t.must("close", *names[1], "-t", 1, status=110)
        assert 0.9 < time.monotonic() - since < 10
        os.kill(stopped, signal.SIGCONT)
        until(lambda: t.state(names[1])[0] == 2, "the close was lost")


def twenty_at_once_on_a_fresh_host_get_minors_of_their_own():
    """T05: 20 at once on a fresh host, all with a minor of their own."""
    with toolstack() as t:
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            pids = list(pool.map(lambda _: t.spawn(), range(20)))
            minors = list(pool.map(lambda _: t.allocate(), range(20)))
        assert len(set(pids)) == 20 and sorted(minors) == list(range(20))
        assert sorted(r["pid"] for r in t.list() if "pid" in r) == sorted(pids)


if __name__ == "__main__":
    sys.exit(run([
        every_row_of_the_table_answers_as_the_toolstack_expects,
        the_corner_cases_keep_their_exit_status,
        what_is_not_there_yet_says_so,
        plug_and_unplug_leave_nothing,
        a_failed_open_is_undone_by_detach_term_and_free,
        a_refresh_opens_the_same_path_or_the_one_it_moved_to,
        a_resize_is_a_refresh_and_a_smaller_image_is_refused,
        a_snapshot_puts_another_image_under_the_same_path,
        a_failed_snapshot_is_taken_back_by_unpause,
        a_leaf_is_coalesced_under_a_paused_disk,
        after_a_kill_the_minor_is_free_again,
        a_listing_survives_what_paths_may_hold,
        the_other_dialect_is_a_switch_in_the_environment,
        a_stopped_tapdisk_is_marked_and_holds_nobody_up,
        twenty_at_once_on_a_fresh_host_get_minors_of_their_own,
    ]))  # fmt: skip
