from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_client.actions.report import write_report
from dbg_client.core.errors import CantWrite
from dbg_client.dumps.report_file import MAX_REPORT
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Kind, Question, RankAnswer
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.e2e.client.test_dumps_report_file import thousand
from tests.full.terminals.test_actions_why import Looked
from tests.support.processes import run_command
from tests.unit.client.fake_broker import HERE, TOKEN, FakeBroker, make_rank


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(make_rank(0), make_rank(1, state=RankState.EXITED, exit=-9), make_rank(7, job="other")) as serving:
        serving.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="", frames=(HERE,))
        yield serving


def run(broker: FakeBroker, environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "dbg_client", "report", *words], {**environ, **broker.environment}, 60)


def test_it_asks_for_stacks_alone_and_holds_no_token(broker: FakeBroker, environ: dict[str, str]) -> None:
    done = run(broker, environ)

    assert (done.returncode, done.stderr) == (0, "")
    assert "where: 2 of 2 ranks answered" in done.stdout
    assert "gpu013:1 was killed by SIGKILL" in done.stdout
    assert "Why it hangs\n  4711.0: rank 1 (gpu013) was killed by SIGKILL" in done.stdout
    assert TOKEN not in done.stdout
    assert {item.action for item in broker.received if isinstance(item, Question)} == {Action.WHERE}


def test_a_target_narrows_it_and_brings_its_dead_ranks(broker: FakeBroker, environ: dict[str, str]) -> None:
    done = run(broker, environ, "4711.0/all")

    assert "report about 4711.0/all," in done.stdout
    assert "gpu013:1 was killed by SIGKILL" in done.stdout
    assert "Job other" not in done.stdout


def test_a_file_is_the_users_alone_and_never_replaced_unasked(
    approved: Approved, broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "hang.txt"

    first = run(broker, environ, "-o", str(path))
    again = run(broker, environ, "-o", str(path))

    assert (first.returncode, first.stdout) == (0, "")
    approved(first.stderr)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("dbg-attach report, ")
    assert again.returncode == 2
    approved(again.stderr, "2")
    path.chmod(0o644)
    path.write_text("old")
    assert run(broker, environ, "-o", str(path), "-y").returncode == 0
    assert path.read_text().startswith("dbg-attach report, ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_can_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CantWrite, match="No such file"):
        write_report(str(tmp_path / "no" / "file"), "", replace_it=False)
    with pytest.raises(BadInput, match="is there already"):
        write_report(str(tmp_path / "link"), "", replace_it=False)
    with pytest.raises(CantWrite, match="no regular file"):
        write_report(str(tmp_path / "link"), "", replace_it=True)
    with pytest.raises(CantWrite, match="no regular file"):
        write_report("/dev/null", "", replace_it=True)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--json"], "report has no option --json"),
        (["--plain"], "report has no option --plain; list has it"),
        (["where"], "'where' is a verb, which stands first, and no rank"),
        (["--every", "1"], "report has no option --every; list, where and why have it"),
    ],
)
def test_what_makes_no_sense_with_it_is_refused(
    words: list[str], says: str, broker: FakeBroker, environ: dict[str, str]
) -> None:
    done = run(broker, environ, *words)

    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("differ", [False, True])
def test_the_report_of_a_thousand_ranks_is_small_and_gives_its_verdict_again(
    environ: dict[str, str], tmp_path: Path, differ: bool
) -> None:
    path = tmp_path / "hang.txt"
    with Looked(thousand(differ=differ)) as looked:
        done = run(looked, environ, "-o", str(path), "--timeout", "60")
    assert done.returncode == 0, done.stderr
    text = path.read_text()
    assert len(text.encode()) < MAX_REPORT
    assert "rank 77 (gpu013) has not come" in text

    # No broker is there any more.
    again = subprocess.run(
        [sys.executable, "-m", "dbg_client", "why", str(path)],
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
        check=False,
    )
    assert again.returncode == 1
    assert "rank 77 (gpu013) has not come" in again.stdout.split("\n")[0]
    assert all(f"  {line}".rstrip() in text for line in again.stdout.split("\n"))
