#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
blkfront-bench and sqlite-bench as whole processes against a real tapdisk: what
they print, what they find, and that they leave nothing behind however they or
the tapdisk end.
"""

import contextlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build")), "bin")

# What must not take for ever but has no date.
PATIENCE_S = 60
MAGIC = 0x706D6174736B6C62  # tests/bench/stamps.h
KEYS = [
    "iops",
    "bytes_per_s",
    "lat_us",
    "think_us",
    "tapdisk_cpu_us_per_io",
    "kicks_per_io",
    "wakeups_per_io",
    "arms_per_io",
    "io_errors",
    "verify_errors",
]


class Host:
    """Directories of their own, and the tapdisks that were made in them."""

    def __init__(self, top):
        self.top = top
        self.pids = []
        self.env = dict(os.environ)
        for name in "run", "shm", "log", "tmp":
            path = os.path.join(top, name)
            os.mkdir(path)
            self.env["TAPDISK_%s_DIR" % name.upper()] = path
        self.tmp = os.path.join(top, "tmp")
        self.env["TMPDIR"] = self.tmp
        del self.env["TAPDISK_TMP_DIR"]

    def tap_ctl(self, *args):
        done = subprocess.run(
            [os.path.join(BIN, "tap-ctl")] + list(args),
            env=self.env,
            stdout=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=True,
        )
        return done.stdout.decode()

    def image(self, mib):
        path = os.path.join(self.top, "disk.img")
        with open(path, "wb") as f:
            f.truncate(mib << 20)
        return path

    def create(self, spec):
        """The options that name the new disk."""
        path = self.tap_ctl("create", "-a", spec).strip()
        minor = path.rsplit("-", 1)[1]
        for line in self.tap_ctl("list").splitlines():
            words = dict(w.split("=", 1) for w in line.split() if "=" in w)
            if words.get("minor") == minor and "pid" in words:
                self.pids.append(int(words["pid"]))
                return ["-p", words["pid"], "-m", minor]
        raise AssertionError("created, and not in the list")

    def start(self, program, disk, *args):
        return subprocess.Popen(
            [os.path.join(BIN, program)] + disk + list(args),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    def bench(self, program, disk, *args, status=0):
        """(stdout, stderr)"""
        process = self.start(program, disk, *args)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, (args, process.returncode, out, err)
        return out, err

    def load(self, disk, *args, status=0):
        out, _ = self.bench("blkfront-bench", disk, "--json", *args, status=status)
        assert out.count("\n") == 1 and out.endswith("\n"), out
        result = json.loads(out)
        assert list(result) == KEYS, result
        assert list(result["lat_us"]) == ["mean", "p50", "p99", "p999"], result
        return result

    def sqlite(self, disk, *args):
        out, err = self.bench("sqlite-bench", disk, "--json", *args)
        assert out.count("\n") == 1 and err == "", (out, err)
        return json.loads(out)

    def end(self):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert os.listdir(self.tmp) == [], os.listdir(self.tmp)


@contextlib.contextmanager
def host():
    top = tempfile.mkdtemp(prefix="bench.")
    h = Host(top)
    try:
        yield h
    finally:
        try:
            h.end()
        finally:
            shutil.rmtree(top, ignore_errors=True)


def stamps_of(path, nbytes):
    """The salts of a file that is stamped from start to end."""
    salts = set()
    with open(path, "rb") as f:
        for number in range(nbytes // 512):
            sector = f.read(512)
            words = struct.unpack_from("<4Q", sector)
            assert words[:2] == (MAGIC, number), (number, words)
            salts.add(words[3])
    return salts


# ------------------------------------------------------------------ load

RWS = ["randread", "randwrite", "read", "write", "randrw", "discard"]
SIZES = {"512": 512, "4k": 4096, "12k": 12288, "132k": 135168, "1m": 1 << 20}
DEPTHS = ["1", "3", "8", "32"]
ABIS = ["native", "x86_32", "x86_64"]
ORDERS = ["0", "1", "2", "3", "4"]


def combinations():
    """Every rw, size and depth with every order and with every ABI."""
    sizes = list(SIZES)
    for o, order in enumerate(ORDERS):
        for a, abi in enumerate(ABIS):
            for r, rw in enumerate(RWS):
                yield rw, sizes[(o + 2 * a + r) % 5], DEPTHS[(a + r) % 4], order, abi


def check_coverage():
    seen = list(combinations())
    for first, values in enumerate((RWS, SIZES, DEPTHS)):
        for value in values:
            ring = [c[3:] for c in seen if c[first] == value]
            assert {r[0] for r in ring} == set(ORDERS), (value, ring)
            assert {r[1] for r in ring} == set(ABIS), (value, ring)


def everything_read_is_what_was_written():
    check_coverage()
    with host() as h:
        image = h.image(4)
        disk = h.create("aio:" + image)
        for rw, size, depth, order, abi in combinations():
            words = "--rw %s --bs %s --qd %s --ring-order %s --abi %s" % (
                rw,
                size,
                depth,
                order,
                abi,
            )
            options = words.split() + ["--size", "2m", "--runtime", "50ms"]
            r = h.load(disk, "--verify", *options)
            assert r["io_errors"] == r["verify_errors"] == 0, (words, r)
            assert r["iops"] > 0, (words, r)
            if rw != "discard":
                # not every size goes into 2m: the rest is an earlier run's
                whole = (2 << 20) // SIZES[size] * SIZES[size]
                assert len(stamps_of(image, whole)) == 1, words


def a_changed_byte_is_found():
    with host() as h:
        image = h.image(4)
        disk = h.create("aio:" + image)
        process = h.start(
            "blkfront-bench", disk, "--verify", "--json", "--rw", "read"
        )
        time.sleep(1)  # it has filled 4 MiB and reads, for two seconds
        with open(image, "r+b") as f:
            f.seek((3 << 20) + 100)
            f.write(b"x")
            os.fsync(f.fileno())
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1, (out, err)
        assert json.loads(out)["verify_errors"] > 0, out
        assert "verify: sector 6144: " in err, err


def errors_of_the_disk_are_counted():
    with host() as h:
        disk = h.create("fault:op=read,every=10,err=EIO;ram:8m")
        r = h.load(disk, "--runtime", "0.2", status=1)
        assert r["io_errors"] > 0 and r["verify_errors"] == 0, r


def modes_do_what_they_say():
    with host() as h:
        disk = h.create("ram:8m")
        common = ["--runtime", "1", "--rw", "randwrite"]
        r = h.load(disk, "--rate", "500", *common)
        assert 450 <= r["iops"] <= 550, r
        r = h.load(disk, "--think", "10ms", *common)
        assert r["iops"] <= 101 and r["think_us"] >= 10000, r
        r = h.load(disk, "--burst", "8", "--think", "10ms", *common)
        assert 8 < r["iops"] <= 801 and r["think_us"] >= 10000, r
        r = h.load(disk, "--flush-every", "4", "--wait", "spin", *common)
        assert r["iops"] > 0 and r["io_errors"] == 0, r
        r = h.load(disk, "--polling", "fixed:1000000", *common)
        assert r["kicks_per_io"] < 0.1, r


def misuse_is_one_line_and_exit_2():
    both = ["-p", str(os.getpid()), "-m", "0"]
    cases = [
        ("blkfront-bench", []),
        ("blkfront-bench", both + ["--bs", "700"]),
        ("blkfront-bench", both + ["--bs", "3m"]),
        ("blkfront-bench", both + ["--rw", "trim"]),
        ("blkfront-bench", both + ["--rate", "5", "--think", "1ms"]),
        ("blkfront-bench", both + ["--ring-order", "5"]),
        ("blkfront-bench", both + ["more"]),
        ("sqlite-bench", []),
        ("sqlite-bench", both + ["--file", "x"]),
        ("sqlite-bench", both + ["--copies", "2"]),
        ("sqlite-bench", both + ["--journal", "off"]),
    ]
    with host() as h:
        for program, args in cases:
            out, err = h.bench(program, args, status=2)
            assert out == "" and err.count("\n") == 1, (args, out, err)
        for program in "blkfront-bench", "sqlite-bench":
            out, err = h.bench(program, ["--help"])
            assert "--polling" in out and err == "", (out, err)


def no_tapdisk_is_one_line_and_exit_1():
    with host() as h:
        for program in "blkfront-bench", "sqlite-bench":
            args = ["-p", str(os.getpid()), "-m", "0"]
            out, err = h.bench(program, args, status=1)
            assert out == "" and err.count("\n") == 1, (out, err)


# ------------------------------------------------------------------- ends


def a_signal_disconnects():
    with host() as h:
        disk = h.create("ram:16m")
        for program in "blkfront-bench", "sqlite-bench":
            for how in signal.SIGINT, signal.SIGTERM:
                options = ["--transactions", "10000000"]
                if program == "blkfront-bench":
                    options = ["--runtime", "600", "--qd", "8"]
                process = h.start(program, disk, *options)
                time.sleep(0.5)
                process.send_signal(how)
                out, err = process.communicate(timeout=PATIENCE_S)
                assert process.returncode == 1, (program, out, err)
                assert err == program + ": interrupted\n", err
                # the disk is free: a third ring would be refused
                h.load(disk, "--runtime", "50ms")


def a_killed_tapdisk_ends_the_load():
    with host() as h:
        for wait in "spin", "sleep":
            disk = h.create("ram:8m")
            process = h.start(
                "blkfront-bench", disk, "--runtime", "600", "--wait", wait
            )
            time.sleep(0.5)
            os.kill(int(disk[1]), signal.SIGKILL)
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 1, (out, err)
            assert err == "blkfront-bench: the tapdisk is gone\n", err


# ----------------------------------------------------------------- sqlite


def sqlite_is_whole_in_both_journals():
    with host() as h:
        disk = h.create("aio:" + h.image(32))
        for journal in "delete", "wal":
            for rows in "1", "50":
                r = h.sqlite(
                    disk, "--transactions", "20", "--rows", rows, "--journal", journal
                )
                assert list(r) == [
                    "tps",
                    "commit_us",
                    "tapdisk_cpu_us_per_commit",
                    "integrity",
                ], r
                assert r["integrity"] == "ok" and r["tps"] > 0, r
                assert r["tapdisk_cpu_us_per_commit"] > 0, r
                r = h.sqlite(disk, "--open-check")
                assert r == {"rows": 20 * int(rows), "integrity": "ok"}, r


def a_killed_tapdisk_loses_no_commit():
    with host() as h:
        image = h.image(32)
        for journal in "delete", "wal":
            acked = os.path.join(h.top, "acked-" + journal)
            disk = h.create("aio:" + image)
            process = h.start(
                "sqlite-bench",
                disk,
                "--transactions",
                "1000000",
                "--journal",
                journal,
                "--acked",
                acked,
            )
            end = time.monotonic() + PATIENCE_S
            while not os.path.exists(acked) or os.path.getsize(acked) < 60:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < end, "no commits"
                time.sleep(0.01)
            os.kill(int(disk[1]), signal.SIGKILL)
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 1 and out == "", (out, err)
            assert err == "sqlite-bench: the tapdisk is gone\n", err
            disk = h.create("aio:" + image)
            r = h.sqlite(disk, "--open-check", "--acked", acked)
            with open(acked) as f:
                assert r["rows"] >= len(f.readlines()), r
            # and the check is one: a row that was never written is missed
            with open(acked, "a") as f:
                f.write("999999\n")
            out, err = h.bench(
                "sqlite-bench",
                disk,
                "--open-check",
                "--acked",
                acked,
                status=1,
            )
            assert "row 999999 " in err, err


def on_files_it_leaves_none_and_harms_none():
    with host() as h:
        path = os.path.join(h.tmp, "t.db")
        file = ["--file", path]
        for options in (
            [],
            ["--copies", "3"],
            ["--journal", "wal"],
        ):
            r = h.sqlite(file, "--transactions", "10", *options)
            assert r["integrity"] == "ok", r
            assert r["tapdisk_cpu_us_per_commit"] is None, r
            assert os.listdir(h.tmp) == [], os.listdir(h.tmp)
        with open(path, "w") as f:
            f.write("precious")
        out, err = h.bench("sqlite-bench", file, status=1)
        assert out == "" and "already" in err, (out, err)
        with open(path) as f:
            assert f.read() == "precious"
        os.unlink(path)


TESTS = [
    everything_read_is_what_was_written,
    a_changed_byte_is_found,
    errors_of_the_disk_are_counted,
    modes_do_what_they_say,
    misuse_is_one_line_and_exit_2,
    no_tapdisk_is_one_line_and_exit_1,
    a_signal_disconnects,
    a_killed_tapdisk_ends_the_load,
    sqlite_is_whole_in_both_journals,
    a_killed_tapdisk_loses_no_commit,
    on_files_it_leaves_none_and_harms_none,
]


def main():
    # A killed test must not leave a tapdisk: run the clean-ups.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wanted = sys.argv[1:]
    passed = failed = 0
    for test in TESTS:
        if wanted and test.__name__ not in wanted:
            continue
        begin = time.monotonic()
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print("FAILED %s" % test.__name__)
            traceback.print_exc(file=sys.stdout)
        print("%5.1f s  %s" % (time.monotonic() - begin, test.__name__))
        sys.stdout.flush()
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
