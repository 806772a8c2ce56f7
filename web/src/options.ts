// Checks the options that callers give, and converts them for the planner.

import * as wire from "#wire";
import { NibbleError } from "./errors.js";
import type { Options } from "./types.js";

/** The record of all options, with defaults for those that were not given. */
export function optionsRecord(given: Options): wire.Options {
  return wire.takeOptions(given, take);
}

const take: wire.TakeOption = {
  text: (given = "", mustBe) => (typeof given === "string" ? given : refuse(given, mustBe)),
  u64: (given = 0, mustBe) => (isSize(given) ? given : refuse(given, mustBe)),
  flag: (given = false, mustBe) => (typeof given === "boolean" ? given : refuse(given, mustBe)),
  names: (given = [], mustBe) =>
    Array.isArray(given) && given.every((name) => typeof name === "string") ? given : refuse(given, mustBe),
  variants: (given = {}, mustBe) =>
    isRecord(given) && Object.values(given).every((variant) => typeof variant === "string")
      ? Object.entries(given).map(([choice, variant]) => `${choice}=${variant as string}`)
      : refuse(given, mustBe),
  tuning(given = { choices: [] }, mustBe) {
    if (!isRecord(given)) refuse(given, mustBe);
    const { choices } = given;
    if (!Array.isArray(choices)) return wrong(errors.noList);
    return choices.map(rowOf);
  },
};

const errors = wire.tuningErrors;
const FIELDS = ["choice", "variant", "rows", "width"];

function rowOf(given: unknown, index: number): wire.TuningRow {
  if (!isRecord(given)) return wrong(errors.noObject, index);
  const name = (field: string): string => {
    const value = given[field];
    if (value === undefined) wrong(errors.noField, index, field);
    return typeof value === "string" ? value : wrong(errors.noText, index, field);
  };
  const range = (field: string): [number, number] => {
    // A missing range means all sizes: none is larger than this.
    const { [field]: value = [0, Number.MAX_SAFE_INTEGER] } = given;
    if (Array.isArray(value) && value.length === 2 && value.every(isSize)) return value as [number, number];
    return wrong(errors.noRange, index, field);
  };
  const [choice, variant] = [name("choice"), name("variant")];
  const [minRows, maxRows] = range("rows");
  const [minWidth, maxWidth] = range("width");
  const unknown = Object.keys(given).find((field) => !FIELDS.includes(field));
  if (unknown !== undefined) wrong(errors.unknown, index, unknown);
  return { choice, variant, minRows, maxRows, minWidth, maxWidth };
}

const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function refuse(given: unknown, mustBe: string): never {
  const plain = (_: string, part: unknown): unknown => (typeof part === "bigint" ? String(part) : part);
  return wrong(`${mustBe}, not ${typeof given === "object" ? JSON.stringify(given, plain) : String(given)}`);
}

/** Throws the sentence, with each `{}` replaced by one of `values`. */
function wrong(sentence: string, ...values: unknown[]): never {
  const text = values.reduce((rest: string, value) => rest.replace("{}", () => String(value)), sentence);
  throw new NibbleError("invalid_argument", text);
}
