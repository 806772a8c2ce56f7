// One conversation's caches, and its turns: one thing at a time, in the order in which it was asked for.

import type { GenerateOptions, Generation, LanguageModel, Prompt, TextSession } from "../generate_types.js";
import type { Constraint } from "./constraint_module.js";
import { TextGeneration } from "./generation.js";
import type { Generator } from "./generator.js";
import type { LoadedLanguageModel } from "./language_model.js";
import { Sampler } from "./sampler.js";
import { Sequence } from "./sequence.js";
import { inCamelCase, invalid, takeSettings } from "./settings.js";
import { TextStream } from "./text_stream.js";

export class LoadedTextSession implements TextSession {
  private last: Promise<unknown>;
  private generator: Generator | undefined;
  private current: TextGeneration | undefined;
  private isDisposed = false;

  constructor(
    private readonly owner: LoadedLanguageModel,
    /** Making it takes a moment; whoever asks first waits. */
    private readonly making: Promise<Generator>,
    /** The error of calls after dispose(). */
    private readonly gone: string,
  ) {
    this.last = making.then(
      (generator) => (this.generator = generator),
      () => undefined, // the first call tells
    );
  }

  get model(): LanguageModel {
    return this.owner;
  }

  get tokenizer(): LoadedLanguageModel["tokenizer"] {
    return this.owner.tokenizer;
  }

  constrain(grammar: string): Promise<Constraint> {
    return this.owner.constrain(grammar);
  }

  generate(prompt: Prompt, options: GenerateOptions = {}): Generation {
    this.checkDisposed();
    const { text, facts, stopIds } = this.owner;
    const settings = takeSettings(options, stopIds);
    const tokens = this.owner.promptOf(prompt, settings);
    const trial = Sequence.make(text, facts.context, facts.vocabulary);
    let sampler: Sampler | undefined;
    try {
      trial.begin(tokens, settings);
      sampler = new Sampler(text, settings, facts.vocabulary);
      const generation = new TextGeneration(this, tokens, settings, sampler, new TextStream(text, settings.stop));
      const before = this.current;
      before?.replace();
      this.last = this.last.then(() => before?.close());
      this.current = generation;
      return generation;
    } catch (error) {
      sampler?.free();
      throw inCamelCase(error);
    } finally {
      trial.free();
    }
  }

  get tokens(): number[] {
    this.checkDisposed();
    return this.generator?.tokens ?? [];
  }

  rewind(count: number): Promise<void> {
    return this.inTurn(async (generator) => {
      if (!Number.isSafeInteger(count) || count < 0) {
        throw invalid(`a session can be rewound to 0 tokens or more, but not to ${count}`);
      }
      await generator.rewind(count);
    });
  }

  reset(): Promise<void> {
    return this.inTurn((generator) => generator.reset());
  }

  fork(): Promise<TextSession> {
    return this.inTurn(async (generator) => this.owner.adopt(Promise.resolve(await generator.fork())));
  }

  save(): Promise<Uint8Array> {
    return this.inTurn((generator) => generator.save());
  }

  restore(saved: Uint8Array): Promise<void> {
    return this.inTurn((generator) => generator.restore(saved));
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.current?.cancel();
    this.generator?.session.dispose();
    // What runs still uses the rest.
    this.last = this.last.then(() => {
      this.current?.close();
      this.generator?.dispose();
    });
    this.owner.release();
  }

  inTurn<T>(work: (generator: Generator) => Promise<T>): Promise<T> {
    const done = this.last.then(async () => {
      this.checkDisposed();
      return work(await this.making);
    });
    this.last = done.catch(() => undefined);
    return done;
  }

  private checkDisposed(): void {
    if (this.isDisposed) throw invalid(this.gone);
  }
}
