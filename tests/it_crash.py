#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
kill -9 loses nothing that was acknowledged and leaves nothing in the way; a
stuck device holds up nobody.
"""

import os
import sys
import time

from host import host, seconds
from tapdisk import SOON_S, run, until


def kill_under_load_loses_no_acknowledged_commit():
    with host() as h:
        path = h.dirs.image("a.img", 64)
        acked = os.path.join(h.dirs.top, "acked")
        for round_ in range(3):
            disk = h.create("aio:" + path)
            if round_:
                # what the last round left, first through a clean reader
                check = disk.sqlite("--open-check")
                assert check["integrity"] == "ok", check
                with open(acked) as f:
                    last = int(f.read().split()[-1])
                assert check["rows"] >= last, (check, last)
            if os.path.exists(acked):
                os.unlink(acked)
            load = disk.bench_start("sqlite-bench", "--transactions", "1000000",
                                    "--acked", acked)  # fmt: skip
            until(
                lambda: os.path.exists(acked) and os.path.getsize(acked) > 200,
                "no commits",
            )
            time.sleep(0.05 * round_)
            disk.kill()
            load.communicate(timeout=60)
            assert load.returncode != 0, "it did not notice"


def kill_under_load_loses_no_acknowledged_write():
    with host() as h:
        path = h.dirs.image("a.img", 16)
        disk = h.create("aio:" + path)
        load = disk.bench_start("blkfront-bench", "--rw", "randwrite", "--qd",
                                "32", "--runtime", "60")  # fmt: skip
        time.sleep(0.3)
        disk.kill()
        load.communicate(timeout=60)
        assert load.returncode == 1, load.returncode
        # the same image, and nothing stale in the way
        disk = h.create("aio:" + path)
        result = disk.bench("--verify", "--rw", "randrw", "--qd", "8", "--size",
                            "4m", "--runtime", "0.2")  # fmt: skip
        assert result["verify_errors"] == result["io_errors"] == 0, result
        disk.destroy()
        # of the killed one only its marker is left, for free to remove
        rows = h.ctl("list").split()
        assert rows == ["minor=0"], rows
        h.ctl("free", "-m", "0")
        assert h.ctl("list") == ""


def the_same_device_connects_again_at_once_after_a_kill():
    with host() as h:
        path = h.dirs.image("a.img", 8)
        connect = ["--domid", "5"]
        times = []
        for _ in range(5):
            disk = h.create("aio:" + path)
            load = disk.bench_start("blkfront-bench", "--runtime", "60", *connect)
            time.sleep(0.1)
            disk.kill()
            load.communicate(timeout=60)
            disk = h.create("aio:" + path)
            times.append(seconds(lambda: disk.bench("--runtime", "0.01", *connect)))
            disk.destroy()
        print("connect, 10 ms of load, disconnect: ms", [round(t * 1e3) for t in times])
        assert min(times) < 1, times


def a_stuck_device_holds_up_no_answer():
    with host() as h:
        disk = h.create("delay:us=60000000;aio:" + h.dirs.image("a.img", 8))
        load = disk.bench_start("blkfront-bench", "--qd", "32", "--runtime", "60")
        until(lambda: disk.polling()["requests"] >= 32, "nothing taken")
        took = {
            name: seconds(what)
            for name, what in [
                ("list", lambda: h.ctl("list")),
                ("stats", lambda: disk.ctl("stats")),
                ("polling", disk.polling),
                ("retune", lambda: disk.polling("--mode", "fixed")),
                ("close -f", lambda: disk.ctl("close", "-f")),
                ("detach", lambda: disk.ctl("detach")),
            ]
        }
        print("ms:", {k: round(v * 1e3, 1) for k, v in took.items()})
        assert max(took.values()) < SOON_S, took
        until(lambda: not os.path.exists("/proc/%d" % disk.pid), "lives on")
        load.kill()
        load.communicate()


if __name__ == "__main__":
    sys.exit(
        run(
            [
                kill_under_load_loses_no_acknowledged_commit,
                kill_under_load_loses_no_acknowledged_write,
                the_same_device_connects_again_at_once_after_a_kill,
                a_stuck_device_holds_up_no_answer,
            ]
        )
    )
