// What tests call in Chromium, on the page or in a worker that this same file is the script of.

import type { Pipeline } from "#wire";
import { open } from "../../src/device.js";
import type * as Generate from "../../src/generate.js";
import type * as Nibble from "../../src/index.js";
import { type Case, type Environment, fetchJson, runCase, runSentence, type Sentence } from "../support/cases.js";
import { checks } from "../support/checks.js";
import { constrainedChecks } from "../support/constrained_checks.js";
import { generateChecks } from "../support/generate_checks.js";
import { compile, useAll } from "../support/kernels.js";

const base = self.location.origin;
// As a variable, so that it is not bundled: what is published is what is tested.
const published = (name: string): Promise<unknown> => import(`${base}/files/dist/${name}`);
const nibble = (await published("nibble.js")) as typeof Nibble;
const generate = (await published("generate.js")) as typeof Generate;
const env: Environment = { nibble, generate, options: {}, base };
let device: Nibble.Device | undefined;

/** What a load with the cache saw. */
export interface Visit {
  total: number;
  cached: number;
  /** A row, to see that what was loaded is right. */
  row: number[];
}

const calls = {
  check: async (name: string): Promise<void> => (checks[name] ?? generateChecks[name] ?? constrainedChecks[name])!(env),

  case: async (one: Case, options: Nibble.Options = {}): Promise<void> =>
    runCase(env, (device ??= await nibble.open()), one, options),

  sentence: async (one: Sentence): Promise<void> => runSentence(env, (device ??= await nibble.open()), one),

  kernels: async (): Promise<number> => {
    const own = await open();
    const kernels = await fetchJson<Pipeline[]>(`${base}/files/web/kernels.json`);
    const compiled = await useAll(own, kernels, compile);
    own.destroy();
    return compiled;
  },

  /** Loads with the cache; aborts once `stopAt` bytes are loaded. */
  visit: async (path: string, options: { stopAt?: number; lose?: boolean } = {}): Promise<Visit> => {
    const gpu = await nibble.open();
    const stop = new AbortController();
    let seen: Nibble.Progress | undefined;
    try {
      const model = await nibble.load(`${base}/${path}`, {
        device: gpu,
        signal: stop.signal,
        onProgress: (progress) => {
          seen = progress;
          if (progress.loaded >= (options.stopAt ?? Infinity)) stop.abort();
        },
      });
      const out = await model.run([[7]]);
      if (options.lose) gpu.handle.destroy();
      return { total: seen!.total, cached: seen!.cached, row: Array.from(out.output0!.data as Float32Array) };
    } catch (error) {
      if (!stop.signal.aborted) throw error;
      return { total: seen!.total, cached: seen!.cached, row: [] };
    } finally {
      gpu.destroy();
    }
  },

  /** Changes a byte of every entry of the cache; gives how many there are. */
  tamper: async (): Promise<number> => {
    const cache = await caches.open("nibble");
    const keys = await cache.keys();
    for (const key of keys) {
      const response = (await cache.match(key))!;
      const bytes = new Uint8Array(await response.arrayBuffer());
      bytes[bytes.length >> 1]! ^= 1;
      await cache.put(key, new Response(bytes, { headers: response.headers }));
    }
    return keys.length;
  },

  cached: async (): Promise<string[]> => (await (await caches.open("nibble")).keys()).map(({ url }) => url),

  forget: async (): Promise<boolean> => caches.delete("nibble"),

  /** The longest time for which a load lets nothing else happen, as a share of the whole. */
  longestPause: async (path: string): Promise<number> => {
    let longest = 0;
    const start = performance.now();
    let last = start;
    const timer = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 1);
    await calls.visit(path);
    clearInterval(timer);
    const end = performance.now();
    return Math.max(longest, end - last) / (end - start);
  },
};

export type Calls = typeof calls;
type AnyCall = (...parameters: unknown[]) => Promise<unknown>;

interface Message {
  name: keyof Calls;
  parameters: unknown[];
}

export interface Answer {
  result?: unknown;
  error?: string;
}

async function answer({ name, parameters }: Message): Promise<Answer> {
  try {
    return { result: await (calls[name] as AnyCall)(...parameters) };
  } catch (error) {
    return { error: error instanceof Error ? `${error.name}: ${error.message}\n${error.stack}` : String(error) };
  }
}

let worker: Worker | undefined;

/** The same in a worker. */
async function answerInWorker(message: Message): Promise<Answer> {
  if (!worker) {
    worker = new Worker("/files/tests/browser/page.js", { type: "module" });
    await new Promise((resolve) => worker!.addEventListener("message", resolve, { once: true }));
  }
  const { port1, port2 } = new MessageChannel();
  worker.postMessage({ ...message, port: port2 }, [port2]);
  return new Promise((resolve) => {
    port1.onmessage = ({ data }) => resolve(data as Answer);
  });
}

if (typeof document === "undefined") {
  self.addEventListener("message", ({ data }: MessageEvent<Message & { port: MessagePort }>) => {
    void answer(data).then((result) => data.port.postMessage(result));
  });
  self.postMessage("ready");
} else {
  Object.assign(globalThis, { answer, answerInWorker });
}
