// The desktop's conformance cases, run on any executor. What is the same in Node and in Chromium is here.

import type * as Generate from "../../src/generate.js";
import type * as Nibble from "../../src/index.js";
import { type Array_, parseNpy } from "./npy.js";

/** Where a check runs, and where its files come from. */
export interface Environment {
  nibble: typeof Nibble;
  generate: typeof Generate;
  /** For open(): what Node has no `navigator.gpu` for. */
  options: Nibble.OpenOptions;
  /** Address of the test server. */
  base: string;
}

/** One line of index.json, which tests/web/export_cases.py writes. */
export interface Case {
  name: string;
  folder: string;
  calls: number;
  inputs: number;
  outputs: number;
  rtol: number;
  atol: number;
  shardBytes: number;
  outside: string[];
  large: boolean;
  /** Whether it runs in everyday tests too. */
  everyday: boolean;
}

/** One line of variants.json, which tests/web/export_cases.py writes: a case, and what is forced in it. */
export interface Forced {
  name: string;
  variants: Record<string, string>;
}

/** One line of tests/conformance/sentences.json: a call that fails, and what it says everywhere. */
export interface Sentence {
  name: string;
  program: string;
  inputs: { dtype: string; shape: number[]; put?: [number, string][] }[];
  code: Nibble.ErrorCode;
  message: string;
}

export async function fetchJson<T>(address: string): Promise<T> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return (await response.json()) as T;
}

export async function fetchNpy(address: string): Promise<Array_> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return parseNpy(await response.arrayBuffer());
}

export class CaseFailure extends Error {}

/** Makes all calls of a case and compares what they give. */
export async function runCase(
  env: Environment,
  device: Nibble.Device,
  one: Case,
  options: Nibble.Options = {},
): Promise<void> {
  const folder = `${env.base}/files/${one.folder}`;
  const loading = env.nibble.load(`${folder}/model.pte`, { device, cache: false, ...options });
  if (one.outside.length > 0) {
    const error = await failureOf(env, loading);
    if (error.code !== "unsupported" || !one.outside.every((name) => error.message.includes(name))) {
      throw new CaseFailure(`${one.name}: ${error.code}: ${error.message}`);
    }
    return;
  }
  const model = await loading;
  try {
    for (let call = 0; call < one.calls; ++call) {
      const inputs = await Promise.all(
        Array.from({ length: one.inputs }, (_, i) => fetchNpy(`${folder}/in${call}_${i}.npy`)),
      );
      const given = inputs.map((array, i) => asInput(array, model.inputs[i]!.isInteger));
      const results = await model.run(given);
      const names = Object.keys(results);
      if (names.length !== one.outputs) throw new CaseFailure(`${one.name}: ${names.length} outputs`);
      for (const [i, name] of names.entries()) {
        const wanted = await fetchNpy(`${folder}/torch${call}_${i}.npy`);
        const where = `${one.name}, call ${call}, output ${i}`;
        if (model.outputs[i]!.dtype !== wanted.dtype) throw new CaseFailure(`${where}: ${model.outputs[i]!.dtype}`);
        compare(where, results[name]!, wanted, one);
      }
    }
  } finally {
    model.dispose();
  }
}

function asInput({ data, shape }: Array_, isInteger: boolean): Nibble.Input {
  return isInteger ? Number(data[0]) : { data: data as Nibble.InputData, shape };
}

/** Arrays that a result of a dtype may come in. */
const arrays: Record<string, string[]> = {
  bool: ["Uint8Array"],
  uint8: ["Uint8Array"],
  int8: ["Int8Array"],
  int32: ["Int32Array"],
  int64: ["BigInt64Array"],
  float16: ["Float16Array", "Float32Array"],
  float32: ["Float32Array"],
  float64: ["Float64Array"],
};

/** As numpy.testing.assert_allclose. */
export function compare(
  where: string,
  result: Nibble.Tensor,
  wanted: Array_,
  tolerance: { rtol: number; atol: number },
): void {
  const type = result.data.constructor.name;
  if (!arrays[wanted.dtype]!.includes(type)) throw new CaseFailure(`${where} is a ${type}, not ${wanted.dtype}`);
  if (String(result.shape) !== String(wanted.shape)) {
    throw new CaseFailure(`${where} has shape [${result.shape}], not [${wanted.shape}]`);
  }
  if (result.data.length !== wanted.data.length) throw new CaseFailure(`${where} has ${result.data.length} elements`);
  for (let i = 0; i < wanted.data.length; ++i) {
    const a = result.data[i]!;
    const b = wanted.data[i]!;
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    const difference = Math.abs(Number(a) - Number(b));
    if (difference <= tolerance.atol + tolerance.rtol * Math.abs(Number(b))) continue;
    throw new CaseFailure(`${where}[${i}] is ${a}, but torch gives ${b}`);
  }
}

/** The error that something is rejected with, which must be one of Nibble's. */
export async function failureOf(env: Environment, promise: Promise<unknown>): Promise<Nibble.NibbleError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof env.nibble.NibbleError) return error;
    throw new CaseFailure(`a failure that is no NibbleError: ${String(error)}`);
  }
  throw new CaseFailure("what should fail did not");
}

/** Makes the call of a sentence, and a good one after it. */
export async function runSentence(env: Environment, device: Nibble.Device, one: Sentence): Promise<void> {
  const model = await env.nibble.load(`${env.base}/files/programs/${one.program}/model.pte`, {
    device,
    cache: false,
  });
  try {
    const error = await failureOf(env, model.run(one.inputs.map(wrongInput)));
    if (error.code !== one.code || error.message !== one.message) {
      throw new CaseFailure(`${one.name}: ${error.code}: ${error.message}\nwanted: ${one.code}: ${one.message}`);
    }
    const good = model.inputs.map(({ shape, dtype }) => wrongInput({ shape, dtype }));
    await model.run(good);
  } finally {
    model.dispose();
  }
}

const makers: Record<string, (count: number) => Nibble.InputData> = {
  int64: (count) => new BigInt64Array(count),
  int32: (count) => new Int32Array(count),
  uint32: (count) => new Uint32Array(count),
  float32: (count) => new Float32Array(count),
};

function wrongInput({ dtype, shape, put }: Sentence["inputs"][number]): Nibble.Input {
  const data = makers[dtype]!(shape.reduce((product, dim) => product * dim, 1));
  for (const [at, value] of put ?? []) {
    if (data instanceof BigInt64Array) data[at] = BigInt(value);
    else (data as Int32Array)[at] = Number(value);
  }
  return { data, shape };
}
