#!/usr/bin/env python3
"""run.py [--servers mariadb,mysql9] [--vias narrows,split] [--narrows PROGRAM] [suite...]

Runs the test suites of drivers and tools against a server directly, through Narrows before it, and through Narrows
with a read/write split, and compares the outcome of each test by its name. What differs and is not in known.txt
fails the run. Servers and Narrows are started for the run, on free ports of 127.0.0.1; logs are in target/compat/logs.

A suite is suites/NAME.sh, called as `NAME.sh install` and as `NAME.sh run HOST PORT USER PASSWORD`. The second prints
a line `OUTCOME<tab>TEST` for each test, where OUTCOME is pass, fail or skip or what the test saw, and anything else to
standard error. COMPAT_DIR is a folder of its own,
COMPAT_SERVER is mariadb or mysql9, COMPAT_VIA is direct, again, narrows or split, COMPAT_DIRECT is the server's own port.

A suite with a line `# shared: N` runs programs that were written for servers, as root without a password, each way on a
server of its own, while three other clients (disturb.py) set everything that a session has. Through Narrows all of them
share N connections to the server. Lines `# mariadb: OPTION...` and `# mysql9: OPTION...` are options of these servers. The
direct run is made twice: what differs between its two runs is not compared. A suite that writes what a test saw into
$COMPAT_SEEN/TEST is compared by the lines of these files; the differing line follows the name of the test, `TEST: -line` or
`TEST: +line`, where known.txt can refer to it. COMPAT_SHARE is how many programs such a suite takes one of (10), COMPAT_ONLY
a shell pattern of those to take instead (for mtr several, separated by commas), COMPAT_ADMIN the port of the admin interface.
"""

import argparse
import difflib
import fnmatch
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / "target" / "compat"
USER = PASSWORD = "app"
# The longest suite takes a quarter of this on an idle machine.
SUITE_SECONDS = int(os.environ.get("COMPAT_SECONDS", "3600"))
# What two texts are compared up to: comparing takes time that grows with the square of the lines.
COMPARED_LINES = 20000
# How many differences of one test are printed.
PRINTED_DIFFERENCES = 5


class Known:
    """The differences that are expected, each with its reason."""

    def __init__(self, path):
        self.rows = []
        documented = (ROOT / "docs" / "compatibility.md").read_text()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            fields = [field.strip() for field in line.split("|")]
            if len(fields) != 5 or not fields[4]:
                sys.exit(f"{path.name}:{number}: five columns are wanted, the last one the reason")
            if fields[4] not in documented:
                sys.exit(f"{path.name}:{number}: docs/compatibility.md does not have this reason")
            self.rows.append(fields)

    def find(self, suite, server, via, test):
        for suites, servers, vias, tests, reason in self.rows:
            wanted = [(suite, suites), (server, servers), (via, vias), (test, tests)]
            if all(fnmatch.fnmatchcase(value, pattern) for value, pattern in wanted):
                return reason
        return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One primary of `narrows sandbox`; ended with its standard input."""

    def __init__(self, narrows, kind, options=(), shared=False):
        command = [narrows, "sandbox", "--replicas", "0", "--json", "--until-eof"]
        self.certificate = tempfile.TemporaryDirectory(prefix="narrows-compat-")
        if kind == "mysql9":
            # Suites load files, which MySQL refuses by default, unlike MariaDB.
            command += ["--server", "/opt/mysql9", "--option=--local-infile=ON"]
        else:
            # MySQL generates its own certificate, MariaDB 10.11 does not; suites need TLS.
            cert, key = f"{self.certificate.name}/cert.pem", f"{self.certificate.name}/key.pem"
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=sandbox",
                 "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL,
            )
            command += [f"--option=--ssl-cert={cert}", f"--option=--ssl-key={key}"]
        command += [f"--option={option}" for option in options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"run.py: no {kind} server; see scripts/setup.sh")
        described = json.loads(line)
        self.version = described["version"]
        self.port = described["servers"][0]["port"]
        self.socket = described["servers"][0]["socket"]
        # Suites create their own accounts.
        statements = f"GRANT ALL PRIVILEGES ON *.* TO {USER}@'%' WITH GRANT OPTION;"
        if shared:
            # Programs written for servers expect to be root; they must not end the server, which others need.
            statements += """
                REVOKE SHUTDOWN ON *.* FROM root@localhost;
                CREATE USER IF NOT EXISTS root@'127.0.0.1' IDENTIFIED BY '';
                GRANT ALL PRIVILEGES ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
                REVOKE SHUTDOWN ON *.* FROM root@'127.0.0.1'"""
        subprocess.run(["mariadb", f"-S{self.socket}", "-uroot", "-e", statements], check=True)
        command = ["mariadb", "-h127.0.0.1", f"-P{self.port}", f"-u{USER}", f"-p{PASSWORD}", "-BNe", "SELECT VERSION()"]
        version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        # The version in the greeting, by which drivers distinguish the two; MariaDB prefixes an old version
        # to its own.
        self.announced = f"5.5.5-{version}" if kind == "mariadb" else version

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.certificate.cleanup()


class Narrows:
    """Narrows before one server, with one hostgroup or with the classic split over two that are both that server."""

    def __init__(self, program, server, via, log, shared_connections=None):
        """`shared_connections` is how many connections to the server all clients share, for suites that do so."""
        self.shared, self.connections = shared_connections is not None, shared_connections or 200
        self.folder = Path(tempfile.mkdtemp(prefix="narrows-compat-"))
        self.port, self.admin_port = free_port(), free_port()
        config = self.folder / "narrows.cnf"
        config.write_text(self.config(server, via))
        command = [program, "-f", "-c", str(config), "-D", str(self.folder / "data")]
        (self.folder / "data").mkdir()
        self.log = log.open("w")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 60
        while not self.listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"run.py: Narrows did not start: {log}")
            time.sleep(0.05)

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def config(self, server, via):
        hostgroups = [0, 1] if via == "split" else [0]
        servers = ",\n".join(
            f'    {{ hostgroup={hostgroup} address="127.0.0.1" port={server.port} max_connections={self.connections} }}'
            for hostgroup in hostgroups
        )
        # A separate fast-forward account, used to read binary logs. The tests of sqlx create the one without
        # a password. Programs written for servers are root.
        users = ",\n".join(
            f'    {{ username="{name}" password="{password}" default_hostgroup=0 fast_forward={fast} }}'
            for name, password, fast in [(USER, PASSWORD, 0), ("repl", "repl", 1), ("no_password", "", 0), ("root", "", 0)]
        )
        rules = []
        if self.shared:
            # disturb.py marks what is to be mirrored.
            rules.append('{ rule_id=1 active=1 match_pattern="mirror this" mirror_hostgroup=0 apply=1 }')
        if via == "split":
            rules += [
                '{ rule_id=2 active=1 match_digest="^SELECT.*FOR UPDATE" destination_hostgroup=0 apply=1 }',
                '{ rule_id=3 active=1 match_digest="^SELECT" destination_hostgroup=1 apply=1 }',
            ]
        rules = ",\n    ".join(rules)
        return f"""
admin_variables = {{ mysql_ifaces="127.0.0.1:{self.admin_port}" }}
mysql_variables =
{{
    interfaces="127.0.0.1:{self.port}"
    threads=2
    server_version="{server.announced}"
    monitor_username="monitor"
    monitor_password="monitor"
    max_allowed_packet=268435456
    enable_load_data_local_infile=true
    connect_timeout_client=60000
}}
mysql_servers =
(
{servers}
)
mysql_users =
(
{users}
)
mysql_query_rules =
(
    {rules}
)
"""

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Disturbers:
    """Three other clients, which are busy until they are stopped."""

    def __init__(self, port, log):
        folder = TARGET / "disturb"
        self.log = log
        command = [str(folder / "python" / "bin" / "python"), str(HERE / "disturb.py"), "127.0.0.1", str(port), "root", ""]
        with log.open("w") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)

    @staticmethod
    def install():
        folder = TARGET / "disturb"
        folder.mkdir(parents=True, exist_ok=True)
        command = f". {HERE / 'python.sh'} && packages PyMySQL==1.1.2 cryptography==45.0.7"
        subprocess.run(["bash", "-euc", command], check=True, env=os.environ | {"COMPAT_DIR": str(folder)})

    def stop(self):
        """Ends them; what they saw of others, one line each."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        lines = self.log.read_text(errors="replace").splitlines()
        if not any(line.startswith("done ") for line in lines):
            return ["the other clients did not come to their end"]
        return [line for line in lines if line.startswith("MISMATCH")]


def environment(suite, server, via, direct_port, admin_port=""):
    folder = TARGET / suite
    folder.mkdir(parents=True, exist_ok=True)
    own = {
        "COMPAT_DIR": folder, "COMPAT_SERVER": server, "COMPAT_VIA": via, "COMPAT_DIRECT": direct_port,
        "COMPAT_ADMIN": admin_port, "COMPAT_SEEN": seen_folder(suite, server, via),
    }
    return os.environ | {name: str(value) for name, value in own.items()} | {"LC_ALL": "C.UTF-8"}


def seen_folder(suite, server, via):
    return TARGET / "logs" / f"{suite}-{server}-{via}.seen"


def run_suite(suite, server, via, port, direct_port, admin_port="", account=(USER, PASSWORD)):
    """Runs one suite once; its outcomes by test name."""
    log = TARGET / "logs" / f"{suite}-{server}-{via}"
    shutil.rmtree(seen_folder(suite, server, via), ignore_errors=True)
    seen_folder(suite, server, via).mkdir()
    command = [str(HERE / "suites" / f"{suite}.sh"), "run", "127.0.0.1", str(port), *account]
    with open(f"{log}.out", "w") as out, open(f"{log}.err", "w") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True,
            env=environment(suite, server, via, direct_port, admin_port),
        )
        try:
            process.wait(timeout=SUITE_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"run.py: {suite} on {server} {via} was ended after {SUITE_SECONDS} s", flush=True)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    outcomes = {}
    for line in Path(f"{log}.out").read_text(errors="replace").splitlines():
        outcome, tab, test = line.partition("\t")
        if tab:
            outcomes[test] = outcome
    return outcomes


def compare(suite, server, via, direct, through, known):
    """Prints what differs; how many differences are not known."""
    unknown = 0
    for test in sorted(direct.keys() | through.keys()):
        left, right = direct.get(test, "missing"), through.get(test, "missing")
        if left == right:
            continue
        reason = known.find(suite, server, via, test)
        unknown += reason is None
        left, right = left[:100], right[:100]
        print(f"  {'DIFFERS' if reason is None else 'known  '} {test}: {left} -> {right}{f' ({reason})' if reason else ''}")
    return unknown


def count(outcomes):
    """How many of each kind. An outcome may also be what a test saw, which counts as passed unless it is an error."""
    words = [outcome.split()[0] if outcome else "pass" for outcome in outcomes.values()]
    kinds = [word if word in ("fail", "error", "skip", "xfail", "xpass", "crash") else "pass" for word in words]
    order = sorted(set(kinds), key=lambda kind: (kind != "pass", kind))
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in order)


def hunks(left, right):
    """What differs between two lists of lines, as ranges of both."""
    if left == right:
        return []
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    end = same + COMPARED_LINES
    matcher = difflib.SequenceMatcher(None, left[same:end], right[same:end], autojunk=False)
    return [
        (range(i1 + same, i2 + same), range(j1 + same, j2 + same))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"
    ]


def compare_seen(suite, server, via, test, known):
    """Prints how the lines seen by one test differ, except where two direct runs differ; how many hunks are not known."""
    texts = {}
    for way in ["direct", "again", via]:
        file = seen_folder(suite, server, way) / test
        texts[way] = file.read_text(errors="backslashreplace").splitlines() if file.exists() else ["nothing was seen"]
    # An insertion has no line of its own: it is at the line before which it was inserted.
    varying = {line for lines, _ in hunks(texts["direct"], texts["again"]) for line in [*lines, lines.start, lines.stop - 1]}
    unknown = printed = 0
    for lines, others in hunks(texts["direct"], texts[via]):
        if varying.intersection([*lines, lines.start]):
            continue
        first = f"-{texts['direct'][lines[0]]}" if lines else f"+{texts[via][others[0]]}"
        reason = known.find(suite, server, via, f"{test}: {first}")
        unknown += reason is None
        if reason is None and printed < PRINTED_DIFFERENCES:
            printed += 1
            print(f"  DIFFERS {test}: {first[:200]}")
            for sign, text, places in [("-", texts["direct"], lines), ("+", texts[via], others)]:
                for place in places[:4]:
                    print(f"      {place + 1} {sign}{text[place][:200]}")
    return unknown


def compare_shared(suite, server, via, direct, again, through, known):
    """Prints what differs of a suite that shares its connections; how many differences are not known."""
    unknown = 0
    # Skipped: not for this server, or not done in time, so there is nothing to compare with.
    differing = [
        test for test in sorted(direct)
        if direct[test] != through.get(test, "missing") and not direct[test].startswith("skip")
    ]
    for test in differing:
        reason = known.find(suite, server, via, test)
        if reason is not None:
            print(f"  known   {test} ({reason})")
        elif (seen_folder(suite, server, via) / test).exists():
            unknown += compare_seen(suite, server, via, test, known)
        elif direct.get(test, "missing") == again.get(test, "missing"):
            unknown += 1
            print(f"  DIFFERS {test}: {direct.get(test, 'missing')[:100]} -> {through.get(test, 'missing')[:100]}")
    return unknown


def check_shared(suite, kind, vias, program, known, connections):
    """One suite whose programs share connections with other clients, on one kind of server, all ways."""
    Disturbers.install()
    wrong = 0
    seen = {}
    for via in ["direct", "again", *vias]:
        log = TARGET / "logs" / f"{suite}-{kind}-{via}.narrows"
        # Accounts of such programs are at localhost.
        server = Server(program, kind, ["--skip-name-resolve=OFF", *header_of(suite, kind)], shared=True)
        narrows = others = None
        try:
            port, admin_port = server.port, ""
            if via not in ("direct", "again"):
                narrows = Narrows(program, server, via, log, connections)
                port, admin_port = narrows.port, narrows.admin_port
            others = Disturbers(port, TARGET / "logs" / f"{suite}-{kind}-{via}.disturb")
            seen[via] = run_suite(suite, kind, via, port, server.port, admin_port, ("root", ""))
            mismatches = others.stop()
            print(f"{suite} on {kind} {server.version}, {via}: {count(seen[via]) or 'no tests'}", flush=True)
            for mismatch in mismatches[:PRINTED_DIFFERENCES]:
                print(f"  DIFFERS for another client: {mismatch[:300]}")
            wrong += len(mismatches)
            if narrows and not narrows.alive():
                print("  DIFFERS Narrows has ended")
                wrong += 1
        finally:
            if others and others.process.poll() is None:
                others.stop()
            if narrows:
                narrows.stop()
            server.stop()
        if narrows and "panicked" in log.read_text(errors="replace"):
            print(f"  DIFFERS a panic: {log}")
            wrong += 1
        if not seen[via]:
            print(f"  DIFFERS no test ran: target/compat/logs/{suite}-{kind}-{via}.err")
            return wrong + 1
        if narrows:
            wrong += compare_shared(suite, kind, via, seen["direct"], seen["again"], seen[via], known)
        elif via == "again":
            varying = sum(seen["direct"].get(test) != outcome for test, outcome in seen["again"].items())
            print(f"  {varying} differ between two direct runs, and are compared only where these agree")
        sys.stdout.flush()
    return wrong


def check_one(suite, kind, vias, program, known):
    """One suite on one kind of server, all ways; how many things are wrong."""
    connections = header_of(suite, "shared")
    if connections:
        return check_shared(suite, kind, vias, program, known, int(connections[0]))
    wrong = 0
    server = Server(program, kind)
    try:
        direct = run_suite(suite, kind, "direct", server.port, server.port)
        print(f"{suite} on {kind} {server.version}, direct: {count(direct) or 'no tests'}", flush=True)
        if not direct:
            print(f"  DIFFERS no test ran: target/compat/logs/{suite}-{kind}-direct.err")
            return 1
        for via in vias:
            log = TARGET / "logs" / f"{suite}-{kind}-{via}.narrows"
            narrows = Narrows(program, server, via, log)
            try:
                through = run_suite(suite, kind, via, narrows.port, server.port)
                print(f"{suite} on {kind} {server.version}, {via}: {count(through) or 'no tests'}", flush=True)
                wrong += compare(suite, kind, via, direct, through, known)
                if not narrows.alive():
                    print("  DIFFERS Narrows has ended")
                    wrong += 1
            finally:
                narrows.stop()
            if "panicked" in log.read_text(errors="replace"):
                print(f"  DIFFERS a panic: {log}")
                wrong += 1
            sys.stdout.flush()
    finally:
        server.stop()
    return wrong


def header_of(suite, name):
    """The words of a suite's line `# NAME: word...`, if it has one."""
    for line in (HERE / "suites" / f"{suite}.sh").read_text().splitlines():
        if line.startswith(f"# {name}:"):
            return line.split(":", 1)[1].split()
    return []


def servers_of(suite):
    """Which servers a suite is for: its line `# servers: mariadb mysql9`; both without one."""
    return header_of(suite, "servers") or ["mariadb", "mysql9"]


def main():
    everything = sorted(path.stem for path in (HERE / "suites").glob("*.sh"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="mariadb,mysql9")
    parser.add_argument("--vias", default="narrows,split")
    parser.add_argument("--narrows", default=str(ROOT / "target" / "debug" / "narrows"))
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"of {' '.join(everything)}; all without one")
    arguments = parser.parse_args()
    # Everything started is ended, however this program ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for suite in arguments.suites:
        if suite not in everything:
            parser.error(f"unknown suite: {suite}")
    (TARGET / "logs").mkdir(parents=True, exist_ok=True)
    known = Known(HERE / "known.txt")
    wrong = runs = 0
    for suite in arguments.suites or everything:
        script = str(HERE / "suites" / f"{suite}.sh")
        installed = subprocess.run([script, "install"], env=environment(suite, "", "", ""), stdin=subprocess.DEVNULL)
        if installed.returncode != 0:
            print(f"  DIFFERS {suite} could not be installed")
            wrong += 1
            continue
        for kind in arguments.servers.split(","):
            if kind in servers_of(suite):
                runs += 1
                wrong += check_one(suite, kind, arguments.vias.split(","), arguments.narrows, known)
    print(f"{runs} suites on servers run, {wrong} unexplained differences")
    sys.exit(1 if wrong or not runs else 0)


if __name__ == "__main__":
    main()
