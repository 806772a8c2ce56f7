// What checks are made of.

import type * as Nibble from "../../src/index.js";
import type { Environment } from "./cases.js";

export type Check = (env: Environment) => Promise<void>;

export function must(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`this does not hold: ${what}`);
}

export function same(result: unknown, wanted: unknown, what: string): void {
  const texts = [result, wanted].map((value) =>
    JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? `${part}n` : part)),
  );
  if (texts[0] !== texts[1]) throw new Error(`${what} is ${texts[0]}, not ${texts[1]}`);
}

export function says(error: Nibble.NibbleError, code: Nibble.ErrorCode, ...parts: string[]): void {
  same(error.code, code, `the code of "${error.message}"`);
  for (const part of parts) must(error.message.includes(part), `"${error.message}" has "${part}"`);
}

export async function onDevice(env: Environment, use: (device: Nibble.Device) => Promise<void>): Promise<void> {
  const device = await env.nibble.open(env.options);
  try {
    await use(device);
  } finally {
    device.destroy();
  }
}

const kept = new WeakMap<Environment, Promise<Nibble.Device>>();

/** The device of all checks that leave it usable: what one of them compiled, the others have. */
export function keptDevice(env: Environment): Promise<Nibble.Device> {
  if (!kept.has(env)) kept.set(env, env.nibble.open(env.options));
  return kept.get(env)!;
}

/** As onDevice(), on that one. What the check put in the place of its functions goes. */
export async function onKeptDevice(env: Environment, use: (device: Nibble.Device) => Promise<void>): Promise<void> {
  const device = await keptDevice(env);
  const objects = [device.handle, device.handle.queue];
  const before = objects.map((object) => Object.getOwnPropertyDescriptors(object));
  try {
    await use(device);
  } finally {
    objects.forEach((object, i) => {
      for (const name of Object.getOwnPropertyNames(object)) {
        if (!(name in before[i]!)) Reflect.deleteProperty(object, name);
      }
    });
  }
}

export async function closeKeptDevice(env: Environment): Promise<void> {
  (await kept.get(env))?.destroy();
  kept.delete(env);
}

export const address = (env: Environment, name: string, behaviour = "files"): string =>
  `${env.base}/${behaviour}/programs/${name}/model.pte`;

export const ids = new BigInt64Array([3n, 0n, 1699n]);

/** Loads the program with the ids, in some way, and runs it; all ways give the same. */
export async function runIds(
  env: Environment,
  from: Nibble.ProgramSource,
  options: Partial<Nibble.LoadOptions> & { device: Nibble.Device },
): Promise<Nibble.Tensor> {
  const model = await env.nibble.load(from, { cache: false, ...options });
  try {
    return (await model.run([ids])).output0!;
  } finally {
    model.dispose();
  }
}

/** Whether a result is what the plainest way gives, which the conformance cases hold against torch. */
export async function isGood(env: Environment, result: Nibble.Tensor): Promise<void> {
  const device = await env.nibble.open(env.options);
  try {
    const wanted = await runIds(env, address(env, "q4_dynamic_length"), { device });
    same(result.shape, [1, 3, 96], "the shape");
    same(Array.from(result.data as Float32Array), Array.from(wanted.data as Float32Array), "the rows");
  } finally {
    device.destroy();
  }
}

export async function bytesOf(env: Environment, name: string): Promise<ArrayBuffer> {
  return (await fetch(address(env, name))).arrayBuffer();
}

/** What a promise is rejected with. */
export function reasonOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}
