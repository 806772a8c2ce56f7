// Runs ExecuTorch programs on the GPU: open a device, load a model on it, run.

import type { Options } from "#wire";
import { RangeCache } from "./cache.js";
import { GpuDevice, open as openDevice } from "./device.js";
import { invalid } from "./errors.js";
import { Executor } from "./executor.js";
import { InFlight } from "./in_flight.js";
import { Loader, planAgain, type Planned, planProgram } from "./loader.js";
import { LoadedModel } from "./model.js";
import { checkFunctions, optionsRecord, signalOf } from "./options.js";
import { Planner, plannerModule } from "./planner.js";
import { Resources } from "./resources.js";
import { openSource } from "./source.js";
import { now, Timer } from "./timer.js";
import type { Job } from "./tune.js";
import type {
  Device,
  LoadOptions,
  Model,
  OpenOptions,
  ProgramSource,
  Source,
  TuneOptions,
  Tuning,
  TuningFile,
} from "./types.js";

export { NibbleError, type ErrorCode } from "./errors.js";
export { chromeTrace } from "./trace.js";
export type * from "./types.js";

/** Opens a GPU, with all of its limits. */
export function open(options?: OpenOptions): Promise<Device> {
  return openDevice(options);
}

/** Loads a program: checks and plans it, and streams its weights to the GPU. */
export function load(from: ProgramSource, options: LoadOptions): Promise<Model> {
  return withProgram("load", from, options, async (opened) => {
    const { device, source, cache, stop, closing, module, record } = opened;
    let { planned } = opened;
    const notes = [...planned.layout.notes];
    if (record.tune && !planned.layout.isTuned) {
      const { planTuned } = await tuner();
      const plan = async (tuning: Tuning): Promise<Planned> =>
        planAgain(await Planner.create(module), planned, device.profile(), optionsRecord({ ...options, tuning }));
      const place = { device, options: record, store: options.tunings, cacheName: opened.cacheName };
      const tuned = await planTuned(planned, place, plan, () => jobOf(opened, options));
      planned = tuned.planned;
      notes.push(...tuned.notes);
    }
    for (const note of notes) console.warn(`nibble: ${note}`);
    const { planner } = planned;
    const resources = await Resources.make(device, planner, planned);
    closing.push(() => resources.release());
    // Allocate all memory before gigabytes are uploaded.
    const executor = await Executor.make(resources);
    closing.push(() => executor.destroy());
    const model = new LoadedModel(resources, executor, options, notes, opened.startMs);
    const verify = options.verify ?? source.version?.certain === false;
    const onProgress = (loaded: number, total: number, cached: number): void =>
      options.onProgress?.({ loaded, total, cached, heapBytes: planner.heapBytes });
    const loader = new Loader(device, source, planned.layout, executor.buffers, { cache, verify, onProgress }, stop);
    const start = now();
    await Promise.all([
      resources.compile().then(() => device.phase("compile", start, 2)),
      loader.run().then(() => device.phase("upload", start)),
    ]);
    await cache?.keepHead();
    await resources.prepare(stop);
    await resources.keepState(executor.buffers, loader.notZero);
    closing.splice(-2); // the model owns them now
    model.loadEndMs = sinceEpoch();
    return model;
  });
}

/** Measures which kernel variants are fast on the device. Gives what `load()` takes as `tuning`. */
export function tune(from: ProgramSource, options: TuneOptions): Promise<TuningFile> {
  return withProgram("tune", from, options, async (opened) => {
    const { measureTuning } = await tuner();
    return { tunings: [await measureTuning(await jobOf(opened, options))] };
  });
}

const sinceEpoch = (): number => performance.timeOrigin + performance.now();

/** Files beside this one, because few need them. */
const tuner = (): Promise<typeof import("./tune.js")> => import("./tune.js");

async function jobOf(opened: Opened, { tuneWasm, onTuning }: TuneOptions): Promise<Job> {
  const { device, source, cache, stop, record } = opened;
  const core = { Executor, InFlight, Loader, Resources, Timer };
  const ms = record.tuneMs || (device.kind === "cpu" ? 15000 : 1500);
  const planner = await Planner.create(await plannerModule(tuneWasm, new URL("tune.wasm", import.meta.url)));
  // What is forced is neither what the table prefers nor faster than that.
  const planned = planAgain(planner, opened.planned, device.profile(), { ...record, variants: [] });
  return { core, device, planned, source, cache, ms, signal: stop, onProgress: onTuning ?? undefined };
}

/** A program that is planned, while it is used. */
interface Opened {
  /** When it began. */
  startMs: number;
  device: GpuDevice;
  source: Source;
  cacheName: string | undefined;
  cache: RangeCache | undefined;
  module: WebAssembly.Module;
  planned: Planned;
  record: Options;
  /** The first failure, or the caller, stops everything else. */
  stop: AbortSignal;
  closing: (() => void)[];
}

async function withProgram<T>(
  what: string,
  from: ProgramSource,
  options: LoadOptions,
  use: (opened: Opened) => Promise<T>,
): Promise<T> {
  const device = (options as LoadOptions | null | undefined)?.device;
  if (!(device instanceof GpuDevice)) {
    throw invalid(`${what}() needs a device: pass { device: await open() }`);
  }
  const startMs = sinceEpoch();
  const record = optionsRecord(options);
  checkFunctions(options);
  const signal = signalOf(options);
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
    const [module, source] = await Promise.all([
      plannerModule(options.wasm, new URL("nibble.wasm", import.meta.url)),
      opening,
    ]);
    const cache = cacheName === undefined ? undefined : await RangeCache.open(cacheName, source);
    const head = cache?.remembering(source) ?? source;
    const planned = await planProgram(head, await Planner.create(module), device, record, stop.signal);
    return await use({
      startMs,
      device,
      source,
      cacheName,
      cache,
      module,
      planned,
      record,
      stop: stop.signal,
      closing,
    });
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    signal?.removeEventListener("abort", abort);
    stop.abort();
    for (const close of closing) close();
  }
}
