"""Tests of recordings in a page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbg_wire.finding.rendezvous import Rendezvous, format_rendezvous
from dbg_wire.messages import Change
from dbg_wire.records.ranks import RankState
from tests.support.pages import opened, run
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import TOKEN, FakeBroker, make_rank

CAST = '{"version": 2, "width": 80, "height": 24}\n[0.1, "o", "<script>alert(1)</script>"]\n'


@pytest.fixture
def records(broker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory in which the broker of this home records, with a recording and what is none."""
    home, folder = tmp_path / "home", tmp_path / "casts"
    home.mkdir(mode=0o700)
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "gpu013-5-stop1.cast").write_text(CAST)
    (folder / "train" / "notes.txt").write_text("secret")
    (folder / "train" / "link.cast").symlink_to(tmp_path / "secret.cast")
    (tmp_path / "secret.cast").write_text("secret")
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "loose.cast").write_text(CAST)
    tell_records(home, broker, str(folder))
    monkeypatch.setenv("DBG_HOME", str(home))
    return folder


def tell_records(home: Path, broker: FakeBroker, folder: str, port: int | None = None) -> None:
    url = f"ws://127.0.0.1:{broker.port if port is None else port}"
    told = Rendezvous(url=url, host="h", pid=7, fingerprint=None, tokens={"rank": TOKEN}, records=folder)
    path = home / "broker.json"
    path.write_text(format_rendezvous(told))
    path.chmod(0o600)


def test_a_recording_that_was_listed_is_served_as_text(broker: FakeBroker, records: Path) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            said = await live.until("recordings", lambda said: bool(said["recordings"]))
            (recording,) = said["recordings"]
            assert (recording["name"], recording["job"]) == ("train~gpu013-5-stop1.cast", "train")
            assert recording["size"] == len(CAST)
            async with browser.session.get(f"{browser.base}/recording/{recording['name']}") as answer:
                assert await answer.text() == CAST
                assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Cache-Control"] == "no-store"

    run(work)


def test_no_other_name_leads_to_a_file(broker: FakeBroker, records: Path) -> None:
    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            await live.until("recordings", lambda said: bool(said["recordings"]))
            for name in (
                "gpu013-5-stop1.cast",
                "train~link.cast",
                "train~notes.txt",
                "elsewhere~secret.cast",
                "..~secret.cast",
                "train~..%2f..%2fsecret.cast",
                "..%2fsecret.cast",
                "train%2fgpu013-5-stop1.cast",
                "loose.cast",
            ):
                assert await browser.status(f"/recording/{name}") == 404, name
            for path in ("/recording/", "/recording/../secret.cast", "/recording/train/gpu013-5-stop1.cast"):
                assert await browser.status(path) == 404, path

    run(work)


def test_a_new_recording_comes_by_itself(broker: FakeBroker, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_client.faces.web.home.GATHER_SECONDS", 0.01)

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            await live.until("recordings")
            (records / "train" / "gpu013-6-stop1.cast").write_text(CAST)
            os.utime(records / "train" / "gpu013-6-stop1.cast", (2e9, 2e9))
            broker.tell(Change(rank=changed(make_rank(6), state=RankState.RUNNING)))
            said = await live.until("recordings", lambda said: len(said["recordings"]) == 2)
            assert [one["title"] for one in said["recordings"]] == ["gpu013-6-stop1", "gpu013-5-stop1"]

    run(work)


@pytest.mark.parametrize("case", ["nothing", "another broker", "relative", "missing", "no home"])
def test_where_no_recordings_are_there_are_none(
    broker: FakeBroker, records: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    folder = {"nothing": "", "relative": "casts", "missing": str(tmp_path / "gone")}.get(case, str(records))
    tell_records(home, broker, folder, port=1 if case == "another broker" else None)
    if case == "no home":
        (home / "broker.json").unlink()

    async def work() -> None:
        async with opened(broker.environment) as browser, browser.live() as live:
            said = await live.until("recordings")
            assert said["recordings"] == []
            assert await browser.status("/recording/train~gpu013-5-stop1.cast") == 404

    run(work)
