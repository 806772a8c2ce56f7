// Describes JavaScript values to the planner, which decides whether a call accepts them.

import { type DType, dTypeNames, type GivenKind } from "#wire";
import { dtypeOf } from "./convert.js";
import { invalid, messageOf, NibbleError, textOf } from "./errors.js";
import type { Input, InputData, Inputs } from "./types.js";

/** Shapes with more dimensions are refused, whatever these are. */
export const MAX_RANK = 8;
/** How much of a text that is no number is quoted. */
const MAX_WORD = 100;

/** An input as the caller passed it. */
export interface Given {
  kind: GivenKind;
  /** The type of a tensor, if Nibble has it. */
  dtype: DType;
  /** Set if the input cannot be expressed: the name of a tensor's type, or a number that is not an int64. */
  word: string;
  /** Undefined: inferred from the number of elements. */
  shape: readonly number[] | undefined;
  count: number;
  /** The number, or the only element, if it is an int64. */
  integer: bigint | undefined;
  data: InputData;
}

export function dimsOf(shape: { rank: number; dims: number[] }): number[] {
  return shape.dims.slice(0, shape.rank);
}

export function countOf(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

/** The inputs in the program's order. The planner checks whether there are too many or too few. */
export function describeInputs(inputs: Inputs, names: readonly string[], labels: readonly string[]): Given[] {
  try {
    const list = inOrder(inputs, names);
    // Of a wrong number of inputs only the number matters.
    if (list.length !== names.length) return Array<Given>(list.length);
    return names.map((_, i) => describe(list[i]!, labels[i]!));
  } catch (error) {
    // The caller's objects may throw.
    throw error instanceof NibbleError ? error : invalid(`the inputs cannot be read: ${messageOf(error)}`);
  }
}

function inOrder(inputs: Inputs, names: readonly string[]): readonly Input[] {
  if (inputs === null || typeof inputs !== "object" || ArrayBuffer.isView(inputs)) {
    throw invalid("the inputs must be given by name, as { name: data }, or in order, as [data]");
  }
  if (Array.isArray(inputs)) return inputs as readonly Input[];
  const given = inputs as Readonly<Record<string, Input>>;
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) throw invalid(`there is no input ${unknown}; the program takes ${names.join(", ")}`);
  return names.map((name) => {
    const input = given[name];
    if (input === undefined || input === null) {
      throw invalid(`the input ${name} is not given; the program takes ${names.join(", ")}`);
    }
    return input;
  });
}

function describe(input: Input, label: string): Given {
  if (typeof input === "number" || typeof input === "bigint") {
    const data = [input] as readonly number[] | readonly bigint[];
    return { kind: "number", dtype: "int64", shape: undefined, count: 1, data, ...numberOf(input) };
  }
  const { data, shape } = partsOf(input);
  if (!ArrayBuffer.isView(data) && !Array.isArray(data)) {
    throw invalid(`${label} is neither a typed array, nor a list of numbers, nor { data, shape }`);
  }
  if (shape && shape.length <= MAX_RANK && ![...shape].every(Number.isSafeInteger)) {
    throw invalid(`${label} has shape [${[...shape].map(textOf).join(", ")}], but sizes are whole numbers`);
  }
  const elements = data as unknown as ArrayLike<unknown>;
  const count = elements.length ?? 0;
  if (count === 0 && isGone(data)) {
    throw invalid(`${label} is an array whose memory is gone: its buffer was transferred or made smaller`);
  }
  const type = dtypeOf(data);
  const only = count === 1 ? numberOf(elements[0]) : { word: "", integer: undefined };
  if (type === "numbers") return { kind: "numbers", dtype: "int64", shape, count, data, ...only };
  const isKnown = (dTypeNames as readonly string[]).includes(type);
  return {
    kind: "tensor",
    dtype: isKnown ? (type as DType) : "int64",
    word: isKnown ? "" : type,
    shape,
    count,
    integer: only.integer,
    data,
  };
}

function partsOf(input: Input): { data: InputData | undefined; shape: readonly number[] | undefined } {
  if (ArrayBuffer.isView(input) || Array.isArray(input)) return { data: input, shape: undefined };
  const { data, shape } = (input ?? {}) as { data?: InputData; shape?: readonly number[] };
  return Array.isArray(shape) ? { data, shape } : { data: undefined, shape: undefined };
}

/** Whether the array lies outside its buffer, which makes it look empty. */
function isGone(data: object): boolean {
  try {
    (data as Partial<Uint8Array>).at?.(0);
    return false;
  } catch {
    return true;
  }
}

/** A number as an int64, or as text if it is none. */
export function numberOf(value: unknown): { word: string; integer: bigint | undefined } {
  if (typeof value !== "bigint" && !Number.isInteger(value))
    return { word: textOf(value).slice(0, MAX_WORD), integer: undefined };
  const integer = BigInt(value as number | bigint);
  const fits = BigInt.asIntN(64, integer) === integer;
  return fits ? { word: "", integer } : { word: String(integer).slice(0, MAX_WORD), integer: undefined };
}
