// Every call of WebGPU fails once, in Node on Dawn.

import { after, before, test } from "node:test";
import type { Environment } from "../support/cases.js";
import { nodeEnvironment } from "../support/dawn.js";
import { faultsOf, makeLife, tryFaults } from "../support/faults.js";
import { makeServer } from "../support/places.js";

const server = makeServer();
let env: Environment;
before(async () => {
  env = await nodeEnvironment(await server.start());
});
after(() => server.stop());

const isFull = Boolean(process.env["NIBBLE_TEST_FULL"]);

/** A table whose ids a kernel checks, state that begins as something, and weights that are computed at load. */
const programs: Record<string, number> = { q4_computed_ids: 2, state_is_replaced: 2 };

for (const [name, calls] of Object.entries(programs)) {
  test(`${name} survives every fault of the GPU`, async () => {
    const life = await makeLife(env, name, calls);
    const faults = faultsOf(life, isFull ? Infinity : 3);
    await tryFaults(env, name, life, faults);
    console.log(`${faults.length} faults, of ${faultsOf(life).length}`);
  });
}
