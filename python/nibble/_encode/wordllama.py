"""The table of token embeddings of the package `wordllama` as an encoder: a text is the mean of its tokens' rows.

It takes ids int64 [batch, n] and mask float32 [batch, n], and gives float32 [batch, 256]: the mean, or its direction,
a vector of length one.
"""

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .._quantize import quantize_q4
from .program import mean

GROUP_SIZE = 32


class WordLlama(nn.Module):
    def __init__(self, table: np.ndarray, normalize: bool = True):
        super().__init__()
        self.normalize = normalize
        self.register_buffer("table", torch.from_numpy(table.astype(np.float32)))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return mean(functional.embedding(ids, self.table), mask, self.normalize)


class WordLlamaQ4(nn.Module):
    """The same with a table of 4 bits."""

    def __init__(self, table: np.ndarray, normalize: bool = True):
        super().__init__()
        self.normalize = normalize
        packed, scales = quantize_q4(table, GROUP_SIZE)
        self.register_buffer("packed", torch.from_numpy(packed))
        self.register_buffer("scales", torch.from_numpy(scales))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        rows = torch.ops.et_vk.embedding_q4gsw.default(self.packed, self.scales, GROUP_SIZE, ids, True)
        return mean(rows, mask, self.normalize)
