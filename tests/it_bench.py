#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
blkfront-bench and sqlite-bench as whole processes: what they print, what they
find, and that they leave nothing behind however they end.
"""

import json
import os
import signal
import sys
import time

from host import BIN, host
from tapdisk import PATIENCE_S, run

BLKFRONT, SQLITE = (
    os.path.join(BIN, name) for name in ("blkfront-bench", "sqlite-bench")
)
LOAD_KEYS = [
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
SQLITE_KEYS = ["tps", "commit_us", "tapdisk_cpu_us_per_commit", "integrity"]


def one_line(h, *argv, status):
    """What it says on stderr, and that this is all."""
    done = h.run(*argv, check=False)
    assert done.returncode == status, (argv, done)
    assert done.stdout == "" and done.stderr.count("\n") == 1, (argv, done)
    return done.stderr


def json_is_one_line_with_these_keys():
    with host() as h:
        disk = h.create("ram:16m")
        done = h.run(BLKFRONT, *disk.name, "--json", "--runtime", "50ms")
        result = json.loads(done.stdout)
        assert done.stdout.count("\n") == 1 and done.stderr == "", done
        assert list(result) == LOAD_KEYS, result
        assert list(result["lat_us"]) == ["mean", "p50", "p99", "p999", "max"], result
        for key in "iops", "bytes_per_s", "tapdisk_cpu_us_per_io":
            assert result[key] > 0, result

        done = h.run(SQLITE, *disk.name, "--json", "--transactions", "10")
        result = json.loads(done.stdout)
        assert done.stdout.count("\n") == 1 and done.stderr == "", done
        assert list(result) == SQLITE_KEYS, result
        assert list(result["commit_us"]) == ["mean", "p50", "p99"], result
        for key in "tps", "tapdisk_cpu_us_per_commit":
            assert result[key] > 0, result
        disk.destroy()


def a_changed_byte_is_found():
    with host() as h:
        path = h.dirs.image("a.img", 4)
        disk = h.create("aio:" + path)
        load = disk.bench_start(
            "blkfront-bench", "--verify", "--json", "--rw", "read", "--runtime", "3"
        )
        time.sleep(1.5)  # it has filled 4 MiB and reads them
        with open(path, "r+b") as f:
            f.seek((3 << 20) + 100)
            f.write(b"x")
            os.fsync(f.fileno())
        out, err = load.communicate(timeout=PATIENCE_S)
        assert load.returncode == 1, (out, err)
        assert json.loads(out)["verify_errors"] > 0, out
        assert "verify: sector 6144: " in err, err


def errors_of_the_disk_are_counted():
    with host() as h:
        disk = h.create("fault:op=read,every=10,err=EIO;ram:8m")
        done = h.run(
            BLKFRONT, *disk.name, "--json", "--runtime", "0.2", check=False
        )
        result = json.loads(done.stdout)
        assert done.returncode == 1, done
        assert result["io_errors"] > 0 and result["verify_errors"] == 0, result


def modes_do_what_they_say():
    with host() as h:
        disk = h.create("ram:8m")
        common = ["--runtime", "1", "--rw", "randwrite"]
        r = disk.bench("--rate", "500", *common)
        assert 250 <= r["iops"] <= 600, r
        r = disk.bench("--think", "10ms", *common)
        assert r["iops"] <= 101 and r["think_us"] >= 10000, r
        r = disk.bench("--burst", "8", "--think", "10ms", *common)
        assert 8 < r["iops"] <= 808 and r["think_us"] >= 10000, r
        # 8 + 1 + 1 + 1 in four thoughts
        mix = ["--burst", "8", "--burst-every", "4", "--think", "10ms"]
        r = disk.bench(*mix, *common)
        assert 8 < r["iops"] <= 286 and r["think_us"] >= 10000, r
        r = disk.bench("--flush-every", "4", "--wait", "spin", *common)
        assert r["iops"] > 0 and r["io_errors"] == 0, r
        # an I/O is one, however many requests it takes
        r = disk.bench("--bs", "2m", "--verify", *common)
        assert 1.9e6 < r["bytes_per_s"] / r["iops"] < 2.2e6, r
        disk.destroy()


def misuse_is_one_line_and_exit_2():
    both = ["-p", str(os.getpid()), "-m", "0"]
    cases = [
        (BLKFRONT,),
        (BLKFRONT, *both, "--bs", "700"),
        (BLKFRONT, *both, "--bs", "3m"),
        (BLKFRONT, *both, "--rw", "trim"),
        (BLKFRONT, *both, "--rate", "5", "--think", "1ms"),
        (BLKFRONT, *both, "--burst-every", "5"),
        (BLKFRONT, *both, "--ring-order", "5"),
        (BLKFRONT, *both, "more"),
        (SQLITE,),
        (SQLITE, *both, "--file", "x"),
        (SQLITE, *both, "--copies", "2"),
        (SQLITE, *both, "--journal", "off"),
    ]
    with host() as h:
        for argv in cases:
            one_line(h, *argv, status=2)
        for program in BLKFRONT, SQLITE:
            done = h.run(program, "--help")
            assert "--polling" in done.stdout and done.stderr == "", done
            # no tapdisk there
            one_line(h, program, *both, status=1)


def a_setting_of_tap_ctl_is_not_measured_as_another():
    with host() as h:
        disk = h.create("ram:8m")
        disk.polling("--mode", "fixed", "--duration", "8000")
        said = one_line(h, BLKFRONT, *disk.name, "--polling", "event", status=1)
        assert "tap-ctl polling" in said, said
        disk.bench("--runtime", "50ms")  # without a wish: as it is
        disk.polling("--mode", "default")
        disk.bench("--runtime", "50ms", "--polling", "event")
        disk.destroy()


def a_signal_disconnects():
    with host() as h:
        disk = h.create("ram:16m")
        for program, *options in (
            ("blkfront-bench", "--runtime", "600", "--qd", "8"),
            ("blkfront-bench", "--runtime", "600", "--think", "60s"),
            ("sqlite-bench", "--transactions", "10000000"),
            ("sqlite-bench", "--think", "60s"),
        ):
            for how in signal.SIGINT, signal.SIGTERM:
                load = disk.bench_start(program, *options)
                time.sleep(0.5)
                load.send_signal(how)
                out, err = load.communicate(timeout=PATIENCE_S)
                assert load.returncode == 1, (program, out, err)
                assert err == program + ": interrupted\n", err
                # the device is free: a third ring would be refused
                disk.bench("--runtime", "50ms")
        disk.destroy()


def a_killed_tapdisk_ends_the_load():
    with host() as h:
        for program, *options in (
            ("blkfront-bench", "--runtime", "600", "--wait", "spin"),
            ("blkfront-bench", "--runtime", "600", "--wait", "sleep"),
            ("sqlite-bench", "--transactions", "10000000"),
        ):
            disk = h.create("ram:16m")
            load = disk.bench_start(program, *options)
            time.sleep(0.5)
            disk.kill()
            out, err = load.communicate(timeout=PATIENCE_S)
            assert load.returncode == 1, (out, err)
            assert err == program + ": the tapdisk is gone\n", err


def sqlite_is_whole_with_both_journals():
    with host() as h:
        disk = h.create("aio:" + h.dirs.image("a.img", 32))
        for journal in "delete", "wal":
            for rows in "1", "50":
                r = disk.sqlite(
                    "--transactions", "20", "--rows", rows, "--journal", journal
                )
                assert r["integrity"] == "ok", r
                r = disk.sqlite("--open-check")
                assert r == {"rows": 20 * int(rows), "integrity": "ok"}, r
        disk.destroy()


def an_acknowledged_row_that_is_not_there_is_named():
    with host() as h:
        disk = h.create("ram:16m")
        acked = os.path.join(h.dirs.top, "acked")
        disk.sqlite("--transactions", "20", "--acked", acked)
        with open(acked) as f:
            assert f.read().split() == [str(i) for i in range(1, 21)]
        disk.sqlite("--open-check", "--acked", acked)
        with open(acked, "a") as f:
            f.write("999999\n")
        check = ["--open-check", "--acked", acked]
        said = one_line(h, SQLITE, *disk.name, *check, status=1)
        assert "row 999999 " in said, said
        disk.destroy()


def on_files_sqlite_leaves_none_and_harms_none():
    with host() as h:
        top = os.path.join(h.dirs.top, "files")
        os.mkdir(top)
        path = os.path.join(top, "t.db")
        for options in [], ["--copies", "3"], ["--journal", "wal"]:
            r = h.bench(
                "sqlite-bench", "--file", path, "--transactions", "10", *options
            )
            assert r["integrity"] == "ok", r
            assert r["tapdisk_cpu_us_per_commit"] is None, r
            assert os.listdir(top) == [], os.listdir(top)
        with open(path, "w") as f:
            f.write("precious")
        assert "already" in one_line(h, SQLITE, "--file", path, status=1)
        with open(path) as f:
            assert f.read() == "precious"


if __name__ == "__main__":
    sys.exit(
        run(
            [
                json_is_one_line_with_these_keys,
                a_changed_byte_is_found,
                errors_of_the_disk_are_counted,
                modes_do_what_they_say,
                misuse_is_one_line_and_exit_2,
                a_setting_of_tap_ctl_is_not_measured_as_another,
                a_signal_disconnects,
                a_killed_tapdisk_ends_the_load,
                sqlite_is_whole_with_both_journals,
                an_acknowledged_row_that_is_not_there_is_named,
                on_files_sqlite_leaves_none_and_harms_none,
            ]
        )
    )
