"""A few random graphs, all that the search ever found, and the search itself."""

from dataclasses import replace

import pytest

from search.check import Checker
from search.draw import MAX_RANK
from search.generate import alone, generate
from search.graph import Graph
from search.minimize import minimize
from search.search import FINDS
from search.table import TABLE, Near


@pytest.fixture(scope="module")
def checker():
    return Checker()


@pytest.mark.parametrize("number", range(8))
def test_random_graph_gives_what_torch_gives(number, checker):
    graph = generate(1, number)
    assert checker.check(graph) is None, graph.text()


RANKS = range(MAX_RANK + 1)
# They make tensors of numbers, or are about numbers alone.
WITHOUT_TENSORS = {
    f"aten.{name}" for name in ("full.default", "zeros.default", "ones.default", "scalar_tensor.default")
}
WITHOUT_TENSORS |= {"aten.arange.start_step", "add", "sub", "mul", "floordiv"}


def check_alone(checker, op: str, ranks, numbers, *attempts) -> int:
    """Checks an op by itself at some ranks, and gives the number of graphs."""
    graphs = [
        graph for rank in ranks for number in numbers if (graph := alone(op, rank, number, *attempts)) is not None
    ]
    for graph in graphs:
        assert checker.check(graph) is None, graph.text()
    return len(graphs)


@pytest.mark.parametrize("op", TABLE)
def test_op_alone_gives_what_torch_gives(op, checker):
    # Another rank for each op; `./test full` takes all of them.
    first = sum(op.encode()) % len(RANKS)
    ranks = [*RANKS[first:], *RANKS[:first]]
    # Few attempts: most time would go to ranks that an op does not take.
    assert any(check_alone(checker, op, [rank], [0], 4) for rank in ranks) or op in WITHOUT_TENSORS


@pytest.mark.slow
@pytest.mark.parametrize("op", TABLE)
def test_op_alone_gives_what_torch_gives_at_every_rank(op, checker):
    assert check_alone(checker, op, RANKS, range(4)) or op in WITHOUT_TENSORS


@pytest.mark.parametrize("path", sorted(FINDS.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path, checker):
    assert checker.check(Graph.parse(path.read_text())) is None


def test_same_seed_gives_the_same_graphs():
    assert generate(5, 3).text() == generate(5, 3).text()
    assert generate(5, 3).text() != generate(5, 4).text()
    graph = generate(5, 3)
    assert Graph.parse(graph.text()).text() == graph.text()


def test_wrong_form_is_found_and_made_small(monkeypatch, checker):
    name = "aten.permute_copy.default"
    entry = TABLE[name]
    graph = next(g for g in (generate(2, n) for n in range(100)) if any(node.op == name for node in g.nodes))
    assert checker.check(graph) is None
    # Wrong in one element.
    monkeypatch.setitem(TABLE, name, replace(entry, eager=lambda x, dims: Near(_first_changed(x.permute(dims)))))
    found = checker.check(graph)
    assert found is not None
    assert found.op == name
    small = minimize(graph, lambda g: (f := checker.check(g)) is not None and f.op == name)
    assert [node.op for node in small.nodes] == [name]
    assert small.calls == 1
    assert len(small.sources) == 1
    assert all(size <= 2 for size in small.sources[0].shapes[0])


def _first_changed(x):
    changed = x.clone().reshape(-1)
    if changed.numel():
        changed[0] = changed[0] == 0
    return changed.reshape(x.shape)
