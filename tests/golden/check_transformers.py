#!/usr/bin/env python3
"""Compares greedy text of transformers and headloom, both ways: a GPT-2 shaped run opened by transformers, and a
GPT-2 with random weights saved by transformers opened by headloom.

Usage: check_transformers.py HEADLOOM_BINARY RUN [--saved-by-transformers]
(The flag leaves the first half out, for a run of another shape. Needs torch and transformers; not part of CI.)
"""
import shutil
import subprocess
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

PROMPT, TOKENS = "The licence", 30


def greedy_text(model, tokenizer):
    """What transformers writes; the end of text that begins a document is attended to, not taken for padding."""
    end_of_text = model.config.eos_token_id
    ids = torch.tensor([[end_of_text] + tokenizer.encode(PROMPT)])
    out = model.eval().generate(ids, max_new_tokens=TOKENS, do_sample=False, pad_token_id=end_of_text,
                                attention_mask=torch.ones_like(ids))
    return tokenizer.decode(out[0][1:])


def compare(headloom, folder, model, tokenizer, what):
    ours = subprocess.run([headloom, "sample", folder, "--prompt", PROMPT, "--tokens", str(TOKENS),
                           "--temperature", "0"], check=True, capture_output=True).stdout.decode("utf-8", "replace")
    theirs = greedy_text(model, tokenizer)
    if ours.rstrip("\n") != theirs.rstrip("\n"):
        sys.exit(f"{what}: the texts differ:\n  transformers {theirs!r}\n  headloom     {ours!r}")
    print(f"{what}: same text")


def main(headloom, run):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{run}/tokenizer.json")
    if "--saved-by-transformers" not in sys.argv:
        model, info = GPT2LMHeadModel.from_pretrained(f"{run}/latest", output_loading_info=True)
        problems = {kind: names for kind, names in info.items() if names}
        if problems:
            sys.exit(f"transformers did not take the checkpoint as it is: {problems}")
        compare(headloom, run, model, tokenizer, "a run opened by transformers")
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(3)
        vocabulary = len(tokenizer)
        end_of_text = tokenizer.convert_tokens_to_ids("<|endoftext|>")
        model = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_positions=64, n_embd=48, n_layer=3, n_head=4,
                                           initializer_range=0.3, bos_token_id=end_of_text,
                                           eos_token_id=end_of_text))
        model.save_pretrained(folder)
        shutil.copy(f"{run}/tokenizer.json", folder)
        compare(headloom, folder, model, tokenizer, "a GPT-2 saved by transformers")


if __name__ == "__main__":
    main(*sys.argv[1:3])
