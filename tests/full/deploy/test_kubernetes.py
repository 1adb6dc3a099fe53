"""The manifests are what Kubernetes takes, agree with each other and with our commands, and give nobody too much."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_broker.cli.main import parse
from dbg_wire.finding.endpoint import DEFAULT_PORT
from dbg_wire.finding.environment import AUTOSTART, BROKER, HOME, JOB, STOP_AT, TOKEN_FILE
from tests.support.manifests import (
    DEPLOY,
    RELEASES,
    Document,
    NotTaken,
    broker_image,
    check_schema,
    containers,
    manifest,
    one,
    pod_spec,
)

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
