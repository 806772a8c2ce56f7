#!/usr/bin/env python3
"""Tells the web's tests which models they can run: web_index.py writes build/models/index.json."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from models.export_models import DEFAULT_OUT, MODELS, TRAINING


def write_index(out: Path) -> None:
    """One delegate, with small shapes."""
    entries = []
    for name, tolerance in (*((model.name, model.tolerance) for model in MODELS), (TRAINING, 1e-4)):
        if not (out / name / "facts.json").exists():
            continue
        facts = json.loads((out / name / "facts.json").read_text())
        if facts["operators_outside"] or len(facts["delegates"]) != 1:
            continue
        largest = max(np.abs(np.load(file)).max() for file in (out / name).glob("torch*.npy"))
        entries.append(
            {
                "name": name,
                "folder": f"models/{name}",
                **{key: facts[key] for key in ("calls", "inputs", "outputs")},
                "rtol": 0.0,
                "atol": tolerance * float(largest),
                "shardBytes": 0,
                "outside": [],
                "large": False,
                "slow": False,
            }
        )
    (out / "index.json").write_text(json.dumps(entries, indent=1))


if __name__ == "__main__":
    write_index(DEFAULT_OUT)
