packages='mariadb-server'
needs='mariadbd mariadb mariadb-install-db'
maps='mariadbd mariadb'
long=yes
limit=300
stderr=varies

measure() {
    local directory
    # Sockets need a short path, and the server does not run as root.
    directory=$(mktemp -d "${TMPDIR:-/tmp}/mariadb.XXXXXX")
    local owner=()
    if [ "$(id -u)" = 0 ]; then owner=(--user=mysql); chown mysql "$directory"; fi
    mariadb-install-db --no-defaults "${owner[@]}" --datadir="$directory/data" --auth-root-authentication-method=normal \
        --skip-test-db >install.log 2>&1 || { cat install.log; return 1; }
    mariadbd --no-defaults "${owner[@]}" --datadir="$directory/data" --socket="$directory/s" --skip-networking \
        --pid-file="$directory/pid" --innodb-buffer-pool-size=32M >server.log 2>&1 &
    local server=$!
    # shellcheck disable=SC2064 # the values of now
    trap "kill -KILL $server 2>/dev/null || true; rm -rf $directory" EXIT
    trap 'exit 143' TERM INT
    for _ in $(seq 600); do [ -S "$directory/s" ] && break; sleep 0.1; done
    mariadb --no-defaults -u root --socket="$directory/s" <<'SQL'
create database d; use d;
create table t (id int primary key auto_increment, name varchar(60), v double, key (name));
insert into t (name, v) select concat('name ', seq * 7919 % 10007), seq * 1.5 from seq_1_to_20000;
select count(*), sum(length(name)), round(sum(v)) from t;
select name, count(*) c from t group by name order by c desc, name limit 5;
select count(*) from t a join t b on a.name = b.name where a.id < 500;
update t set v = v + 1 where id % 3 = 0;
delete from t where id % 5 = 0;
select count(*), round(sum(v)) from t;
select json_extract('{"a": [1, 2, {"b": 3}]}', '$.a[2].b'), md5(group_concat(id)) from t where id < 1000;
alter table t add column w int default 3;
select sum(w) from t;
SQL
    kill -TERM $server
    wait $server
    echo "the server ended with $?"
}
