#!/usr/bin/env bash
# A server with its data in memory, filled and emptied again through a socket.
server_ended() { kill "$server" 2>/dev/null; }
redis-server --port 0 --unixsocket "$1/socket" --dir "$1" --save '' --appendonly no --daemonize no \
    --enable-debug-command yes >"$1/server.log" 2>&1 &
server=$!
trap server_ended EXIT
client() { redis-cli -s "$1/socket" "${@:2}"; }
for _ in $(seq 100); do client "$1" ping >/dev/null 2>&1 && break; sleep 0.02; done
client "$1" eval "
    math.randomseed(42)
    for i = 1, 80000 do redis.call('set', 'key:' .. i, string.rep('x', math.random(1, 400)) .. i) end
    for i = 1, 16000 do redis.call('hset', 'hash:' .. i % 500, 'field' .. i, 'value' .. i * 7) end
    for i = 1, 16000 do redis.call('zadd', 'zset', i * 7919 % 20011, 'member' .. i) end
    for i = 1, 16000 do redis.call('rpush', 'list', string.rep('y', i % 90)) end
    for i = 1, 80000, 3 do redis.call('del', 'key:' .. i) end
    for i = 1, 80000, 5 do redis.call('append', 'key:' .. i, string.rep('z', i % 700)) end
    return redis.call('dbsize')" 0
client "$1" debug digest
client "$1" shutdown nosave
wait "$server"
