"""The WGSL that packages carry: without blanks that have no meaning."""

import re
from pathlib import Path

import pytest

from embed_wgsl import read, text, without_blanks

ROOT = Path(__file__).resolve().parents[2]
TOKENS = re.compile(r"\w+|[(){}\[\],;:]|[^\w\s(){}\[\],;:]+")


@pytest.mark.parametrize(
    ("wgsl", "squeezed"),
    [
        (
            "@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;",
            "@group(0)@binding(1)var<storage,read>x:array<vec4<f32>>;",
        ),
        ("fn f(i: u32) -> vec4<f32> {", "fn f(i:u32)->vec4<f32>{"),
        ("let v: vec4<f32> = -a - -b;", "let v:vec4<f32> = -a- -b;"),
        ("if (i < params.quads && !(done)) { return; }", "if(i<params.quads&& !(done)){return;}"),
        ("@compute @workgroup_size(WG)", "@compute @workgroup_size(WG)"),
        ("let p = &tile; let q = *p * 2.0;", "let p= &tile;let q= *p*2.0;"),
        ("a[i] += 1u;\nb = 0xeu - 1u;", "a[i]+=1u;\nb=0xeu-1u;"),
    ],
)
def test_blanks_without_meaning_go(wgsl, squeezed):
    assert without_blanks(wgsl) == squeezed


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.wgsl")), ids=lambda path: path.stem)
def test_words_and_operators_of_kernels_stay_apart(path):
    for module in read(path):
        wgsl = text(module.body)
        assert TOKENS.findall(without_blanks(wgsl)) == TOKENS.findall(wgsl)
