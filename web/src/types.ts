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

/** Elements of an input. Plain numbers are converted to the type that the program takes, if they fit. */
export type InputData = ArrayBufferView | readonly number[] | readonly bigint[] | readonly boolean[];

/**
 * An input: elements with their shape, or elements alone if at most one dimension of the input may vary. An integer
 * input is a number.
 */
export type Input = InputData | { data: InputData; shape: readonly number[] } | number | bigint;

/** By name, or in order. */
export type Inputs = Readonly<Record<string, Input>> | readonly Input[];

/** An input or output of a program. */
export interface ValueInfo {
  name: string;
  dtype: DType;
  /** The largest shape. */
  shape: number[];
  /** Whether dimensions may be smaller. */
  dynamic: boolean;
  /** A plain integer, not a tensor. */
  isInteger: boolean;
}

/** A tensor that a session keeps from call to call, such as a KV cache. */
export interface State {
  /** The argument that it is to the operator which changes it, such as "key_cache". */
  role: string;
  dtype: DType;
  shape: number[];
  /** The dimension that calls fill from the front; null where there is none. */
  rowAxis: number | null;
  /** How many rows, along `rowAxis`, are in use after the last call. */
  rows: number;
}

/** What a program's constant methods return, such as `get_vocab_size`. */
export type ConstantValue = number | boolean | string | null | ConstantValue[];

/** Progress of a load. */
export interface Progress {
  /** Bytes of weights read so far, and in all. */
  loaded: number;
  total: number;
  /** How many of `loaded` came from the cache. */
  cached: number;
  /** Size of the planner's memory, which weights never enter. */
  heapBytes: number;
}

/** A GPU that `open()` has opened. */
export interface Device {
  /** The adapter's name, as far as the browser reveals it. */
  readonly name: string;
  /** "cpu" for software adapters, else "unknown", because browsers do not say. */
  readonly kind: "cpu" | "unknown";
  readonly features: ReadonlySet<string>;
  readonly limits: GPUSupportedLimits;
  /** The WebGPU device itself. */
  readonly handle: GPUDevice;
  /**
   * While it is a list, loads and calls on the device add to it what they do; see chromeTrace(). What the GPU does is
   * told where the device has the feature `timestamp-query`.
   */
  trace: TraceEvent[] | undefined;
  /** Resolves when the device is lost. Every later call on it fails with this error. */
  readonly lost: Promise<NibbleError>;
  /** Releases the GPU. Later calls of models on the device fail with a `device_lost` error. */
  destroy(): void;
}

/** A piece of work: a phase of the host's, or a dispatch on the GPU. Times are microseconds, from any beginning. */
export interface TraceEvent {
  /** A phase, such as "plan" or "wait"; or the dispatch's operator. */
  name: string;
  /** The dispatch's, and its node in the planned graph. */
  kernel?: string;
  node?: number;
  /** 0: the GPU; from 1 on: what the host does at the same time. */
  thread: number;
  start: number;
  duration: number;
}

/** A program's weights and kernels on a GPU, with a session of its own. */
export interface Model {
  readonly device: Device;
  readonly method: string;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /** What the program's constant methods return: one value, or a list of several. */
  readonly constants: Readonly<Record<string, ConstantValue>>;
  /** What there is to say about the load, such as that a tuning is of another device. */
  readonly notes: readonly string[];
  /** Size of the planner's memory, which weights never enter. */
  readonly heapBytes: number;
  /** On the GPU: what all sessions share, and what each has. */
  readonly modelBytes: number;
  readonly sessionBytes: number;
  /** When its load began and ended, in milliseconds since 1970. */
  readonly loadStartMs: number;
  readonly loadEndMs: number;
  /** What the model's own session keeps from call to call. */
  readonly states: readonly State[];
  /** The session that `run()` uses. */
  readonly own: Session;
  /** Runs the program in the model's own session. */
  run(inputs: Inputs, options?: RunOptions): Promise<Record<string, Tensor>>;
  /** A further session. It shares weights and kernels, and its own state begins with the program's initial values. */
  session(): Promise<Session>;
  /**
   * Frees the memory of the model's own session, and that of the weights once no other session needs them. Calls on the
   * model that are not finished, and later ones, fail.
   */
  dispose(): void;
}

export interface RunOptions {
  /**
   * Stops the call, which then rejects with the signal's reason as soon as what the GPU works on is done. What the session
   * keeps may then be partly changed; of a cache only the rows that the call fills, so it can be made again. A signal that
   * is already aborted changes nothing.
   */
  signal?: AbortSignal;
  /** The names of the outputs to read back. The default is all; what is not read back costs no time. */
  outputs?: readonly string[];
}

/** One user's state of a model. */
export interface Session {
  readonly model: Model;
  /** What the session keeps from call to call, as the last call that succeeded left it. */
  readonly states: readonly State[];
  /** How many dispatches the last call took. */
  readonly dispatches: number;
  /**
   * Runs the program. Calls run one after the other, in the order in which they were made. Do not change the arrays
   * until the call is finished.
   */
  run(inputs: Inputs, options?: RunOptions): Promise<Record<string, Tensor>>;
  /**
   * Goes back to a position: forgets all rows of the caches but the first `rows`. This and what follows waits for the
   * calls that were made before.
   */
  rewind(rows: number): Promise<void>;
  /** Goes back to the program's initial values. */
  reset(): Promise<void>;
  /** A further session that begins with a copy of this one's state, made on the GPU. */
  fork(): Promise<Session>;
  /** What the session keeps, as bytes. `note` is a text that restore() shows again. */
  save(note?: string): Promise<Uint8Array>;
  /**
   * Takes over what save() gave, here or elsewhere, with the same program, weights and options. All is checked before
   * anything changes; `accept` sees the note and the rows in use of each state, and may refuse them by a NibbleError.
   */
  restore(saved: Uint8Array, accept?: (note: string, rows: readonly number[]) => void): Promise<void>;
  /** Frees the session's memory. Calls that are not finished, and later ones, fail. */
  dispose(): void;
}

export interface OpenOptions {
  /** Where to request the adapter; the default is `navigator.gpu`. In Node: `create([])` of the package `webgpu`. */
  gpu?: GPU;
  /** The adapter to use, instead of requesting one. */
  adapter?: GPUAdapter;
  powerPreference?: GPUPowerPreference;
  forceFallbackAdapter?: boolean;
}

/** A file that can be read from any position. */
export interface Source {
  /** The file's name in errors. */
  readonly name: string;
  /** The file's size in bytes; undefined if it is unknown. */
  readonly size: number | undefined;
  /** How many reads may run at the same time. */
  readonly parallel: number;
  /**
   * The file's address, and a tag that identifies this version of it. `certain`: two versions never have the same tag.
   * Without `version` the file is not cached.
   */
  readonly version?: { url: string; tag: string; certain: boolean };
  /** `count` bytes from `offset` on, piece by piece. Fewer only at the end of the file. */
  read(offset: number, count: number, signal: AbortSignal): AsyncIterable<Uint8Array>;
  close?(): void;
}

/** What `load()` accepts: an address (in Node also a path), a file, bytes, or your own source. */
export type ProgramSource = string | URL | Blob | ArrayBuffer | ArrayBufferView | Source;

/** The planner: its address, its bytes, or the compiled module. */
export type WasmSource = string | URL | BufferSource | WebAssembly.Module;

export interface Names {
  /** Names for the inputs and outputs, in order. A .pte file has none: they are `input0`, `output0` and so on. */
  inputs?: readonly string[];
  outputs?: readonly string[];
}

/** Which kernel variants are best: on every device, or on those that a file has tunings of. */
export type Tuning = { choices: readonly TuningChoice[] } | TuningFile;

/** What tune() and `nibble tune` write. Those of other devices, and of other versions of Nibble, are ignored. */
export interface TuningFile {
  tunings: readonly DeviceTuning[];
}

export interface DeviceTuning {
  device: string;
  driver: string;
  /** "web" for this package. */
  engine: string;
  /** The version of Nibble. */
  nibble: string;
  choices: readonly (TuningChoice & TuningTimes)[];
  milliseconds: number;
  /** What there was to measure, and how much of it was. */
  cases: number;
  measured: number;
  /** A load that shall tune takes one that was stopped for none. */
  ended: "complete" | "out of time" | "stopped";
  /** Sentences: what cannot be measured, and variants whose results differ. */
  refused: readonly string[];
}

/** Of sizes that were measured. */
export interface TuningTimes {
  /** The variant that is taken without a tuning. */
  before?: string;
  ops?: readonly string[];
  /** Microseconds, by variant. */
  times?: Readonly<Record<string, number>>;
}

/** Where tunings are kept, by program and options. What is kept is JSON. */
export interface TuningStore {
  get(key: string): string | undefined | Promise<string | undefined>;
  put(key: string, tuning: string): void | Promise<void>;
}

/** The variant that a choice selects for a range of rows, widths and depths. A missing range means all sizes. */
export interface TuningChoice {
  choice: string;
  variant: string;
  /** The smallest and the largest size. */
  rows?: readonly [number, number];
  width?: readonly [number, number];
  depth?: readonly [number, number];
  /** What else the choice depends on, as a tuner writes it; whatever it is if this is missing. */
  traits?: number;
}

export interface LoadOptions extends Names, Options {
  device: Device;
  /** Called while weights arrive. */
  onProgress?: (progress: Progress) => void;
  /** Aborts the load, which then rejects with the signal's reason. */
  signal?: AbortSignal;
  /**
   * Weights that come over HTTP are kept in the browser's Cache API, under this name (default: "nibble"). With false,
   * or without such an API, as in Node, nothing is kept.
   */
  cache?: boolean | string;
  /**
   * Whether weights are checked against the sha256 keys in the file. The default is to check those from a server that
   * does not identify versions of a file. Weights from the cache are always checked.
   */
  verify?: boolean;
  /** Where `tune` keeps what it measured, if not in that cache. */
  tunings?: TuningStore;
  /** Called while `tune` measures, with how many cases are done and how many there are. */
  onTuning?: (done: number, cases: number) => void;
  /** The planner, if not the file nibble.wasm beside this one. */
  wasm?: WasmSource;
  /** What a tuner needs, if not tune.wasm there. It is loaded when a tuner is first used. */
  tuneWasm?: WasmSource;
}

/** Those of `load()`, as far as they matter. Aborting the signal ends the measuring: what was measured until then is given. */
export type TuneOptions = Omit<LoadOptions, keyof Names | "onProgress" | "tune" | "tunings" | "verify">;
