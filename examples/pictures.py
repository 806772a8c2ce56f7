"""Pictures for EfficientNet-Lite0: read from files, and made ready as the model was trained. web/demo/pictures.ts does
the same.
"""

import os
from pathlib import Path

import numpy as np

SIZE = 224
# The middle of a picture that the model sees: it was trained on 224 of 256 pixels.
SHARE = 224 / 256
MEAN, DEVIATION = 127.0, 128.0
MOST_PIXELS = 64_000_000


class PictureError(Exception):
    """One sentence about a file."""


def prepare(pixels: np.ndarray) -> np.ndarray:
    """uint8 [height, width, 3] to the model's input, float32 [1, 3, 224, 224]."""
    side = max(1, round(min(pixels.shape[:2]) * SHARE))
    top, left = ((size - side) // 2 for size in pixels.shape[:2])
    weights = resampling(side)
    planes = []
    for channel in range(3):
        plane = pixels[top : top + side, left : left + side, channel].astype(np.float32)
        planes.append(weights @ plane @ weights.T)
    return ((np.stack(planes) - MEAN) / DEVIATION)[None].astype(np.float32)


def resampling(side: int) -> np.ndarray:
    """Each row says how much of each of `side` pixels goes into one of 224: a triangle as wide as two of the larger."""
    scale = side / SIZE
    centres = (np.arange(SIZE) + 0.5) * scale
    distances = np.abs(np.arange(side) + 0.5 - centres[:, None])
    weights = np.maximum(0, 1 - distances / max(scale, 1))
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def read_picture(path: Path) -> np.ndarray:
    """The pixels of a file that Pillow can read, upright, as uint8 [height, width, 3]; what is transparent is white."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # the limit is below, with a sentence
    try:
        if path.is_file() and os.path.getsize(path) == 0:
            raise PictureError(f"'{path}' is empty")
        with Image.open(path) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise PictureError(
                    f"'{path}' has {width} x {height} pixels, but at most {MOST_PIXELS // 10**6} million can be read"
                )
            return flatten(ImageOps.exif_transpose(image))
    except UnidentifiedImageError:
        raise PictureError(f"'{path}' is no picture of a kind that Pillow can read") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise PictureError(f"'{path}' cannot be read: {reason}") from None
    except (ValueError, SyntaxError, EOFError, MemoryError) as error:
        raise PictureError(f"'{path}' is a broken picture: {error or type(error).__name__}") from None


def flatten(image) -> np.ndarray:
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits of grey
        wide = np.asarray(image).astype(np.int64)
        image = Image.fromarray((wide // (257 if wide.max(initial=0) > 255 else 1)).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return np.asarray(image.convert("RGB"))
