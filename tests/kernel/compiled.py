"""Compiles the Hopper kernels for a GPU that is not there, in a process of its own, and prints what came out as JSON.

A process of its own because the tests run Triton's interpreter, which knows no Gluon.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

FITS = 232_448  # bytes of shared memory that a program of an sm_90 GPU may have


def compile_all(jobs):
    """Figures of each job, a dict as `main` takes it."""
    root = Path(__file__).parents[2]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"PYTHONPATH": str(root)}
    command = [sys.executable, str(Path(__file__)), json.dumps(jobs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(jobs):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    from kernel import hopper, hopper_backward, hopper_launch, measure

    def block(kind, rows, columns, rank):
        bits = 16 if kind == "fp16" else 32
        swizzle = min(128, columns * bits // 8) if rank > 1 else 0
        layout = gl.NVMMASharedLayout(swizzle_byte_width=swizzle, element_bitwidth=bits, rank=rank)
        shape = {4: [1, 1, rows, columns], 2: [rows, columns], 1: [rows]}[rank]
        return f"tensordesc<{kind}{shape},{layout!r}>"

    def build(kernel, types, constants, **options):
        names = kernel.arg_names
        signature = {n: "constexpr" if n in constants else types.get(n, "i32") for n in names}
        constexprs = {(names.index(n),): value for n, value in constants.items()}
        aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if signature[n].startswith("*")}
        source = GluonASTSource(kernel, signature, constexprs, aligned)
        return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)

    def ahead(head_dim, causal, even, seqlen):
        c = hopper.config(head_dim, causal, seqlen)
        q, k = block("fp16", c.rows, head_dim, 4), block("fp16", c.keys, head_dim, 4)
        o = block("fp16", c.rows, head_dim // 2 if c.split_o else head_dim, 4)
        types = {"desc_q": q, "desc_k": k, "desc_v": k, "desc_o": o, "sm_scale": "fp32", "table": "*i64"}
        types |= dict.fromkeys("QKVO", "*fp16") | {"LSE": "*fp32", "BROKEN": "*fp32"}
        constants = hopper._constants(c, causal, even)
        return build(hopper.attention_forward, types, constants, num_warps=4, maxnreg=c.launch_registers)

    def back(head_dim, causal, even, order):
        c = hopper_backward.CONFIGS[head_dim]
        q, k = block("fp16", c.rows, head_dim, 4), block("fp16", c.keys, head_dim, 4)
        types = {"desc_q": q, "desc_k": k, "desc_v": k, "desc_do": q, "desc_dk": k, "desc_dv": k, "scale": "fp32"}
        types |= {"desc_stats": block("fp32", c.rows, 0, 1), "desc_dq": block("fp32", c.rows, head_dim, 2)}
        types |= {"TURN": "*i32", "TICKETS": "*i32"}
        constants = hopper_backward._constants(c, causal, even, order)
        return build(hopper_backward.attention_backward, types, constants, num_warps=8, maxnreg=168)

    def figures(compiled):
        ptx = compiled.asm["ptx"]
        folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / "a.ptx").write_text(ptx)
            for assembler in sorted(folder.glob("ptxas*")):  # a Triton may bring a second, newer one
                command = [assembler, "-v", "--gpu-name=sm_90a", f"{scratch}/a.ptx", "-o", f"{scratch}/a.cubin"]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode == 0:
                    break
        log = done.stdout + done.stderr
        spilled = re.search(r"(\d+) bytes spill stores", log)
        compiled.n_regs = compiled.n_spills = 0  # known when a GPU loads it
        return {
            "shown": asdict(measure._figures(compiled)),
            "shared": compiled.metadata.shared,
            "barriers": sorted(hopper_launch.compiler_barriers(ptx)),
            "spill_bytes": int(spilled[1]) if spilled else -1,
            "serialized": "serialized" in log,
            "products": ptx.count("wgmma.mma_async"),
        }

    print(json.dumps([figures(ahead(*job["forward"]) if "forward" in job else back(*job["backward"])) for job in jobs]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
