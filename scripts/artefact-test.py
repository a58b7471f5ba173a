#!/usr/bin/env python3
"""artefact-test.py NARROWS FILE...: runs what scripts/package.sh has made in front of a real MariaDB, each artefact as it is used.

NARROWS is a program for this machine, which starts MariaDB (`narrows sandbox`). Each FILE is one of
  *.tar.gz       the archive: unpacked, and started by a user without privileges
  *-image-*.tar  the image: its file system is read-only, its user is the image's, it has 64 MiB of memory; needs bubblewrap
  *_arm64.deb    the package for arm64: its program runs in an emulator (qemu-user-static)
Other packages are tested by scripts/deb-test.sh.
"""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65532
MEMORY_BYTES = 64 << 20
BIGGEST_IMAGE_BYTES = 25 << 20


def main():
    narrows, *files = [Path(argument).resolve() for argument in sys.argv[1:]]
    with mariadb(narrows) as server:
        for file in files:
            with tempfile.TemporaryDirectory(prefix="narrows-artefact-") as folder:
                # Others than its owner must reach what is in it.
                os.chmod(folder, 0o755)
                test = next(test for ending, test in TESTS.items() if re.search(ending, file.name))
                test(file, Path(folder), server)


def test_archive(file, folder, server):
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    for name in ["LICENSE", "etc/narrows.toml", "man/man1/narrows.1", "completions/narrows.bash", "doc/README.md", "systemd/narrows.service"]:
        expect((top / name).stat().st_size > 0, f"{name} is not in the archive")
    program = top / "bin/narrows"
    expect("INTERP" not in output(["readelf", "-l", program]), "the program is not static")
    print(output([program, "--version"]).strip())
    expect("0 errors" in output([program, "check", top / "etc/narrows.toml"]), "its configuration is wrong")
    place = Place(folder, server)
    start = as_nobody([program, "-f", "-c", place.file, "-D", place.data])
    with running(start, place.log) as process:
        place.is_served([program])
        process.send_signal(signal.SIGTERM)
        expect(process.wait(20) == 0, f"it did not end in order:\n{place.said()}")
    print("the archive is unpacked, serves and stops")


def test_image(file, folder, server):
    expect(file.stat().st_size < BIGGEST_IMAGE_BYTES, f"the image has {file.stat().st_size} bytes")
    root, settings = unpack_image(file, folder)
    config = settings["config"]
    expect(config["User"] == f"{NOBODY}:{NOBODY}", f"the image's user is {config['User']}")
    expect(not (root / "tmp").exists(), "the image has a /tmp: nothing here shows that it is not needed")
    command = config["Entrypoint"] + config["Cmd"]

    # With a volume that belongs to another user.
    foreign = folder / "foreign"
    foreign.mkdir(mode=0o755)
    mounts = ["--unshare-net", "--bind", foreign, "/var/lib/narrows"]
    failed = subprocess.run(as_nobody(container(root, mounts, command)), capture_output=True, text=True, timeout=20)
    expect(failed.returncode == 1 and f"cannot be written by user {NOBODY}" in failed.stderr, f"{failed}")

    # With its own configuration, and without a network.
    data = owned_folder(folder / "own")
    with contained(root, ["--unshare-net", "--bind", data, "/var/lib/narrows"], command, folder / "own.log") as process:
        door = data / "admin.sock"
        until(door.exists, folder / "own.log")
        said = output([root / "usr/bin/narrows", "ping", door])
        expect("answers" in said, said)
        stop(process)

    place = Place(folder, server, "/var/lib/narrows")
    mounts = ["--ro-bind", place.file, "/etc/narrows/narrows.toml", "--bind", place.data, "/var/lib/narrows"]
    with memory_limit() as limit, contained(root, mounts, command, place.log, limit) as process:
        health = config["Healthcheck"]["Test"]
        expect(health[0] == "CMD", f"the health check needs a shell, and the image has none: {health}")
        place.is_served([root / "usr/bin/narrows"])
        said = output(as_nobody(container(root, mounts, health[1:])))
        expect("answers" in said, said)
        said = output(as_nobody(container(root, mounts, health[1:] + ["--admin"])))
        expect("answers" in said, said)
        place.many_queries()
        print(f"image: served in 64 MiB ({limit.kind}); most in use: {limit.most_used()}")
        stop(process)
    # It has stopped, so its health check fails, with the reason.
    failed = subprocess.run(as_nobody(container(root, mounts, health[1:])), capture_output=True, text=True)
    expect(failed.returncode == 1 and "nothing listens" in failed.stderr, f"{failed}")
    print("the image serves with a read-only root, as its own user, and stops")


def test_arm64(file, folder, server):
    subprocess.run(["dpkg-deb", "--extract", file, folder / "tree"], check=True)
    emulated = ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu", folder / "tree/usr/bin/narrows"]
    print(output([*emulated, "--version"]).strip())
    place = Place(folder, server)
    # The emulator cannot start another process of the same program.
    start = as_nobody([*emulated, "-f", "--no-supervisor", "-c", place.file, "-D", place.data])
    with running(start, place.log) as process:
        place.is_served(emulated)
        process.send_signal(signal.SIGTERM)
        expect(process.wait(60) == 0, f"it did not end in order:\n{place.said()}")
    print("the program for arm64 serves")


class Place:
    """A configuration in front of the server, a data folder, and a log."""

    def __init__(self, folder, server, seen_as=None):
        self.port = free_port()
        self.file, self.data, self.log = folder / "narrows.toml", owned_folder(folder / "data"), folder / "log"
        self.file.write_text(f"""
drain_timeout = 0
[admin_variables]
mysql_ifaces = "{seen_as or self.data}/admin.sock"
[mysql_variables]
interfaces = "127.0.0.1:{self.port}"
monitor_username = "app"
monitor_password = "app"
[[mysql_servers]]
hostgroup_id = 0
hostname = "127.0.0.1"
port = {server['port']}
[[mysql_users]]
username = "app"
password = "app"
""")
        self.file.chmod(0o644)

    def said(self):
        return self.log.read_text(errors="replace")

    def is_served(self, narrows):
        """A statement is answered by the server, and `narrows ping` finds what answers."""
        until(lambda: " serving interfaces=" in self.said(), self.log)
        answer = self.query("SELECT 40 + 2, @@version")
        expect(re.fullmatch(r"42\t\S*MariaDB\S*\n", answer), f"the answer is {answer!r}")
        address = f"127.0.0.1:{self.port}"
        said = output([*narrows, "ping", address, "--timeout", "20"])
        expect(said.startswith(f"{address} answers: version "), said)
        said = output([*narrows, "ping", address, "--user", "app", "--password", "app", "--timeout", "20"])
        expect(said == f"{address} answers: 'app' can log in\n", said)

    def query(self, statement):
        client = ["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{self.port}", "-uapp", "-papp", "-N"]
        return subprocess.run(client, input=statement, capture_output=True, text=True, check=True, timeout=60).stdout

    def many_queries(self):
        """Results larger than its memory, and clients at the same time."""
        numbers = "WITH RECURSIVE numbers AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < 200)"
        wide = f"{numbers} SELECT REPEAT('x', 1000000) FROM numbers"
        clients = [["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{self.port}", "-uapp", "-papp", "-N", "-q", "-e", wide]] * 4
        started = [subprocess.Popen(client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for client in clients]
        for client in started:
            size = sum(len(piece) for piece in iter(lambda: client.stdout.read(1 << 20), b""))
            expect(client.wait(60) == 0 and size > 200_000_000, f"a client received {size} bytes\n{self.said()}")


class CgroupLimit:
    """A control group with little memory."""

    def __init__(self, folder, limit, most_used, kind):
        self.folder, self.peak, self.kind = folder, most_used, kind
        folder.mkdir()
        # A usual folder is no control group.
        if not (folder / limit).exists():
            raise FileNotFoundError(folder / limit)
        (folder / limit).write_text(str(MEMORY_BYTES))

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def most_used(self):
        peak = self.folder / self.peak
        return f"{int(peak.read_text()) / (1 << 20):.0f} MiB" if peak.exists() else "unknown"

    def end(self):
        for _ in range(100):
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.05)


class DataLimit:
    """What processes may allocate each, where no control group can be made; files that are read do not count."""

    kind = "of each process, RLIMIT_DATA: no control group can be made here"

    def enter(self):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))

    def most_used(self):
        return "unknown"

    def end(self):
        pass


@contextmanager
def memory_limit():
    name = f"narrows-artefact-{os.getpid()}"
    own = Path("/proc/self/cgroup").read_text()
    ways = [(Path("/sys/fs/cgroup/memory") / name, "memory.limit_in_bytes", "memory.max_usage_in_bytes", "cgroup v1")]
    for path in re.findall(r"^0::(.*)$", own, re.M):
        ways.insert(0, (Path("/sys/fs/cgroup" + path) / name, "memory.max", "memory.peak", "cgroup v2"))
    limit = DataLimit()
    for folder, most, peak, kind in ways:
        try:
            limit = CgroupLimit(folder, most, peak, kind)
            break
        except OSError:
            if folder.is_dir():
                folder.rmdir()
    try:
        yield limit
    finally:
        limit.end()


def unpack_image(file, folder):
    """Returns the image's file system and settings. Every digest and size is compared."""
    layout, root = folder / "layout", folder / "root"
    with tarfile.open(file) as archive:
        archive.extractall(layout, filter="data")

    def blob(descriptor):
        content = (layout / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
        expect("sha256:" + hashlib.sha256(content).hexdigest() == descriptor["digest"], f"another content: {descriptor}")
        expect(len(content) == descriptor["size"], f"another size: {descriptor}")
        return content

    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(entry))
    settings = json.loads(blob(manifest["config"]))
    (layer,) = manifest["layers"]
    packed = folder / "layer.tar.gz"
    packed.write_bytes(blob(layer))
    with tarfile.open(packed) as archive:
        owners = {member.name: member.uid for member in archive}
        expect(owners["var/lib/narrows"] == NOBODY and owners["usr/bin/narrows"] == 0, f"{owners}")
        archive.extractall(root, filter="data")
    if shutil.which("skopeo"):
        said = json.loads(output(["skopeo", "inspect", f"oci-archive:{file}"]))
        expect(said["Layers"] == [layer["digest"]], f"skopeo reads another image: {said}")
        output(["skopeo", "inspect", "--config", f"docker-archive:{file}"])
    # Mount points, which a container runtime creates.
    for name in ["proc", "dev"]:
        (root / name).mkdir()
    return root, settings


def container(root, mounts, command, *more):
    return ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--uid", NOBODY, "--gid", NOBODY,
            "--cap-drop", "ALL", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", *mounts, "--chdir", "/",
            "--clearenv", "--new-session", "--die-with-parent", *more, "--", *command]


@contextmanager
def contained(root, mounts, command, log, limit=None):
    """The image's program as the first process of a container; yields the runtime, which knows that process."""
    read, write = os.pipe()
    line = as_nobody(container(root, mounts, command, "--as-pid-1", "--json-status-fd", write))
    with running(line, log, limit, [write]) as process:
        os.close(write)
        with os.fdopen(read) as status:
            process.inside = json.loads(status.readline())["child-pid"]
            yield process


def stop(process):
    os.kill(process.inside, signal.SIGTERM)
    expect(process.wait(20) == 0, "the container did not end in order")


@contextmanager
def running(command, log, limit=None, descriptors=()):
    with open(log, "wb") as out:
        process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   pass_fds=descriptors, preexec_fn=limit.enter if limit else None)
    try:
        yield process
    except Exception:
        print(log.read_text(errors="replace")[-4000:], file=sys.stderr)
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextmanager
def mariadb(narrows):
    command = [narrows, "sandbox", "--replicas", "0", "--json", "--until-eof"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        described = json.loads(process.stdout.readline())
        yield next(iter(described["servers"]))
    finally:
        process.stdin.close()
        process.wait(60)


def as_nobody(command):
    """The command as a user without privileges, if this one is root."""
    change = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"] if os.geteuid() == 0 else []
    return [str(part) for part in [*change, *command]]


def owned_folder(path):
    path.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    return path


def output(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    expect(done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def until(holds, log):
    deadline = time.monotonic() + 60
    while not holds():
        expect(time.monotonic() < deadline, f"not in time:\n{log.read_text(errors='replace')}")
        time.sleep(0.02)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def expect(holds, message):
    if not holds:
        sys.exit(f"artefact-test: {message}")


TESTS = {r"\.tar\.gz$": test_archive, r"-image-.*\.tar$": test_image, r"_arm64\.deb$": test_arm64}

main()
