#!/usr/bin/env python3
"""image.py [program]: makes a container image of a static program (of scripts/cross.sh), without a daemon.

The image is one layer, in target/package/narrows-VERSION-image-amd64.tar: an OCI layout, with the manifest.json that older
versions of `docker load` read. The same files give the same image.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The user of images that have no other one; nothing on a usual host has this number.
USER = 65532
CONFIGURATION = "/etc/narrows/narrows.toml"
DATA = "/var/lib/narrows"
MACHINES = {62: "amd64", 183: "arm64"}


def main():
    program = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/cross/x86_64-unknown-linux-musl/narrows")
    headers = subprocess.run(["readelf", "-l", program], capture_output=True, text=True, check=True).stdout
    if "INTERP" in headers:
        sys.exit(f"image: {program} is not static, and the image has no libraries")
    with tempfile.NamedTemporaryFile() as copy:
        subprocess.run(["strip", "--strip-debug", "-o", copy.name, program], check=True)
        stripped = Path(copy.name).read_bytes()
    architecture = MACHINES.get(int.from_bytes(stripped[18:20], "little"))
    if architecture is None:
        sys.exit(f"image: {program} is for an unknown machine")
    epoch = time_of_sources()
    layer = layer_of(stripped, epoch)
    blobs = Blobs(epoch)
    zipped = gzip.compress(layer, 9, mtime=0)
    layer_digest = blobs.add(zipped)
    config = blobs.add_json(image_config(architecture, hashlib.sha256(layer).hexdigest(), version(), epoch))
    manifest = blobs.add_json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blobs.descriptor(config, "application/vnd.oci.image.config.v1+json"),
        "layers": [blobs.descriptor(layer_digest, "application/vnd.oci.image.layer.v1.tar+gzip")],
    })
    entry = blobs.descriptor(manifest, "application/vnd.oci.image.manifest.v1+json")
    entry["platform"] = {"architecture": architecture, "os": "linux"}
    tag = f"narrows:{version()}"
    entry["annotations"] = {"org.opencontainers.image.ref.name": version(), "io.containerd.image.name": f"docker.io/library/{tag}"}
    files = {
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
        "index.json": {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]},
        "manifest.json": [{"Config": blobs.path(config), "RepoTags": [tag], "Layers": [blobs.path(layer_digest)]}],
    }
    folder = ROOT / "target/package"
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"narrows-{version()}-image-{architecture}.tar"
    blobs.write(out, files)
    print(f"{out.relative_to(ROOT)}: {out.stat().st_size / (1 << 20):.1f} MiB, unpacked {len(layer) / (1 << 20):.1f} MiB")


def version():
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


def time_of_sources():
    """The time of the commit, so that an image does not depend on when it is made."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    git = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return int(git.stdout) if git.returncode == 0 else 0


def layer_of(program, epoch):
    """The file system."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        def folder(path, owner=0, mode=0o755):
            add(tar, path, None, owner, mode, epoch)

        def file(path, content, mode=0o644):
            add(tar, path, content, 0, mode, epoch)

        for path in ["etc", "etc/narrows", "usr", "usr/bin", "usr/share", "usr/share/doc", "usr/share/doc/narrows", "var", "var/lib"]:
            folder(path)
        folder(DATA[1:], USER, 0o700)
        file("etc/passwd", f"root:x:0:0:root:/:/\nnarrows:x:{USER}:{USER}:Narrows:{DATA}:/\n".encode())
        file("etc/group", f"root:x:0:\nnarrows:x:{USER}:\n".encode())
        file(CONFIGURATION[1:], (ROOT / "packaging/image/narrows.toml").read_bytes())
        file("usr/share/doc/narrows/LICENSE", (ROOT / "LICENSE").read_bytes())
        file("usr/bin/narrows", program, 0o755)
    return out.getvalue()


def add(tar, path, content, owner, mode, epoch):
    entry = tarfile.TarInfo(path)
    entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
    entry.size, entry.mode, entry.mtime = len(content or b""), mode, epoch
    entry.uid = entry.gid = owner
    tar.addfile(entry, io.BytesIO(content or b""))


def image_config(architecture, layer, number, epoch):
    created = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    second = 1_000_000_000
    return {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/narrows"],
            "Cmd": ["-f", "-c", CONFIGURATION, "-D", DATA],
            "WorkingDir": DATA,
            "Volumes": {DATA: {}},
            "ExposedPorts": {"6033/tcp": {}},
            "StopSignal": "SIGTERM",
            # Docker reads this. Kubernetes has probes of its own, and Podman reads it in images of Docker's format only.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/narrows", "ping", "-c", CONFIGURATION, "-D", DATA],
                "Interval": 10 * second, "Timeout": 5 * second, "StartPeriod": 10 * second, "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "Narrows",
                "org.opencontainers.image.description": "A MySQL-protocol proxy",
                "org.opencontainers.image.version": number,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
        "history": [{"created": created, "created_by": "scripts/image.py"}],
    }


class Blobs:
    """The content of an image, by digest."""

    def __init__(self, epoch):
        self.epoch, self.blobs = epoch, {}

    def add(self, content):
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return digest

    def add_json(self, value):
        return self.add(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())

    def path(self, digest):
        return f"blobs/sha256/{digest}"

    def descriptor(self, digest, media_type):
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(self.blobs[digest])}

    def write(self, out, files):
        with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, value in sorted(files.items()):
                add(tar, name, json.dumps(value, sort_keys=True).encode(), 0, 0o644, self.epoch)
            for path in ["blobs", "blobs/sha256"]:
                add(tar, path, None, 0, 0o755, self.epoch)
            for digest, content in sorted(self.blobs.items()):
                add(tar, self.path(digest), content, 0, 0o644, self.epoch)


if __name__ == "__main__":
    main()
