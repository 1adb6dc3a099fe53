"""Reader of pickles that can't run code: it supports only the operations that create plain values. Pure.

A pickle is a program. The C unpickler of the standard library is not used, because a few bytes can make it allocate
gigabytes for its memo. The Python unpickler keeps its memo in a dict, and its operations are in a table, which is
replaced here.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

_PLAIN = b"\x80\x95.N\x88\x89KMJG\x8aX\x8c\x8d]}()ate\x85\x86\x87hjqr\x94"
"""Operations that create or store texts, numbers, lists and tuples. The operations that fill dicts are added below."""


class NotPlain(ValueError):
    """Raised for data that is not a pickle of plain values. The message ends a sentence whose subject is the data."""


def load_plain(data: bytes) -> Any:
    """Load a pickle of plain values. A value may be referenced several times, as in any pickle.

    The caller must limit the size of ``data``: one byte can become a list of 56 bytes. Raise NotPlain.
    """
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except KeyError:
        raise NotPlain("is not a flight recorder's pickle: it is damaged or contains code; no code was run") from None
    except (EOFError, IndexError, struct.error):
        raise NotPlain("ends in the middle of a pickle") from None
    except (AttributeError, TypeError, ValueError, pickle.UnpicklingError) as error:
        raise NotPlain(str(error) if isinstance(error, NotPlain) else "is a damaged pickle") from None


_Unpickler: Any = getattr(pickle, "_Unpickler")  # noqa: B009 - typeshed only has the C unpickler


class _PlainUnpickler(_Unpickler):  # type: ignore[misc] # the type of _Unpickler is Any
    def _set_one(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _set(self.stack[-1], key, value)

    def _set_many(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            _set(self.stack[-1], key, value)

    dispatch = {code: _Unpickler.dispatch[code] for code in _PLAIN} | {ord("s"): _set_one, ord("u"): _set_many}


def _set(target: Any, key: Any, value: Any) -> None:
    # Other keys are rejected: hashing a tuple of nested tuples may take forever.
    if type(key) not in (str, int) or type(target) is not dict:
        raise NotPlain("is a pickle with dict keys that a flight recorder does not write")
    target[key] = value
