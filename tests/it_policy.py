#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The polling policy in simulation: its promises, its recorded achievement, and
that polling-sim's traces are the ones that their names and seeds promise.
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True

import policy_targets
from policy_targets import ROOT, SIM, CORE_TRACES

LIMITS = os.path.join(ROOT, "tests", "policy-limits")
SEEDS = (1001, 1002, 1003)
POLICIES = (
    "adaptive event always fixed-1ms fixed-3ms fixed-6ms fixed-8ms qemu-32us "
    "qemu-1ms weight-32us weight-1ms break-even best-static clairvoyant"
).split()
KEYS = "policy trace seed cost_ns cost_clairvoyant_ns spin_ns hits misses"
US = 1000


def run(*arguments):
    done = subprocess.run(
        [SIM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    return done.returncode, done.stdout, done.stderr


def lines(*arguments):
    status, out, err = run("--json", *arguments)
    assert status == 0 and not err, (status, err)
    return [json.loads(line) for line in out.splitlines()]


# One of each distribution that the traces are made of.
def pages_and_syncs(r):
    while True:
        for _ in range(3):
            yield 25 * US * math.exp(r.gauss(0, 0.3)), "write"
        yield 18 * US * math.exp(r.gauss(0, 0.3)), "flush"
        yield 120 * US * math.exp(r.gauss(0, 0.5)), "flush"
        if r.random() < 0.02:
            yield 2500 * US * math.exp(r.gauss(0, 0.4)), "read"


def two_speeds(r):
    levels = (10, 60, 1500)
    while True:
        k = r.randrange(len(levels))
        for _ in range(r.randint(10, 60)):
            yield levels[k] * US * math.exp(r.gauss(0, 0.3)), "read"


def forever(draw):
    def made(r):
        while True:
            yield draw(r), "read"

    return made


GENERATORS = {
    "poisson-1k": forever(lambda r: r.expovariate(1 / 1e6)),
    "pareto-1.2": forever(
        lambda r: min(1e8, 10 * US * (1 - r.random()) ** (-1 / 1.2))
    ),
    "periodic-8ms": forever(lambda r: max(100, r.gauss(8e6, 4e5))),
    "x-weibull": forever(lambda r: r.weibullvariate(60 * US, 0.5)),
    "y-gamma": forever(lambda r: r.gammavariate(0.5, 300 * US)),
    "sqlite": pages_and_syncs,
    "regimes-fast": two_speeds,
}


def traces_are_what_name_and_seed_promise():
    for name, make in GENERATORS.items():
        for seed in (1, 1001, 123456789012345):
            steps = make(random.Random("%s/%d" % (name, seed)))
            status, out, _ = run("--trace", name, "--seed", seed, "--gaps")
            got = out.splitlines()
            assert status == 0 and len(got) == 2000, (name, status)
            for i, line in enumerate(got):
                gap, op = next(steps)
                got_gap, got_op = line.split()
                # another libm may round the last bit otherwise
                near = abs(int(got_gap) - int(gap)) <= 1
                assert near and got_op == op, (name, seed, i, line, gap, op)


def every_policy_meets_every_trace():
    got = lines("--seed", 5)
    names = list(dict.fromkeys(line["trace"] for line in got))
    assert len(names) == CORE_TRACES + 1 and names[-1] == "adversary", names
    for name in names:
        mine = [line for line in got if line["trace"] == name]
        assert [line["policy"] for line in mine] == POLICIES, mine
    for line in got:
        assert set(KEYS.split()) <= set(line), line
        assert line["seed"] == 5
        # luck with the wakes can beat who knows the gaps, but not by much
        least = 0.95 * line["cost_clairvoyant_ns"]
        if not line["trace"].startswith("loop"):
            assert line["cost_ns"] >= least, line
            assert line["hits"] + line["misses"] == 2000, line


def a_run_can_be_repeated_and_a_seed_matters():
    again = [run("--json", "--seed", seed)[1] for seed in (7, 7, 8)]
    assert again[0] == again[1]
    assert again[0] != again[2]


def simple_policies_cost_what_the_model_says():
    with tempfile.NamedTemporaryFile("w", suffix=".gaps") as file:
        file.write("# recorded\n1000\n9000000 write\n\n20000 Flush # slow\n")
        file.flush()
        args = ["--trace", file.name, "--w0-us", 10, "--beta", 0.5, "--rho", 0]
        got = {line["policy"]: line for line in lines(*args)}
    assert list(got) == POLICIES
    always = got["always"]
    assert (always["hits"], always["misses"]) == (3, 0), always
    assert always["spin_ns"] == 9021000, always
    assert always["cost_ns"] == 3 * 25 + 9021000 // 2, always
    event = got["event"]
    assert (event["hits"], event["misses"], event["spin_ns"]) == (0, 3, 0)
    # three wakes with 15 % noise
    assert abs(event["cost_ns"] - 3 * 16000) < 0.5 * 3 * 10000, event
    best = got["clairvoyant"]
    assert best["cost_ns"] == 25 + 500 + 16000 + 25 + 10000, best
    assert best["cost_ns"] == event["cost_clairvoyant_ns"]
    static = got["best-static"]
    assert (static["hits"], static["misses"]) == (1, 2), static


def rivals_do_what_was_published():
    def meet(gaps):
        with tempfile.NamedTemporaryFile("w", suffix=".gaps") as file:
            file.write("".join("%d\n" % gap for gap in gaps))
            file.flush()
            got = lines("--trace", file.name, "--w0-us", 5)
        return {x["policy"]: (x["hits"], x["spin_ns"]) for x in got}

    # 4, 8, 16 us in vain, and then 20 each; the average is there at once
    got = meet([20 * US] * 10)
    assert got["qemu-32us"] == got["qemu-1ms"] == (6, 148 * US), got
    assert got["weight-32us"] == got["weight-1ms"] == (9, 180 * US), got
    # what is beyond the maximum ends the window
    got = meet([20 * US] * 10 + [90 * US, 3 * US])
    assert got["qemu-32us"] == (6, 180 * US), got
    # serving takes 5 us of a window that starts with the request
    got = meet([995 * US, 996 * US, 7995 * US, 7996 * US])
    assert got["fixed-1ms"] == (1, 4 * 995 * US), got
    assert got["fixed-8ms"] == (3, (995 + 996 + 2 * 7995) * US), got
    assert got["break-even"] == (0, 4 * 37 * US), got


def bad_input_is_refused_in_one_line():
    with tempfile.TemporaryDirectory() as directory:

        def file(name, text):
            path = os.path.join(directory, name)
            with open(path, "w") as out:
                out.write(text)
            return path

        cases = [
            (2, ["--policy", "nope"]),
            (2, ["--beta", "0"]),
            (2, ["--beta", "x"]),
            (2, ["--rho", "-1"]),
            (2, ["--w0-us", "nan"]),
            (2, ["--seed", "1.5"]),
            (2, ["--waits", "0"]),
            (2, ["operand"]),
            (2, ["--gaps"]),
            (1, ["--trace", "adversary", "--gaps"]),
            (1, ["--trace", os.path.join(directory, "none")]),
            (1, ["--trace", directory]),
            (1, ["--trace", file("empty", "# nothing\n")]),
            (1, ["--trace", file("words", "1000\nten\n")]),
            (1, ["--trace", file("minus", "-5\n")]),
            (1, ["--trace", file("ops", "5 trim\n")]),
            (1, ["--trace", file("huge", "99999999999999999999\n")]),
        ]
        for want, arguments in cases:
            status, _, err = run(*arguments)
            assert status == want, (arguments, status, err)
            assert err.startswith("polling-sim: "), (arguments, err)
            assert err.count("\n") == 1, (arguments, err)
        assert "line 2" in run("--trace", os.path.join(directory, "words"))[2]
    assert run("--help")[0] == 0


def closed_loops_with_fewer_waits_than_threads_end():
    for waits in (1, 7, 8, 9):
        for name in ("loop-8x200us", "loop-burst", "loop-timer-1ms"):
            got = lines("--trace", name, "--waits", waits)
            assert len(got) == len(POLICIES)


reached = []


def reach():
    if not reached:
        for setting in policy_targets.SETTINGS:
            reached.append(policy_targets.Reached(setting, SEEDS))
    return reached


def every_target_holds():
    missed = [str(t) for t in policy_targets.targets(reach()) if not t.holds]
    assert not missed, "\n".join(missed)


def nothing_gets_worse_than_it_was():
    limits = policy_targets.read_limits(LIMITS)
    worse = []
    for r in reach():
        for name, value in r.figures().items():
            limit = limits[r.setting][name]
            if value > limit:
                worse.append("%s: %s %.4f > %g" % (r.setting, name, value, limit))
    assert not worse, "\n".join(worse)


def main():
    passed = failed = 0
    for test in (
        traces_are_what_name_and_seed_promise,
        every_policy_meets_every_trace,
        a_run_can_be_repeated_and_a_seed_matters,
        simple_policies_cost_what_the_model_says,
        rivals_do_what_was_published,
        bad_input_is_refused_in_one_line,
        closed_loops_with_fewer_waits_than_threads_end,
        every_target_holds,
        nothing_gets_worse_than_it_was,
    ):
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print("FAILED: %s" % test.__name__)
            traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
