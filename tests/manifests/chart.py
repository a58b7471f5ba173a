#!/usr/bin/env python3
"""chart.py NARROWS: checks the chart in packaging/helm/narrows.

It is linted, and rendered without values and with each file in its folder ci, for the oldest and the newest Kubernetes. What comes
out is compared with the schemas of Kubernetes, with itself and with the image; its configuration passes `narrows check --strict`.
Without values it is what examples/kubernetes has. Values that are wrong are refused. Run by tests/e2e/manifests.rs; install.sh
builds Helm.
"""

import copy
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

# The folder of the sources stays as it is.
sys.dont_write_bytecode = True
from check import ROOT, VERSIONS, check, ends_in_time, expect, image_settings, is_restricted, probes_are_right, validate

CHART = ROOT / "packaging/helm/narrows"
HELM = ROOT / "target/manifests/bin/helm"
# Not among the schemas: it belongs to the Prometheus operator.
FOREIGN = ["ServiceMonitor"]
# What each set of values must make, besides what all make.
KINDS = {
    None: ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service"],
    "volumes.yaml": ["NetworkPolicy", "PodDisruptionBudget", "Secret", *["Service"] * 4, "ServiceMonitor", "StatefulSet"],
    "everything-else.yaml": ["ConfigMap", "Deployment", "NetworkPolicy", "Service"],
}
# Values that the schema or the templates refuse, and a word of the reason.
REFUSED = [
    (["replica=3"], "replica"),
    (["replicas=-1"], "replicas"),
    (["replicas=two"], "replicas"),
    (["image.tag=a tag"], "tag"),
    (["image.digest=sha256:12"], "digest"),
    (["image.pullPolicy=Sometimes"], "pullPolicy"),
    (["configuration.file=../narrows.cnf"], "file"),
    (["configuration.files.a/b=c"], "files"),
    (["configuration.drainTimeoutSeconds=100000"], "drainTimeoutSeconds"),
    (["secret.name=Narrows_Secret"], "name"),
    (["secret.password=change-me"], "password"),
    (["persistence.size=many"], "size"),
    (["service.port=70000"], "port"),
    (["service.type=ExternalName"], "type"),
    (["adminService.enable=true"], "enable"),
    (["metrics.serviceMonitor.interval=15"], "interval"),
    (["podDisruptionBudget.maxUnavailable=half"], "maxUnavailable"),
    (["resources.limits.memory=lots"], "memory"),
    (["preStopSeconds=0"], "preStopSeconds"),
    (["env[0].value=a"], "name"),
    # These are the templates'.
    (["configuration.drainTimeoutSeconds=60"], "drain_timeout"),
    (["metrics.serviceMonitor.enabled=true"], "metrics.enabled"),
    (["configuration.text=", "configuration.file=narrows.toml", r"secret.files.users\.cnf=a"], "narrows.toml"),
    ([r"secret.files.narrows\.cnf=a"], "secret.files"),
    ([r"configuration.files.narrows\.cnf=a"], "configuration.text"),
]


def main():
    narrows = Path(sys.argv[1])
    image = image_settings()
    expect(HELM.exists(), f"{HELM} is missing: scripts/setup.sh drivers installs it")
    files = [None, *sorted((CHART / "ci").glob("*.yaml"))]
    expect({file and file.name for file in files} == KINDS.keys(), "another set of files in ci")
    for file in files:
        options = ["--values", file] if file else []
        helm("lint", "--strict", CHART, *options)
        for version in VERSIONS:
            documents = render(version, *options)
            for document in documents:
                if document["kind"] not in FOREIGN:
                    validate(document, version)
        expect(sorted(document["kind"] for document in documents) == KINDS[file and file.name], f"{file} makes other things")
        values = yaml.safe_load(file.read_text()) if file else {}
        belong_together(narrows, image, documents, values)
    every_value_is_used(files)
    equals_example()
    follows_its_configuration()
    for values, reason in REFUSED:
        refused(values, reason)
    print(f"the chart is valid; {len(REFUSED)} wrong values are refused")


def helm(*arguments):
    """Standard output of Helm, which reads and writes nothing of the user's."""
    done = run_helm(*arguments)
    expect(done.returncode == 0, f"helm {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return done.stdout


def run_helm(*arguments):
    with tempfile.TemporaryDirectory() as home:
        places = {name: home for name in ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]}
        return subprocess.run([HELM, *arguments], capture_output=True, text=True, env={**os.environ, **places})


def template(version, *options):
    return ["template", "narrows", CHART, "--namespace", "narrows", "--kube-version", version, *options]


def render(version, *options):
    return [document for document in yaml.safe_load_all(helm(*template(version, *options))) if document]


def of_kind(documents, *kinds):
    return [document for document in documents if document["kind"] in kinds]


def belong_together(narrows, image, documents, values):
    (workload,) = of_kind(documents, "Deployment", "StatefulSet")
    template = workload["spec"]["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    (container,) = pod["containers"]
    is_restricted(pod, container, image)
    wanted = values.get("image", {}).get("repository")
    expect(container["image"] == image["tag"] if wanted is None else container["image"].startswith(f"{wanted}@sha256:"), "the image")
    expect({mount["mountPath"] for mount in container["volumeMounts"]} >= {image["data"]}, "the data folder is not a volume")
    probes_are_right(narrows, container)
    done = subprocess.run([narrows, *container["args"], "--help"], capture_output=True, text=True)
    expect(done.returncode == 0, f"{container['args']}: {done.stderr}")

    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for service in of_kind(documents, "Service"):
        expect(service["spec"]["selector"].items() <= labels.items(), "a service selects other pods")
        expect(all(port["targetPort"] in ports for port in service["spec"]["ports"]), "a service has a port that pods do not have")
    for other in [*of_kind(documents, "PodDisruptionBudget"), workload]:
        expect(other["spec"]["selector"]["matchLabels"].items() <= labels.items(), f"{other['kind']} selects other pods")
    names = {service["metadata"]["name"] for service in of_kind(documents, "Service")}
    if workload["kind"] == "StatefulSet":
        expect(workload["spec"]["serviceName"] in names, "the StatefulSet has no Service")
        claims = [claim["metadata"]["name"] for claim in workload["spec"]["volumeClaimTemplates"]]
        expect(claims == ["data"], "the data folder has no volume of its own")
    else:
        expect(workload["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}, "fewer serve in an update")
    policies_fit(documents, ports)
    configuration_starts(narrows, documents, pod, container, ports)


def policies_fit(documents, ports):
    for policy in of_kind(documents, "NetworkPolicy"):
        for rule in policy["spec"]["ingress"]:
            expect(rule["from"] and all(port["port"] in ports for port in rule["ports"]), "a rule for everybody, or for no port")
    for monitor in of_kind(documents, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        found = [it for it in of_kind(documents, "Service") if wanted.items() <= it["metadata"]["labels"].items()]
        expect(len(found) == 1, f"the ServiceMonitor finds {len(found)} services")
        has = {port["name"] for port in found[0]["spec"]["ports"]}
        expect({endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} == has, "the ServiceMonitor has another port")


def configuration_starts(narrows, documents, pod, container, ports):
    """The files of ConfigMap and Secret together. A Secret that must exist is the one of examples/kubernetes, if it fits."""
    sources = next(volume for volume in pod["volumes"] if volume["name"] == "configuration")["projected"]["sources"]
    made = {document["metadata"]["name"]: document for document in of_kind(documents, "Secret")}
    mapped = {document["metadata"]["name"]: document["data"] for document in of_kind(documents, "ConfigMap")}
    (secret,) = [source["secret"]["name"] for source in sources if "secret" in source]
    texts = {}
    for source in sources:
        if "configMap" in source:
            texts |= mapped[source["configMap"]["name"]]
    if made:
        texts |= made[secret]["stringData"]
    else:
        texts |= of_kind(example(), "Secret")[0]["stringData"]
    start = Path(container["args"][container["args"].index("-c") + 1]).name
    if start not in texts and not made:
        return
    check(narrows, texts, start)
    ends_in_time(pod, container, texts[start])
    for name, port in ports.items():
        listens = {"mysql": f'"0.0.0.0:{port}"', "admin": f'"0.0.0.0:{port}"', "metrics": 'restapi_address = "0.0.0.0"'}[name]
        expect(listens in texts[start], f"nothing listens on the port {name}")


def every_value_is_used(files):
    """Each value of values.yaml is another one in some file of ci, so that every branch is rendered."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    changed = set()
    for file in files[1:]:
        changed |= set(leaves(yaml.safe_load(file.read_text())))
    # The schema has them; nothing else reads them than one line of a template each.
    plain = {"metrics.port", "adminService.port", "metrics.serviceMonitor.interval", "podDisruptionBudget.maxUnavailable", "image.tag"}
    missing = set(leaves(defaults)) - changed - plain
    missing = {name for name in missing if not any(other.startswith(f"{name}.") for other in changed)}
    missing = {name for name in missing if not name.startswith("resources.limits.")}
    expect(not missing, f"no file in ci sets {', '.join(sorted(missing))}")


def leaves(values, prefix=""):
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def example():
    return list(yaml.safe_load_all((ROOT / "examples/kubernetes/narrows.yaml").read_text()))


def equals_example():
    """The manifest has a Namespace and a Secret in addition, and nothing that Helm alone needs."""
    by_hand = {document["kind"]: document for document in example() if document["kind"] not in ["Namespace", "Secret"]}
    rendered = {document["kind"]: without_helm(document) for document in render(VERSIONS[-1])}
    expect(rendered.keys() == by_hand.keys(), f"the chart makes {sorted(rendered)}, the example has {sorted(by_hand)}")
    for kind, document in rendered.items():
        mine, theirs = yaml.safe_dump(document), yaml.safe_dump(by_hand[kind])
        expect(mine == theirs, f"{kind} of the chart is not that of examples/kubernetes:\n{mine}\n{theirs}")


def without_helm(document):
    document = copy.deepcopy(document)
    for label in ["app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"]:
        del document["metadata"]["labels"][label]
    if document["kind"] == "Deployment":
        annotations = document["spec"]["template"]["metadata"].pop("annotations")
        expect(annotations.keys() == {"checksum/configuration"}, "other annotations")
    return document


def follows_its_configuration():
    """Another configuration is another pod; another number of pods is the same pod."""
    def pod(*options):
        return of_kind(render(VERSIONS[-1], *options), "Deployment")[0]["spec"]["template"]

    expect(pod() == pod("--set", "replicas=5"), "pods are replaced without a reason")
    for name in [r"configuration.files.more\.cnf", r"secret.files.more\.cnf"]:
        expect(pod() != pod("--set", f"{name}=a"), f"{name}: pods keep the old configuration")


def refused(values, reason):
    options = [option for value in values for option in ("--set", value)]
    done = run_helm(*template(VERSIONS[-1], *options))
    expect(done.returncode != 0, f"{values} are accepted")
    expect(reason in done.stderr, f"{values}: the reason does not have the word {reason}: {done.stderr}")


if __name__ == "__main__":
    main()
