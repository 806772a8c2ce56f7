// What all sessions of a model share: the plan, the weights, the compiled kernels and the initial state.

import type { Layout } from "#wire";
import type { CompiledPipeline, GpuDevice } from "./device.js";
import { InFlight } from "./in_flight.js";
import type { Planned } from "./loader.js";
import type { Planner } from "./planner.js";

// The constants of GPUBufferUsage, which Node has no globals for.
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const UNIFORM = 0x40;
const STORAGE = 0x80;

/** The usage of a layout's buffers: they are bound, copied from and written to. */
export const layoutUsage = STORAGE | COPY_DST | COPY_SRC;

export interface WantedBuffer {
  bytes: number;
  usage: GPUBufferUsageFlags;
  what: string;
}

/** Makes all of these buffers; if one fails, destroys the others. */
export async function makeBuffers(device: GpuDevice, wanted: readonly WantedBuffer[]): Promise<GPUBuffer[]> {
  const made = await Promise.allSettled(wanted.map(({ bytes, usage, what }) => device.makeBuffer(bytes, usage, what)));
  const buffers = made.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = made.find((one) => one.status === "rejected");
  if (!failed) return buffers;
  for (const buffer of buffers) buffer.destroy();
  throw failed.reason;
}

/** Makes the wanted buffers of the layout. Gives them by number. */
export async function makeLayoutBuffers(
  device: GpuDevice,
  layout: Layout,
  isWanted: (role: Layout["buffers"][number]["role"], id: number) => boolean,
): Promise<Map<number, GPUBuffer>> {
  const ids = layout.buffers.flatMap(({ role }, id) => (isWanted(role, id) ? [id] : []));
  const wanted = ids.map((id) => {
    const { bytes, role } = layout.buffers[id]!;
    return { bytes, usage: layoutUsage, what: `making a ${role} buffer of ${bytes} bytes` };
  });
  const made = await makeBuffers(device, wanted);
  return new Map(ids.map((id, i) => [id, made[i]!]));
}

/** A bind group for a dispatch: its parameters, and the buffers with these numbers. */
export function bindBuffers(
  device: GpuDevice,
  layout: GPUBindGroupLayout,
  params: GPUBuffer,
  paramsStride: number,
  ids: readonly number[],
  bufferOf: (id: number) => GPUBuffer,
): GPUBindGroup {
  return device.handle.createBindGroup({
    layout,
    entries: [
      { binding: 0, resource: { buffer: params, size: paramsStride } },
      ...ids.map((id, binding) => ({ binding: binding + 1, resource: { buffer: bufferOf(id) } })),
    ],
  });
}

export class Resources {
  /** By the layout's numbers. */
  private compiled: readonly PromiseSettledResult<CompiledPipeline>[] = [];
  /**
   * Copies of initial state for later sessions, because the source may be gone or slow by then. State that begins as
   * zeros, such as a KV cache, needs no copy: new buffers are zero. So nothing large is here.
   */
  private pristine = new Map<number, GPUBuffer>();
  /** What the device knows this by: no pipeline keeps a model alive that nobody disposed. */
  private readonly user = Symbol();
  /** How many use this: the model, and its sessions. */
  private users = 1;

  private constructor(
    readonly device: GpuDevice,
    readonly planner: Planner,
    readonly layout: Layout,
    /** By the layout's numbers. */
    readonly constants: Map<number, GPUBuffer>,
    /** What tells the program from others, its weights included. */
    readonly fingerprint: string,
  ) {}

  /** Makes buffers for the weights; nothing is compiled or uploaded yet. */
  static async make(
    device: GpuDevice,
    planner: Planner,
    { layout, fingerprint }: Pick<Planned, "layout" | "fingerprint">,
  ): Promise<Resources> {
    const constants = await makeLayoutBuffers(device, layout, (role) => role === "constant" || role === "loading");
    return new Resources(device, planner, layout, constants, fingerprint);
  }

  /** Unless all must compile, one that does not fails where it is used. */
  async compile(mustAll = true): Promise<void> {
    // All of them: what fails is then no longer kept, and the next load begins anew.
    this.compiled = await Promise.allSettled(this.layout.pipelines.map((one) => this.device.pipeline(one, this.user)));
    if (mustAll) this.compiled.forEach((_, i) => this.pipeline(i));
  }

  pipeline(number: number): CompiledPipeline {
    const one = this.compiled[number]!;
    if (one.status === "rejected") throw one.reason;
    return one.value;
  }

  /** Computes once what depends on constants alone, and frees what only this needed. */
  async prepare(signal: AbortSignal): Promise<void> {
    const { preparation, preparationParams, buffers } = this.layout;
    if (preparation.length > 0) {
      const what = "computing what depends on constants alone";
      const params = await this.device.makeBuffer(preparationParams.length, UNIFORM | COPY_DST, what);
      try {
        await this.runOnce(what, params, signal);
      } finally {
        params.destroy();
      }
    }
    buffers.forEach(({ role }, id) => {
      if (role !== "loading") return;
      this.constants.get(id)?.destroy();
      this.constants.delete(id);
    });
  }

  private async runOnce(what: string, params: GPUBuffer, signal: AbortSignal): Promise<void> {
    const { queue } = this.device.handle;
    const { preparation, preparationParams, preparationBatches, paramsStride } = this.layout;
    const flight = new InFlight(this.device, what);
    let begin = 0;
    for (const end of preparationBatches) {
      await flight.makeRoom();
      signal.throwIfAborted();
      await this.device.guard(what, () => {
        if (begin === 0) queue.writeBuffer(params, 0, Uint8Array.from(preparationParams));
        const encoder = this.device.handle.createCommandEncoder();
        const pass = encoder.beginComputePass();
        for (let i = begin; i < end; ++i) {
          const { pipeline, grid, bindingCount, bindings } = preparation[i]!;
          const { handle, layout } = this.pipeline(pipeline);
          pass.setPipeline(handle);
          const ids = bindings.slice(0, bindingCount);
          const group = bindBuffers(this.device, layout, params, paramsStride, ids, (id) => this.constants.get(id)!);
          pass.setBindGroup(0, group, [i * paramsStride]);
          pass.dispatchWorkgroups(grid[0]!, grid[1], grid[2]);
        }
        pass.end();
        queue.submit([encoder.finish()]);
        flight.add();
      });
      begin = end;
    }
    await flight.drain();
    this.device.check();
  }

  /** Copies the initial state from these buffers, which no call has changed yet. */
  async keepState(buffers: readonly GPUBuffer[], notZero: ReadonlySet<number>): Promise<void> {
    this.pristine = await makeLayoutBuffers(
      this.device,
      this.layout,
      (role, id) => role === "state" && notZero.has(id),
    );
    await this.copy([...this.pristine].map(([id, to]) => [buffers[id]!, to]));
  }

  /** Writes the initial state into new buffers, whose bytes are zero, or into used ones. */
  beginState(buffers: readonly GPUBuffer[], areUsed = false): Promise<void> {
    const used = this.layout.buffers.flatMap(({ role }, id) => (areUsed && role === "state" ? [buffers[id]!] : []));
    return this.copy(
      [...this.pristine].map(([id, from]) => [from, buffers[id]!]),
      used,
    );
  }

  private async copy(pairs: readonly (readonly [GPUBuffer, GPUBuffer])[], cleared: GPUBuffer[] = []): Promise<void> {
    if (pairs.length + cleared.length === 0) return;
    await this.device.guard("copying the state of a session", () => {
      const encoder = this.device.handle.createCommandEncoder();
      for (const buffer of cleared) encoder.clearBuffer(buffer);
      for (const [from, to] of pairs) encoder.copyBufferToBuffer(from, 0, to, 0, from.size);
      this.device.handle.queue.submit([encoder.finish()]);
    });
  }

  acquire(): void {
    ++this.users;
  }

  /** The last user's release frees the memory, and leaves the pipelines. */
  release(): void {
    if (--this.users > 0) return;
    for (const buffer of [...this.constants.values(), ...this.pristine.values()]) buffer.destroy();
    this.device.leave(this.user);
  }
}
