"""Repeatedly loads and unloads a library that has its own allocator, on threads that
outlive it, and in forked children. Prints `ok` at the end."""

import _ctypes
import ctypes
import gc
import os
import sys
import threading

path, cycles = sys.argv[1], int(sys.argv[2])


def use(seed):
    library = ctypes.CDLL(path)
    assert library.work(seed) == 500
    library.allocated.restype = ctypes.c_size_t
    assert library.allocated() > 0
    handle = library._handle
    del library
    gc.collect()
    _ctypes.dlclose(handle)


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def mappings():
    with open("/proc/self/maps") as maps:
        return len(maps.readlines())


for seed in range(10):
    use(seed)
before = resident(), mappings()
for seed in range(cycles):
    use(seed)
after = resident(), mappings()
assert after[0] - before[0] < 4 << 20, (before, after)
assert after[1] - before[1] < 8, (before, after)

# Threads that used the library end after it was unloaded, so its hooks run then.
gate = threading.Event()


def outlive(seed):
    use(seed)
    gate.wait()


threads = [threading.Thread(target=outlive, args=(seed,)) for seed in range(8)]
for thread in threads:
    thread.start()
gate.set()
for thread in threads:
    thread.join()

library = ctypes.CDLL(path)
assert library.work_on_threads(3) == 1000
stop = threading.Event()


def churn():
    while not stop.is_set():
        library.work(5)


threads = [threading.Thread(target=churn) for _ in range(2)]
for thread in threads:
    thread.start()
for child in range(20):
    pid = os.fork()
    if pid == 0:
        done = library.work(child) == 500 and library.work_on_threads(child) == 1000
        os._exit(0 if done else 1)
    assert os.waitpid(pid, 0)[1] == 0, child
stop.set()
for thread in threads:
    thread.join()
print("ok")
