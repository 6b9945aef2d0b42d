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


@st.composite
def hopper_problems(draw: st.DrawFn, *, max_seqlen: int = 400) -> Problem:
    """What the Hopper kernel takes and its mirror shows."""
    causal, seqlen_q = draw(st.booleans()), draw(st.integers(1, max_seqlen))
    apart = st.integers(-3, 3).map(lambda n: seqlen_q + 64 * n)
    seqlen_k = draw(apart if causal else st.integers(1, max_seqlen))
    return Problem().change(
        backend="hopper",
        seqlen_q=seqlen_q,
        seqlen_k=max(seqlen_k, seqlen_q % 64 if causal else 1),
        head_dim=draw(st.sampled_from([8, 64, 72, 128, 256])),
        dtype=draw(st.sampled_from(["float16", "bfloat16"])),
        causal=causal,
        sm_scale=draw(st.sampled_from([None, 0.5, 1.5])),
        distribution=draw(st.sampled_from(DISTRIBUTIONS)),
        seed=draw(st.integers(0, 1 << 32)),
    )
