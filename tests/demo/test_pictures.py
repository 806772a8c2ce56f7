"""Pictures become what the model takes: the same in Python, in the page's TypeScript, and by torch."""

import base64
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from pictures import DEVIATION, MEAN, SIZE, prepare

ROOT = Path(__file__).resolve().parents[2]
SHAPES = [(256, 256), (300, 451), (1000, 700), (60, 60), (1, 1), (2, 500), (513, 512)]
SCRIPT = """
import { readFileSync } from "node:fs";
const { prepare } = await import(process.argv[2]);
const pictures = JSON.parse(readFileSync(0, "utf8"));
for (const { height, width, data } of pictures) {
  const made = prepare({ width, height, data: Uint8ClampedArray.from(Buffer.from(data, "base64")) });
  console.log(Buffer.from(made.buffer).toString("base64"));
}
"""


def pixels(shape: tuple[int, int]) -> np.ndarray:
    """Smooth and rough parts, so that a shift of half a pixel shows."""
    rng = np.random.default_rng(shape[0])
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    smooth = np.stack([rows * 255 // shape[0], columns * 255 // shape[1], (rows + columns) % 256], -1)
    return np.where(rng.random(shape)[..., None] < 0.3, rng.integers(0, 256, (*shape, 3)), smooth).astype(np.uint8)


def by_torch(picture: np.ndarray) -> np.ndarray:
    side = max(1, round(min(picture.shape[:2]) * 0.875))
    top, left = (picture.shape[0] - side) // 2, (picture.shape[1] - side) // 2
    middle = torch.from_numpy(picture[top : top + side, left : left + side].copy()).permute(2, 0, 1)[None].double()
    small = torch.nn.functional.interpolate(middle, (SIZE, SIZE), mode="bilinear", antialias=True)
    return ((small - MEAN) / DEVIATION).numpy()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pictures_are_cut_and_shrunk_as_by_torch(shape):
    made = prepare(pixels(shape))
    assert (made.dtype, made.shape) == (np.float32, (1, 3, SIZE, SIZE))
    np.testing.assert_allclose(made, by_torch(pixels(shape)), atol=1e-5)


def test_the_page_prepares_pictures_in_the_same_way(tmp_path):
    esbuild = ROOT / "web" / "node_modules" / ".bin" / "esbuild"
    module = tmp_path / "pictures.mjs"
    command = [esbuild, ROOT / "web/demo/pictures.ts", "--format=esm", "--log-level=warning", f"--outfile={module}"]
    subprocess.run(command, check=True)
    (tmp_path / "script.mjs").write_text(SCRIPT)
    given = []
    for height, width in SHAPES:
        opaque = np.full((height, width, 1), 255, np.uint8)
        data = base64.b64encode(np.concatenate([pixels((height, width)), opaque], -1).tobytes()).decode()
        given.append({"height": height, "width": width, "data": data})
    command = ["node", tmp_path / "script.mjs", module]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    for shape, line in zip(SHAPES, done.stdout.split(), strict=True):
        made = np.frombuffer(base64.b64decode(line), np.float32).reshape(1, 3, SIZE, SIZE)
        np.testing.assert_allclose(made, prepare(pixels(shape)), atol=1e-5)
