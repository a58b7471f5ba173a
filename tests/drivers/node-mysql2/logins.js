// Logins with mysql2: a line of input each, TRANSPORT, ADDRESS, PLUGIN, USER, PASSWORD and perhaps OPTIONS in JSON separated
// by tabs; a line of output each, `ok` or the error message.
const mysql = require('mysql2/promise');
const readline = require('readline');

async function login(transport, address, plugin, user, password, more) {
  if (!['mysql_native_password', 'caching_sha2_password'].includes(plugin)) {
    return 'none: the driver answers for the plugin of the greeting';
  }
  const options = { user, password, connectTimeout: 60000, ...JSON.parse(more || '{}') };
  if (transport === 'unix') options.socketPath = address;
  else Object.assign(options, { host: '127.0.0.1', port: Number(address) });
  if (transport === 'tls') options.ssl = { rejectUnauthorized: false };
  const connection = await mysql.createConnection(options);
  try {
    const [rows] = await connection.query("SELECT 'in' AS answer");
    return rows[0].answer === 'in' ? 'ok' : 'wrong answer';
  } finally {
    await connection.end();
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const result = await login(...line.split('\t')).catch((error) => `${error.errno || ''} ${error.message}`);
    console.log(result.split(/\s+/).join(' ').trim());
  }
})();
