// The settings of a generation, checked and with their defaults. What values they may have is decided in C++.

import { NibbleError } from "#nibble";
import type { GenerateOptions } from "../generate_types.js";
import { constraintNames, grammarOf } from "./constraint/grammar_of.js";

/** As Sampling of C++, include/nibble/sampling.hpp. */
export interface Sampling {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  repetitionPenalty: number;
  repetitionWindow: number;
  presencePenalty: number;
  frequencyPenalty: number;
  seed: number | bigint;
  logitBias: [number, number][];
  logprobs: boolean;
  topLogprobs: number;
}

export interface Settings extends Sampling {
  maxTokens: number;
  stop: string[];
  stopIds: number[];
  system: string | undefined;
  raw: boolean;
  /** What the text must look like. */
  grammar: string | undefined;
  signal: AbortSignal | undefined;
}

/** maxTokens 0 is how C++ says that there is no limit; whoever works out how many are left wants none by it. */
const defaults = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  repetitionWindow: 64,
  presencePenalty: 0,
  frequencyPenalty: 0,
  maxTokens: 0,
  topLogprobs: 0,
};
const whole: readonly string[] = ["topK", "repetitionWindow", "maxTokens", "topLogprobs"];
const others = ["seed", "stop", "stopIds", "logprobs", "logitBias", "system", "raw", "signal", ...constraintNames];

/** `stopIds` are the model's own. */
export function takeSettings(given: GenerateOptions, stopIds: readonly number[]): Settings {
  const options = (given ?? {}) as Record<string, unknown>;
  checkNames(options);
  const numbers = Object.entries(defaults).map(([name, standard]) => [name, numberOf(name, options[name], standard)]);
  const { stop = [], seed, logprobs, logitBias, system, raw, signal } = given ?? {};
  const taken = Object.fromEntries(numbers) as typeof defaults;
  if ((given?.maxTokens ?? 1) < 1) {
    throw invalid(`maxTokens is ${taken.maxTokens}, but it must be at least 1; undefined is no limit`);
  }
  return {
    ...taken,
    seed: seedOf(seed),
    stop: textsOf(stop),
    stopIds: idsOf(given?.stopIds ?? stopIds),
    logprobs: Boolean(logprobs) || taken.topLogprobs !== 0,
    logitBias: biasesOf(logitBias),
    system: system === undefined || system === null ? undefined : checkedText("system", system),
    raw: Boolean(raw),
    grammar: grammarOf(given ?? {}),
    signal: signalOf(signal),
  };
}

/** The C++ has the names of other languages. */
export function inCamelCase(error: unknown): unknown {
  if (!(error instanceof NibbleError)) return error;
  const message = error.message.replace(/^[a-z]+(?:_[a-z]+)+/, (name) =>
    name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
  );
  return new NibbleError(error.code, message);
}

function checkNames(options: Record<string, unknown>): void {
  const known = [...Object.keys(defaults), ...others];
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw invalid(`generate() has no setting ${unknown}; there are ${known.join(", ")}`);
}

function numberOf(name: string, value: unknown, standard: number, isWhole = whole.includes(name)): number {
  if (value === undefined || value === null) return standard;
  if (isWhole && !Number.isSafeInteger(value)) {
    throw invalid(`${name} must be a whole number, but it is ${written(value)}`);
  }
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw invalid(`${name} must be a finite number, but it is ${written(value)}`);
  }
  return value;
}

/** A seed of one's own is one that a number holds, so that it can be told and given again. */
function seedOf(seed: unknown): number | bigint {
  if (seed === undefined || seed === null) {
    return Number(crypto.getRandomValues(new BigUint64Array(1))[0]! >> 11n);
  }
  const isWhole = typeof seed === "bigint" || Number.isSafeInteger(seed);
  if (!isWhole || (seed as number | bigint) < 0 || (seed as number | bigint) >= 2n ** 64n) {
    throw invalid(`seed must be a whole number from 0 on, below 2^64, but it is ${written(seed)}`);
  }
  return seed as number | bigint;
}

function biasesOf(given: unknown): [number, number][] {
  if (typeof (given ?? {}) !== "object" || Array.isArray(given)) {
    throw invalid("logitBias must be an object of numbers by token ids");
  }
  return Object.entries(given ?? {}).map(([id, bias]) => {
    if (!/^\d{1,10}$/.test(id)) throw invalid(`a token of logitBias must be a whole number, but it is ${written(id)}`);
    if (bias === undefined || bias === null) throw invalid(`logitBias of ${id} must be a number`);
    return [Number(id), numberOf(`logitBias of ${id}`, bias, 0)];
  });
}

/** Text that is Unicode: no half of a character, which would become another one in silence. */
export function checkedText(name: string, value: unknown): string {
  if (typeof value !== "string") throw invalid(`${name} must be text, but it is ${written(value)}`);
  const half = value.search(/\p{Surrogate}/u);
  if (half >= 0) throw invalid(`${name} has half of a character at ${half}, which is no Unicode text`);
  return value;
}

function textsOf(stop: unknown): string[] {
  const texts = typeof stop === "string" ? [stop] : Array.isArray(stop) ? [...(stop as unknown[])] : undefined;
  if (!texts?.every((text) => typeof text === "string")) throw invalid("stop must be a text or a list of texts");
  return texts.map((text) => checkedText("stop", text));
}

function idsOf(ids: unknown): number[] {
  const list = Array.isArray(ids) ? [...(ids as unknown[])] : undefined;
  if (!list?.every((id) => Number.isSafeInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 31)) {
    throw invalid("stopIds must be a list of token ids");
  }
  return list as number[];
}

function signalOf(signal: AbortSignal | null | undefined): AbortSignal | undefined {
  if (signal === undefined || signal === null) return undefined;
  if (typeof signal.addEventListener === "function") return signal;
  throw invalid(`signal must be an AbortSignal, not ${written(signal)}`);
}

export function invalid(message: string): NibbleError {
  return new NibbleError("invalid_argument", message);
}

function written(value: unknown): string {
  if (typeof value === "string") return value.length > 60 ? `'${value.slice(0, 60)}…'` : `'${value}'`;
  return typeof value === "object" && value !== null
    ? "an object"
    : typeof value === "function"
      ? "a function"
      : String(value);
}
