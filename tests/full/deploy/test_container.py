"""The Containerfile is what its linter asks for, and the image's command, user and build context are right.

``test_pods.py`` runs the broker as a container of that image.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_broker.cli.main import parse
from tests.support.manifests import DEPLOY, broker_image
from tests.support.time_unit import seconds

FILE = DEPLOY / "container/Containerfile"
ROOT = DEPLOY.parent
IMAGE = broker_image()


def test_the_linter_has_no_findings() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    result = subprocess.run(
        [str(hadolint), str(FILE)], capture_output=True, text=True, timeout=seconds(30), check=False
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_the_parser_accepts_the_command_of_the_image() -> None:
    assert IMAGE.entrypoint == ("dbg-broker",)
    assert parse([*IMAGE.command]).verb == "serve"


def test_the_user_is_not_root_and_owns_the_state_directory() -> None:
    text = FILE.read_text()
    assert IMAGE.user > 0
    assert f"RUN mkdir -m 0700 /var/lib/dbg-broker && chown {IMAGE.user}:{IMAGE.group} /var/lib/dbg-broker\n" in text
    assert Path(IMAGE.environ["DBG_HOME"]).parent == Path("/var/lib/dbg-broker")
    assert text.index("\nUSER ") > text.rindex("\nRUN ")


def test_a_build_needs_a_base_with_a_digest() -> None:
    text = FILE.read_text()
    assert "\nARG PYTHON\n" in text, "a default tag would name what the registry has today"
    check = re.search(r'^RUN (case "\$PYTHON" in.*?esac)', text, re.DOTALL | re.MULTILINE)
    assert check is not None
    for base, status in (("python:3.13-slim", 1), ("", 1), (f"python@sha256:{'a' * 64}", 0), ("python@sha256:a", 1)):
        done = subprocess.run(["/bin/sh", "-c", check[1]], env={"PYTHON": base}, capture_output=True, check=False)
        assert done.returncode == status


def test_a_build_needs_a_version_and_gives_it_to_the_wheel() -> None:
    text = FILE.read_text()
    check = re.search(r'^RUN (case "\$VERSION" in.*?esac)', text, re.DOTALL | re.MULTILINE)
    assert check is not None
    for version, status in (("", 1), ("latest", 1), ("1.2.3", 0), ("0.1.dev884+g63bf3b1f7", 0)):
        done = subprocess.run(["/bin/sh", "-c", check[1]], env={"VERSION": version}, capture_output=True, check=False)
        assert done.returncode == status
    build, _, last = text.rpartition("\nFROM ")
    assert "\nARG VERSION\n" in build.partition(" AS build\n")[2], "an argument is known in the stages that name it"
    assert 'SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION" pip install --no-cache-dir --no-deps' in build
    assert "\nARG VERSION\n" in last
    assert 'org.opencontainers.image.version="$VERSION"' in last


def test_packages_are_installed_only_by_hash() -> None:
    text = FILE.read_text()
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert [("--require-hashes" in line or "--no-deps --no-build-isolation ." in line) for line in installs] == [
        True
    ] * 3
    asked = re.findall(r'^    "([A-Za-z_-]+)>=([0-9.]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    pinned: dict[str, str] = {}
    for name in ("run", "build"):
        for line in (ROOT / f"requirements/{name}.txt").read_text().replace("\\\n", "").splitlines():
            found = re.fullmatch(r"([a-z-]+)==([0-9.]+)((?: +--hash=sha256:[0-9a-f]{64})+)", line)
            assert found or line.startswith("#"), line
            if found:
                pinned[found[1]] = found[2]
    names = {name.lower().replace("_", "-") for name, _ in asked}
    assert {"websockets", "pudb", "remote-pdb", "prompt-toolkit", "pygments", "cryptography"} <= names & set(pinned)
    # Versions below have known holes.
    floors = {name: tuple(map(int, floor.split("."))) for name, floor in asked}
    assert floors["cryptography"] >= (46, 0, 5)
    assert floors["pygments"] >= (2, 15)


AUDITOR = """\
#!/bin/sh
for last; do :; done
case "$*" in
*--require-hashes*) exit 0 ;;
esac
cat "$last" >&2
if grep -q HOLE "$last"; then echo "Name Version ID Fix Versions"; exit 1; fi
"""
"""A stand-in for pip-audit that knows a hole in one version."""


@pytest.mark.parametrize(("hole", "status"), [("cryptography==46.0.5", 1), ("cryptography==44.0.1", 0)])
def test_the_oldest_supported_versions_are_audited_too(tmp_path: Path, hole: str, status: int) -> None:
    audit = tmp_path / ".venv/.audit/bin/pip-audit"
    python = tmp_path / ".venv/bin/python"
    for program, text in ((audit, AUDITOR.replace("HOLE", hole)), (python, "#!/bin/sh\n")):
        program.parent.mkdir(parents=True)
        program.write_text(text)
        program.chmod(0o755)
    result = subprocess.run(
        ["/bin/sh", str(ROOT / "scripts/audit-packages"), str(python)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == status
    if status:
        assert {"websockets==13", "msgspec==0.20", "pygments==2.15"} <= set(result.stderr.splitlines())


def test_torch_is_installed_only_from_the_named_index(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 1\necho "$@"\n')
    python.chmod(0o755)
    result = subprocess.run(
        ["/bin/sh", str(ROOT / "scripts/install-torch"), str(python)],
        env={"CI": "1", "TORCH_INDEX": "https://torch.example", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--index-url https://torch.example" in result.stdout
    assert "extra-index" not in result.stdout


def test_no_secret_and_no_cache_gets_into_a_layer() -> None:
    text = FILE.read_text()
    assert "--no-cache-dir" in text
    assert not re.search(r"DBG_TOKEN|--secret|ADD ", text)
    assert "\nFROM ${PYTHON}\n" in text, "the last stage begins without the tools of the build"
