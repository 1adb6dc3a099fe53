"""How a terminal asks for the parts of a value that a rank has just answered with, and how the rank lists them.

Each part is a row of the answer.
"""

from typing import Annotated

from dbg_wire.bounds import FreeText, elements
from dbg_wire.limits import MAX_ITEMS
from dbg_wire.records import Inquiry, Row


class Part(Row, tag="part"):
    """One part: ``step`` finds it, ``label`` is the step as a reader sees it, empty for a range of elements.

    Equal parts of two ranks have equal digests; a part with an empty digest can't be compared.
    """

    step: FreeText
    label: FreeText
    digest: FreeText
    text: FreeText = ""


class PartsQuestion(Inquiry, tag="parts"):
    """A question for the parts of the element at ``path``, in the value that has one of the digests ``of``.

    ``of`` holds the exact digests of the values on all asked ranks, ``path`` the steps from the whole value to the part
    whose parts are asked for, and ``exact`` tells whether memory addresses count.
    """

    of: Annotated[tuple[FreeText, ...], elements(MAX_ITEMS)]
    path: Annotated[tuple[FreeText, ...], elements(MAX_ITEMS)] = ()
    exact: bool = False
