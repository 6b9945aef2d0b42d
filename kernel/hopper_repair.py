"""What the fast loop cannot do right is found at the end of a query tile, and done again after everything else.

A NaN or an infinity in v must reach only the rows that see its key, but 0·NaN is NaN. Causal only: a row's first tile
is the only one with keys that it does not see.

And p comes from a fused multiply-add, whose product is not rounded as m is: with scores in the millions the two no
longer cancel. Such a row's lse is set to +inf, which no other row has (a score of +inf makes it NaN).

While the roles run, a consumer stores a flag when some o is not finite (causal) or a row is marked. After them, a
program whose flag is set walks through its tiles again. forward.py finds and mends the same two things.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernel.hopper_parts import first_tile, lane_sums, log2, unpack
from kernel.hopper_tiles import FAR

_FAR = gl.constexpr(FAR)


@gluon.jit
def note_broken(acc, BROKEN):
    # one store, of a program's flag, if anything in o is not finite
    bad = lane_sums(acc * 0.0)
    where = gl.zeros_like(bad).to(gl.int32)
    gl.store(BROKEN + where, where.to(gl.float32) + 1.0, mask=bad != 0.0)


@gluon.jit
def mark_far(lse, m, BROKEN):
    # lse, +inf in rows whose m is too far out for the fast loop; and a program's flag, if there are any
    far = (gl.abs(m) > _FAR) & (gl.abs(m) < float("inf"))
    where = gl.zeros_like(m).to(gl.int32)
    gl.store(BROKEN + where, where.to(gl.float32) + 1.0, mask=far)
    return gl.where(far, float("inf"), lse)


@gluon.jit
def _repair(descs, pointers, LSE, batch, head, row, first, sizes, qk_scale, BM: gl.constexpr, BN: gl.constexpr):
    # o of these rows again, one key and four rows at a time, if a key of their first tile that some of them do not see
    # has a NaN or an infinity in v, and it is not NaN by right. Slow and rare.
    desc_q, desc_k, desc_v, desc_o = descs
    Q, K, V, O = pointers
    group, heads, seqlen_q, seqlen_k, left = sizes
    D: gl.constexpr = desc_k.block_type.shape[3]
    PER_LANE: gl.constexpr = D // 32 if D > 32 else 1
    layout: gl.constexpr = gl.BlockedLayout([1, PER_LANE], [1, 32], [4, 1], [1, 0])
    columns = gl.arange(0, D, gl.SliceLayout(0, layout))
    wide = columns < desc_q.shape[3]
    Q += batch * desc_q.strides[0] + head * desc_q.strides[1]
    K += batch * desc_k.strides[0] + (head // group) * desc_k.strides[1]
    V += batch * desc_v.strides[0] + (head // group) * desc_v.strides[1]
    O += batch * desc_o.strides[0] + head * desc_o.strides[1]
    LSE += (batch * heads + head).to(gl.int64) * seqlen_q
    for r in range(0, BM, 4):
        rows = row + r + gl.arange(0, 4, gl.SliceLayout(1, layout))
        last = gl.where(rows < seqlen_q, rows + (seqlen_k - seqlen_q), -1)[:, None]
        leaked = gl.zeros([4, D], gl.float32, layout)
        own = gl.zeros([4, D], gl.float32, layout)
        for key in range(gl.maximum(first, 0), gl.minimum(first + BN, seqlen_k)):
            v = gl.load(V + key * desc_v.strides[2] + columns, mask=wide, other=0.0).to(gl.float32)[None, :]
            own += gl.where(key <= last, v * 0.0, 0.0)
            leaked += gl.where(key <= last, 0.0, v * 0.0)
        wrong = ((leaked != leaked) & (own == own) & (last >= 0)).to(gl.int32)
        if gl.max(gl.max(wrong, 1), 0) != 0:
            inside = (rows < seqlen_q)[:, None] & wide[None, :]
            q = gl.load(Q + rows[:, None] * desc_q.strides[2] + columns[None, :], mask=inside, other=0.0)
            lse = gl.load(LSE + rows, mask=rows < seqlen_q, other=0.0)
            o = gl.zeros([4, D], gl.float32, layout)
            for key in range(gl.minimum(row + r + 4 + seqlen_k - seqlen_q, seqlen_k)):
                k = gl.load(K + key * desc_k.strides[2] + columns, mask=wide, other=0.0).to(gl.float32)
                v = gl.load(V + key * desc_v.strides[2] + columns, mask=wide, other=0.0).to(gl.float32)
                p = gl.exp2(gl.sum(q.to(gl.float32) * k[None, :], 1) * qk_scale - lse)
                o += gl.where(key <= last, p[:, None] * v[None, :], 0.0)
            at = O + rows[:, None] * desc_o.strides[2] + columns[None, :]
            gl.store(at, o.to(O.dtype.element_ty), mask=inside)


@gluon.jit
def repair_all(descs, pointers, LSE, table, sizes, qk_scale, CONSUMERS: gl.constexpr):
    desc_q, desc_k, desc_v, desc_o = descs
    group, heads, seqlen_q, seqlen_k, left = sizes
    BM: gl.constexpr = desc_q.block_type.shape[2]
    BN: gl.constexpr = desc_k.block_type.shape[2]
    gl.inline_asm_elementwise(
        "fence.proxy.async; mov.u32 $0, 0;", "=r,r", [left], dtype=gl.int32, is_pure=False, pack=1
    )
    entry = gl.load(table)
    while entry >= 0:
        batch, head, row, n = unpack(entry, sizes, BM * CONSUMERS, BN, True)
        for _ in range(CONSUMERS):
            first = first_tile(row, sizes, BM, BN)
            _repair(descs, pointers, LSE, batch, head, row, first, sizes, qk_scale, BM, BN)
            row += BM
        table += gl.num_programs(0)
        entry = gl.load(table)


@gluon.jit
def again_all(descs, pointers, LSE, table, sizes, qk_scale, CAUSAL: gl.constexpr, CONSUMERS: gl.constexpr):
    # o and lse of the marked rows again, four rows and a few keys in each round: forward.py's steps, the scaled score
    # rounded before m is taken off. Slow and rare. One loop over everything: with nested ones the assembler put 13
    # moves into a consumer's loop (head_dim 128 without a mask).
    desc_q, desc_k, desc_v, desc_o = descs
    Q, K, V, O = pointers
    group, heads, seqlen_q, seqlen_k, left = sizes
    BM: gl.constexpr = desc_q.block_type.shape[2]
    BN: gl.constexpr = desc_k.block_type.shape[2]
    D: gl.constexpr = desc_k.block_type.shape[3]
    KEYS: gl.constexpr = 8 if D <= 128 else 4
    PER_LANE: gl.constexpr = D // 32 if D > 32 else 1
    layout: gl.constexpr = gl.BlockedLayout([1, 1, PER_LANE], [1, 1, 32], [4, 1, 1], [2, 1, 0])
    of_row: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, layout))
    of_key: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(2, layout))
    in_o: gl.constexpr = gl.SliceLayout(1, layout)
    columns = gl.arange(0, D, gl.SliceLayout(0, gl.SliceLayout(0, layout)))
    o_columns = gl.arange(0, D, gl.SliceLayout(0, in_o))
    gl.inline_asm_elementwise(
        "fence.proxy.async; mov.u32 $0, 0;", "=r,r", [left], dtype=gl.int32, is_pure=False, pack=1
    )
    m = gl.full([4], float("-inf"), gl.float32, of_row)
    l = gl.zeros([4], gl.float32, of_row)
    acc = gl.zeros([4, D], gl.float32, in_o)
    r = 0
    key = 0
    entry = gl.load(table)
    while entry >= 0:
        batch, head, row, n = unpack(entry, sizes, BM * CONSUMERS, BN, CAUSAL)
        q_at = Q + batch * desc_q.strides[0] + head * desc_q.strides[1]
        k_at = K + batch * desc_k.strides[0] + (head // group) * desc_k.strides[1]
        v_at = V + batch * desc_v.strides[0] + (head // group) * desc_v.strides[1]
        o_at = O + batch * desc_o.strides[0] + head * desc_o.strides[1]
        lse_at = LSE + (batch * heads + head).to(gl.int64) * seqlen_q
        rows = row + r + gl.arange(0, 4, of_row)
        lse = gl.load(lse_at + rows, mask=rows < seqlen_q, other=0.0)
        marked = lse == float("inf")
        end = seqlen_k
        seen = gl.where(rows < seqlen_q, seqlen_k, 0)
        if CAUSAL:
            end = gl.minimum(row + r + 4 + seqlen_k - seqlen_q, seqlen_k)
            seen = gl.where(rows < seqlen_q, gl.minimum(rows + (seqlen_k - seqlen_q + 1), seqlen_k), 0)
        end = end * gl.max(marked.to(gl.int32), 0)
        q_rows = row + r + gl.arange(0, 4, gl.SliceLayout(1, in_o))
        inside = (q_rows < seqlen_q)[:, None] & (o_columns < desc_q.shape[3])[None, :] & (key < end)
        q = gl.load(q_at + q_rows[:, None] * desc_q.strides[2] + o_columns[None, :], mask=inside, other=0.0)
        q = gl.expand_dims(q.to(gl.float32), 1)
        keys = key + gl.arange(0, KEYS, gl.SliceLayout(1, gl.SliceLayout(0, layout)))
        there = (keys < end)[:, None] & (columns < desc_q.shape[3])[None, :]
        k = gl.load(k_at + keys[:, None] * desc_k.strides[2] + columns[None, :], mask=there, other=0.0)
        v = gl.load(v_at + keys[:, None] * desc_v.strides[2] + columns[None, :], mask=there, other=0.0)
        s = gl.sum(q * gl.expand_dims(k.to(gl.float32), 0), 2)
        visible = (key + gl.arange(0, KEYS, of_key))[None, :] < seen[:, None]
        s = gl.where(visible, s * qk_scale, float("-inf"))
        m_new = gl.maximum(m, gl.max(s, 1))
        m_ref = gl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = gl.exp2(m - m_ref)
        p = gl.exp2(s - m_ref[:, None])
        l = l * alpha + gl.sum(p, 1)
        pv = gl.expand_dims(p, 2) * gl.expand_dims(v.to(gl.float32), 0)
        pv = gl.where(gl.expand_dims(visible, 2), pv, 0.0)
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, in_o))[:, None] + gl.sum(pv, 1)
        m = m_new
        key += KEYS
        if key >= end:
            gl.store(lse_at + rows, m + log2(l), mask=marked)
            mine = gl.convert_layout(marked, gl.SliceLayout(1, in_o))[:, None] & (o_columns < desc_q.shape[3])[None, :]
            o = acc * gl.convert_layout(1.0 / l, gl.SliceLayout(1, in_o))[:, None]
            at = o_at + q_rows[:, None] * desc_o.strides[2] + o_columns[None, :]
            gl.store(at, o.to(O.dtype.element_ty), mask=mine)
            m = gl.full([4], float("-inf"), gl.float32, of_row)
            l = gl.zeros([4], gl.float32, of_row)
            acc = gl.zeros([4, D], gl.float32, in_o)
            key = 0
            r += 4
        if r == BM * CONSUMERS:
            r = 0
            table += gl.num_programs(0)
            entry = gl.load(table)
