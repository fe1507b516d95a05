# Debian's redis is linked with jemalloc and calls jemalloc's own functions besides malloc.
packages='redis-server redis-tools'
needs='redis-server redis-cli redis-benchmark'
maps='redis-server redis-cli redis-benchmark'

measure() {
    local socket
    socket=$(mktemp -d "${TMPDIR:-/tmp}/redis.XXXXXX")
    # qemu shows it a mistake of old kernels for AArch64, at which it would end.
    redis-server --port 0 --unixsocket "$socket/s" --dir "$PWD" --save '' --appendonly no --daemonize no \
        --activedefrag no --enable-debug-command yes --ignore-warnings ARM64-COW-BUG >server.log 2>&1 &
    local server=$!
    # shellcheck disable=SC2064 # the values of now
    trap "kill -KILL $server 2>/dev/null || true; rm -rf $socket" EXIT
    trap 'exit 143' TERM INT
    local cli="redis-cli -s $socket/s"
    for _ in $(seq 100); do $cli ping >/dev/null 2>&1 && break; sleep 0.1; done

    $cli debug set-active-expire 1
    $cli eval "
        math.randomseed(42)
        for i = 1, 100000 do redis.call('set', 'key:' .. i, string.rep('x', math.random(1, 400)) .. i) end
        for i = 1, 20000 do redis.call('hset', 'hash:' .. i % 500, 'field' .. i, 'value' .. i * 7) end
        for i = 1, 20000 do redis.call('zadd', 'zset', i * 7919 % 20011, 'member' .. i) end
        for i = 1, 20000 do redis.call('rpush', 'list', string.rep('y', i % 90)) end
        return redis.call('dbsize')" 0
    redis-benchmark -q -s "$socket/s" -n 20000 -c 20 -P 8 -d 200 -t set,get,lpush,lpop,hset,zadd >bench.log
    tr '\r' '\n' <bench.log | grep -c 'requests per second'
    $cli del key:__rand_int__ mylist myhash myzset >/dev/null
    $cli eval "for i = 1, 100000, 3 do redis.call('del', 'key:' .. i) end return redis.call('strlen', 'key:77777')" 0
    $cli debug digest
    $cli save
    $cli bgsave >/dev/null
    while $cli info persistence | grep -q 'rdb_bgsave_in_progress:1'; do sleep 0.1; done
    $cli info persistence | grep rdb_last_bgsave_status
    $cli debug reload
    $cli debug digest
    $cli info memory | tr -d '\r' | awk -F: '{ figure[$1] = $2 }
        END {
            if (figure["mem_allocator"] !~ /^jemalloc/) print "not jemalloc: " figure["mem_allocator"]
            allocated = figure["allocator_allocated"]; active = figure["allocator_active"]
            fine = allocated > 4e6 && allocated <= active && active <= figure["allocator_resident"]
            print fine ? "its figures hold" : "allocated " allocated ", active " active
        }'
    $cli memory purge
    $cli memory doctor >/dev/null && $cli memory malloc-stats >/dev/null && echo 'the allocator answers'
    $cli flushall
    $cli shutdown nosave || true
    wait $server
    echo "the server ended with $?"
    grep -ciE 'crash|panic' server.log || true
}
