// What holds of texts that must look like something, in Node and on a page.

import type { GenerateOptions, Generation } from "../../src/generate.js";
import { failureOf } from "./cases.js";
import { type Check, must, reasonOf, same, says } from "./check.js";
import { folder, tinyOf } from "./tiny_model.js";

const stopIds: number[] = [];

/** Of texts that end within the tiny model's context. */
const PERSON = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 8 },
    age: { type: "integer", minimum: 0, maximum: 150 },
    tags: { type: "array", items: { enum: ["red", "blue", "grün 😀"] }, minItems: 1, maxItems: 2 },
    size: { type: "number", exclusiveMinimum: 0, maximum: 2.5 },
  },
  required: ["name", "age", "tags"],
  additionalProperties: false,
};

interface Person {
  name: string;
  age: number;
  tags: string[];
  size?: number;
}

function isPerson(text: string): boolean {
  const { name, age, tags, size = 1, ...rest } = JSON.parse(text) as Person;
  const characters = Array.from(name).length;
  return (
    characters >= 1 &&
    characters <= 8 &&
    Number.isInteger(age) &&
    age >= 0 &&
    age <= 150 &&
    [1, 2].includes(tags.length) &&
    tags.every((tag) => ["red", "blue", "grün 😀"].includes(tag)) &&
    size > 0 &&
    size <= 2.5 &&
    Object.keys(rest).length === 0
  );
}

async function textOf(generation: Generation): Promise<string> {
  let text = "";
  for await (const piece of generation) text += piece.text;
  same(text, generation.text, "the pieces together");
  return text;
}

export const constrainedChecks: Record<string, Check> = {
  every_text_fits_its_schema: async (env) => {
    const { model, golden } = await tinyOf(env);
    const found = new Set<string>();
    for (let seed = 0; seed < 4; ++seed) {
      const options: GenerateOptions = { jsonSchema: PERSON, seed, temperature: 1.5 };
      if (seed % 3 === 1) options.topK = 40; // chosen among candidates, where these are enough
      if (seed % 3 === 2) options.stopIds = stopIds;
      const generation = model.generate([...golden.prompt.slice(0, 20), seed], options);
      const text = await textOf(generation);
      must(isPerson(text), `${text} with the seed ${seed}`);
      same(generation.finishReason, "stop", `why ${text} ended`);
      found.add(text);
    }
    must(found.size > 2, `only ${found.size} texts differ`);
  },

  what_is_forced_is_written_and_ends: async (env) => {
    const { model, golden } = await tinyOf(env);
    const write = async (options: GenerateOptions): Promise<[string, string | null]> => {
      const generation = model.generate(golden.prompt, { ...options, stopIds });
      return [await textOf(generation), generation.finishReason];
    };
    same(await write({ jsonSchema: { const: { a: [1, "é😀"] } } }), ['{"a":[1,"é😀"]}', "stop"], "one value");
    same(await write({ grammar: 'root ::= "yes" x\nx ::= ", " "sir"{2}' }), ["yes, sirsir", "stop"], "one text");
    same(await write({ grammar: 'root ::= ""' }), ["", "stop"], "no text");
    same(await write({ jsonSchema: "true", maxTokens: 1 }).then(([, why]) => why), "length", "why a short one ended");
    const [digits] = await write({ regex: "^\\d{3,5}$", temperature: 1, seed: 3 });
    must(/^\d{3,5}$/.test(digits), digits);
    const [object] = await write({ jsonObject: true, maxTokens: 40, temperature: 1, seed: 4 });
    must(object.trimStart().startsWith("{"), object);
  },

  constraint_that_cannot_be_used_is_one_sentence_and_the_session_goes_on: async (env) => {
    const { model, golden } = await tinyOf(env);
    const thrown = await failureOf(
      env,
      (async () => model.generate(golden.prompt, { jsonSchema: { type: "array", uniqueItems: true } }))(),
    );
    says(thrown, "unsupported", "the JSON schema cannot be used here: # has uniqueItems");
    const generation = model.generate(golden.prompt, { grammar: 'root ::= "a" | y' });
    says(await failureOf(env, generation.run()), "invalid_argument", "line 1 of the grammar: there is no rule 'y'");
    says(await failureOf(env, generation.next()), "invalid_argument", "there is no rule 'y'");
    // A character that no token of the model has a byte of would be the end of it.
    const next = model.generate(golden.prompt, { grammar: 'root ::= "ok"', stopIds });
    same([await next.run(), next.finishReason], ["ok", "stop"], "the next");
    const plain = model.generate(golden.prompt, { maxTokens: 3, stopIds });
    await plain.run();
    same(plain.ids, golden.tokens.slice(0, 3), "tokens without a constraint");
  },

  abort_ends_a_constrained_text_and_the_session_goes_on: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    const stop = new AbortController();
    const options = { grammar: "root ::= [a-z]{3,200}", temperature: 1, seed: 1, stopIds, signal: stop.signal };
    const generation = session.generate(golden.prompt, options);
    const read = async (): Promise<void> => {
      for await (const _ of generation) if (generation.text.length >= 3) stop.abort(new Error("enough"));
    };
    same(String(await reasonOf(read())), "Error: enough", "what the loop throws");
    must(/^[a-z]{3,}$/.test(generation.text), generation.text);
    same(generation.finishReason, "cancelled", "why it ended");
    // While what constraints need is being loaded.
    const early = new AbortController();
    const waiting = session.generate(golden.prompt, { ...options, signal: early.signal });
    const done = reasonOf(waiting.run());
    early.abort(new Error("at once"));
    same(String(await done), "Error: at once", "what one throws that had not begun");
    const next = session.generate(golden.prompt, { grammar: 'root ::= "z"{3}', stopIds });
    same(await textOf(next), "zzz", "the next");
    session.dispose();
  },

  constraints_are_loaded_only_where_they_are_used: async (env) => {
    const { device } = (await tinyOf(env)).model;
    const constraintWasm = new Uint8Array([1, 2, 3]);
    const model = await env.generate.LanguageModel.load(folder(env), { device, cache: false, constraintWasm });
    await model.generate([1, 2, 3], { maxTokens: 1, stopIds }).run();
    const failure = await failureOf(env, model.generate([1, 2, 3], { jsonObject: true }).run());
    says(failure, "io", "the module constraint.wasm, given as bytes, is none");
    await model.generate([1, 2, 3], { maxTokens: 1, stopIds }).run();
    model.dispose();
  },
};

/** Those that a browser runs every day. */
export const browserConstrainedChecks = ["what_is_forced_is_written_and_ends"];
