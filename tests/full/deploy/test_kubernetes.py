"""The manifests are what Kubernetes takes, agree with each other and with our commands, and give nobody too much."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dbg_broker.cli.main import parse
from dbg_broker.settings import NATS_PORT, parse_cluster
from dbg_dial.endpoint import DEFAULT_PORT
from dbg_dial.home import AUTOSTART, BROKER, HOME, JOB, STOP_AT, TOKEN_FILE
from tests.full.deploy.test_pods import make_secrets
from tests.support.manifests import (
    DEPLOY,
    RELEASES,
    Document,
    NotTaken,
    broker_image,
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
PORTS = {port["name"]: port["containerPort"] for port in SERVING["ports"]}


def labels(document: Document) -> Document:
    found: Document = document["spec"]["template"]["metadata"]["labels"]
    return found


def fits(selector: Document, found: Document) -> bool:
    return bool(selector) and selector.items() <= found.items()


def test_files_are_all_looked_at() -> None:
    assert sorted(path.name for path in (DEPLOY / "kubernetes").glob("*.y*ml")) == sorted(FILES)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("file", FILES)
def test_kubernetes_takes_each_document(file: str, release: str) -> None:
    for document in manifest(file):
        check_schema(document, release)


def test_a_field_that_does_not_exist_is_found() -> None:
    wrong = one(manifest("broker.yaml"), "Deployment")
    pod_spec(wrong)["containers"][0]["securityContext"]["readOnlyRoot"] = True
    with pytest.raises(NotTaken, match="readOnlyRoot"):
        check_schema(wrong, RELEASES[1])


def test_selectors_find_the_pods_that_they_are_for() -> None:
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


def test_all_speak_of_the_port_that_the_broker_serves() -> None:
    settings = parse(SERVING["args"])
    assert settings.listen == f"0.0.0.0:{PORTS['broker']}"
    (port,) = one(SERVED, "Service")["spec"]["ports"]
    assert (port["port"], port["targetPort"], PORTS["broker"]) == (DEFAULT_PORT, "broker", DEFAULT_PORT)
    (allowed,) = one(SERVED, "NetworkPolicy")["spec"]["ingress"][0]["ports"]
    probes = [SERVING[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    for named in (allowed["port"], *(probe["port"] for probe in probes)):
        assert named in PORTS
    assert {(probe["scheme"], probe["path"]) for probe in probes} == {("HTTPS", "/healthz")}


@pytest.mark.parametrize("pod", [BROKER_POD, RANK_POD], ids=["broker", "rank"])
def test_volumes_that_are_mounted_exist_and_secrets_are_closed(pod: Document) -> None:
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


def test_a_rank_has_the_secret_of_its_job_alone() -> None:
    job = one(TRAINED, "Job")["metadata"]["name"]
    assert secrets_of(RANK_POD) == {f"{job}-dbg"}
    assert secrets_of(BROKER_POD) == {"dbg-broker"}
    assert "namespace" not in one(TRAINED, "Job")["metadata"]


@pytest.mark.parametrize("pod", [BROKER_POD, RANK_POD], ids=["broker", "rank"])
def test_pods_are_as_restricted_as_the_strictest_standard_asks(pod: Document) -> None:
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


def test_the_broker_writes_to_its_volume_alone_and_is_the_images_user() -> None:
    image = broker_image()
    for container in containers(BROKER_POD):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        (state,) = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
        assert image.environ[HOME].startswith(f"{state}/")
        assert image.environ["HOME"] == state
    own = BROKER_POD["securityContext"]
    assert (own["runAsUser"], own["runAsGroup"]) == (image.user, image.group)


def test_there_is_one_broker_at_a_time_and_it_has_time_to_end() -> None:
    deployment = one(SERVED, "Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert BROKER_POD["terminationGracePeriodSeconds"] >= 5


def test_the_job_tells_its_ranks_what_they_need() -> None:
    job = one(TRAINED, "Job")
    variables: dict[str, Any] = {variable["name"]: variable for variable in TRAINING["env"]}
    assert {AUTOSTART, BROKER, JOB, TOKEN_FILE} <= set(variables)
    assert variables[JOB]["value"] == job["metadata"]["name"]
    (mount,) = [mount for mount in TRAINING["volumeMounts"] if mount["name"] == "dbg-token"]
    (item,) = RANK_POD["volumes"][0]["secret"]["items"]
    assert variables[TOKEN_FILE]["value"] == f"{mount['mountPath']}/{item['path']}"
    assert job["spec"]["completionMode"] == "Indexed"
    assert int(variables["WORLD_SIZE"]["value"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    service = one(TRAINED, "Service")["metadata"]["name"]
    assert variables["MASTER_ADDR"]["value"] == f"{job['metadata']['name']}-0.{service}"
    assert RANK_POD["subdomain"] == service
    assert f"- {{name: {STOP_AT}, value:" in (DEPLOY / "kubernetes/train.yaml").read_text()


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


def test_brokers_dial_the_nats_servers_that_are_there() -> None:
    (serving,) = PODS["dbg-broker"]["containers"]
    settings = parse(serving["args"])
    assert parse_cluster(settings.cluster) == tuple(
        f"tls://{name_of(pod, NATS_SET)}:{NATS_PORT}" for pod in range(NATS_SET["spec"]["replicas"])
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
    for stateful in (BROKER_SET, NATS_SET):
        service = one(BROKERS, "Service", stateful["spec"]["serviceName"])["spec"]
        assert service["clusterIP"] == "None"
        assert service["selector"] == stateful["spec"]["selector"]["matchLabels"] == labels(stateful)
        assert stateful["spec"]["replicas"] == 3
        budget = one(BROKERS, "PodDisruptionBudget", stateful["metadata"]["name"])["spec"]
        assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, labels(stateful))
    # A host name longer than the kernel's would keep the pod from starting.
    assert PODS["dbg-broker"]["setHostnameAsFQDN"] is True
    assert len(f"{name_of(9, BROKER_SET)}.cluster.local") < 64
    first = one(BROKERS, "Service", "dbg-broker")["spec"]
    assert "clusterIP" not in first
    assert first["selector"] == labels(BROKER_SET)
    assert [port["port"] for port in first["ports"]] == [DEFAULT_PORT]


def test_a_broker_has_the_secrets_of_the_single_one_and_what_it_shows_nats() -> None:
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


def test_nobody_but_brokers_reaches_nats() -> None:
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
    assert nats["args"] == ["--config", "nats.conf"]
    unit = (DEPLOY / "systemd/system/dbg-broker-nats.service").read_text()
    assert "--config nats.conf\n" in unit


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
