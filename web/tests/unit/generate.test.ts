// The pure parts of text generation: settings, texts of tokens, templates.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { NibbleError } from "../../src/errors.js";
import { factsOf } from "../../src/generate/generator.js";
import { Sampler } from "../../src/generate/sampler.js";
import { Sequence } from "../../src/generate/sequence.js";
import { takeSettings } from "../../src/generate/settings.js";
import { ChatTemplate } from "../../src/generate/template.js";
import { TextModule } from "../../src/generate/text_module.js";
import { TextStream } from "../../src/generate/text_stream.js";
import { ModelTokenizer } from "../../src/generate/tokenizer.js";
import type { ValueInfo } from "../../src/types.js";
import { root } from "../support/places.js";

let text: TextModule;
before(async () => {
  text = await TextModule.load(readFileSync(join(root, "web", "dist", "generate.wasm")));
});

/** What a stream hands out for each of these bytes, and at the end. */
function streamed(stops: string[], ...parts: number[][]): string[] {
  const stream = new TextStream(text, stops);
  const out = parts.map((part) => stream.push(Uint8Array.from(part)));
  out.push(stream.finish());
  stream.free();
  return out;
}

const bytes = (letters: string): number[] => [...new TextEncoder().encode(letters)];

test("character_of_several_tokens_is_handed_out_whole", () => {
  const [smile, rest] = [bytes("😀"), bytes("é!")];
  assert.deepEqual(
    streamed([], smile.slice(0, 1), smile.slice(1, 3), [...smile.slice(3), ...rest.slice(0, 1)], rest.slice(1)),
    ["", "", "😀", "é!", ""],
  );
  assert.deepEqual(streamed([], [0xf0, 0x9f], bytes("a")), ["", "\ufffda", ""]);
  assert.deepEqual(streamed([], bytes("\ufeffa"), [0xc3]), ["\ufeffa", "", "\ufffd"]);
});

test("stop_string_across_tokens_is_not_handed_out", () => {
  assert.deepEqual(streamed(["END"], bytes("xE"), bytes("N"), bytes("Dy")), ["x", "", "", ""]);
  assert.deepEqual(streamed(["END"], bytes("xE"), bytes("NE"), bytes("!")), ["x", "EN", "E!", ""]);
  assert.deepEqual(streamed(["é"], [0xc3], [0xa9]), ["", "", ""]);
  assert.deepEqual(streamed(["END"], bytes("EN")), ["", "EN"]);
  assert.throws(() => new TextStream(text, ["x", ""]), { code: "invalid_argument", message: "stop string 1 is empty" });
});

test("sequence_tells_what_to_compute", () => {
  const sequence = Sequence.make(text, 8, 100);
  const ends = { stopIds: [9], maxTokens: 3 };
  assert.equal(sequence.begin(Int32Array.of(1, 2, 3), ends), 0);
  assert.deepEqual([...sequence.next(2)], [1, 2]);
  sequence.advance(2);
  assert.throws(() => sequence.push(4), { message: /1 tokens are still to be computed/ });
  sequence.advance(1);
  assert.equal(sequence.push(4), "none");
  const fork = sequence.copy();
  fork.advance(1);
  assert.equal(fork.push(9), "stop_id");
  assert.equal(sequence.begin(Int32Array.of(1, 2, 5), ends), 2);
  assert.throws(() => sequence.begin(new Int32Array(9), ends), {
    message: "the prompt has 9 tokens, but the context holds 8",
  });
  assert.throws(() => sequence.rewind(3), { code: "out_of_range", message: /2 tokens are computed/ });
  for (const one of [sequence, fork]) one.free();
});

test("sampler_chooses_by_settings_seed_and_step", () => {
  const sequence = Sequence.make(text, 100, 4);
  sequence.begin(Int32Array.of(3, 3, 3), { stopIds: [], maxTokens: 0 });
  const choose = (options: object, logits: number[], allowed?: number[]): number => {
    const sampler = new Sampler(text, takeSettings(options, []), 4);
    const { id } = sampler.fromLogits(sequence, Float32Array.from(logits), allowed && Uint32Array.from(allowed));
    sampler.free();
    return id;
  };
  assert.equal(choose({}, [1, 2, 2, 0]), 1);
  assert.equal(choose({}, [1, 2, 2, 0], [0b1001]), 0);
  // Once for each distinct token, not for each of its three places.
  assert.equal(choose({ repetitionPenalty: 2 }, [1, 2, 3, 5]), 2);
  assert.equal(choose({ repetitionPenalty: 2 }, [1, 2, 2.4, 5]), 3);
  assert.equal(choose({ logitBias: { 0: 9 } }, [1, 2, 2, 0]), 0);
  const drawn = Array.from({ length: 50 }, (_, seed) => choose({ temperature: 1, seed }, [1, 1, 1, -100]));
  assert.deepEqual([...new Set(drawn)].sort(), [0, 1, 2]);
  assert.throws(() => choose({}, [1, 2]), { message: /there are 2 logits, but the vocabulary has 4 tokens/ });
  assert.throws(() => choose({}, [1, NaN, 2, 3]), { code: "out_of_range", message: "the logit of token 1 is NaN" });
  const sampler = new Sampler(text, takeSettings({ temperature: 1 }, []), 4);
  const top = { logits: Float32Array.of(2, 1), ids: Int32Array.of(1, 0), total: 1.6 };
  assert.equal(sampler.fromCandidates(sequence, top), undefined);
  const greedy = new Sampler(text, takeSettings({ topLogprobs: 1 }, []), 4);
  const choice = greedy.fromCandidates(sequence, top)!;
  assert.equal(choice.id, 1);
  assert.ok(Math.abs(choice.logprob + Math.log(1.6)) < 1e-7);
  assert.deepEqual(choice.top, [{ id: 1, logprob: choice.logprob }]);
});

test("settings_have_defaults_and_a_seed_that_can_be_told", () => {
  const settings = takeSettings({}, [7]);
  assert.deepEqual([settings.stopIds, settings.temperature, settings.repetitionWindow], [[7], 0, 64]);
  assert.ok(Number.isSafeInteger(settings.seed));
  assert.notEqual(settings.seed, takeSettings({}, []).seed);
  assert.equal(takeSettings({ seed: 2n ** 64n - 1n }, []).seed, 2n ** 64n - 1n);
  assert.throws(() => takeSettings({ seed: 2n ** 64n }, []), { message: /below 2\^64/ });
  assert.equal(takeSettings({ topLogprobs: 2 }, []).logprobs, true);
  assert.deepEqual(takeSettings({ stop: "x" }, []).stop, ["x"]);
});

test("template_writes_as_the_one_for_python", () => {
  const of = (template: string, tokens = {}): string =>
    new ChatTemplate(template, tokens).render([{ role: "user", content: "Hi" }]);
  assert.equal(
    of("{{ bos_token }}{% for m in messages %}\n  {{ m.role }}\n{% endfor %}", { bos_token: "<s>" }),
    "<s>  user\n",
  );
  assert.equal(
    of("{% if add_generation_prompt %}{{ messages | tojson }}{% endif %}"),
    '[{"role": "user", "content": "Hi"}]',
  );
  assert.equal(of("{% for i in range(1, 4) %}{{ i }}{% endfor %}{{ 7 if none is none and True }}"), "1237");
  assert.match(of("{{ strftime_now('%d %b %Y') }}"), /^\d\d [A-Z][a-z]{2} \d{4}$/);
  assert.throws(() => of("{{ strftime_now('%Q') }}"), { message: /fails on these messages: .*does not know %Q/ });
  assert.throws(() => of("{{ raise_exception('no') }}"), { message: "the chat template refuses these messages: no" });
  assert.throws(() => new ChatTemplate("{% if %}", {}), { code: "invalid_program", message: /cannot be read/ });
  const empty = new ChatTemplate("", {});
  for (const [messages, why] of [
    [[], /at least one message/],
    ["x", /must be a list/],
    [[3], /messages\[0\] must be an object/],
    [[{ role: "user", content: 3 }], /messages\[0\]\.content must be text/],
  ] as const) {
    assert.throws(
      () => empty.render(messages as never),
      (error) => error instanceof NibbleError && why.test(error.message),
    );
  }
});

test("tokens_are_bytes_in_both_kinds_of_tokenizers", () => {
  const added = [
    { id: 3, content: "<|end|>", special: true },
    { id: 4, content: "<tool>", special: false },
  ];
  const describe = (vocab: string[], decoder: object): Record<string, unknown> => ({
    model: { type: "BPE", vocab: Object.fromEntries(vocab.map((word, id) => [word, id])), merges: [] },
    added_tokens: added.map((token) => ({
      ...token,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
    })),
    decoder,
  });
  const bytelevel = new ModelTokenizer(describe(["Ġ", "Ã", "©"], { type: "ByteLevel" }), "x");
  assert.equal(bytelevel.decode([0, 1, 2, 3, 4, 99, 1]), " é<tool>\ufffd");
  const pieces = { type: "Sequence", decoders: [{ type: "ByteFallback" }, { type: "Fuse" }] };
  const sentence = new ModelTokenizer(describe(["▁a", "<0xC3>", "<0xA9>"], pieces), "x");
  assert.equal(sentence.decode([0, 1, 2]), " aé");
  assert.throws(() => new ModelTokenizer(describe(["a"], { type: "WordPiece" }), "t.json"), {
    code: "unsupported",
    message: /t\.json has a decoder of kind WordPiece/,
  });
});

test("programs_that_are_no_language_models_are_told", () => {
  const value = (dtype: string, shape: number[]): ValueInfo =>
    ({ name: "x", dtype, shape, dynamic: true, isInteger: false }) as ValueInfo;
  const good = {
    inputs: [value("int64", [1, 16]), value("int64", [1])],
    outputs: [value("float32", [1, 100])],
    states: [{ role: "key_cache", dtype: "float32" as const, shape: [1, 32, 2, 8], rowAxis: 1, rows: 0 }],
  };
  const { vocabulary, chunk, context, candidates } = factsOf(good, 0);
  assert.deepEqual([vocabulary, chunk, context, candidates], [100, 16, 32, undefined]);
  for (const [change, why] of [
    [{ inputs: [value("int64", [1, 16])] }, /its inputs are others/],
    [{ inputs: [value("int64", [2, 16]), value("int64", [1])] }, /its inputs are others/],
    [{ inputs: [value("int64", [1, 16]), value("float32", [1])] }, /its second input is no position/],
    [{ outputs: [value("int64", [1, 100])] }, /its first output is no logits/],
    [{ outputs: [value("float32", [1, 2 ** 24])] }, /its vocabulary is larger than any/],
    [{ states: [] }, /it keeps no cache/],
  ] as const) {
    assert.throws(() => factsOf({ ...good, ...change } as never, 0), { code: "unsupported", message: why });
  }
});

test("module_that_is_another_is_told", async () => {
  const planner = readFileSync(join(root, "web", "dist", "nibble.wasm"));
  await assert.rejects(TextModule.load(planner), {
    code: "invalid_argument",
    message: /is not Nibble's generate.wasm/,
  });
  await assert.rejects(TextModule.load(new Uint8Array(8)), { code: "io" });
});
