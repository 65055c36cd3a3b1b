#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Judge a claim about two measurements, "A is at least 0.95 of B".

A and B are measured in pairs, in the order A-B-B-A, at least half a second
each, so that whatever drifts meets both alike.  What counts is the median of
the pairs' ratios and its bootstrap interval of 95 %.  A pair during which
other processes used more than 4 % of a CPU is drawn again and counted.

  HOLDS      the interval's favourable end reaches the target, and the median
             misses it by less than 2 %
  FAILS      the whole interval misses the target
  UNDECIDED  neither, after 60 pairs, when the time is over, or when the machine
             is so busy that 30 pairs in a row do not count

Absolute figures are never judged, unless the claim is one: then B is left out.
Knows nothing of disks.  As a program it runs two commands that print a figure
each; others import it and bring functions.
"""

import argparse
import collections
import json
import os
import random
import statistics
import subprocess
import sys
import time

PAIRS = 15
PAIRS_MAX = 60
SAMPLE_S = 0.5
OTHERS = 0.04  # of one CPU
DISTURBED = 30  # pairs in a row, and there is no point in going on
TOLERANCE = 0.02  # by which a median may miss
RESAMPLES = 2000
TIME_LIMIT_S = 300.0
KTHREADD = 2  # the parent of kernel threads

HOLDS, FAILS, UNDECIDED, RAN = "HOLDS", "FAILS", "UNDECIDED", "ran"
AT_LEAST, AT_MOST = ">=", "<="
EXIT_FAILS, EXIT_MISUSE, EXIT_UNDECIDED = 1, 2, 3

# key: of the figure, where a sample is a dictionary of several
Claim = collections.namedtuple("Claim", "name sense target key", defaults=(None,))
Result = collections.namedtuple(
    "Result", "claim verdict median low high pairs redrawn others a b"
)
Limits = collections.namedtuple(
    "Limits",
    "pairs pairs_max sample_s others time_s judged",
    defaults=(PAIRS, PAIRS_MAX, SAMPLE_S, OTHERS, TIME_LIMIT_S, True),
)
QUICK = Limits(pairs=1, pairs_max=1, sample_s=0, others=float("inf"), judged=False)


class Unusable(Exception):
    """A sample that cannot be judged; the message says why."""


# ---------------------------------------------------------------- statistics


def bootstrap(ratios, seed=1, resamples=RESAMPLES):
    """The interval that holds 95 % of the medians of resampled @ratios."""
    dice = random.Random(seed)
    medians = sorted(
        statistics.median(dice.choices(ratios, k=len(ratios)))
        for _ in range(resamples)
    )
    return (
        medians[int(0.025 * (resamples - 1))],
        medians[int(0.975 * (resamples - 1) + 0.5)],
    )


def verdict(claim, median, low, high):
    """HOLDS, FAILS, or UNDECIDED: more pairs may help."""
    if claim.sense == AT_LEAST:
        reaches = high >= claim.target
        missed = claim.target - median
    else:
        reaches = low <= claim.target
        missed = median - claim.target
    if not reaches:
        return FAILS
    return HOLDS if missed < TOLERANCE * claim.target else UNDECIDED


# ---------------------------------------------------------------- who else


def read_stat(pid):
    """(parent, ticks) of a process and of the children that it has reaped."""
    try:
        with open("/proc/%s/stat" % pid, "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
    except OSError:
        return None  # gone meanwhile
    return int(fields[1]), sum(int(n) for n in fields[11:15])


class Others:
    """
    The CPU that processes other than ours use, in CPUs.

    Ours are this one, those in @pids (a daemon is nobody's child), and their
    descendants.  All others are added up from /proc/PID/stat.  The sum of
    /proc/stat less our own would be one file, but where ticks account for the
    time it is a sample, and off by more than the 4 % that matter, most of all
    when we sleep and wake in step with the tick.  Kernel threads are left out:
    what they do is mostly our own I/O.
    """

    def __init__(self, pids=()):
        self.pids = pids
        self.tick_hz = os.sysconf("SC_CLK_TCK")
        self.mark()

    def mark(self):
        self.at, self.ticks = time.monotonic(), self.sum()

    def used(self):
        """Since the last mark."""
        elapsed = time.monotonic() - self.at
        return (self.sum() - self.ticks) / self.tick_hz / elapsed

    def sum(self):
        return ticks_of_others(processes(), {os.getpid(), *self.pids})


def processes():
    """{pid: what read_stat says} of all that live."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    stats = {pid: read_stat(pid) for pid in pids}
    return {pid: stat for pid, stat in stats.items() if stat}


def ticks_of_others(stats, ours):
    """Of those in @stats that neither are nor descend from @ours or the kernel."""
    roots = {KTHREADD, *ours}
    return sum(
        ticks for pid, (_, ticks) in stats.items() if not descends(pid, roots, stats)
    )


def descends(pid, roots, stats):
    while pid not in roots:
        if pid not in stats:
            return False
        pid = stats[pid][0]
    return True


# ---------------------------------------------------------------- drawing


def draw(sample, limits):
    start = time.monotonic()
    value = sample()
    elapsed = time.monotonic() - start
    if elapsed < limits.sample_s:
        raise Unusable(
            "a sample of %.2f s; at least %.2f are needed"
            % (elapsed, limits.sample_s)
        )
    return value


def figure(value, claim):
    number = value if claim.key is None else value[claim.key]
    if not isinstance(number, (int, float)) or not 0 <= number < float("inf"):
        raise Unusable("%s: not a figure: %r" % (claim.name, number))
    return number


def ratio_of(claim, a, b):
    over = figure(a, claim)
    under = 1 if b is None else figure(b, claim)
    if not under:
        raise Unusable("%s: B is 0" % claim.name)
    return over / under


class Pairs:
    """Those that count, and how many did not."""

    def __init__(self, a, b, others, limits):
        self.a, self.b, self.others, self.limits = a, b, others, limits
        self.values = []
        self.redrawn = self.in_a_row = 0
        self.used = []  # by others, in those that count

    def draw(self):
        """One more that may count.  The order changes only when it does."""
        a_first = len(self.values) % 2 == 0
        self.others.mark()
        if self.b is None:
            pair = draw(self.a, self.limits), None
        elif a_first:
            pair = draw(self.a, self.limits), draw(self.b, self.limits)
        else:
            b = draw(self.b, self.limits)
            pair = draw(self.a, self.limits), b
        used = self.others.used()
        if used > self.limits.others:
            self.redrawn += 1
            self.in_a_row += 1
            return
        self.in_a_row = 0
        self.values.append(pair)
        self.used.append(used)


def result_of(claim, pairs):
    if not pairs.values:
        nothing = float("nan")
        return Result(
            claim, UNDECIDED, nothing, nothing, nothing, 0, pairs.redrawn,
            nothing, nothing, nothing,
        )
    ratios = [ratio_of(claim, a, b) for a, b in pairs.values]
    median = statistics.median(ratios)
    low, high = bootstrap(ratios)
    if not pairs.limits.judged:
        said = RAN
    elif len(ratios) < pairs.limits.pairs:
        said = UNDECIDED
    else:
        said = verdict(claim, median, low, high)
    return Result(
        claim, said, median, low, high, len(ratios), pairs.redrawn,
        statistics.mean(pairs.used),
        statistics.median(figure(a, claim) for a, _ in pairs.values),
        None
        if pairs.b is None
        else statistics.median(figure(b, claim) for _, b in pairs.values),
    )


def judge(claims, a, b=None, own=(), limits=Limits(), others=None):
    """
    Draw pairs until each of @claims is decided, and return a Result for each.

    @a and @b are called without arguments and return a figure, or a dictionary
    with the keys of the claims; without @b the figures themselves are judged.
    @own: processes beside this one whose CPU is ours.  Raises Unusable, and
    what they raise.

    Looks at the verdicts after 15 pairs, 30, 45 and 60: each look is a chance
    to be wrong.
    """
    pairs = Pairs(a, b, others or Others(own), limits)
    end = time.monotonic() + limits.time_s

    def over():
        return pairs.in_a_row >= DISTURBED or time.monotonic() >= end

    while True:
        wanted = min(len(pairs.values) + limits.pairs, limits.pairs_max)
        while len(pairs.values) < wanted and not over():
            pairs.draw()
        results = [result_of(claim, pairs) for claim in claims]
        if len(pairs.values) >= limits.pairs_max or over():
            return results
        if all(r.verdict != UNDECIDED for r in results):
            return results


# ---------------------------------------------------------------- printing

HEADER = "%-54s %8s %17s %9s  %-9s %5s %7s" % (
    "claim", "median", "interval", "target", "verdict", "pairs", "redrawn",
)


def row(r):
    return "%-54s %8.4g %17s %9s  %-9s %5d %7d" % (
        r.claim.name,
        r.median,
        "[%.4g, %.4g]" % (r.low, r.high) if r.pairs else "-",
        "%s %.4g" % (r.claim.sense, r.claim.target),
        r.verdict,
        r.pairs,
        r.redrawn,
    )


def as_json(r):
    fields = dict(r._asdict(), claim=r.claim.name, sense=r.claim.sense)
    fields.update(target=r.claim.target)
    return {k: None if v != v else v for k, v in fields.items()}


# ---------------------------------------------------------------- the program


def last_figure(command, key):
    """What @command prints in its last line: a number, or JSON with @key."""

    def sample():
        done = subprocess.run(
            command, shell=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True,
        )
        if done.returncode:
            raise Unusable("%s: exit status %d" % (command, done.returncode))
        lines = done.stdout.strip().splitlines()
        try:
            value = json.loads(lines[-1])
            for part in key.split(".") if key else ():
                value = value[part]
        except (IndexError, KeyError, TypeError, ValueError):
            raise Unusable("%s: its last line has no figure" % command) from None
        return value

    return sample


def parse_arguments(argv):
    parser = argparse.ArgumentParser(
        prog="ratio",
        description="Judge a claim about the figures that two commands print "
        "in their last lines.  Exit status: 0 it holds, 1 it fails or cannot "
        "be measured, 3 undecided, 2 misuse.",
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--at-least", type=float, metavar="R", help="A/B >= R")
    target.add_argument("--at-most", type=float, metavar="R", help="A/B <= R")
    parser.add_argument("-a", metavar="COMMAND", required=True)
    parser.add_argument(
        "-b", metavar="COMMAND", help="without it R is for A's figure itself"
    )
    parser.add_argument(
        "--key", help="of the figure in a line of JSON, such as lat_us.p50"
    )
    parser.add_argument("--name", default="A/B", help="of the claim")
    parser.add_argument(
        "--own", type=int, action="append", default=[], metavar="PID",
        help="its CPU is not that of others; may be repeated",
    )
    parser.add_argument(
        "--time-limit", type=float, default=TIME_LIMIT_S, metavar="S",
        help="draw no more pairs after that (%(default)g)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="one pair, no verdict"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    if args.at_least is not None:
        claim = Claim(args.name, AT_LEAST, args.at_least)
    else:
        claim = Claim(args.name, AT_MOST, args.at_most)
    try:
        (result,) = judge(
            [claim],
            last_figure(args.a, args.key),
            last_figure(args.b, args.key) if args.b else None,
            own=args.own,
            limits=QUICK if args.quick else Limits(time_s=args.time_limit),
        )
    except Unusable as error:
        print("ratio: %s" % error, file=sys.stderr)
        return EXIT_FAILS
    if args.json:
        print(json.dumps(as_json(result)))
    else:
        print(HEADER)
        print(row(result))
    return {FAILS: EXIT_FAILS, UNDECIDED: EXIT_UNDECIDED}.get(result.verdict, 0)


if __name__ == "__main__":
    sys.exit(main())
