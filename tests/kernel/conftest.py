"""Where kernel tests run: in Triton's interpreter on the CPU, and with `-m gpu` compiled on the first GPU."""

import pytest

GPU = pytest.mark.gpu


@pytest.fixture(params=["cpu", pytest.param("portable", marks=GPU), pytest.param("chosen", marks=GPU)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device of the tensors. On a GPU a test runs with the portable kernels, and with those chosen for it."""
    if request.param == "cpu":
        return "cpu"
    if request.param == "portable":
        only_portable(monkeypatch)
    return "cuda"


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    only_portable(monkeypatch)


def only_portable(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernel import attention, choice  # not at the top: tests/conftest.py has yet to say whether Triton interprets

    monkeypatch.setattr(choice, "is_hopper", lambda q: False)
    monkeypatch.setattr(attention, "_plans", {})
