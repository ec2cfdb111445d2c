#!/usr/bin/env python3
"""Opens a GPT-2 shaped run with transformers and compares its greedy text with headloom's.

Usage: check_transformers.py HEADLOOM_BINARY RUN        (needs torch and transformers; not part of CI)
"""
import subprocess
import sys

import torch
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

PROMPT, TOKENS = "The licence", 30


def main(headloom, run):
    model, info = GPT2LMHeadModel.from_pretrained(f"{run}/latest", output_loading_info=True)
    problems = {kind: names for kind, names in info.items() if names}
    if problems:
        sys.exit(f"transformers did not take the checkpoint as it is: {problems}")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=f"{run}/tokenizer.json")
    end_of_text = model.config.eos_token_id
    ids = torch.tensor([[end_of_text] + tokenizer.encode(PROMPT)])
    out = model.eval().generate(ids, max_new_tokens=TOKENS, do_sample=False,
                                pad_token_id=end_of_text, attention_mask=torch.ones_like(ids))
    theirs = tokenizer.decode(out[0][1:])
    ours = subprocess.run([headloom, "sample", run, "--prompt", PROMPT, "--tokens", str(TOKENS),
                           "--temperature", "0"], check=True, capture_output=True, text=True).stdout
    if ours.rstrip("\n") != theirs.rstrip("\n"):
        sys.exit(f"the texts differ:\n  transformers {theirs!r}\n  headloom     {ours!r}")
    print("same parameters, same tokens, same text")


if __name__ == "__main__":
    main(*sys.argv[1:3])
