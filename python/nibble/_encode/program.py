"""What the programs of encoders have in common."""

import torch
from torch import Tensor, nn

# The largest batch that they take.
MAX_BATCH = 32


def mean(x: Tensor, mask: Tensor, normalize: bool) -> Tensor:
    """The mean of the rows [batch, n, width] that the mask [batch, n] keeps, or its direction: [batch, width]."""
    # Sums keep their dimension: others stay outside the delegate.
    total = (x * mask[:, :, None]).sum(1, keepdim=True)
    # For the direction, the mean's divisor would only change the length. `1 / x` would stay outside the delegate.
    if normalize:
        result = total * torch.rsqrt((total * total).sum(2, keepdim=True))
    else:
        result = total / mask.sum(1, keepdim=True)[:, :, None]
    return result.squeeze(1)


def export_program(module: nn.Module, max_length: int, max_batch: int = MAX_BATCH):
    """The stock exporter's, of ids int64 [batch, n] and mask float32 [batch, n], for any sizes up to these."""
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import to_edge_transform_and_lower

    sizes = {
        0: torch.export.Dim("batch", min=1, max=max_batch),
        1: torch.export.Dim("length", min=1, max=max_length),
    }
    example = torch.ones(3, 7, dtype=torch.long), torch.ones(3, 7)
    exported = torch.export.export(module.eval(), example, dynamic_shapes=(sizes, sizes), strict=False)
    # Takes quantized weights apart into what the partitioner knows.
    exported = exported.run_decompositions({})
    return to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner({})]).to_executorch()
