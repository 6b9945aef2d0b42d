"""Tensors of every legal layout, with NaN in the memory around and between their elements."""

import torch
from hypothesis import strategies as st

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
HEAD_DIMS = st.integers(1, 80)


@st.composite
def layouts(draw):
    """How to lay a 4-D tensor out: storage order, gaps, steps, first element, and which of batch and heads repeat."""
    return {
        "order": draw(st.permutations(range(4))),
        "steps": draw(st.tuples(*[st.sampled_from([1, 1, 1, 2])] * 4)),
        "gaps": draw(st.tuples(*[st.sampled_from([0, 0, 1, 3])] * 4)),
        "offset": draw(st.sampled_from([0, 0, 1, 3])),
        "expand": draw(st.sampled_from([(), (), (), (0,), (1,), (0, 1)])),
    }


def lay_out(values, layout):
    """A tensor equal to `values` (but for expanded dimensions, which repeat the first entry) in the layout."""
    sizes = [1 if d in layout["expand"] else n for d, n in enumerate(values.shape)]
    room = [n * step + gap for n, step, gap in zip(sizes, layout["steps"], layout["gaps"], strict=True)]
    order = layout["order"]
    total = torch.Size(room).numel()
    memory = torch.full((total + layout["offset"],), torch.nan, dtype=values.dtype, device=values.device)
    stored = memory[layout["offset"] :].view([room[d] for d in order])
    view = stored.permute([order.index(d) for d in range(4)])
    view = view[tuple(slice(0, n * step, step) for n, step in zip(sizes, layout["steps"], strict=True))]
    view.copy_(values[tuple(slice(0, n) for n in sizes)])
    return view.expand(values.shape)


@st.composite
def attention_inputs(draw, *, max_seqlen=70, head_dims=HEAD_DIMS):
    """Shapes, layouts and arguments of a legal call, as a dict for `make`."""
    kv_heads = draw(st.integers(1, 2))
    scale = st.floats(-2, 2, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3)
    return {
        "batch": draw(st.integers(1, 2)),
        "heads": kv_heads * draw(st.integers(1, 3)),
        "kv_heads": kv_heads,
        "seqlen_q": draw(st.integers(0, max_seqlen)),
        "seqlen_k": draw(st.integers(0, max_seqlen)),
        "head_dim": draw(head_dims),
        "dtype": draw(st.sampled_from(DTYPES)),
        "causal": draw(st.booleans()),
        "scale": draw(scale),
        "std": draw(st.sampled_from([0.5, 1.0, 3.0])),
        "seed": draw(st.integers(0, 1 << 32)),
        "layouts": [draw(layouts()) for _ in range(4)],
    }


def make(inputs, device):
    """q, k, v and a gradient of o."""
    i = inputs
    generator = torch.Generator(device).manual_seed(i["seed"])
    q = (i["batch"], i["heads"], i["seqlen_q"], i["head_dim"])
    kv = (i["batch"], i["kv_heads"], i["seqlen_k"], i["head_dim"])
    made = []
    for shape, std, layout in zip((q, kv, kv, q), (i["std"], i["std"], 1.0, 1.0), i["layouts"], strict=True):
        values = torch.empty(shape, dtype=i["dtype"], device=device).normal_(0.0, std, generator=generator)
        made.append(lay_out(values, layout))
    return made
