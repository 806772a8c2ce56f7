// Files of models that lie or mean harm: what is said about them is always one sentence.

import assert from "node:assert/strict";
import { test } from "node:test";
import { NibbleError } from "../../src/errors.js";
import { describe } from "../../src/generate/description.js";
import { ChatTemplate } from "../../src/generate/template.js";
import { ModelTokenizer } from "../../src/generate/tokenizer.js";

function refusal(call: () => unknown): NibbleError {
  try {
    call();
  } catch (error) {
    assert.ok(error instanceof NibbleError, String(error));
    assert.doesNotMatch(error.message, /\n/);
    assert.ok(error.message.length < 1000, error.message);
    return error;
  }
  return assert.fail("what should fail did not");
}

const lies: Record<string, Record<string, unknown>> = {
  no_stop_ids: {},
  stop_ids_of_words: { stop_ids: ["a"] },
  stop_ids_of_truth: { stop_ids: [true] },
  stop_ids_below_zero: { stop_ids: [-1] },
  stop_ids_too_large: { stop_ids: [4294967296] },
  stop_ids_of_fractions: { stop_ids: [1.5] },
  stop_ids_like_a_list: { stop_ids: { length: 1, 0: 1 } },
  bos_in_words: { stop_ids: [], add_bos: true, bos_id: "x" },
  add_bos_in_words: { stop_ids: [], add_bos: "yes", bos_id: 1 },
  eos_in_words: { stop_ids: [], eos_id: "x" },
  template_list: { stop_ids: [], chat_template: [{ name: "default" }] },
  name_of_numbers: { stop_ids: [], name: 7 },
  program_elsewhere: { stop_ids: [], program: "../../other.pte" },
  program_of_another_server: { stop_ids: [], program: "//elsewhere/model.pte" },
  program_with_a_query: { stop_ids: [], program: "model.pte?x" },
  program_escaped: { stop_ids: [], program: "..%2fother.pte" },
  program_number: { stop_ids: [], program: 1 },
  program_nothing: { stop_ids: [], program: ".." },
  program_empty: { stop_ids: [], program: "" },
  other_format: { stop_ids: [], format: 2 },
};

for (const [name, facts] of Object.entries(lies)) {
  test(`description_that_lies_is_one_sentence_${name}`, () => {
    const error = refusal(() => describe(facts, "x/generation.json"));
    assert.equal(error.code, "invalid_program");
    assert.match(error.message, /^x\/generation\.json cannot be used: /);
  });
}

test("description_has_defaults_and_null_is_as_if_it_were_not_there", () => {
  const { name, program, eosId, addsBos, chatTemplate } = describe(
    { stop_ids: [7], bos_id: null, add_bos: true, name: null },
    "x",
  );
  assert.deepEqual(
    [name, program, eosId, addsBos, chatTemplate],
    ["a language model", "model.pte", 7, false, undefined],
  );
  assert.equal(describe({ stop_ids: [7, 8], eos_id: 8 }, "x").eosId, 8);
  assert.equal(describe({ stop_ids: [] }, "x", "other.pte").program, "other.pte");
  const { message } = refusal(() => describe({ stop_ids: [], program: "a.pte" }, "x", "b.pte"));
  assert.equal(message, "x cannot be used: it belongs to 'a.pte' and not to 'b.pte'");
});

/** Changes of a tokenizer.json. */
const tokenizers: Record<string, object> = {
  other_json: { model: undefined },
  no_model: { model: null },
  model_of_words: { model: "BPE" },
  no_vocabulary: { model: { type: "BPE", merges: [] } },
  vocabulary_of_numbers: { model: { type: "BPE", vocab: 7, merges: [] } },
  vocabulary_of_words: { model: { type: "BPE", vocab: { a: "b" }, merges: [] } },
  merges_of_numbers: { model: { type: "BPE", vocab: { a: 0 }, merges: [1, 2] } },
  no_decoder: { decoder: null },
  other_decoder: { decoder: { type: "WordPiece", prefix: "##", cleanup: true } },
  decoder_of_words: { decoder: "ByteLevel" },
  decoders_of_nothing: { decoder: { type: "Sequence", decoders: [null] } },
  added_object: { added_tokens: { id: 1 } },
  added_without_names: { added_tokens: [{ id: 1 }] },
  added_without_numbers: { added_tokens: [{ id: "1", content: "x" }] },
  pattern_that_is_none: {
    pre_tokenizer: { type: "Split", pattern: { Regex: "((" }, behavior: "Isolated", invert: false },
  },
};

const good = {
  model: { type: "BPE", vocab: { a: 0, b: 1, ab: 2 }, merges: [["a", "b"]] },
  added_tokens: [],
  pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
  decoder: { type: "ByteLevel" },
};
test("tokenizer_that_does_not_lie_is_taken", () => {
  const tokenizer = new ModelTokenizer(good, "x");
  assert.deepEqual([tokenizer.encode("aab"), tokenizer.decode([0, 2])], [[0, 2], "aab"]);
  assert.deepEqual(tokenizer.encode("abc"), [2], "as Python's library, it leaves out what it has no token for");
});

for (const [name, changes] of Object.entries(tokenizers)) {
  test(`tokenizer_that_lies_is_one_sentence_${name}`, () => {
    const error = refusal(() => new ModelTokenizer({ ...good, ...changes }, "x/tokenizer.json"));
    assert.ok(["invalid_program", "unsupported"].includes(error.code), error.message);
    assert.match(error.message, /^x\/tokenizer\.json /);
  });
}

const templates: Record<string, string> = {
  power: "{{ 9 ** 9 ** 9 ** 9 }}",
  long: "{{ 'a' * 10000000000 }}",
  many: "{% for i in range(100000000) %}x{% endfor %}",
  loops_in_loops: "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = 1 %}{% endfor %}{% endfor %}",
  doubled: "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
  doubled_list: "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
  itself: "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
  inside: "{{ messages.constructor.constructor('return 1')() }}",
  import: "{% import 'os' as os %}{{ os.name }}",
  half: "{{ '\ud800' }}",
  unknown_filter: "{{ messages | no_such_filter }}",
  unknown_function: "{{ fetch('http://localhost') }}",
};

for (const [name, text] of Object.entries(templates)) {
  test(`template_that_means_harm_is_one_sentence_${name}`, () => {
    const { message } = refusal(() => new ChatTemplate(text, {}).render([{ role: "user", content: "hello" }]));
    assert.match(message, /^the chat template (?:cannot be read|fails on these messages): /);
  });
}
