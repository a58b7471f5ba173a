#!/usr/bin/env python3
"""mtr.py HOST PORT USER PASSWORD

Runs programs of a server's own test suite, by its mysqltest, one by one: each as it is, and each with the statements
prepared that can be. Nothing of the suite is part of this repository: MTR_TESTS is its folder of programs, MTR_HOME what they
include files relative to, MTR_CLIENT the program mysqltest. A program is not compared with its recorded result, which needs the
suite's own server; whatever comes out is what this test saw. Between two programs the server is brought back to what it was.
"""

import fnmatch
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

# What a direct run does in its time is done through Narrows, beside everything else, in a longer one.
PROGRAM_SECONDS = 30 if os.environ["COMPAT_VIA"] in ("direct", "again") else 90
CLEAN_SECONDS = 60
MAX_SEEN_BYTES = 4 << 20
SYSTEM_SCHEMAS = {"mysql", "information_schema", "performance_schema", "sys", "app", "sbtest", "test", "mtr"}

host, port, user, password = sys.argv[1:5]
mariadb = os.environ["COMPAT_SERVER"] == "mariadb"
seen = Path(os.environ["COMPAT_SEEN"])
tests, home, program = (Path(os.environ[name]) for name in ("MTR_TESTS", "MTR_HOME", "MTR_CLIENT"))
client = [
    "mariadb", f"-h{host}", f"-P{port}", f"-u{user}", "-BN", "--force", "--default-character-set=utf8mb4", "--connect-timeout=20",
]


def sql(text, to=client):
    """What the client prints; errors go to the log, a wait that is too long is one."""
    try:
        done = subprocess.run(to, input=text, capture_output=True, text=True, errors="replace", timeout=CLEAN_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"mtr.py: not done within {CLEAN_SECONDS} s: {text[:200]}", file=sys.stderr)
        return ""
    if done.stderr:
        print(done.stderr[:500], file=sys.stderr)
    return done.stdout


def globals_now():
    if mariadb:
        text = """SELECT variable_name, global_value FROM information_schema.system_variables
            WHERE read_only = 'NO' AND global_value IS NOT NULL"""
    else:
        text = "SELECT variable_name, variable_value FROM performance_schema.global_variables"
    return dict(line.split("\t", 1) for line in sql(text).splitlines() if "\t" in line)


def accounts_now():
    return set(sql("SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.user").splitlines())


class Clean:
    """What the server was before the first program."""

    def __init__(self):
        self.globals, self.accounts = globals_now(), accounts_now()

    def restore(self):
        statements = ["SET SESSION foreign_key_checks = 0, lock_wait_timeout = 10"]
        for schema in sql("SHOW DATABASES").splitlines():
            if schema not in SYSTEM_SCHEMAS and not schema.startswith("disturb_"):
                statements.append(f"DROP DATABASE `{schema}`")
        statements.append("DROP DATABASE IF EXISTS test")
        statements.append("CREATE DATABASE test")
        statements += [f"DROP USER {account}" for account in accounts_now() - self.accounts if account]
        for name, value in globals_now().items():
            before = self.globals.get(name)
            if before in (None, value) or name.lower().startswith(("gtid", "wsrep", "timestamp")):
                continue
            quoted = "'" + before.replace("\\", "\\\\").replace("'", "''") + "'"
            statements.append(f"SET GLOBAL {name} = {before if re.fullmatch(r'-?[0-9.]+', before) else quoted}")
        sql(";\n".join(statements) + ";\n")


def environment(work):
    """What the suite's own driver tells programs of their server, as far as it is true here."""
    own = {
        "MYSQL_TEST_DIR": work, "MYSQLTEST_VARDIR": work / "var", "MYSQL_TMP_DIR": work / "var" / "tmp",
        "MASTER_MYPORT": port, "MASTER_MYSOCK": "/nowhere/mysqld.sock", "DEFAULT_MASTER_PORT": port,
        "MYSQL_SHAREDIR": "/usr/share/mysql", "CHARSETSDIR": "/usr/share/mysql/charsets", "TZ": "GMT-3", "LC_ALL": "C",
    }
    programs = {"MYSQL": "mariadb", "MYSQL_DUMP": "mariadb-dump", "MYSQLADMIN": "mariadb-admin", "MYSQL_CHECK": "mariadb-check",
                "MYSQL_SHOW": "mariadb-show", "MYSQL_IMPORT": "mariadb-import"}
    if not mariadb:
        own_programs = {"MYSQL": "mysql", "MYSQL_DUMP": "mysqldump", "MYSQLADMIN": "mysqladmin"}
        programs = {name: program.parent / command for name, command in own_programs.items()}
    for name, command in programs.items():
        own[name] = f"{command} --no-defaults -h{host} -P{port} -u{user}"
    return os.environ | {name: str(value) for name, value in own.items()}


def comparable(text):
    """Without what belongs to this run: ports, folders, line numbers of the failure."""
    text = text.replace(str(port), "PORT").replace(os.environ["COMPAT_DIRECT"], "PORT")
    return re.sub(r"/tmp/(narrows-sandbox|narrows-mtr)[^ '\"]*", "FOLDER", text)


def know_accounts(file):
    """Accounts in whose name a program connects are made known to Narrows: it knows no others."""
    admin_port = os.environ.get("COMPAT_ADMIN")
    if not admin_port:
        return
    connect = r"^\s*(?:--)?connect\s*\(?\s*[^,;]+,[^,;]*,\s*([A-Za-z0-9_]+)\s*(?:,\s*([^,;)]*))?"
    named = re.findall(connect, file.read_text(errors="replace"), re.M | re.I)
    accounts = {(name, secret.strip().strip("'\"")) for name, secret in named if name != "root"}
    accounts = {(name, secret) for name, secret in accounts if re.fullmatch(r"[\w#@.-]*", secret)}
    forget = "DELETE FROM mysql_users WHERE username NOT IN ('app', 'repl', 'no_password', 'root')"
    admin = ["mariadb", "-h127.0.0.1", f"-P{admin_port}", "-uadmin", "-padmin"]
    sql(f"{forget}; LOAD MYSQL USERS TO RUNTIME;", admin)
    if accounts:
        rows = ", ".join(f"('{name}', '{secret}', 0)" for name, secret in sorted(accounts))
        insert = f"REPLACE INTO mysql_users (username, password, default_hostgroup) VALUES {rows}"
        sql(f"{insert}; LOAD MYSQL USERS TO RUNTIME;", admin)


def run_program(file, name, options, work):
    for folder in ["tmp", "log", "run"]:
        shutil.rmtree(work / "var" / folder, ignore_errors=True)
        (work / "var" / folder).mkdir(parents=True)
    # Most programs meet an error sooner or later that their own server would not give; what comes after it is
    # compared too.
    if mariadb:
        options = [*options, "--continue-on-error", f"--test-file={file}"]
    else:
        wrapped = work / "var" / "tmp" / "wrapped.test"
        wrapped.write_text(f"--disable_abort_on_error\n--source {file}\n")
        options = [*options, f"--test-file={wrapped}"]
    command = [
        str(program), "--no-defaults", f"--host={host}", f"--port={port}", f"--user={user}", f"--password={password}",
        "--protocol=tcp", "--max-connect-retries=2", "--connect-timeout=20", "--silent", f"--basedir={work}/",
        f"--tmpdir={work / 'var' / 'tmp'}", f"--logdir={work / 'var' / 'log'}", *options, "test",
    ]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=work, env=environment(work), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            end = process.wait(timeout=PROGRAM_SECONDS)
        except subprocess.TimeoutExpired:
            end = "time"
        finally:
            # A program may have started others.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        output.seek(0)
        text = output.read(MAX_SEEN_BYTES).decode("utf-8", "backslashreplace")
    text = comparable(text) + f"\nend: {end}\n"
    (seen / name).write_text(text)
    # 62 is how a program says that it is not for this server. What a program prints before its time is over, or
    # until it waits for a restart, depends on the time.
    outcome = {0: "pass", 62: "skip", "time": "skip time"}.get(end, "fail")
    print(f"{outcome} {hashlib.sha256(text.encode()).hexdigest()[:16]}\t{name}", flush=True)
    return outcome


def main():
    share, only = int(os.environ.get("COMPAT_SHARE", "10")), os.environ.get("COMPAT_ONLY")
    files = sorted(tests.glob("*.test"))
    if only:
        files = [file for file in files if any(fnmatch.fnmatch(file.stem, pattern) for pattern in only.split(","))]
    else:
        files = files[::share]
    seen.mkdir(exist_ok=True)
    # The suite's own server has this procedure, which lists what its log may have.
    sql("CREATE DATABASE mtr; CREATE PROCEDURE mtr.add_suppression(pattern TEXT) DO 1;")
    clean = Clean()
    with tempfile.TemporaryDirectory(prefix="narrows-mtr-") as folder:
        work = Path(folder)
        for entry in home.iterdir():
            (work / entry.name).symlink_to(entry)
        (work / "var").mkdir()
        (work / "var" / "std_data").symlink_to(home / "std_data")
        work.chmod(0o755)
        for file in files:
            for name, options in [(file.stem, []), (f"{file.stem} (prepared)", ["--ps-protocol"])]:
                if not sql("SELECT 1"):
                    sys.exit("mtr.py: the server does not answer")
                clean.restore()
                know_accounts(file)
                if run_program(file, name, options, work) .startswith("skip"):
                    break
        clean.restore()


if __name__ == "__main__":
    main()
