import math

import pytest

from kernel.problem import FIELDS, Problem, ProblemError

REFUSED = [
    ("batch", -1, "must be from 0"),
    ("heads", 0, "must be from 1"),
    ("kv_heads", 3, "kv_heads must divide heads (1, 2)"),
    ("seqlen_q", 10**9, "1,000,000,000; it must be from 0 to 1,048,576"),
    ("seqlen_q", -1, "must be from 0"),
    ("seqlen_k", "many", "'many'; it must be a whole number"),
    ("seqlen_k", 10**400, "more than 19 digits"),
    ("seqlen_k", 64.0, "must be a whole number"),
    ("seqlen_q", True, "must be a whole number"),
    ("head_dim", 0, "must be from 1 to 256"),
    ("head_dim", 257, "must be from 1 to 256"),
    ("dtype", "float64", "choose float16, bfloat16 or float32"),
    ("dtype", None, "choose float16"),
    ("causal", 1, "must be true or false"),
    ("sm_scale", math.nan, "finite"),
    ("sm_scale", -math.inf, "finite"),
    ("sm_scale", "0.5", "finite number"),
    ("sm_scale", 10**400, "finite"),
    ("sm_scale", 1e38, "at most 1e+26"),
    ("sm_scale", -2e26, "at most 1e+26"),
    ("block_m", 48, "power of two"),
    ("block_n", 8, "must be from 16 to 256"),
    ("block_m", 512, "must be from 16 to 256"),
    ("backend", "cuda", "choose triton or hopper"),
    ("seed", -1, "must be from 0"),
    ("std", 0.0, "above 0"),
    ("std", math.inf, "finite"),
    ("distribution", "cauchy", "normal, rising, spiky"),
    ("inputs", 7, "path"),
    ("inputs", "a\0b", "path"),
]


@pytest.mark.parametrize(("field", "value", "words"), REFUSED)
def test_refuses_in_one_sentence_that_names_the_field(field, value, words):
    with pytest.raises(ProblemError) as caught:
        Problem().change(**{field: value})
    assert caught.value.field == field
    message = str(caught.value)
    assert words in message
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < 200


def test_refuses_tensors_that_no_machine_holds():
    with pytest.raises(ProblemError, match="q would hold 4,294,967,296 numbers") as caught:
        Problem(batch=32, seqlen_q=1 << 20, seqlen_k=64)
    assert caught.value.field == "seqlen_q"


def test_scale_of_none_is_one_over_root_head_dim():
    assert Problem(head_dim=64, sm_scale=None).scale == 0.125
    assert Problem(sm_scale=-0.5).scale == -0.5
    assert Problem(sm_scale=0).scale == 0.0
    assert Problem(sm_scale=1e-300).scale == 1e-300


@pytest.mark.parametrize(("head_dim", "pad"), [(1, 16), (16, 16), (17, 32), (63, 64), (64, 64), (96, 128), (256, 256)])
def test_head_dim_is_padded_to_a_power_of_two(head_dim, pad):
    assert Problem(head_dim=head_dim).head_dim_pad == pad


def test_query_heads_share_key_heads_in_order():
    p = Problem(batch=2, heads=8, kv_heads=2)
    assert [p.kv_head(h) for h in range(16)] == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4


def test_field_names_are_those_of_the_command_line_and_the_session():
    assert {"batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "dtype", "causal", "inputs"} <= set(
        FIELDS
    )


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("dtype", "float32", "float16 and bfloat16"),
        ("head_dim", 60, "multiples of 8"),
        ("sm_scale", 0.0, "positive scales"),
        ("sm_scale", -0.5, "positive scales"),
        ("sm_scale", 1e-31, "above 1e-30"),
        ("seqlen_k", 1060, "a multiple of 64 apart"),
    ],
)
def test_what_the_hopper_kernel_does_not_take_is_refused_by_name(field, value, words):
    hopper = Problem().change(backend="hopper")
    with pytest.raises(ProblemError, match=words) as caught:
        hopper.change(**{field: value})
    assert caught.value.field == field
    with pytest.raises(ProblemError, match="takes 64 x 64 here"):
        Problem(backend="hopper")


def test_heads_are_named_by_their_batch_where_there_are_several():
    assert Problem(heads=4).head_name(3) == "head 3"
    assert Problem(batch=3, heads=4).head_name(9) == "batch 2 · head 1"
