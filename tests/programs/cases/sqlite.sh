packages=sqlite3
needs=sqlite3
maps=sqlite3

measure() {
    sed "s/ROWS/$(amount 300000 1000000)/" <<'SQL' | sqlite3 test.db
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -20000;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, bin BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ROWS)
INSERT INTO item SELECT i, printf('name%07d', (i * 7919) % 1000003), i / 8.0, zeroblob(i % 40) FROM n;
CREATE INDEX by_name ON item (name);
SELECT count(*), min(name), max(name), sum(price), total(length(bin)) FROM item;
SELECT substr(name, 1, 6) AS g, count(*), avg(price) FROM item GROUP BY g ORDER BY 2 DESC, 1 LIMIT 5;
SELECT a.id, b.id FROM item a JOIN item b ON b.name = printf('name%07d', a.id) WHERE a.id % 100000 = 7 ORDER BY 1;
SELECT count(DISTINCT price), length(group_concat(name)) FROM item WHERE id < 100000;
DELETE FROM item WHERE id % 3 = 0;
UPDATE item SET name = name || name WHERE id % 5 = 0;
VACUUM;
PRAGMA integrity_check;
SELECT json_group_array(json_object('id', id, 'name', name)) FROM (SELECT * FROM item ORDER BY name LIMIT 3);
SQL
    md5sum test.db
    sqlite3 test.db 'SELECT * FROM no_such_table' || echo "exit $?"
}
