// What the WebAssembly modules of text generation have in common: memory, calls and errors.

import { NibbleError } from "#nibble";
import { errorCodeNames } from "#wire";
import type { WasmSource } from "../types.js";
import { failed, readBytes } from "./files.js";

/** An address in a module's memory; 0 means none. */
export type Address = number;

export interface CommonExports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  nibble_text_alloc(bytes: number): Address;
  nibble_text_release(memory: Address): void;
  nibble_text_error(): Address;
}

/** One of the modules beside this file, or another copy of it. The one beside it is compiled only once. */
export class ModuleFile {
  private own: Promise<WebAssembly.Module> | undefined;

  /** `mark` is the name of a function that it must have. */
  constructor(
    readonly name: string,
    private readonly place: () => URL,
    private readonly mark: string,
  ) {}

  async instantiate(source: WasmSource | undefined): Promise<CommonExports> {
    const module = await this.compiled(source);
    if (!WebAssembly.Module.exports(module).some(({ name }) => name === this.mark)) {
      throw new NibbleError("invalid_argument", `the WebAssembly module given is not Nibble's ${this.name}`);
    }
    const exports = (await WebAssembly.instantiate(module, {})).exports as unknown as CommonExports;
    exports._initialize();
    return exports;
  }

  private async compiled(source: WasmSource | undefined): Promise<WebAssembly.Module> {
    if (source instanceof WebAssembly.Module) return source;
    if (source !== undefined) return this.compile(source);
    this.own ??= this.compile(this.place());
    try {
      return await this.own;
    } catch (error) {
      this.own = undefined; // the network may work the next time
      throw error;
    }
  }

  private async compile(source: string | URL | BufferSource): Promise<WebAssembly.Module> {
    const isPlace = typeof source === "string" || source instanceof URL;
    const bytes = isPlace ? await readBytes(source) : source;
    try {
      return await WebAssembly.compile(bytes);
    } catch (error) {
      throw failed("io", `the module ${isPlace ? String(source) : `${this.name}, given as bytes,`} is none`, error);
    }
  }
}

/** An instance of a module. */
export class WasmModule<Exports extends CommonExports> {
  private stopped: NibbleError | undefined;

  protected constructor(
    private readonly name: string,
    private readonly exports: Exports,
  ) {}

  get isStopped(): boolean {
    return this.stopped !== undefined;
  }

  get view(): DataView {
    return new DataView(this.exports.memory.buffer);
  }

  bytes(at: Address, count: number): Uint8Array {
    return new Uint8Array(this.exports.memory.buffer, at, count);
  }

  /** Calls the module. Throws its error if the result says so. */
  call(run: (exports: Exports) => number, isFailure = (result: number): boolean => result === 0): number {
    const result = this.run(run);
    if (!isFailure(result)) return result;
    const at = this.exports.nibble_text_error();
    const message = this.bytes(this.view.getUint32(at + 4, true), this.view.getUint32(at + 8, true));
    const code = errorCodeNames[this.view.getUint32(at, true)]!;
    throw new NibbleError(code, new TextDecoder().decode(message));
  }

  /** Calls what cannot fail, but for want of memory. */
  run<T>(run: (exports: Exports) => T): T {
    if (this.stopped) throw this.stopped;
    try {
      return run(this.exports);
    } catch (error) {
      const bytes = this.exports.memory.buffer.byteLength;
      this.stopped = failed("internal", `${this.name} stopped with ${bytes} bytes of memory`, error);
      throw this.stopped;
    }
  }

  /** Puts arrays into the module's memory while `use` runs. */
  withArrays<T>(arrays: readonly ArrayBufferView[], use: (...at: Address[]) => T): T {
    const places: Address[] = [];
    try {
      for (const { buffer, byteOffset, byteLength } of arrays) {
        const at = this.run((e) => e.nibble_text_alloc(Math.max(byteLength, 1)) >>> 0);
        if (at === 0) throw new NibbleError("out_of_memory", `${this.name} has no memory for ${byteLength} bytes`);
        places.push(at);
        this.bytes(at, byteLength).set(new Uint8Array(buffer, byteOffset, byteLength));
      }
      return use(...places);
    } finally {
      if (!this.stopped) for (const at of places) this.exports.nibble_text_release(at);
    }
  }
}
