"""Text generation with SmolLM2: bench/generate.py MODEL.gguf FOLDER [--rounds N] [--device SELECTOR] [--json FILE].

FOLDER is what `nibble import` made of MODEL.gguf. Ratios are of times in one run, in turns; rates are of this machine
alone. generate_page.py makes tables of the JSON files of several adapters.

The peer is ExecuTorch's XNNPACK delegate on the same cores, with weights of the same file: in 4 bits, as its stock
export quantizes them (8da4w), and dequantized (fp32); see generate_peer.py.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
from generate_peer import CHUNK, CONTEXT

import nibble
from nibble import _native
from nibble._native import Tensor, check, lib

HERE = Path(__file__).resolve().parent
DECODED, DECODED_AFTER = 48, (32, 512)
BARE = "decode after {}: bare steps / whole loop, time"
PROMPTS = (1, 32, 128, 512)
CANDIDATES = 64
COMMAND = str(Path(sys.executable).with_name("nibble"))
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 5},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


def tokens(count: int) -> list[int]:
    return [100 + (37 * place) % 1000 for place in range(count)]


class Steps:
    """Calls of a model that take the tokens from a place on, and give the likeliest next one or nothing."""

    def __call__(self, some: list[int], place: int) -> None:
        raise NotImplementedError

    def prefill(self, count: int, chunk: int = CHUNK) -> float:
        """Seconds for a prompt."""
        start = time.perf_counter()
        for place in range(0, count, chunk):
            self(tokens(count)[place : place + chunk], place)
        return time.perf_counter() - start

    def decode(self, prompt: int) -> float:
        """Seconds for steps with tokens that are known, after a prompt."""
        start = time.perf_counter()
        for step in range(DECODED):
            self([100 + step], prompt + step)
        return time.perf_counter() - start


class BareSteps(Steps):
    """Nothing but the program's calls: the candidates are read back, and nobody looks at them."""

    def __init__(self, session: nibble.Session):
        self._session = session
        self._results = [np.empty(CANDIDATES, np.float32), np.empty(CANDIDATES, np.int32), np.empty(1, np.float32)]

    def __call__(self, some: list[int], place: int) -> None:
        given = [np.array([some]), np.array([place])]
        inputs, outputs = (Tensor * 2)(), (Tensor * 4)()
        for tensor, array in (*zip(inputs, given, strict=True), *zip(outputs[1:], self._results, strict=True)):
            tensor.dtype = _native.DTYPES.index(array.dtype.name)
            tensor.rank, tensor.data, tensor.bytes = array.ndim, array.ctypes.data, array.nbytes
            tensor.shape[: array.ndim] = array.shape
        # A slice of a ctypes array is a list of views, so the outputs above are filled.
        with self._session._handle.use() as native:
            check(lib.nibble_session_set_inputs(native, inputs, 2))
            check(lib.nibble_session_execute(native, outputs, 4))


class PeerSteps(Steps):
    """The same by ExecuTorch; the likeliest token is found as its runners do, on the host."""

    def __init__(self, path: Path):
        from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (caches and attention, outside XNNPACK)
        from executorch.runtime import Runtime

        self._program = Runtime.get().load_program(path)
        self._method = self._program.load_method("forward")

    def __call__(self, some: list[int], place: int) -> None:
        import torch

        (logits,) = self._method.execute([torch.tensor([some]), torch.tensor([place])])
        logits.argmax()


def peer(gguf: Path, kind: str) -> PeerSteps:
    out = HERE.parent / "build" / "bench" / f"smollm2-xnnpack-{kind}.pte"
    if not out.exists():
        print(f"exporting {out.name}: minutes, once", file=sys.stderr, flush=True)
        command = [sys.executable, HERE / "generate_peer.py", gguf, out, *(["--fp32"] if kind == "fp32" else [])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return PeerSteps(out)


def loop_time(model: nibble.LanguageModel, prompt: int) -> tuple[float, dict]:
    """Seconds from the first token to the last, and the figures."""
    with model.session() as session:
        generation = session.generate(tokens(prompt), max_tokens=DECODED + 1, stop_ids=[])
        next(generation)
        start = time.perf_counter()
        generation.run()
        return time.perf_counter() - start, generation.stats


def measure_decode(model: nibble.LanguageModel, peers: dict[str, PeerSteps], rounds: int, figures: dict) -> None:
    with nibble.load(model.program, model.device, candidates=CANDIDATES) as plain, plain.session() as session:
        bare = BareSteps(session)
        for prompt in DECODED_AFTER:
            times: dict[str, list[float]] = {}
            for _ in range(rounds):
                bare.prefill(prompt)
                times.setdefault("bare steps", []).append(bare.decode(prompt))
                times.setdefault("whole loop", []).append(loop_time(model, prompt)[0])
                for name, steps in peers.items():
                    steps.prefill(prompt)
                    times.setdefault(name, []).append(steps.decode(prompt))
            of = f"decode after {prompt}: "
            for name, taken in times.items():
                figures[f"{of}{name}, tokens per second"] = DECODED / statistics.median(taken)
            for name, taken in times.items():
                if name != "whole loop":
                    figures[f"{of}{name} / whole loop, time"] = ratio(taken, times["whole loop"])


def measure_prompts(model: nibble.LanguageModel, peers: dict[str, PeerSteps], rounds: int, figures: dict) -> None:
    for prompt in PROMPTS:
        ours, first, theirs = [], [], {name: [] for name in peers}
        for _ in range(rounds):
            stats = loop_time(model, prompt)[1]
            ours.append((stats["prompt_eval_end_ms"] - stats["inference_start_ms"]) / 1e3)
            first.append(stats["time_to_first_token_ms"])
            for name, steps in peers.items():
                theirs[name].append(steps.prefill(prompt))
        of = f"prompt of {prompt}: "
        figures[f"{of}time to first token, ms"] = statistics.median(first)
        figures[f"{of}tokens per second"] = prompt / statistics.median(ours)
        for name, taken in theirs.items():
            figures[f"{of}{name}, tokens per second"] = prompt / statistics.median(taken)
            figures[f"{of}{name} / Nibble, time"] = ratio(taken, ours)


def measure_mask(model: nibble.LanguageModel, figures: dict) -> None:
    """What a constraint takes: to read the schema, with the first mask; and for each token, its mask and to take it."""
    from nibble._text.constraint import Constraint

    taken: dict[str, list[float]] = {"__init__": [], "allowed": [], "take": []}

    def timed(name: str) -> Callable:
        plain = getattr(Constraint, name)

        def call(*arguments, **options):
            start = time.perf_counter()
            try:
                return plain(*arguments, **options)
            finally:
                taken[name].append(time.perf_counter() - start)

        return call

    with mock.patch.multiple(Constraint, **{name: timed(name) for name in taken}):
        for seed in range(5):
            prompt = "Describe a person in JSON."
            model.generate(prompt, json_schema=SCHEMA, temperature=1, seed=seed, max_tokens=80).run()
    each = [mask + take for mask, take in zip(taken["allowed"], taken["take"], strict=False)]
    figures["JSON schema: tokens of the vocabulary"] = float(model.vocabulary().size)
    figures["JSON schema: ms per token"] = statistics.mean(each) * 1e3
    figures["JSON schema: ms of a token at most"] = max(each) * 1e3
    figures["JSON schema: ms to read it, with the first mask"] = statistics.median(taken["__init__"]) * 1e3


def measure_dispatches(model: nibble.LanguageModel, figures: dict) -> None:
    for prompt in (1, 512):
        stats = loop_time(model, prompt)[1]
        calls = -(-prompt // CHUNK)
        with model.session() as session:
            generation = session.generate(tokens(prompt), max_tokens=1, stop_ids=[])
            generation.run()
            before = generation.stats
        figures[f"decode after {prompt}: dispatches per token"] = (stats["dispatches"] - before["dispatches"]) / (
            stats["calls"] - calls
        )


def profile(model: nibble.LanguageModel, shown: Callable[[str], None]) -> list[dict]:
    """Where the GPU's time goes in a step, op by op; none where the adapter has no timestamps."""
    tables = []
    device = ["--device", str(model.device.info.number), "--engine", model.device.info.engine]
    with tempfile.TemporaryDirectory() as folder:
        for count, place in ((1, 32), (1, 512), (CHUNK, 0)):
            paths = [Path(folder) / name for name in ("tokens.npy", "place.npy")]
            np.save(paths[0], np.array([tokens(count)]))
            np.save(paths[1], np.array([place]))
            inputs = [part for path in paths for part in ("--input", str(path))]
            command = [COMMAND, "run", str(model.program), *inputs, *device, "--candidates", str(CANDIDATES)]
            done = subprocess.run([*command, "--profile", "--repeat", "5", "--json"], capture_output=True, text=True)
            if done.returncode != 0:
                shown(f"no profile: {done.stderr.strip()}")
                return tables
            ops = json.loads(done.stdout)["gpu_times"]
            whole = sum(op["microseconds"] for op in ops)
            shown(f"a call of {count} at {place}: {whole / 1e3:.2f} ms on the GPU")
            for op in ops[:8]:
                of_all = op["microseconds"] / whole
                shown(f"  {of_all:6.1%}  {op['dispatches']:4} x  {op['op']}  {op['kernel']}")
            tables.append({"tokens": count, "place": place, "ops": ops})
    return tables


def ratio(taken: list[float], reference: list[float]) -> float:
    """The median of the ratios of each round."""
    return statistics.median(one / other for one, other in zip(taken, reference, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--least", type=float, default=0, help="exit with 1 if the loop's rate is below so many bare ones"
    )
    arguments = parser.parse_args()
    peers = {f"XNNPACK {kind}": peer(arguments.gguf, kind) for kind in ("8da4w", "fp32")}
    figures: dict = {}
    with nibble.LanguageModel(arguments.folder, arguments.device) as model:
        if max(PROMPTS) + DECODED >= min(CONTEXT, model.context_length):
            parser.error(f"the context of {arguments.folder} is too short: {model.context_length}")
        figures["device"] = f"{model.device.name}, {model.device.info.engine}"
        measure_decode(model, peers, arguments.rounds, figures)
        measure_prompts(model, peers, arguments.rounds, figures)
        measure_dispatches(model, figures)
        measure_mask(model, figures)
        for name, figure in figures.items():
            print(f"{name:<60} {figure if isinstance(figure, str) else format(figure, '.3f')}")
        figures["profile"] = profile(model, print)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))
    return int(min(figures[BARE.format(prompt)] for prompt in DECODED_AFTER) < arguments.least)


if __name__ == "__main__":
    sys.exit(main())
