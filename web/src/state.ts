// What a session keeps from call to call, on the GPU: going back, copying it, and moving it out and in. Calls must not
// overlap.

import type { StateRange } from "#wire";
import { invalid, NibbleError } from "./errors.js";
import { dimsOf } from "./inputs.js";
import type { Resources } from "./resources.js";

// The constants of GPUBufferUsage and GPUMapMode, which Node has no globals for.
const MAP_READ = 0x1;
const COPY_DST = 0x8;
const MODE_READ = 0x1;

/** No more of the state waits for the GPU at once, and a buffer for reading back is not larger. */
const PIECE = 4 << 20;

export class SessionState {
  /** Rows in use of the layout's states, after the last call that succeeded. */
  rows: readonly number[];
  /** Replacing it failed, so it is neither the old nor the new one. */
  private isIncomplete = false;

  constructor(
    private readonly resources: Resources,
    /** By the layout's numbers. */
    private readonly buffers: readonly GPUBuffer[],
  ) {
    this.rows = resources.layout.states.map(() => 0);
  }

  /** Throws if no call can use it. */
  check(): void {
    if (this.isIncomplete) {
      throw invalid("this session's state is incomplete, because replacing it failed: reset or restore it");
    }
  }

  async rewind(rows: number): Promise<void> {
    this.check();
    if (!Number.isSafeInteger(rows) || rows < 0) {
      throw new NibbleError("out_of_range", `a session cannot be rewound to row ${rows}`);
    }
    const { states } = this.resources.layout;
    const other = states.find(({ byRows }) => !byRows);
    if (other) {
      if (rows === 0) return this.reset();
      throw invalid(
        `a session of this program can only be rewound to row 0, not to ${rows}, because its state ${other.role} of ` +
          `shape [${dimsOf(other.shape).join(", ")}] has no rows that calls fill one after the other`,
      );
    }
    const inUse = this.rows.filter((_, i) => states[i]!.hasRowAxis);
    const fewest = inUse.length === 0 ? 0 : Math.min(...inUse);
    if (rows > fewest) {
      throw new NibbleError("out_of_range", `a session cannot be rewound to row ${rows}: ${fewest} are in use`);
    }
    // What lies in rows that are not in use has no meaning, so it may stay.
    this.rows = states.map(({ hasRowAxis }) => (hasRowAxis ? rows : 0));
  }

  async reset(): Promise<void> {
    await this.replace(
      this.rows.map(() => 0),
      () => this.resources.beginState(this.buffers, true),
    );
  }

  /** Copies what counts into another session's new buffers. */
  async copyTo(other: SessionState): Promise<void> {
    this.check();
    const ranges = this.ranges(this.rows);
    const { device } = this.resources;
    await device.guard("copying a session's state", () => {
      const encoder = device.handle.createCommandEncoder();
      for (const { buffer, offset, bytes } of ranges) {
        encoder.copyBufferToBuffer(this.buffers[buffer]!, offset, other.buffers[buffer]!, offset, bytes);
      }
      device.handle.queue.submit([encoder.finish()]);
    });
    other.rows = this.rows;
  }

  /** How many bytes count, with so many rows in use. */
  bytes(rows: readonly number[] = this.rows): number {
    return this.ranges(rows).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Puts the bytes that count one after the other. */
  async read(to: Uint8Array): Promise<void> {
    this.check();
    const { device } = this.resources;
    if (to.length === 0) return;
    const what = "reading a session's state";
    const piece = await device.makeBuffer(Math.min(PIECE, to.length), MAP_READ | COPY_DST, what);
    try {
      let done = 0;
      for (const parts of pieces(this.ranges(this.rows))) {
        const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
        await device.guard(what, () => {
          const encoder = device.handle.createCommandEncoder();
          let at = 0;
          for (const part of parts) {
            encoder.copyBufferToBuffer(this.buffers[part.buffer]!, part.offset, piece, at, part.bytes);
            at += part.bytes;
          }
          device.handle.queue.submit([encoder.finish()]);
          return piece.mapAsync(MODE_READ, 0, bytes);
        });
        to.set(new Uint8Array(piece.getMappedRange(0, bytes)), done);
        piece.unmap();
        done += bytes;
      }
    } catch (error) {
      throw await device.failure(what, error);
    } finally {
      piece.destroy();
    }
  }

  /** The other way: `from` is what read() gave when so many rows were in use. */
  async write(rows: readonly number[], from: Uint8Array): Promise<void> {
    const { device } = this.resources;
    const { queue } = device.handle;
    const ranges = this.ranges(rows);
    await this.replace(rows, async () => {
      await this.resources.beginState(this.buffers, true);
      let done = 0;
      for (const parts of pieces(ranges)) {
        await device.guard("restoring a session's state", () => {
          for (const { buffer, offset, bytes } of parts) {
            queue.writeBuffer(this.buffers[buffer]!, offset, from.buffer as ArrayBuffer, from.byteOffset + done, bytes);
            done += bytes;
          }
          queue.submit([]);
          return queue.onSubmittedWorkDone();
        });
      }
    });
  }

  private async replace(rows: readonly number[], work: () => Promise<void>): Promise<void> {
    this.isIncomplete = true;
    await work();
    this.isIncomplete = false;
    this.rows = rows;
  }

  private ranges(rows: readonly number[]): StateRange[] {
    return this.resources.planner.liveRanges(rows);
  }
}

/** The ranges, cut and put together so that each list has PIECE bytes, and the last one what is left. */
function pieces(ranges: readonly StateRange[]): StateRange[][] {
  const lists: StateRange[][] = [];
  let room = 0;
  for (const range of ranges) {
    for (let at = 0; at < range.bytes;) {
      if (room === 0) {
        lists.push([]);
        room = PIECE;
      }
      const bytes = Math.min(room, range.bytes - at);
      lists.at(-1)!.push({ buffer: range.buffer, offset: range.offset + at, bytes });
      at += bytes;
      room -= bytes;
    }
  }
  return lists;
}
