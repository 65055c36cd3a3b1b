#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The judge of the benchmarks, on samples that are made up, and that the
benchmarks built on it run.
"""

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time

from tapdisk import ROOT, run, until

BENCH = os.path.join(ROOT, "tests", "bench")
sys.path.insert(0, BENCH)

import ratio  # noqa: E402

QUIET = ratio.Limits(sample_s=0)


class Nobody:
    """Else on the machine."""

    def mark(self):
        pass

    def used(self):
        return 0.0


class Busy(Nobody):
    """In these pairs."""

    def __init__(self, shares):
        self.shares = itertools.cycle(shares)

    def used(self):
        return next(self.shares)


def noisy(mean, sigma, seed):
    dice = random.Random(seed)
    return lambda: dice.gauss(mean, sigma)


def judged(sense, target, a, b, limits=QUIET, others=None):
    (result,) = ratio.judge(
        [ratio.Claim("made up", sense, target)], a, b, limits=limits,
        others=others or Nobody(),
    )
    return result


def a_clear_claim_takes_15_pairs():
    cases = [
        (ratio.AT_LEAST, 0.95, 100, 100, ratio.HOLDS),
        (ratio.AT_LEAST, 0.95, 120, 100, ratio.HOLDS),
        (ratio.AT_LEAST, 0.95, 90, 100, ratio.FAILS),
        (ratio.AT_MOST, 0.50, 40, 100, ratio.HOLDS),
        (ratio.AT_MOST, 0.50, 60, 100, ratio.FAILS),
        (ratio.AT_MOST, 1.05, 100, 100, ratio.HOLDS),
    ]
    for seed, (sense, target, a, b, want) in enumerate(cases):
        r = judged(sense, target, noisy(a, 1, seed), noisy(b, 1, seed + 100))
        assert (r.verdict, r.pairs, r.redrawn) == (want, 15, 0), r
        assert r.low <= r.median <= r.high, r
        assert abs(r.median - a / b) < 0.02, r
        assert abs(r.a - a) < 1 and abs(r.b - b) < 1, r


def a_miss_within_the_noise_and_2_percent_holds():
    c = ratio.Claim("made up", ratio.AT_LEAST, 1.0)
    assert ratio.verdict(c, 0.985, 0.96, 1.0) == ratio.HOLDS
    assert ratio.verdict(c, 0.985, 0.96, 0.999) == ratio.FAILS
    assert ratio.verdict(c, 0.975, 0.90, 1.1) == ratio.UNDECIDED
    assert ratio.verdict(c, 1.2, 1.1, 1.3) == ratio.HOLDS
    c = c._replace(sense=ratio.AT_MOST)
    assert ratio.verdict(c, 1.015, 1.0, 1.04) == ratio.HOLDS
    assert ratio.verdict(c, 1.015, 1.001, 1.04) == ratio.FAILS
    assert ratio.verdict(c, 1.025, 0.9, 1.1) == ratio.UNDECIDED
    assert ratio.verdict(c, 0.8, 0.7, 0.9) == ratio.HOLDS


def what_stays_unclear_ends_after_60_pairs():
    # the median misses by 5 %, and a third of the samples are far above
    values = itertools.cycle([0.95] * 5 + [1.5] * 4)
    r = judged(ratio.AT_LEAST, 1.0, lambda: next(values), lambda: 1.0)
    assert (r.verdict, r.pairs) == (ratio.UNDECIDED, 60), r


def the_order_is_a_b_b_a():
    drawn = []

    def side(name):
        return lambda: drawn.append(name) or 1.0

    judged(ratio.AT_LEAST, 1.0, side("a"), side("b"))
    assert "".join(drawn) == "abba" * 7 + "ab", drawn


def a_disturbed_pair_is_redrawn_and_counted():
    drawn = []
    r = judged(
        ratio.AT_LEAST, 1.0, lambda: drawn.append("a") or 1.0,
        lambda: drawn.append("b") or 1.0, others=Busy([0.05, 0.03, 0.041]),
    )
    assert r.verdict == ratio.HOLDS and r.pairs == 15, r
    assert r.redrawn == 29, r  # two of three, up to the 15th good one
    # in the order of the pair it stands for: as many start with A as with B
    firsts = drawn[0::2]
    assert "".join(drawn[:6]) == "ab" "ab" "ba", drawn
    assert len(firsts) == 44, drawn


def it_gives_up_where_no_pair_counts():
    r = judged(ratio.AT_LEAST, 1.0, lambda: 1.0, lambda: 1.0, others=Busy([0.5]))
    assert (r.verdict, r.pairs, r.redrawn) == (ratio.UNDECIDED, 0, 30), r
    # one that counts now and then is enough to go on
    mostly = Busy([0.5] * 29 + [0.0])
    r = judged(ratio.AT_LEAST, 1.0, lambda: 1.0, lambda: 1.0, others=mostly)
    assert (r.verdict, r.pairs) == (ratio.HOLDS, 15), r


def it_ends_on_a_machine_that_is_never_quiet():
    limits = QUIET._replace(time_s=0.2)
    start = time.monotonic()
    r = judged(
        ratio.AT_LEAST, 1.0, lambda: time.sleep(0.01) or 1.0, lambda: 1.0,
        limits=limits, others=Busy([0.5]),
    )
    assert time.monotonic() - start < 10
    assert (r.verdict, r.pairs) == (ratio.UNDECIDED, 0) and r.redrawn > 0, r
    assert "UNDECIDED" in ratio.row(r)
    assert json.loads(json.dumps(ratio.as_json(r)))["median"] is None


def a_claim_of_too_few_pairs_is_undecided():
    limits = QUIET._replace(time_s=0.2)
    r = judged(
        ratio.AT_LEAST, 1.0, lambda: time.sleep(0.05) or 1.0, lambda: 1.0,
        limits=limits,
    )
    assert r.verdict == ratio.UNDECIDED and 0 < r.pairs < 15, r


def a_short_sample_is_refused():
    for a, b in (lambda: 1.0, lambda: time.sleep(0.05) or 1.0), (
        lambda: time.sleep(0.05) or 1.0,
        lambda: 1.0,
    ):
        try:
            judged(ratio.AT_LEAST, 1.0, a, b, QUIET._replace(sample_s=0.04))
        except ratio.Unusable as error:
            assert "at least" in str(error), error
        else:
            raise AssertionError("not refused")


def one_figure_can_be_judged_alone():
    r = judged(ratio.AT_MOST, 0.01, noisy(0.008, 0.0001, 1), None)
    assert r.verdict == ratio.HOLDS and r.b is None, r
    r = judged(ratio.AT_MOST, 0.01, noisy(0.012, 0.0001, 1), None)
    assert r.verdict == ratio.FAILS, r


def claims_share_their_samples():
    drawn = [0]

    def a():
        drawn[0] += 1
        return {"iops": 99.0, "cpu": 3.0}

    slow = ratio.Claim("iops", ratio.AT_LEAST, 0.95, "iops")
    cheap = ratio.Claim("cpu", ratio.AT_MOST, 0.25, "cpu")
    results = ratio.judge(
        [slow, cheap], a, lambda: {"iops": 100.0, "cpu": 10.0}, limits=QUIET,
        others=Nobody(),
    )
    assert [r.verdict for r in results] == [ratio.HOLDS, ratio.FAILS], results
    assert drawn[0] == 15, drawn


def the_interval_covers_what_it_says():
    dice = random.Random(7)
    covered = 0
    for _ in range(300):
        low, high = ratio.bootstrap(
            [dice.gauss(1, 0.1) for _ in range(15)], resamples=400
        )
        assert low <= high
        covered += low <= 1 <= high
    assert 270 <= covered, covered  # 95 % of 300 are 285
    same = [dice.gauss(1, 0.1) for _ in range(15)]
    assert ratio.bootstrap(same) == ratio.bootstrap(same)


def others_are_seen_and_our_own_are_not():
    stats = {  # pid: parent, ticks
        1: (0, 1), 2: (0, 2), 3: (2, 4),  # init, the kernel
        10: (1, 8), 11: (10, 16), 12: (11, 32),  # we, a child and its child
        20: (1, 64), 21: (20, 128),  # a daemon, and a child
        30: (1, 256), 31: (99, 512),  # somebody; his parent went meanwhile
    }
    assert ratio.ticks_of_others(stats, [10, 20]) == 1 + 256 + 512
    assert ratio.ticks_of_others(stats, [10]) == 1 + 64 + 128 + 256 + 512


def a_process_that_works_gets_more_ticks():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            before = ratio.processes()[busy.pid]
            assert before[0] == os.getpid(), before
            until(
                lambda: ratio.processes()[busy.pid][1] >= before[1] + 10, "no CPU"
            )
        finally:
            busy.kill()


def what_others_use_is_in_cpus():
    others = ratio.Others()
    others.sum = iter([100, 100 + 3 * os.sysconf("SC_CLK_TCK")]).__next__
    others.mark()
    time.sleep(0.5)
    assert 0 < others.used() <= 6, "3 s of CPU in half a second or more"


def command(*argv):
    return subprocess.run(
        [os.path.join(BENCH, argv[0]), *argv[1:]], stdin=subprocess.DEVNULL,
        capture_output=True, text=True,
    )


def the_program_tells_by_its_exit_status():
    cases = [
        (0, ["--quick", "--at-least", "0.9", "-a", "echo 95", "-b", "echo 100"]),
        (0, ["--quick", "--at-most", "5", "--key", "x.y", "-a",
             """echo no; echo '{"x": {"y": 3}}'"""]),
        (3, ["--time-limit", "0.1", "--at-least", "1", "-a", "sleep 0.6; echo 1"]),
        (1, ["--at-least", "1", "-a", "echo 1", "-b", "echo 1"]),
        (1, ["--quick", "--at-least", "1", "-a", "echo one", "-b", "echo 1"]),
        (1, ["--quick", "--at-least", "1", "-a", "exit 4", "-b", "echo 1"]),
        (1, ["--quick", "--at-least", "1", "-a", "echo 1", "-b", "echo 0"]),
        (2, ["-a", "echo 1", "-b", "echo 0"]),
        (2, ["--at-least", "1", "--at-most", "1", "-a", "echo 1"]),
    ]
    for status, argv in cases:
        done = command("ratio", *argv)
        assert done.returncode == status, (argv, done)
    done = command("ratio", "--json", *cases[0][1])
    assert json.loads(done.stdout)["median"] == 0.95, done


def the_polling_benchmark_runs():
    with tempfile.TemporaryDirectory() as top:
        rows = os.path.join(top, "rows")
        done = command("polling", "--quick", "--dir", top, "--json", rows)
        assert done.returncode == 0 and not done.stderr, done
        with open(rows) as f:
            rows = [json.loads(line) for line in f]
        assert os.listdir(top) == ["rows"], os.listdir(top)
    assert {r["claim"][0] for r in rows} == set("456789"), rows
    for r in rows:
        assert r["verdict"] in (ratio.RAN, "not measured"), r
        assert r["verdict"] != ratio.RAN or r["median"] is not None, r
        assert r["claim"] in done.stdout, r
    assert sum(r["verdict"] == ratio.RAN for r in rows) >= 30, rows
    assert command("polling", "--lines", "3").returncode == 2


def the_alignment_experiment_runs():
    with tempfile.TemporaryDirectory() as top:
        done = command("alignment", "--quick", "--dir", top)
        assert done.returncode == 0 and not done.stderr, done
        assert os.listdir(top) == [], os.listdir(top)
    lines = done.stdout.splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) == 6 + 6 + 14, done.stdout
    assert not any("not measured" in line for line in tables), done.stdout


TESTS = [
    a_clear_claim_takes_15_pairs,
    a_miss_within_the_noise_and_2_percent_holds,
    what_stays_unclear_ends_after_60_pairs,
    the_order_is_a_b_b_a,
    a_disturbed_pair_is_redrawn_and_counted,
    it_gives_up_where_no_pair_counts,
    it_ends_on_a_machine_that_is_never_quiet,
    a_claim_of_too_few_pairs_is_undecided,
    a_short_sample_is_refused,
    one_figure_can_be_judged_alone,
    claims_share_their_samples,
    the_interval_covers_what_it_says,
    others_are_seen_and_our_own_are_not,
    a_process_that_works_gets_more_ticks,
    what_others_use_is_in_cpus,
    the_program_tells_by_its_exit_status,
    the_polling_benchmark_runs,
    the_alignment_experiment_runs,
]

if __name__ == "__main__":
    sys.exit(run(TESTS))
