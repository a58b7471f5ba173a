// Checks of mysql2 for Node.js: checks.js HOST PORT USER PASSWORD.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { Readable } = require("node:stream");
const mysql = require("mysql2/promise");

const [host, port, user, password] = process.argv.slice(2);
const schema = `checks_node_${process.pid}`;

function connect(options = {}) {
  const defaults = { host, port: Number(port), user, password, database: schema, charset: "utf8mb4" };
  return mysql.createConnection({ ...defaults, supportBigNumbers: true, ...options });
}

// The rows of a statement, as arrays of values.
async function rows(db, sql, values) {
  return (await db.query({ sql, values, rowsAsArray: true }))[0];
}

async function number(db, sql, values) {
  return Number((await rows(db, sql, values))[0][0]);
}

function refuses(errno, promise) {
  return assert.rejects(promise, (error) => assert.equal(error.errno, errno, error) === undefined);
}

const checks = {
  async "tables and rows"(db) {
    await db.query(
      "CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100) CHARACTER SET utf8mb4, n INT)",
    );
    await db.query("ALTER TABLE item ADD COLUMN note TEXT");
    const [inserted] = await db.query("INSERT INTO item (name, n) VALUES ?", [[["one", 1], ["two", 2]]]);
    assert.deepEqual([inserted.insertId, inserted.affectedRows], [1, 2]);
    const [updated] = await db.query("UPDATE item SET n = n + 10 WHERE n = 2");
    assert.equal(updated.affectedRows, 1);
    assert.match(updated.info, /Rows matched: 1 +Changed: 1 +Warnings: 0/);
    await db.query("DELETE FROM item WHERE n = ?", [1]);
    assert.deepEqual(await rows(db, "SELECT id, name, n FROM item"), [[2, "two", 12]]);
  },

  async "prepared statements"(db) {
    for (let n = 0; n < 50; n++) {
      await db.execute("INSERT INTO item (name, n) VALUES (?, ?)", [`prepared ${n}`, 1000 + n]);
    }
    const statement = await db.prepare("SELECT name FROM item WHERE n = ?");
    for (let n = 0; n < 50; n++) {
      const [[row]] = await statement.execute([1000 + n]);
      assert.equal(row.name, `prepared ${n}`);
    }
    await statement.close();
    await refuses(1064, db.prepare("SELEC ?"));
    await refuses(1146, db.execute("SELECT * FROM no_such_table WHERE n = ?", [1]));
  },

  async transactions(db) {
    const writer = await connect();
    await writer.beginTransaction();
    await writer.query("INSERT INTO item (n) VALUES (100)");
    assert.equal(await number(writer, "SELECT COUNT(*) FROM item WHERE n = 100"), 1);
    assert.equal(await number(db, "SELECT COUNT(*) FROM item WHERE n = 100"), 0);
    await writer.rollback();
    assert.equal(await number(writer, "SELECT COUNT(*) FROM item WHERE n = 100"), 0);
    await writer.beginTransaction();
    await writer.query("INSERT INTO item (n) VALUES (100)");
    await writer.commit();
    assert.equal(await number(db, "SELECT COUNT(*) FROM item WHERE n = 100"), 1);
    await writer.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    await writer.beginTransaction();
    assert.equal(await number(writer, "SELECT COUNT(*) FROM item WHERE n = 101"), 0);
    await db.query("UPDATE item SET n = 101 WHERE n = 100");
    assert.equal(await number(writer, "SELECT COUNT(*) FROM item WHERE n = 101"), 1);
    await writer.commit();
    await writer.end();
  },

  async "column types"(db) {
    await db.query(`CREATE TABLE types (a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d BIGINT, e BIGINT UNSIGNED,
      f FLOAT, g DOUBLE, h DECIMAL(30,10), i DATE, j DATETIME(3), k TIME(3), l YEAR, m CHAR(5), n VARCHAR(20),
      o BINARY(4), p VARBINARY(20), q TEXT, r LONGBLOB, s ENUM('x','y'), t SET('u','v','w'), u BIT(12), v JSON)`);
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const values = [-128, 65535, -8388608, "-9223372036854775808", "18446744073709551615", 1.5, 2.25,
      "12345678901234567890.0123456789", "2024-02-29", "2024-02-29 23:59:59.123", "-100:01:02.345", 2024, "abc", "v",
      Buffer.from([0, 1, 2, 255]), Buffer.from("\0'\"\\"), "text", all, "y", "u,w", Buffer.from([0x0a, 0xbc]),
      '{"k": [1, null]}'];
    const marks = values.map(() => "?").join(", ");
    await db.query(`INSERT INTO types VALUES (${marks})`, values);
    await db.query(`INSERT INTO types VALUES (${marks})`, values.map(() => null));
    const sql = "SELECT * FROM types WHERE a IS NULL OR a = ? ORDER BY a IS NULL";
    for (const run of ["query", "execute"]) {
      const [got] = await db[run]({ sql, values: [-128], rowsAsArray: true, dateStrings: true });
      const json = got[0].at(-1);
      // MySQL reports a column as JSON, MariaDB as text.
      got[0][got[0].length - 1] = typeof json === "string" ? json : JSON.stringify(json).replace(/([:,])/g, "$1 ");
      got[0] = got[0].map((value) => (typeof value === "bigint" ? String(value) : value));
      // The binary protocol's TIME is printed with as many fractional digits as it carries.
      got[0][10] = got[0][10].replace(/(\.\d{3})000$/, "$1");
      assert.deepEqual(got[0], values, run);
      assert.deepEqual(got[1], values.map(() => null), run);
    }
  },

  async charsets(db) {
    const text = "grüße, 日本語, 🦀🚀";
    await db.query("INSERT INTO item (name, n) VALUES (?, 300)", [text]);
    assert.deepEqual(await rows(db, "SELECT name FROM item WHERE n = 300"), [[text]]);
    assert.deepEqual((await db.execute("SELECT n FROM item WHERE name = ?", [text]))[0], [{ n: 300 }]);
    const latin = await connect({ charset: "LATIN1_SWEDISH_CI" });
    assert.deepEqual(await rows(latin, "SELECT 'größe', @@character_set_client"), [["größe", "latin1"]]);
    await latin.end();
  },

  async "many rows"(db) {
    await db.query("CREATE TABLE digit (d INT)");
    await db.query("INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)");
    const many = `SELECT a.d + 10*b.d + 100*c.d + 1000*d.d + 10000*e.d AS n, REPEAT('x', 50) AS filler
      FROM digit a, digit b, digit c, digit d, digit e`;
    const all = await rows(db, many);
    assert.deepEqual([all.length, all.reduce((sum, [n]) => sum + Number(n), 0)], [100000, 4999950000]);
    assert.equal((await db.execute(many))[0].length, 100000);
    let streamed = 0;
    for await (const _ of db.connection.query(many).stream({ highWaterMark: 50 })) streamed++;
    assert.equal(streamed, 100000);
  },

  async "big values"(db) {
    await db.query("CREATE TABLE big (id INT PRIMARY KEY, data LONGBLOB)");
    const data = crypto.randomBytes(20 << 20);
    await db.query("INSERT INTO big VALUES (1, ?)", [data]);
    await db.execute("INSERT INTO big VALUES (2, ?)", [data]);
    for (const [got] of await rows(db, "SELECT data FROM big")) assert(data.equals(got));
  },

  async errors(db) {
    await refuses(1064, db.query("SELEC 1"));
    await refuses(1062, db.query("INSERT INTO item (id) SELECT id FROM item"));
    await refuses(1146, db.query("SELECT * FROM no_such_table"));
    await refuses(1049, connect({ database: "no_such_schema" }));
    await refuses(1045, connect({ password: "wrong" }));
  },

  async "change user"() {
    const changing = await connect();
    await changing.query("SET @mine = 1");
    await changing.changeUser({ user, password, database: "mysql" });
    assert.deepEqual(await rows(changing, "SELECT @mine, DATABASE()"), [[null, "mysql"]]);
    await changing.ping();
    // A server may close the connection after a refusal, so this is the last command on this one.
    await refuses(1049, changing.changeUser({ user, password, database: "no_such_schema" }));
    changing.destroy();
  },

  async "multi statements"() {
    const multi = await connect({ multipleStatements: true });
    const [results] = await multi.query("SELECT 1 AS a; INSERT INTO item (n) VALUES (400); SELECT 2 AS b");
    assert.deepEqual([results[0], results[1].affectedRows, results[2]], [[{ a: 1 }], 1, [{ b: 2 }]]);
    await refuses(1146, multi.query("SELECT 1; SELECT * FROM no_such_table"));
    await multi.end();
    const single = await connect();
    await refuses(1064, single.query("SELECT 1; SELECT 2"));
    await single.end();
  },

  async procedures(db) {
    await db.query(`CREATE PROCEDURE twice (IN given INT, OUT doubled INT)
      BEGIN SELECT given AS first; SELECT given + 1 AS second; SET doubled = given * 2; END`);
    const [results] = await db.query("CALL twice(21, @doubled)");
    assert.deepEqual(results.slice(0, 2), [[{ first: 21 }], [{ second: 22 }]]);
    assert.deepEqual(await rows(db, "SELECT @doubled"), [[42]]);
  },

  async "load data local"(db) {
    await db.query("CREATE TABLE loaded (n INT, text VARCHAR(50))");
    const lines = Array.from({ length: 5000 }, (_, n) => `${n},line ${n}\n`);
    const sql = "LOAD DATA LOCAL INFILE 'lines' INTO TABLE loaded FIELDS TERMINATED BY ','";
    const [loaded] = await db.query({ sql, infileStreamFactory: () => Readable.from([Buffer.from(lines.join(""))]) });
    assert.equal(loaded.affectedRows, 5000);
    assert.equal(await number(db, "SELECT SUM(n) FROM loaded"), 12497500);
  },

  async pool() {
    const pool = mysql.createPool({ host, port: Number(port), user, password, database: schema, connectionLimit: 8 });
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => rows(pool, "SELECT ? + 0", [n])));
    answers.forEach(([[answer]], n) => assert.equal(answer, n));
    await pool.end();
  },
};

async function main() {
  const root = await connect({ database: undefined });
  await root.query(`CREATE DATABASE ${schema}`);
  try {
    const db = await connect();
    for (const [name, check] of Object.entries(checks)) {
      await check(db).catch((error) => {
        error.message = `${name}: ${error.message}`;
        throw error;
      });
      console.log("ok", name);
    }
    await db.end();
  } finally {
    await root.query(`DROP DATABASE ${schema}`);
    await root.end();
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
