"""How messages and their parts are declared: a class whose annotations say what each field may hold.

A record checks its fields when it is made, in every role and also when it is read, so no record exists that a peer
would refuse. A record is frozen, its fields are given by name, and :mod:`dataclasses` knows it. All records share the
methods that a dataclass would generate for each class, and bounds are looked up at the first use of a class: a rank
imports some fifty record classes at its start, and uses ten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, ParamSpec, TypeVar

from .bounds import Bound, InvalidMessage, bound_of, shown

if TYPE_CHECKING:
    from dataclasses import Field as DataclassField

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """Do nothing: the function is for type checkers, and Python has it from 3.11 on."""
        return lambda record: record


_P = ParamSpec("_P")
_R = TypeVar("_R")

_REQUIRED = object()
"""Stands for the default of a field that has none."""


class Declared(NamedTuple):
    """One field of a record."""

    name: str
    bound: Bound
    default: Any

    @property
    def is_required(self) -> bool:
        """Tell whether the field has no default."""
        return self.default is _REQUIRED


class RecordType(type):
    """The class of record classes: it makes slots of the annotated names, and keeps the defaults elsewhere."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> RecordType:
        """Make one class."""
        # From Python 3.14 on a function makes the annotations.
        annotate = namespace.get("__annotate_func__")
        hints = namespace.get("__annotations__", {}) if annotate is None else annotate(1)
        defaults = {field: namespace.pop(field) for field in hints if field in namespace}
        made = super().__new__(mcs, name, bases, {**namespace, "__slots__": tuple(hints)}, **options)
        _DEFAULTS[made] = defaults
        # `replace`, `fields` and `asdict` need a dataclass; Record has the methods that it would generate.
        dataclass(init=False, repr=False, eq=False, match_args=False)(made)  # type: ignore[arg-type] # any class
        return made


_DEFAULTS: dict[type, dict[str, Any]] = {}
_FIELDS: dict[type, tuple[Declared, ...]] = {}
_CHECKS: dict[type, tuple[tuple[str, Callable[[object], str], Any], ...]] = {}


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record(metaclass=RecordType):
    """A frozen object that is right in every field, and equal to a record of its class with equal fields."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, DataclassField[Any]]]
        __slots__: ClassVar[tuple[str, ...]]
    else:

        def __init__(self, **values):
            """Take the fields by name. Raise InvalidMessage, which names the first wrong field."""
            kind = type(self)
            given = 0
            for name, wrong, default in _CHECKS.get(kind) or _checks_of(kind):
                value = values.get(name, _REQUIRED)
                if value is _REQUIRED:
                    value = default
                    if value is _REQUIRED:
                        raise TypeError(f"{kind.__name__} lacks the field {name!r}")
                else:
                    given += 1
                    if problem := wrong(value):
                        raise InvalidMessage(kind.__name__.lower(), f".{name}{problem}")
                _set(self, name, value)
            if given < len(values):
                raise TypeError(f"{kind.__name__} has no field {next(n for n in values if n not in kind.__slots__)!r}")
            if problem := self.contradiction():
                raise InvalidMessage(kind.__name__.lower(), problem)

        def __setattr__(self, name, _value):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name):
            raise FrozenInstanceError(f"cannot delete field {name!r}")

    def contradiction(self) -> str:
        """Return what is wrong with two fields together, as the text after the record's name; empty if nothing is."""
        return ""

    def compared(self) -> object:
        """Return what records must have in common to be equal."""
        kind = type(self)
        return (_GETTERS.get(kind) or _getter_of(kind))(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or self.compared() == other.compared()

    def __hash__(self) -> int:
        return hash(self.compared())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


_set = object.__setattr__

_GETTERS: dict[type, Callable[[Any], object]] = {}


def _getter_of(kind: type[Record]) -> Callable[[Any], object]:
    """Return a function that reads all fields of a record at once. It is kept, as records are compared often."""
    getter = _GETTERS[kind] = attrgetter(*kind.__slots__) if kind.__slots__ else lambda _record: ()
    return getter


class Nested(Bound):
    """Allow a record of one class, which has checked itself."""

    __slots__ = ("record",)

    def __init__(self, record: type[Record]) -> None:
        self.record = record

    def wrong(self, value: object) -> str:
        """Name a value that is no record of this class."""
        return "" if type(value) is self.record else f" is {shown(value)}"

    def read(self, value: Any) -> object:
        """Return the record that a JSON object holds."""
        if not isinstance(value, dict):
            raise InvalidMessage("", f" is {shown(value)}")
        return read(self.record, value)

    @staticmethod
    def plain(value: Any) -> object:
        """Return a record as a JSON object."""
        return plain(value)


def fields_of(record: type[Record]) -> tuple[Declared, ...]:
    """Return the fields of a record's class, in their order."""
    found = _FIELDS.get(record)
    if found is None:
        defaults = _DEFAULTS[record]
        hints = record.__annotations__
        found = _FIELDS[record] = tuple(
            Declared(name, bound_of(hints[name], _nested), defaults.get(name, _REQUIRED)) for name in record.__slots__
        )
    return found


def _checks_of(record: type[Record]) -> tuple[tuple[str, Callable[[object], str], Any], ...]:
    """Return name, check and default of each field. They are kept, as each new record goes through them."""
    checks = _CHECKS[record] = tuple((name, bound.wrong, default) for name, bound, default in fields_of(record))
    return checks


def _nested(hint: type) -> Bound | None:
    return Nested(hint) if issubclass(hint, Record) else None


def fitted(make: Callable[_P, _R], *args: _P.args, **values: _P.kwargs) -> _R:
    """Return a record of a program's values: a text that is too long is cut, a number out of its range is bounded.

    A debugger must not fail for the name of a thread or the path of a file.
    """
    try:
        return make(*args, **values)
    except InvalidMessage:
        bounds = {field.name: field.bound for field in fields_of(make)}  # type: ignore[arg-type] # a record's class
        return make(*args, **{name: bounds[name].fit(value) for name, value in values.items()})  # type: ignore[arg-type] # of the same types


def plain(record: Record) -> dict[str, object]:
    """Return a record as a JSON object."""
    document: dict[str, object] = {}
    for name, bound, _ in fields_of(type(record)):
        value = getattr(record, name)
        document[name] = value if bound.plain is None else bound.plain(value)
    return document


def read(record: type[Record], document: dict[str, object]) -> Record:
    """Return the record that a JSON object holds; fields that are not declared are ignored. Raise InvalidMessage."""
    values: dict[str, object] = {}
    for name, bound, default in fields_of(record):
        if name in document:
            value = document[name]
            if bound.read is not None:
                try:
                    value = bound.read(value)
                except InvalidMessage as error:
                    raise InvalidMessage("", f".{name}{error.suffix}") from None
            values[name] = value
        elif default is _REQUIRED:
            raise InvalidMessage("", f" lacks the field {name!r}")
    return record(**values)
