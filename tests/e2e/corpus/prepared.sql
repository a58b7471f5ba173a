# Binary prepared statements.
CREATE TABLE t (id INT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c BIGINT, f FLOAT, g DOUBLE, d DECIMAL(10,3), s VARCHAR(50), x BLOB, dt DATETIME(6), da DATE, ti TIME(3), y YEAR, bi BIT(10), e ENUM('p','q'), st SET('m','n'), j JSON, ts TIMESTAMP NULL);
INSERT INTO t VALUES (1, -1, 65535, -5, 1.5, 2.25, 3.125, 'text', x'00ff', '2020-02-29 12:34:56.789012', '2020-02-29', '-12:34:56.789', 2020, 513, 'q', 'm,n', '{"a": 1}', '2020-01-01 00:00:00'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, 1, 0, 0, 0, 0, 0, '', '', '1000-01-01 00:00:00', '1000-01-01', '00:00:00', 1901, 0, 'p', '', '[]', '1970-01-02 00:00:00');
@prepare all SELECT * FROM t ORDER BY id
@execute all 0
@execute all 0
@prepare one SELECT id, s FROM t WHERE id = ?
@execute one 0 i:1
@execute one 0 i:99
@execute one 0 null
@execute one 0 s:3
@execute one 0 d:1
@reset_statement one
@execute one 0 i:2
@prepare none SELECT 1 WHERE 1 = 0
@execute none 0
@prepare types SELECT ?, ?, ?, ?
@execute types 0 i:-1 d:2.5 s:ünï null
@execute types 0 r:1:7f r:2:ff7f r:3:ffffff7f r:8:ffffffffffffffff
@execute types 0 r:10:04e4070203 r:12:0be40702030405060708090a r:7:07e4070203040506 r:11:0c010200000003040506070809
@prepare ins INSERT INTO t (id, s, x) VALUES (?, ?, ?)
@execute ins 0 i:10 s:ten s:blob
@execute ins 0 i:10 s:ten s:blob
@long_data ins 2 part one, 
@long_data ins 2 part two
@execute ins 0 i:11 s:eleven null
@reset_statement ins
@prepare upd UPDATE t SET s = ? WHERE id = ?
@execute upd 0 s:new i:10
@execute upd 0 s:new i:10
@prepare del DELETE FROM t WHERE id >= ?
SELECT id, s, x FROM t WHERE id >= 10 ORDER BY id;
@execute del 0 i:10
@prepare bad SELEC ?
@prepare bad SELECT * FROM nosuch
@prepare bad SELECT 1; SELECT 2
@prepare empty 
@prepare begin BEGIN
@execute begin 0
@ping
@prepare commit COMMIT
@execute commit 0
@ping
@prepare set SET @v = ?
@execute set 0 s:value
SELECT @v;
@prepare show SHOW TABLES
@execute show 0
@prepare ddl CREATE TABLE made (a INT)
@execute ddl 0
@execute ddl 0
@prepare do DO ?
@execute do 0 i:1
@prepare err SELECT CAST(? AS SIGNED)
@execute err 0 s:abc
SHOW WARNINGS;
@prepare sub SELECT (SELECT id FROM t WHERE id < ?)
@execute sub 0 i:99
@prepare change SELECT * FROM made
@execute change 0
ALTER TABLE made ADD b INT;
@execute change 0
@prepare cur SELECT id FROM t ORDER BY id
@execute cur 1
@fetch cur 1
@fetch cur 1
@fetch cur 10
# No fetch without an open cursor: the text of that error names the id.
@execute cur 1
@reset_statement cur
# In MySQL 9.7, an execution without a cursor that follows one with a cursor returns rows without an end.
@close cur
@prepare many SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
@execute many 0 i:1 null i:3 null i:5 null i:7 null i:9 null
@prepare long SELECT '{x*70000}', ?
@execute long 0 s:{y*300}
@close all
@close one
@ping
SELECT 1;
@reset
@ping
