// One generation: pieces of text, and what they cost.

import type { NibbleError } from "#nibble";
import type {
  FinishReason,
  Generation,
  GenerateStats,
  LanguageModel,
  Piece,
  TokenLogprob,
  Usage,
} from "../generate_types.js";
import type { Constraint } from "./constraint_module.js";
import { type Generator, statsOf } from "./generator.js";
import type { Choice, Logprob, Sampler } from "./sampler.js";
import type { Finish } from "./sequence.js";
import { invalid, type Settings } from "./settings.js";
import type { TextStream } from "./text_stream.js";
import type { ModelTokenizer } from "./tokenizer.js";

const reasons: Record<Exclude<Finish, "none">, FinishReason> = {
  stop_id: "stop",
  stop_text: "stop",
  length: "length",
  context: "length",
  cancelled: "cancelled",
};

/** What cancel() aborts with. */
const quietly = Symbol("cancelled");

/** What a generation needs of its session. */
export interface Host {
  readonly tokenizer: ModelTokenizer;
  readonly model: LanguageModel;
  /** A text that must be what a grammar wants. */
  constrain(grammar: string): Promise<Constraint>;
  /** Lets `work` run when all that was asked for before is done. */
  inTurn<T>(work: (generator: Generator) => Promise<T>): Promise<T>;
}

export class TextGeneration implements Generation {
  text = "";
  readonly ids: number[] = [];
  finishReason: FinishReason | null = null;
  readonly seed: number | bigint;
  private readonly stop = new AbortController();
  private readonly forget: () => void;
  private generator: Generator | undefined;
  private constraint: Constraint | undefined;
  private kept: GenerateStats | undefined;
  private isFreed = false;
  /** What whoever asks next is told, because the session began another one. */
  private ended: NibbleError | undefined;

  constructor(
    private readonly host: Host,
    private readonly prompt: Int32Array,
    private readonly settings: Settings,
    private readonly sampler: Sampler,
    private readonly stream: TextStream,
  ) {
    this.seed = settings.seed;
    const { signal } = settings;
    const abort = (): void => this.stop.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    this.forget = () => signal?.removeEventListener("abort", abort);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Piece, undefined>> {
    return this.host.inTurn(async (generator) => {
      const piece = await this.nextPiece(generator);
      return piece ? { done: false, value: piece } : { done: true, value: undefined };
    });
  }

  /** Whoever leaves the loop has had enough. */
  async return(): Promise<IteratorResult<Piece, undefined>> {
    this.cancel();
    if (this.finishReason === null) this.finish("cancelled");
    return { done: true, value: undefined };
  }

  async run(): Promise<string> {
    while (!(await this.next()).done);
    return this.text;
  }

  cancel(): void {
    this.stop.abort(quietly);
  }

  get stats(): GenerateStats {
    return (
      this.kept ??
      this.generator?.stats ?? {
        ...statsOf(this.host.model.program),
        promptTokens: this.prompt.length,
      }
    );
  }

  get usage(): Usage {
    const { promptTokens, cachedTokens, generatedTokens } = this.stats;
    return { promptTokens, cachedTokens, completionTokens: generatedTokens };
  }

  /** The session begins another one, which waits for what this one does. */
  replace(): void {
    if (this.finishReason !== null) return;
    this.ended = invalid("this generation has ended: its session has begun another one");
    this.stop.abort(this.ended);
    this.forget();
  }

  /** Takes the last numbers, and frees what it holds. Nothing of it may run. */
  close(): void {
    if (this.isFreed) return;
    this.isFreed = true;
    this.kept = this.stats;
    this.generator = undefined; // it works for another one now
    if (this.finishReason === null) this.finish("cancelled");
    this.sampler.free();
    this.stream.free();
    this.constraint?.free();
  }

  private async nextPiece(generator: Generator): Promise<Piece | undefined> {
    this.tellEnd();
    const held: Choice[] = [];
    while (this.finishReason === null) {
      const token = await this.nextToken(generator);
      let text: string;
      if (token) {
        held.push(token);
        this.ids.push(token.id);
        text = this.stream.push(this.host.tokenizer.bytesOf(token.id));
        if (this.stream.isStopped) {
          generator.end("stop_text");
          this.finish("stop");
        }
      } else {
        text = this.stream.finish();
      }
      this.text += text;
      if (this.finishReason !== null) this.close();
      if (text !== "" || (held.length > 0 && (this.finishReason !== null || this.settings.logprobs))) {
        return this.piece(text, held);
      }
    }
    return undefined;
  }

  private async nextToken(generator: Generator): Promise<Choice | undefined> {
    const { signal } = this.stop;
    try {
      signal.throwIfAborted();
      if (!this.generator) await this.begin(generator, signal);
      if (this.constraint?.isDone) {
        generator.end("stop_text");
        this.finish("stop");
        return undefined;
      }
      const token = await generator.next(signal, this.constraint?.allowed());
      if (!token) this.finish(reasons[generator.finish as Exclude<Finish, "none">]);
      else this.constraint?.take(token.id);
      return token;
    } catch (error) {
      if (!signal.aborted) throw error;
      if (this.generator) generator.end("cancelled");
      this.finish("cancelled");
      if (signal.reason === quietly) return undefined;
      this.text += this.stream.finish();
      this.close();
      this.tellEnd();
      throw signal.reason;
    }
  }

  private tellEnd(): void {
    const { ended } = this;
    this.ended = undefined;
    if (ended) throw ended;
  }

  private async begin(generator: Generator, signal: AbortSignal): Promise<void> {
    const { grammar } = this.settings;
    if (grammar !== undefined) this.constraint ??= await this.constrain(grammar, signal);
    signal.throwIfAborted();
    await generator.start(this.prompt, this.sampler, this.settings);
    this.generator = generator;
  }

  /** What has to be loaded for it may never come: an abort does not wait for that. */
  private async constrain(grammar: string, signal: AbortSignal): Promise<Constraint> {
    const made = this.host.constrain(grammar);
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });
    try {
      return await Promise.race([made, aborted]);
    } catch (error) {
      made.then(
        (late) => late.free(),
        () => undefined,
      );
      throw error;
    }
  }

  private finish(reason: FinishReason): void {
    this.finishReason = reason;
    this.forget();
  }

  private piece(text: string, held: readonly Choice[]): Piece {
    const wanted = this.settings.logprobs ? held : [];
    return {
      text,
      ids: held.map(({ id }) => id),
      logprobs: wanted.map((one) => this.logprob(one)),
      topLogprobs: wanted.map(({ top }) => top.map((one) => this.logprob(one))),
    };
  }

  private logprob({ id, logprob }: Logprob): TokenLogprob {
    return { id, text: this.host.tokenizer.decode([id]), logprob };
  }
}
