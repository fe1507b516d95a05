# PYTHONMALLOC=malloc sends every object to malloc instead of python's own arenas.
packages=python3
needs=/usr/bin/python3
maps=python3

measure() {
    for how in pymalloc malloc; do
        PYTHONMALLOC=$how PYTHONHASHSEED=0 /usr/bin/python3 - <<'PY'
import collections, gc, hashlib, json, os, pickle, random, re, subprocess, sys, threading, zlib
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

random.seed(42)
words = ["".join(random.choices("abcdefghijkl", k=random.randint(1, 40))) for _ in range(60000)]
table = collections.defaultdict(list)
for i, w in enumerate(words):
    table[w[:2]].append({"n": i, "word": w, "half": i / 2})
text = json.dumps(table, sort_keys=True)
assert json.loads(text) == table
print(len(text), hashlib.md5(text.encode()).hexdigest())
blob = pickle.dumps(table)
print(len(pickle.loads(zlib.decompress(zlib.compress(blob, 6)))))
print(len(re.findall(r"a[b-f]{3}k", " ".join(words))))

buffer = bytearray()
for i in range(4000):
    buffer += bytes([i % 251]) * (i % 3000)
print(len(buffer), hashlib.md5(buffer).hexdigest())

def work(seed):
    r = random.Random(seed)
    kept = []
    for _ in range(20000):
        kept.append("x" * r.randint(1, 500))
        if len(kept) > 500:
            del kept[r.randrange(len(kept))]
    return sum(map(len, kept))

with ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(work, range(8))))
with get_context("fork").Pool(3) as pool:
    print(sum(pool.map(work, range(6))))
class Node:
    pass
for _ in range(20000):
    a, b = Node(), Node()
    a.other, b.other = b, a
del a, b
print(gc.collect() > 0)
threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
out = subprocess.run([sys.executable, "-c", "print('child', sum(range(100000)))"], capture_output=True, text=True)
print(out.stdout.strip(), out.returncode, out.stderr)
PY
    done
    # Real services call malloc_trim and similar functions through ctypes.
    /usr/bin/python3 -c '
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.malloc_usable_size.argtypes = [ctypes.c_void_p]
p = libc.malloc(1000)
print(libc.malloc_usable_size(p) >= 1000)
libc.free(p)
print(libc.malloc_trim(0) in (0, 1))'
}
