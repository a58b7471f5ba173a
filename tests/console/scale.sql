-- A hundred servers; nothing listens at their ports.
INSERT INTO mysql_servers (hostgroup_id, hostname, port, status)
  WITH RECURSIVE step(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM step WHERE number < 100)
  SELECT 10 + number % 10, '127.0.0.1', 40000 + number, 'ONLINE' FROM step;
LOAD MYSQL SERVERS TO RUNTIME;
