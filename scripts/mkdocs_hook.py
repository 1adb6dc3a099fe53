"""Hook of mkdocs that replaces links out of docs/ and checks the finished pages. A warning fails the strict build.

Pages link to files of the repository outside of docs/. These links work on a code host, but not in the offline site, so
the hook replaces such a link by the file's path. A finished page must not load anything from a network.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<to>\.\./[^)\s#]+)(?:#[^)\s]*)?\)")
LOADED = re.compile(
    r"<(?:script|img|iframe|link(?![^>]*rel=.?canonical))\b[^>]*\b(?:src|href)=.?(?P<url>(?:https?:)?//[^\s\"'>]*)"
)

log = logging.getLogger("mkdocs.hooks.repository_links")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the page with each link out of docs/ replaced by the path of its file."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def shown(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link["to"]))
        if path.startswith("docs/"):
            return link.group()
        if not (ROOT / path).exists():
            log.warning("'%s' links to %s, which does not exist", page.file.src_uri, path)
        return link["text"] if path in link["text"] else f"{link['text']} (`{path}`)"

    return LINK.sub(shown, markdown)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Return the page unchanged, and log a warning for each URL that it would load from a network."""
    for found in LOADED.finditer(output):
        log.warning("'%s' loads %s; readers may have no network", page.file.src_uri, found["url"])
    return output
