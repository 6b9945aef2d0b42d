"""FlashAttention's forward pass: the Triton kernel, its NumPy mirror, and the exact reference."""
