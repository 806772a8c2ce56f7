// A node of a plan by itself on the device, with data of the right sizes: what a tuner measures.

import * as wire from "#wire";
import type { GpuDevice } from "../device.js";
import type { Executor } from "../executor.js";
import { countOf, dimsOf, type Given } from "../inputs.js";
import type { Planner } from "../planner.js";
import type { Resources } from "../resources.js";
import { now, type Timer } from "../timer.js";
import type { Job } from "../tune.js";
import type { TensorData } from "../types.js";

export type Time = typeof Timer;

/**
 * A sample takes about so many microseconds: browsers round the times of the GPU to 100. Without those, the way to the
 * GPU and back is part of each sample. A quarter of it is enough to know how often a variant runs in a sample.
 */
const STAMPED_US = 4000;
const CLOCKED_US = 16000;
const MOST_TIMES = 1024;
const MOST_INDEX = 2 ** 31 - 1;

export class Bench {
  /** How long it took to read the weights. */
  readMs = 0;
  private inputs: Given[] = [];
  private readonly planner: Planner;
  private readonly timer: Timer | undefined;

  private constructor(
    private readonly job: Job,
    private readonly layout: wire.Layout,
    private readonly resources: Resources,
    private readonly executor: Executor,
  ) {
    this.planner = job.planned.planner;
    const { features, handle } = job.device;
    if (features.has("timestamp-query")) this.timer = new job.core.Timer(handle, 1);
  }

  /** Of the node of a case, with the program's own constants. */
  static async make(job: Job, index: number): Promise<Bench> {
    const { core, device, source, cache, signal } = job;
    const { planner } = job.planned;
    const at = planner.call((e) => e.nibble_tuning_bench(index));
    const layout = wire.readLayout(planner.view, at + wire.atTuningBench.layout);
    const resources = await core.Resources.make(device, planner, { ...job.planned, layout });
    let executor: Executor | undefined;
    try {
      executor = await core.Executor.make(
        resources,
        planner.call((e) => e.nibble_tuning_session()),
      );
      const options = { cache, verify: false, onProgress: () => undefined };
      const loader = new core.Loader(device, source, layout, executor.buffers, options, signal);
      const begin = performance.now();
      await loader.run();
      const readMs = performance.now() - begin;
      await resources.compile(false);
      await resources.prepare(signal);
      await resources.keepState(executor.buffers, loader.notZero);
      return Object.assign(new Bench(job, layout, resources, executor), { readMs });
    } catch (error) {
      executor?.destroy();
      executor?.free();
      resources.release();
      throw error;
    }
  }

  destroy(): void {
    this.timer?.destroy();
    this.executor.destroy();
    this.executor.free();
    this.resources.release();
  }

  /** Makes inputs for the call of a case: the same every time. */
  fill(index: number): void {
    const at = this.planner.call((e) => e.nibble_tuning_bench(index));
    const { view } = this.planner;
    const first = view.getUint32(at + wire.atTuningBench.inputs, true);
    const integer = view.getUint32(at + wire.atTuningBench.integer, true);
    this.inputs = this.layout.graphInputs.map((_, i) =>
      inputOf(this.layout, i, wire.readTakenInput(view, first + i * wire.sizeofTakenInput), integer),
    );
  }

  /** Makes the node ready for the call, with this variant. If its kernel does not compile, run() says so. */
  select(variant: number): void {
    const { stepper } = this.executor;
    this.planner.call((e) => e.nibble_tuning_force(stepper.session, variant));
    stepper.take(this.inputs);
  }

  /** What select() made ready, once; the state is that of the beginning. */
  async run(signal: AbortSignal): Promise<Uint8Array[]> {
    if (this.layout.states.length > 0) await this.executor.state.reset();
    const hosts = this.layout.outputs.map(({ dtype }) => dtype);
    const results = await this.executor.run(this.inputs, hosts, signal);
    return results.map((one) => new Uint8Array(one!.data.buffer, one!.data.byteOffset, one!.data.byteLength));
  }

  /** Microseconds of one go, roughly. */
  async estimate(): Promise<number> {
    for (let times = 1; ; times *= 4) {
      const us = await this.time(times);
      if (us * times * 4 >= this.sampleUs || times >= MOST_TIMES) return us;
    }
  }

  /** Microseconds of one go, of so many at least. `about`: what one took before. */
  measure(atLeast: number, about: number): Promise<number> {
    return this.time(Math.max(atLeast, Math.min(Math.ceil(this.sampleUs / Math.max(about, 1)), MOST_TIMES)));
  }

  get sampleUs(): number {
    return this.timer ? STAMPED_US : CLOCKED_US;
  }

  private time(times: number): Promise<number> {
    const step = this.executor.stepper.update();
    const ends = this.executor.batchEnds(step);
    return ends.length > 1 ? this.timeBatches(step, ends, times) : this.timePass(step, ends[0] ?? 0, times);
  }

  private async timePass(step: number, end: number, times: number): Promise<number> {
    const { timer } = this;
    const { device } = this.job;
    let start = 0;
    await device.guard("measuring", () => {
      const encoder = device.handle.createCommandEncoder();
      this.executor.encodeAgain(encoder, step, 0, end, times, timer);
      timer?.encode(encoder);
      const commands = encoder.finish();
      start = now();
      device.handle.queue.submit([commands]);
      return device.handle.queue.onSubmittedWorkDone();
    });
    const clocked = now() - start;
    const [stamped] = (await timer?.times(1)) ?? [];
    return (stamped?.duration ?? clocked) / times;
  }

  private async timeBatches(step: number, ends: readonly number[], times: number): Promise<number> {
    const { core, device } = this.job;
    const flight = new core.InFlight(device, "measuring");
    const start = now();
    for (let time = 0; time < times; ++time) {
      let begin = 0;
      for (const end of ends) {
        await flight.makeRoom();
        await device.guard("measuring", () => this.submit(device, step, begin, end));
        flight.add();
        begin = end;
      }
    }
    await flight.drain();
    return (now() - start) / times;
  }

  private submit(device: GpuDevice, step: number, begin: number, end: number): void {
    const encoder = device.handle.createCommandEncoder();
    this.executor.encodeAgain(encoder, step, begin, end, 1);
    device.handle.queue.submit([encoder.finish()]);
  }
}

/** Elements that look like noise. `call`: what integers and integer tensors of the caller are. */
function inputOf(layout: wire.Layout, i: number, { shape, integer }: wire.TakenInput, call: number): Given {
  const { isInt, dtype } = layout.inputs[i]!;
  const { hostRead, highest } = layout.graphInputs[i]!;
  const dims = dimsOf(shape);
  const given = { dtype, word: "", count: 1, integer, shape: undefined, data: [] };
  if (isInt) return { ...given, kind: "number" };
  const count = countOf(dims);
  return { ...given, kind: "tensor", count, integer: undefined, shape: dims, data: noise(dtype, count) };

  function noise(type: wire.DType, count: number): TensorData {
    let state = 1;
    const next = (): number => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return state >>> 0;
    };
    switch (type) {
      case "float32":
        return Float32Array.from({ length: count }, () => next() / 2 ** 31 - 1);
      case "bool":
        return Uint8Array.from({ length: count }, () => next() & 1);
      case "int32":
        // Of integers that are no indices only zero is surely an index of something.
        return Int32Array.from({ length: count }, () =>
          hostRead ? call : highest < MOST_INDEX ? next() % (highest + 1) : 0,
        );
      case "int8":
        return Int8Array.from({ length: count }, next);
      default:
        return Uint8Array.from({ length: count }, next);
    }
  }
}
