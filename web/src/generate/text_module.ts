// The core of text generation: the C++ of src/generate as a WebAssembly module. Each model has an instance.

import type { WasmSource } from "../types.js";
import { type Address, type CommonExports, ModuleFile, WasmModule } from "./wasm_module.js";

interface Exports extends CommonExports {
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

const file = new ModuleFile("generate.wasm", () => new URL("generate.wasm", import.meta.url), "nibble_sampler_new");

export class TextModule extends WasmModule<Exports> {
  static async load(source?: WasmSource): Promise<TextModule> {
    return new TextModule(file.name, (await file.instantiate(source)) as Exports);
  }
}
