"""The precise model: a small transformer that reads a query and a passage together and gives one number."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


@dataclass(frozen=True)
class Shape:
    """How large a model is."""

    vocabulary: int
    narrow: int = 128  # numbers a piece has before it is widened
    width: int = 384
    layers: int = 3
    heads: int = 12
    inner: int = 1536
    places: int = 128  # the longest input
    roles: int = 4


class Layer(nn.Module):
    """Attention and a feed-forward step, each followed by a norm, as in BERT."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.mix = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm1 = nn.LayerNorm(shape.width, eps=1e-12)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)
        self.norm2 = nn.LayerNorm(shape.width, eps=1e-12)

    def forward(self, x: torch.Tensor, bias: torch.Tensor, drop: float, first: bool = False) -> torch.Tensor:
        """The next state of every token, or of the first alone."""
        batch, length, width = x.shape
        q, k, v = self.mix(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if first:
            q, x = q[:, :, :1], x[:, :1]
        if torch.onnx.is_in_onnx_export():
            seen = (q @ k.transpose(2, 3) * (width // self.heads) ** -0.5 + bias).softmax(-1) @ v
        else:
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        mixed = self.out(seen.transpose(1, 2).reshape(batch, -1, width))
        x = self.norm1(x + F.dropout(mixed, drop, self.training))
        return self.norm2(x + F.dropout(self.down(F.gelu(self.up(x))), drop, self.training))


class Precise(nn.Module):
    """Scores for rows of piece numbers; 0 is padding."""

    def __init__(self, shape: Shape, drop: float = 0.0) -> None:
        super().__init__()
        self.shape, self.drop = shape, drop
        self.pieces = nn.Embedding(shape.vocabulary, shape.narrow)
        self.widen = nn.Linear(shape.narrow, shape.width) if shape.narrow != shape.width else nn.Identity()
        self.places = nn.Embedding(shape.places, shape.width)
        self.roles = nn.Embedding(shape.roles, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.score = nn.Linear(shape.width, 1)
        for table in (self.pieces, self.places, self.roles):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: torch.Tensor, roles: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.widen(self.pieces(ids)) + self.places(places) + self.roles(roles))
        x = F.dropout(x, self.drop, self.training)
        bias = (ids == 0)[:, None, None, :].to(x.dtype) * -10_000.0
        for number, layer in enumerate(self.layers):
            x = layer(x, bias, self.drop, first=number == len(self.layers) - 1)
        return self.score(x[:, 0])[:, 0]


def save(model: Precise, path: Path) -> None:
    """Keeps shape and weights in half precision, the table of pieces in a file of its own."""
    state = {name: value.half().cpu() for name, value in model.state_dict().items()}
    torch.save(state.pop("pieces.weight"), path.with_suffix(".table.pt"))
    torch.save({"shape": asdict(model.shape), "state": state}, path)


def load(path: Path) -> Precise:
    """What save kept, ready to be asked."""
    kept = torch.load(path, map_location="cpu")
    model = Precise(Shape(**kept["shape"]))
    kept["state"]["pieces.weight"] = torch.load(path.with_suffix(".table.pt"), map_location="cpu")
    model.load_state_dict({name: value.float() for name, value in kept["state"].items()})
    return model.eval()
