#!/usr/bin/env python3
"""Interleaves headloom and PyTorch and prints medians and ratios. Called by bench/peers/run."""
import argparse
import json
import statistics
import subprocess
import time

import torch

from torch_gpt import Attention, TrainingStep

SHAPES = {"andrea-12m": dict(vocab=2305, context=1024, width=384, heads=12, layers=6),
          "andrea-120m": dict(vocab=8449, context=1024, width=768, heads=12, layers=12)}


def headloom(binary, *arguments):
    out = subprocess.run([binary, "bench", *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def seconds(run, calls):
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def in_turn(rounds, runners):
    """Medians of each runner's seconds, called A B C, A B C, ..."""
    times = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            times[name].append(run())
    return {name: statistics.median(values) for name, values in times.items()}


def report(title, medians, unit):
    best = min(value for name, value in medians.items() if name != "headloom")
    print(title)
    for name, value in medians.items():
        print(f"  {name:<18}{unit(value)}")
    print(f"  headloom against the best of the others: {best / medians['headloom']:.2f} x\n", flush=True)
    return best / medians["headloom"]


def compare_training(args, model, batch):
    shape = SHAPES[model]
    steps = {"PyTorch eager": TrainingStep(shape, batch, compiled=False)}
    if not args.skip_compiled:
        steps["PyTorch compiled"] = TrainingStep(shape, batch, compiled=True)
    for step in steps.values():
        seconds(step, 2)  # compiles, touches memory
    runners = {"headloom": lambda: headloom(args.headloom, "train", model, "--batch", str(batch),
                                            "--steps", "3")["seconds_per_step"]}
    runners |= {name: (lambda step=step: seconds(step, 3)) for name, step in steps.items()}
    tokens = batch * shape["context"]
    return report(f"whole training step, {model}, B {batch}, T {shape['context']}, fp32",
                  in_turn(args.rounds, runners), lambda s: f"{1e3 * s:9.1f} ms  {tokens / s:9.0f} tokens/s")


def compare_attention(args, head_dim):
    batch, heads, seq = 4, 12, 1024
    peer = Attention(batch, heads, seq, head_dim)
    seconds(peer, 2)

    def ours():
        rows = headloom(args.headloom, "attention", "--head-dim", str(head_dim))["rows"]
        return sum(row["seconds"] for row in rows if row["name"].endswith("tiled, in place"))

    medians = in_turn(args.rounds, {"headloom": ours, "PyTorch": lambda: seconds(peer, 5)})
    return report(f"attention forward + backward, B {batch}, NH {heads}, T {seq}, HS {head_dim}, fp32",
                  medians, lambda s: f"{1e3 * s:9.1f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headloom", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default="andrea-12m:4,andrea-120m:1")
    parser.add_argument("--skip-compiled", action="store_true")
    args = parser.parse_args()
    peak = headloom(args.headloom, "peak")
    torch.set_num_threads(peak["threads"])
    print(f"{peak['threads']} threads, {peak['isa']}, peak {peak['fma_gflops']:.0f} GFLOP/s; "
          f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}\n", flush=True)
    for item in filter(None, args.models.split(",")):
        model, batch = item.split(":")
        compare_training(args, model, int(batch))
    for head_dim in (32, 64, 128):
        compare_attention(args, head_dim)


if __name__ == "__main__":
    main()
