# Commands other than COM_QUERY.
CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(10) DEFAULT 'x', d DECIMAL(5,2), e ENUM('a','b') NOT NULL, b BLOB, ts TIMESTAMP NULL);
@ping
@statistics
@debug
@ping
@init_db {schema}_b
SELECT DATABASE();
@init_db {schema}
SELECT DATABASE();
@init_db nosuch_schema
SELECT DATABASE();
@ping
@field_list t %
@field_list t v
@field_list t nosuch
@field_list nosuch %
@field_list t 
@ping
@set_option 0
@set_option 1
@set_option 9
@ping
SET @a = 1, sql_mode = 'ANSI', autocommit = 0;
@reset
SELECT @a, @@autocommit, DATABASE();
CREATE TEMPORARY TABLE tmp (a INT);
@reset
SELECT * FROM tmp;
SET @a = 1;
@change_user {schema}
SELECT @a, DATABASE();
# A change to no schema is left out: Narrows then has the user's default schema.
@change_user {schema}
SELECT DATABASE();
@ping
BEGIN;
INSERT INTO t (e) VALUES ('a');
@change_user {schema}
SELECT COUNT(*) FROM t;
SELECT 1;
