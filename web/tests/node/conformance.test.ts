// The desktop's cases through the web's executor, in Node on Dawn.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import type { GpuDevice } from "../../src/device.js";
import type { Device } from "../../src/index.js";
import { type Case, type Environment, type Forced, runCase, runSentence, type Sentence } from "../support/cases.js";
import { nodeEnvironment } from "../support/dawn.js";
import { cases, makeServer, root } from "../support/places.js";

const read = <T>(...path: string[]): T => JSON.parse(readFileSync(join(...path), "utf8")) as T;
const server = makeServer();
let env: Environment;
let device: Device;
/** The names of cases that gave what they should. docs/ops.md is made from them. */
const passed: string[] = [];
before(async () => {
  env = await nodeEnvironment(await server.start());
  device = await env.nibble.open(env.options);
});
after(() => {
  device.destroy();
  server.stop();
  const out = process.env.NIBBLE_RAN;
  if (out === undefined) return;
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, JSON.stringify(passed.sort()));
});

const all = read<Case[]>(cases, "index.json");
for (const one of all.filter(({ everyday }) => everyday)) {
  test(one.name, async () => {
    await runCase(env, device, one);
    passed.push(one.name);
  });
  if (one.shardBytes > 0) {
    test(`${one.name}, in shards`, () => runCase(env, device, one, { maxShardBytes: one.shardBytes }));
  }
}

// The cases with a forced variant are those that it takes on such a device.
test("device_is_the_one_that_variants_were_looked_for", () => {
  const described = read<Record<string, unknown>>(cases, "device.json");
  for (const [name, value] of Object.entries((device as unknown as GpuDevice).profile())) {
    if (typeof value === "string") continue; // how it is called
    assert.equal(described[name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)], value, name);
  }
});

const byName = new Map(all.map((one) => [one.name, one]));
for (const { name, variants } of read<Forced[]>(cases, "variants.json")) {
  const [[choice, variant]] = Object.entries(variants) as [[string, string]];
  test(`${name} with ${choice}=${variant}`, () => runCase(env, device, byName.get(name)!, { variants }));
}

for (const one of read<Sentence[]>(root, "tests", "conformance", "sentences.json")) {
  test(`${one.name} says the desktop's sentence`, () => runSentence(env, device, one));
}
