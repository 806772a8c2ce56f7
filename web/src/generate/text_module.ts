// The core of text generation: the C++ of src/generate as a WebAssembly module. Each model has an instance.

import { NibbleError } from "#nibble";
import { errorCodeNames } from "#wire";
import type { WasmSource } from "../types.js";
import { failed, readBytes } from "./files.js";

/** An address in the module's memory; 0 means none. */
type Address = number;

interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  nibble_text_alloc(bytes: number): Address;
  nibble_text_release(memory: Address): void;
  nibble_text_error(): Address;
  nibble_sampler_new(
    vocabulary: bigint,
    temperature: number,
    topK: bigint,
    topP: number,
    minP: number,
    repetitionPenalty: number,
    repetitionWindow: bigint,
    presencePenalty: number,
    frequencyPenalty: number,
    seed: bigint,
    logprobs: number,
    topLogprobs: bigint,
    biases: Address,
    biasCount: number,
  ): Address;
  nibble_sampler_free(sampler: Address): void;
  nibble_sampler_from_logits(
    sampler: Address,
    sequence: Address,
    logits: Address,
    count: number,
    allowed: Address,
    words: number,
  ): Address;
  nibble_sampler_from_candidates(
    sampler: Address,
    sequence: Address,
    logits: Address,
    ids: Address,
    count: number,
    total: number,
    allowed: Address,
    words: number,
  ): Address;
  nibble_sequence_new(context: bigint, vocabulary: bigint): Address;
  nibble_sequence_copy(sequence: Address): Address;
  nibble_sequence_free(sequence: Address): void;
  nibble_sequence_begin(
    sequence: Address,
    prompt: Address,
    count: number,
    stopIds: Address,
    stopCount: number,
    maxTokens: bigint,
  ): number;
  nibble_sequence_advance(sequence: Address, count: number): void;
  nibble_sequence_push(sequence: Address, token: number): number;
  nibble_sequence_end(sequence: Address, reason: number): void;
  nibble_sequence_rewind(sequence: Address, position: bigint): number;
  nibble_sequence_tokens(sequence: Address): Address;
  nibble_sequence_size(sequence: Address): number;
  nibble_sequence_computed(sequence: Address): number;
  nibble_sequence_generated(sequence: Address): number;
  nibble_sequence_finish(sequence: Address): number;
  nibble_stream_new(stops: Address, count: number): Address;
  nibble_stream_free(stream: Address): void;
  nibble_stream_push(stream: Address, bytes: Address, count: number): number;
  nibble_stream_finish(stream: Address): number;
  nibble_stream_text(stream: Address): Address;
  nibble_stream_stop(stream: Address): number;
}

let ownModule: Promise<WebAssembly.Module> | undefined;

/** The compiled module. The generate.wasm beside this file is compiled only once. */
async function compiled(source: WasmSource | undefined): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (source !== undefined) return compile(source);
  ownModule ??= compile(new URL("generate.wasm", import.meta.url));
  try {
    return await ownModule;
  } catch (error) {
    ownModule = undefined; // the network may work the next time
    throw error;
  }
}

async function compile(source: string | URL | BufferSource): Promise<WebAssembly.Module> {
  const isPlace = typeof source === "string" || source instanceof URL;
  const bytes = isPlace ? await readBytes(source) : source;
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw failed("io", `the module of text generation ${isPlace ? String(source) : "given as bytes"} is none`, error);
  }
}

export class TextModule {
  private stopped: NibbleError | undefined;

  private constructor(private readonly exports: Exports) {}

  static async load(source?: WasmSource): Promise<TextModule> {
    const module = await compiled(source);
    if (!WebAssembly.Module.exports(module).some(({ name }) => name === "nibble_sampler_new")) {
      throw new NibbleError("invalid_argument", "the WebAssembly module given is not Nibble's generate.wasm");
    }
    const { exports } = await WebAssembly.instantiate(module, {});
    const text = new TextModule(exports as unknown as Exports);
    text.exports._initialize();
    return text;
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
      this.stopped = failed("internal", `generate.wasm stopped with ${bytes} bytes of memory`, error);
      throw this.stopped;
    }
  }

  /** Puts arrays into the module's memory while `use` runs. */
  withArrays<T>(arrays: readonly ArrayBufferView[], use: (...at: Address[]) => T): T {
    const places: Address[] = [];
    try {
      for (const { buffer, byteOffset, byteLength } of arrays) {
        const at = this.run((e) => e.nibble_text_alloc(Math.max(byteLength, 1)) >>> 0);
        if (at === 0) throw new NibbleError("out_of_memory", `generate.wasm has no memory for ${byteLength} bytes`);
        places.push(at);
        this.bytes(at, byteLength).set(new Uint8Array(buffer, byteOffset, byteLength));
      }
      return use(...places);
    } finally {
      if (!this.stopped) for (const at of places) this.exports.nibble_text_release(at);
    }
  }
}
