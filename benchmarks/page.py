"""The table of a run, its plot, and ``docs/performance.md``: all made of the JSON file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.bench import ROOT

PAGE = ROOT / "docs/performance.md"
PLOT = ROOT / "docs/assets/performance.svg"

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
"""The part of the page that is made; the rest is written by hand."""

WIDTH, LABEL, LINE = 860, 420, 20
"""Width of the plot, of its labels, and height of a bar, in pixels."""

BAR = f'height="{LINE - 8}" fill="#3a6ea5"'

Document = Mapping[str, Any]


def amount(value: float) -> str:
    """Return a number with three digits that count, in full."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def cells(figure: Document) -> tuple[str, str, str, str]:
    """Return a figure's name, median, spread, and ratio."""
    spread = f"{amount(figure['least'])} to {amount(figure['most'])}" if figure["rounds"] > 1 else ""
    ratio = f"× {amount(figure['ratio'])}" if figure["ratio"] is not None else ""
    return figure["name"], f"{amount(figure['median'])} {figure['unit']}", spread, ratio


def lines_of(row: Document) -> list[str]:
    """Return a row as lines of plain text."""
    head = f"== {row['name']}: {row['title']} ({row['seconds']} s)"
    if not row["figures"]:
        return [head, f"   {without_figures(row)}"]
    table = [cells(figure) for figure in row["figures"]]
    widths = [max(len(line[column]) for line in table) for column in range(4)]
    return [
        head,
        *(
            f"   {name:<{widths[0]}}  {median:>{widths[1]}}  {spread:>{widths[2]}}  {ratio}".rstrip()
            for name, median, spread, ratio in table
        ),
    ]


def without_figures(row: Document) -> str:
    """Return why a row has no figures."""
    return f"failed: {row['failed']}" if row["failed"] else f"left out: {row['left_out']}"


def table(rows: Sequence[Document]) -> list[str]:
    """Return all rows as one table of the page."""
    lines = ["| row | figure | median | least to most | against |", "|---|---|--:|--:|---|"]
    for row in rows:
        if not row["figures"]:
            lines.append(f"| `{row['name']}` | {in_cell(without_figures(row))} | | | |")
        for number, figure in enumerate(row["figures"]):
            name, median, spread, ratio = map(in_cell, cells(figure))
            against = f"{ratio} {in_cell(figure['against'])}" if ratio else ""
            head = "" if number else f"`{row['name']}`"
            lines.append(f"| {head} | {name} | {median} | {spread} | {against} |")
    return lines


def in_cell(text: str) -> str:
    """Return a text that ends no cell."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def made(document: Document) -> str:
    """Return the part of the page that is made of a run."""
    where, versions = document["machine"], document["versions"]
    used = ", ".join(f"{name} {number}" for name, number in versions.items() if name != "python" and number)
    lines = [
        BEGIN,
        "",
        f"Measured on {document['date']} in {document['seconds']} s: {where['processor']}, {where['cores']} cores,",
        f"{where['memory_gib']} GiB, {where['system']}, load {where['load']} at the end; Python {versions['python']},",
        f"{used}.",
        "",
        "![How much longer, or more, than the baseline each figure is](assets/performance.svg)",
        "",
        *table(document["rows"]),
        "",
        "What each row measures:",
        "",
        *(f"* `{row['name']}`: {row['title']}" for row in document["rows"]),
        "",
        END,
    ]
    return "\n".join(lines)


def page(text: str, document: Document) -> str:
    """Return the page with the part that is made."""
    head, _, rest = text.partition(BEGIN)
    return head + made(document) + rest.partition(END)[2]


def plot(rows: Sequence[Document]) -> str:
    """Return a bar for each figure that has a baseline, on a logarithmic scale around a factor of one."""
    bars = [
        (f"{row['name']}: {figure['name']}", figure["ratio"])
        for row in rows
        for figure in row["figures"]
        if figure["ratio"]
    ]
    reach = max([1.0, *(abs(math.log10(ratio)) for _, ratio in bars)])
    middle, half = LABEL + (WIDTH - LABEL) / 2, (WIDTH - LABEL) / 2 - 50
    height = LINE * (len(bars) + 2)
    looks = 'font-family="sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {looks}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{middle:g}" y="14" text-anchor="middle">× the baseline</text>',
    ]
    for number, (name, ratio) in enumerate(bars):
        y, length = LINE * (number + 1), half * math.log10(ratio) / reach
        end = middle + length
        side, anchor = (4, "start") if length >= 0 else (-4, "end")
        lines += [
            f'<text x="{LABEL - 6}" y="{y + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{min(middle, end):.1f}" y="{y + 4}" width="{abs(length):.1f}" {BAR}/>',
            f'<text x="{end + side:.1f}" y="{y + 14}" text-anchor="{anchor}">{amount(ratio)}</text>',
        ]
    lines.append(f'<line x1="{middle:g}" y1="{LINE}" x2="{middle:g}" y2="{height - LINE}" stroke="#222222"/>')
    return "\n".join([*lines, "</svg>", ""])


def write(document: Document, page_file: Path = PAGE, plot_file: Path = PLOT) -> None:
    """Write the page and its plot."""
    page_file.write_text(page(page_file.read_text(), document))
    plot_file.write_text(plot(document["rows"]))
