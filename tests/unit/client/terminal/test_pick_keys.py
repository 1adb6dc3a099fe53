from __future__ import annotations

from dbg_client.terminal.pick_keys import LETTERS
from dbg_client.terminal.picker import PROMPTS
from dbg_client.views.pick_list import HELP, footer_text
from tests.unit.client.fake_broker import make_rank


def test_help_page_and_foot_name_the_letters() -> None:
    foot = footer_text(200, away=None, filtering=False, chosen=make_rank())

    assert all(f"\n{letter}  " in HELP for letter in LETTERS)
    assert all(f"   {letter} " in foot for letter in LETTERS)
    assert set(PROMPTS) < set(LETTERS)
