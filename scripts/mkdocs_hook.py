"""What mkdocs does to a page before it makes HTML of it.

Pages link to files of the repository outside of docs/, which readers on a forge can follow and readers of the site
can't: there such a link becomes the file's path. A path that does not exist fails the strict build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<to>\.\./[^)\s#]+)(?:#[^)\s]*)?\)")

log = logging.getLogger("mkdocs.hooks.repository_links")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the page with each link that leaves docs/ replaced by the path of its file."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def shown(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link["to"]))
        if path.startswith("docs/"):
            return link.group()
        if not (ROOT / path).exists():
            log.warning("'%s' links to %s, which does not exist", page.file.src_uri, path)
        return link["text"] if path in link["text"] else f"{link['text']} (`{path}`)"

    return LINK.sub(shown, markdown)
