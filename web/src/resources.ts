// What all sessions of a model share: the plan, its weights and compiled kernels, and how state begins.

import type { Layout } from "#wire";
import type { CompiledPipeline, GpuDevice } from "./device.js";
import type { Planner } from "./planner.js";

// The constants of GPUBufferUsage, which Node has no globals for.
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const STORAGE = 0x80;

/** Buffers of a layout are bound, copied from and written to. */
export const layoutUsage = STORAGE | COPY_DST | COPY_SRC;

export interface WantedBuffer {
  bytes: number;
  usage: GPUBufferUsageFlags;
  what: string;
}

/** Makes all of these buffers, or none. */
export async function makeBuffers(device: GpuDevice, wanted: readonly WantedBuffer[]): Promise<GPUBuffer[]> {
  const made = await Promise.allSettled(wanted.map(({ bytes, usage, what }) => device.makeBuffer(bytes, usage, what)));
  const buffers = made.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = made.find((one) => one.status === "rejected");
  if (!failed) return buffers;
  for (const buffer of buffers) buffer.destroy();
  throw failed.reason;
}

/** Makes some of the layout's buffers, by their numbers. */
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

export class Resources {
  /** By the layout's numbers. */
  compiled: readonly CompiledPipeline[] = [];
  /**
   * Copies of the state that does not begin as zeros, for later sessions: the source may be gone by then, or far away.
   * Caches do begin as zeros, as fresh buffers do, so nothing large is here.
   */
  private pristine = new Map<number, GPUBuffer>();
  /** The model, and its sessions. */
  private users = 1;

  private constructor(
    readonly device: GpuDevice,
    readonly planner: Planner,
    readonly layout: Layout,
    /** By the layout's numbers. */
    readonly constants: ReadonlyMap<number, GPUBuffer>,
  ) {}

  /** Makes buffers for the weights; nothing is compiled or uploaded yet. */
  static async make(device: GpuDevice, planner: Planner, layout: Layout): Promise<Resources> {
    const constants = await makeLayoutBuffers(device, layout, (role) => role === "constant");
    return new Resources(device, planner, layout, constants);
  }

  async compile(): Promise<void> {
    this.compiled = await Promise.all(this.layout.pipelines.map((one) => this.device.pipeline(one)));
  }

  /** Remembers the state in these buffers, which no call has changed yet. */
  async keepState(buffers: readonly GPUBuffer[], notZero: ReadonlySet<number>): Promise<void> {
    this.pristine = await makeLayoutBuffers(
      this.device,
      this.layout,
      (role, id) => role === "state" && notZero.has(id),
    );
    await this.copy([...this.pristine].map(([id, to]) => [buffers[id]!, to]));
  }

  /** Gives state its first value, in buffers that are fresh. */
  beginState(buffers: readonly GPUBuffer[]): Promise<void> {
    return this.copy([...this.pristine].map(([id, from]) => [from, buffers[id]!]));
  }

  private async copy(pairs: readonly (readonly [GPUBuffer, GPUBuffer])[]): Promise<void> {
    if (pairs.length === 0) return;
    await this.device.guard("copying the state of a session", () => {
      const encoder = this.device.handle.createCommandEncoder();
      for (const [from, to] of pairs) encoder.copyBufferToBuffer(from, 0, to, 0, from.size);
      this.device.handle.queue.submit([encoder.finish()]);
    });
  }

  acquire(): void {
    ++this.users;
  }

  /** Whoever is the last gives the memory back. */
  release(): void {
    if (--this.users > 0) return;
    for (const buffer of [...this.constants.values(), ...this.pristine.values()]) buffer.destroy();
  }
}
