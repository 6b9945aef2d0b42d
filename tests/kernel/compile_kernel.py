"""Compiles kernels for GPUs that need not be there and prints the bytes of shared memory that each takes, as JSON."""

import json
import sys
from dataclasses import asdict

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource

from kernel import configs, launch
from kernel.backward import attention_dkdv, attention_dq
from kernel.forward import attention_forward

POINTERS = {"float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32"}


def shared(kernel, capability, head_dim, dtype, causal, config, tiled):
    """As for contiguous tensors whose rows are multiples of 16 bytes."""
    constants = {
        "HEAD_DIM": head_dim,
        "HEAD_DIM_PAD": max(16, 1 << (head_dim - 1).bit_length()),
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "PARTS": config.parts,
        "LANES": config.lanes,
        "CAUSAL": causal,
        "SIGN": 1,
        "PRECISION": "ieee",
        "RAGGED": False,
        "WIDE": False,
    }
    types, attributes = {}, {}
    for i, name in enumerate(kernel.arg_names):
        types[name] = "i32"
        if name in constants:
            types[name] = "constexpr"
        elif name.endswith("_tiles") and tiled:
            types[name] = f"tensordesc<{POINTERS[dtype][1:]}[1, 1, {config.block_n}, {constants['HEAD_DIM_PAD']}]>"
        elif name == "rest_ptr" or name.endswith("_tiles"):
            types[name], constants[name] = "constexpr", None
        elif name.startswith("stride") and name.endswith("d"):
            types[name], constants[name] = "constexpr", 1
        elif name.endswith("scale"):
            types[name] = "fp32"
        elif name in ("lse_ptr", "delta_ptr"):
            types[name] = "*fp32"
        elif name.endswith("_ptr"):
            types[name] = POINTERS[dtype]
        if name.startswith("stride") or name.endswith("_ptr"):
            attributes[(i,)] = [["tt.divisibility", 16]]
    known = {name: value for name, value in constants.items() if name in types}
    attributes = {key: value for key, value in attributes.items() if kernel.arg_names[key[0]] not in known}
    source = ASTSource(kernel, types, known, attributes)
    target = GPUTarget("cuda", capability, 32)
    return triton.compile(source, target=target, options=launch.options(config)).metadata.shared


def main():
    found = []
    for (major, minor), which, head_dim, dtype, causal in json.loads(sys.argv[1]):
        gpu = configs.Gpu("", (major, minor))
        if which == "forward":
            kernels = [(attention_forward, configs.forward(gpu, head_dim, dtype, causal))]
        elif which == "tiled":
            kernels = [(attention_forward, config) for config in configs.HOPPER_TILES[head_dim]]
        else:
            parts = configs.backward(gpu, head_dim, dtype, causal)
            assert set(asdict(parts)) == {"delta", "dkdv", "dq"}
            kernels = [(attention_dkdv, parts.dkdv), (attention_dq, parts.dq)]
        tiled = which == "tiled"
        found.append(
            [shared(kernel, 10 * major + minor, head_dim, dtype, causal, config, tiled) for kernel, config in kernels]
        )
    print(json.dumps(found))


main()
