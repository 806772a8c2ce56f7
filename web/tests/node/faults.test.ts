// The GPU fails at each of its calls, and programs lie: in Node on Dawn, where a life takes a tenth of a second.

import { after, before, test } from "node:test";
import type { Environment } from "../support/cases.js";
import { nodeEnvironment } from "../support/dawn.js";
import { faultsOf, makeLife, tryFaults } from "../support/faults.js";
import { tryMutants } from "../support/mutants.js";
import { makeServer } from "../support/places.js";

const server = makeServer();
let env: Environment;
before(async () => {
  env = await nodeEnvironment(await server.start());
});
after(() => server.stop());

const isFull = Boolean(process.env["NIBBLE_TEST_FULL"]);

// Every day some kinds of faults, once each; else each kind as often as it can be, or a few times.
const programs = [
  // A table whose ids a kernel checks.
  { name: "q4_computed_ids", calls: 2, every: 1, most: Infinity },
  // State that begins as something.
  { name: "state_is_replaced", calls: 2, every: 1, most: Infinity },
  // Weights that are computed at load; its kernels take long to compile.
  { name: "convolution_odd_channels", calls: 1, every: 8, most: 4 },
];

for (const { name, calls, every, most } of programs) {
  test(`${name} survives every fault of the GPU`, async () => {
    const life = await makeLife(env, name, calls);
    const faults = isFull ? faultsOf(life, most) : faultsOf(life, 1).filter((_, i) => i % every === 0);
    await tryFaults(env, name, life, faults);
    console.log(`${faults.length} faults of ${faultsOf(life).length}`);
  });
}

for (const name of ["q4_computed_ids", "state_with_dynamic_input", "mul"]) {
  test(`mutants of ${name} are refused, or run`, async () => {
    const { refused, failed, ran } = await tryMutants(env, name, isFull ? 400 : 70);
    console.log(`${refused} were refused, ${failed} failed later, ${ran} ran`);
  });
}
