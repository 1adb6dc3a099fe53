"""Tensors and arrays: described by kind and shape, compared by all their elements, without other ranks."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbg_agent.values import record as value_effort
from dbg_agent.values.describe import Described, describe
from dbg_agent.values.record import DigestBudget, OutOfTime
from dbg_agent.values.tensors import NO_ELEMENTS, wait_for_stream
from dbg_wire.limits import MIB
from tests.support.requirements import needs_torch

pytestmark = needs_torch

PLENTY = 60.0
"""Seconds: more than any test needs."""


@pytest.fixture(scope="module")
def torch() -> Any:
    """The module torch, which is not installed everywhere."""
    return importlib.import_module("torch")


@pytest.fixture(scope="module")
def numpy(torch: Any) -> Any:
    """The module numpy, which is installed beside torch."""
    return importlib.import_module("numpy")


def describe_fully(value: object) -> Described:
    """Describe a value with plenty of time."""
    return describe(value, seconds=PLENTY)


def digest(value: object) -> str:
    """Return the digest of a value; fail if it has none."""
    described = describe_fully(value)
    assert described.digest, described.text
    return described.digest


def reason(value: object) -> str:
    """Return why a value is not compared."""
    described = describe_fully(value)
    assert described.digest == ""
    return described.text.partition("[values not compared: ")[2].rstrip("]")


# ------------------------------------------------------------------------------------------------------------ tensors


def test_tensors_are_described_by_type_and_small_tensors_by_their_values(torch: Any) -> None:
    assert describe_fully(torch.zeros(3, 4)).text == "tensor 3x4 float32 cpu"
    assert describe_fully(torch.zeros(3, 4, dtype=torch.bfloat16, requires_grad=True)).text == (
        "tensor 3x4 bfloat16 cpu requires_grad"
    )
    assert describe_fully(torch.tensor(0.1)).text == "tensor scalar float32 cpu: 0.1"
    assert describe_fully(torch.tensor([[0.1, float("nan")]], dtype=torch.float64)).text == (
        "tensor 1x2 float64 cpu: [[0.1, nan]]"
    )
    assert describe_fully(torch.tensor([1, 2])).text == "tensor 2 int64 cpu: [1, 2]"
    assert describe_fully(torch.nn.Parameter(torch.ones(1))).text == "Parameter 1 float32 cpu requires_grad: [1.0]"
    assert describe_fully(torch.Size([2, 3])).text == "torch.Size([2, 3])"


def test_one_changed_element_of_a_million_changes_the_digest_quickly(torch: Any) -> None:
    one = torch.arange(1_000_000, dtype=torch.float32)
    other = one.clone()
    other[765_432] += 1
    started = time.process_time()
    first, second = digest(one), digest(other)
    assert first != second
    assert first == digest(one.clone())
    # Each digest takes some 5 ms on one core.
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    "name",
    ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "float8_e5m2"],
)
def test_every_kind_of_element_is_compared_by_its_bytes(torch: Any, name: str) -> None:
    one = torch.arange(100).fmod(2).to(getattr(torch, name))
    other = one.clone()
    other[50] = one[51]
    assert digest(one) != digest(other)
    assert digest(one) == digest(one.clone())


def test_equal_elements_are_equal_in_any_memory_layout(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_agent.values.tensors.BLOCK_BYTES", 4 * 20)
    straight = torch.arange(210.0).reshape(5, 6, 7)
    for same in (
        straight.permute(2, 1, 0).contiguous().permute(2, 1, 0),
        torch.arange(420.0).div(2).reshape(5, 6, 14)[:, :, ::2],
        straight.clone().requires_grad_().detach(),
    ):
        assert digest(same) == digest(straight)
    assert digest(straight.reshape(6, 5, 7)) != digest(straight)
    assert digest(torch.tensor([1 + 2j] * 9).conj()) == digest(torch.tensor([1 - 2j] * 9))
    assert digest(torch.ones(1).expand(9)) == digest(torch.ones(9))


def test_equal_nans_are_equal_and_the_type_of_a_tensor_counts(torch: Any) -> None:
    assert digest(torch.full((9,), float("nan"))) == digest(torch.full((9,), float("nan")))
    kinds = [
        torch.zeros(9),
        torch.zeros(9, dtype=torch.int32),
        torch.zeros(3, 3),
        torch.zeros(9, requires_grad=True),
        -torch.zeros(9),
        torch.zeros(0),
    ]
    assert len({digest(kind) for kind in kinds}) == len(kinds)


def test_tensors_in_containers_are_compared_by_their_content(torch: Any) -> None:
    def state(last: float) -> dict[str, Any]:
        weight = torch.zeros(5000)
        weight[-1] = last
        return {"model": {"weight": weight, "bias": [torch.ones(2)]}}

    assert digest(state(1.0)) == digest(state(1.0))
    assert digest(state(1.0)) != digest(state(2.0))
    assert describe_fully(state(1.0)).text == (
        "{'model': {'weight': tensor 5000 float32 cpu, 'bias': [tensor 2 float32 cpu: [1.0, 1.0]]}}"
    )
    assert "repr of Holder" in reason(type("Holder", (), {"__repr__": lambda _: f"Holder({torch.rand(2)!r})"})())


def test_a_module_is_described_by_its_repr_and_compared_with_its_weights(torch: Any) -> None:
    layer, other = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    assert describe_fully(layer).text == repr(layer)
    assert digest(layer) != digest(other)
    other.load_state_dict(layer.state_dict())
    assert digest(layer) == digest(other)


def test_describing_tensors_has_no_side_effects(torch: Any) -> None:
    leaf = torch.ones(20, requires_grad=True)
    product = leaf * 2
    version = product._version
    describe_fully([leaf, product])
    assert torch.is_grad_enabled()
    assert product._version == version
    product.sum().backward()
    assert leaf.grad.tolist() == [2.0] * 20


# ----------------------------------------------------------------------------------------------- what can't be read


def test_tensors_without_elements_of_their_own_are_not_compared(torch: Any) -> None:
    fake = importlib.import_module("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        faked = torch.empty(3, 4)
    freed = torch.ones(10)
    freed.untyped_storage().resize_(0)
    assert describe_fully(faked).text.startswith("FakeTensor 3x4 float32 cpu [")
    assert reason(faked).startswith("FakeTensor ")
    assert reason(torch.zeros(3, device="meta")) == NO_ELEMENTS
    assert reason(torch.eye(3).to_sparse()).startswith("the tensor is nested")
    assert reason(freed) == "the storage of the tensor is freed"
    assert describe_fully([freed, torch.ones(1), 7]).text.startswith(
        "[tensor 10 float32 cpu, tensor 1 float32 cpu: [1.0], 7] [values not compared"
    )


def test_tensors_inside_a_transform_are_not_compared(torch: Any) -> None:
    seen: list[Described] = []

    def transformed(row: Any) -> Any:
        seen.append(describe_fully(row))
        return row

    torch.vmap(transformed)(torch.ones(2, 2))
    assert [described.digest for described in seen] == [""]
    assert seen[0].text.startswith("tensor 2 float32 cpu [values not compared: ")


def test_large_or_slow_values_are_not_compared(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(torch.ones(1).expand(10**12)) == "larger than 1024 MiB"
    late = describe(torch.ones(9), seconds=0.0)
    assert late.text == "[values not compared: not done within 0 s]"
    monkeypatch.setattr(value_effort, "MAX_BYTES", MIB)
    state = {"large": torch.zeros(2 * MIB), "small": torch.ones(1)}
    assert describe_fully(state).text == (
        "{'large': tensor 2097152 float32 cpu, 'small': tensor 1 float32 cpu: [1.0]}"
        " [values not compared: larger than 1 MiB]"
    )


def test_modes_and_overrides_of_the_program_are_not_called(torch: Any) -> None:
    dispatch = importlib.import_module("torch.utils._python_dispatch")
    overrides = importlib.import_module("torch.overrides")
    fake = importlib.import_module("torch._subclasses.fake_tensor")

    class Forbidden(AssertionError):
        """The error of a forbidden operation."""

    def forbid(*_: Any, **__: Any) -> None:
        raise Forbidden

    dispatching = type("Dispatching", (dispatch.TorchDispatchMode,), {"__torch_dispatch__": forbid})
    functions = type("Functions", (overrides.TorchFunctionMode,), {"__torch_function__": forbid})
    overriding = type("Overriding", (torch.Tensor,), {"__torch_function__": classmethod(forbid)})
    plain = torch.arange(20.0)
    expected = describe_fully(plain)
    with dispatching(), functions():
        assert describe_fully(plain) == expected
    with fake.FakeTensorMode():
        assert describe_fully(plain) == expected
    assert describe_fully(torch.Tensor._make_subclass(overriding, plain)).text == "Overriding 20 float32 cpu"
    assert digest(torch.Tensor._make_subclass(overriding, plain)) != digest(
        torch.Tensor._make_subclass(overriding, plain + 1)
    )


def test_the_wait_for_a_stuck_stream_has_a_limit() -> None:
    answers = iter([False, False, True])
    device = SimpleNamespace(type="cuda")

    def torch_with(query: Any) -> Any:
        return SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda _: SimpleNamespace(query=query)))

    wait_for_stream(DigestBudget(PLENTY), torch_with(lambda: next(answers)), device)
    assert next(answers, None) is None
    with pytest.raises(OutOfTime):
        wait_for_stream(DigestBudget(0.01), torch_with(lambda: False), device)


# ------------------------------------------------------------------------------------------------- sharded tensors


@pytest.fixture
def mesh(torch: Any, tmp_path: Path) -> Iterator[Any]:
    """A mesh of this one process."""
    importlib.import_module("torch.distributed.tensor")
    distributed = torch.distributed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
        try:
            yield distributed.device_mesh.init_device_mesh("cpu", (1,))
        finally:
            distributed.destroy_process_group()


def test_a_sharded_tensor_is_described_and_compared_by_its_local_shard(
    torch: Any, mesh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sharding = torch.distributed.tensor

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a collective")

    def shard(local: Any) -> Any:
        return sharding.DTensor.from_local(
            local, mesh, [sharding.Shard(0)], run_check=False, shape=torch.Size([6, 4]), stride=(4, 1)
        )

    for name in ("full_tensor", "redistribute", "to_local", "__torch_dispatch__"):
        monkeypatch.setattr(sharding.DTensor, name, never)
    one, other = torch.zeros(3, 4), torch.zeros(3, 4)
    other[2, 3] = 1.0
    assert describe_fully(shard(one)).text == "DTensor local 3x4 of 6x4 Shard(dim=0) float32 cpu"
    assert digest(shard(one)) == digest(shard(one.clone()))
    assert digest(shard(one)) != digest(shard(other))


# ------------------------------------------------------------------------------------------------------------- arrays


def test_arrays_are_described_by_type_and_small_arrays_by_their_values(numpy: Any) -> None:
    assert describe_fully(numpy.zeros((3, 4), dtype="f4")).text == "array 3x4 float32"
    assert describe_fully(numpy.array([0.1, 2], dtype="f4")).text == "array 2 float32: [0.1, 2.0]"
    assert describe_fully(numpy.array("x")).text == "array scalar <U1: 'x'"
    assert describe_fully(numpy.float32(0.1)).text == repr(numpy.float32(0.1))


def test_one_changed_element_of_an_array_changes_the_digest(numpy: Any) -> None:
    for dtype in ("?", "i1", "u8", "f2", "f8", "g", "c16", "M8[s]", "m8[s]", "S3", "U3", "O", "T", "i4,f8"):
        one = numpy.zeros((50, 20), dtype=dtype)
        other = one.copy()
        other[25, 10] = numpy.ones(1, dtype=dtype)[0]
        assert digest(one) == digest(one.copy())
        assert digest(one) == digest(numpy.asfortranarray(one))
        assert digest(one) != digest(other)


def test_bytes_between_elements_do_not_count(numpy: Any) -> None:
    dtype = numpy.dtype([("a", "i1"), ("b", "f8")], align=True)
    # The test fills all the memory itself, since a copy by numpy need not set the bytes between fields.
    one, other = (numpy.frombuffer(bytearray(fill * dtype.itemsize), dtype=dtype) for fill in (b"\x00", b"\x01"))
    for field in ("a", "b"):
        other[field] = one[field]
    assert one.tobytes() != other.tobytes()
    assert digest(one) == digest(other)
    extended = numpy.zeros(3, dtype="g")
    same = extended.copy()
    if numpy.finfo("g").nmant == 63:
        # x86's extended precision uses ten of sixteen bytes; byte 10 is padding.
        same.view("u1")[10] = 7
    assert digest(extended) == digest(same)


def test_scalars_of_numpy_are_compared_by_their_content(numpy: Any) -> None:
    for kind in ("float32", "int64", "bool_", "longdouble", "complex64"):
        make = getattr(numpy, kind)
        assert digest(make(1)) == digest(make(1))
        assert digest(make(1)) != digest(make(0))


def test_objects_in_an_array_are_compared_one_by_one(numpy: Any) -> None:
    def holding(last: object) -> Any:
        array = numpy.empty(2000, dtype=object)
        array[-1] = last
        return array

    assert digest(holding({"a", "b"})) == digest(holding({"b", "a"}))
    assert digest(holding({"a"})) != digest(holding({"b"}))


def test_an_array_that_holds_more_than_its_elements_is_not_compared(numpy: Any) -> None:
    assert reason(numpy.ma.array([1, 2], mask=[0, 1])) != ""


def test_a_view_of_a_file_is_compared_by_its_content(numpy: Any, tmp_path: Path) -> None:
    mapped = numpy.memmap(tmp_path / "data", dtype="f4", mode="w+", shape=(30,))
    before = digest(mapped)
    mapped[7] = 1.0
    assert digest(mapped) != before
