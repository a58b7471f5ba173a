# JSON, spatial, generated and invisible columns.
CREATE TABLE j (id INT PRIMARY KEY, doc JSON);
INSERT INTO j VALUES (1, '{"a": 1, "b": [1, 2, {"c": null}], "u": "\u00fc"}'), (2, '[]'), (3, 'null'), (4, NULL), (5, '"text"'), (6, '1.5');
SELECT * FROM j ORDER BY id;
SELECT JSON_EXTRACT(doc, '$.a'), JSON_KEYS(doc), JSON_LENGTH(doc), JSON_TYPE(doc) FROM j ORDER BY id;
SELECT JSON_SET(doc, '$.a', 2), JSON_REMOVE(doc, '$.b'), JSON_UNQUOTE(JSON_EXTRACT(doc, '$.u')) FROM j WHERE id = 1;
INSERT INTO j VALUES (7, '{bad');
SELECT JSON_ARRAYAGG(id) FROM j WHERE id < 4;
SELECT JSON_OBJECTAGG(id, doc) FROM j WHERE id = 2;
@mysql
SELECT doc->'$.a', doc->>'$.u' FROM j WHERE id = 1;
SELECT CAST('{"a":1}' AS JSON), JSON_PRETTY('{"a":1}');
SELECT * FROM JSON_TABLE('[{"a":1},{"a":2}]', '$[*]' COLUMNS (a INT PATH '$.a')) t;
@mariadb
SELECT JSON_DETAILED('{"a":1}'), JSON_QUERY('{"a":{"b":1}}', '$.a'), JSON_VALUE('{"a":1}', '$.a');
SELECT * FROM JSON_TABLE('[{"a":1},{"a":2}]', '$[*]' COLUMNS (a INT PATH '$.a')) t;
CREATE TABLE u (a UUID, b INET6);
INSERT INTO u VALUES ('123e4567-e89b-12d3-a456-426655440000', '2001:db8::1');
SELECT * FROM u;
CREATE SEQUENCE seq START WITH 5;
SELECT NEXT VALUE FOR seq, LASTVAL(seq);
@all
CREATE TABLE g (id INT PRIMARY KEY, p POINT, l LINESTRING, y POLYGON, c GEOMETRY);
INSERT INTO g VALUES (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('LINESTRING(0 0,1 1)'), ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))'), ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))')), (2, NULL, NULL, NULL, NULL);
SELECT * FROM g ORDER BY id;
SELECT ST_AsText(p), ST_X(p), ST_Length(l), ST_Area(y), HEX(ST_AsBinary(p)) FROM g ORDER BY id;
SELECT ST_AsText(ST_GeomFromText('MULTIPOINT(1 1,2 2)'));
INSERT INTO g (id, p) VALUES (3, 'bad');
CREATE TABLE v (a INT, b INT AS (a + 1) VIRTUAL, c INT AS (a * 2) STORED, d INT DEFAULT (1 + 2));
INSERT INTO v (a) VALUES (1), (NULL);
SELECT * FROM v;
INSERT INTO v (a, b) VALUES (1, 1);
CREATE TABLE inv (a INT, b INT INVISIBLE DEFAULT 9);
INSERT INTO inv (a) VALUES (1);
SELECT * FROM inv;
SELECT a, b FROM inv;
@mysql
CREATE TABLE vec (v VECTOR(3));
INSERT INTO vec VALUES (STRING_TO_VECTOR('[1,2,3]'));
SELECT VECTOR_TO_STRING(v), v FROM vec;
@all
