"""The FlashAttention forward for Hopper (sm_90a) in Gluon: the steps of forward.py, shared out among warps.

One program per multiprocessor stays for the whole launch and walks down its column of a table of query tiles. In it

- the *producer*, one warp, does load_q, load_k and load_v: it starts copies by TMA and computes nothing;
- two to four *consumers*, four warps each, own 64 query rows each, share every k and v tile, and do the rest.

Who waits for whom (a "full" barrier is set by the copy that arrives, an "empty" one by the consumers that are done):

    producer                              consumer
    k_empty[slot] -> load_k -> k_full ->  scores          -> k_empty   (all consumers)
    q_empty[slot] -> load_q -> q_full ->  scores ... the last one of the query tile
    v_empty[slot] -> load_v -> v_full ->  accumulate      -> v_empty   (all consumers)
                                          normalise, store -> q_empty  (o leaves through q's slot or its own)

A consumer keeps two products in flight: the scores of one tile and the accumulate of the tile before it; the softmax of
the tile runs while the second is under way. So p of a tile waits one step for its product with v.

Order: keys go from right to left. A row's first tile is then the only one that needs the causal mask (tiles are laid so
that the diagonal of a consumer's rows never crosses a tile border; the leftmost tile may begin at negative keys, which
TMA reads as 0), and the mask's cost is paid before the loop starts.

lse is in base 2, scale included.

A NaN or an infinity in a v row that a query row does not see stays away from it. Only a row's first tile has such keys;
when o is not finite they are looked at after everything else, and what they spoiled is computed again. So are rows with
scores in the millions (hopper_repair.py).

Tricks, with what each bought on an H200 (hopper_log.md): persistent programs and the table of tiles +20 to 40 %
(causal), the mask by compile-time columns +20 % (head_dim 64, causal, 512), hand-overs by hardware barriers +3 %, the
lazy rescale +3 to 7 % (head_dim 128 and 256), hold +2 to 4 %, o through its own buffer +6 % (head_dim 256), consumers
that take turns at the parts of a tile +2 % (head_dim 64, short causal).
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernel.hopper_parts import (
    acquire,
    first_tile,
    hold,
    keep,
    lane_sums,
    log2,
    release,
    rescale_lazily,
    unpack,
)
from kernel.hopper_repair import again_all, mark_far, note_broken, repair_all
from kernel.hopper_tiles import LAZY_GROWTH

# Triton 3.8 renamed the two copies, 3.9 dropped the old names.
tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global

_LAZY_GROWTH = gl.constexpr(LAZY_GROWTH)


@gluon.jit
def _softmax(
    s, m, l, qk_scale, rows, n, sizes,
    LOW: gl.constexpr, HIGH: gl.constexpr, CAUSAL: gl.constexpr, LAZY: gl.constexpr,
):  # fmt: skip
    group, heads, seqlen_q, seqlen_k, left = sizes
    # mask: s = -inf where the row does not see the key; only the first tile, and a leftmost one with negative keys
    if HIGH or LOW:
        high = gl.full([s.type.shape[0]], seqlen_k - n, gl.int32, rows.type.layout)
        if CAUSAL:
            high = gl.minimum(high, rows + (seqlen_k - seqlen_q + 1 - n))
        s = keep(s, -n, high, LOW, HIGH)
    # row_max: lazy, m stays while it would grow by less than 2^8, so p <= 2^8 and acc keeps its scale
    m_new = gl.maximum(m, gl.max(s, 1) * qk_scale)
    if LAZY:
        m_new = gl.where(m_new - m > _LAZY_GROWTH, m_new, m)
    m_ref = m_new
    if HIGH or LOW:
        m_ref = gl.where(m_new == float("-inf"), 0.0, m_new)
    # exponentiate: p (BM, BN)
    p = gl.exp2(s * qk_scale - m_ref[:, None])
    # alpha: (BM,)
    alpha = gl.exp2(m - m_ref)
    # denominator: (BM, 4), a part per lane
    l = l * gl.convert_layout(alpha, gl.SliceLayout(1, l.type.layout))[:, None] + lane_sums(p)
    return p, alpha, m_new, l


@gluon.jit
def _load(desc, batch, head, row, full, slot):
    mbarrier.expect(full, desc.block_type.shape[2] * desc.block_type.shape[3] * 2)
    tma_load(desc, [batch, head, row, 0], full, slot)


@gluon.jit
def _producer(
    descs, slots, barriers, table, sizes, CAUSAL: gl.constexpr, CONSUMERS: gl.constexpr, Q_STAGES: gl.constexpr,
    NAMED: gl.constexpr, ROTATE: gl.constexpr,
):  # fmt: skip
    desc_q, desc_k, desc_v, desc_o = descs
    q_slots, k_slots, v_slots, o_slots = slots
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    group, heads, seqlen_q, seqlen_k, left = sizes
    STAGES: gl.constexpr = k_slots.type.shape[0]
    BM: gl.constexpr = q_slots.type.shape[3]
    BN: gl.constexpr = k_slots.type.shape[3]
    i = 0  # k and v tiles so far
    t = 0  # query tiles so far
    entry = gl.load(table)
    while entry >= 0:
        table += gl.num_programs(0)
        next_entry = gl.load(table)
        batch, head, row, n = unpack(entry, sizes, BM * CONSUMERS, BN, CAUSAL)
        kv_head = head // group
        # load_k: the first one goes before q, which may have to wait for its slot
        acquire(k_empty, i, 0, STAGES, CONSUMERS, NAMED)
        _load(desc_k, batch, kv_head, n, k_full.index(i % STAGES), k_slots.index(i % STAGES))
        # load_q: a part of BM rows for every consumer
        for g in gl.static_range(CONSUMERS):
            slot = (t % Q_STAGES) * CONSUMERS + g
            part = (g + t) % CONSUMERS if ROTATE else g
            mbarrier.wait(q_empty.index(slot), ((t // Q_STAGES) & 1) ^ 1)
            _load(desc_q, batch, head, row + part * BM, q_full.index(slot), q_slots.index(slot))
        i += 1
        n -= BN
        while n >= left:
            # load_k: one step before its neighbour's v
            acquire(k_empty, i, 0, STAGES, CONSUMERS, NAMED)
            _load(desc_k, batch, kv_head, n, k_full.index(i % STAGES), k_slots.index(i % STAGES))
            # load_v: behind its k
            acquire(v_empty, i - 1, 1, STAGES, CONSUMERS, NAMED)
            _load(desc_v, batch, kv_head, n + BN, v_full.index((i - 1) % STAGES), v_slots.index((i - 1) % STAGES))
            i += 1
            n -= BN
        acquire(v_empty, i - 1, 1, STAGES, CONSUMERS, NAMED)
        _load(desc_v, batch, kv_head, n + BN, v_full.index((i - 1) % STAGES), v_slots.index((i - 1) % STAGES))
        t += 1
        entry = next_entry
    if NAMED:  # leave no hardware barrier half full
        for d in gl.static_range(STAGES):
            acquire(k_empty, i + d, 0, STAGES, CONSUMERS, NAMED)
            acquire(v_empty, i + d, 1, STAGES, CONSUMERS, NAMED)


@gluon.jit
def _scores(q, k_slot, BN: gl.constexpr, D: gl.constexpr, s_layout: gl.constexpr):
    # scores: s = q·kᵀ in float32, under way when this returns
    BM: gl.constexpr = q.type.shape[0]
    s = gl.zeros([BM, BN], gl.float32, s_layout)
    return warpgroup_mma(q, k_slot.reshape([BN, D]).permute((1, 0)), s, use_acc=False, is_async=True)


@gluon.jit
def _step(
    acc, p, m, l, q, slots, barriers, i, n, qk_scale, rows, sizes, s_layout: gl.constexpr,
    CONSUMERS: gl.constexpr, HOLD: gl.constexpr, NAMED: gl.constexpr, LAZY: gl.constexpr,
):  # fmt: skip
    # One full key tile: its scores and the accumulate of the tile before it are issued together, its softmax follows.
    q_slots, k_slots, v_slots, o_slots = slots
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    STAGES: gl.constexpr = k_slots.type.shape[0]
    BN: gl.constexpr = k_slots.type.shape[3]
    D: gl.constexpr = k_slots.type.shape[4]
    k_at = i % STAGES
    v_at = (i - 1) % STAGES
    # scores: of this tile, under way
    mbarrier.wait(k_full.index(k_at), (i // STAGES) & 1)
    s = _scores(q, k_slots.index(k_at), BN, D, s_layout)
    # accumulate: of the tile before
    mbarrier.wait(v_full.index(v_at), ((i - 1) // STAGES) & 1)
    acc = warpgroup_mma(p, v_slots.index(v_at).reshape([BN, D]), acc, is_async=True)
    s = warpgroup_mma_wait(1, deps=(s,))
    release(k_empty, i, 0, STAGES, CONSUMERS, NAMED)
    p_new, alpha, m, l = _softmax(s, m, l, qk_scale, rows, n, sizes, False, False, False, LAZY)
    if HOLD:
        alpha = hold(alpha)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    release(v_empty, i - 1, 1, STAGES, CONSUMERS, NAMED)
    # rescale: acc (BM, D)
    if LAZY:
        acc = rescale_lazily(acc, alpha)
    else:
        acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout))[:, None]
    return acc, gl.convert_layout(p_new.to(v_slots.dtype), p.type.layout), m, l


@gluon.jit
def _step_alone(
    acc, p, m, l, q, slots, barriers, i, n, qk_scale, rows, sizes, s_layout: gl.constexpr,
    CONSUMERS: gl.constexpr, NAMED: gl.constexpr, LAZY: gl.constexpr,
):  # fmt: skip
    # One key tile that may begin at negative keys: the same steps, one after the other. Once a query tile, and
    # only where the diagonal is not a multiple of 64 (overlapped, the assembler serialised all products of the kernel).
    q_slots, k_slots, v_slots, o_slots = slots
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    STAGES: gl.constexpr = k_slots.type.shape[0]
    BN: gl.constexpr = k_slots.type.shape[3]
    D: gl.constexpr = k_slots.type.shape[4]
    k_at = i % STAGES
    v_at = (i - 1) % STAGES
    # accumulate: of the tile before
    mbarrier.wait(v_full.index(v_at), ((i - 1) // STAGES) & 1)
    acc = warpgroup_mma(p, v_slots.index(v_at).reshape([BN, D]), acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    release(v_empty, i - 1, 1, STAGES, CONSUMERS, NAMED)
    # scores: of this tile
    mbarrier.wait(k_full.index(k_at), (i // STAGES) & 1)
    s = warpgroup_mma_wait(0, deps=(_scores(q, k_slots.index(k_at), BN, D, s_layout),))
    release(k_empty, i, 0, STAGES, CONSUMERS, NAMED)
    p_new, alpha, m, l = _softmax(s, m, l, qk_scale, rows, n, sizes, True, False, True, LAZY)
    # rescale: acc (BM, D)
    acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout))[:, None]
    return acc, gl.convert_layout(p_new.to(v_slots.dtype), p.type.layout), m, l


@gluon.jit
def _consumer(
    shared, G: gl.constexpr, CAUSAL: gl.constexpr, EVEN: gl.constexpr, CONSUMERS: gl.constexpr, Q_STAGES: gl.constexpr,
    HOLD: gl.constexpr, NAMED: gl.constexpr, ROTATE: gl.constexpr, SPLIT_O: gl.constexpr, LAZY: gl.constexpr,
):  # fmt: skip
    descs, slots, barriers, LSE, BROKEN, qk_scale, table, sizes = shared
    desc_q, desc_k, desc_v, desc_o = descs
    q_slots, k_slots, v_slots, o_slots = slots
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    group, heads, seqlen_q, seqlen_k, left = sizes
    STAGES: gl.constexpr = k_slots.type.shape[0]
    BM: gl.constexpr = q_slots.type.shape[3]
    BN: gl.constexpr = k_slots.type.shape[3]
    D: gl.constexpr = k_slots.type.shape[4]
    LOW: gl.constexpr = CAUSAL and not EVEN
    s_layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BN, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=o_layout, k_width=2)
    row_layout: gl.constexpr = gl.SliceLayout(1, s_layout)
    i = 0
    t = 0
    entry = gl.load(table)
    while entry >= 0:
        table += gl.num_programs(0)
        next_entry = gl.load(table)
        batch, head, row, n = unpack(entry, sizes, BM * CONSUMERS, BN, CAUSAL)
        part = (G + t) % CONSUMERS if ROTATE else G
        row += part * BM
        # tiles right of what these rows see (all, where the part has no rows) are handed straight back
        first = n
        if CAUSAL:
            first = first_tile(row, sizes, BM, BN)
        first = gl.where(row < seqlen_q, first, left - BN)
        while n > first:
            mbarrier.wait(k_full.index(i % STAGES), (i // STAGES) & 1)
            release(k_empty, i, 0, STAGES, CONSUMERS, NAMED)
            mbarrier.wait(v_full.index(i % STAGES), (i // STAGES) & 1)
            release(v_empty, i, 1, STAGES, CONSUMERS, NAMED)
            i += 1
            n -= BN
        slot = (t % Q_STAGES) * CONSUMERS + G
        mbarrier.wait(q_full.index(slot), (t // Q_STAGES) & 1)
        if Q_STAGES == 2:  # the last o has left through the other q slot by now
            tma.store_wait(0)
            mbarrier.arrive(q_empty.index(((t + 1) % 2) * CONSUMERS + G), count=1, pred=t > 0)
        if n >= left:
            rows = row + gl.arange(0, BM, row_layout)
            q = q_slots.index(slot).reshape([BM, D])
            acc = gl.zeros([BM, D], gl.float32, o_layout)
            m = gl.full([BM], float("-inf"), gl.float32, row_layout)
            # scores: of the first tile, and its softmax: the one with the diagonal or the ragged end of the keys
            mbarrier.wait(k_full.index(i % STAGES), (i // STAGES) & 1)
            s = _scores(q, k_slots.index(i % STAGES), BN, D, s_layout)
            s = warpgroup_mma_wait(0, deps=(s,))
            release(k_empty, i, 0, STAGES, CONSUMERS, NAMED)
            l = gl.zeros_like(lane_sums(s))
            HIGH: gl.constexpr = CAUSAL or not EVEN
            p, alpha, m, l = _softmax(s, m, l, qk_scale, rows, n, sizes, LOW, HIGH, CAUSAL, LAZY)
            p = gl.convert_layout(p.to(v_slots.dtype), p_layout)
            i += 1
            n -= BN
            while n >= 0:
                acc, p, m, l = _step(acc, p, m, l, q, slots, barriers, i, n, qk_scale, rows, sizes, s_layout,
                                     CONSUMERS, HOLD, NAMED, LAZY)  # fmt: skip
                i += 1
                n -= BN
            if LOW:
                if n >= left:
                    acc, p, m, l = _step_alone(acc, p, m, l, q, slots, barriers, i, n, qk_scale, rows, sizes, s_layout,
                                               CONSUMERS, NAMED, LAZY)  # fmt: skip
                    i += 1
                    n -= BN
            if SPLIT_O:  # q is not needed any more, and o has a buffer of its own
                mbarrier.arrive(q_empty.index(slot), count=1)
            # accumulate: of the last tile
            mbarrier.wait(v_full.index((i - 1) % STAGES), ((i - 1) // STAGES) & 1)
            acc = warpgroup_mma(p, v_slots.index((i - 1) % STAGES).reshape([BN, D]), acc, is_async=True)
            # store: lse
            total = gl.convert_layout(gl.sum(l, 1), row_layout)
            dead = total == 0.0
            total = gl.where(dead, 1.0, total)
            lse = mark_far(gl.where(dead, float("-inf"), m + log2(total)), m, BROKEN)
            gl.store(LSE + (batch * heads + head).to(gl.int64) * seqlen_q + rows, lse, mask=rows < seqlen_q)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            release(v_empty, i - 1, 1, STAGES, CONSUMERS, NAMED)
            # normalise: o = acc / l
            acc = acc * gl.convert_layout(1.0 / total, gl.SliceLayout(1, o_layout))[:, None]
            out = acc.to(v_slots.dtype)
            # store: o
            if SPLIT_O:  # two halves through one small buffer
                left_half, right_half = gl.split(out.reshape([BM, 2, D // 2]).permute((0, 2, 1)))
                buffer = o_slots.index(G)
                tma.store_wait(0)
                buffer.reshape([BM, D // 2]).store(left_half)
                fence_async_shared()
                tma_store(desc_o, [batch, head, row, 0], buffer)
                tma.store_wait(0)
                buffer.reshape([BM, D // 2]).store(right_half)
                fence_async_shared()
                tma_store(desc_o, [batch, head, row, D // 2], buffer)
            else:  # through the q slot, whose contents are dead now
                q.store(out)
                fence_async_shared()
                tma_store(desc_o, [batch, head, row, 0], q_slots.index(slot))
            if CAUSAL:
                note_broken(acc, BROKEN)
        elif SPLIT_O:
            mbarrier.arrive(q_empty.index(slot), count=1)
        t += 1
        entry = next_entry
    tma.store_wait(0)
    # what repair_all reads must be in memory, not only out of the slots
    gl.inline_asm_elementwise(
        "cp.async.bulk.wait_group 0; mov.u32 $0, 0;", "=r,r", [t], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit(do_not_specialize=["group", "heads", "seqlen_q", "seqlen_k", "left"])  # one binary for all lengths
def attention_forward(
    desc_q, desc_k, desc_v, desc_o, Q, K, V, O, LSE, BROKEN, table, sm_scale, group, heads, seqlen_q, seqlen_k, left,
    CAUSAL: gl.constexpr, EVEN: gl.constexpr, CONSUMERS: gl.constexpr, STAGES: gl.constexpr, Q_STAGES: gl.constexpr,
    REGISTERS: gl.constexpr, HOLD: gl.constexpr, NAMED: gl.constexpr, ROTATE: gl.constexpr, SPLIT_O: gl.constexpr,
    LAZY: gl.constexpr,
):  # fmt: skip
    """o and lse of all query tiles in `table`; see hopper.py for the arguments."""
    q_slots = gl.allocate_shared_memory(desc_q.dtype, [Q_STAGES * CONSUMERS] + desc_q.block_type.shape, desc_q.layout)
    k_slots = gl.allocate_shared_memory(desc_k.dtype, [STAGES] + desc_k.block_type.shape, desc_k.layout)
    v_slots = gl.allocate_shared_memory(desc_v.dtype, [STAGES] + desc_v.block_type.shape, desc_v.layout)
    o_slots = q_slots
    if SPLIT_O:
        o_slots = gl.allocate_shared_memory(desc_o.dtype, [CONSUMERS] + desc_o.block_type.shape, desc_o.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [Q_STAGES * CONSUMERS, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [Q_STAGES * CONSUMERS, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for g in gl.static_range(Q_STAGES * CONSUMERS):
        mbarrier.init(q_full.index(g), count=1)
        mbarrier.init(q_empty.index(g), count=1)
    for slot in gl.static_range(STAGES):
        mbarrier.init(k_full.index(slot), count=1)
        mbarrier.init(k_empty.index(slot), count=CONSUMERS)
        mbarrier.init(v_full.index(slot), count=1)
        mbarrier.init(v_empty.index(slot), count=CONSUMERS)
    fence_async_shared()
    descs = (desc_q, desc_k, desc_v, desc_o)
    slots = (q_slots, k_slots, v_slots, o_slots)
    barriers = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    sizes = (group, heads, seqlen_q, seqlen_k, left)
    table += gl.program_id(0)
    BROKEN += gl.program_id(0)
    gl.store(BROKEN, 0.0)
    qk_scale = sm_scale * 1.4426950408889634
    shared = (descs, slots, barriers, LSE, BROKEN, qk_scale, table, sizes)
    # The compile-time flags stand in every list because a tuple in a variable turns them into run-time values.
    if CONSUMERS == 2:
        gl.warp_specialize([
            (_consumer, (shared, 0, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_consumer, (shared, 1, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_producer, (descs, slots, barriers, table, sizes, CAUSAL, CONSUMERS, Q_STAGES, NAMED, ROTATE)),
        ], [4, 1], [REGISTERS, 24])  # fmt: skip
    elif CONSUMERS == 3:
        gl.warp_specialize([
            (_consumer, (shared, 0, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_consumer, (shared, 1, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_consumer, (shared, 2, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_producer, (descs, slots, barriers, table, sizes, CAUSAL, CONSUMERS, Q_STAGES, NAMED, ROTATE)),
        ], [4, 4, 1], [REGISTERS, REGISTERS, 24])  # fmt: skip
    else:
        gl.warp_specialize([
            (_consumer, (shared, 0, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_consumer, (shared, 1, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_consumer, (shared, 2, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_consumer, (shared, 3, CAUSAL, EVEN, CONSUMERS, Q_STAGES, HOLD, NAMED, ROTATE, SPLIT_O, LAZY)),
            (_producer, (descs, slots, barriers, table, sizes, CAUSAL, CONSUMERS, Q_STAGES, NAMED, ROTATE)),
        ], [4, 4, 4, 1], [REGISTERS, REGISTERS, REGISTERS, 24])  # fmt: skip
    if gl.load(BROKEN) != 0.0:
        if CAUSAL:
            repair_all(descs, (Q, K, V, O), LSE, table, sizes, qk_scale, CONSUMERS)
        again_all(descs, (Q, K, V, O), LSE, table, sizes, qk_scale, CAUSAL, CONSUMERS)
