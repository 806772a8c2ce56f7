"""Whole networks through nibble.export: each comes out as one delegate and gives what torch gives."""

import pytest
import torch
from torch import nn

from conformance.test_partitioner import Dim, attend, check, export, tensors

pytestmark = pytest.mark.slow

WIDTH, HEADS, VOCABULARY = 24, 3, 50


class Attention(nn.Module):
    def __init__(self, is_causal: bool = False):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=i != 1) for i in range(4))
        self.is_causal = is_causal

    def forward(self, x, source=None):
        source = x if source is None else source
        q, k, v = (
            layer(y).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for layer, y in ((self.q, x), (self.k, source), (self.v, source))
        )
        return self.out(attend(q, k, v, is_causal=self.is_causal).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Self attention, attention to what an encoder gave, and a network of two layers, each added to its input."""

    def __init__(self, is_decoder: bool):
        super().__init__()
        self.own, self.cross = Attention(is_decoder), Attention() if is_decoder else None
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, source=None):
        x = x + self.own(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), source)
        return x + self.mlp(self.norms[2](x))


class Encoder(nn.Module):
    """Of Whisper's form: sound as bands of frequencies, two convolutions, places, and attention without a mask."""

    def __init__(self, bands: int = 10, most: int = 20):
        super().__init__()
        self.first, self.second = nn.Conv1d(bands, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1)
        self.register_buffer("places", torch.randn(most, WIDTH))
        self.blocks = nn.ModuleList(Block(False) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = nn.functional.gelu(self.second(nn.functional.gelu(self.first(x)))).transpose(1, 2)
        x = x + self.places[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Decoder(nn.Module):
    """Of Whisper's form: text of any length sees what came before it, and all that the encoder gave."""

    def __init__(self, most: int = 16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(torch.randn(most, WIDTH))
        self.blocks = nn.ModuleList(Block(True) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, sound):
        x = self.tokens(ids) + self.places[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, sound)
        return self.norm(x) @ self.tokens.weight.t()


class VisionTransformer(nn.Module):
    """Patches as words, and one word more whose result is the picture's class."""

    def __init__(self, classes: int = 7):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.word, self.places = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 13, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.word.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.head(self.layers(x)[:, 0])


def check_whole(module: nn.Module, calls: list[tuple], path, dynamic=None) -> None:
    with torch.no_grad():
        ops = export(module.eval(), calls[0], path, dynamic)
        assert "et_vk.sdpa.default" in ops
        check(module, path, *calls)


def test_encoder_of_sound_is_one_delegate(tmp_path):
    torch.manual_seed(0)
    dynamic = ({2: 2 * Dim("half", min=2, max=20)},)
    check_whole(Encoder(), [tensors((1, 10, n)) for n in (14, 40, 4)], tmp_path / "model.pte", dynamic)


def test_decoder_of_text_is_one_delegate_of_any_length(tmp_path):
    torch.manual_seed(0)
    calls = [
        (torch.arange(n).unsqueeze(0) * 7 % VOCABULARY, *tensors((1, m, WIDTH))) for n, m in ((5, 9), (16, 20), (2, 3))
    ]
    dynamic = ({1: Dim("length", min=1, max=16)}, {1: Dim("sound", min=2, max=20)})
    check_whole(Decoder(), calls, tmp_path / "model.pte", dynamic)


def test_vision_transformer_is_one_delegate(tmp_path):
    torch.manual_seed(0)
    check_whole(VisionTransformer(), [tensors((2, 3, 16, 12))], tmp_path / "model.pte")
