"""Says what is in pictures: EfficientNet-Lite0 in fp32 and in int8 on the GPU, and by eager torch."""

import argparse
import hashlib
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
from pictures import PictureError, prepare, read_picture

import nibble

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "classify"
WAYS = ("fp32", "int8", "torch")


@dataclass
class Picture:
    name: str
    width: int
    height: int
    data: np.ndarray  # as the model takes it
    shares: dict[str, np.ndarray] = field(default_factory=dict)  # of each class, by way

    def top(self, way: str, count: int) -> list[int]:
        return np.argsort(-self.shares[way], kind="stable")[:count].tolist()


def main() -> int:
    args = parse_arguments()
    pictures, bad = read_pictures(args.pictures)
    if pictures:
        try:
            folder = exported()
            labels = (folder / "labels.txt").read_text(encoding="utf-8").split("\n")
            device = nibble.Device(args.device)
            seconds = {way: classify(run, pictures, way) for way, run in runners(folder, device).items()}
        except nibble.NibbleError as error:
            return complain(str(error))
        (print_json if args.json else print_tables)(args, device.name, labels, pictures, seconds)
    return 1 if bad else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run --classify", description=__doc__)
    parser.add_argument(
        "pictures", nargs="*", type=Path, metavar="PICTURE", help="a file that Pillow reads, such as PNG"
    )
    parser.add_argument("--device", help="an index, a kind (cpu, integrated, discrete) or a part of an adapter's name")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="how many classes to show; default: 5")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if not 1 <= args.top <= 1000:
        parser.error(f"--top must be from 1 to 1000, but is {args.top}")
    return args


def complain(message: str) -> int:
    print(f"classify: {message}", file=sys.stderr)
    return 1


def read_pictures(paths: list[Path]) -> tuple[list[Picture], int]:
    """Those that can be read, and how many cannot; without paths, the pictures of scikit-image."""
    if not paths:
        from export_efficientnet import samples

        paths = samples()
    pictures: list[Picture] = []
    for path in paths:
        try:
            pixels = read_picture(path)
        except PictureError as error:
            complain(str(error))
        else:
            pictures.append(Picture(path.name, pixels.shape[1], pixels.shape[0], prepare(pixels)))
    return pictures, len(paths) - len(pictures)


def exported(folder: Path = FOLDER) -> Path:
    """Where the programs are; made once, and again when something that goes into them has changed."""
    pins = (ROOT / "examples" / "requirements-classify.txt").read_text()
    sources = [(ROOT / "examples" / name).read_text() for name in ("export_efficientnet.py", "pictures.py")]
    sources += [path.read_text() for path in sorted(Path(nibble.__file__).parent.glob("*.py"))]
    versions = [f"{name}=={version(name)}" for name in ("executorch", "torch", "torchao")]
    key = hashlib.sha256("\n".join([*versions, pins, *sources]).encode()).hexdigest()
    key_file = folder / "key"
    if key_file.exists() and key_file.read_text() == key:
        return folder
    print(
        "classify: exporting EfficientNet-Lite0 in fp32 and int8 (once, a minute or two)", file=sys.stderr, flush=True
    )
    folder.mkdir(parents=True, exist_ok=True)
    key_file.unlink(missing_ok=True)
    # In a process of its own: the exporter takes much memory and says much that is of no interest here.
    command = [sys.executable, str(ROOT / "examples" / "export_efficientnet.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise nibble.NibbleError(f"the export failed:\n{done.stderr[-2000:]}")
    key_file.write_text(key)
    return folder


def runners(folder: Path, device: nibble.Device) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    import torch
    from export_efficientnet import network

    module = network()

    def by_torch(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module(torch.from_numpy(x)).numpy()

    models = {way: nibble.load(folder / f"{way}.pte", device) for way in ("fp32", "int8")}
    return {**models, "torch": by_torch}


def classify(run: Callable[[np.ndarray], np.ndarray], pictures: list[Picture], way: str) -> float:
    """Fills in the shares; gives the seconds that a call takes, after a first one."""
    run(pictures[0].data)
    times = []
    for picture in pictures:
        start = time.perf_counter()
        logits = run(picture.data).reshape(-1).astype(np.float64)
        times.append(time.perf_counter() - start)
        powers = np.exp(logits - logits.max())
        picture.shares[way] = powers / powers.sum()
    return statistics.median(times)


def print_tables(args, device: str, labels: list[str], pictures: list[Picture], seconds: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for picture in pictures:
        title = Text(f"{picture.name}, {picture.width} x {picture.height}")
        table = Table(title=title, title_justify="left", title_style="bold", pad_edge=False, box=None)
        for way in WAYS:
            table.add_column(way, no_wrap=True, min_width=25, overflow="ellipsis")
        ranked = {way: picture.top(way, args.top) for way in WAYS}
        for row in range(args.top):
            cells = []
            for way in WAYS:
                number = ranked[way][row]
                moved = "" if number == ranked["torch"][row] else "yellow"
                cells.append(Text(f"{picture.shares[way][number]:6.1%}  {labels[number]}", style=moved))
            table.add_row(*cells)
        console.print(table)
        console.print()

    count = len(pictures)
    ratios = {way: seconds[way] / seconds["torch"] for way in ("fp32", "int8")}
    same = {way: sum(p.top(way, 1) == p.top("torch", 1) for p in pictures) for way in ratios}
    all_same = {way: sum(p.top(way, args.top) == p.top("torch", args.top) for p in pictures) for way in ratios}
    console.print(
        f"{count} {'picture' if count == 1 else 'pictures'} on {device}; time of a call, where torch's is 1: "
        f"fp32 {ratios['fp32']:.2f}, int8 {ratios['int8']:.2f}\n"
        f"The same first {args.top} as torch: fp32 {all_same['fp32']} of {count}, int8 {all_same['int8']} of {count}; "
        f"the same first one: fp32 {same['fp32']}, int8 {same['int8']}",
        markup=False,
        soft_wrap=True,
    )


def print_json(args, device: str, labels: list[str], pictures: list[Picture], seconds: dict[str, float]) -> None:
    def answer(picture: Picture, way: str) -> list[dict]:
        shares = picture.shares[way]
        return [{"class": n, "label": labels[n], "share": float(shares[n])} for n in picture.top(way, args.top)]

    report = {
        "device": device,
        "relative_time": {way: seconds[way] / seconds["torch"] for way in ("fp32", "int8")},
        "pictures": [
            {"name": p.name, "width": p.width, "height": p.height} | {way: answer(p, way) for way in WAYS}
            for p in pictures
        ],
    }
    print(json.dumps(report, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    # A reader such as head may stop early; that is no failure.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
