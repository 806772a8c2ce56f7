"""Which programs take which kernel variants. `nibble ops` and `nibble inspect` tell, without a GPU."""

import ctypes
import functools
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nibble
from conformance import generate_cases, llm_cases
from conformance.built_programs import BuiltProgram, build_all, builders
from conformance.cases import CASES
from conformance.command import COMMAND, NO_GPU, succeed
from conformance.programs import ExportedProgram
from nibble._engines import main_of

FULL = bool(os.environ.get("NIBBLE_TEST_FULL"))
AnyProgram = ExportedProgram | BuiltProgram


# Programs have these choices only with an option: tests/device/gpu_candidates_test.cpp forces their variants.
BY_OPTION = {"candidates"}


@functools.cache
def every_variant() -> list[tuple[str, str]]:
    """Pairs of a choice and a variant."""
    if COMMAND is None:
        return []
    return [(one["choice"], one["variant"]) for one in json.loads(succeed("ops", "--variants", "--json", env=NO_GPU))]


def usual_variants() -> list[tuple[str, str]]:
    """Those that programs can take without an option."""
    return [pair for pair in every_variant() if pair[0] not in BY_OPTION]


def exported_names() -> list[str]:
    """The programs of single ops and families that run without ExecuTorch."""
    models = {case.name for case in (*llm_cases.EVERYDAY, *generate_cases.ALL)}
    return [name for name, case in CASES.items() if not case.outside and name not in models]


def program_names() -> list[str]:
    """Those of all programs that run with every variant in the full suite, also of those that are built by hand."""
    return [*exported_names(), *builders()]


def programs_by_size(folder: Path, built: Path) -> list[AnyProgram]:
    """Small ones first; in the full suite also those that are built by hand, into the folder `built`."""
    programs = [ExportedProgram.get(name, folder) for name in exported_names()]
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
        return choice in self.makes(program) and any(
            (made["choice"], made["chosen"]) == (choice, variant)
            for call in self._calls(program)
            for made in self._variants(program.path, "--variant", f"{choice}={variant}", *call)
        )

    def find(self, programs: list[AnyProgram], choice: str, variant: str) -> AnyProgram | None:
        """The first program that takes the variant."""
        return next((program for program in programs if self.takes(program, choice, variant)), None)

    def changes(self, program: AnyProgram) -> list[tuple[str, str]]:
        """All pairs of a choice and a variant that change a call of the program's case where they are forced. Where
        one changes nothing, the case has run with it already."""
        made = self.makes(program)
        return [
            (choice, variant)
            for choice, variant in usual_variants()
            if choice in made
            and any(
                self._variants(program.path, *call)
                != self._variants(program.path, "--variant", f"{choice}={variant}", *call)
                for call in self._calls(program)
            )
        ]

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
