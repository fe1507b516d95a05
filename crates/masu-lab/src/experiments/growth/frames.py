"""numpy and pandas on arrays that grow: prints a line `metric NAME VALUE` for each kind of work."""

import sys
import time

import numpy as np
import pandas as pd

SCALE = float(sys.argv[1])
REPETITIONS = 3


def resize():
    """An array grown in place by its own resize, doubling."""
    array = np.zeros(16_384)
    while array.size < int(16_000_000 * SCALE):
        old = array.size
        array.resize(old * 2, refcheck=False)
        array[old:] = 1.0
    assert array[-1] == 1.0


def append():
    """A new array for every piece, as people write it."""
    array = np.empty(0)
    piece = np.ones(int(100_000 * SCALE))
    for _ in range(60):
        array = np.concatenate([array, piece])
    assert array.sum() == 60 * piece.size


def temporaries():
    a = np.ones(int(4_000_000 * SCALE))
    for _ in range(8):
        a = a * 0.5 + a * 0.5
    assert a[0] == 1.0


def frames():
    pieces = [
        pd.DataFrame({"k": np.arange(50_000) % 97, "v": np.ones(50_000), "w": np.arange(50_000)})
        for _ in range(max(1, int(40 * SCALE)))
    ]
    whole = pd.concat(pieces, ignore_index=True)
    grouped = whole.groupby("k").sum()
    assert grouped["v"].sum() == len(whole)
    merged = whole.merge(grouped, left_on="k", right_index=True)
    assert len(merged) == len(whole)


def growing_frame():
    frame = pd.DataFrame({"a": np.arange(1000)})
    for i in range(40):
        frame[f"c{i}"] = np.arange(1000) * i
    for _ in range(8):
        frame = pd.concat([frame, frame], ignore_index=True)
    assert len(frame) == 256_000


for work in [resize, append, temporaries, frames, growing_frame]:
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    print(f"metric {work.__name__} ms {sorted(times)[len(times) // 2]:.3f}")
with open("/proc/self/status") as status:
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
print(f"metric peak MiB {int(peak) / 1024:.1f}")
