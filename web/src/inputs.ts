// Describes JavaScript values to the planner, which decides whether a call accepts them.

import { type DType, dTypeNames, type GivenKind } from "#wire";
import { dtypeOf } from "./convert.js";
import { NibbleError } from "./errors.js";
import type { Input, InputData, Inputs } from "./types.js";

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

function invalid(message: string): NibbleError {
  return new NibbleError("invalid_argument", message);
}

/** The inputs in the program's order. The planner checks whether there are too many or too few. */
export function describeInputs(inputs: Inputs, names: readonly string[], labels: readonly string[]): Given[] {
  return inOrder(inputs, names).map((input, i) => describe(input, labels[i] ?? `input ${i}`));
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
  if (shape?.some((dim) => !Number.isSafeInteger(dim))) {
    throw invalid(`${label} has shape [${shape.join(", ")}], but sizes are whole numbers`);
  }
  const elements = data as unknown as ArrayLike<unknown>;
  const count = elements.length ?? 0;
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

/** A number as an int64, or as text if it is none. */
export function numberOf(value: unknown): { word: string; integer: bigint | undefined } {
  if (typeof value !== "bigint" && !Number.isInteger(value)) return { word: String(value), integer: undefined };
  const integer = BigInt(value as number | bigint);
  const fits = BigInt.asIntN(64, integer) === integer;
  return fits ? { word: "", integer } : { word: String(integer), integer: undefined };
}
