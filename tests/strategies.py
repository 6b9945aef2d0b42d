"""Random problems over the whole legal range, small enough for a mirror run."""

from hypothesis import strategies as st

from kernel.problem import DISTRIBUTIONS, DTYPES, Problem


@st.composite
def problems(draw: st.DrawFn, *, max_seqlen: int = 150, max_head_dim: int = 80, min_rows: int = 0) -> Problem:
    kv_heads = draw(st.integers(1, 2))
    scale = st.floats(-2, 2, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3)
    return Problem(
        batch=draw(st.integers(1, 2)),
        heads=kv_heads * draw(st.integers(1, 2)),
        kv_heads=kv_heads,
        seqlen_q=draw(st.integers(min_rows, max_seqlen)),
        seqlen_k=draw(st.integers(0, max_seqlen)),
        head_dim=draw(st.integers(1, max_head_dim)),
        dtype=draw(st.sampled_from(DTYPES)),
        causal=draw(st.booleans()),
        sm_scale=draw(st.none() | scale),
        block_m=draw(st.sampled_from([16, 32, 64])),
        block_n=draw(st.sampled_from([16, 32, 64])),
        seed=draw(st.integers(0, 1 << 32)),
        distribution=draw(st.sampled_from(DISTRIBUTIONS)),
    )
