// All kernels that the programs' plans ask for, for devices of all kinds: through Tint here and in Chromium, and through
// naga by tests/web/compile_kernels.py, which reads what this test writes. Every day their text is checked; the cases
// compile those that this device takes.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Pipeline } from "#wire";
import type { Options } from "../../src/index.js";
import { open } from "../../src/device.js";
import type { Case } from "../support/cases.js";
import { gpu } from "../support/dawn.js";
import { check, collect, compile, plan, profiles, useAll } from "../support/kernels.js";
import { cases, isFull, programs, root } from "../support/places.js";

const wasm = (): Promise<WebAssembly.Module> =>
  WebAssembly.compile(readFileSync(join(root, "web", "dist", "nibble.wasm")));

test("kernels_of_all_plans_are_valid", async () => {
  const module = await wasm();
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
  const done = await useAll(device, list, isFull ? compile : check);
  console.log(`${done} of ${list.length} kernels ${isFull ? "compiled" : "checked"} on ${device.name}`);
  device.destroy();
});

test("forced_and_tuned_variants_are_in_the_plan", async () => {
  const module = await wasm();
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
