"""dq, dk and dv from the saved lse, in portable Triton: two kernels, no atomics, so the same bits each time.

The probabilities are made again from the scores, p = 2^(s·qk_scale - lse), and with delta_i = sum_d o_id do_id (Dao,
FlashAttention-2, 2023, algorithm 2): dv = pᵀ·do, ds = p·(do·vᵀ - delta), dq = scale·ds·k, dk = scale·dsᵀ·q. One
program makes a block of keys of dk and dv, walking over the rows; another a block of rows of dq, walking over the keys.
"""

import triton
import triton.language as tl

from kernel.forward import load_tile, set_apart
from kernel.interpreted import lift, rounded


@triton.jit
def attention_delta(
    o_ptr, rest_ptr, do_ptr, dlse_ptr, delta_ptr,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_gb, stride_gh, stride_gm, stride_gd,
    heads, seqlen_q,
    HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, BLOCK_M: tl.constexpr, HAS_DLSE: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """delta (batch * heads, seqlen_q) in float32: row sums of o·do, less what a gradient of lse takes off.

    rest (batch, heads, seqlen_q, head_dim), contiguous, is what rounding has cut off o, or None. Without it delta does
    not cancel what it should where few keys share a row: gradients in 16 bits are then up to ten times as far off.
    """
    num_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    head_index = (tl.program_id(0) // num_blocks).to(tl.int64)
    q_start = tl.program_id(0) % num_blocks * BLOCK_M
    rows = q_start + tl.arange(0, BLOCK_M)
    batch, head = head_index // heads, head_index % heads
    o_ptr += batch * stride_ob + head * stride_oh
    do_ptr += batch * stride_gb + head * stride_gh
    o = load_tile(o_ptr, q_start, seqlen_q, stride_om, stride_od, BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    do = load_tile(do_ptr, q_start, seqlen_q, stride_gm, stride_gd, BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    o = o.to(tl.float32)
    if rest_ptr is not None:
        rest_ptr += head_index * seqlen_q * HEAD_DIM
        o += load_tile(rest_ptr, q_start, seqlen_q, HEAD_DIM, 1, BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    delta = tl.sum(o * do.to(tl.float32), 1)
    if HAS_DLSE:
        # lse is in base 2: d lse / d (scale·s) = p·log2(e)
        dlse = tl.load(dlse_ptr + head_index * seqlen_q + rows, mask=rows < seqlen_q, other=0.0)
        delta -= dlse * 1.4426950408889634
    tl.store(delta_ptr + head_index * seqlen_q + rows, delta, mask=rows < seqlen_q)


@triton.jit
def attention_dkdv(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, scale, qk_scale,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_gb, stride_gh, stride_gm, stride_gd,
    heads, group, seqlen_q, seqlen_k,
    HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, SIGN: tl.constexpr, PRECISION: tl.constexpr, RAGGED: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """One block of keys of dk and dv (batch, kv_heads, seqlen_k, head_dim), contiguous. RAGGED: blocks are cut off."""
    num_blocks = tl.cdiv(seqlen_k, BLOCK_N)
    kv_heads = heads // group
    kv_index = (tl.program_id(0) // num_blocks).to(tl.int64)
    k_start = tl.program_id(0) % num_blocks * BLOCK_N
    batch, kv_head = kv_index // kv_heads, kv_index % kv_heads
    keys = k_start + tl.arange(0, BLOCK_N)

    # Key j is seen by the rows from first[j] on; a key past the end by none.
    diagonal = seqlen_k - seqlen_q
    first = tl.zeros([BLOCK_N], tl.int32)
    row_start = 0
    if CAUSAL:
        first = keys - diagonal
        row_start = tl.maximum(k_start - diagonal, 0) // BLOCK_M * BLOCK_M
    first = tl.where(keys < seqlen_k, first, seqlen_q)

    k_ptr += batch * stride_kb + kv_head * stride_kh
    v_ptr += batch * stride_vb + kv_head * stride_vh
    k = load_tile(k_ptr, k_start, seqlen_k, stride_kn, stride_kd, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    v = load_tile(v_ptr, k_start, seqlen_k, stride_vn, stride_vd, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    dk, dv = visit_heads(
        k, v, batch, kv_head, kv_index, group, row_start, q_ptr, do_ptr, lse_ptr, delta_ptr,
        stride_qb, stride_qh, stride_qm, stride_qd, stride_gb, stride_gh, stride_gm, stride_gd,
        first, seqlen_q, qk_scale,
        BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, WIDE, SIGN, PRECISION,
        BOUNDED=RAGGED, MASKED=CAUSAL or RAGGED, CAREFUL=False,
    )  # fmt: skip
    # p = 0 times an inf or NaN is NaN, also for keys that the row does not see. It is rare: found here, and redone.
    if tl.max(tl.where((dk == dk) & (dv == dv), 0, 1)) == 1:
        dk, dv = visit_heads(
            k, v, batch, kv_head, kv_index, group, row_start, q_ptr, do_ptr, lse_ptr, delta_ptr,
            stride_qb, stride_qh, stride_qm, stride_qd, stride_gb, stride_gh, stride_gm, stride_gd,
            first, seqlen_q, qk_scale,
            BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, WIDE, SIGN, PRECISION,
            BOUNDED=True, MASKED=True, CAREFUL=True,
        )  # fmt: skip

    columns = tl.arange(0, HEAD_DIM_PAD)
    inside = (keys < seqlen_k)[:, None] & (columns < HEAD_DIM)[None, :]
    block = (kv_index * seqlen_k + k_start) * HEAD_DIM
    offsets = tl.arange(0, BLOCK_N)[:, None] * HEAD_DIM + columns[None, :]
    dk *= tl.abs(scale)  # the sign is on q
    tl.store(dk_ptr + block + offsets, rounded(dk, dk_ptr.dtype.element_ty), mask=inside)
    tl.store(dv_ptr + block + offsets, rounded(dv, dv_ptr.dtype.element_ty), mask=inside)


@triton.jit
def visit_heads(
    k, v, batch, kv_head, kv_index, group, row_start, q_ptr, do_ptr, lse_ptr, delta_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd, stride_gb, stride_gh, stride_gm, stride_gd,
    first, seqlen_q, qk_scale,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, WIDE: tl.constexpr,
    SIGN: tl.constexpr, PRECISION: tl.constexpr,
    BOUNDED: tl.constexpr, MASKED: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """dk and dv, unscaled, of these keys from the rows, `row_start` on, of the `group` heads that share them."""
    dk = tl.zeros(k.shape, tl.float32)
    dv = tl.zeros(k.shape, tl.float32)
    stages: tl.constexpr = 1 if CAREFUL else None
    for member in range(group):
        head_index = kv_index * group + member
        q_head = q_ptr + batch * stride_qb + (kv_head * group + member) * stride_qh
        do_head = do_ptr + batch * stride_gb + (kv_head * group + member) * stride_gh
        lse_head = lse_ptr + head_index * seqlen_q
        delta_head = delta_ptr + head_index * seqlen_q
        for start in tl.range(row_start, seqlen_q, BLOCK_M, num_stages=stages):
            dk, dv = visit_rows(
                dk, dv, k, v, start, q_head, do_head, lse_head, delta_head,
                stride_qm, stride_qd, stride_gm, stride_gd, first, seqlen_q, qk_scale,
                BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, WIDE, SIGN, PRECISION, BOUNDED, MASKED, CAREFUL,
            )  # fmt: skip
    return dk, dv


@triton.jit
def visit_rows(
    dk, dv, k, v, start, q_ptr, do_ptr, lse_ptr, delta_ptr,
    stride_qm, stride_qd, stride_gm, stride_gd, first, seqlen_q, qk_scale,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, WIDE: tl.constexpr,
    SIGN: tl.constexpr, PRECISION: tl.constexpr,
    BOUNDED: tl.constexpr, MASKED: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """What the tile of rows that begins at `start` adds to dk and dv. Scores are transposed: (BLOCK_N, BLOCK_M)."""
    rows = tl.arange(0, BLOCK_M)
    q = load_tile(q_ptr, start, seqlen_q, stride_qm, stride_qd, BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, BOUNDED, WIDE)
    if SIGN != 1:
        q = (q * SIGN).to(q.dtype)
    lse = load_rows(lse_ptr, start + rows, seqlen_q, float("inf"), BOUNDED)
    lse = tl.where(lse == float("-inf"), float("inf"), lse)  # a row that sees no key: p = 0
    if q.dtype == tl.float32:  # summed as in the forward: p = 2^(s - lse) is no better than the two s agree
        s = tl.trans(tl.dot(q, tl.trans(k), input_precision=PRECISION))
    else:
        s = tl.dot(k, tl.trans(q), input_precision=PRECISION)
    if CAREFUL:
        p = tl.exp2(tl.where(s == float("-inf"), s, s * qk_scale) - lse[None, :])
    else:
        p = tl.exp2(s * qk_scale - lse[None, :])
    if MASKED:
        seen = rows[None, :] >= (first - start)[:, None]
        p = tl.where(seen, p, 0.0)
    do = load_tile(do_ptr, start, seqlen_q, stride_gm, stride_gd, BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, BOUNDED, WIDE)
    delta = load_rows(delta_ptr, start + rows, seqlen_q, 0.0, BOUNDED)
    dp = tl.dot(v, tl.trans(do), input_precision=PRECISION)
    ds = p * (dp - delta[None, :])
    if CAREFUL:
        seen &= (rows < seqlen_q - start)[None, :]
        p = tl.where(seen, p, 0.0)
        ds = tl.where(seen, ds, 0.0)
        last = tl.zeros_like(first) + seqlen_q
        dv, do = set_apart(
            dv, do, do_ptr, start, seqlen_q, stride_gm, stride_gd, first, last, HEAD_DIM, HEAD_DIM_PAD, WIDE
        )
        dk, q = set_apart(
            dk, q, q_ptr, start, seqlen_q, stride_qm, stride_qd, first, last, HEAD_DIM, HEAD_DIM_PAD, WIDE
        )
    dv = tl.dot(lift(rounded(p, do_ptr.dtype.element_ty)), do, dv, input_precision=PRECISION)
    dk = tl.dot(lift(rounded(ds, q_ptr.dtype.element_ty)), q, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit
def attention_dq(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, scale, qk_scale,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_gb, stride_gh, stride_gm, stride_gd,
    heads, group, seqlen_q, seqlen_k,
    HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, SIGN: tl.constexpr, PRECISION: tl.constexpr, RAGGED: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """One block of rows of dq (batch, heads, seqlen_q, head_dim), contiguous. RAGGED: tiles of keys are cut off."""
    num_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    head_index = (tl.program_id(0) // num_blocks).to(tl.int64)
    q_start = (num_blocks - 1 - tl.program_id(0) % num_blocks) * BLOCK_M  # causal: the longest rows first
    batch, head = head_index // heads, head_index % heads
    rows = q_start + tl.arange(0, BLOCK_M)
    q_ptr += batch * stride_qb + head * stride_qh
    do_ptr += batch * stride_gb + head * stride_gh
    k_ptr += batch * stride_kb + head // group * stride_kh
    v_ptr += batch * stride_vb + head // group * stride_vh

    seen = tl.zeros([BLOCK_M], tl.int32) + seqlen_k
    end = seqlen_k
    if CAUSAL:
        diagonal = seqlen_k - seqlen_q + 1
        seen = tl.minimum(rows + diagonal, seqlen_k)
        end = tl.minimum(q_start + BLOCK_M - 1 + diagonal, seqlen_k)

    q = load_tile(q_ptr, q_start, seqlen_q, stride_qm, stride_qd, BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    if SIGN != 1:
        q = (q * SIGN).to(q.dtype)
    do = load_tile(do_ptr, q_start, seqlen_q, stride_gm, stride_gd, BLOCK_M, HEAD_DIM, HEAD_DIM_PAD, True, WIDE)
    lse = load_rows(lse_ptr + head_index * seqlen_q, rows, seqlen_q, float("inf"), True)
    lse = tl.where(lse == float("-inf"), float("inf"), lse)  # a row that sees no key: p = 0
    delta = load_rows(delta_ptr + head_index * seqlen_q, rows, seqlen_q, 0.0, True)
    dq = tl.zeros([BLOCK_M, HEAD_DIM_PAD], tl.float32)
    for start in range(0, end, BLOCK_N):
        dq = visit_keys(
            dq, q, do, lse, delta, start, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd, seen, seqlen_k,
            qk_scale, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, WIDE, PRECISION,
            BOUNDED=RAGGED, MASKED=CAUSAL or RAGGED, CAREFUL=False,
        )  # fmt: skip

    # ds = 0 times an inf or NaN is NaN, also in rows that do not see its key. It is rare: found here, and redone.
    if tl.max(tl.where(dq == dq, 0, 1)) == 1:
        dq = tl.zeros([BLOCK_M, HEAD_DIM_PAD], tl.float32)
        for start in tl.range(0, end, BLOCK_N, num_stages=1):
            dq = visit_keys(
                dq, q, do, lse, delta, start, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd, seen, seqlen_k,
                qk_scale, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, WIDE, PRECISION,
                BOUNDED=True, MASKED=True, CAREFUL=True,
            )  # fmt: skip

    columns = tl.arange(0, HEAD_DIM_PAD)
    inside = (rows < seqlen_q)[:, None] & (columns < HEAD_DIM)[None, :]
    block = (head_index * seqlen_q + q_start) * HEAD_DIM
    offsets = tl.arange(0, BLOCK_M)[:, None] * HEAD_DIM + columns[None, :]
    tl.store(dq_ptr + block + offsets, rounded(dq * scale, dq_ptr.dtype.element_ty), mask=inside)


@triton.jit
def visit_keys(
    dq, q, do, lse, delta, start, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd, seen, seqlen_k, qk_scale,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PAD: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, BOUNDED: tl.constexpr, MASKED: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """What the tile of keys that begins at `start` adds to dq."""
    k = load_tile(k_ptr, start, seqlen_k, stride_kn, stride_kd, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, BOUNDED, WIDE)
    s = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    if CAREFUL:
        p = tl.exp2(tl.where(s == float("-inf"), s, s * qk_scale) - lse[:, None])
    else:
        p = tl.exp2(s * qk_scale - lse[:, None])
    if MASKED:
        visible = tl.arange(0, BLOCK_N)[None, :] < (seen - start)[:, None]
        p = tl.where(visible, p, 0.0)
    v = load_tile(v_ptr, start, seqlen_k, stride_vn, stride_vd, BLOCK_N, HEAD_DIM, HEAD_DIM_PAD, BOUNDED, WIDE)
    dp = tl.dot(do, tl.trans(v), input_precision=PRECISION)
    ds = p * (dp - delta[:, None])
    if CAREFUL:
        ds = tl.where(visible, ds, 0.0)
        dq, k = set_apart(
            dq, k, k_ptr, start, seqlen_k, stride_kn, stride_kd, tl.zeros_like(seen), seen, HEAD_DIM, HEAD_DIM_PAD, WIDE
        )
    return tl.dot(lift(rounded(ds, k_ptr.dtype.element_ty)), k, dq, input_precision=PRECISION)


@triton.jit
def load_rows(ptr, rows, num_rows, other, BOUNDED: tl.constexpr):
    """One float32 number a row, `other` past num_rows."""
    if BOUNDED:
        return tl.load(ptr + rows, mask=rows < num_rows, other=other)
    else:
        return tl.load(ptr + rows)
