"""The manifests are what Kubernetes takes, agree with each other and with our commands, and give nobody too much."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.full.deploy.test_pods import make_secrets
from tests.support.manifests import (
    DEPLOY,
    RELEASES,
    Document,
    check_schema,
    containers,
    documents,
    manifest,
    one,
    pod_spec,
)
from tests.support.requirements import missing_for
from tests.support.time_unit import seconds

FILES = ("broker.yaml", "brokers.yaml", "train.yaml")
SERVED, TRAINED = manifest("broker.yaml"), manifest("train.yaml")
BROKER_POD, RANK_POD = pod_spec(one(SERVED, "Deployment")), pod_spec(one(TRAINED, "Job"))
(SERVING,), (TRAINING,) = BROKER_POD["containers"], RANK_POD["containers"]


def labels(document: Document) -> Document:
    found: Document = document["spec"]["template"]["metadata"]["labels"]
    return found


def fits(selector: Document, found: Document) -> bool:
    return bool(selector) and selector.items() <= found.items()


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("file", FILES)
def test_each_document_fits_the_schema_of_kubernetes(file: str, release: str) -> None:
    for document in manifest(file):
        check_schema(document, release)


def test_selectors_match_their_pods() -> None:
    deployment, policy = one(SERVED, "Deployment"), one(SERVED, "NetworkPolicy")["spec"]
    broker, rank = labels(deployment), labels(one(TRAINED, "Job"))
    assert fits(deployment["spec"]["selector"]["matchLabels"], broker)
    assert fits(one(SERVED, "Service")["spec"]["selector"], broker)
    assert fits(one(TRAINED, "Service")["spec"]["selector"], rank)
    assert fits(policy["podSelector"]["matchLabels"], broker)
    (rule,) = policy["ingress"]
    (source,) = rule["from"]
    assert fits(source["podSelector"]["matchLabels"], rank)
    assert not fits(source["podSelector"]["matchLabels"], broker)
    assert {document["metadata"].get("namespace") for document in SERVED if document["kind"] != "Namespace"} == {
        one(SERVED, "Namespace")["metadata"]["name"]
    }


@pytest.mark.parametrize("pod", [BROKER_POD, RANK_POD], ids=["broker", "rank"])
def test_mounted_volumes_exist_and_secrets_are_private(pod: Document) -> None:
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
    assert mounted == set(volumes)
    for volume in volumes.values():
        if "secret" in volume:
            assert volume["secret"]["defaultMode"] == 0o400
            assert volume["secret"]["items"]
            assert not volume["secret"].get("optional")
    for container in containers(pod):
        for mount in container["volumeMounts"]:
            assert mount.get("readOnly", False) == ("secret" in volumes[mount["name"]])


def secrets_of(pod: Document) -> set[str]:
    """Return the names of all Secrets that a pod has, as volumes or as variables."""
    found = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    for container in containers(pod):
        for variable in container.get("env", []):
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            found |= {reference["name"]} if reference else set()
        assert "envFrom" not in container
    return found


def test_a_rank_has_only_the_secret_of_its_job() -> None:
    job = one(TRAINED, "Job")["metadata"]["name"]
    assert secrets_of(RANK_POD) == {f"{job}-dbg"}
    assert secrets_of(BROKER_POD) == {"dbg-broker"}
    assert "namespace" not in one(TRAINED, "Job")["metadata"]


@pytest.mark.parametrize("pod", [BROKER_POD, RANK_POD], ids=["broker", "rank"])
def test_pods_meet_the_restricted_pod_security_standard(pod: Document) -> None:
    assert pod["automountServiceAccountToken"] is False
    own = pod["securityContext"]
    assert own["runAsNonRoot"] is True
    assert own["runAsUser"] > 0
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    for container in containers(pod):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
    namespace = one(SERVED, "Namespace")["metadata"]["labels"]
    assert namespace["pod-security.kubernetes.io/enforce"] == "restricted"


MAKE_FILES = DEPLOY / "nats/make-files"
BROKERS = manifest("brokers.yaml")
BROKER_SET, NATS_SET = one(BROKERS, "StatefulSet", "dbg-broker"), one(BROKERS, "StatefulSet", "nats")
PODS = {"dbg-broker": pod_spec(BROKER_SET), "nats": pod_spec(NATS_SET)}

needs_openssl = pytest.mark.skipif(
    missing_for(("openssl",), as_root=False) is not None, reason="make-files calls openssl"
)


def name_of(pod: int, stateful: Document) -> str:
    """Return the name under which a pod of a StatefulSet is found by others of the cluster."""
    own = stateful["metadata"]
    return f"{own['name']}-{pod}.{stateful['spec']['serviceName']}.{own['namespace']}.svc"


def test_a_broker_of_a_cluster_has_the_secrets_of_a_single_one_and_its_nats_login() -> None:
    volumes = {volume["name"]: volume for volume in PODS["dbg-broker"]["volumes"]}
    assert volumes["secrets"] in BROKER_POD["volumes"]
    assert [item["key"] for item in volumes["nats"]["secret"]["items"]] == ["login", "ca.pem"]
    # The key of NATS_SET' certificate, by which a server is known to the others, is in no broker.
    served = next(volume for volume in PODS["nats"]["volumes"] if "secret" in volume)["secret"]
    assert {item["key"] for item in served["items"]} == {"nats.conf", "certificate.pem", "key.pem", "ca.pem"}
    (own, single) = (pod["initContainers"][0] for pod in (PODS["dbg-broker"], BROKER_POD))
    assert own["args"] == single["args"]


def test_pods_are_as_locked_down_as_the_single_broker() -> None:
    for pod in PODS.values():
        assert pod["securityContext"] == BROKER_POD["securityContext"]
        assert pod["automountServiceAccountToken"] is False
        mounted = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        for container in containers(pod):
            assert container["securityContext"] == BROKER_POD["containers"][0]["securityContext"]
            for mount in container["volumeMounts"]:
                assert mount.get("readOnly", False) == (mount["name"] != "state")
        for volume in pod["volumes"]:
            assert volume.get("secret", {"defaultMode": 0o400})["defaultMode"] == 0o400
    # The broker drains its ranks and terminals within three seconds.
    assert PODS["dbg-broker"]["terminationGracePeriodSeconds"] >= 5


def test_only_brokers_reach_nats() -> None:
    nats, brokers = (one(BROKERS, "NetworkPolicy", name)["spec"] for name in ("nats", "dbg-broker"))
    assert nats["podSelector"]["matchLabels"] == labels(NATS_SET)
    assert nats["policyTypes"] == brokers["policyTypes"] == ["Ingress", "Egress"]
    assert [(rule["from"][0]["podSelector"]["matchLabels"], rule["ports"]) for rule in nats["ingress"]] == [
        (labels(BROKER_SET), [{"port": "clients"}]),
        (labels(NATS_SET), [{"port": "servers"}]),
    ]
    assert all("namespaceSelector" not in source for rule in nats["ingress"] for source in rule["from"])
    # A terminal in the pod of one broker dials the others.
    of_brokers, port = [{"podSelector": {"matchLabels": labels(BROKER_SET)}}], [{"port": "broker"}]
    (ranks,) = one(manifest("broker.yaml"), "NetworkPolicy")["spec"]["ingress"]
    assert brokers["ingress"] == [{"from": ranks["from"] + of_brokers, "ports": port}]
    assert brokers["egress"][:2] == [
        {"to": of_brokers, "ports": port},
        {"to": [{"podSelector": {"matchLabels": labels(NATS_SET)}}], "ports": [{"port": "clients"}]},
    ]


def make_files(folder: Path, *hosts: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(MAKE_FILES), str(folder), *hosts], capture_output=True, text=True, timeout=seconds(60), check=False
    )


@needs_openssl
def test_files_are_private_and_name_each_host(tmp_path: Path) -> None:
    folder = tmp_path / "nats"
    made = make_files(folder, "host1", "10.0.0.2")
    assert made.returncode == 0, made.stderr
    files = {path.name: path for path in folder.iterdir()}
    assert set(files) == {"nats.conf", "certificate.pem", "key.pem", "ca.pem", "login"}
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    user, _, password = files["login"].read_text().strip().partition(":")
    conf = files["nats.conf"].read_text()
    assert f'user: "{user}"\n  password: "{password}"' in conf
    assert password not in made.stdout + made.stderr
    assert 'routes: ["nats://host1:6222", "nats://10.0.0.2:6222"]' in conf
    shown = ["openssl", "x509", "-in", str(files["certificate.pem"]), "-noout", "-ext", "subjectAltName"]
    named = subprocess.run(shown, capture_output=True, text=True, check=True, timeout=seconds(30)).stdout
    assert "DNS:host1, IP Address:10.0.0.2" in named
    verified = ["openssl", "verify", "-CAfile", str(files["ca.pem"]), str(files["certificate.pem"])]
    assert subprocess.run(verified, capture_output=True, check=False, timeout=seconds(30)).returncode == 0
    # The server is started where they are.
    assert set(re.findall(r'"([^"]+\.pem)"', conf)) == {"certificate.pem", "key.pem", "ca.pem"}
    (nats,) = PODS["nats"]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in nats["volumeMounts"]}
    assert nats["workingDir"] == mounts["files"]
    assert nats["args"] == ["--config", "nats.conf"]
    unit = (DEPLOY / "systemd/system/dbg-broker-nats.service").read_text()
    assert "--config nats.conf\n" in unit


@needs_openssl
def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    assert make_files(tmp_path, "host1").returncode == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("nats-server") is None, reason="nats-server is not installed")
@needs_openssl
def test_nats_accepts_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "nats"
    make_files(folder, "host1", "host2", "host3")
    checked = subprocess.run(
        ["nats-server", "-t", "--config", "nats.conf"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds(30),
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


@needs_openssl
def test_secrets_of_nats_are_made_once_in_the_namespace_of_the_brokers(tmp_path: Path) -> None:
    made = make_secrets(tmp_path, "--cluster", "team/train")
    assert made.returncode == 0, made.stderr
    found = {secret["metadata"]["name"]: secret for secret in documents(made.stdout)}
    assert set(found) == {"dbg-broker", "nats", "train-dbg"}
    nats = found["nats"]
    check_schema(nats, RELEASES[1])
    assert nats["metadata"]["namespace"] == BROKER_SET["metadata"]["namespace"]
    keys = {item["key"] for pod in PODS.values() for one in pod["volumes"] for item in _items(one, "nats")}
    assert keys == set(nats["stringData"])
    for pod in range(NATS_SET["spec"]["replicas"]):
        assert f'"nats://{name_of(pod, NATS_SET)}:6222"' in nats["stringData"]["nats.conf"]
    assert make_secrets(tmp_path, "--cluster", "team/train").stdout == made.stdout
    assert "nats" not in make_secrets(tmp_path, "team/train").stdout


def _items(volume: Document, secret: str) -> list[Document]:
    found = volume.get("secret", {})
    items: list[Document] = found["items"] if found.get("secretName") == secret else []
    return items
