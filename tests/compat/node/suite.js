// How a server appears to mysql2, Knex, Sequelize and TypeORM: suite.js HOST PORT USER PASSWORD prints
// OUTCOME<tab>TEST.
"use strict";

const { Readable } = require("node:stream");
const { once } = require("node:events");
const mysql = require("mysql2/promise");
const callbacks = require("mysql2");
const knexOf = require("knex");
const { Sequelize, DataTypes, Transaction } = require("sequelize");
const { DataSource, EntitySchema } = require("typeorm");

const [host, port, user, password] = process.argv.slice(2);
const login = { host, port: Number(port), user, password, database: "node" };
const text = (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? String(v) : v));
const failure = async (promise) => promise.then(() => "no error", (e) => `${e.errno ?? e.code} ${e.sqlState ?? ""}`);
const plain = async (db, sql, values) => (await db.query({ sql, values, rowsAsArray: true }))[0];

async function fresh(db) {
  await db.query("DROP TABLE IF EXISTS t");
  await db.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(100), b INT UNIQUE) ENGINE=InnoDB");
}

// Each on a separate connection, with every set of options below.
const onConnection = {
  types: (db) => plain(db, "SELECT 1, -2.50, 'é', NULL, DATE '2020-02-03', TIMESTAMP '2020-02-03 04:05:06', 18446744073709551615, X'00ff', CAST('[1]' AS CHAR)"),
  session: (db) => plain(db, "SELECT @@character_set_client, @@collation_connection, @@sql_mode, @@time_zone, @@autocommit, DATABASE()"),
  async columns(db) {
    await fresh(db);
    const [, fields] = await db.query("SELECT id AS i, a, b FROM t AS tt");
    return fields.map((f) => [f.name, f.orgName, f.table, f.orgTable, f.type, f.flags, f.columnLength]);
  },
  async write(db) {
    await fresh(db);
    const [inserted] = await db.query("INSERT INTO t (a, b) VALUES ?", [[["x", 1], ["y", 2]]]);
    const [updated] = await db.query("UPDATE t SET a = 'z' WHERE b > 0");
    return [inserted, updated, await plain(db, "SELECT * FROM t ORDER BY id")];
  },
  async execute(db) {
    await fresh(db);
    for (let i = 0; i < 5; i++) await db.execute("INSERT INTO t (a, b) VALUES (?, ?)", [`p${i}`, i]);
    const [rows] = await db.execute("SELECT a, b FROM t WHERE b > ? ORDER BY b", [2]);
    return [rows, await failure(db.execute("SELECT nothing FROM t WHERE b = ?", [1]))];
  },
  async prepared(db) {
    await fresh(db);
    const statement = await db.prepare("INSERT INTO t (a, b) VALUES (?, ?)");
    for (let i = 0; i < 20; i++) await statement.execute(["v", i]);
    const select = await db.prepare("SELECT COUNT(*) AS n, SUM(b) AS s FROM t WHERE a = ?");
    const [first] = await select.execute(["v"]);
    await db.query("ALTER TABLE t ADD COLUMN c INT");
    const [second] = await select.execute(["v"]);
    await statement.close();
    await select.close();
    return [first, second];
  },
  async "many prepared"(db) {
    let sum = 0;
    for (let i = 0; i < 300; i++) sum += (await db.execute(`SELECT ${i} + ? AS n`, [1]))[0][0].n;
    return sum;
  },
  async transaction(db) {
    await fresh(db);
    await db.beginTransaction();
    await db.query("INSERT INTO t (b) VALUES (1)");
    await db.commit();
    await db.beginTransaction();
    await db.query("INSERT INTO t (b) VALUES (2)");
    const within = await plain(db, "SELECT COUNT(*) FROM t");
    await db.rollback();
    return [within, await plain(db, "SELECT COUNT(*) FROM t")];
  },
  async "autocommit off"(db) {
    await fresh(db);
    await db.query("SET autocommit = 0");
    for (let i = 0; i < 20; i++) {
      await plain(db, "SELECT COUNT(*) FROM t");
      await db.query("INSERT INTO t (b) VALUES (?)", [i]);
      await db.commit();
    }
    const other = await mysql.createConnection(login);
    const rows = await plain(other, "SELECT COUNT(*) FROM t");
    await other.end();
    return rows;
  },
  async errors(db) {
    await fresh(db);
    await db.query("INSERT INTO t (b) VALUES (1)");
    const all = ["INSERT INTO t (b) VALUES (1)", "SELECT * FROM nowhere", "SELEC", "SELECT nothing", "USE nowhere", "SET nothing = 1", "CALL nothing()"];
    const seen = [];
    for (const sql of all) seen.push(await failure(db.query(sql)));
    return seen;
  },
  async several(db) {
    await fresh(db);
    return failure(db.query("SELECT 1; INSERT INTO t (b) VALUES (3); SELECT b FROM t"));
  },
  async procedure(db) {
    await db.query("DROP PROCEDURE IF EXISTS p");
    await db.query("CREATE PROCEDURE p(IN a INT, OUT b INT) BEGIN SELECT a; SET b = a * 2; SELECT b, a; END");
    const [results] = await db.query("CALL p(21, @out)");
    return [results.slice(0, 2), await plain(db, "SELECT @out")];
  },
  async stream(db) {
    let number = 0;
    const stream = db.connection.query("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i, REPEAT('x', 2000) FROM n").stream({ highWaterMark: 5 });
    for await (const row of stream) number += row.i ? 1 : 0;
    return [number, await plain(db, "SELECT 'after'")];
  },
  async large(db) {
    await db.query("CREATE TABLE IF NOT EXISTS big (id INT PRIMARY KEY, a LONGBLOB)");
    const bytes = Buffer.alloc(17 << 20, "0123456789");
    await db.query("REPLACE INTO big VALUES (1, ?)", [bytes]);
    const [[row]] = await db.query("SELECT a FROM big");
    return bytes.equals(row.a);
  },
  async "load data"(db) {
    await fresh(db);
    const infileStreamFactory = () => Readable.from([Buffer.from("1\tone\t1\n2\ttwo\t2\n")]);
    const [loaded] = await db.query({ sql: "LOAD DATA LOCAL INFILE 'any' INTO TABLE t", infileStreamFactory });
    return [loaded.affectedRows, await plain(db, "SELECT * FROM t ORDER BY id")];
  },
  async "insert id and warnings"(db) {
    await fresh(db);
    await db.query("INSERT INTO t (b) VALUES (1), (2)");
    const id = await plain(db, "SELECT LAST_INSERT_ID()");
    const [, ] = await db.query("SELECT 'abc' + 1");
    return [id, await plain(db, "SHOW WARNINGS"), await plain(db, "SELECT ROW_COUNT()")];
  },
  async "change user"(db) {
    await db.query("SET @gone = 1");
    await db.changeUser({ user, password, database: "node" });
    return plain(db, "SELECT @gone, DATABASE()");
  },
  async reset(db) {
    await db.query("SET @gone = 1, time_zone = '+01:00'");
    await new Promise((done, fail) => db.connection.reset((e) => (e ? fail(e) : done())));
    return plain(db, "SELECT @gone, @@time_zone");
  },
  async "session objects"(db) {
    await db.query("CREATE TEMPORARY TABLE tmp (a INT)");
    await db.query("INSERT INTO tmp VALUES (1), (2)");
    await db.query("SET @x = 5");
    return [await plain(db, "SELECT COUNT(*), @x FROM tmp"), await plain(db, "SELECT GET_LOCK('node', 1)"), await plain(db, "SELECT IS_FREE_LOCK('node'), RELEASE_LOCK('node')")];
  },
  async pipelined(db) {
    const answers = [];
    for (let i = 0; i < 50; i++) answers.push(i % 2 ? plain(db, "SELECT ?", [i]) : db.execute("SELECT ? AS n", [String(i)]).then(([rows]) => rows));
    return Promise.all(answers);
  },
  async timeout(db) {
    return failure(db.query({ sql: "SELECT SLEEP(20)", timeout: 500 }));
  },
  async ping(db) {
    await db.ping();
    return "pong";
  },
};

const options = {
  defaults: {},
  "several statements": { multipleStatements: true },
  compressed: { compress: true },
  tls: { ssl: { rejectUnauthorized: false } },
  latin1: { charset: "latin1_swedish_ci" },
  "bin collation": { charset: "UTF8MB4_BIN" },
  "big numbers and dates as text": { supportBigNumbers: true, bigNumberStrings: true, dateStrings: true, decimalNumbers: true },
  "zone and nested tables": { timezone: "Z", nestTables: "_" },
  "found rows off": { flags: ["-FOUND_ROWS"] },
  "few statements": { maxPreparedStatements: 2 },
};

async function pool() {
  const shared = callbacks.createPool({ ...login, connectionLimit: 8 }).promise();
  await shared.query("DROP TABLE IF EXISTS pooled");
  await shared.query("CREATE TABLE pooled (id INT PRIMARY KEY, n INT)");
  await shared.query("INSERT INTO pooled VALUES (1, 0)");
  const one = async () => {
    const db = await shared.getConnection();
    await db.beginTransaction();
    const [[row]] = await db.query("SELECT n FROM pooled WHERE id = 1 FOR UPDATE");
    await db.execute("UPDATE pooled SET n = ? WHERE id = 1", [row.n + 1]);
    await db.commit();
    db.release();
  };
  await Promise.all(Array.from({ length: 60 }, one));
  const rows = await plain(shared, "SELECT n FROM pooled");
  await shared.end();
  return rows;
}

async function knex() {
  const db = knexOf({ client: "mysql2", connection: login, pool: { min: 0, max: 4 } });
  try {
    await db.schema.dropTableIfExists("children").dropTableIfExists("parents");
    await db.schema.createTable("parents", (t) => { t.increments(); t.string("name").unique(); t.json("extra"); t.timestamp("at").defaultTo(db.fn.now()); });
    await db.schema.createTable("children", (t) => { t.increments(); t.integer("parent_id").unsigned().references("parents.id").onDelete("CASCADE"); });
    const ids = await db("parents").insert([{ name: "a", extra: "{}" }, { name: "b" }]);
    await db.transaction(async (trx) => {
      await trx("children").insert({ parent_id: ids[0] });
      await trx.transaction(async (inner) => { await inner("children").insert({ parent_id: ids[0] }); await inner.rollback(new Error("undone")); }).catch(() => null);
    });
    const failed = await failure(db("parents").insert({ name: "a" }));
    await db("parents").insert({ name: "a", extra: "[]" }).onConflict("name").merge();
    const joined = await db("parents").leftJoin("children", "parents.id", "children.parent_id").select("name", "extra", "children.id").orderBy("name");
    const info = await db("parents").columnInfo();
    const streamed = [];
    for await (const row of db("parents").select("name").orderBy("name").stream()) streamed.push(row.name);
    return [ids, failed, joined, info, streamed, await db.schema.hasTable("children")];
  } finally {
    await db.destroy();
  }
}

async function sequelize() {
  const db = new Sequelize({ dialect: "mysql", host, port: Number(port), username: user, password, database: "node", logging: false, pool: { max: 4 } });
  try {
    const Author = db.define("author", { name: { type: DataTypes.STRING, unique: true }, born: DataTypes.DATEONLY, rank: DataTypes.DECIMAL(10, 2), extra: DataTypes.JSON });
    const Book = db.define("book", { title: DataTypes.TEXT, price: DataTypes.FLOAT });
    Author.hasMany(Book);
    Book.belongsTo(Author);
    await db.sync({ force: true });
    const author = await Author.create({ name: "é", born: "1900-01-02", rank: "1.50", extra: { a: [1] } });
    await Book.bulkCreate([{ title: "x", price: 1.5, authorId: author.id }, { title: "y", authorId: author.id }]);
    const undone = await failure(db.transaction(async (transaction) => { await Book.destroy({ where: {}, transaction }); throw Object.assign(new Error("undone"), { code: "undone" }); }));
    const levels = [];
    for (const isolationLevel of Object.values(Transaction.ISOLATION_LEVELS)) {
      levels.push(await db.transaction({ isolationLevel }, (transaction) => Book.count({ transaction })));
    }
    const [found, created] = await Author.findOrCreate({ where: { name: "new" } });
    const [, again] = await Author.findOrCreate({ where: { name: "new" } });
    const duplicate = await Author.create({ name: "é" }).then(() => "no error", (e) => e.name);
    const listed = await Author.findAll({ include: Book, order: ["id", [Book, "id", "ASC"]] });
    const locked = await db.transaction((transaction) => Book.findAll({ lock: transaction.LOCK.UPDATE, transaction }));
    const described = await db.getQueryInterface().describeTable("authors");
    const shown = listed.map((a) => [a.name, a.born, a.rank, a.extra, a.books.map((b) => [b.title, b.price])]);
    return [undone, levels, found.name, created, again, duplicate, shown, locked.length, described, await db.databaseVersion()];
  } finally {
    await db.close();
  }
}

async function typeorm() {
  const Item = new EntitySchema({ name: "Item", tableName: "items", columns: { id: { type: Number, primary: true, generated: true }, name: { type: String, unique: true }, at: { type: "datetime", precision: 6, nullable: true }, price: { type: "decimal", precision: 8, scale: 2, nullable: true } } });
  const db = await new DataSource({ type: "mysql", connectorPackage: "mysql2", host, port: Number(port), username: user, password, database: "node", entities: [Item], synchronize: true, dropSchema: false }).initialize();
  try {
    const items = db.getRepository(Item);
    await items.createQueryBuilder().delete().execute();
    await items.save([{ name: "a", price: "1.10" }, { name: "b", at: new Date(0) }]);
    await items.upsert({ name: "a", price: "2.20" }, ["name"]);
    const undone = await failure(db.transaction(async (manager) => { await manager.delete(Item, { name: "a" }); throw Object.assign(new Error("undone"), { code: "undone" }); }));
    const nested = await db.transaction("SERIALIZABLE", async (manager) => { await manager.update(Item, { name: "b" }, { price: "3" }); return manager.count(Item); });
    await db.synchronize();
    const listed = await items.find({ order: { name: "ASC" } });
    const streamed = [];
    const stream = await items.createQueryBuilder("i").select("i.name", "name").stream();
    stream.on("data", (row) => streamed.push(row.name));
    await once(stream, "end");
    return [undone, nested, listed.map((i) => [i.name, i.at, i.price]), streamed.sort(), db.driver.version];
  } finally {
    await db.destroy();
  }
}

async function report(name, check) {
  let outcome;
  let timer;
  try {
    const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error("not done after 300 s")), 300000); });
    outcome = text(await Promise.race([check(), late]));
  } catch (error) {
    outcome = `error ${error.errno ?? ""} ${error.message}`;
  }
  clearTimeout(timer);
  process.stdout.write(`${outcome.replace(/\s+/g, " ")}\t${name}\n`);
}

(async () => {
  for (const [kind, more] of Object.entries(options)) {
    for (const [name, check] of Object.entries(onConnection)) {
      await report(`mysql2/${kind}/${name}`, async () => {
        const db = await mysql.createConnection({ ...login, ...more });
        try { return await check(db); } finally { db.destroy(); }
      });
    }
  }
  for (const check of [pool, knex, sequelize, typeorm]) await report(check.name, check);
  process.exit(0);
})();
