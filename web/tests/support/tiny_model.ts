// The tiny language model of the tests, and what it must say. Both come from tests/web/generate_cases.py.

import type { GenerateOptions, LanguageModel, Message } from "../../src/generate.js";
import { type Environment, fetchJson } from "./cases.js";
import { keptDevice } from "./check.js";

/** golden.json. */
interface Golden {
  vocabulary: number;
  chunk: number;
  prompt: number[];
  /** Each time the likeliest token, by eager torch. */
  tokens: number[];
  /** What the native library gives. */
  sampled: { settings: GenerateOptions & { seed?: string }; ids: number[]; logprobs: number[] }[];
  chat: { messages: Message[]; ids: number[] };
}

interface Tiny {
  model: LanguageModel;
  golden: Golden;
}

export const folder = (env: Environment): string => `${env.base}/files/cases/generate/tiny`;
export const loadGolden = (env: Environment): Promise<Golden> =>
  fetchJson(`${env.base}/files/cases/generate/golden.json`);

const shared = new WeakMap<Environment, Promise<Tiny>>();

/** One model for all that leave it as it was. */
export async function tinyOf(env: Environment): Promise<Tiny> {
  const make = async (): Promise<Tiny> => {
    const device = await keptDevice(env);
    const model = await env.generate.LanguageModel.load(folder(env), { device, cache: false });
    return { model, golden: await loadGolden(env) };
  };
  if (!shared.has(env)) shared.set(env, make());
  return shared.get(env)!;
}
