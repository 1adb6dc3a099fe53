"""The Containerfile is what its linter asks for, and the image's command, user and build context are right.

``test_pods.py`` runs the broker as a container of that image.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from dbg_broker.cli import parse
from tests.support.manifests import DEPLOY, broker_image
from tests.support.time_unit import seconds

FILE = DEPLOY / "container/Containerfile"
ROOT = DEPLOY.parent
IMAGE = broker_image()


def test_the_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    result = subprocess.run(
        [str(hadolint), str(FILE)], capture_output=True, text=True, timeout=seconds(30), check=False
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_what_the_image_starts_is_what_our_parser_takes() -> None:
    assert IMAGE.entrypoint == ("dbg-broker",)
    assert parse([*IMAGE.command]).verb == "serve"
    assert IMAGE.health[0] == "dbg-broker"
    assert parse([*IMAGE.health[1:]]).verb == "status"


def test_the_user_is_not_root_and_owns_the_directory_that_is_written_to() -> None:
    text = FILE.read_text()
    assert IMAGE.user > 0
    assert f"RUN mkdir -m 0700 /var/lib/dbg-broker && chown {IMAGE.user}:{IMAGE.group} /var/lib/dbg-broker\n" in text
    assert Path(IMAGE.environ["DBG_HOME"]).parent == Path("/var/lib/dbg-broker")
    assert text.index("\nUSER ") > text.rindex("\nRUN ")


def test_the_build_sees_what_a_wheel_is_made_of_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    project = (ROOT / "pyproject.toml").read_text()
    named = set(
        re.findall(
            r'^packages = \[(.*)\]|"(docs/man)/[^"]*" =|^readme = "(.*)"|^license-files = \["(.*)"\]',
            project,
            re.MULTILINE,
        )
    )
    folders = {word for words in named for part in words for word in re.findall(r"[\w./-]+", part)}
    needed = {folder if folder == "docs/man" else folder.partition("/")[0] for folder in folders}
    assert kept == needed | {"pyproject.toml"}


def test_no_secret_and_no_cache_gets_into_a_layer() -> None:
    text = FILE.read_text()
    assert "--no-cache-dir" in text
    assert not re.search(r"DBG_TOKEN|--secret|ADD ", text)
    assert "\nFROM ${PYTHON}\n" in text, "the last stage begins without the tools of the build"
