"""nibble check: every variant on this machine, the report and the exit code."""

import argparse
import getpass
import json
import os
import re
import resource
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nibble
from conformance.command import NO_GPU, fail, pytestmark, succeed  # noqa: F401
from conformance.programs import IS_QUICK
from conformance.variants import FULL, Chooser, every_variant
from nibble._check import check as checking
from nibble._check.cases import Case, cases, names
from nibble._commands import check as command

FEW = ["transposed", "embedding, 4-bit", "sums of lines"]


@pytest.fixture
def report(tmp_path) -> Path:
    return tmp_path / "report.json"


def options(report: Path) -> argparse.Namespace:
    return argparse.Namespace(device=None, engine=None, output=str(report), json=False, time_ms=20000)


def test_cases_that_are_chosen_are_right_and_told(report):
    told = succeed("check", "--output", report, *(part for name in FEW for part in ("--case", name)))
    facts = json.loads(report.read_text())
    assert facts["complete"]
    assert (facts["wrong"], facts["notes"]) == (0, [])
    assert f"{facts['checked']} of {facts['checked']} results right" in told
    taken = {(row["choice"], row["variant"]) for row in facts["rows"]}
    assert {("move", "transposed"), ("move", "walk"), ("embedding_q4gsw", "word"), ("fold", "lanes")} <= taken
    for row in facts["rows"]:
        assert row["right"]
        assert row["call_us"] > 0
        assert (row["kernel_us"] is None) == (row["choice"] == "")
        assert not row["variant"] or f"{row['choice']}={row['variant']} " in told


def test_report_says_nothing_about_the_user(report):
    printed = succeed("check", "--json", "--output", report, "--case", "transposed")
    assert json.loads(printed) == json.loads(report.read_text())
    assert {"nibble", "device", "driver", "engine", "profile", "rows"} <= json.loads(printed).keys()
    for word in (getpass.getuser(), socket.gethostname(), str(Path.home()), str(report.parent), "/tmp"):
        assert not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", printed), word
    assert "program.pte" not in printed


def test_wrong_results_are_named_and_give_exit_code_1(report, capsys):
    def broken():
        for case in cases():
            if case.name == "transposed":
                case.program.wanted[0][3, 5] += np.float32(1)
                yield case

    assert command.run(options(report), ["transposed"], broken) == 1
    said = capsys.readouterr()
    assert "nibble: transposed: move=walk: its results differ from NumPy's\n" in said.err
    assert "WRONG" in said.out
    assert json.loads(report.read_text())["wrong"] == 3


def test_a_program_that_fails_is_wrong_and_the_path_is_not_told(report, capsys):
    def broken():
        for case in cases():
            if case.name == "transposed":
                case.program.pte = lambda: b"no program"
                yield replace(case)

    assert command.run(options(report), ["transposed"], broken) == 1
    assert "nibble: transposed: as chosen here: " in capsys.readouterr().err
    assert "/" not in json.loads(report.read_text())["rows"][0]["message"]


def test_a_case_whose_variants_cannot_be_measured_is_wrong(report, monkeypatch, capsys):
    def broken(path, *_, **__):
        raise nibble.NibbleError(f"{path} cannot be measured")

    monkeypatch.setattr(checking, "tune", broken)
    assert command.run(options(report), ["transposed"]) == 1
    said = capsys.readouterr().err
    assert "its variants cannot be measured: program.pte cannot be measured" in said
    assert [row["right"] for row in json.loads(report.read_text())["rows"]] == [True, False]


def test_a_node_that_cannot_be_measured_is_wrong(report, monkeypatch, capsys):
    refused = "aten.permute_copy.default: cannot be measured by itself: compiling the kernel move failed"

    def without_choices(*arguments, **named):
        (tuning,) = nibble.tune(*arguments, **named)["tunings"]
        return {"tunings": [tuning | {"choices": [], "refused": [refused]}]}

    monkeypatch.setattr(checking, "tune", without_choices)
    assert command.run(options(report), ["transposed"]) == 1
    assert f"its variants cannot be measured: {refused}" in capsys.readouterr().err
    assert [row["right"] for row in json.loads(report.read_text())["rows"]] == [True, False]


def test_kept_tunings_do_not_count_and_none_is_kept(report, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("NIBBLE_CACHE", str(cache))
    monkeypatch.setenv("NIBBLE_TUNE", "1")
    loads = []

    def load(*arguments, **named):
        loads.append(os.environ["NIBBLE_TUNE"])
        return nibble.load(*arguments, **named)

    monkeypatch.setattr(checking, "load", load)
    assert command.run(options(report), ["transposed"]) == 0
    assert loads
    assert set(loads) == {"0"}
    assert not cache.exists()
    assert os.environ["NIBBLE_TUNE"] == "1"


def test_ctrl_c_leaves_a_report_of_what_is_known(report, monkeypatch):
    compared = []

    def interrupt(model, case, row):
        if compared:
            raise KeyboardInterrupt
        compared.append(case)
        row["right"] = True

    monkeypatch.setattr(checking.Check, "_compare", staticmethod(interrupt))
    with pytest.raises(KeyboardInterrupt):
        command.run(options(report), names())
    facts = json.loads(report.read_text())
    assert (facts["complete"], facts["checked"]) == (False, 1)


def test_wrong_usage_is_told(report):
    assert "no case has 'nonesuch' in its name" in fail("check", "--case", "nonesuch", code=2, env=NO_GPU)
    assert "must be at least 1" in fail("check", "--time-ms", "0", code=2, env=NO_GPU)
    for digits in (23, 5000):
        told = fail("check", "--time-ms", "9" * digits, code=2, env=NO_GPU)
        assert f"--time-ms must be at most 9223372036854775807, but is {'9' * digits}\n" in told
    fail("check", "--output", report, env=NO_GPU)
    assert not report.exists()


def test_a_report_that_cannot_be_written_leaves_the_old_one(report, monkeypatch):
    report.write_text("the old one")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    full_report = checking.Check.report

    def report_on_a_full_disk(check) -> dict:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        return full_report(check)

    monkeypatch.setattr(checking.Check, "report", report_on_a_full_disk)
    given = options(report)
    given.json = True  # so that nothing is said of the device before the work
    try:
        with pytest.raises(nibble.NibbleError, match=f"^'{report}' cannot be written: File too large$"):
            command.run(given, ["transposed"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert report.read_text() == "the old one"
    assert list(report.parent.iterdir()) == [report]


def test_errors_are_parts_of_what_is_usual():
    wanted = np.array([1, -1, 0], np.float32)
    assert checking.error_of(wanted, wanted) == 0
    assert checking.error_of(wanted + np.float32(0.5), wanted) == pytest.approx(0.5 / np.sqrt(2 / 3), rel=1e-3)
    assert checking.error_of(np.array([1, np.nan, 0], np.float32), wanted) == np.inf
    assert checking.error_of(wanted[:2], wanted) == np.inf
    assert checking.error_of(np.array([3], np.int8), np.array([-100], np.int8)) == 103


def test_cases_make_every_choice_that_is_listed(tmp_path):
    chooser, path = chooser_in(tmp_path), tmp_path / "program.pte"
    made = {one["choice"] for case in cases() for one in chooser.variants(written(case, path), *flags_of(case))}
    assert made == {choice for choice, _ in every_variant()}


@pytest.mark.skipif(IS_QUICK or not FULL, reason="takes minutes; ./test full")
def test_all_cases_are_right_and_reach_every_variant(report, tmp_path):
    succeed("check", "--output", report)
    taken = {(row["case"], row["choice"], row["variant"]) for row in json.loads(report.read_text())["rows"]}
    right = right_variants(chooser_in(tmp_path), tmp_path / "program.pte")
    assert right - taken == set()
    # All choices that there are, but where one variant alone is right at any size.
    assert {choice for choice, _ in every_variant()} - {choice for _, choice, _ in right} <= {"attention_keys"}


def chooser_in(folder: Path) -> Chooser:
    """Of this device."""
    profile = folder / "profile.json"
    profile.write_text(json.dumps(nibble.Device().info.profile))
    return Chooser(profile)


def written(case: Case, path: Path) -> Path:
    path.write_bytes(case.program.pte())
    return path


def flags_of(case: Case) -> list[str]:
    return [word for name, value in case.program.options.items() for word in (f"--{name}", str(value))]


def right_variants(chooser: Chooser, path: Path) -> set[tuple[str, str, str]]:
    """Of all cases, what the planner takes on this device if it is forced, where it has a choice."""
    right = set()
    for case in cases():
        flags = flags_of(case)
        made = {one["choice"] for one in chooser.variants(written(case, path), *flags)}
        for choice in made:
            names = [variant for one, variant in every_variant() if one == choice]
            taken = [
                name
                for name in names
                if (choice, name)
                in {
                    (one["choice"], one["chosen"])
                    for one in chooser.variants(path, "--variant", f"{choice}={name}", *flags)
                }
            ]
            right |= {(case.name, choice, name) for name in taken if len(taken) > 1}
    return right
