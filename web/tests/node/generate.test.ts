// Text generation in Node, on Dawn.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ModelTokenizer } from "../../src/generate/tokenizer.js";
import type { Environment } from "../support/cases.js";
import { closeKeptDevice } from "../support/check.js";
import { nodeEnvironment } from "../support/dawn.js";
import { constrainedChecks } from "../support/constrained_checks.js";
import { generateChecks } from "../support/generate_checks.js";
import { hostileChecks } from "../support/hostile_checks.js";
import { tinyOf } from "../support/tiny_model.js";
import { cases, isFull, makeServer, root } from "../support/places.js";

const server = makeServer();
let env: Environment;
before(async () => {
  env = await nodeEnvironment(await server.start());
});
after(async () => {
  await closeKeptDevice(env);
  server.stop();
});

const all = { ...generateChecks, ...constrainedChecks, ...hostileChecks };
for (const [name, check] of Object.entries(all)) test(name, () => check(env));

const tokenizers = join(cases, "generate", "tokenizers");
const ids = JSON.parse(readFileSync(join(tokenizers, "ids.json"), "utf8")) as Record<string, [string, number[]][]>;
for (const [name, pairs] of Object.entries(ids)) {
  test(`tokens_of_${name}_are_those_of_the_library_for_python`, () => {
    const described = JSON.parse(readFileSync(join(tokenizers, `${name}.json`), "utf8")) as Record<string, unknown>;
    const tokenizer = new ModelTokenizer(described, name);
    for (const [text, wanted] of pairs) assert.deepEqual(tokenizer.encode(text), wanted, JSON.stringify(text));
  });
}

test("model_comes_from_a_folder", async () => {
  const { device } = (await tinyOf(env)).model;
  const folder = join(cases, "generate", "tiny");
  for (const from of [folder, join(folder, "model.pte")]) {
    const model = await env.generate.LanguageModel.load(from, { device });
    assert.equal(model.name, "tiny");
    model.dispose();
  }
  const none = env.generate.LanguageModel.load(cases, { device });
  await assert.rejects(none, { code: "io", message: /generation\.json cannot be read/ });
});

test("abort_does_not_wait_for_what_constraints_need", async () => {
  let tell = (): void => undefined;
  const asked = new Promise<void>((resolve) => (tell = resolve));
  const silent = createServer(() => tell()); // and never answers
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const constraintWasm = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/constraint.wasm`;
  const { device } = (await tinyOf(env)).model;
  const model = await env.generate.LanguageModel.load(join(cases, "generate", "tiny"), { device, constraintWasm });
  try {
    const stop = new AbortController();
    const generation = model.generate([1, 2], { jsonObject: true, signal: stop.signal });
    const running = assert.rejects(generation.run(), /enough/);
    await asked;
    stop.abort(new Error("enough"));
    await running;
    assert.equal(generation.finishReason, "cancelled");
    await model.generate([1, 2], { maxTokens: 1, stopIds: [] }).run();
  } finally {
    silent.closeAllConnections();
    silent.close();
    model.dispose();
  }
});

const smollm2 = join(root, "build", "smollm2");
test("smollm2_knows_the_capital_of_france", { skip: !isFull || !existsSync(smollm2) }, async () => {
  const device = await env.nibble.open(env.options);
  const model = await env.generate.LanguageModel.load(smollm2, { device });
  const generation = model.generate("What is the capital of France?", { maxTokens: 20 });
  assert.match(await generation.run(), /Paris/);
  console.log(generation.text, generation.stats);
  device.destroy();
});
