// What JSON schemas may say here. What is not listed is refused: nothing is ignored, so that an output always fits.

import { NibbleError } from "#nibble";

/** Keywords of one schema, without those that combine several. */
export type Plain = Record<string, unknown>;

export const kinds = ["object", "array", "string", "number", "integer", "boolean", "null"] as const;
export type Kind = (typeof kinds)[number];

const ofNumbers = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/** The keywords that say something about values of one kind, and nothing about others. */
export const keywordsOf: Record<Kind, readonly string[]> = {
  object: ["properties", "required", "additionalProperties", "minProperties", "maxProperties"],
  array: ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ofNumbers,
  integer: ofNumbers,
  boolean: [],
  null: [],
};

const combining = ["$ref", "allOf", "anyOf", "oneOf"];
const notes = ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"];
const frames = ["$schema", "$id", "$defs", "definitions"];
const known = new Set([...Object.values(keywordsOf).flat(), ...combining, "type", "enum", "const"]);
const said = new Set([...notes, ...frames]);

export function invalid(message: string): NibbleError {
  return new NibbleError("invalid_argument", message);
}

export function refusal(message: string): NibbleError {
  return invalid(`the JSON schema cannot be used: ${message}`);
}

export function unsupported(message: string): NibbleError {
  return new NibbleError("unsupported", `the JSON schema cannot be used here: ${message}`);
}

/** The keywords that a text depends on. */
export function readKeywords(schema: unknown, at: string): Plain {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    throw refusal(`${at} must be an object or a boolean`);
  }
  const found: Plain = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (said.has(keyword) || keyword.startsWith("x-") || value === undefined) continue;
    if (!known.has(keyword)) throw unsupported(`${at} has the keyword '${keyword}'`);
    checkKeyword(keyword, value, at);
    found[keyword] = value;
  }
  if (!("const" in found)) return found;
  const { const: only, ...rest } = found;
  return { ...rest, enum: rest.enum ? values(rest.enum).filter((value) => isSame(value, only)) : [only] };
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every((one) => typeof one === "string");

const checks: Record<string, [isRight: (value: unknown) => boolean, wanted: string]> = {
  $ref: [(value) => typeof value === "string", "text"],
  enum: [(value) => Array.isArray(value) && value.length > 0, "a list of values"],
  properties: [isObject, "an object"],
  required: [isTexts, "a list of names"],
  uniqueItems: [(value) => typeof value === "boolean", "true or false"],
  multipleOf: [(value) => Number.isFinite(value) && (value as number) > 0, "a number above 0"],
};

function checkKeyword(keyword: string, value: unknown, at: string): void {
  const [isRight, wanted] = checks[keyword] ?? checkOf(keyword);
  if (!isRight(value)) throw refusal(`${keyword} at ${at} must be ${wanted}`);
  if (keyword === "type") kindsOf(value, at);
}

function checkOf(keyword: string): [isRight: (value: unknown) => boolean, wanted: string] {
  if (/^(?:min|max)[A-Z]/.test(keyword)) return [isCount, "a whole number from 0 on"];
  if (/inimum$|aximum$/.test(keyword)) return [Number.isFinite, "a finite number"];
  if (/Of$|^prefixItems$/.test(keyword)) {
    return [(value) => Array.isArray(value) && value.length > 0, "a list of schemas"];
  }
  if (["pattern", "format"].includes(keyword)) return [(value) => typeof value === "string", "text"];
  return [() => true, ""];
}

export function kindsOf(type: unknown, at: string): Kind[] {
  const names = Array.isArray(type) ? (type as unknown[]) : [type];
  const wrong = names.find((name) => !kinds.includes(name as Kind));
  if (wrong !== undefined || names.length === 0) {
    throw refusal(`type at ${at} is ${JSON.stringify(wrong ?? [])}, but there are ${kinds.join(", ")}`);
  }
  return names as Kind[];
}

export const values = (list: unknown): unknown[] => list as unknown[];

export function kindOf(value: unknown): Kind {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value as Kind;
}

/** Whether values of one kind may be of the other as well. */
export function overlap(one: Kind, other: Kind): boolean {
  const wide = (kind: Kind): Kind => (kind === "integer" ? "number" : kind);
  return wide(one) === wide(other);
}

/** What an object has by this name itself. */
export function ownOf(object: unknown, name: string): unknown {
  return Object.hasOwn((object ?? {}) as object, name) ? (object as Plain)[name] : undefined;
}

/** Whether two values of JSON are the same. */
export function isSame(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other);
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "undefined";
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`).join(",")}}`;
}
