// The loop of text generation around a session: what to compute next is the Sequence's, what to choose the Sampler's.

import { NibbleError } from "#nibble";
import type { GenerateStats } from "../generate_types.js";
import type { Model, Session, Tensor } from "../types.js";
import { type Choice, Sampler } from "./sampler.js";
import { type Ends, type Finish, Sequence } from "./sequence.js";
import type { TextModule } from "./text_module.js";
import { invalid } from "./settings.js";

/** More tokens have no weight that fits: kMostTokens of src/generate/arithmetic.hpp. */
const MOST_TOKENS = 2 ** 23;

/** What a program is as a language model. */
export interface Facts {
  vocabulary: number;
  context: number;
  /** How many tokens one call takes. */
  chunk: number;
  logits: string;
  /** Where the device finds the likeliest tokens: the names of their logits, their ids, and the total. */
  candidates: [string, string, string] | undefined;
}

/** Refuses a program that is none. `candidates`: how many were asked for when it was loaded. */
export function factsOf(
  { inputs, outputs, states }: Pick<Model, "inputs" | "outputs" | "states">,
  candidates: number,
): Facts {
  const [tokens, position] = inputs;
  const isInput = (input: typeof tokens, rank: number): boolean =>
    input?.dtype === "int64" && !input.isInteger && input.shape.length === rank && input.shape[0] === 1;
  if (inputs.length !== 2 || !isInput(tokens, 2)) throw noLanguageModel("its inputs are others");
  if (!isInput(position, 1)) throw noLanguageModel("its second input is no position");
  const logits = outputs[0];
  const rank = logits?.shape.length;
  if (logits?.dtype !== "float32" || logits.isInteger || (rank !== 2 && rank !== 3)) {
    throw noLanguageModel("its first output is no logits");
  }
  const vocabulary = logits.shape.at(-1)!;
  const chunk = tokens!.shape[1]!;
  if (logits.shape[0] !== 1 || vocabulary < 1 || chunk < 1) throw noLanguageModel("it has a size of none");
  if (vocabulary > MOST_TOKENS) throw noLanguageModel("its vocabulary is larger than any");
  const rows = states.flatMap(({ shape, rowAxis }) => (rowAxis === null ? [] : [shape[rowAxis]!]));
  if (rows.length === 0) throw noLanguageModel("it keeps no cache");
  return {
    vocabulary,
    chunk,
    context: Math.min(...rows),
    logits: logits.name,
    candidates: candidates > 0 ? (outputs.slice(-3).map(({ name }) => name) as [string, string, string]) : undefined,
  };
}

function noLanguageModel(why: string): NibbleError {
  return new NibbleError(
    "unsupported",
    `this program is no language model: ${why}. It must take tokens int64 [1, n] and a position int64 [1], keep a ` +
      "cache, and give logits float32 [1, vocabulary] or [1, n, vocabulary]",
  );
}

const nowMs = (): number => performance.timeOrigin + performance.now();

const noTimes = {
  promptTokens: 0,
  cachedTokens: 0,
  calls: 0,
  dispatches: 0,
  inferenceStartMs: 0,
  promptEvalEndMs: 0,
  firstTokenMs: 0,
  inferenceEndMs: 0,
  aggregateSamplingTimeMs: 0,
};

/** Of a generation that has not begun. */
export function statsOf({ device, modelBytes, sessionBytes, loadStartMs, loadEndMs }: Model): GenerateStats {
  return {
    ...noTimes,
    generatedTokens: 0,
    timeToFirstTokenMs: 0,
    promptTokensPerSecond: 0,
    generatedTokensPerSecond: 0,
    modelLoadStartMs: loadStartMs,
    modelLoadEndMs: loadEndMs,
    modelBytes,
    sessionBytes,
    device: device.name,
    engine: "web",
  };
}

/** A call that was submitted: how many tokens it computes, and its results. */
interface Flight {
  count: number;
  done: Promise<Record<string, Tensor>>;
}

/** Tokens from a model, one after the other. Calls must not overlap. */
export class Generator {
  private sampler: Sampler | undefined;
  private flight: Flight | undefined;
  private results: Record<string, Tensor> = {};
  /** All of them, because candidates do not decide. */
  private wantsLogits = false;
  private times = { ...noTimes };

  constructor(
    private readonly text: TextModule,
    private readonly facts: Facts,
    readonly session: Session,
    private sequence = Sequence.make(text, facts.context, facts.vocabulary),
  ) {}

  /** Takes over the sampler. */
  async start(prompt: Int32Array, sampler: Sampler, ends: Ends): Promise<void> {
    await this.settle();
    const kept = this.sequence.begin(prompt, ends);
    this.sampler = sampler;
    this.wantsLogits = this.facts.candidates === undefined;
    this.times = { ...noTimes, promptTokens: prompt.length, cachedTokens: kept, inferenceStartMs: nowMs() };
    await this.session.rewind(kept);
  }

  /** The next token, or undefined at the end. `allowed` has a bit for each token that may come. */
  async next(signal: AbortSignal, allowed?: Uint32Array): Promise<Choice | undefined> {
    if (this.sequence.finish !== "none") return undefined;
    const { times } = this;
    try {
      await this.compute(signal);
    } catch (error) {
      if (signal.aborted) this.sequence.end("cancelled");
      throw error;
    }
    const computed = nowMs();
    times.promptEvalEndMs ||= computed;
    const choice = await this.choose(signal, allowed);
    const finish = this.sequence.push(choice.id);
    const chosen = nowMs();
    const start = (computed - performance.timeOrigin) * 1e3; // on the clock of all events
    const duration = (chosen - computed) * 1e3;
    this.session.model.device.trace?.push({ name: "choose token", thread: 1, start, duration });
    times.aggregateSamplingTimeMs += chosen - computed;
    times.firstTokenMs ||= chosen;
    times.inferenceEndMs = chosen;
    if (finish === "stop_id") return undefined;
    // The GPU works on the next token while the caller looks at this one. If that cannot begin, the next call says why.
    if (finish === "none" && !signal.aborted) {
      this.flight = this.submit(this.sequence.next(this.facts.chunk), this.sequence.computed, true, signal);
    }
    return choice;
  }

  /** Ends the generation for a reason that only the caller sees. */
  end(reason: Finish): void {
    this.sequence.end(reason);
  }

  get finish(): Finish {
    return this.sequence.finish;
  }

  get stats(): GenerateStats {
    const { times } = this;
    const generatedTokens = this.sequence.generated;
    const rate = (tokens: number, from: number, to: number): number =>
      tokens > 0 && to > from ? (tokens * 1e3) / (to - from) : 0;
    return {
      ...statsOf(this.session.model),
      ...times,
      generatedTokens,
      timeToFirstTokenMs: times.firstTokenMs > 0 ? times.firstTokenMs - times.inferenceStartMs : 0,
      promptTokensPerSecond: rate(
        times.promptTokens - times.cachedTokens,
        times.inferenceStartMs,
        times.promptEvalEndMs,
      ),
      generatedTokensPerSecond: rate(generatedTokens - 1, times.firstTokenMs, times.inferenceEndMs),
    };
  }

  /** The tokens whose keys and values the session holds. */
  get tokens(): number[] {
    return Array.from(this.sequence.slice(0, this.sequence.computed));
  }

  async rewind(count: number): Promise<void> {
    await this.settle();
    this.sequence.rewind(count);
    await this.session.rewind(count);
  }

  async reset(): Promise<void> {
    await this.settle();
    this.sequence.rewind(0);
    await this.session.reset();
  }

  async fork(): Promise<Generator> {
    await this.settle();
    const session = await this.session.fork();
    const sequence = this.sequence.copy();
    sequence.end("cancelled"); // a generation begins with start()
    return new Generator(this.text, this.facts, session, sequence);
  }

  async save(): Promise<Uint8Array> {
    await this.settle();
    return this.session.save(JSON.stringify(this.tokens));
  }

  async restore(saved: Uint8Array): Promise<void> {
    await this.settle();
    const restored = Sequence.make(this.text, this.facts.context, this.facts.vocabulary);
    try {
      await this.session.restore(saved, (note, rows) => this.takeNote(note, rows, restored));
    } catch (error) {
      restored.free();
      throw error;
    }
    this.sequence.free();
    this.sequence = restored;
    this.sequence.end("cancelled"); // a generation begins with start()
  }

  dispose(): void {
    this.session.dispose();
    this.sequence.free();
  }

  /** The tokens that save() noted. */
  private takeNote(note: string, rows: readonly number[], to: Sequence): void {
    const tokens = tokensOf(note);
    const fits = this.session.states.every(({ rowAxis }, i) => rowAxis === null || rows[i] === tokens?.length);
    if (!tokens || !fits) {
      throw invalid("the session was not saved by a language model: it has no token for each row");
    }
    if (tokens.length === 0) return;
    to.begin(Int32Array.from(tokens), { stopIds: [], maxTokens: 0 });
    to.advance(tokens.length);
  }

  /** Waits for a step that nobody waited for. Whether it was done does not matter. */
  private async settle(): Promise<void> {
    try {
      await this.wait();
    } catch (error) {
      if (error instanceof NibbleError && error.code === "device_lost") throw error;
    }
  }

  /** Computes all tokens that are not computed yet. */
  private async compute(signal: AbortSignal): Promise<void> {
    while (true) {
      if (!this.flight) {
        const tokens = this.sequence.next(this.facts.chunk);
        if (tokens.length === 0) return;
        const isLast = this.sequence.computed + tokens.length === this.sequence.size;
        this.flight = this.submit(tokens, this.sequence.computed, isLast, signal);
      }
      await this.wait();
    }
  }

  private submit(tokens: Int32Array, position: number, wantsResults: boolean, signal: AbortSignal): Flight {
    const { logits, candidates } = this.facts;
    const outputs = !wantsResults ? [] : this.wantsLogits ? [logits] : candidates!;
    const done = this.session.run([{ data: tokens, shape: [1, tokens.length] }, [position]], { signal, outputs });
    done.catch(() => undefined); // if nobody waits for it any longer
    ++this.times.calls;
    return { count: tokens.length, done };
  }

  private async wait(): Promise<void> {
    const { flight } = this;
    if (!flight) return;
    this.flight = undefined;
    this.results = await flight.done;
    this.times.dispatches += this.session.dispatches;
    this.sequence.advance(flight.count);
  }

  private async choose(signal: AbortSignal, allowed: Uint32Array | undefined): Promise<Choice> {
    const { logits, candidates, vocabulary } = this.facts;
    const sampler = this.sampler!;
    if (!this.wantsLogits) {
      const [values, ids, total] = candidates!.map((name) => this.results[name]!.data);
      const found = { logits: values as Float32Array, ids: ids as Int32Array, total: Number(total![0]) };
      const choice = sampler.fromCandidates(this.sequence, found, allowed);
      if (choice) return choice;
      // What did not do once will likely not do again. The last token is computed once more, for its logits.
      this.wantsLogits = true;
      const { computed } = this.sequence;
      this.results = await this.submit(this.sequence.slice(computed - 1, computed), computed - 1, true, signal).done;
      this.times.dispatches += this.session.dispatches;
    }
    const rows = this.results[logits]!.data as Float32Array;
    return sampler.fromLogits(this.sequence, rows.subarray(rows.length - vocabulary), allowed);
  }
}

/** Those of a note that save() made. */
function tokensOf(note: string): number[] | undefined {
  try {
    const tokens: unknown = JSON.parse(note);
    return Array.isArray(tokens) && tokens.every((token) => token === (token | 0)) ? (tokens as number[]) : undefined;
  } catch {
    return undefined;
  }
}
