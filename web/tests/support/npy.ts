// NumPy's file format, as far as the conformance programs use it.

import type { DType } from "../../src/types.js";

export interface Array_ {
  dtype: DType;
  shape: number[];
  /** Elements of the dtype's own array; float16 is here as float32, bool as 0 and 1. */
  data: Float32Array | Float64Array | Int32Array | Int8Array | Uint8Array | BigInt64Array;
}

const dtypes: Record<string, DType> = {
  "|b1": "bool",
  "|u1": "uint8",
  "|i1": "int8",
  "<i4": "int32",
  "<i8": "int64",
  "<f2": "float16",
  "<f4": "float32",
  "<f8": "float64",
};

export function parseNpy(file: ArrayBuffer): Array_ {
  const view = new DataView(file);
  const long = view.getUint8(6) >= 2;
  const start = long ? 12 : 10;
  const headerBytes = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder().decode(new Uint8Array(file, start, headerBytes));
  const descr = /'descr': '([^']+)'/.exec(header)?.[1] ?? "";
  const dtype = dtypes[descr];
  if (!dtype || /'fortran_order': True/.test(header)) throw new Error(`an array that this reader lacks: ${header}`);
  const shape = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? "").split(",").filter((dim) => dim.trim());
  return { dtype, shape: shape.map(Number), data: elements(dtype, file.slice(start + headerBytes)) };
}

function elements(dtype: DType, bytes: ArrayBuffer): Array_["data"] {
  switch (dtype) {
    case "float16":
      return Float32Array.from(new Uint16Array(bytes), numberFromHalf);
    case "float32":
      return new Float32Array(bytes);
    case "float64":
      return new Float64Array(bytes);
    case "int32":
      return new Int32Array(bytes);
    case "int64":
      return new BigInt64Array(bytes);
    case "int8":
      return new Int8Array(bytes);
    default:
      return new Uint8Array(bytes);
  }
}

/** Through a double's bits, unlike the code under test. */
function numberFromHalf(half: number): number {
  const view = new DataView(new ArrayBuffer(8));
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return ((half & 0x8000 ? -1 : 1) * fraction) / 16777216;
  view.setUint32(0, ((half & 0x8000) << 16) | ((exponent === 31 ? 0x7ff : exponent + 1008) << 20) | (fraction << 10));
  return view.getFloat64(0);
}
