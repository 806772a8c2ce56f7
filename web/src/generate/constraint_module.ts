// Which tokens may come next: the C++ of src/constraint as a WebAssembly module, loaded when it is first needed.

import type { WasmSource } from "../types.js";
import { type Address, type CommonExports, ModuleFile, WasmModule } from "./wasm_module.js";

interface Exports extends CommonExports {
  nibble_vocabulary_new(
    texts: Address,
    bytes: number,
    ends: Address,
    count: number,
    stopIds: Address,
    stopCount: number,
  ): Address;
  nibble_matcher_new(vocabulary: Address, grammar: Address, bytes: number): Address;
  nibble_matcher_free(matcher: Address): void;
  nibble_matcher_allowed(matcher: Address): Address;
  nibble_matcher_is_done(matcher: Address): number;
  nibble_matcher_take(matcher: Address, token: number): number;
}

const file = new ModuleFile("constraint.wasm", () => new URL("constraint.wasm", import.meta.url), "nibble_matcher_new");

/** The tokens of a model, and what can be wanted of them. */
export class Constraints extends WasmModule<Exports> {
  private vocabulary = 0;
  private words = 0;

  /** `tokens` gives the bytes of each token; none for those that are no text. */
  static async load(
    source: WasmSource | undefined,
    tokens: readonly Uint8Array[],
    stopIds: readonly number[],
  ): Promise<Constraints> {
    const made = new Constraints(file.name, (await file.instantiate(source)) as Exports);
    const ends = new Uint32Array(tokens.length);
    let size = 0;
    tokens.forEach((bytes, i) => (ends[i] = size += bytes.length));
    const texts = new Uint8Array(size);
    tokens.forEach((bytes, i) => texts.set(bytes, ends[i]! - bytes.length));
    const ids = Int32Array.from(stopIds);
    made.vocabulary = made.withArrays([texts, ends, ids], (at, endsAt, idsAt) =>
      made.call((e) => e.nibble_vocabulary_new(at!, size, endsAt!, ends.length, idsAt!, ids.length)),
    );
    made.words = Math.ceil(tokens.length / 32);
    return made;
  }

  /** A text that has not begun yet. */
  make(grammar: string): Constraint {
    const text = new TextEncoder().encode(grammar);
    const matcher = this.withArrays([text], (at) =>
      this.call((e) => e.nibble_matcher_new(this.vocabulary, at!, text.length)),
    );
    return new Constraint(this, matcher, this.words);
  }
}

/** A text that must be what a grammar wants. */
export class Constraint {
  constructor(
    private readonly module: Constraints,
    private readonly at: Address,
    private readonly words: number,
  ) {}

  /** A bit for each token that may come next. */
  allowed(): Uint32Array {
    const at = this.module.run((e) => e.nibble_matcher_allowed(this.at));
    return new Uint32Array(this.module.bytes(at, 4 * this.words).slice().buffer);
  }

  /** Whether nothing can follow. */
  get isDone(): boolean {
    return this.module.run((e) => e.nibble_matcher_is_done(this.at)) !== 0;
  }

  take(token: number): void {
    this.module.call(
      (e) => e.nibble_matcher_take(this.at, token),
      (result) => result < 0,
    );
  }

  free(): void {
    if (!this.module.isStopped) this.module.run((e) => e.nibble_matcher_free(this.at));
  }
}
