// Checks the options that callers give, and converts them for the planner.

import * as wire from "#wire";
import { invalid } from "./errors.js";
import type { LoadOptions, Options, RunOptions } from "./types.js";

/** The record of all options, with defaults for those that were not given. */
export function optionsRecord(given: Options): wire.Options {
  return wire.takeOptions(given, take);
}

/** The signal, if one is given. That of another realm, such as a frame's, is no instance of this realm's class. */
export function signalOf(options: RunOptions | undefined): AbortSignal | undefined {
  const signal = options?.signal ?? undefined;
  if (signal === undefined || (isFunction(signal.throwIfAborted) && isFunction(signal.addEventListener))) return signal;
  return refuse(signal, "signal must be an AbortSignal");
}

/** Refuses what could not be called later, when the weights are there. */
export function checkFunctions(options: LoadOptions): void {
  for (const name of ["onProgress", "onTuning"] as const) {
    const given = options[name] ?? undefined;
    if (given !== undefined && !isFunction(given)) refuse(given, `${name} must be a function`);
  }
}

const take: wire.TakeOption = {
  text: (given = "", mustBe) => (isText(given) ? given : refuse(given, mustBe)),
  u64: (given = 0, mustBe) => (isSize(given) ? given : refuse(given, mustBe)),
  flag: (given = false, mustBe) => (typeof given === "boolean" ? given : refuse(given, mustBe)),
  names(given = [], mustBe) {
    const names = listOf(given);
    return names?.every(isText) ? names : refuse(given, mustBe);
  },
  variants: (given = {}, mustBe) =>
    isRecord(given) && Object.values(given).every(isText)
      ? Object.entries(given as Record<string, string>).map(([choice, variant]) => ({ choice, variant }))
      : refuse(given, mustBe),
  tuning(given = { choices: [] }, mustBe) {
    if (!isRecord(given)) refuse(given, mustBe);
    const tunings = listOf(given.tunings);
    return { isForAny: tunings === undefined, tunings: (tunings ?? [given]).map(tuningOf) };
  },
};

/** One device's. */
function tuningOf(given: unknown): wire.DeviceTuning {
  const { choices, ...on } = isRecord(given) ? given : {};
  const list = listOf(choices);
  return {
    fields: Object.entries(on).map(fieldOf),
    hasChoices: list !== undefined,
    choices: list?.map(choiceOf) ?? [],
  };
}

/** Tells the planner the types of the fields; it checks them. Undefined fields are left out, as in JSON. */
function choiceOf(given: unknown): wire.TuningChoice {
  const isObject = isRecord(given);
  const fields = isObject ? Object.entries(given).filter(([, value]) => value !== undefined) : [];
  return { isObject, fields: fields.map(fieldOf) };
}

function fieldOf([name, value]: [string, unknown]): wire.TuningField {
  const field = { name, kind: "other" as const, text: "", count: 0, numbers: [0, 0] };
  if (isText(value)) return { ...field, kind: "text", text: value };
  const numbers = listOf(value) ?? [value];
  if (!numbers.every(isSize)) return field;
  return { ...field, kind: "numbers", count: numbers.length, numbers: numbers.concat(0, 0).slice(0, 2) };
}

const isFunction = (value: unknown): boolean => typeof value === "function";

const isText = (value: unknown): value is string => typeof value === "string";

export const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A copy of a list, in which holes are undefined: every() and forEach() skip holes. */
const listOf = (value: unknown): unknown[] | undefined =>
  Array.isArray(value) ? [...(value as unknown[])] : undefined;

function refuse(given: unknown, mustBe: string): never {
  const plain = (_: string, part: unknown): unknown => (typeof part === "bigint" ? String(part) : part);
  let text = "an object that cannot be written";
  try {
    text = typeof given === "object" ? JSON.stringify(given, plain) : String(given);
  } catch {
    // It contains itself.
  }
  throw invalid(`${mustBe}, not ${text}`);
}
