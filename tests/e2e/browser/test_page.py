"""The page of ``dbg-attach web`` in a real Chromium: groups and stacks, PuDB with a handover, pdb."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.chromium import Chromium
from tests.support.pages import LINE, TRAIN, address_of, stopped_ranks
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach, start_ranks, wait_until, wait_until_states


def test_answers_are_shown_as_groups_stacks_and_text_never_as_html(
    chromium: Chromium, processes: Processes, home: Path
) -> None:
    stopped_ranks(processes, home, 3)
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#counts", "3 stopped")
        tab.ask("rank")
        tab.until("document.querySelectorAll('#answer .group').length === 3")
        tab.ask("evil")
        tab.until_text("#answer .group", "<img src=x")
        assert tab.count("#answer img") == 0
        tab.ask("no_such_name")
        tab.until_text("#answer .group", "NameError")
        tab.ask("where")
        tab.until_text("#answer .tree", "<b>bold.py")
        tab.ask("command n")
        tab.until_text("#answer", "3 of 3")
        tab.ask("where")
        tab.until_text("#answer .tree", f"rank_script.py:{LINE + 1}")


def test_a_command_is_sent_to_the_group_on_the_screen(chromium: Chromium, processes: Processes, home: Path) -> None:
    stopped_ranks(processes, home, 3)
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#counts", "3 stopped")
        tab.ask("loss")
        tab.until_text("#answer", "nan")
        tab.ask("rank")
        tab.until("document.querySelectorAll('#answer .group').length === 3")
        tab.click("#earlier")
        tab.until_text("#answer", "nan")
        tab.ask("command @2 n")
        tab.until_text("#answer", "1 of 1")
        # @2 of the answer about `rank` would be rank 1.
        wait_until(
            home, lambda ranks: [one["where"]["line"] - LINE for one in ranks] == [1, 0, 0], "the step of rank 0"
        )


def test_the_page_reports_no_ranks_shows_the_job_and_marks_stops_in_each_view(
    chromium: Chromium, processes: Processes, home: Path
) -> None:
    running_broker(processes, home)
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#nobody", "No rank is connected")
        start_ranks(processes, home, TRAIN, 2)
        (job,) = {rank["job"] for rank in wait_until_states(home, {0: "stopped", 1: "stopped"})}
        tab.until_text("#job", job)
        tab.until_text("#counts", "2 stopped")
        tab.until("document.title.includes(document.querySelector('#job').textContent)")
        assert tab.text("#nobody") == ""
        tab.click("#view")
        tab.ask("rank")
        marks = "document.querySelectorAll('#list tbody .swatch .mark').length"
        tab.until(f"{marks} === 1")
        # The group of rank 0 has no mark, and its next stop has one.
        attach(home, "continue", "0")
        tab.until(f"{marks} === 2")


def test_pudb_in_the_page_steps_changes_drivers_and_returns_after_a_reload(
    chromium: Chromium, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    stopped_ranks(processes, home, 2)
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#counts", "2 stopped")
        tab.focus("#grid")
        tab.press("Enter")
        tab.until_terminal("PuDB")
        tab.until_text(".pane .driver", "you drive")
        tab.press("n")
        wait_until(home, lambda ranks: ranks[0]["where"]["line"] == LINE + 1, "the step")
        tab.until_text(".pane .standing", f"rank_script.py:{LINE + 1}")

        # A terminal takes the keyboard, and the page takes it back by the terminal's own keys.
        terminal = sit_in_pudb(open_terminal, "0", "--take")
        tab.until("document.querySelector('.pane .keyboard').textContent === 'Take'")
        tab.press("n")
        tab.until_text(".pane .notice", "take the keyboard")
        tab.press("Control+]", "w")
        tab.until_text(".pane .driver", "you drive")
        terminal.wait_for("watching,")
        tab.press("n")
        wait_until(home, lambda ranks: ranks[0]["where"]["line"] == LINE + 2, "the second step")

        tab.reload()
        tab.until_terminal("PuDB")
        tab.until_text(".pane .standing", f"rank_script.py:{LINE + 2}")
        tab.focus(".pane .xterm-helper-textarea")
        tab.press("Control+]", "d")
        tab.until("!document.querySelector('.pane')")


def test_pdb_has_an_input_line(chromium: Chromium, processes: Processes, home: Path) -> None:
    stopped_ranks(processes, home, 1, engine="pdb")
    with chromium.tab(address_of(processes, home, "--drive")) as tab:
        tab.until_text("#counts", "1 stopped")
        tab.focus("#grid")
        tab.press("Enter")
        tab.until_text(".pdb-prompt", "(Pdb)")
        tab.type("p evil")
        tab.press("Enter")
        tab.until_terminal("<img src=x")
        tab.until_text(".pdb-prompt", "(Pdb)")
        tab.type("p loss")
        tab.press("Enter")
        tab.until_terminal("nan")
        tab.type("n")
        tab.press("Enter")
        tab.until_terminal("second = 2")
        tab.press("ArrowUp", "ArrowUp")
        tab.until("document.querySelector('.pdb-line input').value === 'p loss'")
