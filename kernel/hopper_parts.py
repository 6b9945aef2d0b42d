"""Pieces of the Hopper forward that are no step of their own: hand-overs, where a tile lies, the mask, the rescale."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

FIRST_BARRIER = 8  # hardware barrier ids from here to 15 are ours; hopper.py checks that the compiler left them free
_FIRST_BARRIER = gl.constexpr(FIRST_BARRIER)


@gluon.jit
def log2(x):
    # exact enough for l >= 1 and a third of the instructions of gl.log2, once a row
    return gl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [x], dtype=gl.float32, is_pure=True, pack=1)


# ---- hand-overs: "this k or v slot is empty", from the consumers to the producer


@gluon.jit
def _arrive(barrier, CONSUMERS: gl.constexpr):
    threads = gl.to_tensor(32 + 128 * CONSUMERS)
    gl.inline_asm_elementwise(
        "bar.arrive $1, $2; mov.u32 $0, 0;", "=r,r,r", [barrier, threads], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def _await(barrier, CONSUMERS: gl.constexpr):
    threads = gl.to_tensor(32 + 128 * CONSUMERS)
    gl.inline_asm_elementwise(
        "bar.sync $1, $2; mov.u32 $0, 0;", "=r,r,r", [barrier, threads], dtype=gl.int32, is_pure=False, pack=1
    )


@gluon.jit
def release(empty, i, V: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, NAMED: gl.constexpr):
    # A hardware barrier lets every warp arrive on its own; an mbarrier costs a barrier of the four warps first.
    if NAMED:
        _arrive(_FIRST_BARRIER + V * STAGES + i % STAGES, CONSUMERS)
    else:
        mbarrier.arrive(empty.index(i % STAGES), count=1)


@gluon.jit
def acquire(empty, i, V: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, NAMED: gl.constexpr):
    if NAMED:
        if i >= STAGES:
            _await(_FIRST_BARRIER + V * STAGES + i % STAGES, CONSUMERS)
    else:
        mbarrier.wait(empty.index(i % STAGES), ((i // STAGES) & 1) ^ 1)


# ---- where a query tile lies


@gluon.jit
def tiles(end, left, BN: gl.constexpr):
    # key tiles from `left` (<= 0) up to key `end`; a row that sees no key still gets one, wholly masked
    return gl.maximum(gl.cdiv(end - left, BN), 1)


@gluon.jit
def unpack(entry, sizes, BLOCK_M: gl.constexpr, BN: gl.constexpr, CAUSAL: gl.constexpr):
    # entry: batch << 42 | head << 24 | first row. n is the first key of the rightmost tile.
    group, heads, seqlen_q, seqlen_k, left = sizes
    batch = (entry >> 42).to(gl.int32)
    head = (entry >> 24).to(gl.int32) & 0x3FFFF
    row = entry.to(gl.int32) & 0xFFFFFF
    end = seqlen_k
    if CAUSAL:
        end = gl.minimum(seqlen_k, row + BLOCK_M + seqlen_k - seqlen_q)
    return batch, head, row, left + (tiles(end, left, BN) - 1) * BN


@gluon.jit
def first_tile(row, sizes, BM: gl.constexpr, BN: gl.constexpr):
    # first key of the rightmost tile that rows [row, row + BM) see, causal
    group, heads, seqlen_q, seqlen_k, left = sizes
    return left + (tiles(gl.minimum(seqlen_k, row + BM + seqlen_k - seqlen_q), left, BN) - 1) * BN


# ---- the softmax


@gluon.jit
def keep(s, low, high, LOW: gl.constexpr, HIGH: gl.constexpr):
    # -inf outside columns [low, high[row]). A thread owns columns 8 i + 2 lane + j: comparing the compile-time 8 i + j
    # with high - 2 lane costs one comparison and one select a score, and no registers.
    BM: gl.constexpr = s.type.shape[0]
    BN: gl.constexpr = s.type.shape[1]
    t = s.reshape([BM, BN // 8, 4, 2])
    L: gl.constexpr = t.type.layout
    i = gl.arange(0, BN // 8, gl.SliceLayout(0, gl.SliceLayout(2, gl.SliceLayout(3, L))))
    lane = gl.arange(0, 4, gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(3, L))))
    j = gl.arange(0, 2, gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(2, L))))
    i = gl.expand_dims(gl.expand_dims(gl.expand_dims(i, 0), 2), 3)
    lane = gl.expand_dims(gl.expand_dims(gl.expand_dims(lane, 0), 1), 3)
    j = gl.expand_dims(gl.expand_dims(gl.expand_dims(j, 0), 1), 2)
    if HIGH:
        high = gl.convert_layout(high, gl.SliceLayout(1, gl.SliceLayout(2, gl.SliceLayout(3, L))))
        high = gl.expand_dims(gl.expand_dims(gl.expand_dims(high, 1), 2), 3)
        t = gl.where(i * 8 + j < high - lane * 2, t, float("-inf"))
    if LOW:
        t = gl.where(i * 8 + j >= low - lane * 2, t, float("-inf"))
    return gl.convert_layout(t.reshape([BM, BN]), s.type.layout, assert_trivial=True)


@gluon.jit
def lane_sums(p):
    # row sums of what each thread owns, (BM, 4); the four lanes of a row are added once, after the loop
    return gl.sum(gl.sum(p.reshape([p.type.shape[0], p.type.shape[1] // 8, 4, 2]), 3), 1)


@gluon.jit
def hold(alpha):
    # Returns alpha. It never exceeds 1, which the assembler cannot know: the store, which never happens, keeps it from
    # moving the wait for the accumulate up into the row max, where nothing would overlap it.
    return gl.inline_asm_elementwise(
        "{.reg .pred p; .reg .b32 a; mov.b32 a, 0; setp.gt.f32 p, $1, 0f40000000; "
        "@p st.shared.f32 [a], $1; mov.b32 $0, $1;}",
        "=f,f",
        [alpha],
        dtype=gl.float32,
        is_pure=False,
        pack=1,
    )


def _rescale_asm(n):
    # A thread's registers belong to two rows, alternating in pairs, so elements 0 and 2 tell of both. Nothing promises
    # that order: hopper.py's self test moves the max of one of the two rows at a time.
    muls = " ".join(f"mul.f32 ${e}, ${e}, ${2 * n + e};" for e in range(n))
    return gl.constexpr(
        f"{{.reg .pred p, q; setp.neu.f32 p, ${2 * n}, 0f3F800000; setp.neu.f32 q, ${2 * n + 2}, 0f3F800000; "
        f"or.pred p, p, q; vote.sync.any.pred p, p, 0xffffffff; @!p bra SAME; {muls} SAME: }}"
    )


def _rescale_operands(n):
    return gl.constexpr(",".join(["=f"] * n + [str(e) for e in range(n)] + ["f"] * n))


_RESCALE_32, _OPERANDS_32 = _rescale_asm(32), _rescale_operands(32)
_RESCALE_64, _OPERANDS_64 = _rescale_asm(64), _rescale_operands(64)


@gluon.jit
def rescale_lazily(acc, alpha):
    # acc * alpha, skipped by a warp none of whose rows moved its max
    D: gl.constexpr = acc.type.shape[1]
    alpha = gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout))[:, None]
    acc, alpha = gl.broadcast(acc, alpha)
    if D < 64:
        acc = acc * alpha
    elif D == 64:
        acc = gl.inline_asm_elementwise(
            _RESCALE_32, _OPERANDS_32, [acc, alpha], dtype=gl.float32, is_pure=True, pack=32
        )
    else:
        acc = gl.inline_asm_elementwise(
            _RESCALE_64, _OPERANDS_64, [acc, alpha], dtype=gl.float32, is_pure=True, pack=64
        )
    return acc
