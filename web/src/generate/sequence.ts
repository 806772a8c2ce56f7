// The tokens that a session holds, and what a generation does next: src/generate/sequence.hpp.

import type { TextModule } from "./text_module.js";

const isNegative = (result: number): boolean => result < 0;

/** Why a generation ended, by the numbers of Finish in include/nibble/sampling.hpp. */
export const finishes = ["none", "stop_id", "stop_text", "length", "context", "cancelled"] as const;
export type Finish = (typeof finishes)[number];

export interface Ends {
  stopIds: readonly number[];
  /** 0: until the context is full. */
  maxTokens: number;
}

export class Sequence {
  constructor(
    private readonly text: TextModule,
    /** Its address in the module's memory. */
    readonly at: number,
  ) {}

  static make(text: TextModule, context: number, vocabulary: number): Sequence {
    return new Sequence(
      text,
      text.run((e) => e.nibble_sequence_new(BigInt(context), BigInt(vocabulary))),
    );
  }

  copy(): Sequence {
    return new Sequence(
      this.text,
      this.text.run((e) => e.nibble_sequence_copy(this.at)),
    );
  }

  free(): void {
    this.text.run((e) => e.nibble_sequence_free(this.at));
  }

  /** Starts a generation. Gives how many leading tokens of the prompt are computed already. */
  begin(prompt: Int32Array, { stopIds, maxTokens }: Ends): number {
    const stops = Int32Array.from(stopIds);
    return this.text.withArrays([prompt, stops], (tokens, ids) =>
      this.text.call(
        (e) => e.nibble_sequence_begin(this.at, tokens!, prompt.length, ids!, stops.length, BigInt(maxTokens)),
        isNegative,
      ),
    );
  }

  /** The tokens to compute next, at most so many. None: there are logits to choose from. */
  next(most: number): Int32Array {
    return this.slice(this.computed, Math.min(this.size, this.computed + most));
  }

  /** So many of them are computed. */
  advance(count: number): void {
    this.text.run((e) => e.nibble_sequence_advance(this.at, count));
  }

  push(token: number): Finish {
    return finishes[this.text.call((e) => e.nibble_sequence_push(this.at, token), isNegative)]!;
  }

  end(reason: Finish): void {
    this.text.run((e) => e.nibble_sequence_end(this.at, finishes.indexOf(reason)));
  }

  rewind(position: number): void {
    this.text.call((e) => e.nibble_sequence_rewind(this.at, BigInt(position)), isNegative);
  }

  get size(): number {
    return this.text.run((e) => e.nibble_sequence_size(this.at));
  }

  get computed(): number {
    return this.text.run((e) => e.nibble_sequence_computed(this.at));
  }

  get generated(): number {
    return this.text.run((e) => e.nibble_sequence_generated(this.at));
  }

  get finish(): Finish {
    return finishes[this.text.run((e) => e.nibble_sequence_finish(this.at))]!;
  }

  /** A copy of the tokens from one place to another. */
  slice(begin: number, end: number): Int32Array {
    const at = this.text.run((e) => e.nibble_sequence_tokens(this.at));
    return new Int32Array(this.text.bytes(at + 4 * begin, 4 * (end - begin)).slice().buffer);
  }
}
