"""The FlashAttention backward for Hopper (sm_90a) in Gluon: dq, dk and dv from the saved lse, at head_dim 64 and 128.

One program owns 128 keys of one kv head. Its roles:

- the *consumers*, two groups of four warps on one tile, hold dk and dv in registers and walk over the query rows;
- the *producer*, one warp, brings k, v and then q and do row block by row block, each with its -lse or -delta, by TMA;
- the *adder*, one warp, adds every part of dq to a float32 buffer in global memory by TMA.

Who waits for whom:

    producer                          consumers                                         adder
    q_empty[slot] -> q, -lse -> q_full ->  s, dk          -> q_empty
    do_empty[slot] -> do, -delta -> do_full ->  dp, dv    -> do_empty
                                      dq_empty ->  dq     -> dq_full ->  dq += part     -> dq_empty

Scores are computed transposed, s = k·qᵀ (128, BM): keys are rows, so that p is the register operand of dv += p·do. ds
goes through shared memory, for dk += ds·q and for dq = dsᵀ·k. The products of a step are issued so that one is always
under way: dp, dv | ds | the next step's s, dq, dk | the next step's p, dq out.

Without ORDER the parts of dq are added as they come: float addition, so dq differs in its last bits from call to call
(dk and dv never do). With ORDER every dq tile takes its parts in a fixed order: a counter per tile says whose turn it
is, and the first part is stored, not added. A part waits only for programs with a lower ticket, and tickets are drawn
as programs start, so none can wait for a program that has not started.

Tricks, with what each bought on an H200 (hopper_log.md): dq by a warp of its own and hand-overs by hardware barriers,
with row blocks in a rotated order where all programs of a head would add to one dq tile, +15 % (not causal); no spills,
through _fresh_zero and the mask by compile-time columns, +25 % (head_dim 128).

A NaN or an infinity in q, k, v or do also reaches the gradients of rows and keys of the same tile that do not see it.
"""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernel.hopper_kernel import tma_load, tma_store

FIRST_BARRIER = 8  # hardware barriers from here to 15 are ours; hopper_backward.py checks that they are free
_Q_EMPTY = gl.constexpr(FIRST_BARRIER)  # one for each of three q slots
_DO_EMPTY = gl.constexpr(FIRST_BARRIER + 3)  # one for each of two do slots
_DQ_FULL = gl.constexpr(FIRST_BARRIER + 5)


@builtin
def _tma_add_before_3_8(desc, coord, src, _semantic=None):
    # Triton 3.6 and 3.7 can do this but have no name for it
    from triton._C.libtriton import ir

    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, coord, src.handle)


_tma_add = getattr(tma, "async_atomic_add", None) or _tma_add_before_3_8


@gluon.jit
def _arrive(barrier):
    gl.inline_asm_elementwise(
        "bar.arrive $1, 288; mov.u32 $0, 0;", "=r,r", [barrier], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _await(barrier):
    gl.inline_asm_elementwise(
        "bar.sync $1, 288; mov.u32 $0, 0;", "=r,r", [barrier], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _fresh_zero(i):
    # A zero that the compiler cannot see through: addresses built on it are computed in every round. As loop invariants
    # they would fill the registers and spill.
    return gl.inline_asm_elementwise("mov.u32 $0, 0;", "=r,r", [i], dtype=gl.int32, is_pure=False, pack=1)


# ---- before and after: -lse, -delta, and dq out of its buffer


@triton.jit
def prepare(
    O, DO, LSE, DLSE, STATS, DQ, TURN, so_b, so_h, so_m, sd_b, sd_h, sd_m, heads, seqlen_q, padded_q, rows_all, zero_to,
    D: tl.constexpr, BM: tl.constexpr, HAS_DLSE: tl.constexpr,
):  # fmt: skip
    """STATS: -lse (-inf where a row sees nothing or is none, so that p = 0), then -delta; DQ and TURN zeroed."""
    blocks = padded_q // BM
    head_index = tl.program_id(0) // blocks
    start = (tl.program_id(0) % blocks) * BM
    rows = start + tl.arange(0, BM)
    batch = (head_index // heads).to(tl.int64)
    head = (head_index % heads).to(tl.int64)
    columns = tl.arange(0, D)
    inside = rows[:, None] < seqlen_q
    at = rows[:, None].to(tl.int64)
    o = tl.load(O + batch * so_b + head * so_h + at * so_m + columns[None, :], mask=inside, other=0.0)
    do = tl.load(DO + batch * sd_b + head * sd_h + at * sd_m + columns[None, :], mask=inside, other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    line = head_index.to(tl.int64) * seqlen_q + rows
    if HAS_DLSE:
        # lse is in base 2: d lse / d (scale·s) = p·log2(e)
        delta -= tl.load(DLSE + line, mask=rows < seqlen_q, other=0.0) * 1.4426950408889634
    lse = tl.load(LSE + line, mask=rows < seqlen_q, other=float("-inf"))
    out = head_index.to(tl.int64) * padded_q + rows
    tl.store(STATS + out, tl.where(lse == float("-inf"), float("-inf"), -lse))
    tl.store(STATS + rows_all + out, -delta)
    tl.store(TURN + tl.program_id(0), 0)
    if tl.program_id(0) == 0:
        tl.store(TURN + tl.num_programs(0), 0)  # the tickets
    if start < zero_to:
        tl.store(DQ + out[:, None] * D + columns[None, :], tl.zeros([BM, D], tl.float32))


@triton.jit
def finish(SUM, DQ, scale, seqlen_q, padded_q, D: tl.constexpr, BM: tl.constexpr):
    """dq in the input dtype: scale times the sum of its parts."""
    blocks = padded_q // BM
    head_index = (tl.program_id(0) // blocks).to(tl.int64)
    rows = (tl.program_id(0) % blocks) * BM + tl.arange(0, BM)
    columns = tl.arange(0, D)
    x = tl.load(SUM + (head_index * padded_q + rows)[:, None] * D + columns[None, :])
    at = DQ + (head_index * seqlen_q + rows)[:, None] * D + columns[None, :]
    tl.store(at, (x * scale).to(DQ.dtype.element_ty), mask=rows[:, None] < seqlen_q)


# ---- which keys, which rows


@gluon.jit
def _locate(ticket, sizes, BN: gl.constexpr, BM: gl.constexpr, CAUSAL: gl.constexpr, ORDER: gl.constexpr):
    # kv head and first key of the program; row blocks from `low`, with a mask up to `middle`, to `end`
    heads, group, seqlen_q, seqlen_k, padded_q, rows_all = sizes
    blocks = gl.cdiv(seqlen_k, BN)
    key = (ticket % blocks) * BN
    if CAUSAL and ORDER:
        key = (blocks - 1) * BN - key  # last keys first: their rows are waited for by all others
    batch = ticket // blocks // (heads // group)
    kv_head = ticket // blocks % (heads // group)
    end = gl.cdiv(seqlen_q, BM) * BM
    low = 0
    middle = 0
    if CAUSAL:
        shift = seqlen_k - seqlen_q
        low = gl.minimum(gl.maximum(key - shift, 0) // BM * BM, end - BM)
        middle = gl.minimum(gl.cdiv(gl.maximum(key + BN - 1 - shift, 0), BM) * BM, end)
    return batch, kv_head, key, low, middle, end


@gluon.jit
def _row(t, key, low, end, CAUSAL: gl.constexpr, ORDER: gl.constexpr, BM: gl.constexpr):
    # first row of step t: spread out, where all programs of a head would add to one dq tile at a time
    if CAUSAL or ORDER:
        row = low + t * BM
    else:
        row = (t + key // BM) % (end // BM) * BM
    return row


# ---- the roles


@gluon.jit
def _adder(ticket, descs, slots, barriers, TURN, sizes, CAUSAL: gl.constexpr, ORDER: gl.constexpr):
    desc_q, desc_k, desc_v, desc_do, desc_stats, desc_dk, desc_dv, desc_dq = descs
    q_slots, k_slot, v_slot, do_slots, lse_slots, delta_slots, ds_slots, dq_slot = slots
    k_full, v_full, q_full, do_full, dq_empty = barriers
    heads, group, seqlen_q, seqlen_k, padded_q, rows_all = sizes
    BM: gl.constexpr = q_slots.type.shape[3]
    BN: gl.constexpr = k_slot.type.shape[3]
    batch, kv_head, key, low, middle, end = _locate(ticket, sizes, BN, BM, CAUSAL, ORDER)
    turn = key // BN
    for member in range(group):
        line = (batch * heads + kv_head * group + member) * padded_q
        for t in range((end - low) // BM):
            row = _row(t, key, low, end, CAUSAL, ORDER, BM)
            _await(gl.to_tensor(_DQ_FULL))
            if ORDER:
                flag = (TURN + (line + row) // BM).to(gl.int64)
                if CAUSAL:
                    newest = gl.cdiv(seqlen_k, BN) - 1
                    if row < end - BM:
                        newest = gl.minimum(newest, (row + BM - 1 + seqlen_k - seqlen_q) // BN)
                    turn = newest - key // BN
                if turn == 0:
                    tma_store(desc_dq, [line + row, 0], dq_slot)
                else:
                    now = _turn(flag)
                    while now != turn:
                        now = _turn(flag)
                    gl.inline_asm_elementwise(
                        "fence.proxy.async; mov.u32 $0, 0;", "=r,r", [turn], dtype=gl.int32, is_pure=False, pack=1
                    )
                    _tma_add(desc_dq, [line + row, 0], dq_slot)
                tma.store_wait(0)
                mbarrier.arrive(dq_empty, count=1)
                gl.inline_asm_elementwise(  # only when this part is in memory is it the next one's turn
                    "cp.async.bulk.wait_group 0; bar.warp.sync 0xffffffff; fence.proxy.async; "
                    "st.release.gpu.global.u32 [$1], $2; mov.u32 $0, 0;",
                    "=r,l,r",
                    [flag, turn + 1],
                    dtype=gl.int32,
                    is_pure=False,
                    pack=1,
                )
            else:
                _tma_add(desc_dq, [line + row, 0], dq_slot)
                tma.store_wait(0)
                mbarrier.arrive(dq_empty, count=1)


@gluon.jit
def _turn(flag):
    return gl.inline_asm_elementwise(
        "ld.acquire.gpu.global.u32 $0, [$1];", "=r,l", [flag], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _producer(ticket, descs, slots, barriers, sizes, CAUSAL: gl.constexpr, ORDER: gl.constexpr):
    desc_q, desc_k, desc_v, desc_do, desc_stats, desc_dk, desc_dv, desc_dq = descs
    q_slots, k_slot, v_slot, do_slots, lse_slots, delta_slots, ds_slots, dq_slot = slots
    k_full, v_full, q_full, do_full, dq_empty = barriers
    heads, group, seqlen_q, seqlen_k, padded_q, rows_all = sizes
    Q_STAGES: gl.constexpr = q_slots.type.shape[0]
    DO_STAGES: gl.constexpr = do_slots.type.shape[0]
    BM: gl.constexpr = q_slots.type.shape[3]
    BN: gl.constexpr = k_slot.type.shape[3]
    D: gl.constexpr = k_slot.type.shape[4]
    batch, kv_head, key, low, middle, end = _locate(ticket, sizes, BN, BM, CAUSAL, ORDER)
    mbarrier.expect(k_full, BN * D * 2)
    tma_load(desc_k, [batch, kv_head, key, 0], k_full, k_slot.index(0))
    i = 0
    for member in range(group):
        head = kv_head * group + member
        line = (batch * heads + head) * padded_q
        for t in range((end - low) // BM):
            row = _row(t, key, low, end, CAUSAL, ORDER, BM)
            at = i % Q_STAGES
            if i >= Q_STAGES:
                _await(_Q_EMPTY + at)
            mbarrier.expect(q_full.index(at), BM * D * 2 + BM * 4)
            tma_load(desc_q, [batch, head, row, 0], q_full.index(at), q_slots.index(at))
            tma_load(desc_stats, [line + row], q_full.index(at), lse_slots.index(at))
            if i == 0:
                mbarrier.expect(v_full, BN * D * 2)
                tma_load(desc_v, [batch, kv_head, key, 0], v_full, v_slot.index(0))
            at = i % DO_STAGES
            if i >= DO_STAGES:
                _await(_DO_EMPTY + at)
            mbarrier.expect(do_full.index(at), BM * D * 2 + BM * 4)
            tma_load(desc_do, [batch, head, row, 0], do_full.index(at), do_slots.index(at))
            tma_load(desc_stats, [rows_all + line + row], do_full.index(at), delta_slots.index(at))
            i += 1
    # leave no hardware barrier half full
    for d in gl.static_range(Q_STAGES):
        if i + d >= Q_STAGES:
            _await(_Q_EMPTY + (i + d) % Q_STAGES)
    for d in gl.static_range(DO_STAGES):
        if i + d >= DO_STAGES:
            _await(_DO_EMPTY + (i + d) % DO_STAGES)


@gluon.jit
def _keep_from(s, first):
    # -inf left of column first[row]. A thread owns columns 8 i + 2 lane + j: comparing the compile-time 8 i + j with
    # first - 2 lane needs no register for the columns.
    BN: gl.constexpr = s.type.shape[0]
    BM: gl.constexpr = s.type.shape[1]
    t = s.reshape([BN, BM // 8, 4, 2])
    L: gl.constexpr = t.type.layout
    i = gl.arange(0, BM // 8, gl.SliceLayout(0, gl.SliceLayout(2, gl.SliceLayout(3, L))))
    lane = gl.arange(0, 4, gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(3, L))))
    j = gl.arange(0, 2, gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(2, L))))
    first = gl.convert_layout(first, gl.SliceLayout(1, gl.SliceLayout(2, gl.SliceLayout(3, L))))
    i = gl.expand_dims(gl.expand_dims(gl.expand_dims(i, 0), 2), 3)
    lane = gl.expand_dims(gl.expand_dims(gl.expand_dims(lane, 0), 1), 3)
    j = gl.expand_dims(gl.expand_dims(gl.expand_dims(j, 0), 1), 2)
    first = gl.expand_dims(gl.expand_dims(gl.expand_dims(first, 1), 2), 3)
    t = gl.where(i * 8 + j >= first - lane * 2, t, float("-inf"))
    return gl.convert_layout(t.reshape([BN, BM]), s.type.layout, assert_trivial=True)


@gluon.jit
def _probabilities(
    s, lse_slot, qk_scale, key, row, sizes, MASK: gl.constexpr, CAUSAL: gl.constexpr, EVEN: gl.constexpr,
    layout: gl.constexpr,
):  # fmt: skip
    # p = 2^(s·qk_scale - lse), transposed
    heads, group, seqlen_q, seqlen_k, padded_q, rows_all = sizes
    if MASK:
        keys = key + gl.arange(0, s.type.shape[0], gl.SliceLayout(1, layout))
        first = gl.zeros_like(keys)
        if CAUSAL:
            first = keys - (row + seqlen_k - seqlen_q)
        if not EVEN:
            first = gl.where(keys < seqlen_k, first, 1 << 20)
        s = _keep_from(s, first)
    return gl.exp2(s * qk_scale + gl.expand_dims(lse_slot.load(gl.SliceLayout(0, layout)), 0))


@gluon.jit
def _step(
    dk, dv, p, i, next_row, slots, barriers, sizes, key, qk_scale, LAST: gl.constexpr, MASK: gl.constexpr,
    CAUSAL: gl.constexpr, EVEN: gl.constexpr, s_layout: gl.constexpr, p_layout: gl.constexpr, dq_layout: gl.constexpr,
):  # fmt: skip
    q_slots, k_slot, v_slot, do_slots, lse_slots, delta_slots, ds_slots, dq_slot = slots
    k_full, v_full, q_full, do_full, dq_empty = barriers
    Q_STAGES: gl.constexpr = q_slots.type.shape[0]
    DO_STAGES: gl.constexpr = do_slots.type.shape[0]
    DS_STAGES: gl.constexpr = ds_slots.type.shape[0]
    BM: gl.constexpr = q_slots.type.shape[3]
    D: gl.constexpr = q_slots.type.shape[4]
    BN: gl.constexpr = k_slot.type.shape[3]
    zero = _fresh_zero(i)
    k = k_slot.index(zero).reshape([BN, D])
    v = v_slot.index(zero).reshape([BN, D])
    q_at = i % Q_STAGES
    do_at = i % DO_STAGES
    q = q_slots.index(q_at).reshape([BM, D])
    do = do_slots.index(do_at).reshape([BM, D])
    # dp = v·doᵀ; dv += p·do
    mbarrier.wait(do_full.index(do_at), (i // DO_STAGES) & 1)
    dp = gl.zeros([BN, BM], gl.float32, s_layout)
    dp = warpgroup_mma(v, do.permute((1, 0)), dp, use_acc=False, is_async=True)
    dv = warpgroup_mma(gl.convert_layout(p, p_layout), do, dv, is_async=True)
    dp = warpgroup_mma_wait(1, deps=(dp,))
    # ds = p·(dp - delta)
    minus_delta = gl.expand_dims(delta_slots.index(do_at).load(gl.SliceLayout(0, s_layout)), 0)
    ds_slot = ds_slots.index(i % DS_STAGES + zero)
    ds_slot.store((p.to(gl.float32) * (dp + minus_delta)).to(p.dtype))
    fence_async_shared()
    # the next s = k·qᵀ; dq = dsᵀ·k; dk += ds·q
    if not LAST:
        next_at = (i + 1) % Q_STAGES
        mbarrier.wait(q_full.index(next_at), ((i + 1) // Q_STAGES) & 1)
        s = gl.zeros([BN, BM], gl.float32, s_layout)
        s = warpgroup_mma(k, q_slots.index(next_at).reshape([BM, D]).permute((1, 0)), s, use_acc=False, is_async=True)
    dq = gl.zeros([BM, D], gl.float32, dq_layout)
    dq = warpgroup_mma(ds_slot.permute((1, 0)), k, dq, use_acc=False, is_async=True)
    dk = warpgroup_mma(ds_slot, q, dk, is_async=True)
    if not LAST:
        s = warpgroup_mma_wait(2, deps=(s,))
        _arrive(_DO_EMPTY + do_at)
        p_new = _probabilities(
            s, lse_slots.index(next_at), qk_scale, key, next_row, sizes, MASK, CAUSAL, EVEN, s_layout
        )
        p = p_new.to(p.dtype)
    mbarrier.wait(dq_empty, (i & 1) ^ 1)  # the branch in here also keeps the exponentials above the next wait
    dq = warpgroup_mma_wait(1, deps=(dq,))
    dq_slot.store(dq)
    fence_async_shared()
    _arrive(gl.to_tensor(_DQ_FULL))
    dk, dv = warpgroup_mma_wait(0, deps=(dk, dv))
    if LAST:
        _arrive(_DO_EMPTY + do_at)
    _arrive(_Q_EMPTY + q_at)
    return dk, dv, p


@gluon.jit
def _consumers(
    ticket, descs, slots, barriers, sizes, scale, CAUSAL: gl.constexpr, EVEN: gl.constexpr, ORDER: gl.constexpr
):  # fmt: skip
    desc_q, desc_k, desc_v, desc_do, desc_stats, desc_dk, desc_dv, desc_dq = descs
    q_slots, k_slot, v_slot, do_slots, lse_slots, delta_slots, ds_slots, dq_slot = slots
    k_full, v_full, q_full, do_full, dq_empty = barriers
    heads, group, seqlen_q, seqlen_k, padded_q, rows_all = sizes
    Q_STAGES: gl.constexpr = q_slots.type.shape[0]
    BM: gl.constexpr = q_slots.type.shape[3]
    D: gl.constexpr = q_slots.type.shape[4]
    BN: gl.constexpr = k_slot.type.shape[3]
    s_layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[8, 1], instr_shape=[16, BM, 16])
    kv_layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[8, 1], instr_shape=[16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=kv_layout, k_width=2)
    ACROSS: gl.constexpr = 128 // BM  # groups of four warps side by side in a dq tile of fewer than 128 rows
    dq_layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[8 // ACROSS, ACROSS], instr_shape=[16, D // ACROSS, 16]
    )
    batch, kv_head, key, low, middle, end = _locate(ticket, sizes, BN, BM, CAUSAL, ORDER)
    qk_scale = scale * 1.4426950408889634
    dk = gl.zeros([BN, D], gl.float32, kv_layout)
    dv = gl.zeros([BN, D], gl.float32, kv_layout)
    k = k_slot.index(0).reshape([BN, D])
    mbarrier.wait(k_full, 0)
    i = 0
    steps = (end - low) // BM
    full = 1  # steps from here on need no causal mask
    if CAUSAL:
        full = gl.maximum((middle - low) // BM, 1)
    for member in range(group):
        at = i % Q_STAGES
        mbarrier.wait(q_full.index(at), (i // Q_STAGES) & 1)
        s = gl.zeros([BN, BM], gl.float32, s_layout)
        s = warpgroup_mma(k, q_slots.index(at).reshape([BM, D]).permute((1, 0)), s, use_acc=False, is_async=True)
        if member == 0:
            mbarrier.wait(v_full, 0)
        s = warpgroup_mma_wait(0, deps=(s,))
        row = _row(0, key, low, end, CAUSAL, ORDER, BM)
        MASK: gl.constexpr = CAUSAL or not EVEN
        p = _probabilities(s, lse_slots.index(at), qk_scale, key, row, sizes, MASK, CAUSAL, EVEN, s_layout)
        p = p.to(q_slots.dtype)
        if CAUSAL:
            for t in range(1, full):
                row = _row(t, key, low, end, CAUSAL, ORDER, BM)
                dk, dv, p = _step(dk, dv, p, i, row, slots, barriers, sizes, key, qk_scale,
                                  False, True, CAUSAL, EVEN, s_layout, p_layout, dq_layout)  # fmt: skip
                i += 1
        for t in range(full, steps):
            row = _row(t, key, low, end, CAUSAL, ORDER, BM)
            dk, dv, p = _step(dk, dv, p, i, row, slots, barriers, sizes, key, qk_scale,
                              False, not EVEN, CAUSAL, EVEN, s_layout, p_layout, dq_layout)  # fmt: skip
            i += 1
        dk, dv, p = _step(dk, dv, p, i, 0, slots, barriers, sizes, key, qk_scale,
                          True, False, CAUSAL, EVEN, s_layout, p_layout, dq_layout)  # fmt: skip
        i += 1
    v_slot.index(0).reshape([BN, D]).store(dv.to(q_slots.dtype))
    k_slot.index(0).reshape([BN, D]).store((dk * scale).to(q_slots.dtype))
    fence_async_shared()
    tma_store(desc_dv, [batch, kv_head, key, 0], v_slot.index(0))
    tma_store(desc_dk, [batch, kv_head, key, 0], k_slot.index(0))
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["heads", "group", "seqlen_q", "seqlen_k", "padded_q", "rows_all"])
def attention_backward(
    desc_q, desc_k, desc_v, desc_do, desc_stats, desc_dk, desc_dv, desc_dq, TURN, TICKETS, scale,
    heads, group, seqlen_q, seqlen_k, padded_q, rows_all,
    CAUSAL: gl.constexpr, EVEN: gl.constexpr, Q_STAGES: gl.constexpr, DO_STAGES: gl.constexpr,
    DS_STAGES: gl.constexpr, ORDER: gl.constexpr,
):  # fmt: skip
    """dk and dv of one block of keys, and its parts of dq; see hopper_backward.py for the arguments."""
    BM: gl.constexpr = desc_q.block_type.shape[2]
    BN: gl.constexpr = desc_k.block_type.shape[2]
    D: gl.constexpr = desc_q.block_type.shape[3]
    ticket = gl.program_id(0)
    if ORDER:
        ticket = gl.atomic_add(TICKETS, 1)
    q_slots = gl.allocate_shared_memory(desc_q.dtype, [Q_STAGES] + desc_q.block_type.shape, desc_q.layout)
    do_slots = gl.allocate_shared_memory(desc_q.dtype, [DO_STAGES] + desc_q.block_type.shape, desc_q.layout)
    k_slot = gl.allocate_shared_memory(desc_k.dtype, [1] + desc_k.block_type.shape, desc_k.layout)
    v_slot = gl.allocate_shared_memory(desc_k.dtype, [1] + desc_k.block_type.shape, desc_k.layout)
    ds_layout: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    ds_slots = gl.allocate_shared_memory(desc_q.dtype, [DS_STAGES, BN, BM], ds_layout)
    lse_slots = gl.allocate_shared_memory(gl.float32, [Q_STAGES, BM], desc_stats.layout)
    delta_slots = gl.allocate_shared_memory(gl.float32, [DO_STAGES, BM], desc_stats.layout)
    dq_slot = gl.allocate_shared_memory(gl.float32, [BM, D], desc_dq.layout)
    dq_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_full = gl.allocate_shared_memory(gl.int64, [Q_STAGES, 1], mbarrier.MBarrierLayout())
    do_full = gl.allocate_shared_memory(gl.int64, [DO_STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(dq_empty, count=1)
    mbarrier.init(k_full, count=1)
    mbarrier.init(v_full, count=1)
    for slot in gl.static_range(Q_STAGES):
        mbarrier.init(q_full.index(slot), count=1)
    for slot in gl.static_range(DO_STAGES):
        mbarrier.init(do_full.index(slot), count=1)
    fence_async_shared()
    descs = (desc_q, desc_k, desc_v, desc_do, desc_stats, desc_dk, desc_dv, desc_dq)
    slots = (q_slots, k_slot, v_slot, do_slots, lse_slots, delta_slots, ds_slots, dq_slot)
    barriers = (k_full, v_full, q_full, do_full, dq_empty)
    sizes = (heads, group, seqlen_q, seqlen_k, padded_q, rows_all)
    gl.warp_specialize([
        (_consumers, (ticket, descs, slots, barriers, sizes, scale, CAUSAL, EVEN, ORDER)),
        (_producer, (ticket, descs, slots, barriers, sizes, CAUSAL, ORDER)),
        (_adder, (ticket, descs, slots, barriers, TURN, sizes, CAUSAL, ORDER)),
    ], [1, 1], [24, 24])  # fmt: skip
