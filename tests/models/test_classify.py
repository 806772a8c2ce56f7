"""Pictures by name: examples/classify.py, as ./run --classify calls it, with the real weights."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
sys.path.append(str(EXAMPLES))

from export_efficientnet import samples  # noqa: E402
from pictures import PictureError, read_picture  # noqa: E402
from PIL import Image  # noqa: E402


def classify(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, EXAMPLES / "classify.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, env=dict(os.environ))


@pytest.fixture(scope="module")
def report() -> dict:
    done = classify("--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def labels(picture: dict, way: str) -> list[str]:
    return [answer["label"] for answer in picture[way]]


def test_real_pictures_are_named_rightly(report, device_name):
    assert report["device"] == device_name
    pictures = {picture["name"]: picture for picture in report["pictures"]}
    cats = {"tabby", "tiger cat", "Egyptian cat"}
    for way in ("fp32", "int8", "torch"):
        assert set(labels(pictures["chelsea.png"], way)[:3]) == cats
        assert labels(pictures["coffee.png"], way)[0] == "espresso"
        assert labels(pictures["motorcycle_left.png"], way)[0] == "moped"
        assert labels(pictures["rocket.jpg"], way)[0] == "missile"
        # ImageNet has no astronauts: a helmet is what there is to see.
        assert "football helmet" in labels(pictures["astronaut.png"], way)[:2]


def test_fp32_says_what_torch_says(report):
    for picture in report["pictures"]:
        assert labels(picture, "fp32") == labels(picture, "torch")
        for got, wanted in zip(picture["fp32"], picture["torch"], strict=True):
            assert got["share"] == pytest.approx(wanted["share"], abs=1e-4)


def test_int8_is_near(report):
    for picture in report["pictures"]:
        assert labels(picture, "torch")[0] in labels(picture, "int8")[:3]
        assert len(set(labels(picture, "int8")) & set(labels(picture, "torch"))) >= 3


def test_a_table_shows_all_three_side_by_side_and_bad_files_are_named(tmp_path):
    (tmp_path / "note.txt").write_text("no picture")
    done = classify(samples()[1], tmp_path / "note.txt", tmp_path / "missing.png", "--top", 2)
    assert done.returncode == 1
    assert "coffee.png, 600 x 400\nfp32" in "\n".join(line.rstrip() for line in done.stdout.splitlines())
    assert done.stdout.count("espresso") == 3
    assert "1 picture on " in done.stdout
    assert done.stderr.splitlines() == [
        f"classify: '{tmp_path}/note.txt' is no picture of a kind that Pillow can read",
        f"classify: '{tmp_path}/missing.png' cannot be read: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--top", "0"], 2, "--top must be from 1 to 1000, but is 0"),
        (["/nonexistent.png"], 1, "'/nonexistent.png' cannot be read: No such file or directory"),
        (["--device", "abacus"], 1, 'no device matches "abacus"'),
    ],
)
def test_wrong_use_is_one_sentence(arguments, code, sentence):
    done = classify(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def saved(path: Path, image: Image.Image, **options) -> np.ndarray:
    image.save(path, **options)
    return read_picture(path).astype(int)


def test_all_kinds_of_pictures_become_upright_rgb(tmp_path):
    """A picture whose upper left quarter is red, in every mode."""
    base = np.full((40, 60, 3), (20, 200, 90), np.uint8)
    base[:20, :30] = (220, 30, 30)
    image = Image.fromarray(base)
    wanted = base.astype(int)

    def near(got: np.ndarray, other=wanted, most: int = 6) -> None:
        assert got.shape == other.shape
        assert np.abs(got - other)[4:16, 4:26].max() <= most
        assert np.abs(got - other)[24:, 34:].max() <= most

    near(saved(tmp_path / "rgb.png", image), most=0)
    near(saved(tmp_path / "rgb.jpg", image, quality=95))
    near(saved(tmp_path / "cmyk.jpg", image.convert("CMYK"), quality=95))
    near(saved(tmp_path / "palette.gif", image.quantize(8)))
    grey = np.repeat(np.asarray(image.convert("L"))[..., None], 3, 2).astype(int)
    near(saved(tmp_path / "grey.png", image.convert("L")), grey, 0)
    near(saved(tmp_path / "black_and_white.png", image.convert("1")).clip(0, 255), grey, 255)
    wide = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    near(saved(tmp_path / "wide.png", wide), grey, 0)
    # What is transparent is white.
    clear = image.copy()
    clear.putalpha(Image.fromarray(np.where(wanted[..., 0] == 220, 0, 255).astype(np.uint8)))
    near(saved(tmp_path / "clear.png", clear), np.where(wanted == wanted[0, 0], 255, wanted), 0)
    # A camera that was held on its side: the file says how to turn the pixels.
    exif = Image.Exif()
    exif[0x0112] = 6
    near(saved(tmp_path / "turned.jpg", image.transpose(Image.Transpose.ROTATE_90), quality=95, exif=exif))


def test_broken_pictures_are_refused_with_a_sentence(tmp_path, monkeypatch):
    def sentence(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(PictureError) as error:
            read_picture(path)
        assert "\n" not in str(error.value)
        return str(error.value).removeprefix(f"'{path}' ")

    assert sentence("empty.png", b"") == "is empty"
    assert sentence("text.png", b"hello") == "is no picture of a kind that Pillow can read"
    whole = samples()[0].read_bytes()
    assert sentence("cut.png", whole[: len(whole) // 2]).startswith(("cannot be read: ", "is a broken picture: "))
    with pytest.raises(PictureError, match="cannot be read: Is a directory"):
        read_picture(tmp_path)
    monkeypatch.setattr("pictures.MOST_PIXELS", 100_000)
    assert sentence("huge.png", whole) == "has 451 x 300 pixels, but at most 0 million can be read"
