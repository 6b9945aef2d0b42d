"""The FlashAttention forward kernel: the one that runs, and the one that the source panel shows.

One program computes one block of query rows of one head. It walks over the keys from left to right, a tile at a
time, and keeps three things for each row: the running maximum m, the running denominator l, and the unnormalised
output acc (Dao, FlashAttention-2, 2023, algorithm 1). Scores stay unscaled in float32; the scale goes into the
exponent, in base 2. A comment that opens with the name of a step (kernel.tiling.STEPS) marks the lines of that step.
"""

import triton
import triton.language as tl

from kernel.interpreted import INTERPRETED, lift, rounded


@triton.jit
def attention_forward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, rest_ptr, k_tiles, v_tiles, qk_scale,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    heads, group, seqlen_q, seqlen_k,
    HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    PARTS: tl.constexpr, LANES: tl.constexpr, CAUSAL: tl.constexpr, SIGN: tl.constexpr, PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """One block of rows of o (batch, heads, seqlen_q, head_dim), contiguous, and of lse (batch * heads, seqlen_q).

    qk_scale is |sm_scale| * log2(e), and SIGN the sign of sm_scale; `group` query heads share a key head. Program
    number = (batch * heads + head) * blocks of rows + block. rest, for gradients, gets what rounding cuts off o, or
    is None. k_tiles and v_tiles: descriptors of k and v in blocks of (1, 1, BLOCK_N, HEAD_DIM_PAD), or None, and the
    tiles are loaded through pointers. PARTS: in how many groups the rows go through a tile, one after the other, so
    that the tensor cores have work of one group while another has its softmax. LANES: in how many sums a row's
    denominator is kept, one for every LANES-th key, so that the loop adds p without asking other threads.
    """
    num_q_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    head_index = tl.program_id(0) // num_q_blocks
    q_start = tl.program_id(0) % num_q_blocks * BLOCK_M
    batch = head_index // heads
    head = head_index % heads
    k_head = head // group
    q_ptr += batch.to(tl.int64) * stride_qb + head.to(tl.int64) * stride_qh
    k_ptr += batch.to(tl.int64) * stride_kb + k_head.to(tl.int64) * stride_kh
    v_ptr += batch.to(tl.int64) * stride_vb + k_head.to(tl.int64) * stride_vh
    keys = (k_ptr, k_tiles, stride_kn, stride_kd)
    values = (v_ptr, v_tiles, stride_vn, stride_vd)
    ROWS: tl.constexpr = BLOCK_M // PARTS

    # Row i sees the first seen[i] keys: all, or when causal those up to a diagonal that ends at the bottom right.
    full_end = seqlen_k // BLOCK_N * BLOCK_N
    end = seqlen_k
    if CAUSAL:
        diagonal = seqlen_k - seqlen_q + 1
        full_end = tl.maximum(q_start + diagonal, 0) // BLOCK_N * BLOCK_N
        end = tl.minimum(q_start + BLOCK_M - 1 + diagonal, seqlen_k)

    queries, seen, sums = (), (), ()
    for i in tl.static_range(PARTS):
        start = q_start + i * ROWS
        queries += (
            load_queries(q_ptr, start, seqlen_q, stride_qm, stride_qd, ROWS, HEAD_DIM, HEAD_DIM_PAD, SIGN, WIDE),
        )
        seen += (keys_seen(start, seqlen_q, seqlen_k, ROWS, CAUSAL),)
        sums += (nothing_yet(ROWS, HEAD_DIM_PAD, LANES),)

    # Full tiles first, then the partial ones: those with keys that not every row sees.
    for start in range(0, full_end, BLOCK_N):
        sums = attend(
            queries, seen, sums, start, keys, values, batch, k_head, seqlen_k, qk_scale,
            BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, WIDE, PRECISION, PARTIAL=False, CAREFUL=False,
        )  # fmt: skip
    if full_end < end:
        for start in range(full_end, end, BLOCK_N):
            sums = attend(
                queries, seen, sums, start, keys, values, batch, k_head, seqlen_k, qk_scale,
                BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, WIDE, PRECISION, PARTIAL=True, CAREFUL=False,
            )  # fmt: skip

    # Rare things are found here, and the block is done again with care. An inf or NaN in v times p = 0 is NaN, also in
    # rows that do not see its key; so is a full tile whose scores are all -inf. And p comes from a fused multiply-add,
    # whose product is not rounded as m is: with scores in the millions the two no longer cancel.
    odd = tl.zeros([ROWS], tl.int32)
    for i in tl.static_range(PARTS):
        m, l, acc = sums[i]
        odd |= tl.max(tl.where(acc == acc, 0, 1), 1) | tl.where((tl.abs(m) > 4194304.0) & (m > float("-inf")), 1, 0)
        finish(m, l, acc, o_ptr, lse_ptr, rest_ptr, head_index, q_start + i * ROWS, seqlen_q, HEAD_DIM)
    if tl.max(odd) == 1:
        tl.debug_barrier()  # what other threads have stored above must not come after what is stored below
        attend_with_care(
            q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, rest_ptr, stride_qm, stride_qd, stride_kn, stride_kd,
            stride_vn, stride_vd, head_index, q_start, end, seqlen_q, seqlen_k, qk_scale,
            HEAD_DIM, HEAD_DIM_PAD, BLOCK_M, BLOCK_N, CAUSAL, SIGN, PRECISION, WIDE,
        )  # fmt: skip


@triton.jit
def load_queries(
    q_ptr, start, seqlen_q, stride_qm, stride_qd,
    ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, SIGN: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    # load_q: q (ROWS, D), with the sign of the scale, so that qk_scale > 0
    q = load_tile(q_ptr, start, seqlen_q, stride_qm, stride_qd, ROWS, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    if SIGN != 1:
        q = (q * SIGN).to(q.dtype)
    return q


@triton.jit
def keys_seen(start, seqlen_q, seqlen_k, ROWS: tl.constexpr, CAUSAL: tl.constexpr):
    """(ROWS,) int32: how many keys each row sees."""
    seen = tl.zeros([ROWS], tl.int32) + seqlen_k
    if CAUSAL:
        seen = tl.minimum(start + tl.arange(0, ROWS) + seqlen_k - seqlen_q + 1, seqlen_k)
    return seen


@triton.jit
def nothing_yet(ROWS: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, LANES: tl.constexpr):
    """m (ROWS,), l (ROWS, LANES) and acc (ROWS, D) of rows that have seen no key."""
    m = tl.full([ROWS], float("-inf"), tl.float32)
    l = tl.zeros([ROWS, LANES], tl.float32)
    acc = tl.zeros([ROWS, HEAD_DIM_PAD], tl.float32)
    return m, l, acc


@triton.jit
def attend(
    queries, all_seen, sums, start, keys, values, batch, k_head, seqlen_k, qk_scale,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, PARTIAL: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """The body of the loop: rows attend to the tile of keys that begins at `start`.

    queries, all_seen and sums have an element for each group of rows: q (ROWS, D), seen (ROWS,), and (m, l, acc).
    """
    # load_k: k (BLOCK_N, D)
    k = load_keys(keys, batch, k_head, start, seqlen_k, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, PARTIAL, WIDE)

    # scores: s (ROWS, BLOCK_N) = q·kᵀ in float32, unscaled
    scores = ()
    for i in tl.static_range(len(queries)):
        scores += (tl.dot(queries[i], tl.trans(k), input_precision=PRECISION),)

    sums_after = ()
    for i in tl.static_range(len(queries)):
        s, seen = scores[i], all_seen[i]
        m, l, acc = sums[i]

        # mask: -inf where the row does not see the key
        if PARTIAL:
            s = tl.where(tl.arange(0, BLOCK_N)[None, :] < (seen - start)[:, None], s, float("-inf"))

        # row_max: m_new (ROWS,), in units of the exponent
        m_new = tl.maximum(m, tl.max(s, 1) * qk_scale)

        # alpha: what the new maximum leaves of the old sums; a row that has seen no key yet refers to 0
        m_ref = m_new
        if PARTIAL:
            m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp2(m - m_ref)

        # exponentiate: p (ROWS, BLOCK_N), at most 1
        if CAREFUL:
            p = tl.exp2(tl.where(s == float("-inf"), s, s * qk_scale) - m_ref[:, None])
        else:
            p = tl.exp2(s * qk_scale - m_ref[:, None])

        # denominator: l (ROWS, LANES), from p in float32
        l = l * alpha[:, None] + lane_sums(p, l.shape[1])

        # rescale: acc (ROWS, D)
        acc = acc * alpha[:, None]

        # load_v: v (BLOCK_N, D), once for all groups
        if i == 0:
            v = load_keys(values, batch, k_head, start, seqlen_k, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, PARTIAL, WIDE)

        # accumulate: acc (ROWS, D) += p·v, with p rounded to the input dtype
        v_ptr, _, stride_vn, stride_vd = values
        p = lift(rounded(p, v_ptr.dtype.element_ty))
        if CAREFUL:
            acc, finite = set_apart(
                acc, v, v_ptr, start, seqlen_k, stride_vn, stride_vd, tl.zeros_like(seen), seen,
                HEAD_DIM, HEAD_DIM_PAD, WIDE,
            )  # fmt: skip
            acc = tl.dot(p, finite, acc, input_precision=PRECISION)
        else:
            acc = tl.dot(p, v, acc, input_precision=PRECISION)
        m = m_new

        sums_after += ((m, l, acc),)
    return sums_after


@triton.jit
def lane_sums(p, LANES: tl.constexpr):
    """(ROWS, LANES): the sums of every LANES-th key of p (ROWS, BLOCK_N)."""
    return tl.sum(tl.reshape(p, [p.shape[0], p.shape[1] // LANES, LANES]), 1)


@triton.jit
def finish(m, l, acc, o_ptr, lse_ptr, rest_ptr, head_index, start, seqlen_q, HEAD_DIM: tl.constexpr):
    """o, lse and rest of the rows from `start` on."""
    # normalise: o = acc / l; a row that saw no key has l = 0 and gets o = 0
    l = tl.sum(l, 1)
    l = tl.where(l == 0.0, 1.0, l)
    o = acc * (1.0 / l)[:, None]

    # store: o in the input dtype; lse in float32, base 2, scale included
    rows = start + tl.arange(0, acc.shape[0])
    columns = tl.arange(0, acc.shape[1])
    offsets = (head_index.to(tl.int64) * seqlen_q + start) * HEAD_DIM
    offsets += (tl.arange(0, acc.shape[0]) * HEAD_DIM)[:, None] + columns[None, :]
    inside = (rows < seqlen_q)[:, None] & (columns < HEAD_DIM)[None, :]
    stored = rounded(o, o_ptr.dtype.element_ty)
    tl.store(o_ptr + offsets, stored, mask=inside)
    tl.store(lse_ptr + head_index.to(tl.int64) * seqlen_q + rows, m + tl.log2(l), mask=rows < seqlen_q)
    if rest_ptr is not None:
        tl.store(rest_ptr + offsets, rounded(o - lift(stored), rest_ptr.dtype.element_ty), mask=inside)


@triton.jit(noinline=True)
def attend_with_care(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, rest_ptr, stride_qm, stride_qd, stride_kn, stride_kd,
    stride_vn, stride_vd, head_index, q_start, end, seqlen_q, seqlen_k, qk_scale,
    HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, SIGN: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A block of rows once more, from the start, with care for what is not finite and for scores in the millions.

    A function of its own, and in tiles too small for Hopper's instructions, so that the loops above lose neither
    registers nor the overlap of their products to what hardly ever runs.
    """
    ROWS: tl.constexpr = BLOCK_M if INTERPRETED else tl.constexpr(16)
    KEYS: tl.constexpr = BLOCK_N if INTERPRETED else tl.constexpr(16)
    keys = (k_ptr, None, stride_kn, stride_kd)
    values = (v_ptr, None, stride_vn, stride_vd)
    for start_q in range(q_start, q_start + BLOCK_M, ROWS):
        q = load_queries(q_ptr, start_q, seqlen_q, stride_qm, stride_qd, ROWS, HEAD_DIM, HEAD_DIM_PAD, SIGN, WIDE)
        seen = keys_seen(start_q, seqlen_q, seqlen_k, ROWS, CAUSAL)
        m, l, acc = nothing_yet(ROWS, HEAD_DIM_PAD, 1)
        for start in tl.range(0, end, KEYS, num_stages=1):
            sums = attend(
                (q,), (seen,), ((m, l, acc),), start, keys, values, 0, 0, seqlen_k, qk_scale,
                KEYS, HEAD_DIM, HEAD_DIM_PAD, WIDE, PRECISION, PARTIAL=True, CAREFUL=True,
            )  # fmt: skip
            m, l, acc = sums[0]
        finish(m, l, acc, o_ptr, lse_ptr, rest_ptr, head_index, start_q, seqlen_q, HEAD_DIM)


@triton.jit
def load_keys(
    source, batch, head, start, seqlen_k,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, BOUNDED: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Rows start ... start + BLOCK_N - 1 of k or v, through the descriptor if there is one; past the end it holds 0."""
    ptr, tiles, stride_row, stride_column = source
    if tiles is not None:
        return lift(tl.reshape(tiles.load([batch, head, start, 0]), [BLOCK_N, HEAD_DIM_PAD]))
    else:
        return load_tile(
            ptr, start, seqlen_k, stride_row, stride_column, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, BOUNDED, WIDE
        )


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
