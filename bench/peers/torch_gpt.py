"""The ANDREA models in PyTorch, as a practised user would write them for a CPU: fused projection, PyTorch's own
fused attention, fused AdamW."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mix = nn.Linear(width, width, bias=False)
        self.mlp_in = nn.Linear(width, 4 * width, bias=False)
        self.mlp_out = nn.Linear(4 * width, width, bias=False)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for z in self.qkv(x).split(c, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mix(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        width = x.shape[-1:]
        x = x + self.attention(F.rms_norm(x, width, eps=1e-5))
        return x + self.mlp_out(F.relu(self.mlp_in(F.rms_norm(x, width, eps=1e-5))).square())


class Gpt(nn.Module):
    def __init__(self, vocab, context, width, heads, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)
        for p in self.parameters():
            nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(F.rms_norm(x, x.shape[-1:], eps=1e-5))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class TrainingStep:
    """One optimizer step: forward, backward, clip to norm 1, AdamW."""

    def __init__(self, shape, batch, compiled):
        torch.manual_seed(1)
        model = Gpt(**shape)
        self.parameters = list(model.parameters())
        self.model = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-3, betas=(0.9, 0.95),
                                           weight_decay=0.1, fused=True)
        ids = torch.randint(shape["vocab"], (batch, shape["context"] + 1))
        self.inputs, self.targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.inputs, self.targets).backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()


class Attention:
    """Forward and backward of PyTorch's fused causal attention alone, in its own favourite layout."""

    def __init__(self, batch, heads, seq, head_dim):
        self.q, self.k, self.v = (torch.randn(batch, heads, seq, head_dim, requires_grad=True)
                                  for _ in range(3))
        self.dout = torch.randn(batch, heads, seq, head_dim)

    def __call__(self):
        out = F.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True)
        out.backward(self.dout)
        self.q.grad = self.k.grad = self.v.grad = None
