# Downloads from the arm's own server, and uploads to it, in parallel and with compression.
packages='curl python3'
needs='curl /usr/bin/python3'
maps='curl python3'
stderr=varies

prepare() {
    cat >server.py <<'PY'
import gzip, http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def answer(self, body, **headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        size = int(self.path.rsplit("/", 1)[-1].split("?")[0])
        body = bytes(i * 7 % 251 for i in range(size))
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self.answer(gzip.compress(body, mtime=0), Content_Encoding="gzip")
        elif size % 10 == 7:
            self.send_response(302)
            self.send_header("Location", f"/again/{size + 1}")
            self.end_headers()
        else:
            self.answer(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(str((len(body), sum(body) % 65521)).encode())

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], file=open(sys.argv[1], "w"), flush=True)
server.serve_forever()
PY
    seq 60000 >upload
}

measure() {
    /usr/bin/python3 "$shared/server.py" port.new &
    local server=$!
    for _ in $(seq 200); do
        if [ -s port.new ]; then break; fi
        sleep 0.1
    done
    local at
    at=http://127.0.0.1:$(cat port.new)
    curl -sS "$at/a/100000" | md5sum
    curl -sS --compressed "$at/b/1000000" | md5sum
    curl -sSL -w '%{http_code} %{num_redirects}\n' -o redirected "$at/c/7"
    md5sum redirected
    curl -sS --data-binary "@$shared/upload" "$at/post" && echo
    curl -sS -F "file=@$shared/upload" -F name=value -o /dev/null -w '%{http_code}\n' "$at/form"
    curl -sS -Z --parallel-max 8 "$at/[1000-1040:1]" -o 'part#1'
    cat part* | md5sum
    curl -sS file:///no/such/file || echo "exit $?"
    kill $server
}
