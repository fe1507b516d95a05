# Says each moment on a line. At the first and the last it waits for an answer; at the second it works until one comes.
import json
import select
import sys
import threading


def moment(name):
    print(name, flush=True)


def documents(count):
    return [json.loads(json.dumps({"id": i, "tags": [str(j) for j in range(i % 20)]})) for i in range(count)]


def serve(kept, end):
    turn = 0
    while not end.is_set():
        turn += 1
        kept[turn % 50] = documents(turn % 400)


moment("start")
sys.stdin.readline()
kept, end = {}, threading.Event()
threads = [threading.Thread(target=serve, args=(kept, end)) for _ in range(4)]
for thread in threads:
    thread.start()
moment("load")
select.select([sys.stdin], [], [])
sys.stdin.readline()
end.set()
for thread in threads:
    thread.join()
for key in list(kept)[10:]:
    del kept[key]
moment("rest")
sys.stdin.readline()
