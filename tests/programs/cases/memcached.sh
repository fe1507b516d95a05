packages='memcached python3'
needs='memcached /usr/bin/python3'
maps='memcached'

prepare() {
    cat >client.py <<'PY'
import hashlib, random, socket, sys, threading

def client(seed):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    f = s.makefile("rwb")
    r, digest, kept = random.Random(seed), hashlib.md5(), {}
    for i in range(6000):
        key = f"k{seed}_{r.randrange(800)}"
        if r.random() < 0.5:
            value = bytes([65 + i % 26]) * r.randrange(1, 20000 if i % 50 == 0 else 800)
            f.write(f"set {key} 0 0 {len(value)}\r\n".encode() + value + b"\r\n")
            f.flush()
            assert f.readline() == b"STORED\r\n"
            kept[key] = value
        else:
            f.write(f"get {key}\r\n".encode())
            f.flush()
            head = f.readline()
            if head != b"END\r\n":
                size = int(head.split()[3])
                value = f.read(size + 2)[:-2]
                assert value == kept[key] and f.readline() == b"END\r\n"
                digest.update(value)
            else:
                assert key not in kept
    results[seed] = digest.hexdigest()

results = {}
threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sorted(results.items()))
PY
}

measure() {
    local socket user=''
    socket=$(mktemp -d "${TMPDIR:-/tmp}/memcached.XXXXXX")
    if [ "$(id -u)" = 0 ]; then user='-u nobody'; chown nobody "$socket"; fi
    # shellcheck disable=SC2086 # two words or none
    memcached -s "$socket/s" -a 777 -t 4 -m 128 -I 2m $user 2>server.log &
    local server=$!
    # shellcheck disable=SC2064 # the values of now
    trap "kill -KILL $server 2>/dev/null || true; rm -rf $socket" EXIT
    trap 'exit 143' TERM INT
    for _ in $(seq 100); do [ -S "$socket/s" ] && break; sleep 0.1; done
    /usr/bin/python3 "$shared/client.py" "$socket/s"
    kill -TERM $server
    wait $server || echo "the server ended with $?"
    cat server.log
}
