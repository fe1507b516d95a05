#!/usr/bin/env python3
"""Runs workloads of masu-work on builds of the library, in turns, and compares them.

    docs/experiments/compare.py A.so B.so WORKLOAD...
    docs/experiments/compare.py A.so A.so A.so,MASU_DECAY=100ms churn server

An arm is a library, with settings behind commas; the first is the base, and every workload runs on
all arms once per round, in an order that moves on by one each round. Name the base twice to see the
noise. Figures are medians over the rounds; a change marked "~" is one where the ranges of the two
arms, from the least to the greatest figure, overlap.

Instructions, faults and CPU time come from `perf stat`, peak and settled memory from masu-work.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

EVENTS = {"instructions:u": "instructions", "minor-faults": "faults", "task-clock": "cpu"}
METRICS = [
    ("cpu", "CPU ms", 1),
    ("instructions", "instructions M", 1e6),
    ("faults", "faults", 1),
    ("peak_kib", "peak MiB", 1024),
    ("settled_kib", "settled MiB", 1024),
]


def run(work, arm, workload, seed, scale):
    """One run: metric to figure."""
    library, *settings = arm.split(",")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MASU_")}
    environment.update(s.split("=", 1) for s in settings)
    environment["LD_PRELOAD"] = os.path.abspath(library)
    with tempfile.NamedTemporaryFile("r") as counts:
        command = ["perf", "stat", "-x", ",", "-o", counts.name, "-e", ",".join(EVENTS)]
        command += ["--", work, "run", workload, str(seed), str(scale)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0 or done.stderr:
            sys.exit(f"{arm} {workload}: exit code {done.returncode}\n{done.stderr}")
        lines = [line.split(",") for line in counts.read().splitlines()]
    figures = {EVENTS[f[2]]: float(f[0]) for f in lines if len(f) > 2 and f[2] in EVENTS}
    reported = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    if os.path.realpath(reported["allocator"]) != os.path.realpath(library):
        sys.exit(f"{workload} did not run on {library} but on {reported['allocator']}")
    figures.update((k, float(v)) for k, v in reported.items() if k.endswith("_kib"))
    return figures, reported["checksum"]


def cell(base, these, unit):
    """An arm's median, and its change against the base's."""
    median, base_median = statistics.median(these), statistics.median(base)
    text = f"{median / unit:,.0f}" if median / unit >= 1000 else f"{median / unit:.1f}"
    if these is base or not base_median:
        return text
    overlap = min(these) <= max(base) and min(base) <= max(these)
    return f"{text} ({(median / base_median - 1) * 100:+.1f} %{' ~' if overlap else ''})"


def label(index, arm, arms):
    """What the tables call an arm."""
    library, *settings = arm.split(",")
    name = os.path.basename(library).removesuffix(".so").removeprefix("exp-")
    name = " ".join([name, *(s.removeprefix("MASU_").lower() for s in settings)])
    return name + " again" if arm in arms[:index] else name


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--work", default="target/release/masu-work", help="the masu-work binary")
    parser.add_argument("--json", help="write every figure of every run to this file")
    parser.add_argument("names", nargs="+", metavar="ARM|WORKLOAD", help="an arm contains '.so'")
    options = parser.parse_args()
    arms = [n for n in options.names if ".so" in n]
    workloads = [n for n in options.names if ".so" not in n]
    if len(arms) < 2 or not workloads:
        parser.error("at least two arms and a workload")

    labels = [label(i, arm, arms) for i, arm in enumerate(arms)]
    raw = {}
    print("| workload | arm | " + " | ".join(title for _, title, _ in METRICS) + " |")
    print("|---|---|" + "---:|" * len(METRICS))
    for workload in workloads:
        runs = [{} for _ in arms]
        checksums = set()
        for turn in range(options.rounds):
            for i in range(len(arms)):
                i = (i + turn) % len(arms)
                figures, checksum = run(
                    options.work, arms[i], workload, options.seed, options.scale)
                checksums.add(checksum)
                for metric, value in figures.items():
                    runs[i].setdefault(metric, []).append(value)
        if len(checksums) != 1:
            sys.exit(f"{workload}: the arms computed different things")
        for i, name in enumerate(labels):
            cells = [
                cell(runs[0][m], runs[i][m], unit) if m in runs[i] else "" for m, _, unit in METRICS]
            print(f"| {workload} | {name} | " + " | ".join(cells) + " |", flush=True)
        raw[workload] = dict(zip(labels, runs))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(raw, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
