"""Which calls find a launch that is ready, without a GPU: stand-ins for torch's tensors and for launches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.core.types import f32, s32
from pyptx.dsl import Scalar, Tile
from pyptx.entry.ready import Ready
from pyptx.entry.signatures import MISS, Signatures
from pyptx.runtime.workspaces import WorkspaceMemory

SPECS = (Tile("M", 8, f32), Scalar(s32), Tile("M", "N", f32))


class Tensor:
    """What a signature reads of a torch tensor."""

    def __init__(self, address: int, *shape: int, **others: Any) -> None:
        self.address, self.shape = address, shape
        self.dtype: Any = others.get("dtype", "float32")
        self.device: Any = others.get("device", "cuda:0")
        self.requires_grad: bool = others.get("requires_grad", False)
        self.contiguous: bool = others.get("contiguous", True)
        self.negative: bool = others.get("negative", False)

    def data_ptr(self) -> int:
        return self.address

    def is_contiguous(self) -> bool:
        return self.contiguous

    def is_neg(self) -> bool:
        return self.negative

    def is_complex(self) -> bool:
        return False


class Plan:
    """A plan that keeps the values of its launches."""

    def __init__(self) -> None:
        self.launched: list[tuple[list[Any], int]] = []

    def __call__(self, values: list[Any], stream: int) -> None:
        self.launched.append((values, stream))


def ready(plan: Plan, *outputs: Any) -> Ready:
    return Ready(plan, (2, 0, 1), 0, outputs, (), WorkspaceMemory())  # type: ignore[arg-type]


class Sizes:
    """Launches for other sizes; ``asked`` has the dims of each that was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.plan = Plan()

    def ready(self, extents: tuple[int, ...]) -> Ready | None:
        self.asked.append(extents)
        return None if extents[0] == 13 else ready(self.plan)


@pytest.fixture
def signatures() -> Signatures:
    made = Signatures(SPECS)
    made._kinds = (Tensor,)
    made._grad_enabled = lambda: True
    made._forward_ad = SimpleNamespace(_current_level=-1)
    return made


def arrays(m: int = 4, n: int = 5, **others: Any) -> tuple[Any, Any]:
    return Tensor(0x1000, m, 8, **others), Tensor(0x2000, m, n)


def test_sizes_are_asked_once(signatures: Signatures) -> None:
    plan, sizes = Plan(), Sizes()
    x, y = arrays()
    signatures.add((x, 1), y, {}, ready(plan), sizes)  # type: ignore[arg-type]
    assert signatures((x, 7), y, 3, {}) is y and plan.launched == [([0x2000, 0x1000, 7], 3)]
    for _ in range(2):
        for m, n in ((6, 5), (4, 9), (4, 5)):
            x, y = arrays(m, n)
            assert signatures((x, 7), [y], 3, {}) is y
    assert sizes.asked == [(6, 5), (4, 9)] and len(sizes.plan.launched) == 4 and len(plan.launched) == 3
    x, y = arrays(13)
    assert signatures((x, 7), y, 3, {}) is MISS and signatures((x, 7), y, 3, {}) is MISS
    assert sizes.asked[2:] == [(13, 5), (13, 5)]


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float16"},
        {"device": "cuda:1"},
        {"requires_grad": True},
        {"contiguous": False},
        {"negative": True},
    ],
)
def test_what_else_differs_needs_the_checks(signatures: Signatures, change: dict[str, Any]) -> None:
    sizes = Sizes()
    x, y = arrays()
    signatures.add((x, 1), y, {}, ready(Plan()), sizes)  # type: ignore[arg-type]
    x, y = arrays(6, **change)
    assert signatures((x, 7), y, 3, {}) is MISS and not sizes.asked


def test_a_launch_is_not_hidden_from_modes_and_tangents(signatures: Signatures) -> None:
    x, y = arrays()
    signatures.add((x, 1), y, {}, ready(Plan()), None)
    assert signatures((x, 1), y, 3, {}) is y
    signatures._forward_ad._current_level = 0
    assert signatures((x, 1), y, 3, {}) is MISS
    signatures._forward_ad._current_level = -1
    signatures._dispatch_modes = lambda: 1
    assert signatures((x, 1), y, 3, {}) is MISS
    signatures._dispatch_modes = lambda: 0
    signatures._tracing_state = object
    assert signatures((x, 1), y, 3, {}) is MISS


def test_shapes_that_do_not_fit_the_specs(signatures: Signatures) -> None:
    sizes = Sizes()
    x, y = arrays()
    signatures.add((x, 1), y, {}, ready(Plan()), sizes)  # type: ignore[arg-type]
    for first, second in (
        (Tensor(0x1000, 6, 9), Tensor(0x2000, 6, 5)),
        (Tensor(0x1000, 6, 8), Tensor(0x2000, 7, 5)),
        (Tensor(0x1000, 6, 8, 1), Tensor(0x2000, 6, 5)),
        (Tensor(0x1008, 6, 8), Tensor(0x2000, 6, 5)),
        (Tensor(0, 6, 8), Tensor(0x2000, 6, 5)),
    ):
        assert signatures((first, 7), second, 3, {}) is MISS
    assert not sizes.asked


def test_other_numbers_of_arguments(signatures: Signatures) -> None:
    sizes = Sizes()
    x, y = arrays()
    signatures.add((x, 1), y, {}, ready(Plan()), sizes)  # type: ignore[arg-type]
    for given, out in (
        ((x,), y),
        ((x, 1), None),
        ((x, 1), ()),
        ((x, 1), []),
        ((x, 1, y), None),
        ((), (x, 1, y)),
    ):
        assert signatures(given, out, 3, {}) is MISS


def test_constants_belong_to_the_signature(signatures: Signatures) -> None:
    plans = {value: Plan() for value in ("1", "True")}
    sizes = Sizes()
    x, y = arrays()
    signatures.add((x, 1), y, {"C": 1}, ready(plans["1"]), sizes)  # type: ignore[arg-type]
    assert signatures((x, 1), y, 3, {"C": True}) is MISS and signatures((x, 1), y, 3, {}) is MISS
    signatures.add((x, 1), y, {"C": True}, ready(plans["True"]), None)
    for value, plan in ((1, plans["1"]), (True, plans["True"])):
        signatures((x, 1), y, 3, {"C": value})
        assert len(plan.launched) == 1
    x, y = arrays(6)
    assert signatures((x, 1), y, 3, {"C": 1}) is y and sizes.asked == [(6, 5)]
    assert signatures((x, 1), y, 3, {"C": True}) is MISS and signatures((x, 1), y, 3, {"C": 2}) is MISS
    assert signatures((x, 1), y, 3, {"C": []}) is MISS


def test_dims_that_are_given_by_value_have_no_other_sizes(signatures: Signatures) -> None:
    sizes = Sizes()
    x, y = arrays()
    signatures.add((x, 1), y, {"N": 5}, ready(Plan()), sizes)  # type: ignore[arg-type]
    signatures.add((x, 1), None, {}, ready(Plan(), lambda given: Tensor(0x9000, 4, 5)), sizes)  # type: ignore[arg-type]
    x, y = arrays(6)
    assert signatures((x, 1), y, 3, {"N": 5}) is MISS
    assert signatures((x, 1), None, None, {}) is MISS  # N is not determined by the inputs
    assert not sizes.asked


def test_what_is_kept_is_bounded(signatures: Signatures) -> None:
    sizes = Sizes()
    x, y = arrays()
    signatures.add((x, 1), y, {}, ready(Plan()), sizes)  # type: ignore[arg-type]
    for m in range(14, 3000):
        x, y = arrays(m)
        assert signatures((x, 1), y, 3, {}) is y
    assert len(signatures._ready) == 1024
    x, y = arrays(14)
    before = len(sizes.asked)
    assert signatures((x, 1), y, 3, {}) is y and len(sizes.asked) == before + 1
