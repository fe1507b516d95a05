"""Work on Arrow tables: prints a line `metric NAME VALUE` for each kind, times in milliseconds.

The first argument scales the amounts; 1 is a bit more than a gigabyte in all.
"""

import io
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

SCALE = float(sys.argv[1])
ROWS = int(4_000_000 * SCALE)
REPETITIONS = 3
random = np.random.default_rng(1)


def builders():
    """Growing buffers: a sink that is written to in small pieces, and arrays of strings."""
    piece = b"x" * 8192
    sink = pa.BufferOutputStream()
    for _ in range(int(32_768 * SCALE)):
        sink.write(piece)
    assert sink.getvalue().size == int(32_768 * SCALE) * 8192
    words = [f"word{i % 1000}" for i in range(200_000)]
    for _ in range(4):
        assert len(pa.array(words)) == 200_000


def table():
    keys = random.integers(0, 1000, ROWS)
    return pa.table({
        "key": keys,
        "value": random.random(ROWS),
        "count": random.integers(0, 1 << 40, ROWS),
        "name": pc.take(pa.array([f"name-{i}" for i in range(1000)]), pa.array(keys)),
    })


def main():
    print("pool", pa.default_memory_pool().backend_name)
    data = table()
    as_csv = io.BytesIO()
    csv.write_csv(data.slice(0, ROWS // 4), as_csv)
    as_parquet = io.BytesIO()
    parquet.write_table(data, as_parquet)
    right = pa.table({"key": np.arange(1000), "label": [f"label {i}" for i in range(1000)]})

    def read_csv():
        as_csv.seek(0)
        assert csv.read_csv(as_csv).num_rows == ROWS // 4

    def read_parquet():
        as_parquet.seek(0)
        assert parquet.read_table(as_parquet).num_rows == ROWS

    def compute():
        total = pc.add(data["value"], pc.multiply(data["value"], 2.0))
        pc.filter(data["count"], pc.greater(total, 1.5))
        pc.sort_indices(data["value"].slice(0, ROWS // 4))

    def concat():
        pa.concat_tables([data] * 4).combine_chunks()

    def groupby():
        data.group_by("name").aggregate([("value", "mean"), ("count", "max")])

    def join():
        assert data.join(right, "key").num_rows == ROWS

    works = [builders, read_csv, read_parquet, compute, concat, groupby, join]
    total = 0
    for work in works:
        times = []
        for _ in range(REPETITIONS):
            start = time.perf_counter()
            work()
            times.append((time.perf_counter() - start) * 1000)
        total += sum(times)
        print(f"metric {work.__name__} ms {sorted(times)[len(times) // 2]:.3f}")
    print(f"metric total ms {total:.3f}")
    with open("/proc/self/status") as status:
        peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    print(f"metric peak MiB {int(peak) / 1024:.1f}")


main()
