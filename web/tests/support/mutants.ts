// Programs with wrong bytes, through the whole of load() and run().

import type * as Nibble from "../../src/index.js";
import { type Environment, failureOf } from "./cases.js";
import { bytesOf, isGood, must, onDevice, runIds, address } from "./check.js";

/** The same numbers every time, so that a find is found again. */
function randomNumbers(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
}

/** Some bytes are changed, or the end is cut off. */
function mutant(bytes: ArrayBuffer, seed: number): Uint8Array {
  const random = randomNumbers(seed);
  const made = new Uint8Array(bytes.slice(0));
  const odd = [0, 1, 0x7f, 0x80, 0xff];
  // Weights may hold anything: what describes them is near both ends.
  for (let i = 1 + random(4); i > 0; --i) {
    const at = random(2) === 0 ? random(Math.min(made.length, 4096)) : made.length - 1 - random(made.length);
    made[at] = random(2) === 0 ? odd[random(odd.length)]! : random(256);
  }
  return random(8) === 0 ? made.subarray(0, random(made.length)) : made;
}

function zeros({ shape, isInteger }: Nibble.ValueInfo): Nibble.Input {
  return isInteger ? 0 : { data: Array<number>(shape.reduce((a, b) => a * b, 1)).fill(0), shape: [...shape] };
}

export async function tryMutants(
  env: Environment,
  name: string,
  count: number,
): Promise<{ refused: number; failed: number; ran: number }> {
  const seen = { refused: 0, failed: 0, ran: 0 };
  const bytes = await bytesOf(env, name);
  await onDevice(env, async (device) => {
    for (let seed = 0; seed < count; ++seed) {
      const loading = env.nibble.load(mutant(bytes, seed), { device, cache: false, maxDeviceBytes: 1 << 26 });
      const model = await loading.catch(() => undefined);
      if (!model) {
        const error = await failureOf(env, loading);
        must(/^\S+ [^\n]*\S$/.test(error.message), `mutant ${seed}: "${error.message}" is one sentence`);
        must(error.code !== "internal" && error.code !== "gpu", `mutant ${seed}: ${error.message}`);
        ++seen.refused;
        continue;
      }
      const run = model.run(model.inputs.map(zeros));
      if (await run.catch(() => undefined)) {
        ++seen.ran;
      } else {
        const error = await failureOf(env, run);
        must(error.code !== "internal" && error.code !== "gpu", `mutant ${seed}: ${error.message}`);
        ++seen.failed;
      }
      model.dispose();
    }
    await isGood(env, await runIds(env, address(env, "q4_dynamic_length"), { device }));
  });
  return seen;
}
