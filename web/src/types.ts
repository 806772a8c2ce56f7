import type { NibbleError } from "./errors.js";
import type { Options } from "./option_types.js";

export type { Options };

/** Element types, as programs name them. */
export type DType = "bool" | "uint8" | "int8" | "int32" | "float16" | "float32" | "float64" | "int64";

/**
 * Elements of a result. int64 comes as `BigInt64Array`, bool as `Uint8Array`, float16 as `Float16Array` where the
 * platform has it and widened to `Float32Array` elsewhere.
 */
export type TensorData = Float32Array | Float64Array | Int32Array | Int8Array | Uint8Array | BigInt64Array;

/** A result: its elements, row by row, and its shape. */
export interface Tensor {
  data: TensorData;
  shape: number[];
}

/** Elements of an input. Plain numbers are taken as whatever the program wants, if they fit. */
export type InputData = ArrayBufferView | readonly number[] | readonly bigint[] | readonly boolean[];

/**
 * An input: elements with their shape, or elements alone where at most one dimension of the input may vary; an integer
 * input is a number.
 */
export type Input = InputData | { data: InputData; shape: readonly number[] } | number | bigint;

/** By name, or in order. */
export type Inputs = Readonly<Record<string, Input>> | readonly Input[];

/** What a program takes or gives. */
export interface ValueInfo {
  name: string;
  dtype: DType;
  /** The largest shape. */
  shape: number[];
  /** Whether dimensions may be smaller. */
  dynamic: boolean;
  /** A plain integer, no tensor. */
  isInteger: boolean;
}

/** What a program's constant methods return, such as `get_vocab_size`. */
export type ConstantValue = number | boolean | string | null | ConstantValue[];

/** How far a load is. */
export interface Progress {
  /** Bytes of weights read so far, and in all. */
  loaded: number;
  total: number;
  /** Those of `loaded` that came from the cache. */
  cached: number;
  /** Size of the planner's memory, which weights never enter. */
  heapBytes: number;
}

/** A GPU that `open()` has opened. */
export interface Device {
  /** The adapter's name, as far as the browser tells it. */
  readonly name: string;
  /** "cpu" for software adapters, else "unknown": browsers do not tell. */
  readonly kind: "cpu" | "unknown";
  readonly features: ReadonlySet<string>;
  readonly limits: GPUSupportedLimits;
  /** The WebGPU device itself. */
  readonly handle: GPUDevice;
  /** Resolves, once, when the device is gone; every later call on it fails with this error. */
  readonly lost: Promise<NibbleError>;
  /** Gives the GPU back. Models on the device end with a `device_lost` error. */
  destroy(): void;
}

/** A program's weights and kernels on a GPU, with a session of its own. */
export interface Model {
  readonly device: Device;
  readonly method: string;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /** What the program's constant methods return: one value, or a list of several. */
  readonly constants: Readonly<Record<string, ConstantValue>>;
  /** Size of the planner's memory, which weights never enter. */
  readonly heapBytes: number;
  /** Runs the program in the model's own session. */
  run(inputs: Inputs): Promise<Record<string, Tensor>>;
  /** A further session, which shares weights and kernels and has its own state, as it is in the program. */
  session(): Promise<Session>;
  /**
   * Gives the memory of its own session back, and that of the weights as soon as no other session needs them. Calls on
   * the model that are not done yet, and later ones, fail.
   */
  dispose(): void;
}

/** One user's state of a model. */
export interface Session {
  readonly model: Model;
  /**
   * Runs the program. Calls are made one after the other, in the order in which they came; the arrays must not change
   * until the call is done.
   */
  run(inputs: Inputs): Promise<Record<string, Tensor>>;
  /** Gives the session's memory back. Calls that are not done yet, and later ones, fail. */
  dispose(): void;
}

export interface OpenOptions {
  /** Where adapters come from; `navigator.gpu` if not given. In Node: `create([])` of the package `webgpu`. */
  gpu?: GPU;
  /** The adapter to use, instead of asking for one. */
  adapter?: GPUAdapter;
  powerPreference?: GPUPowerPreference;
  forceFallbackAdapter?: boolean;
}

/** A file that can be read from any position. */
export interface Source {
  /** For messages. */
  readonly name: string;
  /** Bytes of the file; undefined where nobody tells. */
  readonly size: number | undefined;
  /** How many reads may be under way at once. */
  readonly parallel: number;
  /**
   * Where the file can be had again, and what tells this version of it from others; `certain` if two versions never
   * have the same tag. Without it the file is not cached.
   */
  readonly version?: { url: string; tag: string; certain: boolean };
  /** The bytes from `offset` on, piece by piece. Fewer than `count` only where the file ends. */
  read(offset: number, count: number, signal: AbortSignal): AsyncIterable<Uint8Array>;
  close?(): void;
}

/** What `load()` takes: an address (in Node also a path), a file, bytes, or a source of your own. */
export type ProgramSource = string | URL | Blob | ArrayBuffer | ArrayBufferView | Source;

/** Where the planner comes from: its address, its bytes, or the compiled module. */
export type WasmSource = string | URL | BufferSource | WebAssembly.Module;

export interface Names {
  /** Names for the inputs and outputs, in order. A .pte file has none: they are `input0`, `output0` and so on. */
  inputs?: readonly string[];
  outputs?: readonly string[];
}

/** Which kernel variants are the best ones on a device. */
export interface Tuning {
  choices: readonly TuningChoice[];
}

/** The variant that a choice takes for shapes in a range of rows and of widths; without one, for all. */
export interface TuningChoice {
  choice: string;
  variant: string;
  /** The least and the most. */
  rows?: readonly [number, number];
  width?: readonly [number, number];
}

export interface LoadOptions extends Names, Options {
  device: Device;
  /** Called while weights arrive. */
  onProgress?: (progress: Progress) => void;
  /** Ends the load; it then rejects with the signal's reason. */
  signal?: AbortSignal;
  /**
   * Keeps weights that come over HTTP in the browser's Cache API, under this name; false: does not. Where there is no
   * such API, as in Node, nothing is kept.
   */
  cache?: boolean | string;
  /**
   * Whether weights are checked against the sha256 keys in the file. What comes from the cache always is, and so is
   * what comes from a server that does not tell versions of a file apart; everything else only if this is true.
   */
  verify?: boolean;
  /** The planner, if not the file nibble.wasm beside this one. */
  wasm?: WasmSource;
}
