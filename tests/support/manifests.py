"""The files below ``deploy/`` as data: Kubernetes' manifests, and what the Containerfile says of its image."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

with warnings.catch_warnings():
    # It looks for its schemas by a function that Python will drop.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kubernetes_validate

RELEASES: tuple[str, str] = ("1.27", kubernetes_validate.latest_version())
"""The oldest release of Kubernetes that knows all that is used, and the newest one whose schemas are at hand."""

DEPLOY = Path(__file__).parents[2] / "deploy"

Document = dict[str, Any]


class NotTaken(Exception):
    """A document that Kubernetes would not take."""


def check_schema(document: Document, release: str) -> None:
    """Raise NotTaken for a document that has another field or value than a release of Kubernetes knows."""
    try:
        kubernetes_validate.validate(document, release, strict=True)
    except kubernetes_validate.ValidationError as error:
        raise NotTaken(str(error)) from None


def documents(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document is not None]


def manifest(name: str) -> list[Document]:
    return documents((DEPLOY / "kubernetes" / name).read_text())


def one(found: list[Document], kind: str, name: str | None = None) -> Document:
    limit_rows = [each for each in found if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    assert len(limit_rows) == 1, f"{len(limit_rows)} documents are a {kind} {name or ''}"
    return limit_rows[0]


def pod_spec(document: Document) -> Document:
    """Return the pod of a Deployment, Job or StatefulSet, with a claim as a volume for each template of claims."""
    spec: Document = document["spec"]["template"]["spec"]
    claims = [one["metadata"]["name"] for one in document["spec"].get("volumeClaimTemplates", ())]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return {**spec, "volumes": [*spec.get("volumes", ()), *volumes]}


def containers(pod: Document) -> Iterator[Document]:
    """Yield the containers of a pod, those that prepare it first."""
    yield from pod.get("initContainers", [])
    yield from pod["containers"]


@dataclass(frozen=True)
class Image:
    """What an image says of a container that is made of it."""

    environ: Mapping[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    health: tuple[str, ...]
    user: int
    group: int


def broker_image() -> Image:
    text = (DEPLOY / "container/Containerfile").read_text()
    steps = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    stage = re.sub(r"\\\n\s*", "", steps).rpartition("\nFROM ")[2]

    def argument(word: str) -> str:
        found = re.findall(rf"^{word} (.*)$", stage, re.MULTILINE)
        assert len(found) == 1, f"{len(found)} lines are {word}"
        return str(found[0])

    def words(text: str) -> tuple[str, ...]:
        return tuple(yaml.safe_load(text))

    environ = dict(pair.split("=", 1) for pair in shlex.split(argument("ENV")))
    user, group = argument("USER").split(":")
    return Image(
        environ=environ | {"PATH": environ["PATH"].replace("$PATH", "/usr/local/bin:/usr/bin:/bin")},
        entrypoint=words(argument("ENTRYPOINT")),
        command=words(argument("CMD")),
        health=words(argument("HEALTHCHECK").partition("CMD ")[2]),
        user=int(user),
        group=int(group),
    )
