"""The manifests and files of several brokers and their NATS servers agree with each other and with our commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dbg_broker.cli.main import parse
from dbg_broker.settings import NATS_PORT, parse_cluster
from dbg_wire.finding.endpoint import DEFAULT_PORT
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

MAKE_FILES = DEPLOY / "nats/make-files"
BROKERS = manifest("brokers.yaml")
SINGLE = pod_spec(one(manifest("broker.yaml"), "Deployment"))
BROKER, NATS = one(BROKERS, "StatefulSet", "dbg-broker"), one(BROKERS, "StatefulSet", "nats")
PODS = {"dbg-broker": pod_spec(BROKER), "nats": pod_spec(NATS)}

needs_openssl = pytest.mark.skipif(
    missing_for(("openssl",), as_root=False) is not None, reason="make-files calls openssl"
)


def labels(document: Document) -> Document:
    found: Document = document["spec"]["template"]["metadata"]["labels"]
    return found


def name_of(pod: int, stateful: Document) -> str:
    """Return the name under which a pod of a StatefulSet is found by others of the cluster."""
    own = stateful["metadata"]
    return f"{own['name']}-{pod}.{stateful['spec']['serviceName']}.{own['namespace']}.svc"


def test_brokers_dial_the_nats_servers_that_are_there() -> None:
    (serving,) = PODS["dbg-broker"]["containers"]
    settings = parse(serving["args"])
    assert parse_cluster(settings.cluster) == tuple(
        f"tls://{name_of(pod, NATS)}:{NATS_PORT}" for pod in range(NATS["spec"]["replicas"])
    )
    mounts = {mount["name"]: mount["mountPath"] for mount in serving["volumeMounts"]}
    assert settings.cluster_credentials == f"{mounts['nats']}/login"
    (variable,) = serving["env"]
    assert (variable["name"], variable["value"]) == ("SSL_CERT_FILE", f"{mounts['nats']}/ca.pem")
    (nats,) = PODS["nats"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in nats["ports"]}
    assert ports == {"clients": NATS_PORT, "servers": 6222}
    assert f"0.0.0.0:{DEFAULT_PORT}" in serving["args"]


def test_names_of_pods_are_those_of_headless_services() -> None:
    for stateful in (BROKER, NATS):
        service = one(BROKERS, "Service", stateful["spec"]["serviceName"])["spec"]
        assert service["clusterIP"] == "None"
        assert service["selector"] == stateful["spec"]["selector"]["matchLabels"] == labels(stateful)
        assert stateful["spec"]["replicas"] == 3
        budget = one(BROKERS, "PodDisruptionBudget", stateful["metadata"]["name"])["spec"]
        assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, labels(stateful))
    # A host name longer than the kernel's would keep the pod from starting.
    assert PODS["dbg-broker"]["setHostnameAsFQDN"] is True
    assert len(f"{name_of(9, BROKER)}.cluster.local") < 64
    balanced = one(BROKERS, "Service", "dbg-broker")["spec"]
    assert "clusterIP" not in balanced
    assert balanced["selector"] == labels(BROKER)
    assert [port["port"] for port in balanced["ports"]] == [DEFAULT_PORT]


def test_a_broker_has_the_secrets_of_the_single_one_and_what_it_shows_nats() -> None:
    volumes = {volume["name"]: volume for volume in PODS["dbg-broker"]["volumes"]}
    assert volumes["secrets"] in SINGLE["volumes"]
    assert [item["key"] for item in volumes["nats"]["secret"]["items"]] == ["login", "ca.pem"]
    # The key of NATS' certificate, by which a server is known to the others, is in no broker.
    served = next(volume for volume in PODS["nats"]["volumes"] if "secret" in volume)["secret"]
    assert {item["key"] for item in served["items"]} == {"nats.conf", "certificate.pem", "key.pem", "ca.pem"}
    (own, single) = (pod["initContainers"][0] for pod in (PODS["dbg-broker"], SINGLE))
    assert own["args"] == single["args"]


def test_pods_are_as_locked_down_as_the_single_broker() -> None:
    for pod in PODS.values():
        assert pod["securityContext"] == SINGLE["securityContext"]
        assert pod["automountServiceAccountToken"] is False
        mounted = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        for container in containers(pod):
            assert container["securityContext"] == SINGLE["containers"][0]["securityContext"]
            for mount in container["volumeMounts"]:
                assert mount.get("readOnly", False) == (mount["name"] != "state")
        for volume in pod["volumes"]:
            assert volume.get("secret", {"defaultMode": 0o400})["defaultMode"] == 0o400
    # The broker drains its ranks and terminals within three seconds.
    assert PODS["dbg-broker"]["terminationGracePeriodSeconds"] >= 5


def test_nobody_but_brokers_reaches_nats() -> None:
    nats, brokers = (one(BROKERS, "NetworkPolicy", name)["spec"] for name in ("nats", "dbg-broker"))
    assert nats["podSelector"]["matchLabels"] == labels(NATS)
    assert nats["policyTypes"] == brokers["policyTypes"] == ["Ingress", "Egress"]
    assert [(rule["from"][0]["podSelector"]["matchLabels"], rule["ports"]) for rule in nats["ingress"]] == [
        (labels(BROKER), [{"port": "clients"}]),
        (labels(NATS), [{"port": "servers"}]),
    ]
    assert all("namespaceSelector" not in source for rule in nats["ingress"] for source in rule["from"])
    assert brokers["ingress"] == one(manifest("broker.yaml"), "NetworkPolicy")["spec"]["ingress"]
    assert brokers["egress"][0]["to"] == [{"podSelector": {"matchLabels": labels(NATS)}}]


def make_files(folder: Path, *hosts: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(MAKE_FILES), str(folder), *hosts], capture_output=True, text=True, timeout=seconds(60), check=False
    )


@needs_openssl
def test_files_are_closed_to_others_and_name_each_host(tmp_path: Path) -> None:
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
    assert nats["args"][:4] == ["--config", "nats.conf", "--store_dir", mounts["state"]]
    unit = (DEPLOY / "systemd/system/dbg-broker-nats.service").read_text()
    assert "\nStateDirectory=dbg-broker-nats\n" in unit
    assert "--config nats.conf --store_dir /var/lib/dbg-broker-nats " in unit


@needs_openssl
def test_a_second_call_makes_nothing_over_what_is_there(tmp_path: Path) -> None:
    assert make_files(tmp_path, "host1").returncode == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("host", ["", "-x", "a b", 'a"', "$(id)"])
def test_what_is_no_host_is_refused_before_anything_is_made(tmp_path: Path, host: str) -> None:
    made = make_files(tmp_path / "nats", host)
    assert made.returncode == 2
    assert f"'{host}'" in made.stderr
    assert not (tmp_path / "nats").exists()


@pytest.mark.skipif(shutil.which("nats-server") is None, reason="nats-server is not installed")
@needs_openssl
def test_nats_takes_the_configuration(tmp_path: Path) -> None:
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
def test_secrets_of_nats_are_made_once_and_go_with_the_brokers(tmp_path: Path) -> None:
    made = make_secrets(tmp_path, "--cluster", "team/train")
    assert made.returncode == 0, made.stderr
    found = {secret["metadata"]["name"]: secret for secret in documents(made.stdout)}
    assert set(found) == {"dbg-broker", "nats", "train-dbg"}
    nats = found["nats"]
    check_schema(nats, RELEASES[1])
    assert nats["metadata"]["namespace"] == BROKER["metadata"]["namespace"]
    keys = {item["key"] for pod in PODS.values() for one in pod["volumes"] for item in _items(one, "nats")}
    assert keys == set(nats["stringData"])
    for pod in range(NATS["spec"]["replicas"]):
        assert f'"nats://{name_of(pod, NATS)}:6222"' in nats["stringData"]["nats.conf"]
    assert make_secrets(tmp_path, "--cluster", "team/train").stdout == made.stdout
    assert "nats" not in make_secrets(tmp_path, "team/train").stdout


def _items(volume: Document, secret: str) -> list[Document]:
    found = volume.get("secret", {})
    items: list[Document] = found["items"] if found.get("secretName") == secret else []
    return items
