"""A tiny language model whose calls are a prompt in chunks, and then each time the likeliest token."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conformance.case import Arrays
from conformance.llm_case import MOST, Llm
from conformance.llm_cases import llama

PROMPT, GENERATED = 45, 200
VOCABULARY = 508


@dataclass(frozen=True)
class Greedy(Llm):
    def run_calls(self, run: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[list[Arrays], list[Arrays]]:
        prompt = self._generator(0).integers(0, VOCABULARY, (1, PROMPT))
        todo = [(prompt[:, start : start + MOST], start) for start in range(0, PROMPT, MOST)]
        calls, results = [], []
        for place in range(PROMPT, PROMPT + GENERATED):
            for tokens, start in todo:
                calls.append((tokens, np.array([start])))
                results.append((run(*calls[-1]),))
            todo = [(results[-1][0].argmax().reshape(1, 1), place)]
        return calls, results


ALL = [Greedy("llm_greedy", llama(dim=96, n_layers=1, hidden_dim=160, vocab_size=VOCABULARY), context=256)]
