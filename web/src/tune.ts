// Measures which kernel variants are fast on a device. What there is to measure, who wins and what follows from it is
// the planner's. A file of its own, tune.js, which nibble.js loads when it is asked to tune, and gives what it has.

import * as wire from "#wire";
import type { RangeCache } from "./cache.js";
import type { GpuDevice } from "./device.js";
import type { Executor } from "./executor.js";
import type { InFlight } from "./in_flight.js";
import type { Loader, Planned } from "./loader.js";
import type { Planner } from "./planner.js";
import type { Resources } from "./resources.js";
import { findTunings, isOf, keepTuning, type Place, tunedOn } from "./tune/kept.js";
import { Bench, type Time } from "./tune/node_bench.js";
import { messageOf } from "./errors.js";
import type { DeviceTuning, Source, Tuning } from "./types.js";

/** Classes of nibble.js: this file has none of its own, so that there is one of each. */
export interface Core {
  Executor: typeof Executor;
  InFlight: typeof InFlight;
  Loader: typeof Loader;
  Resources: typeof Resources;
  Timer: Time;
}

export interface Job {
  core: Core;
  device: GpuDevice;
  /** By the planner of tune.wasm. */
  planned: Planned;
  source: Source;
  cache: RangeCache | undefined;
  /** How long to measure at most. */
  ms: number;
  signal: AbortSignal;
  onProgress: ((measured: number, cases: number) => void) | undefined;
}

/** Longer than this, and than so many times as long as the first variant, none is tried. */
const GIVE_UP_MS = 100;
const GIVE_UP = 4;

/** What a load is planned with: a tuning that is kept, or else one that is measured now, and kept. */
export async function planTuned(
  untuned: Planned,
  place: Place,
  plan: (tuning: Tuning) => Promise<Planned>,
  makeJob: () => Promise<Job>,
): Promise<{ planned: Planned; notes: readonly string[] }> {
  const tunings = await findTunings(untuned.parts.blob, place);
  const found = tunings.file && (await plan(tunings.file).catch(() => undefined)); // what is kept may be of any version
  const list = tunings.file?.tunings;
  const here = tunedOn(place.device);
  const wasStopped = Array.isArray(list) && list.some((one) => isOf(one, here) && one.ended === "stopped");
  if (found?.layout.isTuned && !wasStopped) return { planned: found, notes: [] };
  const job = await makeJob();
  const measured = await measureTuning(job);
  if (measured.measured > 0) await keepTuning(tunings, measured);
  job.signal.throwIfAborted();
  const planned = measured.choices.length > 0 ? await plan({ tunings: [measured] }) : untuned;
  return { planned, notes: measured.refused };
}

/** Measures until the time is over or the signal is aborted. Fails only where the device does. */
export async function measureTuning(job: Job): Promise<DeviceTuning> {
  const begin = performance.now();
  const tuner = new Tuner(job);
  await tuner.run(begin + job.ms);
  return {
    ...tunedOn(job.device),
    choices: tuner.choices(),
    milliseconds: Math.round(performance.now() - begin),
    ...tuner.found,
  };
}

class Tuner {
  readonly found = { cases: 0, measured: 0, ended: "complete" as DeviceTuning["ended"], refused: [] as string[] };
  private readonly planner: Planner;
  private end = 0;

  constructor(private readonly job: Job) {
    this.planner = job.planned.planner;
  }

  async run(end: number): Promise<void> {
    const { planner, found } = this;
    const { device, onProgress } = this.job;
    this.end = end;
    const { cases, isComplete } = planner.read(wire.readTuningCases, (e) =>
      e.nibble_tuning_cases(end - performance.now()),
    );
    found.cases = cases.length;
    let bench: Bench | undefined;
    try {
      for (const [i, one] of cases.entries()) {
        if (this.isOver()) break;
        try {
          if (cases[i - 1]?.node !== one.node) {
            bench?.destroy();
            bench = undefined;
            bench = await Bench.make(this.job, i);
            this.end += bench.readMs;
          }
          if (bench && (await this.measure(bench, i, one, cases.length - i))) ++found.measured;
        } catch (error) {
          this.refuse(`${one.op}: cannot be measured by itself`, error);
        }
        onProgress?.(i + 1, cases.length);
      }
    } finally {
      bench?.destroy();
    }
    if (!isComplete || (found.measured < cases.length && this.isOver())) {
      found.ended = this.job.signal.aborted ? "stopped" : "out of time";
    }
    device.check();
  }

  choices(): DeviceTuning["choices"] {
    const { rows } = this.planner.read(wire.readTunedRows, (e) => e.nibble_tuning_rows());
    return rows.map(({ choice, variant, rows, width, hasDepth, depth, traits, before, ops, times }) => ({
      choice,
      variant,
      rows: [rows[0]!, rows[1]!],
      width: [width[0]!, width[1]!],
      ...(hasDepth && { depth: [depth[0]!, depth[1]!] as const }),
      traits,
      ...(times.length > 0 && { before, ops, times: timesOf(times) }),
    }));
  }

  private isOver(): boolean {
    return this.job.signal.aborted || performance.now() >= this.end;
  }

  /** An error of the device ends the tuning. */
  private refuse(what: string, error?: unknown): void {
    if (error !== undefined) this.job.device.check();
    if (error !== undefined && this.isOver()) return;
    const sentence = error === undefined ? what : `${what}: ${messageOf(error)}`;
    if (!this.found.refused.includes(sentence)) this.found.refused.push(sentence);
  }

  /** Whether all variants of a case were compared. */
  private async measure(bench: Bench, index: number, one: wire.TuningCase, left: number): Promise<boolean> {
    const { planner } = this;
    bench.fill(index);
    bench.select(0);
    const begin = performance.now();
    const wanted = await bench.run(this.job.signal);
    const limit = Math.max(GIVE_UP * (performance.now() - begin), GIVE_UP_MS);
    const times = [await bench.estimate()];
    for (let variant = 1; variant < one.variants.length; ++variant) {
      if (this.isOver()) return false;
      times.push(await this.tryVariant(bench, one, variant, wanted, limit));
    }
    if (this.isOver()) return false;
    // Where variants are near to each other, a case may take more than its share of the time that is left.
    // The race counts samples of a millisecond.
    const budget = (2e6 * (this.end - performance.now())) / left / bench.sampleUs;
    const list = new Uint8Array(Float64Array.from(times).buffer);
    planner.withBytes(list, (at) => planner.call((e) => e.nibble_tuning_race(at, times.length, budget)));
    for (let us = -1; ;) {
      const turn = planner.read(wire.readTuningTurn, (e) => e.nibble_tuning_next(us));
      if (turn.isDone) return true;
      if (this.isOver()) return false;
      bench.select(turn.variant);
      us = await bench.measure(turn.times, times[turn.variant]!);
      times[turn.variant] = Math.min(times[turn.variant]!, us);
    }
  }

  /** Microseconds of a variant; below 0 if it is wrong, or far slower than the first. */
  private async tryVariant(
    bench: Bench,
    { op, choice, variants }: wire.TuningCase,
    variant: number,
    wanted: readonly Uint8Array[],
    limitMs: number,
  ): Promise<number> {
    const what = `${op}: ${choice}=${variants[variant]}`;
    const enough = new AbortController();
    const stop = (): void => enough.abort();
    const timer = setTimeout(stop, limitMs);
    this.job.signal.addEventListener("abort", stop);
    try {
      bench.select(variant);
      const results = await bench.run(enough.signal);
      if (wanted.every((output, i) => this.agree(i, output, results[i]!))) return await bench.estimate();
      this.refuse(`${what}: its results differ from those of ${variants[0]}`);
    } catch (error) {
      if (!enough.signal.aborted) this.refuse(what, error);
      this.job.device.check();
    } finally {
      clearTimeout(timer);
      this.job.signal.removeEventListener("abort", stop);
    }
    return -1;
  }

  private agree(output: number, a: Uint8Array, b: Uint8Array): boolean {
    const { planner } = this;
    if (a.length !== b.length) return false;
    return planner.withBytes(
      a,
      (first) =>
        planner.withBytes(b, (second) =>
          planner.call((e) => e.nibble_tuning_agree(output, first, second, a.length)),
        ) === 1,
    );
  }
}

function timesOf(times: readonly wire.VariantTime[]): Record<string, number> {
  return Object.fromEntries(times.map(({ variant, microseconds }) => [variant, Math.round(microseconds * 100) / 100]));
}
