#!/usr/bin/env python3
"""Writes the golden files of tests/test_golden.cpp: a tiny model of each shape, computed by PyTorch.

Usage: python3 tests/golden/make_golden.py tests/data        (needs only Debian's python3-torch)

Every file is safetensors, F32: the parameters by GPT-2's names, "inputs" and "targets" (as floats), the
"logits", the mean "loss" and the gradient of each parameter as "grad.<name>". Everything is computed in
double precision and rounded once, so the files hold no error of PyTorch's own float kernels.
"""
import json
import struct
import sys

import torch
import torch.nn.functional as F

SEED = 20261129
VOCAB, CONTEXT, WIDTH, HEADS, LAYERS, MLP = 19, 12, 16, 4, 2, 24
KV_HEADS, ROPE_BASE = {"llama": 2}, 10000.0
BATCH, SEQ = 2, 11


def norm_parameters(name):
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def linear_parameters(name, shape, bias):
    return {f"{name}.weight": shape, **({f"{name}.bias": shape[1:]} if bias else {})}


def parameter_shapes(kind):
    gpt2 = kind == "gpt2"
    shapes = {"transformer.wte.weight": (VOCAB, WIDTH)}
    if kind != "llama":
        shapes["transformer.wpe.weight"] = (CONTEXT, WIDTH)
    fused = WIDTH + 2 * WIDTH // HEADS * KV_HEADS.get(kind, HEADS)
    for layer in range(LAYERS):
        prefix = f"transformer.h.{layer}."
        if gpt2:
            shapes |= norm_parameters(prefix + "ln_1") | norm_parameters(prefix + "ln_2")
        shapes |= linear_parameters(prefix + "attn.c_attn", (WIDTH, fused), gpt2)
        shapes |= linear_parameters(prefix + "attn.c_proj", (WIDTH, WIDTH), gpt2)
        shapes |= linear_parameters(prefix + "mlp.c_fc",
                                    (WIDTH, 2 * MLP if kind == "llama" else MLP), gpt2)
        shapes |= linear_parameters(prefix + "mlp.c_proj", (MLP, WIDTH), gpt2)
    if gpt2:
        shapes |= norm_parameters("transformer.ln_f")
    else:
        shapes["lm_head.weight"] = (VOCAB, WIDTH)
    return shapes


def norm(x, p, name, kind):
    if kind == "gpt2":
        return F.layer_norm(x, (WIDTH,), p[f"{name}.weight"], p[f"{name}.bias"], 1e-5)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def linear(x, p, name):
    y = x @ p[f"{name}.weight"]
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x.pow(3))))


def activation(hidden, kind):
    if kind == "gpt2":
        return gelu_tanh(hidden)
    if kind == "andrea":
        return F.relu(hidden).square()
    gate, up = hidden.split(MLP, dim=-1)
    return F.silu(gate) * up


def rotate(x):
    """Rotary positions on [B, heads, T, HS], with the pairs (i, i + HS / 2)."""
    t, half = x.shape[-2], x.shape[-1] // 2
    angles = torch.outer(torch.arange(t).double(),
                         ROPE_BASE ** (-torch.arange(half).double() / half))
    u, v = x.split(half, dim=-1)
    return torch.cat((u * angles.cos() - v * angles.sin(), u * angles.sin() + v * angles.cos()), -1)


def attention(x, p, prefix, kind):
    b, t, c = x.shape
    size, kv = c // HEADS, KV_HEADS.get(kind, HEADS)
    q, k, v = (z.view(b, t, -1, size).transpose(1, 2) for z in
               linear(x, p, prefix + "attn.c_attn").split((c, kv * size, kv * size), dim=-1))
    if kind == "llama":
        q, k = rotate(q), rotate(k)
    k, v = (z.repeat_interleave(HEADS // kv, dim=1) for z in (k, v))
    scores = q @ k.transpose(-2, -1) / (c // HEADS) ** 0.5
    mask = torch.ones(t, t, dtype=torch.bool).tril()
    probabilities = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return linear((probabilities @ v).transpose(1, 2).reshape(b, t, c), p, prefix + "attn.c_proj")


def logits(p, inputs, kind):
    x = p["transformer.wte.weight"][inputs]
    if kind != "llama":
        x = x + p["transformer.wpe.weight"][:inputs.shape[1]]
    for layer in range(LAYERS):
        prefix = f"transformer.h.{layer}."
        x = x + attention(norm(x, p, prefix + "ln_1", kind), p, prefix, kind)
        hidden = linear(norm(x, p, prefix + "ln_2", kind), p, prefix + "mlp.c_fc")
        x = x + linear(activation(hidden, kind), p, prefix + "mlp.c_proj")
    return norm(x, p, "transformer.ln_f", kind) @ p[
        "transformer.wte.weight" if kind == "gpt2" else "lm_head.weight"].T


def write_safetensors(path, tensors, metadata):
    header, data, offset = {"__metadata__": metadata}, b"", 0
    for name in sorted(tensors):
        tensor = tensors[name].detach().to(torch.float32).contiguous()
        raw = struct.pack(f"<{tensor.numel()}f", *tensor.reshape(-1).tolist())
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(raw)]}
        data += raw
        offset += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main(folder):
    for name in ("gpt2", "andrea", "llama"):
        torch.manual_seed(SEED)
        # Rounded to float first: both programs then start from the very same numbers.
        p = {key: (0.3 * torch.randn(shape)).double().requires_grad_()
             for key, shape in parameter_shapes(name).items()}
        inputs = torch.randint(VOCAB, (BATCH, SEQ))
        targets = torch.randint(VOCAB, (BATCH, SEQ))
        out = logits(p, inputs, name)
        loss = F.cross_entropy(out.reshape(-1, VOCAB), targets.reshape(-1))
        loss.backward()
        tensors = {**p, "inputs": inputs, "targets": targets, "logits": out,
                   "loss": loss, **{f"grad.{key}": value.grad for key, value in p.items()}}
        write_safetensors(f"{folder}/golden_{name}.safetensors", tensors,
                          {"source": "tests/golden/make_golden.py", "seed": str(SEED),
                           "torch": torch.__version__})


if __name__ == "__main__":
    main(sys.argv[1])
