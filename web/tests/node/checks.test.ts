// The package in Node, on Dawn.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Environment } from "../support/cases.js";
import { closeKeptDevice } from "../support/check.js";
import { checks } from "../support/checks.js";
import { nodeEnvironment } from "../support/dawn.js";
import { makeServer, programs } from "../support/places.js";

const server = makeServer();
let env: Environment;
before(async () => {
  env = await nodeEnvironment(await server.start());
});
after(async () => {
  await closeKeptDevice(env);
  server.stop();
});

for (const [name, check] of Object.entries(checks)) test(name, () => check(env));

test("no_webgpu_is_an_error_of_its_own", async () => {
  await assert.rejects(env.nibble.open(), { code: "no_webgpu", name: "NibbleError" });
});

test("program_comes_from_a_path", async () => {
  const device = await env.nibble.open(env.options);
  const model = await env.nibble.load(`${programs}/q4_dynamic_length/model.pte`, { device });
  assert.deepEqual((await model.run([[1, 2]])).output0?.shape, [1, 2, 96]);
  const none = env.nibble.load(`${programs}/none.pte`, { device });
  await assert.rejects(none, { code: "io", message: /none\.pte cannot be read/ });
  device.destroy();
});
