#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
tap-ctl polling on a live disk: settings that act under load, the live view, the
trace that polling-sim reads, the advice that agrees with polling-sim, the
picture of it, and SIGUSR2.
"""

import json
import os
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree

sys.dont_write_bytecode = True
from host import BIN, host
from tapdisk import run, until

# Guests that differ in what their waits look like.
LOADS = {
    "back to back": ["--think", "0us"],
    "exponential": ["--think", "100us:exp"],
    "near break-even": ["--think", "400us:exp"],
    "bursts": ["--burst", "8", "--think", "3ms"],
    "slow": ["--think", "4ms"],
    "writes and flushes": ["--rw", "randwrite", "--flush-every", "4", "--think", "50us:exp"],
}


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def watch_shows_a_line_a_second():
    with host() as h:
        disk = h.create("ram:8m")
        disk.ctl("polling", "--mode", "fixed", "--duration", "1000", "--cap", "0")
        load = disk.bench_start("blkfront-bench", "--runtime", "3", "--think", "100us")
        until(lambda: disk.polling()["requests"] > 0, "no load")
        start = time.monotonic()
        got = lines(disk.ctl("polling", "--watch", "--seconds", "2", "--json"))
        assert 2 <= time.monotonic() - start < 20
        assert len(got) == 2, got
        for line in got:
            assert line["mode"] == "fixed", line
            assert line["requests"] > 10 and line["seconds"] >= 1, line
            assert 0 <= line["spin_pct"] <= 110, line
            assert set(line["threshold_us"]) == {"guest", "device", "both"}, line
        text = disk.ctl("polling", "--watch", "--seconds", "1").splitlines()
        assert len(text) == 2 and text[0].split()[0] == "mode", text
        assert text[1].split()[0] == "fixed", text
        load.communicate()
        disk.destroy()


def settings_are_told_back():
    with host() as h:
        disk = h.create("ram:8m")
        now = disk.polling()
        assert (now["cap"], now["sync"]) == (100, "auto"), now
        assert now["governor"]["share_pct"] <= 100, now
        now = disk.polling("--cap", "0", "--sync", "off")
        assert (now["cap"], now["sync"]) == (0, "off"), now
        assert "share_pct" not in now["governor"], now
        now = disk.polling("--cap", "20")
        assert (now["cap"], now["sync"], now["mode"]) == (20, "off", "event"), now
        now = disk.polling("--mode", "default")
        assert (now["cap"], now["sync"]) == (100, "auto"), now
        text = disk.ctl("polling")
        assert "price of CPU" in text and "a sleep costs" in text, text
        disk.destroy()


def model_cost(gaps, threshold, w0, cw, beta, rho):
    return sum(25 + beta * g if g <= threshold
               else w0 + rho * threshold + beta * (threshold + cw) for g in gaps)


def sim_best(h, path, w0_us, beta, rho):
    out = h.run(os.path.join(BIN, "polling-sim"), "--policy", "best-static",
                "--trace", path, "--w0-us", "%.3f" % w0_us, "--beta", "%.6f" % beta,
                "--rho", "%.6f" % rho, "--json").stdout
    (best,) = [line for line in lines(out) if line["policy"] == "best-static"]
    return best["cost_ns"]


def record(h, disk, path, options):
    """A load, every wait of its guest in a file, and the advice on it."""
    trace = h_popen(h, "tap-ctl", "polling", *disk.name, "--trace", path,
                    "--seconds", "2")
    time.sleep(0.1)
    disk.bench("--runtime", "1.2", *options)
    out, err = trace.communicate(timeout=60)
    assert trace.returncode == 0, (out, err)
    return json.loads(disk.ctl("polling", "--advise", "--json")), out


def h_popen(h, program, *argv):
    import subprocess

    return subprocess.Popen([os.path.join(BIN, program), *argv], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=h.env)


def the_advice_agrees_with_the_simulator_on_recorded_waits():
    with host() as h, tempfile.TemporaryDirectory() as top:
        for name, options in LOADS.items():
            disk = h.create("ram:64m")
            path = os.path.join(top, "trace")
            advice, said = record(h, disk, path, options)
            with open(path) as file:
                gaps = [int(line.split()[0]) for line in file]
            guest = advice["kinds"]["guest"]
            assert said.startswith("%d waits recorded" % len(gaps)), said
            # what was before the trace had a ring to begin on
            assert len(gaps) >= guest["waits"] * 0.5, (name, len(gaps), guest)
            beta, rho = advice["price"], advice["rho"]
            got = model_cost(gaps, guest["threshold_ns"], advice["w0_us"] * 1000,
                             12000, beta, rho)
            best = sim_best(h, path, advice["w0_us"], beta, rho)
            print("%-18s %6d waits, advised %8.1f us: %.4f of the best" % (
                name, len(gaps), guest["threshold_ns"] / 1000, got / best))
            assert got <= 1.05 * best, (name, got / best, advice)
            disk.destroy()


def the_advice_says_what_to_do_and_draws_it():
    with host() as h, tempfile.TemporaryDirectory() as top:
        disk = h.create("ram:64m")
        text = disk.ctl("polling", "--advise")
        assert "no recommendation" in text.splitlines()[-1], text
        load = disk.bench_start("blkfront-bench", "--runtime", "3", "--think", "20us")
        until(lambda: disk.polling()["requests"] > 0, "no load")
        path = os.path.join(top, "advice.svg")
        got = json.loads(disk.ctl("polling", "--advise", "--seconds", "1", "--json",
                                  "--plot", path))
        load.communicate()
        ways = {way["way"]: way for way in got["ways"]}
        assert set(ways) == {"event", "fixed 1 ms", "fixed 3 ms", "fixed 6 ms",
                             "fixed 8 ms", "best fixed", "adaptive"}, ways
        assert ways["best fixed"]["cost_ns"] <= min(w["cost_ns"] for n, w in ways.items()
                                                    if n != "adaptive"), ways
        assert got["recommended"] in ("event", "adaptive"), got
        assert "--mode " + got["recommended"] in got["advice"], got
        root = xml.etree.ElementTree.parse(path).getroot()
        assert root.tag.endswith("svg"), root.tag
        words = " ".join(root.itertext())
        assert "tapdisk %d" % disk.pid in words and "event" in words, words
        assert disk.ctl("polling", "--advise").splitlines()[-1].startswith("recommended")
        for bad in ("/nonexistent/x.svg", "/dev/full"):
            done = h.run(os.path.join(BIN, "tap-ctl"), "polling", *disk.name,
                         "--advise", "--plot", bad, check=False)
            assert done.returncode in (2, 28), done
            assert bad in done.stderr and not done.stdout, done
        done = h.run(os.path.join(BIN, "tap-ctl"), "polling", *disk.name, "--trace",
                     "/nonexistent/x", "--seconds", "1", check=False)
        assert done.returncode == 2 and "/nonexistent/x" in done.stderr, done
        disk.destroy()


def usr2_polls_now():
    with host() as h:
        disk = h.create("ram:8m")
        load = disk.bench_start("blkfront-bench", "--runtime", "0.1", "--linger", "30",
                                "--polling", "event")
        until(lambda: disk.polling()["requests"] > 0, "no load")
        time.sleep(0.3)
        before = disk.polling()
        assert before["mode"] == "event" and before["spin_ns"] == 0, before

        # one window, or none if somebody else needs the CPU just then
        def asked_and_spun():
            os.kill(disk.pid, signal.SIGUSR2)
            time.sleep(0.05)
            return disk.polling()["spin_ns"] > 0

        until(asked_and_spun, "no spin")
        time.sleep(0.3)
        spun = disk.polling()["spin_ns"]
        time.sleep(0.2)
        assert disk.polling()["spin_ns"] == spun, "it spins on"
        load.send_signal(signal.SIGTERM)
        load.communicate()
        # without a ring, and without a disk, it does no harm
        os.kill(disk.pid, signal.SIGUSR2)
        disk.polling()
        disk.destroy()


if __name__ == "__main__":
    # one after another: they measure waits
    sys.exit(run([
        settings_are_told_back,
        watch_shows_a_line_a_second,
        the_advice_agrees_with_the_simulator_on_recorded_waits,
        the_advice_says_what_to_do_and_draws_it,
        usr2_polls_now,
    ], workers=1))
