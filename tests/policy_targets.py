#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
What the polling policy promises in simulation, and what it reaches.

usage: tests/policy_targets.py [--limits] [SEEDS]

Runs polling-sim over 18 settings and SEEDS seeds (default 3), and prints what
was reached by setting, then each target.  With --limits prints the lines of
tests/policy-limits instead.  Exit status 1 if a target is missed.
"""

import json
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
SIM = os.path.join(BUILD, "bin", "polling-sim")

W0S_US, BETAS, RHOS = (35, 10), (1, 0.2, 0.05), (0, 0.3, 1)
SETTINGS = [(w, b, r) for w in W0S_US for b in BETAS for r in RHOS]
FIRST_SEED = 1001
CORE_TRACES = 27
SHIFTING = ("regimes", "regimes-fast", "drift")
ORACLES = ("best-static", "clairvoyant")
# Of a setting: the numbers of a line of tests/policy-limits.
FIGURES = ("geo", "worst", "static", "event", "over2", "adversary")


def geo(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def simulate(setting, seed, trace="all", policy="all"):
    """{(trace, policy): line}"""
    w0_us, beta, rho = setting
    command = [SIM, "--json", "--trace", trace, "--policy", policy]
    command += ["--seed", str(seed), "--w0-us", str(w0_us)]
    command += ["--beta", str(beta), "--rho", str(rho)]
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    lines = [json.loads(line) for line in out.stdout.splitlines()]
    return {(line["trace"], line["policy"]): line for line in lines}


def ratio(line):
    return line["cost_ns"] / line["cost_clairvoyant_ns"]


class Reached:
    """Of one setting, over every trace and seed."""

    def __init__(self, setting, seeds):
        self.setting = setting
        runs = [simulate(setting, seed) for seed in seeds]
        policies = [p for t, p in runs[0] if t == "adversary"]
        names = [t for t, p in runs[0] if p == "adaptive"]
        names.remove("adversary")
        assert len(names) == CORE_TRACES, names
        pairs = [(run, name) for run in runs for name in names]
        mine = [(ratio(run[n, "adaptive"]), n) for run, n in pairs]
        self.pairs = len(pairs)
        self.geo = geo(r for r, _ in mine)
        self.worst, self.worst_trace = max(mine)
        self.over2 = sum(r > 2 for r, _ in mine)
        self.static, self.static_trace = self.against(
            "best-static", "cost_ns", [p for p in pairs if p[1] not in SHIFTING]
        )
        self.event, self.event_trace = self.against(
            "event", "late_cost_ns", pairs
        )
        self.over_event = sum(
            run[n, "adaptive"]["late_cost_ns"]
            > 1.03 * run[n, "event"]["late_cost_ns"]
            for run, n in pairs
        )
        self.adversary = max(ratio(run["adversary", "adaptive"]) for run in runs)
        self.rival_geo, self.rival = min(
            (geo(ratio(run[n, p]) for run, n in pairs), p)
            for p in policies
            if p != "adaptive" and p not in ORACLES
        )

    @staticmethod
    def against(policy, key, pairs):
        return max(
            (run[n, "adaptive"][key] / run[n, policy][key], n)
            for run, n in pairs
        )

    @property
    def consistent(self):
        """Contention does not exceed the price."""
        return self.setting[2] <= self.setting[1]

    def figures(self):
        return {name: getattr(self, name) for name in FIGURES}

    def line(self):
        return (
            "%2g %4g %3g | %5.3f | %5.3f %-12s | %4.2f %-14s | %2d/%d | "
            "%4.2f %-14s | %5.3f %-14s %d | %5.2f"
            % (
                *self.setting,
                self.geo,
                self.rival_geo,
                self.rival,
                self.worst,
                self.worst_trace,
                self.over2,
                self.pairs,
                self.static,
                self.static_trace,
                self.event,
                self.event_trace,
                self.over_event,
                self.adversary,
            )
        )


HEADING = (
    "w0 beta rho |   geo |  best rival         | worst               | >2.0 "
    "| vs best static      | vs event mode        >3% | adversary"
)


class Target:
    """@reached is the worst of the settings that the target is about."""

    def __init__(self, text, limit, reached):
        self.text, self.limit, self.reached = text, limit, reached

    @property
    def holds(self):
        return self.reached <= self.limit

    def __str__(self):
        return "%-5s  %-56s at most %-6g reached %.4g" % (
            "holds" if self.holds else "MISSED",
            self.text,
            self.limit,
            self.reached,
        )


def targets(all_reached):
    inside = [r for r in all_reached if r.consistent]
    outside = [r for r in all_reached if not r.consistent]
    pairs = sum(r.pairs for r in all_reached)

    no_rho = max(r.adversary for r in all_reached if r.setting[2] == 0)
    shared = max(
        r.adversary for r in all_reached if r.setting[1:] == (1, 0.3)
    )
    out = [
        ("rho <= beta: geometric mean", 1.2, max(r.geo for r in inside)),
        ("rho <= beta: worst", 2.0, max(r.worst for r in inside)),
        (
            "rho <= beta: against best static, but for shifting",
            1.2,
            max(r.static for r in inside),
        ),
        ("rho > beta: geometric mean", 1.35, max(r.geo for r in outside)),
        (
            "rho > beta: % of pairs above 2.0",
            5,
            100
            * sum(r.over2 for r in outside)
            / sum(r.pairs for r in outside),
        ),
        ("adversary at rho 0", 3, no_rho),
        ("adversary at price 1, rho 0.3", 3.5, shared),
        (
            "geometric mean against the best rival's",
            1,
            max(r.geo / r.rival_geo for r in all_reached),
        ),
        (
            "% of pairs above event mode + 3 %",
            0.5,
            100 * sum(r.over_event for r in all_reached) / pairs,
        ),
        (
            "rho <= beta: against event mode",
            1.06,
            max(r.event for r in inside),
        ),
    ]
    return [Target(*t) for t in out]


def limits(all_reached):
    """Rounded up: another libm may round a gap differently."""
    lines = []
    for r in all_reached:
        words = ["%g" % x for x in r.setting]
        for name, value in r.figures().items():
            if name == "over2":
                words.append("%d" % value)
            else:
                words.append("%.2f" % (math.ceil(value * 100 + 0.2) / 100))
        lines.append(" ".join(words))
    return lines


def read_limits(path):
    """{setting: {figure: limit}}"""
    out = {}
    with open(path) as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                values = [float(w) for w in words]
                out[tuple(values[:3])] = dict(zip(FIGURES, values[3:]))
    return out


def main(arguments):
    as_limits = "--limits" in arguments
    numbers = [a for a in arguments if a != "--limits"]
    seeds = range(FIRST_SEED, FIRST_SEED + int((numbers or ["3"])[0]))
    all_reached = []
    if not as_limits:
        print("seeds %d to %d\n%s" % (seeds[0], seeds[-1], HEADING))
    for setting in SETTINGS:
        all_reached.append(Reached(setting, seeds))
        if not as_limits:
            print(all_reached[-1].line(), flush=True)
    if as_limits:
        print("\n".join(limits(all_reached)))
        return 0
    print()
    judged = targets(all_reached)
    for target in judged:
        print(target)
    return 0 if all(t.holds for t in judged) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
