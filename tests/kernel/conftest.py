"""Where kernel tests run: in Triton's interpreter on the CPU, and with `-m gpu` compiled on the first GPU."""

import pytest


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param
