"""What a rank says of the stops that its job was started with, in the rows of an answer."""

from dbg_wire.bounds import Count, Line, Sentence
from dbg_wire.records import Row


class StopState(Row, tag="stop"):
    """What became of one stop in one rank.

    ``stop`` is as it was typed. ``line`` is where it is placed, None if it isn't or has no line. A stop is ``armed``
    once the code that holds it is loaded; ``hits`` counts how often the program was there with a true condition.
    ``problem`` says why it can't be armed or doesn't stop, empty if nothing is wrong.
    """

    stop: Sentence
    line: Line | None
    armed: bool
    hits: Count
    problem: Sentence = ""
