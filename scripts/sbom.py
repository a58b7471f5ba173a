#!/usr/bin/env python3
"""sbom.py [target]: writes what the program consists of, as CycloneDX in JSON, to target/package/narrows-VERSION.cdx.json.

The crates, their licences and their checksums are those of Cargo.lock that are compiled in, or run while compiling; not those of
tests. C libraries (SQLite, AWS-LC, zstd) are part of the crates that bring them. The same sources give the same file.
"""

import json
import re
import runpy
import subprocess
import sys
import tomllib
import uuid
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else TARGET
    image = runpy.run_path(str(ROOT / "scripts/image.py"), run_name="image")
    version, epoch = image["version"](), image["time_of_sources"]()
    graph = crates(target)
    checksums = {(it["name"], it["version"]): it.get("checksum") for it in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    top = next(id for id, (crate, _) in graph.items() if crate["name"] == "narrows")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": component(graph[top][0], checksums) | {"type": "application"},
        },
        "components": [component(crate, checksums) for id, (crate, _) in graph.items() if id != top],
        "dependencies": [{"ref": reference(crate), "dependsOn": sorted(reference(graph[it][0]) for it in uses)} for crate, uses in graph.values()],
    }
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))}"
    folder = ROOT / "target/package"
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"narrows-{version}.cdx.json"
    out.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    print(f"{out.relative_to(ROOT)}: {len(document['components'])} components")


def crates(target):
    """The crates that the program reaches, without those of tests, each with those that it uses."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    packages = {it["id"]: it for it in metadata["packages"]}
    nodes = {
        node["id"]: [it["pkg"] for it in node["deps"] if any(kind["kind"] != "dev" for kind in it["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    waiting = [next(id for id, it in packages.items() if it["name"] == "narrows" and it["source"] is None)]
    reached = set(waiting)
    while waiting:
        for other in nodes[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    order = sorted(reached, key=lambda id: (packages[id]["name"], packages[id]["version"]))
    return {id: (packages[id], nodes[id]) for id in order}


def reference(crate):
    return f"pkg:cargo/{crate['name']}@{crate['version']}"


def component(crate, checksums):
    found = {
        "type": "library",
        "bom-ref": reference(crate),
        "purl": reference(crate),
        "name": crate["name"],
        "version": crate["version"],
        # An older form of OR is a slash.
        "licenses": [{"expression": re.sub(r"\s*/\s*", " OR ", crate["license"])}],
    }
    checksum = checksums.get((crate["name"], crate["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


main()
