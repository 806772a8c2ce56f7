// Converts elements between the caller's arrays and the form in GPU buffers. Pure functions, no GPU.

import type { DType, InputData, TensorData } from "./types.js";

/** Float16Array is new: not every platform has it. */
const Float16 = (globalThis as { Float16Array?: Float32ArrayConstructor }).Float16Array;

const elementBytes: Record<DType, number> = {
  bool: 1,
  uint8: 1,
  int8: 1,
  int32: 4,
  float16: 2,
  float32: 4,
  float64: 8,
  int64: 8,
};

export function sizeOf(dtype: DType): number {
  return elementBytes[dtype];
}

/** The values that an integer input may hold: any int32, or valid rows if it is looked up in tables. */
export interface Range {
  lowest: number;
  highest: number;
}

export const int32Range: Range = { lowest: -0x80000000, highest: 0x7fffffff };

/** An element that cannot be converted for the GPU. */
export class BadElement {
  constructor(
    readonly position: number,
    readonly value: number | bigint,
    /** "fraction": 1.5 in place of an integer. "no number": not a number at all. */
    readonly kind: "range" | "fraction" | "no number" = "range",
  ) {}
}

/** What a caller's array holds: a dtype, "numbers" for plain lists, or the name of a type that no program takes. */
export function dtypeOf(data: InputData): DType | "numbers" | string {
  if (Array.isArray(data)) return "numbers";
  const tag = (data as { [Symbol.toStringTag]?: string })[Symbol.toStringTag] ?? "Object";
  switch (tag) {
    case "BigInt64Array":
      return "int64";
    case "Uint8ClampedArray":
      return "uint8";
    default:
      return tag
        .replace(/Array$/, "")
        .replace("Big", "")
        .toLowerCase();
  }
}

/**
 * The bytes for a buffer, a multiple of 4. They are the caller's own if no conversion is needed, else they are written
 * to memory from `scratch(bytes)`. Gives the first integer outside `range` instead, if there is one. The planner has
 * checked that the types convert.
 */
export function toDevice(
  data: InputData,
  device: DType,
  range: Range,
  scratch: (bytes: number) => ArrayBuffer,
): Uint8Array | BadElement {
  const host = dtypeOf(data);
  const { length } = data as ArrayLike<unknown>;
  if (host === "numbers") {
    const at = (data as readonly unknown[]).findIndex((one) => !/number|bigint|boolean/.test(typeof one));
    if (at >= 0) return new BadElement(at, (data as readonly number[])[at]!, "no number");
  }
  const bytes = length * sizeOf(device);
  const padded = Math.ceil(bytes / 4) * 4;
  const asIs = host === device && device !== "bool" && padded === bytes;
  if (asIs) {
    const view = data as ArrayBufferView;
    const bad = device === "int32" ? findOutside(data as Int32Array, range) : undefined;
    return bad ?? new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  }
  const memory = scratch(padded);
  const target = new Uint8Array(memory, 0, padded);
  target.fill(0, bytes);
  const bad = fill(data, host, device, range, memory, length);
  return bad ?? target;
}

function fill(
  data: InputData,
  host: string,
  device: DType,
  range: Range,
  memory: ArrayBuffer,
  length: number,
): BadElement | undefined {
  switch (device) {
    case "int32": {
      const to = new Int32Array(memory, 0, length);
      if (host === "int64") return narrow(data as BigInt64Array, to, range);
      if (host === "int32") {
        to.set(data as Int32Array);
        return findOutside(to, range);
      }
      return fillIntegers(data as readonly number[], to, range);
    }
    case "uint8":
    case "int8": {
      const to = device === "int8" ? new Int8Array(memory, 0, length) : new Uint8Array(memory, 0, length);
      const limits = device === "int8" ? { lowest: -128, highest: 127 } : { lowest: 0, highest: 255 };
      if (host === "numbers") return fillIntegers(data as readonly number[], to, limits);
      to.set(data as unknown as ArrayLike<number>);
      return undefined;
    }
    case "bool": {
      const to = new Uint8Array(memory, 0, length);
      const from = data as ArrayLike<number | boolean>;
      for (let i = 0; i < length; ++i) to[i] = from[i] ? 1 : 0;
      return undefined;
    }
    default:
      fillFloats(data as ArrayLike<number | bigint>, device, memory, length);
      return undefined;
  }
}

/** The first integer outside `range`. */
function findOutside(data: Int32Array, range: Range): BadElement | undefined {
  const { lowest, highest } = range;
  if (lowest === int32Range.lowest && highest === int32Range.highest) return undefined;
  for (let i = 0; i < data.length; ++i) {
    const value = data[i]!;
    if (value < lowest || value > highest) return new BadElement(i, value);
  }
  return undefined;
}

/** Reads 64-bit integers as pairs of words, because a bigint per element would be slow. */
function narrow(data: BigInt64Array, to: Int32Array, range: Range): BadElement | undefined {
  const { lowest, highest } = range;
  const pairs = new Int32Array(data.buffer, data.byteOffset, data.length * 2);
  for (let i = 0; i < to.length; ++i) {
    const low = pairs[2 * i]!;
    if (pairs[2 * i + 1] !== low >> 31 || low < lowest || low > highest) return new BadElement(i, data[i]!);
    to[i] = low;
  }
  return undefined;
}

function fillIntegers(
  data: readonly (number | bigint | boolean)[],
  to: Int32Array | Int8Array | Uint8Array,
  range: Range,
): BadElement | undefined {
  for (let i = 0; i < to.length; ++i) {
    const given = data[i]!;
    const value = Number(given);
    if (!Number.isInteger(value)) return new BadElement(i, value, "fraction");
    if (value < range.lowest || value > range.highest) {
      return new BadElement(i, typeof given === "bigint" ? given : value);
    }
    to[i] = value;
  }
  return undefined;
}

function fillFloats(data: ArrayLike<number | bigint>, device: DType, memory: ArrayBuffer, length: number): void {
  if (device === "float16" && !Float16) {
    const to = new Uint16Array(memory, 0, length);
    for (let i = 0; i < length; ++i) to[i] = halfFromNumber(Number(data[i]));
    return;
  }
  const Target = device === "float16" ? Float16! : device === "float32" ? Float32Array : Float64Array;
  const to = new Target(memory, 0, length);
  if (!Array.isArray(data)) return to.set(data as ArrayLike<number>);
  for (let i = 0; i < length; ++i) to[i] = Number(data[i]);
}

/** A new array with `count` elements from `bytes`, which starts at a multiple of 4. */
export function fromDevice(device: DType, bytes: Uint8Array, host: DType, count: number): TensorData {
  const { buffer, byteOffset } = bytes;
  switch (device) {
    case "int32": {
      const from = new Int32Array(buffer, byteOffset, count);
      if (host !== "int64") return from.slice();
      const to = new Int32Array(count * 2);
      for (let i = 0; i < count; ++i) {
        const value = from[i]!;
        to[2 * i] = value;
        to[2 * i + 1] = value >> 31;
      }
      return new BigInt64Array(to.buffer);
    }
    case "int8":
      return new Int8Array(buffer, byteOffset, count).slice();
    case "bool": // anything but 0 becomes 1
      return bytes.slice(0, count).map((value) => (value === 0 ? 0 : 1));
    case "uint8":
      return bytes.slice(0, count);
    default:
      return floatsFrom(device, buffer, byteOffset, host, count);
  }
}

function floatsFrom(device: DType, buffer: ArrayBufferLike, offset: number, host: DType, count: number): TensorData {
  if (device === "float16" && !Float16) {
    const from = new Uint16Array(buffer, offset, count);
    const to = host === "float64" ? new Float64Array(count) : new Float32Array(count);
    for (let i = 0; i < count; ++i) to[i] = numberFromHalf(from[i]!);
    return to;
  }
  const Source = device === "float16" ? Float16! : device === "float32" ? Float32Array : Float64Array;
  const from = new Source(buffer as ArrayBuffer, offset, count);
  if (host === device) return from.slice();
  if (host === "float64") return Float64Array.from(from);
  return host === "float16" && Float16 ? Float16.from(from) : Float32Array.from(from);
}

const bits = new DataView(new ArrayBuffer(8));

/** IEEE half precision, rounded once to nearest even. */
export function halfFromNumber(value: number): number {
  bits.setFloat64(0, value);
  const high = bits.getUint32(0);
  const sign = (high >>> 16) & 0x8000;
  const exponent = ((high >>> 20) & 0x7ff) - 1023;
  if (exponent === 1024) return sign | 0x7c00 | (Number.isNaN(value) ? 0x200 : 0);
  if (exponent > 15) return sign | 0x7c00;
  if (exponent < -25) return sign;
  // The distance between neighbouring halves is a power of two, so the division is exact. It is constant below 2^-14.
  const scaled = Math.abs(value) / 2 ** (Math.max(exponent, -14) - 10);
  let rounded = Math.floor(scaled);
  const rest = scaled - rounded;
  if (rest > 0.5 || (rest === 0.5 && (rounded & 1) === 1)) ++rounded;
  // The hidden bit and a carry out of the fraction add to the exponent. A carry may correctly give infinity.
  return sign | (rounded + (Math.max(exponent, -14) + 14) * 1024);
}

export function numberFromHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}
