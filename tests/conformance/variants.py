"""Which programs take which kernel variants. `nibble ops` and `nibble inspect` tell, without a GPU."""

import ctypes
import functools
import itertools
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nibble
from conformance import generate_cases, llm_cases
from conformance.built_programs import BuiltProgram, build_all
from conformance.cases import CASES
from conformance.command import COMMAND, NO_GPU, succeed
from conformance.programs import ExportedProgram
from nibble._engines import main_of

FULL = bool(os.environ.get("NIBBLE_TEST_FULL"))
AnyProgram = ExportedProgram | BuiltProgram


# Programs have these choices only with an option: tests/device/gpu_candidates_test.cpp forces their variants.
BY_OPTION = {"candidates"}


def every_variant() -> list[tuple[str, str]]:
    """Pairs of a choice and a variant."""
    if COMMAND is None:
        return []
    return [(one["choice"], one["variant"]) for one in json.loads(succeed("ops", "--variants", "--json", env=NO_GPU))]


def usual_variants() -> list[tuple[str, str]]:
    """Those that programs can take without an option."""
    return [pair for pair in every_variant() if pair[0] not in BY_OPTION]


def programs_by_size(folder: Path, built: Path) -> list[AnyProgram]:
    """The programs of single ops and families that run without ExecuTorch, small ones first; in the full suite also
    those that are built by hand, into the folder `built`."""
    models = {case.name for case in (*llm_cases.EVERYDAY, *generate_cases.ALL)}
    chosen = [name for name, case in CASES.items() if not case.outside and name not in models]
    programs = [ExportedProgram.get(name, folder) for name in chosen]
    if FULL:
        programs += build_all(built)
    return sorted(programs, key=lambda program: program.path.stat().st_size)


@dataclass(frozen=True)
class Chooser:
    """Tells what programs choose on the device that a file describes."""

    profile: Path

    def makes(self, program: AnyProgram) -> set[str]:
        """The choices between kernels that a program makes."""
        return {made["choice"] for made in self._variants(program.path)}

    def takes(self, program: AnyProgram, choice: str, variant: str) -> bool:
        """Whether a call of the program's case takes the variant where it is forced."""
        if choice not in self.makes(program):
            return False
        forced = ("--variant", f"{choice}={variant}")
        return any(
            (made["choice"], made["chosen"]) == (choice, variant)
            for call in self._calls(program)
            for made in self._variants(program.path, *forced, *call)
        )

    def find(self, programs: list[AnyProgram], choice: str, variant: str) -> list[AnyProgram]:
        """The first program that takes the variant; all that do in the full suite."""
        taking = (program for program in programs if self.takes(program, choice, variant))
        return list(taking if FULL else itertools.islice(taking, 1))

    def variants(self, path: Path, *options: str) -> list[dict]:
        """What a call of a program's largest shapes chooses, whatever the file was before."""
        step = json.loads(
            command_in_process("inspect", path, "--json", "--variants", "--device-profile", self.profile, *options)
        )["plan"]["step"]
        return step["variants"] if step else []

    def _calls(self, program: AnyProgram) -> list[tuple[str, ...]]:
        """Shapes and integers of the case's calls, each once, as `nibble inspect` is told them."""
        specs = self._inspect(program.path)["inputs"]
        return list(dict.fromkeys(_options(specs, inputs) for inputs, _ in program.calls()))

    def _variants(self, path: Path, *options: str) -> list[dict]:
        # Nothing is told of a call whose shapes come from its data.
        step = self._inspect(path, *options)["plan"]["step"]
        return step["variants"] if step else []

    @functools.cache  # noqa: B019  (as many as there are devices)
    def _inspect(self, path: Path, *options: str) -> dict:
        return json.loads(
            command_in_process("inspect", path, "--json", "--variants", "--device-profile", self.profile, *options)
        )


@functools.cache
def _main():
    return main_of(Path(nibble.__file__).parent / "lib" / "libnibble_command.so", "nibble_main")


def command_in_process(*arguments) -> str:
    """What the command prints, called in this process: it is asked about every program, and starting takes longest."""
    own = os.dup(1)
    with tempfile.TemporaryFile() as out:
        try:
            os.dup2(out.fileno(), 1)
            _main()(["nibble", *map(str, arguments)])
            ctypes.CDLL(None).fflush(None)
        finally:
            os.dup2(own, 1)
            os.close(own)
        out.seek(0)
        return out.read().decode()


def _options(specs: list[dict], inputs: list[np.ndarray]) -> tuple[str, ...]:
    options = []
    for index, (spec, array) in enumerate(zip(specs, inputs, strict=True)):
        if spec["kind"] == "int":
            options += ["--int", str(int(array))]
        elif spec["dynamic"]:
            options += ["--input-shape", f"{index}={','.join(map(str, array.shape))}"]
    return tuple(options)
