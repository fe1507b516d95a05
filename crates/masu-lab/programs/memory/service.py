"""A service: four threads answer requests from a cache that turns over, then the cache goes."""
import json
import random
import sys
import threading
import time


def mark(verb, name):
    print(verb, name, flush=True)
    sys.stdin.readline()


def serve(number, cache, steps):
    chance = random.Random(number)
    for step in range(steps):
        rows = [{"id": n, "text": "x" * chance.randrange(40, 1500), "tags": list(range(n % 7))} for n in range(30)]
        body = json.dumps(rows).encode()
        answer = json.loads(body)
        key = chance.randrange(700)
        cache[key] = {"body": body, "index": {row["id"]: row["text"].upper() for row in answer}}
        if step % 3 == 0:
            cache.pop(chance.randrange(700), None)
        if step % 50 == 0:
            # A large answer: one buffer that grows, and its compressed-looking copy.
            bytes(bytearray().join(entry["body"] for entry in list(cache.values())[:60]))


caches = [{} for _ in range(4)]
begun, used = time.monotonic(), time.process_time()
threads = [threading.Thread(target=serve, args=(n, cache, 1500)) for n, cache in enumerate(caches)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("figure seconds", time.monotonic() - begun)
print("figure processor", time.process_time() - used)
mark("mark", "serving")
for cache in caches:
    cache.clear()
mark("mark", "dropped")
mark("rest", "idle")
