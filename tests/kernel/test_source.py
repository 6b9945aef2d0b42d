"""The source panel's lines are the file's own, and steps and lines belong together without a gap."""

import ast

from kernel.source import PATH, kernel_source, step_lines
from kernel.tiling import LOOP_STEPS, STEPS


def test_every_step_has_lines_of_its_own():
    source = kernel_source()
    assert tuple(source.step_lines) == STEPS
    assert all(source.step_lines.values())
    assert source.path == "kernel/forward.py"
    owned = [line for lines in source.step_lines.values() for line in lines]
    assert len(owned) == len(set(owned))


def test_lines_are_the_files():
    source = kernel_source()
    text = PATH.read_text(encoding="utf-8").splitlines()
    assert source.lines[0] == "@triton.jit"
    assert list(source.lines) == text[source.first_line - 1 :]
    assert any("tl.dot(queries[i], tl.trans(k)" in text[line - 1] for line in source.step_lines["scores"])


def test_every_line_of_the_loop_has_a_step():
    source = kernel_source()
    [body] = [
        node for node in ast.parse(PATH.read_text()).body if isinstance(node, ast.FunctionDef) and node.name == "attend"
    ]
    opened = min(source.step_lines["load_k"])
    text = PATH.read_text().splitlines()
    assert body.end_lineno is not None
    code = [
        n for n in range(opened, body.end_lineno + 1) if text[n - 1].strip() and not text[n - 1].strip().startswith("#")
    ]
    # what is no step takes a group of rows, or hands it on
    others = [text[n - 1].strip() for n in code if source.step_at(n) not in LOOP_STEPS]
    assert others == [
        "sums_after = ()",
        "for i in tl.static_range(len(queries)):",
        "s, seen = scores[i], all_seen[i]",
        "m, l, acc = sums[i]",
        "sums_after += ((m, l, acc),)",
        "return sums_after",
    ]
    assert {source.step_at(n) for n in code} - {None} == LOOP_STEPS


def test_steps_stand_in_the_order_in_which_they_run():
    lines = kernel_source().step_lines
    loop = [step for step in STEPS if step in LOOP_STEPS]
    assert sorted(loop, key=lambda step: lines[step][0]) == loop
    assert max(lines["load_q"]) < min(lines["normalise"]) <= max(lines["normalise"]) < min(lines["store"])


def test_a_step_ends_at_a_blank_line_a_comment_of_another_or_less_indentation():
    text = [
        "if a:",
        "    # load_k: k",
        "    one",
        "",
        "    two",
        "    # scores: s",
        "    three",
        "    # mask: -inf",
        "      four",
        "five",
    ]
    assert {step: lines for step, lines in step_lines(text).items() if lines} == {
        "load_k": (3,),
        "scores": (7,),
        "mask": (9,),
    }
    assert not any(step_lines(["# load_k without a colon", "one", "# load_k:", "two"]).values())


def test_every_step_has_lines_in_the_hopper_kernel_too():
    source = kernel_source("hopper")
    assert source.path == "kernel/hopper_kernel.py"
    assert all(source.step_lines[step] for step in STEPS)
    text = source.lines[source.step_lines["row_max"][0] - source.first_line]
    assert "m_new = gl.maximum(m, gl.max(s, 1) * qk_scale)" in text


def test_what_a_branch_that_is_decided_leaves_out_does_not_run():
    source = kernel_source()
    known = {"PARTIAL": False, "CAREFUL": False, "SIGN": 1, "CAUSAL": True, "rest_ptr": None}

    def code(step, **more):
        return [source.lines[line - source.first_line].strip() for line in source.lines_run(step, known | more)]

    assert code("exponentiate") == ["p = tl.exp2(s * qk_scale - m_ref[:, None])"]
    assert code("alpha") == ["m_ref = m_new", "alpha = tl.exp2(m - m_ref)"]
    assert len(code("alpha", PARTIAL=True)) == 3
    assert code("mask", PARTIAL=True)[0].startswith("s = tl.where(")
    assert not any("SIGN" in line for line in code("load_q"))
    assert any(line.startswith("q = (q * SIGN)") for line in code("load_q", SIGN=-1))
    assert not any("rest" in line for line in code("store"))
    assert source.lines_run("exponentiate", {}) == source.step_lines["exponentiate"]
    for step in STEPS:
        assert code(step, PARTIAL=True)
