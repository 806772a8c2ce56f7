// What a text must look like: schemas, patterns and grammars, without a model.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { Constraints } from "../../src/generate/constraint_module.js";
import { takeSettings } from "../../src/generate/settings.js";
import type { GenerateOptions } from "../../src/generate_types.js";
import { badPatterns, patterns, refusals, schemas } from "../support/constraint_cases.js";
import { isFull, root } from "../support/places.js";

/** All bytes, and some words: they begin, end and cross what a grammar wants. */
const words = [
  '": ',
  '", "',
  "}, ",
  "\\u00",
  "é",
  "😀",
  " a",
  "true",
  "null",
  "123",
  '{"',
  "\n\n",
  '":',
  "]}",
  '\\"',
  "0.",
];
const tokens = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...words.map((word) => new TextEncoder().encode(word)),
  new Uint8Array(0),
];
const END = tokens.length - 1;

let constraints: Constraints;
before(async () => {
  constraints = await Constraints.load(readFileSync(join(root, "web", "dist", "constraint.wasm")), tokens, [END]);
});

/** Numbers that only look random, so that a test that fails fails again. */
function randomNumbers(seed: number): () => number {
  let state = seed * 2654435761 + 1;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

const grammarOf = (options: GenerateOptions): string => takeSettings(options, []).grammar!;

/** A text that is drawn token by token; the longer it is, the sooner it closes what is open. */
function draw(grammar: string, random: () => number): string {
  const constraint = constraints.make(grammar);
  const closing = [END, ...Array.from('"]}bc!', (letter) => letter.charCodeAt(0)), 256 + words.indexOf("null")];
  const bytes: number[] = [];
  for (let step = 0; !constraint.isDone; ++step) {
    assert.ok(step < 4000, `it does not end: ${Buffer.from(bytes).toString().slice(0, 400)}`);
    const allowed = constraint.allowed();
    const all = tokens.flatMap((_, id) => ((allowed[id >> 5]! >>> (id & 31)) & 1 ? [id] : []));
    const short = all.filter((id) => closing.includes(id));
    const from = short.length > 0 && random() < step / 60 ? short : all;
    const token = from[Math.floor(random() * from.length)]!;
    constraint.take(token);
    bytes.push(...tokens[token]!);
  }
  constraint.free();
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
}

function accepts(grammar: string, text: string): boolean {
  const constraint = constraints.make(grammar);
  const isAllowed = (id: number): boolean => ((constraint.allowed()[id >> 5]! >>> (id & 31)) & 1) === 1;
  try {
    return (
      [...new TextEncoder().encode(text)].every((byte) => {
        if (!isAllowed(byte)) return false;
        constraint.take(byte);
        return true;
      }) && isAllowed(END)
    );
  } finally {
    constraint.free();
  }
}

const ajv = new Ajv2020({ strict: false, ownProperties: true });
addFormats.default(ajv);

for (const [name, schema] of Object.entries(schemas)) {
  test(`texts_of_the_schema_${name}_fit_it`, () => {
    const fits = ajv.compile(schema);
    const grammar = grammarOf({ jsonSchema: schema });
    const found = new Set<string>();
    for (let seed = 0; seed < (isFull ? 1000 : 25); ++seed) {
      const text = draw(grammar, randomNumbers(seed));
      assert.ok(fits(JSON.parse(text)), `${text}: ${ajv.errorsText(fits.errors)}`);
      found.add(text);
    }
    assert.ok(found.size > 0);
  });
}

test("what_fits_a_schema_can_be_written", () => {
  for (const [name, right, wrong] of [
    [
      "person",
      ['{"name":"Ada","age":36,"tags":["a"]}', '{ "name": "é\\n", "age": 0, "tags": [ "b", "a" ] }'],
      ['{"name":"","age":1,"tags":["a"]}', '{"name":"x","tags":["a"],"age":1}', '{"name":"x","age":151,"tags":["a"]}'],
    ],
    [
      "optional",
      ['{"c":3}', '{"a":null,"c":3}', '{"a":null,"b":true,"c":3,"d":{"x":[1,"y"]}}'],
      ["{}", '{"a":null}', '{,"c":3}', '{"c":3,}'],
    ],
    [
      "open",
      ['{"ab":1,"b":"x","abc":"y"}', '{"a":2,"ab":1}'],
      ['{"ab":1,"a":"x"}', '{"ab":1,"b":1}', '{"ab":1,"ab":"x"}', '{"ab":1,"\\u0061":"x"}'],
    ],
    ["between", ["-12", "0", "345", "-9", "99"], ["-13", "346", "007", "1.0", "-", "3456"]],
    ["real", ["1.5", "1.50", "1.75", "2", "1.9999"], ["1.49", "2.1", "1", "2.01", "15", "1x5"]],
    ["negative", ["-1", "-0.001", "-123456.5"], ["0", "-0", "1", "-0.0"]],
    [
      "tree",
      ['{"value":true,"left":null,"right":{"value":false,"left":null,"right":null}}'],
      ['{"value":true,"left":null}'],
    ],
    ["anything", ['[1,{"a":[]},"x",-1.5e-3]', "null"], ["[1,]", "01", "nul", "{a:1}", "'a'"]],
    ["moment", ['"2024-02-28T23:59:59Z"'], ['"2024-13-01T00:00:00Z"', '"2024-02-28"']],
  ] as const) {
    const grammar = grammarOf({ jsonSchema: schemas[name]! });
    for (const text of right) assert.ok(accepts(grammar, text), `${name}: ${text}`);
    for (const text of wrong) assert.ok(!accepts(grammar, text), `${name}: ${text}`);
  }
});

test("schema_that_cannot_be_used_is_one_sentence", () => {
  for (const [schema, code, message] of refusals) {
    assert.throws(
      () => grammarOf({ jsonSchema: schema as object }),
      { name: "NibbleError", code, message },
      String(message),
    );
  }
  for (const length of [200, 5000, 100_000]) {
    const deep = Array.from({ length }).reduce<object>((inner) => ({ type: "array", items: inner }), {});
    assert.throws(() => grammarOf({ jsonSchema: deep }), { code: "invalid_argument", message: /nests too deeply$/ });
  }
  const circle: Record<string, unknown> = { type: "object" };
  circle.properties = { circle };
  assert.throws(() => grammarOf({ jsonSchema: circle }), {
    code: "invalid_argument",
    message: /it is no JSON: [^\n]*$/,
  });
});

test("texts_of_patterns_are_their_matches", () => {
  for (const [pattern, right, wrong] of patterns) {
    const grammar = grammarOf({ regex: pattern });
    for (const text of right) assert.ok(accepts(grammar, text), `${pattern}: ${JSON.stringify(text)}`);
    for (const text of wrong) assert.ok(!accepts(grammar, text), `${pattern}: ${JSON.stringify(text)}`);
    const whole = new RegExp(`^(?:${pattern})$`, "u");
    for (let seed = 0; seed < 25; ++seed) assert.match(draw(grammar, randomNumbers(seed)), whole);
  }
  for (const [pattern, message] of badPatterns) assert.throws(() => grammarOf({ regex: pattern }), { message });
});

test("only_one_constraint_can_be_given", () => {
  assert.throws(() => grammarOf({ regex: "a", jsonSchema: {} }), {
    message: "only one of jsonSchema and regex can be given",
  });
  assert.throws(() => grammarOf({ regex: 3 as never }), { message: "regex must be text" });
  assert.throws(() => grammarOf({ grammar: {} as never }), { message: "grammar must be text" });
  assert.equal(grammarOf({ jsonObject: false, regex: null as never }), undefined);
  assert.ok(accepts(grammarOf({ jsonObject: true }), '{"a": [1]}'));
  assert.ok(!accepts(grammarOf({ jsonObject: true }), "[1]"));
});

test("grammar_that_cannot_be_used_is_one_sentence", () => {
  assert.equal(draw('root ::= "a" | "b"', randomNumbers(1)).length, 1);
  assert.throws(() => constraints.make("root ::= x"), {
    name: "NibbleError",
    code: "invalid_argument",
    message: "line 1 of the grammar: there is no rule 'x'",
  });
  assert.throws(() => constraints.make('root ::= root "a"'), {
    message: /the rule 'root' of the grammar begins with itself/,
  });
});
