"""A service in Python: items as JSON, for gunicorn (`wsgi`) and for uvicorn (`asgi`)."""
import json
import threading
import zlib
from urllib.parse import parse_qs

LOCK = threading.Lock()
CACHE = {}
ITEMS = {
    number: {"id": number, "tags": ["a", f"b{number % 7}"], "text": f"word{number % 97} " * (1 + number * 7919 % 400)}
    for number in range(2000)
}


def get(path, query):
    parts = path.split("/")
    if parts[1] == "buffer":
        return b"x" * min(int(query["size"][0]), 1 << 20)
    if len(parts) > 2:
        return json.dumps(ITEMS[int(parts[2]) % 2000]).encode()
    first = 20 * int(query["page"][0])
    found = [ITEMS[(first + at) % 2000] for at in range(20)]
    return json.dumps([{**item, "words": len(item["text"].split())} for item in found]).encode()


def post(body):
    item = json.loads(body)
    packed = zlib.compress(body, 1)
    with LOCK:
        ITEMS[item["id"] % 2000] = item
        CACHE[item["id"] % 1200] = (body, packed)
    return json.dumps({"id": item["id"], "packed": len(packed)}).encode()


def wsgi(environ, start_response):
    if environ["REQUEST_METHOD"] == "POST":
        status, body = "201 Created", post(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    else:
        status, body = "200 OK", get(environ["PATH_INFO"], parse_qs(environ["QUERY_STRING"]))
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["method"] == "POST":
        chunks, more = [], True
        while more:
            event = await receive()
            chunks.append(event.get("body", b""))
            more = event.get("more_body", False)
        status, body = 201, post(b"".join(chunks))
    else:
        status, body = 200, get(scope["path"], parse_qs(scope["query_string"].decode()))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
