"""The FlashAttention forward kernel: the one that runs, and the one that the source panel shows.

One program computes one block of query rows of one head. It walks over the keys from left to right, a tile at a
time, and keeps three things for each row: the running maximum m, the running denominator l, and the unnormalised
output acc (Dao, FlashAttention-2, 2023, algorithm 1). Scores stay unscaled in float32; the scale goes into the
exponent, in base 2. A comment that opens with the name of a step (kernel.tiling.STEPS) marks the lines of that step.
"""

import triton
import triton.language as tl

from kernel.interpreted import lift, rounded


@triton.jit
def attention_forward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, rest_ptr, qk_scale,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    heads, group, seqlen_q, seqlen_k,
    HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, SIGN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One block of rows of o (batch, heads, seqlen_q, head_dim), contiguous, and of lse (batch * heads, seqlen_q).

    qk_scale is |sm_scale| * log2(e), and SIGN the sign of sm_scale; `group` query heads share a key head. Program
    number = (batch * heads + head) * blocks of rows + block. rest, for gradients, gets what rounding cuts off o, or
    is None.
    """
    num_q_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    head_index = tl.program_id(0) // num_q_blocks
    q_start = tl.program_id(0) % num_q_blocks * BLOCK_M
    batch = (head_index // heads).to(tl.int64)
    head = (head_index % heads).to(tl.int64)
    q_ptr += batch * stride_qb + head * stride_qh
    k_ptr += batch * stride_kb + head // group * stride_kh
    v_ptr += batch * stride_vb + head // group * stride_vh
    rows = q_start + tl.arange(0, BLOCK_M)

    # Row i sees the first seen[i] keys: all, or when causal those up to a diagonal that ends at the bottom right.
    seen = tl.zeros([BLOCK_M], tl.int32) + seqlen_k
    full_end = seqlen_k // BLOCK_N * BLOCK_N
    end = seqlen_k
    if CAUSAL:
        diagonal = seqlen_k - seqlen_q + 1
        seen = tl.minimum(rows + diagonal, seqlen_k)
        full_end = tl.maximum(q_start + diagonal, 0) // BLOCK_N * BLOCK_N
        end = tl.minimum(q_start + BLOCK_M - 1 + diagonal, seqlen_k)

    # load_q: q (BLOCK_M, D), with the sign of the scale, so that qk_scale > 0; m, l and acc start empty
    q = load_tile(q_ptr, q_start, seqlen_q, stride_qm, stride_qd, BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    if SIGN != 1:
        q = (q * SIGN).to(q.dtype)
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM_PAD], tl.float32)

    # Full tiles first, then the partial ones: those with keys that not every row sees.
    for start in range(0, full_end, BLOCK_N):
        m, l, acc = attend(
            q, m, l, acc, start, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd, seen, seqlen_k, qk_scale,
            BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, WIDE, PRECISION, PARTIAL=False, CAREFUL=False,
        )  # fmt: skip
    if full_end < end:
        for start in range(full_end, end, BLOCK_N):
            m, l, acc = attend(
                q, m, l, acc, start, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd, seen, seqlen_k, qk_scale,
                BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, WIDE, PRECISION, PARTIAL=True, CAREFUL=False,
            )  # fmt: skip

    # Rare things are found here, and the block is done again with care. An inf or NaN in v times p = 0 is NaN, also in
    # rows that do not see its key; so is a full tile whose scores are all -inf. And p comes from a fused multiply-add,
    # whose product is not rounded as m is: with scores in the millions the two no longer cancel.
    odd = tl.max(tl.where(acc == acc, 0, 1), 1) | tl.where((tl.abs(m) > 4194304.0) & (m > float("-inf")), 1, 0)
    if tl.max(odd) == 1:
        m = tl.full([BLOCK_M], float("-inf"), tl.float32)
        l = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, HEAD_DIM_PAD], tl.float32)
        for start in tl.range(0, end, BLOCK_N, num_stages=1):
            m, l, acc = attend(
                q, m, l, acc, start, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd, seen, seqlen_k, qk_scale,
                BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, WIDE, PRECISION, PARTIAL=True, CAREFUL=True,
            )  # fmt: skip

    # normalise: o = acc / l; a row that saw no key has l = 0 and gets o = 0
    l = tl.where(l == 0.0, 1.0, l)
    o = acc / l[:, None]

    # store: o in the input dtype; lse in float32, base 2, scale included
    block = (head_index.to(tl.int64) * seqlen_q + q_start) * HEAD_DIM
    columns = tl.arange(0, HEAD_DIM_PAD)
    o_ptrs = o_ptr + block + tl.arange(0, BLOCK_M)[:, None] * HEAD_DIM + columns[None, :]
    inside = (rows < seqlen_q)[:, None] & (columns < HEAD_DIM)[None, :]
    stored = rounded(o, o_ptr.dtype.element_ty)
    tl.store(o_ptrs, stored, mask=inside)
    tl.store(lse_ptr + head_index.to(tl.int64) * seqlen_q + rows, m + tl.log2(l), mask=rows < seqlen_q)
    if rest_ptr is not None:
        rest_ptrs = rest_ptr + block + tl.arange(0, BLOCK_M)[:, None] * HEAD_DIM + columns[None, :]
        tl.store(rest_ptrs, rounded(o - lift(stored), rest_ptr.dtype.element_ty), mask=inside)


@triton.jit
def attend(
    q, m, l, acc, start, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd, seen, seqlen_k, qk_scale,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, PARTIAL: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """The body of the loop: the rows of q attend to the tile of keys that begins at `start`."""
    # load_k: k (BLOCK_N, D)
    k = load_tile(k_ptr, start, seqlen_k, stride_kn, stride_kd, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, PARTIAL, WIDE)

    # scores: s (BLOCK_M, BLOCK_N) = q·kᵀ in float32, unscaled
    s = tl.dot(q, tl.trans(k), input_precision=PRECISION)

    # mask: -inf where the row does not see the key
    if PARTIAL:
        s = tl.where(tl.arange(0, BLOCK_N)[None, :] < (seen - start)[:, None], s, float("-inf"))

    # row_max: m_new (BLOCK_M,), in units of the exponent
    m_new = tl.maximum(m, tl.max(s, 1) * qk_scale)

    # alpha: what the new maximum leaves of the old sums; a row that has seen no key yet refers to 0
    m_ref = m_new
    if PARTIAL:
        m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
    alpha = tl.exp2(m - m_ref)

    # exponentiate: p (BLOCK_M, BLOCK_N), at most 1
    if CAREFUL:
        p = tl.exp2(tl.where(s == float("-inf"), s, s * qk_scale) - m_ref[:, None])
    else:
        p = tl.exp2(s * qk_scale - m_ref[:, None])

    # denominator: l (BLOCK_M,), from p in float32
    l = l * alpha + tl.sum(p, 1)

    # rescale: acc (BLOCK_M, D)
    acc = acc * alpha[:, None]

    # load_v: v (BLOCK_N, D)
    v = load_tile(v_ptr, start, seqlen_k, stride_vn, stride_vd, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, PARTIAL, WIDE)

    # accumulate: acc (BLOCK_M, D) += p·v, with p rounded to the input dtype
    if CAREFUL:
        acc, v = set_apart(
            acc, v, v_ptr, start, seqlen_k, stride_vn, stride_vd, tl.zeros_like(seen), seen,
            HEAD_DIM, HEAD_DIM_PAD, WIDE,
        )  # fmt: skip
    p = lift(rounded(p, v_ptr.dtype.element_ty))
    acc = tl.dot(p, v, acc, input_precision=PRECISION)
    m = m_new
    return m, l, acc


@triton.jit
def load_tile(
    ptr, start, num_rows, stride_row, stride_column,
    ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, BOUNDED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Rows start ... start + ROWS - 1 of one head; past HEAD_DIM, and past num_rows if BOUNDED, the tile holds 0."""
    rows = tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, HEAD_DIM_PAD)[None, :]
    if WIDE:  # a tile that spans 2^31 elements; else 32-bit offsets save registers
        offsets = rows.to(tl.int64) * stride_row + columns.to(tl.int64) * stride_column
    else:
        offsets = rows * stride_row + columns * stride_column
    ptrs = ptr + tl.cast(start, tl.int64) * stride_row + offsets
    if BOUNDED:
        return lift(tl.load(ptrs, mask=(rows < num_rows - start) & (columns < HEAD_DIM), other=0.0))
    elif HEAD_DIM < HEAD_DIM_PAD:
        return lift(tl.load(ptrs, mask=columns < HEAD_DIM, other=0.0))
    else:
        return lift(tl.load(ptrs))


@triton.jit
def set_apart(
    acc, tile, ptr, start, num_rows, stride_row, stride_column, low, high,
    HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Adds the infinities and NaNs of a tile to those rows of acc that see them; returns acc and the rest of the tile.

    Row i of acc sees the rows low[i] ... high[i] - 1 of the head. The product would bring them to every row of acc:
    p = 0 times infinity is NaN.
    """
    finite = tl.abs(tile) < float("inf")
    if tl.min(tl.where(finite, 1, 0)) == 0:
        tile = tl.where(finite, tile, 0.0)
        for i in range(start, start + tile.shape[0]):
            row = load_tile(ptr, i, num_rows, stride_row, stride_column, 1, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
            row = tl.where(tl.abs(row) < float("inf"), 0.0, row).to(tl.float32)
            acc += tl.where(((low <= i) & (high > i))[:, None], row, 0.0)
    return acc, tile
