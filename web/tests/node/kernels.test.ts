// All kernels that the programs' plans ask for, for devices of all kinds: through Tint here and in Chromium, and through
// naga by tests/web/compile_kernels.py, which reads what this test writes.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Pipeline } from "#wire";
import type { Options } from "../../src/index.js";
import { open } from "../../src/device.js";
import type { Case } from "../support/cases.js";
import { gpu } from "../support/dawn.js";
import { collect, compileAll, plan, profiles } from "../support/kernels.js";
import { cases, programs, root } from "../support/places.js";

const compile = (): Promise<WebAssembly.Module> =>
  WebAssembly.compile(readFileSync(join(root, "web", "dist", "nibble.wasm")));

test("kernels_of_all_plans_compile", async () => {
  const module = await compile();
  const kernels = new Map<string, Pipeline>();
  for (const one of JSON.parse(readFileSync(join(cases, "index.json"), "utf8")) as Case[]) {
    if (one.outside.length > 0) continue;
    const folder = one.folder.startsWith("programs/") ? join(programs, one.name) : join(cases, one.folder);
    await collect(kernels, module, join(folder, "model.pte"), one.shardBytes);
  }
  const list = [...kernels.values()];
  assert.ok(list.length >= 20, `${list.length} kernels`);
  mkdirSync(join(root, "build", "web"), { recursive: true });
  writeFileSync(join(root, "build", "web", "kernels.json"), JSON.stringify(list));
  const device = await open({ gpu });
  console.log(`${await compileAll(device, list)} of ${list.length} kernels compiled on ${device.name}`);
  device.destroy();
});

test("forced_and_tuned_variants_are_in_the_plan", async () => {
  const module = await compile();
  const from = join(programs, "linear_q4_many_rows", "model.pte");
  const kernels = (options: Options): Promise<Pipeline[]> => plan(module, from, profiles[0]!, options);
  const own = await kernels({});
  const forced = await kernels({ variants: { product: "tile" } });
  assert.notDeepEqual(forced, own);
  const choice = { choice: "product", variant: "tile" };
  assert.deepEqual(await kernels({ tuning: { choices: [choice] } }), forced);
  // Of no size that the program has.
  assert.deepEqual(await kernels({ tuning: { choices: [{ ...choice, rows: [1 << 20, 1 << 21] }] } }), own);
});
