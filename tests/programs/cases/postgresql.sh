# A separate cluster, reached through a socket in its directory; PostgreSQL refuses to run as root.
packages='postgresql postgresql-contrib'
needs='initdb postgres psql pgbench pg_dump setpriv'
maps='initdb postgres psql pgbench pg_dump'
stderr=varies
limit=180
# The real programs, not Debian's wrappers.
PATH=$(printf '%s:' /usr/lib/postgresql/*/bin)$PATH

clean() { sed -E '/^(latency|tps|initial connection|pgbench \()/d; s/[0-9.]+ s\b/T s/g'; }

# Becomes a program that runs as postgres. The loader's notes of one process id go to one file, and
# root must not be the first to write it.
become() {
    [ "$(id -u)" = 0 ] || exec "$@"
    unset LD_DEBUG
    exec setpriv --reuid=postgres --regid=postgres --init-groups env LD_DEBUG=files "$@"
}

measure() {
    local cluster=$PWD/cluster socket server
    # Sockets need a short path.
    socket=$(mktemp -d "${TMPDIR:-/tmp}/pg.XXXXXX")
    if [ "$(id -u)" = 0 ]; then chown postgres . "$socket"; fi
    # shellcheck disable=SC2064 # the values of now
    trap "rm -rf $socket" EXIT
    (become initdb -D "$cluster" -U postgres --auth=trust --no-sync -E UTF8 --locale=C) >initdb.log
    become postgres -D "$cluster" -k "$socket" -c listen_addresses='' -c fsync=off -c shared_buffers=32MB \
        -c autovacuum_naptime=1s -c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0 >server.log 2>&1 &
    server=$!
    # shellcheck disable=SC2064 # the values of now
    trap "kill -INT $server 2>/dev/null && wait $server || true; rm -rf $socket" EXIT
    trap 'exit 143' TERM INT
    export PGHOST=$socket PGUSER=postgres PGDATABASE=postgres
    for _ in $(seq 100); do psql -qc 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done

    pgbench -q -i -s 5 2>/dev/null
    pgbench -n -c 4 -j 2 -t 500 --random-seed=42
    psql -At <<'SQL'
SELECT sum(abalance) FROM pgbench_accounts;
SELECT count(*), sum(delta) FROM pgbench_history;
SELECT bid, count(*), sum(abalance) FROM pgbench_accounts GROUP BY bid ORDER BY bid;
CREATE TABLE text AS SELECT i, md5(i::text) AS m, repeat(md5(i::text), i % 50) AS long FROM generate_series(1, 100000) i;
SELECT md5(string_agg(m, ',' ORDER BY m)) FROM text;
SELECT count(*) FROM text a JOIN text b ON substr(a.m, 1, 4) = substr(b.m, 1, 4);
SELECT regexp_replace(m, '[aeiou]+', '-', 'g') FROM text WHERE i % 20000 = 1 ORDER BY i;
SELECT md5(jsonb_agg(jsonb_build_object('i', i, 'm', m) ORDER BY i)::text) FROM text WHERE i < 20000;
CREATE INDEX ON text (m);
DO $$ DECLARE r record; n int := 0; BEGIN FOR r IN SELECT * FROM text LOOP n := n + length(r.long); END LOOP; RAISE NOTICE 'n %', n; END $$;
SELECT * FROM no_such_table;
SQL
    pg_dump --no-comments -t text | grep -vE '^(--|.(un)?restrict )' | md5sum
    kill -INT $server
    wait $server
    echo "the server ended with $?"
    grep -cE 'PANIC|terminated by signal|corrupt' server.log || true
}
