// What all sessions of a model share: the plan, the weights, the compiled kernels and the initial state.

import type { Layout } from "#wire";
import type { CompiledPipeline, GpuDevice } from "./device.js";
import type { Planner } from "./planner.js";

// The constants of GPUBufferUsage, which Node has no globals for.
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
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

export class Resources {
  /** By the layout's numbers. */
  compiled: readonly CompiledPipeline[] = [];
  /**
   * Copies of initial state for later sessions, because the source may be gone or slow by then. State that begins as
   * zeros, such as a KV cache, needs no copy: new buffers are zero. So nothing large is here.
   */
  private pristine = new Map<number, GPUBuffer>();
  /** How many use this: the model, and its sessions. */
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

  /** Copies the initial state from these buffers, which no call has changed yet. */
  async keepState(buffers: readonly GPUBuffer[], notZero: ReadonlySet<number>): Promise<void> {
    this.pristine = await makeLayoutBuffers(
      this.device,
      this.layout,
      (role, id) => role === "state" && notZero.has(id),
    );
    await this.copy([...this.pristine].map(([id, to]) => [buffers[id]!, to]));
  }

  /** Writes the initial state into new buffers. */
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

  /** The last user's release frees the memory. */
  release(): void {
    if (--this.users > 0) return;
    for (const buffer of [...this.constants.values(), ...this.pristine.values()]) buffer.destroy();
  }
}
