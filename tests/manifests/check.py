#!/usr/bin/env python3
"""check.py NARROWS: checks what is in examples/kubernetes and examples/compose. The chart has chart.py.

Manifests are compared with the schemas of Kubernetes, the compose file with that of the Compose specification; then with each
other and with the image: ports, files, the user, commands of probes. The configurations in them pass `narrows check --strict`.
Run by tests/e2e/manifests.rs, with the Python that install.sh has made.
"""

import json
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import compose
import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
# preStop.sleep is enabled from 1.30 on.
VERSIONS = ["1.30.0", "1.37.0"]
RESTRICTED = "pod-security.kubernetes.io/enforce"


def main():
    narrows = Path(sys.argv[1])
    image = image_settings()
    for file in sorted((ROOT / "examples/kubernetes").glob("*.yaml")):
        kubernetes(file, narrows, image)
    compose_file(ROOT / "examples/compose/compose.yaml", narrows, image)
    deceived()
    print("the manifests are valid")


def image_settings():
    """What scripts/image.py gives each image."""
    script = runpy.run_path(str(ROOT / "scripts/image.py"), run_name="image")
    settings = script["image_config"]("amd64", "0" * 64, script["version"](), 0)["config"]
    return {"user": script["USER"], "tag": f"narrows:{script['version']()}", "data": script["DATA"], **settings}


def kubernetes(file, narrows, image):
    documents = list(yaml.safe_load_all(file.read_text()))
    for document in documents:
        for version in VERSIONS:
            validate(document, version)
    found = {document["kind"]: document for document in documents}
    expect(len(found) == len(documents), "two of a kind")
    expect(found["Namespace"]["metadata"]["labels"][RESTRICTED] == "restricted", "the namespace is not restricted")
    name = found["Namespace"]["metadata"]["name"]
    expect(all(it["metadata"].get("namespace", name) == name for it in documents), "several namespaces")

    template = found["Deployment"]["spec"]["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    for kind in ["Deployment", "PodDisruptionBudget"]:
        expect(found[kind]["spec"]["selector"]["matchLabels"].items() <= labels.items(), f"{kind} selects other pods")
    expect(found["Service"]["spec"]["selector"].items() <= labels.items(), "the service selects other pods")
    expect(found["PodDisruptionBudget"]["spec"]["maxUnavailable"] > 0, "no pod may be evicted")
    (container,) = pod["containers"]
    is_restricted(pod, container, image)
    expect(container["image"] == image["tag"], f"the image is {container['image']}")
    expect({mount["mountPath"] for mount in container["volumeMounts"]} >= {image["data"]}, "the data folder is not a volume")
    port = next(it for it in container["ports"] if it["name"] == found["Service"]["spec"]["ports"][0]["targetPort"])
    expect(f"{port['containerPort']}/tcp" in image["ExposedPorts"], "the image has another port")

    texts = found["ConfigMap"]["data"] | found["Secret"]["stringData"]
    (start,) = [name for name in texts if f"/etc/narrows/{name}" in container["args"]]
    check(narrows, texts, start)
    for secret in found["ConfigMap"]["data"].values():
        expect("password =" not in secret and "credentials =" not in secret, "a password outside of the Secret")
    probes_are_right(narrows, container)
    ends_in_time(pod, container, texts[start])


def probes_are_right(narrows, container):
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"]:
        can_be_run(narrows, container[probe]["exec"]["command"])
    expect("--admin" in container["livenessProbe"]["exec"]["command"], "a pod with too many clients is killed")


def ends_in_time(pod, container, configuration):
    drains = int(configuration.split("drain_timeout = ")[1].split()[0])
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    expect(pod["terminationGracePeriodSeconds"] >= waits + drains + 5, "it is killed before clients have left")


def validate(document, version):
    """Unknown fields are errors, as they are for `kubectl apply` with strict validation."""
    kubernetes_validate.validate(document, version, strict=True)


def is_restricted(pod, container, image):
    """The restricted profile of the Pod Security Standards, and what hardening adds to it."""
    security, own = pod["securityContext"], container["securityContext"]
    expect(security["runAsNonRoot"] is True and security["runAsUser"] == image["user"] == security["fsGroup"], "another user")
    expect(security["seccompProfile"]["type"] == "RuntimeDefault", "no seccomp profile")
    expect(own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True, "privileges, or a writable root")
    expect(own["capabilities"] == {"drop": ["ALL"]}, "it has capabilities")
    expect(not pod["automountServiceAccountToken"], "it can talk to the cluster")
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    expect(all(set(volume) - {"name"} <= allowed for volume in pod["volumes"]), "a volume that is not allowed")
    expect(not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), "it shares something with the host")


def compose_file(file, narrows, image):
    content = yaml.safe_load(file.read_text())
    schema = json.loads((Path(compose.__file__).parent / "config/compose_spec.json").read_text())
    mistakes = [f"{mistake.json_path}: {mistake.message}" for mistake in jsonschema.Draft7Validator(schema).iter_errors(content)]
    expect(not mistakes, "\n".join(mistakes))
    for service in content["services"].values():
        # To the schema a time is any text.
        for key in ["interval", "timeout", "start_period"]:
            expect(service["healthcheck"].get(key, "1s").endswith("s"), f"{key} is not a time")
    service = content["services"]["narrows"]
    expect(service["image"] == image["tag"], f"the image is {service['image']}")
    expect(service["read_only"] is True and service["cap_drop"] == ["ALL"], "privileges, or a writable root")
    mounts = {target: source for source, target in (mount.split(":")[:2] for mount in service["volumes"])}
    configuration = file.parent / mounts["/etc/narrows/narrows.toml"]
    expect(mounts[image["data"]] in content["volumes"], "the data folder is not a volume")
    check(narrows, {configuration.name: configuration.read_text()}, configuration.name)
    text = configuration.read_text()
    for other in content["services"].keys() - {"narrows"}:
        expect(f'hostname = "{other}"' in text, f"{other} is not a server of {configuration.name}")
    (published,) = service["ports"]
    expect(f"{published.rsplit(':', 1)[1]}/tcp" in image["ExposedPorts"], "the image has another port")
    command = service["healthcheck"]["test"]
    expect(command[0] == "CMD", "the image has no shell")
    can_be_run(narrows, command[1:])


def check(narrows, texts, start):
    """Runs `narrows check` on a configuration of several files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text)
        done = subprocess.run([narrows, "check", "--strict", Path(folder) / start], capture_output=True, text=True)
        expect(done.returncode == 0, f"{start}: {done.stdout}{done.stderr}")


def can_be_run(narrows, command):
    """The image has no shell and no other program; the options must exist. Nothing is running here."""
    expect(command[0] == "/usr/bin/narrows" and command[1] == "ping", f"another program: {command}")
    done = subprocess.run([narrows, *command[1:], "--help"], capture_output=True, text=True)
    expect(done.returncode == 0, f"{command}: {done.stderr}")


def deceived():
    """Shows that the schemas are looked at: mistakes are found."""
    wrong = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": {"minAvaliable": 1}}
    for version in VERSIONS:
        try:
            validate(wrong, version)
        except kubernetes_validate.ValidationError:
            continue
        sys.exit(f"a mistake is not found with Kubernetes {version}")


def expect(holds, message):
    if not holds:
        sys.exit(f"manifests: {message}")


if __name__ == "__main__":
    main()
