"""What the page has from others: known versions, unchanged, with their licences."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]

VENDOR = ROOT / "client/dbg_client/faces/web/static/vendor"

TABLE = (VENDOR / "README.md").read_text(encoding="utf-8")

ROW = re.compile(r"^\| `(\S+)` \| `(\S+)` (\S+) \| (\S+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
"""A file, its package and version, its licence, and its checksum."""


def test_each_file_is_the_one_of_the_table() -> None:
    rows = {name: digest for name, _, _, _, digest in ROW.findall(TABLE)}
    files = {path.name for path in VENDOR.iterdir()} - {"README.md"}
    ours = {name for name in files if name.endswith(".d.mts")}
    assert set(rows) == files - ours
    assert rows == {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in rows}


def test_each_package_has_its_licence_here() -> None:
    for name, package, _, licence, _ in ROW.findall(TABLE):
        assert licence == "MIT"
        text = (VENDOR / f"LICENSE.{package.rpartition('/')[2]}").read_text(encoding="utf-8")
        assert "Permission is hereby granted, free of charge" in text, name


def test_types_are_checked_against_the_same_versions() -> None:
    tools = json.loads((ROOT / "scripts/javascript/package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert {(package, version) for _, package, version, _, _ in ROW.findall(TABLE)} <= set(tools.items())


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "scripts/javascript/package-lock.json").read_text(encoding="utf-8"))
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert len(packages) > 20
    assert [name for name, one in packages.items() if "resolved" in one] == []
    assert [name for name, one in packages.items() if not one["integrity"].startswith("sha512-")] == []


def test_nothing_of_the_page_comes_from_another_host() -> None:
    ours = [path for path in VENDOR.parent.rglob("*") if path.suffix in (".js", ".css", ".html")]
    found = {
        (path.name, address)
        for path in ours
        if path.parent != VENDOR
        for address in re.findall(r"\bhttps?://[^\s'\"`]+|url\([^)]*\)|@import", path.read_text(encoding="utf-8"))
    }
    # Names of XML, which nothing fetches.
    assert {address for _, address in found} == {"http://www.w3.org/2000/svg"}
