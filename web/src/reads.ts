// What a call uploads and reads back, and where that lies in the readback buffer.

import type { Layout, LiveOutput } from "#wire";
import { sizeOf } from "./convert.js";
import { countOf, dimsOf } from "./inputs.js";
import type { DType } from "./types.js";

/** An output that a call reads back, and its place in the readback buffer. */
export interface Read {
  offset: number;
  count: number;
  bytes: number;
}

/** An input that a call uploads. */
export interface Write {
  buffer: GPUBuffer;
  bytes: Uint8Array;
}

/** The fault comes first, so that a small call maps little, even if outputs can be large. */
export function planReads(
  { faultWords, graphOutputs }: Layout,
  outputs: readonly LiveOutput[],
  hosts: readonly (DType | undefined)[],
): (Read | undefined)[] {
  let offset = faultWords * 4;
  return outputs.map((output, i) => {
    const { isInt, dtype } = graphOutputs[i]!;
    const count = countOf(dimsOf(output.shape));
    if (isInt || count === 0 || !hosts[i]) return undefined;
    const read = { offset, count, bytes: Math.ceil((count * sizeOf(dtype)) / 4) * 4 };
    offset += Math.ceil(read.bytes / 16) * 16;
    return read;
  });
}
