#!/usr/bin/env python3
"""PyTorch on a card beside `headloom bench device`: fused attention by each backend that it has, and whole steps of
the ANDREA models, compiled, in bf16. Called by scripts/gpu-check."""
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_gpt import Attention, TrainingStep

SHAPES = {"andrea-12m": dict(vocab=2305, context=1024, width=384, heads=12, layers=6),
          "andrea-120m": dict(vocab=8449, context=1024, width=768, heads=12, layers=12)}
TOKENS = 8192


def median_seconds(run, rounds=7, calls=10):
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def attention_rows():
    for head_dim in (32, 64, 96, 128):
        for seq in (512, 1024, 2048, 4096):
            heads, batch = 768 // head_dim, TOKENS // seq
            problem = Attention(batch, heads, seq, head_dim)
            flops = 7 * 2 * head_dim * heads * batch * seq * (seq + 1) / 2
            for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
                try:
                    with sdpa_kernel(backend):
                        problem()
                        seconds = median_seconds(problem)
                except RuntimeError as error:
                    print(f"{backend.name}: {str(error).splitlines()[0]}")
                    continue
                print(f"{'PyTorch ' + backend.name + ', forward + backward':<50}"
                      f"B {batch} T {seq} NH {heads} HS {head_dim:<6}{1e3 * seconds:10.3f} ms"
                      f"{flops / seconds / 1e12:10.1f} TFLOP/s", flush=True)


def step_rows():
    for name, shape in SHAPES.items():
        batch = TOKENS // shape["context"]
        step = TrainingStep(shape, batch, compiled=True)

        def run():
            with torch.autocast("cuda", torch.bfloat16):
                step()
        for _ in range(3):
            run()
        seconds = median_seconds(run)
        print(f"{'PyTorch compiled, bf16, whole step, ' + name:<50}B {batch} T {shape['context']}"
              f"{1e3 * seconds:10.3f} ms{TOKENS / seconds:12.0f} tokens/s", flush=True)


def main():
    if not torch.cuda.is_available():
        sys.exit("no card that PyTorch can use")
    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    attention_rows()
    torch.set_default_dtype(torch.float32)
    step_rows()


if __name__ == "__main__":
    main()
