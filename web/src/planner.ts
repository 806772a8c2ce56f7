// The planner: the C++ of src/ as a WebAssembly module. Each program has an instance, which is freed with it.

import * as wire from "#wire";
import { failure, invalid, messageOf, NibbleError } from "./errors.js";
import { System } from "./system.js";
import type { WasmSource } from "./types.js";

/** An address in the planner's memory; 0 means none. */
export type Address = number;

export interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  nibble_wire_version(): number;
  nibble_alloc(bytes: number): Address;
  nibble_free(memory: Address): void;
  nibble_error(): Address;
  nibble_program_head(bytes: Address, count: number, fileSize: bigint): Address;
  nibble_program_container(bytes: Address, count: number, method: Address, methodBytes: number): Address;
  nibble_program_blob(bytes: Address, count: number): number;
  nibble_program_plan(profile: Address, options: Address): Address;
  nibble_program_name_input(input: number, name: Address, nameBytes: number): number;
  nibble_program_live_ranges(rows: Address, count: number): Address;
  nibble_session_new(): number;
  nibble_session_free(session: number): void;
  nibble_session_given(session: number, count: number): Address;
  nibble_session_take(session: number): Address;
  nibble_session_host_data(session: number, input: number, count: number): Address;
  nibble_session_update(session: number): Address;
  nibble_session_fault(session: number, node: number, position: number, value: number, site: number): Address;
  nibble_session_bad_element(session: number, input: number, element: Address): Address;
  nibble_tuning_cases(milliseconds: number): Address;
  nibble_tuning_bench(index: number): Address;
  nibble_tuning_session(): number;
  nibble_tuning_force(session: number, variant: number): number;
  nibble_tuning_agree(output: number, a: Address, b: Address, bytes: number): number;
  nibble_tuning_race(microseconds: Address, count: number, budget: number): number;
  nibble_tuning_next(microseconds: number): Address;
  nibble_tuning_rows(): Address;
}

const ownModules = new Map<string, Promise<WebAssembly.Module>>();

/** The compiled planner: the given one, or the package's own, which is compiled only once. */
export async function plannerModule(source: WasmSource | undefined, file: URL): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (source !== undefined) return compile(source);
  const own = ownModules.get(file.href) ?? compile(file);
  ownModules.set(file.href, own);
  try {
    return await own;
  } catch (error) {
    ownModules.delete(file.href); // the network may work the next time
    throw error;
  }
}

async function compile(source: string | URL | BufferSource): Promise<WebAssembly.Module> {
  const isPlace = typeof source === "string" || source instanceof URL;
  const url = isPlace ? String(source) : "given as bytes";
  try {
    if (!isPlace) return await WebAssembly.compile(source);
    if (url.startsWith("file:")) {
      const { readFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises");
      return await WebAssembly.compile(await readFile(new URL(url)));
    }
    const response = await fetch(url);
    if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`.trimEnd());
    // compileStreaming() needs the right content type, which some servers do not send for .wasm files.
    if (response.headers.get("content-type") === "application/wasm")
      return await WebAssembly.compileStreaming(response);
    return await WebAssembly.compile(await response.arrayBuffer());
  } catch (error) {
    throw failure("io", `the planner ${url} could not be loaded`, error);
  }
}

/** A text in the planner's memory. */
export interface PlacedText {
  at: Address;
  bytes: number;
}

const encoder = new TextEncoder();

/** The planner of one program. Its sessions are Steppers. */
export class Planner {
  private readonly exports: Exports;
  /** Room for a record that the planner reads immediately. */
  readonly scratch: Address;
  private currentView: DataView;
  private currentWords: Uint32Array;
  private stopped: NibbleError | undefined;

  private constructor(
    exports: Exports,
    private readonly system: System,
  ) {
    this.exports = exports;
    this.currentView = new DataView(this.exports.memory.buffer);
    this.currentWords = new Uint32Array(this.exports.memory.buffer);
    this.scratch = this.exports.nibble_alloc(wire.sizeofBadElement);
  }

  static async create(module: WebAssembly.Module): Promise<Planner> {
    if (!WebAssembly.Module.exports(module).some((one) => one.name === "nibble_wire_version")) {
      throw invalid("the WebAssembly module given is not Nibble's planner");
    }
    const system = new System();
    const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: system.imports() }).catch(
      (error: unknown) => {
        throw failure("out_of_memory", "the planner could not be started", error);
      },
    );
    const exports = instance.exports as unknown as Exports;
    system.memory = exports.memory;
    exports._initialize();
    const theirs = exports.nibble_wire_version();
    if (theirs !== wire.wireVersion) {
      throw invalid(
        `the planner speaks version ${theirs} of the plan's layout, but this package speaks version ` +
          `${wire.wireVersion}: nibble.js and nibble.wasm must come from the same release`,
      );
    }
    return new Planner(exports, system);
  }

  /** Size of the planner's memory. */
  get heapBytes(): number {
    return this.exports.memory.buffer.byteLength;
  }

  /** The planner's memory. When it grows, old views become invalid, so do not keep them. */
  get view(): DataView {
    if (this.currentView.buffer !== this.exports.memory.buffer) this.renew();
    return this.currentView;
  }

  get words(): Uint32Array {
    if (this.currentWords.buffer !== this.exports.memory.buffer) this.renew();
    return this.currentWords;
  }

  bytes(at: Address, count: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.exports.memory.buffer as ArrayBuffer, at, count);
  }

  /** Takes the first bytes of the file. Gives the size of the program in it. */
  head(firstBytes: Uint8Array, fileSize: number): number {
    return this.withBytes(firstBytes, (at) => {
      return this.read(wire.readFileRange, (e) => e.nibble_program_head(at, firstBytes.length, BigInt(fileSize))).size;
    });
  }

  /** Takes the program. Gives the file range of the delegate's blob. */
  container(program: Uint8Array, method: string): wire.FileRange {
    return this.withBytes(program, (at) =>
      this.withTexts([method], ([name]) =>
        this.read(wire.readFileRange, (e) => e.nibble_program_container(at, program.length, name!.at, name!.bytes)),
      ),
    );
  }

  /** Takes the blob. Gives the plan for a device. */
  plan(blob: Uint8Array, profile: wire.Profile, options: wire.Options): wire.Layout {
    this.withBytes(blob, (at) => this.call((e) => e.nibble_program_blob(at, blob.length)));
    const layout = this.borrow((memory) => {
      const [at, device] = [memory.alloc(wire.sizeofOptions), memory.alloc(wire.sizeofProfile)];
      wire.writeProfile(memory, device, profile);
      wire.writeOptions(memory, at, options);
      return this.call((e) => e.nibble_program_plan(device, at));
    });
    return wire.readLayout(this.view, layout);
  }

  /** Sets an input's name for errors. Call it before there is a session. */
  nameInput(input: number, name: string): void {
    this.withTexts([name], ([text]) => this.call((e) => e.nibble_program_name_input(input, text!.at, text!.bytes)));
  }

  /** What counts of a session's state, with so many rows in use of each. */
  liveRanges(rows: readonly number[]): wire.StateRange[] {
    const words = new Uint8Array(BigUint64Array.from(rows, BigInt).buffer);
    return this.withBytes(
      words,
      (at) => this.read(wire.readStateRanges, (e) => e.nibble_program_live_ranges(at, rows.length)).ranges,
    );
  }

  /** The error in a failure record. */
  error(at: Address): NibbleError {
    const failure = wire.readFailure(this.view, at);
    return new NibbleError(failure.code, failure.message);
  }

  private renew(): void {
    this.currentView = new DataView(this.exports.memory.buffer);
    this.currentWords = new Uint32Array(this.exports.memory.buffer);
  }

  /** Calls the planner. Throws its error if the result is 0. */
  call(run: (exports: Exports) => number): number {
    if (this.stopped) throw this.stopped;
    let result: number;
    try {
      result = run(this.exports);
    } catch (error) {
      const why = this.system.lastWords.trim() || messageOf(error);
      this.stopped = new NibbleError("internal", `the planner stopped with ${this.heapBytes} bytes of memory: ${why}`);
      throw this.stopped;
    }
    if (result === 0) throw this.error(this.exports.nibble_error());
    return result >>> 0;
  }

  /** Calls the planner, and reads the record that it gives. A view from before the call may be none any longer. */
  read<T>(record: (view: DataView, at: Address) => T, run: (exports: Exports) => number): T {
    const at = this.call(run);
    return record(this.view, at);
  }

  /** Frees something, unless the planner has stopped. */
  free(run: (exports: Exports) => void): void {
    if (!this.stopped) run(this.exports);
  }

  /** Puts texts into the planner's memory while `use` runs. An empty text has the address 0. */
  withTexts<T>(texts: readonly string[], use: (placed: readonly PlacedText[]) => T): T {
    return this.borrow((memory) =>
      use(texts.map((text) => (text === "" ? { at: 0, bytes: 0 } : this.place(memory, encoder.encode(text))))),
    );
  }

  /** Puts bytes into the planner's memory while `use` runs. */
  withBytes<T>(bytes: Uint8Array, use: (at: Address) => T): T {
    return this.borrow((memory) => use(this.place(memory, bytes).at));
  }

  private place(memory: wire.Memory, bytes: Uint8Array): PlacedText {
    const at = memory.alloc(bytes.length);
    this.bytes(at, bytes.length).set(bytes);
    return { at, bytes: bytes.length };
  }

  /** Frees the planner memory that `use` allocates when it is done. */
  private borrow<T>(use: (memory: wire.Memory) => T): T {
    const taken: Address[] = [];
    if (this.stopped) throw this.stopped;
    const alloc = (bytes: number): Address => {
      const at = this.exports.nibble_alloc(Math.max(bytes, 1)) >>> 0;
      if (at === 0) throw new NibbleError("out_of_memory", `the planner has no memory for ${bytes} bytes`);
      taken.push(at);
      return at;
    };
    try {
      return use({ view: () => this.view, alloc });
    } finally {
      for (const at of taken) this.free((e) => e.nibble_free(at));
    }
  }
}
