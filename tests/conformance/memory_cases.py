"""Constants and state: buffers that a program writes keep their value from call to call."""

import numpy as np
import torch

from conformance.case import Case

# Without it the exporter leaves a buffer's new value in a tensor of its own, and the next call starts anew.
MUTATING = {"alias_buffer_mutations": True}


def floats(rng, *shape) -> np.ndarray:
    return np.asarray(rng.uniform(-2, 2, shape), np.float32)


def accumulate(m, x):
    m.total += x
    return m.total * 1


def replace(m, x):
    before = m.last + x
    m.last[...] = x * 2
    return before


def replace_torch(m, x):
    before = m.last + x
    m.last.copy_(x * 2)
    return before


def two_states(m, x):
    m.sum += x
    m.product *= x
    return m.sum + m.product


def state_and_constant(m, x):
    scaled = m.state * x
    m.state *= m.state
    m.state += m.constant
    return scaled, m.state + m.constant


def centre(m, x):
    m.state += x * m.state.mean(0, keepdims=True)
    return m.state + 0


def count(m, x):
    m.calls += 1
    return x + m.calls


STATE = [
    Case(
        name="state_accumulates",
        torch=accumulate,
        numpy=accumulate,
        calls=lambda rng: [(floats(rng, 5),) for _ in range(4)],
        buffers=lambda rng: {"total": np.zeros(5, np.float32)},
        options=MUTATING,
        rtol=1e-6,
    ),
    Case(
        name="state_is_replaced",
        torch=replace_torch,
        numpy=replace,
        calls=lambda rng: [(floats(rng, 2, 3),) for _ in range(3)],
        buffers=lambda rng: {"last": floats(rng, 2, 3)},
        options=MUTATING,
    ),
    # Both start as the same bytes, which the file holds once.
    Case(
        name="states_with_equal_bytes",
        torch=two_states,
        numpy=two_states,
        calls=lambda rng: [(floats(rng, 5),) for _ in range(3)],
        buffers=lambda rng: {"sum": np.ones(5, np.float32), "product": np.ones(5, np.float32)},
        options=MUTATING,
        rtol=1e-6,
    ),
    Case(
        name="state_and_constant_with_equal_bytes",
        torch=state_and_constant,
        numpy=state_and_constant,
        calls=lambda rng: [(floats(rng, 4, 3),) for _ in range(3)],
        buffers=lambda rng: dict.fromkeys(("state", "constant"), floats(rng, 4, 3) * np.float32(0.3)),
        options=MUTATING,
        rtol=1e-5,
        atol=1e-6,
    ),
    # Every element written depends on others that are overwritten.
    Case(
        name="state_read_before_written",
        torch=lambda m, x: (m.state.add_(x * m.state.mean(0, keepdim=True)), m.state + 0)[1],
        numpy=centre,
        calls=lambda rng: [(floats(rng, 4, 3),) for _ in range(3)],
        buffers=lambda rng: {"state": floats(rng, 4, 3)},
        options=MUTATING,
        rtol=1e-5,
        atol=1e-5,
    ),
    Case(
        name="state_counts",
        torch=count,
        numpy=count,
        calls=lambda rng: [(np.arange(4, dtype=np.int32),) for _ in range(3)],
        buffers=lambda rng: {"calls": np.zeros(1, np.int32)},
        options=MUTATING,
    ),
    Case(
        name="state_with_dynamic_input",
        torch=lambda m, x: (m.total.add_(x.sum(0, keepdim=True)), x + m.total)[1],
        numpy=lambda m, x: (m.total.__iadd__(x.sum(0, keepdims=True)), x + m.total)[1],
        calls=lambda rng: [(floats(rng, n, 3),) for n in (2, 7, 0, 1, 8)],
        buffers=lambda rng: {"total": np.zeros((1, 3), np.float32)},
        dynamic=({0: torch.export.Dim("n", max=8)},),
        options=MUTATING,
        rtol=1e-5,
        atol=1e-5,
    ),
]

CONSTANTS = [
    Case(
        name="constants_with_equal_bytes",
        torch=lambda m, x: (x + m.one, x * m.other),
        numpy=lambda m, x: (x + m.one, x * m.other),
        calls=lambda rng: [(floats(rng, 5),) for _ in range(2)],
        buffers=lambda rng: dict.fromkeys(("one", "other"), floats(rng, 5)),
    ),
    Case(
        name="constant_is_output",
        torch=lambda m, x: (x + 1, m.constant + 0),
        numpy=lambda m, x: (x + 1, m.constant),
        calls=lambda rng: [(floats(rng, 5),) for _ in range(2)],
        buffers=lambda rng: {"constant": floats(rng, 2, 2)},
    ),
]

ALL = STATE + CONSTANTS
