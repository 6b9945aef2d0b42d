"""Where kernel tests run: in Triton's interpreter on the CPU, and with `-m gpu` compiled on the first GPU."""

import pytest

GPU = pytest.mark.gpu


@pytest.fixture(params=["cpu", *(pytest.param(name, marks=GPU) for name in ("portable", "tiled", "chosen"))])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device of the tensors. On a GPU a test runs with the portable kernels, and with those chosen for it.

    "tiled": with the portable kernels, and k and v through descriptors also where the problem is too small for them.
    """
    if request.param == "cpu":
        return "cpu"
    if request.param != "chosen":
        only_portable(monkeypatch)
    if request.param == "tiled":
        tiled_at_any_size(monkeypatch)
    return "cuda"


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    only_portable(monkeypatch)


def only_portable(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernel import attention, choice  # not at the top: tests/conftest.py has yet to say whether Triton interprets

    monkeypatch.setattr(choice, "is_hopper", lambda q: False)
    monkeypatch.setattr(attention, "_plans", {})


def tiled_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernel import attention

    monkeypatch.setattr(attention, "processors", lambda device: 0)
    monkeypatch.setattr(attention, "_plans", {})
