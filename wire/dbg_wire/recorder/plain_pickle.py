"""A reader of pickles that can't run anything: it knows the operations that make plain values, and no others. Pure.

A pickle is a program, and the interpreter of the standard library in C can be asked for gigabytes by a few bytes. The
one in Python keeps its memo in a dict, and its table of operations says what it can do.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

_PLAIN = b"\x80\x95.N\x88\x89KMJG\x8aX\x8c\x8d]}()ate\x85\x86\x87hjqr\x94"
"""Operations that make or keep texts, numbers, lists and tuples; those that fill dicts follow below."""


class NotPlain(ValueError):
    """Say what a text of bytes is that is no pickle of plain values; the message is the end of a sentence."""


def load_plain(data: bytes) -> Any:
    """Return the value of a pickle of plain values. A value may be part of several others, as in any pickle.

    The caller bounds the size of ``data``: a byte may become a list, which takes 56. Raise NotPlain.
    """
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except KeyError:
        raise NotPlain("would run code, which no flight recorder writes, or is no pickle; none of it was run") from None
    except (EOFError, IndexError, struct.error):
        raise NotPlain("ends in the middle of a pickle") from None
    except (AttributeError, TypeError, ValueError, pickle.UnpicklingError) as error:
        raise NotPlain(str(error) if isinstance(error, NotPlain) else "is a damaged pickle") from None


_Unpickler: Any = getattr(pickle, "_Unpickler")  # noqa: B009 - the types know the one in C alone


class _PlainUnpickler(_Unpickler):  # type: ignore[misc] # as above
    def _set_one(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _set(self.stack[-1], key, value)

    def _set_many(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            _set(self.stack[-1], key, value)

    dispatch = {code: _Unpickler.dispatch[code] for code in _PLAIN} | {ord("s"): _set_one, ord("u"): _set_many}


def _set(target: Any, key: Any, value: Any) -> None:
    # The hash of a tuple of tuples may take for ever.
    if type(key) not in (str, int) or type(target) is not dict:
        raise NotPlain("is a pickle with keys that no flight recorder writes")
    target[key] = value
