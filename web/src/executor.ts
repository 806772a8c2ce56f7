// One session's buffers on the GPU, and its calls. It knows nothing about ops.

import * as wire from "#wire";
import { BadElement, fromDevice, toDevice } from "./convert.js";
import type { GpuDevice } from "./device.js";
import { InFlight } from "./in_flight.js";
import { dimsOf, type Given } from "./inputs.js";
import type { Planner } from "./planner.js";
import { planReads, type Read, type Write } from "./reads.js";
import { bindBuffers, makeBuffers, makeLayoutBuffers, type Resources } from "./resources.js";
import { SessionState } from "./state.js";
import { Stepper } from "./stepper.js";
import { now, Timer } from "./timer.js";
import type { DType, Tensor } from "./types.js";

// The constants of GPUBufferUsage and GPUMapMode, which Node has no globals for.
const MAP_READ = 0x1;
const COPY_DST = 0x8;
const UNIFORM = 0x40;
const MODE_READ = 0x1;

// Dispatches are read as 32-bit words, in place in the planner's memory. These are offsets in words.
const DISPATCH_WORDS = wire.sizeofDispatch / 4;
const PIPELINE = wire.atDispatch.pipeline / 4;
const NODE = wire.atDispatch.node / 4;
const GRID = wire.atDispatch.grid / 4;
const BINDING_COUNT = wire.atDispatch.bindingCount / 4;
const BINDINGS = wire.atDispatch.bindings / 4;

export class Executor {
  readonly stepper: Stepper;
  private readonly device: GpuDevice;
  private readonly planner: Planner;
  private readonly layout: wire.Layout;
  private readonly allGroups = new Map<string, GPUBindGroup>();
  /** Per dispatch of the call: its bind group. `groupKeys` has the dispatch that it was made for. */
  private readonly groups: GPUBindGroup[] = [];
  private readonly groupKeys: Uint32Array;
  private readonly scratch: ArrayBuffer[] = [];
  private readonly offset = new Uint32Array(1);
  readonly state: SessionState;
  /** How many dispatches the last call took. */
  dispatchCount = 0;
  /** When the last phase of a call ended. */
  private phaseEnd = 0;
  /** Of a call that is traced. */
  private timer: Timer | undefined;
  private preparedVersion = 0;
  /** Some dispatch of the call may report a fault. */
  private canFault = false;
  /** A call was submitted that may have reported a fault, and nobody saw that there is none: clear it before the next. */
  private faultUnread = false;

  private constructor(
    private readonly resources: Resources,
    /** By the layout's numbers; includes the model's buffers. */
    readonly buffers: readonly GPUBuffer[],
    private readonly own: readonly GPUBuffer[],
    private readonly params: GPUBuffer,
    private readonly readback: GPUBuffer,
    session: number | undefined,
  ) {
    this.device = resources.device;
    this.planner = resources.planner;
    this.layout = resources.layout;
    this.groupKeys = new Uint32Array(this.layout.maxDispatches * DISPATCH_WORDS);
    this.state = new SessionState(resources, buffers);
    this.stepper = new Stepper(this.planner, session);
    resources.acquire();
  }

  /** Makes the buffers. State has no value yet. `session`: of the planner, if it is not a new one of the program. */
  static async make(resources: Resources, session?: number): Promise<Executor> {
    const { device, layout, constants } = resources;
    const start = now();
    const own = await makeLayoutBuffers(device, layout, (role) => role !== "constant" && role !== "loading");
    const paramsBytes = Math.max(layout.maxDispatches, 1) * layout.paramsStride;
    const made = [...own.values()];
    try {
      const [params, readback] = await makeBuffers(device, [
        { bytes: paramsBytes, usage: UNIFORM | COPY_DST, what: "making the buffer of parameters" },
        {
          bytes: Math.max(layout.stagingBytes, 16),
          usage: MAP_READ | COPY_DST,
          what: `making a readback buffer of ${layout.stagingBytes} bytes`,
        },
      ]);
      made.push(params!, readback!);
      const buffers = layout.buffers.map((_, id) => (own.get(id) ?? constants.get(id))!);
      const executor = new Executor(resources, buffers, made, params!, readback!, session);
      device.phase("make session", start);
      return executor;
    } catch (error) {
      for (const buffer of made) buffer.destroy();
      throw error;
    }
  }

  /** Gives the GPU memory back. A running call still needs the stepper; free() releases it. */
  destroy(): void {
    for (const buffer of this.own) buffer.destroy();
    this.resources.release();
  }

  /** Call it once no call is running. */
  free(): void {
    this.stepper.free();
  }

  /**
   * Runs the program once; calls must not overlap. `inputs` are the method's, which the stepper has accepted. `hosts`
   * is per output of the graph: the type that the caller gets, or undefined if the output is not needed. When `signal` is
   * aborted, throws its reason once the GPU has done what was submitted.
   */
  async run(
    inputs: readonly Given[],
    hosts: readonly (DType | undefined)[],
    signal?: AbortSignal,
  ): Promise<(Tensor | undefined)[]> {
    this.state.check();
    this.phaseEnd = now();
    const writes = this.setInputs(inputs);
    this.endPhase("check inputs");
    const step = this.stepper.update();
    [, this.dispatchCount] = this.dispatches(step);
    this.endPhase("plan");
    const outputs = this.liveOutputs(step);
    const reads = planReads(this.layout, outputs, hosts);
    try {
      await this.submit(step, writes, reads, signal);
      this.endPhase("wait");
      this.state.rows = this.liveRows(step);
      const results = outputs.map((output, i) => this.result(output, i, reads[i], hosts[i]));
      this.endPhase("read back");
      await this.traceDispatches(step);
      return results;
    } catch (error) {
      if (signal?.aborted && error === signal.reason) throw error;
      throw await this.device.failure("reading the results", error);
    } finally {
      if (this.readback.mapState !== "unmapped") this.readback.unmap();
      this.timer?.destroy();
      this.timer = undefined;
    }
  }

  private endPhase(name: string): void {
    this.phaseEnd = this.device.phase(name, this.phaseEnd);
  }

  private async traceDispatches(step: number): Promise<void> {
    const [first, count] = this.dispatches(step);
    const times = (await this.timer?.times(count)) ?? [];
    const { words } = this.planner;
    times.forEach((time, i) => {
      const at = first + i * DISPATCH_WORDS;
      const node = words[at + NODE]!;
      const kernel = this.layout.pipelines[words[at + PIPELINE]!]!.label;
      this.device.trace?.push({ name: this.layout.ops[node]!, kernel, node, thread: 0, ...time });
    });
  }

  /** The call's dispatches: the first, in words of the planner's memory, and how many. */
  private dispatches(step: number): [number, number] {
    const { view } = this.planner;
    const at = step + wire.atStep.dispatches;
    return [view.getUint32(at, true) / 4, view.getUint32(at + 4, true)];
  }

  private setInputs(inputs: readonly Given[]): Write[] {
    const writes: Write[] = [];
    this.layout.graphInputs.forEach(({ input, wanted, used, hostRead, buffer }, i) => {
      if (!wanted) return;
      const bytes = this.convert(i, inputs[input]!);
      if (hostRead) this.stepper.setHostData(i, new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4));
      if (used && bytes.byteLength !== 0) writes.push({ buffer: this.buffers[buffer]!, bytes });
    });
    return writes;
  }

  private convert(input: number, { data }: Given): Uint8Array {
    const { dtype, lowest, highest } = this.layout.graphInputs[input]!;
    const bytes = toDevice(data, dtype, { lowest, highest }, (size) => this.memory(input, size));
    if (bytes instanceof BadElement) throw this.stepper.badElement(input, bytes);
    return bytes;
  }

  /** Memory for an input's converted elements; it is kept from call to call. */
  private memory(input: number, bytes: number): ArrayBuffer {
    const kept = this.scratch[input];
    if (kept && kept.byteLength >= bytes) return kept;
    return (this.scratch[input] = new ArrayBuffer(bytes));
  }

  private liveOutputs(step: number): wire.LiveOutput[] {
    const { view } = this.planner;
    const first = view.getUint32(step + wire.atStep.outputs, true);
    return this.layout.graphOutputs.map((_, i) => wire.readLiveOutput(view, first + i * wire.sizeofLiveOutput));
  }

  private liveRows(step: number): number[] {
    const { view } = this.planner;
    const first = view.getUint32(step + wire.atStep.states, true);
    return this.layout.states.map((_, i) => wire.readLiveState(view, first + i * wire.sizeofLiveState).rows);
  }

  /** Submits the call in batches, and waits until its results can be read. */
  private async submit(
    step: number,
    writes: readonly Write[],
    reads: readonly (Read | undefined)[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const ends = this.batchEnds(step);
    if (ends.length === 0 && reads.every((read) => read === undefined)) return;
    const flight = new InFlight(this.device, "running the program");
    let begin = 0;
    // What is only read back is a batch, too.
    for (const end of ends.length === 0 ? [0] : ends) {
      await flight.makeRoom();
      if (begin) this.endPhase("wait");
      if (signal?.aborted) await flight.drain();
      signal?.throwIfAborted();
      await this.submitBatch(step, begin, end, writes, end === (ends.at(-1) ?? 0) ? reads : undefined, flight);
      begin = end;
    }
    signal?.throwIfAborted();
    this.checkFault();
  }

  /** Dispatches from `begin` to `end`, the first after `writes`; with `reads`, waits for what is read back. */
  private async submitBatch(
    step: number,
    begin: number,
    end: number,
    writes: readonly Write[],
    reads: readonly (Read | undefined)[] | undefined,
    flight: InFlight,
  ): Promise<void> {
    const { queue } = this.device.handle;
    try {
      await this.device.guard("running the program", () => {
        if (begin === 0) {
          for (const { buffer, bytes } of writes)
            queue.writeBuffer(buffer, 0, bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
          this.endPhase("upload inputs");
          this.prepare(step);
          this.endPhase("bind");
          if (this.device.trace && this.dispatchCount && this.device.features.has("timestamp-query"))
            this.timer = new Timer(this.device.handle, this.dispatchCount);
        }
        const encoder = this.device.handle.createCommandEncoder();
        if (this.faultUnread && begin === 0) encoder.clearBuffer(this.buffers[this.layout.faultBuffer]!);
        this.encodeDispatches(encoder, step, begin, end);
        const used = reads ? this.encodeReads(encoder, reads) : 0;
        if (reads) this.timer?.encode(encoder);
        const commands = encoder.finish();
        this.endPhase("encode");
        if (this.timer && begin === 0) this.timer.submitted = now();
        queue.submit([commands]);
        this.endPhase("submit");
        this.faultUnread = this.canFault;
        if (!reads) return flight.add();
        return used === 0 ? queue.onSubmittedWorkDone() : this.readback.mapAsync(MODE_READ, 0, used);
      });
    } catch (error) {
      // An invalid bind group must not be found again.
      this.preparedVersion = 0;
      this.allGroups.clear();
      this.groups.length = 0;
      throw error;
    }
  }

  /** Where each batch of the call's dispatches ends. */
  batchEnds(step: number): readonly number[] {
    const { view, words } = this.planner;
    const first = view.getUint32(step + wire.atStep.batches, true) / 4;
    return Array.from(words.subarray(first, first + view.getUint32(step + wire.atStep.batches + 4, true)));
  }

  /** Prepares bind groups and parameters, which stay the same as long as the shapes do. */
  private prepare(step: number): void {
    const { view, words } = this.planner;
    const version = view.getUint32(step + wire.atStep.version, true);
    if (version === this.preparedVersion) return;
    const [first, count] = this.dispatches(step);
    this.canFault = false;
    for (let i = 0; i < count; ++i) {
      const at = first + i * DISPATCH_WORDS;
      if (this.layout.pipelines[words[at + PIPELINE]!]!.reportsFaults) this.canFault = true;
      if (!this.isBound(i, words, at)) this.groups[i] = this.bind(i, words, at);
    }
    const params = view.getUint32(step + wire.atStep.params, true);
    const bytes = view.getUint32(step + wire.atStep.params + 4, true);
    if (bytes !== 0) this.device.handle.queue.writeBuffer(this.params, 0, this.planner.bytes(params, bytes));
    this.preparedVersion = version;
  }

  /** Whether dispatch `i` has the same pipeline and buffers as in the last call. */
  private isBound(i: number, words: Uint32Array, at: number): boolean {
    if (this.groups[i] === undefined) return false;
    const key = i * DISPATCH_WORDS;
    if (this.groupKeys[key + PIPELINE] !== words[at + PIPELINE]) return false;
    const end = BINDINGS + words[at + BINDING_COUNT]!;
    for (let w = BINDINGS; w < end; ++w) if (this.groupKeys[key + w] !== words[at + w]) return false;
    return true;
  }

  private bind(i: number, words: Uint32Array, at: number): GPUBindGroup {
    const { layout } = this.resources.pipeline(words[at + PIPELINE]!);
    this.groupKeys.set(words.subarray(at, at + DISPATCH_WORDS), i * DISPATCH_WORDS);
    const ids = Array.from(words.subarray(at + BINDINGS, at + BINDINGS + words[at + BINDING_COUNT]!));
    const key = `${words[at + PIPELINE]} ${ids.join(" ")}`;
    let group = this.allGroups.get(key);
    if (!group) {
      const { paramsStride } = this.layout;
      group = bindBuffers(this.device, layout, this.params, paramsStride, ids, (id) => this.buffers[id]!);
      this.allGroups.set(key, group);
    }
    return group;
  }

  private encodeDispatches(encoder: GPUCommandEncoder, step: number, begin: number, end: number): void {
    const { words } = this.planner;
    const [first] = this.dispatches(step);
    let pass: GPUComputePassEncoder | undefined;
    for (let i = begin; i < end; ++i) {
      if (this.timer) {
        pass?.end();
        pass = encoder.beginComputePass({ timestampWrites: this.timer.writes(i) });
      }
      pass ??= encoder.beginComputePass();
      this.encode(pass, words, first + i * DISPATCH_WORDS, i);
    }
    pass?.end();
  }

  private encode(pass: GPUComputePassEncoder, words: Uint32Array, at: number, i: number): void {
    this.offset[0] = i * this.layout.paramsStride;
    pass.setPipeline(this.resources.pipeline(words[at + PIPELINE]!).handle);
    pass.setBindGroup(0, this.groups[i]!, this.offset, 0, 1);
    pass.dispatchWorkgroups(words[at + GRID]!, words[at + GRID + 1], words[at + GRID + 2]);
  }

  /** Dispatches from `begin` to `end` so many times, in one pass that a timer may measure. Nothing is read back. */
  encodeAgain(
    encoder: GPUCommandEncoder,
    step: number,
    begin: number,
    end: number,
    times: number,
    timer?: Timer,
  ): void {
    this.prepare(step);
    this.faultUnread = this.canFault;
    const [first] = this.dispatches(step);
    const pass = encoder.beginComputePass(timer && { timestampWrites: timer.writes(0) });
    for (let i = 0; i < times; ++i) {
      for (let d = begin; d < end; ++d) this.encode(pass, this.planner.words, first + d * DISPATCH_WORDS, d);
    }
    pass.end();
  }

  /** Gives how many bytes of the readback buffer are used. */
  private encodeReads(encoder: GPUCommandEncoder, reads: readonly (Read | undefined)[]): number {
    let end = 0;
    if (this.canFault) {
      end = this.layout.faultWords * 4;
      encoder.copyBufferToBuffer(this.buffers[this.layout.faultBuffer]!, 0, this.readback, 0, end);
    }
    reads.forEach((read, i) => {
      if (!read) return;
      const from = this.buffers[this.layout.graphOutputs[i]!.buffer]!;
      encoder.copyBufferToBuffer(from, 0, this.readback, read.offset, read.bytes);
      end = read.offset + read.bytes;
    });
    return Math.ceil(end / 4) * 4;
  }

  private checkFault(): void {
    if (!this.canFault) return;
    const words = new Uint32Array(this.readback.getMappedRange(0, this.layout.faultWords * 4));
    if (words[0] !== 0) throw this.stepper.fault(words[0]!, words[1]!, words[2]!, words[3]!);
    this.faultUnread = false;
  }

  private result(
    output: wire.LiveOutput,
    i: number,
    read: Read | undefined,
    host: DType | undefined,
  ): Tensor | undefined {
    if (!host) return undefined;
    const { isInt, dtype } = this.layout.graphOutputs[i]!;
    if (isInt) return { data: BigInt64Array.of(output.value), shape: [] };
    const bytes = read ? new Uint8Array(this.readback.getMappedRange(read.offset, read.bytes)) : new Uint8Array(0);
    return { data: fromDevice(dtype, bytes, host, read?.count ?? 0), shape: dimsOf(output.shape) };
  }
}
