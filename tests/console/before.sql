-- What the pages shall show before there is any load: rules, a cache, few connections, and figures of the last month.
SET mysql-monitor_ping_interval = 2000;
SET admin-stats_mysql_connection_pool = 10;
LOAD MYSQL VARIABLES TO RUNTIME;
LOAD ADMIN VARIABLES TO RUNTIME;
UPDATE mysql_query_rules SET rule_id = rule_id + 10;
INSERT INTO mysql_query_rules (rule_id, active, match_digest, cache_ttl, destination_hostgroup, apply, comment)
  VALUES (1, 1, '^SELECT name FROM items WHERE id = .$', 500, 1, 1, 'names rarely change');
LOAD MYSQL QUERY RULES TO RUNTIME;
UPDATE mysql_servers SET max_connections = 3;
INSERT INTO mysql_servers (hostgroup_id, hostname, port, comment) VALUES (2, '127.0.0.1', 1, 'nothing listens here');
LOAD MYSQL SERVERS TO RUNTIME;
UPDATE mysql_servers SET weight = 7, comment = 'not loaded yet' WHERE hostgroup_id = 1;
INSERT OR REPLACE INTO stats_history.narrows_traffic_5m
  WITH RECURSIVE step(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM step WHERE number < 8900),
    moment AS (SELECT number, STRFTIME('%s', 'now') / 300 * 300 - number * 300 AS at, ABS((number % 288) - 144) AS busy FROM step)
  SELECT at, 300000, 300 * (400 + busy * 12 + number * 7 % 90), number % 11, CASE WHEN number % 900 < 12 THEN 3000 ELSE number % 7 END,
    60000 * (400 + busy * 12), 310000 * (400 + busy * 12), 30000, 21000 + busy * 40, 20000 + busy * 400,
    120 + busy, 4 + busy / 10, 5 + busy / 12, 9, 140 + busy, 12 + busy / 6, 14 + busy / 8, 12,
    0, 0, 0, '[' || (90000 + busy * 900) || ',20000,6000,1500,900,400,200,' || (busy * 2) || ',30,20,10,5,2,1,0,0,0]'
  FROM moment WHERE number % 2500 > 40;
INSERT OR REPLACE INTO stats_history.narrows_traffic_10s
  WITH RECURSIVE step(number) AS (SELECT 6 UNION ALL SELECT number + 1 FROM step WHERE number < 8630),
    moment AS (SELECT number, STRFTIME('%s', 'now') / 10 * 10 - number * 10 AS at, ABS((number % 2880) - 1440) / 10 AS busy FROM step)
  SELECT at, 10000, 10 * (400 + busy * 12 + number * 7 % 90), number % 3, CASE WHEN number % 3000 < 40 THEN 200 ELSE number % 2 END,
    2000 * (400 + busy * 12), 11000 * (400 + busy * 12), 1000, 700 + busy, 700 + busy * 12,
    120 + busy, 4 + busy / 10, 5 + busy / 12, 9, 140 + busy, 12 + busy / 6, 14 + busy / 8, 12,
    0, 0, 0, '[' || (3000 + busy * 30) || ',700,200,50,30,12,6,' || (busy / 20) || ',2,1,1,0,0,0,0,0,0]'
  FROM moment WHERE number % 2500 > 60;
