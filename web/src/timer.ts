// GPU times by timestamp queries: one pass per dispatch.

// The constants of GPUBufferUsage and GPUMapMode, which Node has no globals for.
const MAP_READ = 0x1;
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const QUERY_RESOLVE = 0x200;

/** As many as a query set may have; each dispatch takes two. */
const QUERIES = 4096;

/** Microseconds, on the clock of all events. */
export const now = (): number => performance.now() * 1e3;

/** GPU times of a call's dispatches, which then have a pass each. */
export class Timer {
  private readonly sets: GPUQuerySet[] = [];
  private readonly buffers: readonly [GPUBuffer, GPUBuffer];
  /** When the first of them was submitted. */
  submitted = 0;

  constructor(device: GPUDevice, dispatches: number) {
    for (let i = 0; i < dispatches * 2; i += QUERIES) {
      this.sets.push(device.createQuerySet({ type: "timestamp", count: Math.min(dispatches * 2 - i, QUERIES) }));
    }
    const make = (usage: number): GPUBuffer => device.createBuffer({ size: dispatches * 16, usage });
    this.buffers = [make(QUERY_RESOLVE | COPY_SRC), make(MAP_READ | COPY_DST)];
  }

  /** Where the pass of a dispatch writes its times. */
  writes(dispatch: number): GPUComputePassTimestampWrites {
    const query = dispatch * 2;
    const first = query % QUERIES;
    return {
      querySet: this.sets[(query - first) / QUERIES]!,
      beginningOfPassWriteIndex: first,
      endOfPassWriteIndex: first + 1,
    };
  }

  /** After the passes. */
  encode(encoder: GPUCommandEncoder): void {
    const [resolved, readback] = this.buffers;
    this.sets.forEach((set, i) => encoder.resolveQuerySet(set, 0, set.count, resolved, i * QUERIES * 8));
    encoder.copyBufferToBuffer(resolved, 0, readback, 0, readback.size);
  }

  /** Start and duration of each dispatch: the GPU's clock is another one, so the first begins when it was submitted. */
  async times(dispatches: number): Promise<{ start: number; duration: number }[]> {
    const readback = this.buffers[1];
    await readback.mapAsync(MAP_READ);
    const stamps = [...new BigUint64Array(readback.getMappedRange()).subarray(0, dispatches * 2)];
    readback.unmap();
    const first = stamps.reduce((a, b) => (b < a ? b : a));
    const at = (i: number): number => Number(stamps[i]! - first) / 1e3;
    return Array.from({ length: dispatches }, (_, i) => ({
      start: this.submitted + at(i * 2),
      duration: Math.max(0, at(i * 2 + 1) - at(i * 2)),
    }));
  }

  destroy(): void {
    for (const one of [...this.sets, ...this.buffers]) one.destroy();
  }
}
