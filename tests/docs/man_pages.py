"""The manual pages, made of the tables of verbs and options: ``python -m tests.docs.man_pages`` writes them."""

from __future__ import annotations

from dbg_broker.cli.parser import parser_of_the_command
from tests.docs import attach_page, broker_page
from tests.docs.pages import ROOT

PAGES = {"dbg-attach": attach_page.man_page(), "dbg-broker": broker_page.man_page(parser_of_the_command())}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / f"docs/man/{name}.1").write_text(page)
