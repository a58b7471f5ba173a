// How a server appears to Prisma and to the MariaDB driver for Node.js below it: suite.js CLIENT HOST PORT
// USER PASSWORD prints OUTCOME<tab>TEST. Tables are created here, because Prisma Migrate is a separate
// program that no package contains.
"use strict";

const mariadb = require("mariadb");
const { PrismaMariaDb } = require("@prisma/adapter-mariadb");

const [folder, host, port, user, password] = process.argv.slice(2);
const { PrismaClient, Prisma } = require(folder);
const login = { host, port: Number(port), user, password, database: "prisma", connectionLimit: 6, acquireTimeout: 60000, allowPublicKeyRetrieval: true };
const text = (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? String(v) : v));
const failure = async (promise) => promise.then(() => "no error", (e) => `${e.code ?? e.errno ?? e.name} ${e.meta?.driverAdapterError?.cause?.originalCode ?? e.sqlState ?? ""}`);

const tables = [
  "CREATE TABLE Author (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(191) NOT NULL UNIQUE, born DATE NULL, `rank` DECIMAL(10,2) NULL, extra JSON NULL, kind ENUM('plain','special') NOT NULL DEFAULT 'plain')",
  "CREATE TABLE Book (id INT AUTO_INCREMENT PRIMARY KEY, title TEXT NOT NULL, price DOUBLE NULL, pages BIGINT NULL, cover LONGBLOB NULL, printed DATETIME(6) NULL, sold BOOLEAN NOT NULL DEFAULT FALSE, authorId INT NOT NULL, FOREIGN KEY (authorId) REFERENCES Author (id) ON DELETE CASCADE)",
  "CREATE TABLE Tag (word VARCHAR(50) PRIMARY KEY)",
  "CREATE TABLE _AuthorToTag (A INT NOT NULL, B VARCHAR(50) NOT NULL, UNIQUE (A, B), KEY (B), FOREIGN KEY (A) REFERENCES Author (id) ON DELETE CASCADE, FOREIGN KEY (B) REFERENCES Tag (word) ON DELETE CASCADE)",
  "CREATE TABLE Counter (id INT PRIMARY KEY, n INT NOT NULL)",
];

async function fresh(db) {
  for (const name of ["_AuthorToTag", "Tag", "Book", "Author", "Counter"]) await db.$executeRawUnsafe(`DROP TABLE IF EXISTS ${name}`);
  for (const table of tables) await db.$executeRawUnsafe(`${table} ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`);
}

const seed = (db) => db.author.create({
  data: {
    name: "é", born: new Date("1900-01-02"), rank: "1.50", extra: { a: [1, null] }, kind: "special",
    books: { create: [{ title: "x", price: 1.5, pages: 9007199254740993n, cover: Buffer.from([0, 255, 39]), printed: new Date("2020-02-03T04:05:06.007Z") }, { title: "y", sold: true }] },
    tags: { connectOrCreate: [{ where: { word: "one" }, create: { word: "one" } }] },
  },
  include: { books: true, tags: true },
});

// Each with a separate client, with every set of options below.
const checks = {
  nested: (db) => seed(db),
  async read(db) {
    await seed(db);
    const all = await db.author.findMany({ include: { books: { orderBy: { title: "desc" } }, tags: true } });
    const some = await db.book.findMany({ where: { author: { name: "é" }, price: { gt: 1 } }, select: { title: true, pages: true } });
    const none = await db.author.findUnique({ where: { name: "nobody" } });
    const json = await db.author.count({ where: { extra: { path: "$.a[0]", equals: 1 } } });
    return [all, some, none, json];
  },
  async write(db) {
    const many = await db.author.createMany({ data: [{ name: "a" }, { name: "b" }, { name: "a" }], skipDuplicates: true });
    const updated = await db.author.updateMany({ where: { name: { in: ["a", "b"] } }, data: { rank: { set: "2" } } });
    const upserted = await db.author.upsert({ where: { name: "a" }, update: { rank: { increment: 1 } }, create: { name: "a" } });
    const removed = await db.author.deleteMany({ where: { name: "b" } });
    return [many, updated, upserted, removed, await db.author.count()];
  },
  async groups(db) {
    await seed(db);
    return [await db.book.aggregate({ _count: true, _sum: { price: true }, _max: { pages: true } }), await db.book.groupBy({ by: ["sold"], _count: { _all: true }, orderBy: { sold: "asc" } })];
  },
  async cursor(db) {
    await db.author.createMany({ data: Array.from({ length: 250 }, (_, i) => ({ name: `n${String(i).padStart(3, "0")}` })) });
    const names = [];
    let cursor;
    while (true) {
      const page = await db.author.findMany({ take: 60, orderBy: { name: "asc" }, ...(cursor ? { cursor: { name: cursor }, skip: 1 } : {}) });
      if (page.length === 0) return [names.length, names[249]];
      names.push(...page.map((row) => row.name));
      cursor = names.at(-1);
    }
  },
  async batch(db) {
    const answers = await db.$transaction([db.author.create({ data: { name: "a" } }), db.author.findMany(), db.author.count()]);
    const undone = await failure(db.$transaction([db.author.create({ data: { name: "b" } }), db.author.create({ data: { name: "a" } })]));
    return [answers, undone, await db.author.count()];
  },
  async interactive(db) {
    const within = await db.$transaction(async (tx) => { await tx.author.create({ data: { name: "a" } }); return tx.author.count(); });
    const undone = await failure(db.$transaction(async (tx) => { await tx.author.deleteMany(); throw new Error("undone"); }));
    return [within, undone, await db.author.count()];
  },
  async levels(db) {
    const seen = [];
    for (const isolationLevel of Object.values(Prisma.TransactionIsolationLevel)) {
      seen.push(await failure(db.$transaction(async (tx) => { await tx.author.count(); }, { isolationLevel })));
    }
    return seen;
  },
  async expired(db) {
    const late = await failure(db.$transaction(async (tx) => { await tx.author.create({ data: { name: "late" } }); await new Promise((done) => setTimeout(done, 1500)); await tx.author.count(); }, { timeout: 500 }));
    return [late, await db.author.count()];
  },
  async raw(db) {
    await seed(db);
    const rows = await db.$queryRaw`SELECT id, name, ${5} AS n, ${"é'"} AS s, CAST(-2.5 AS DECIMAL(5,1)) AS d, NOW(6) > '2020-01-01' AS later FROM Author WHERE name = ${"é"}`;
    const changed = await db.$executeRaw`UPDATE Author SET name = ${"e"} WHERE name = ${"é"}`;
    return [rows, changed, await db.$queryRawUnsafe("SELECT @@character_set_client, @@autocommit, DATABASE()")];
  },
  async errors(db) {
    await db.author.create({ data: { name: "a" } });
    return [
      await failure(db.author.create({ data: { name: "a" } })),
      await failure(db.book.create({ data: { title: "x", authorId: 999 } })),
      await failure(db.author.update({ where: { name: "nobody" }, data: { name: "b" } })),
      await failure(db.author.findUniqueOrThrow({ where: { name: "nobody" } })),
      await failure(db.$queryRawUnsafe("SELECT * FROM nowhere")),
      await failure(db.$queryRawUnsafe("SELEC")),
    ];
  },
  async concurrent(db) {
    await db.counter.create({ data: { id: 1, n: 0 } });
    const one = () => db.$transaction(async (tx) => {
      const [row] = await tx.$queryRaw`SELECT n FROM Counter WHERE id = 1 FOR UPDATE`;
      await tx.counter.update({ where: { id: 1 }, data: { n: row.n + 1 } });
    }, { maxWait: 60000, timeout: 60000 });
    await Promise.all(Array.from({ length: 40 }, one));
    return db.counter.findMany();
  },
  async large(db) {
    const author = await db.author.create({ data: { name: "a" } });
    const cover = Buffer.alloc(17 << 20, "0123456789");
    const { id } = await db.book.create({ data: { title: "big", cover, authorId: author.id } });
    const read = await db.book.findUnique({ where: { id } });
    return [Buffer.from(read.cover).equals(cover)];
  },
};

const options = {
  defaults: [{}, {}],
  "text protocol": [{}, { useTextProtocol: true }],
  "statement cache": [{ prepareCacheLength: 50 }, {}],
  tls: [{ ssl: { rejectUnauthorized: false } }, {}],
  compressed: [{ compress: true }, {}],
  "one connection": [{ connectionLimit: 1 }, {}],
};

// The driver alone, for features that Prisma does not use.
const driver = {
  async batch(db) {
    await db.query("CREATE TEMPORARY TABLE d (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20), b INT)");
    const sent = await db.batch("INSERT INTO d (a, b) VALUES (?, ?)", Array.from({ length: 200 }, (_, i) => [`v${i}`, i % 3 ? i : null]));
    return [sent.affectedRows, await db.query("SELECT COUNT(*) AS n, COUNT(b) AS b, MAX(a) AS a FROM d")];
  },
  async stream(db) {
    let number = 0;
    for await (const row of db.queryStream("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i, REPEAT('x', 2000) AS x FROM n")) number += row.i ? 1 : 0;
    return [number, await db.query("SELECT 'after' AS a")];
  },
  async pipelined(db) {
    return Promise.all(Array.from({ length: 50 }, (_, i) => (i % 2 ? db.query("SELECT ? AS n", [i]) : db.execute("SELECT ? AS n", [i]))));
  },
  async reset(db) {
    await db.query("SET @gone = 1");
    await db.reset();
    return db.query("SELECT @gone AS gone");
  },
  async "change user"(db) {
    await db.query("SET @gone = 1");
    await db.changeUser({ user, password, database: "prisma" });
    return db.query("SELECT @gone AS gone, DATABASE() AS d");
  },
  async "many prepared"(db) {
    let sum = 0;
    for (let i = 0; i < 300; i++) sum += Number((await db.execute(`SELECT ${i} + ? AS n`, [1]))[0].n);
    return sum;
  },
  timeout: async (db) => failure(db.query({ sql: "SELECT SLEEP(20)", timeout: 500 })),
};

async function report(name, check) {
  let outcome;
  let timer;
  try {
    const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error("not done after 300 s")), 300000); });
    outcome = text(await Promise.race([check(), late]));
  } catch (error) {
    outcome = `error ${error.code ?? ""} ${error.message}`;
  }
  clearTimeout(timer);
  process.stdout.write(`${outcome.replace(/conn:-?\d+, /g, "").replace(/\s+/g, " ")}\t${name}\n`);
}

(async () => {
  for (const [kind, [connection, adapter]] of Object.entries(options)) {
    for (const [name, check] of Object.entries(checks)) {
      await report(`prisma/${kind}/${name}`, async () => {
        const db = new PrismaClient({ adapter: new PrismaMariaDb({ ...login, ...connection }, { database: "prisma", ...adapter }) });
        try {
          await fresh(db);
          return await check(db);
        } finally {
          await db.$disconnect();
        }
      });
    }
    for (const [name, check] of Object.entries(driver)) {
      await report(`mariadb/${kind}/${name}`, async () => {
        const { connectionLimit, acquireTimeout, ...one } = { ...login, ...connection };
        const db = await mariadb.createConnection(one);
        try { return await check(db); } finally { db.destroy(); }
      });
    }
  }
  process.exit(0);
})();
