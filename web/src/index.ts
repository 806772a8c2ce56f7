// Runs ExecuTorch programs on the GPU: open a device, load a model on it, run.

import { RangeCache } from "./cache.js";
import { GpuDevice, open as openDevice } from "./device.js";
import { invalid } from "./errors.js";
import { Executor } from "./executor.js";
import { Loader, planProgram } from "./loader.js";
import { LoadedModel } from "./model.js";
import { checkProgress, optionsRecord, signalOf } from "./options.js";
import { Planner, plannerModule } from "./planner.js";
import { Resources } from "./resources.js";
import { openSource } from "./source.js";
import { now } from "./timer.js";
import type { Device, LoadOptions, Model, OpenOptions, ProgramSource } from "./types.js";

export { NibbleError, type ErrorCode } from "./errors.js";
export { chromeTrace } from "./trace.js";
export type * from "./types.js";

/** Opens a GPU, with all of its limits. */
export function open(options?: OpenOptions): Promise<Device> {
  return openDevice(options);
}

/** Loads a program: checks and plans it, and streams its weights to the GPU. */
export async function load(from: ProgramSource, options: LoadOptions): Promise<Model> {
  const device = (options as LoadOptions | null | undefined)?.device;
  if (!(device instanceof GpuDevice)) {
    throw invalid("load() needs a device: pass { device: await open() }");
  }
  const choices = optionsRecord(options);
  checkProgress(options);
  const signal = signalOf(options);
  // The first failure stops everything else.
  const stop = new AbortController();
  const abort = (): void => stop.abort(signal?.reason);
  signal?.throwIfAborted();
  signal?.addEventListener("abort", abort, { once: true });
  const closing: (() => void)[] = [];
  try {
    device.check();
    const cacheName =
      options.cache === false ? undefined : typeof options.cache === "string" ? options.cache : "nibble";
    const opening = openSource(from, stop.signal, cacheName).then((source) => {
      if (stop.signal.aborted) source.close?.();
      else closing.push(() => source.close?.());
      return source;
    });
    const [module, source] = await Promise.all([plannerModule(options.wasm), opening]);
    const planner = await Planner.create(module);
    const cache = cacheName === undefined ? undefined : await RangeCache.open(cacheName, source);
    const head = cache?.remembering(source) ?? source;
    const planned = await planProgram(head, planner, device, choices, stop.signal);
    const resources = await Resources.make(device, planner, planned);
    closing.push(() => resources.release());
    // Allocate all memory before gigabytes are uploaded.
    const executor = await Executor.make(resources);
    closing.push(() => executor.destroy());
    const model = new LoadedModel(resources, executor, options);
    const verify = options.verify ?? source.version?.certain === false;
    const onProgress = (loaded: number, total: number, cached: number): void =>
      options.onProgress?.({ loaded, total, cached, heapBytes: planner.heapBytes });
    const loader = new Loader(
      device,
      source,
      planned.layout,
      executor.buffers,
      { cache, verify, onProgress },
      stop.signal,
    );
    const start = now();
    await Promise.all([
      resources.compile().then(() => device.phase("compile", start, 2)),
      loader.run().then(() => device.phase("upload", start)),
    ]);
    await cache?.keepHead();
    await resources.prepare(stop.signal);
    await resources.keepState(executor.buffers, loader.notZero);
    closing.splice(-2); // the model owns them now
    return model;
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    signal?.removeEventListener("abort", abort);
    stop.abort();
    for (const close of closing) close();
  }
}
