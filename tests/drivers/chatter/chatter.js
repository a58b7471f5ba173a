// Connects as mysql2 does by default: chatter.js HOST PORT USER PASSWORD SCHEMA. Prints the version and runs a marker
// statement; what is sent before it is the library's chatter.
'use strict';
const mysql = require('mysql2/promise');
const [host, port, user, password, database] = process.argv.slice(2);

async function main() {
  const db = await mysql.createConnection({ host, port: Number(port), user, password, database });
  await db.query("SELECT 'ready'");
  await db.end();
  console.log(require('mysql2/package.json').version);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
