// A program's life on a GPU that fails at one call. Whatever fails: every promise is settled, by a right result or by one
// sentence, nothing is left on the GPU, and the next call, or the next device, works.

import type * as Nibble from "../../src/index.js";
import { type Environment, failureOf, fetchNpy } from "./cases.js";
import { address, bytesOf, must, onDevice, same } from "./check.js";
import { type Fault, FaultyGpu, type Site, sites, type Way } from "./faulty_gpu.js";

/** A program, the inputs of its calls, and what the calls of a session give. */
export interface Life {
  bytes: ArrayBuffer;
  inputs: Nibble.Input[][];
  wanted: string[];
  /** A call that fails may have changed the session. */
  hasState: boolean;
  /** How often a life without faults calls each function. */
  calls: Partial<Record<Site, number>>;
}

const HANG_MS = 20_000;

/** What a call gives, or its error, which is one sentence. */
async function outcome<T>(env: Environment, what: string, call: () => Promise<T>): Promise<T | Nibble.NibbleError> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} is not settled after ${HANG_MS} ms`)), HANG_MS);
  });
  try {
    return await Promise.race([call(), late]);
  } catch (error) {
    if (!(error instanceof env.nibble.NibbleError)) throw new Error(`${what}: ${String(error)}`, { cause: error });
    must(/^\S+ .*\S$/.test(error.message), `${what}: "${error.message}" is one sentence`);
    must(error.code !== "internal", `${what}: "${error.message}" is no bug of Nibble's`);
    return error;
  } finally {
    clearTimeout(timer);
  }
}

const isError = (value: unknown): value is Nibble.NibbleError => value instanceof Error;

const textOf = (result: Record<string, Nibble.Tensor>): string =>
  Object.values(result)
    .map(({ data, shape }) => `[${shape}] ${data}`)
    .join("; ");

/** Makes the calls of a session. A right call after a failed one needs a session without state. */
async function useSession(
  env: Environment,
  what: string,
  life: Life,
  gpu: FaultyGpu,
  session: Pick<Nibble.Session, "run">,
): Promise<boolean> {
  let failed = false;
  for (const [i, inputs] of life.inputs.entries()) {
    const hadFailed = gpu.hasFailed;
    const result = await outcome(env, `${what}, call ${i}`, () => session.run(inputs));
    if (!isError(result)) {
      if (!(failed && life.hasState)) same(textOf(result), life.wanted[i], `${what}, call ${i}: the result`);
    } else {
      must(!hadFailed || gpu.isLost, `${what}, call ${i} works after the fault: ${result.message}`);
      failed = true;
    }
  }
  return failed;
}

/** Forks, saves, restores and resets a session. What fails can be done again. */
async function useState(env: Environment, what: string, gpu: FaultyGpu, session: Nibble.Session): Promise<boolean> {
  let failed = false;
  const attempt = async <T>(name: string, call: () => Promise<T>): Promise<T | undefined> => {
    const before = gpu.live.size;
    let result = await outcome(env, `${what}, ${name}`, call);
    if (isError(result)) {
      failed = true;
      same(gpu.live.size, before, `${what}: buffers after a ${name} that failed`);
      result = await outcome(env, `${what}, ${name} again`, call);
      must(!isError(result) || gpu.isLost, `${what}: the next ${name} works`);
    }
    return isError(result) ? undefined : result;
  };
  (await attempt("fork", () => session.fork()))?.dispose();
  const saved = await attempt("save", () => session.save());
  if (saved) await attempt("restore", () => session.restore(saved));
  await attempt("reset", () => session.reset());
  return failed;
}

/** Loads, runs, makes a second session, runs that, moves its state; gives whether something failed. */
async function live(
  env: Environment,
  what: string,
  life: Life,
  gpu: FaultyGpu,
  device: Nibble.Device,
): Promise<boolean> {
  const loading = (): Promise<Nibble.Model> => env.nibble.load(life.bytes, { device, cache: false });
  let failed = false;
  let model = await outcome(env, `${what}, load`, loading);
  if (isError(model)) {
    failed = true;
    same(gpu.live.size, 0, `${what}: buffers that are left by the load`);
    model = await outcome(env, `${what}, load again`, loading);
    must(!isError(model) || gpu.isLost, `${what}: the next load works`);
    if (isError(model)) return true;
  }
  failed = (await useSession(env, what, life, gpu, model)) || failed;
  const before = gpu.live.size;
  let session = await outcome(env, `${what}, session`, () => (model as Nibble.Model).session());
  if (isError(session)) {
    failed = true;
    same(gpu.live.size, before, `${what}: buffers after a session that failed`);
    session = await outcome(env, `${what}, session again`, () => (model as Nibble.Model).session());
    must(!isError(session) || gpu.isLost, `${what}: the next session works`);
  }
  if (!isError(session)) {
    failed = (await useSession(env, `${what}, other session`, life, gpu, session)) || failed;
    failed = (await useState(env, what, gpu, session)) || failed;
  }
  if (gpu.isLost) await answersWithTheLoss(env, what, life, device, model, session);
  model.dispose();
  if (!isError(session)) session.dispose();
  return failed;
}

/** All that belongs to a lost device says so, in the same words. */
async function answersWithTheLoss(
  env: Environment,
  what: string,
  life: Life,
  device: Nibble.Device,
  model: Nibble.Model,
  session: Nibble.Session | Nibble.NibbleError,
): Promise<void> {
  const lost = await device.lost;
  same(lost.code, "device_lost", what);
  const calls = [
    env.nibble.load(life.bytes, { device, cache: false }),
    model.run(life.inputs[0]!),
    model.session(),
    ...(isError(session) ? [] : [session.run(life.inputs[0]!)]),
  ];
  for (const call of calls) must((await failureOf(env, call)) === lost, `${what}: later calls tell the loss`);
}

async function tryFault(env: Environment, name: string, life: Life, fault: Fault): Promise<void> {
  const what = `${name}, ${fault.site} ${fault.way} at ${fault.at}`;
  const gpu = new FaultyGpu(fault);
  const device = await gpu.open(env);
  try {
    const failed = await live(env, what, life, gpu, device);
    must(gpu.hasFailed, `${what}: the fault came`);
    must(failed || gpu.isLost, `${what}: the fault is told`);
    same(gpu.live.size, 0, `${what}: buffers that are left`);
  } finally {
    device.destroy();
  }
}

export async function makeLife(env: Environment, program: string, calls: number): Promise<Life> {
  const bytes = await bytesOf(env, program);
  const life: Life = { bytes, inputs: [], wanted: [], hasState: false, calls: {} };
  for (let call = 0; call < calls; ++call) {
    const { data, shape } = await fetchNpy(address(env, program).replace("model.pte", `in${call}_0.npy`));
    life.inputs.push([{ data: data as Nibble.InputData, shape }]);
  }
  await onDevice(env, async (device) => {
    const model = await env.nibble.load(bytes, { device, cache: false });
    life.hasState = model.states.length > 0;
    for (const inputs of life.inputs) life.wanted.push(textOf(await model.run(inputs)));
  });
  const gpu = new FaultyGpu();
  const device = await gpu.open(env);
  must(!(await live(env, program, life, gpu, device)), `${program} fails only where it is told to`);
  same(gpu.live.size, 0, "buffers that are left");
  device.destroy();
  life.calls = gpu.calls;
  return life;
}

/** Tries all of these; one error for all that went wrong. */
export async function tryFaults(env: Environment, name: string, life: Life, faults: readonly Fault[]): Promise<void> {
  const wrong: string[] = [];
  for (const fault of faults) await tryFault(env, name, life, fault).catch((error: Error) => wrong.push(error.message));
  if (wrong.length > 0) throw new Error(`${wrong.length} of ${faults.length} faults: ${wrong.slice(0, 20).join("\n")}`);
}

/** Every fault that `life` can have, or at most `most` of each kind, spread over its length. */
export function faultsOf(life: Life, most = Infinity): Fault[] {
  let kinds = 0;
  return (Object.entries(sites) as [Site, Way[]][]).flatMap(([site, ways]) => {
    const count = life.calls[site] ?? 0;
    const step = Math.max(1, Math.ceil(count / most));
    return ways.flatMap((way) => {
      const first = 1 + ((++kinds * 7919) % step);
      const times = Math.max(0, Math.ceil((count - first + 1) / step));
      return Array.from({ length: times }, (_, k) => ({ site, way, at: first + k * step }));
    });
  });
}
