PRAGMA journal_mode = OFF;
PRAGMA cache_size = -8000;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, bin BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 160000)
INSERT INTO item SELECT i, printf('name%07d', (i * 7919) % 1000003), i / 8.0, zeroblob(i % 40) FROM n;
CREATE INDEX by_name ON item (name);
SELECT count(*), min(name), max(name), sum(price), total(length(bin)) FROM item;
SELECT substr(name, 1, 6) AS g, count(*), avg(price) FROM item GROUP BY g ORDER BY 2 DESC, 1 LIMIT 5;
SELECT count(DISTINCT price), length(group_concat(name)) FROM item WHERE id < 60000;
SELECT json_group_array(json_object('id', id, 'name', name)) FROM (SELECT * FROM item ORDER BY name LIMIT 3);
SELECT length(json_group_array(json_object('id', id, 'name', name))) FROM item WHERE id % 4 = 0;
DELETE FROM item WHERE id % 3 = 0;
UPDATE item SET name = name || name WHERE id % 5 = 0;
SELECT count(*), total(length(name)) FROM item;
