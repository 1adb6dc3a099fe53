"""The library without ``await`` has all that the asynchronous one has."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from dbg_client.api.blocking import Broker, Job, Ranks, Stop
from dbg_client.api.broker import AsyncBroker
from dbg_client.api.ranks import AsyncJob, AsyncRanks
from dbg_client.api.stop import AsyncStop

TWINS: list[tuple[type[Any], type[Any]]] = [
    (AsyncBroker, Broker),
    (AsyncJob, Job),
    (AsyncRanks, Ranks),
    (AsyncStop, Stop),
]


@pytest.mark.parametrize(("waited_for", "blocking"), TWINS)
def test_each_class_has_the_methods_of_its_twin_with_their_parameters_and_their_documentation(
    waited_for: type[Any], blocking: type[Any]
) -> None:
    names = [name for name in dir(waited_for) if not name.startswith("_") or name == "_repr_html_"]
    assert len(names) > 5
    for name in names:
        there, here = getattr(waited_for, name), getattr(blocking, name)
        assert not inspect.iscoroutinefunction(here), name
        if isinstance(there, property):
            assert here.__doc__ == there.__doc__, name
            continue
        shown, expected = (
            [one.replace(annotation=inspect.Parameter.empty) for one in inspect.signature(method).parameters.values()]
            for method in (here, there)
        )
        assert shown == expected, name
        assert name == "_repr_html_" or here.__doc__ == there.__doc__, name
