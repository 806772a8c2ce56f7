import type { Device, LoadOptions, Model, ProgramSource, WasmSource } from "./types.js";

/** A part of a conversation. Templates may know further fields. */
export interface Message {
  /** "system", "user", "assistant", or what else the model's template knows. */
  role: string;
  content?: string | readonly unknown[] | null;
  [field: string]: unknown;
}

/** A user's message, a conversation, or token ids. */
export type Prompt = string | readonly Message[] | readonly number[];

/** How tokens are chosen, and where a generation ends. docs/generate.md says more. */
export interface GenerateOptions {
  /** The most tokens to generate, at least 1; without it, until the context is full. */
  maxTokens?: number;
  /** 0, the default, takes the likeliest token. */
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  /** Counts once for each distinct token of the last `repetitionWindow`. */
  repetitionPenalty?: number;
  repetitionWindow?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  /** Added to logits, by token. */
  logitBias?: Readonly<Record<number, number>>;
  /** What the draws depend on; by default another one each time. */
  seed?: number | bigint;
  /** Texts that end it and are not part of the text. */
  stop?: string | readonly string[];
  /** Tokens that end it; by default the model's own. */
  stopIds?: readonly number[];
  /** Whether pieces carry the log-probabilities of their tokens, and of how many others. */
  logprobs?: boolean;
  topLogprobs?: number;
  /** What the text must look like: JSON that fits a schema (an object, or JSON text), or any JSON object. */
  jsonSchema?: object | boolean | string;
  jsonObject?: boolean;
  /** Or text of which the whole is a match of a regular expression. */
  regex?: string;
  /** Or what the rule `root` of a grammar in GBNF stands for. */
  grammar?: string;
  /** A system message before the others. */
  system?: string;
  /** Completes a text as it stands, without the chat template. */
  raw?: boolean;
  /** Stops it within a step, or a chunk of the prompt; the iteration then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** A token, its text and the natural logarithm of the probability that the model gave it. */
export interface TokenLogprob {
  id: number;
  text: string;
  logprob: number;
}

/** Some text as it comes: whole characters, of one token or more. */
export interface Piece {
  text: string;
  ids: number[];
  /** One for each of `ids`, if they are wanted. */
  logprobs: TokenLogprob[];
  /** For each of `ids`: the likeliest tokens. */
  topLogprobs: TokenLogprob[][];
}

/** How many tokens a generation took. Of the prompt, `cachedTokens` were in the session already. */
export interface Usage {
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
}

/** Times and tokens, by the names of ExecuTorch's own statistics. Times are milliseconds since 1970. */
export interface GenerateStats {
  promptTokens: number;
  cachedTokens: number;
  generatedTokens: number;
  /** How often the program ran, and how many dispatches that took. */
  calls: number;
  dispatches: number;
  modelLoadStartMs: number;
  modelLoadEndMs: number;
  inferenceStartMs: number;
  promptEvalEndMs: number;
  firstTokenMs: number;
  inferenceEndMs: number;
  aggregateSamplingTimeMs: number;
  timeToFirstTokenMs: number;
  promptTokensPerSecond: number;
  generatedTokensPerSecond: number;
  /** On the GPU: what all sessions share, and what each has. */
  modelBytes: number;
  sessionBytes: number;
  /** The device's name, and "web". */
  device: string;
  engine: string;
}

export type FinishReason = "stop" | "length" | "cancelled";

/** Pieces of text, as they are generated. Nothing is computed before the first is asked for. */
export interface Generation extends AsyncIterableIterator<Piece> {
  /** All text so far. */
  readonly text: string;
  readonly ids: readonly number[];
  /** null: it goes on. */
  readonly finishReason: FinishReason | null;
  readonly usage: Usage;
  readonly stats: GenerateStats;
  readonly seed: number | bigint;
  /** Generates to the end, and gives the whole text. */
  run(): Promise<string>;
  /** Ends it within a step, without an error. The session can go on with another prompt. */
  cancel(): void;
}

/**
 * One conversation's caches. What it has computed is kept: a prompt that begins as the last one did, or as all that was
 * generated, is computed only from where it differs. One generation at a time; what is asked for meanwhile waits.
 */
export interface TextSession {
  readonly model: LanguageModel;
  /** Begins to generate: iterate over what it returns. */
  generate(prompt: Prompt, options?: GenerateOptions): Generation;
  /** The tokens that the session has computed. */
  readonly tokens: readonly number[];
  /** Forgets all but the first `count` tokens. */
  rewind(count: number): Promise<void>;
  /** Forgets everything. */
  reset(): Promise<void>;
  /** A further session that has computed the same tokens: its caches are copied on the GPU. */
  fork(): Promise<TextSession>;
  /** Tokens and caches, as bytes. */
  save(): Promise<Uint8Array>;
  /** Takes over what save() gave, here or elsewhere, with the same program. */
  restore(saved: Uint8Array): Promise<void>;
  /** Frees the session's memory. */
  dispose(): void;
}

export interface Tokenizer {
  /** The tokens of a text, in which the names of special tokens stand for them. */
  encode(text: string): number[];
  /** The text of whole tokens, without special ones; what is no text is U+FFFD. */
  decode(tokens: readonly number[]): string;
}

/** A program with its tokenizer and chat template, and a session of its own. */
export interface LanguageModel {
  readonly name: string;
  /** How many tokens prompt and answer can have together. */
  readonly context: number;
  readonly device: Device;
  /** The program, as `load()` gives it. */
  readonly program: Model;
  readonly tokenizer: Tokenizer;
  /** The tokens that end an answer. */
  readonly stopIds: readonly number[];
  /** Generates in the model's own session. */
  generate(prompt: Prompt, options?: GenerateOptions): Generation;
  /** A further session, with caches of its own on the same weights. */
  session(): TextSession;
  /** The tokens of a prompt, as generate() takes them. */
  tokensOf(prompt: Prompt, options?: Pick<GenerateOptions, "system" | "raw">): number[];
  /** Frees the model's own session, and the weights once no other session needs them. */
  dispose(): void;
}

/** The files of a model one by one: addresses, or what JSON files hold. */
export interface LanguageModelFiles {
  program: ProgramSource;
  tokenizer: string | URL | object;
  generation: string | URL | object;
}

/** As those of `load()`. Without a device, one is opened, and closed with the model's last session. */
export interface LanguageModelOptions extends Omit<LoadOptions, "device" | "inputs" | "outputs"> {
  device?: Device;
  /** The core of text generation, if not the file generate.wasm beside this one. */
  textWasm?: WasmSource;
  /** What constraints need, if not constraint.wasm there. It is loaded when a constraint is first used. */
  constraintWasm?: WasmSource;
}

export interface LanguageModelLoader {
  /** Loads what `nibble import` writes: a folder that holds model.pte, tokenizer.json and generation.json. */
  load(from: string | URL | LanguageModelFiles, options?: LanguageModelOptions): Promise<LanguageModel>;
}
