#!/usr/bin/env python3
"""Pages that real programs touch on builds of the library.

    docs/experiments/small_programs.py A.so B.so...

Counts every page that the kernel put in place, by a fault or by MADV_POPULATE_WRITE: `ru_minflt`.
Without huge pages, one of which counts as one. Medians over seven rounds, the arms in turns.
"""

import os
import statistics
import sys

ROUNDS = 7
PERL = "my %h = map { $_ => [$_, \"v$_\"] } 1 .. "
PYTHON = "d = {str(i): [i, (i, str(i) * 3)] for i in range(200000)}"
PROGRAMS = {
    "ls -l /usr/bin": ["ls", "-l", "/usr/bin"],
    "git log --stat": ["git", "log", "-n200", "--stat"],
    "python3, three imports": ["python3", "-I", "-c", "import json, re, argparse"],
    "perl, a hash of 20,000 pairs": ["perl", "-e", PERL + "20000;"],
    "perl, 300,000": ["perl", "-e", PERL + "300000;"],
    "python3 without its own allocator, a dict of 200,000": [
        "env", "PYTHONMALLOC=malloc", "python3", "-I", "-c", PYTHON],
}


def pages(library, command):
    """Runs a program once."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    argv = ["env", "LD_PRELOAD=" + os.path.abspath(library), "MASU_HUGE_PAGES=0", *command]
    pid = os.posix_spawnp("env", argv, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{library}: {command} ended with status {status}")
    return usage.ru_minflt


def main():
    libraries = sys.argv[1:]
    if not libraries:
        sys.exit(__doc__)
    names = [os.path.basename(l).removesuffix(".so").removeprefix("exp-") for l in libraries]
    print("| program | " + " | ".join(names) + " |")
    print("|---|" + "---:|" * len(names))
    for title, command in PROGRAMS.items():
        counts = [[] for _ in libraries]
        for _ in range(ROUNDS):
            for library, count in zip(libraries, counts):
                count.append(pages(library, command))
        print(f"| {title} | " + " | ".join(f"{statistics.median(c):,.0f}" for c in counts) + " |")


if __name__ == "__main__":
    main()
