// What comes from the caller is checked here, and named as the caller knows it.

import type { MethodInput } from "#wire";
import { converts, dtypeOf, sizeOf, wantedDTypes } from "./convert.js";
import { NibbleError } from "./errors.js";
import type { DType, Input, InputData, Inputs } from "./types.js";

/** An input that was checked against what the program takes. */
export interface GivenInput {
  shape: number[];
  /** The elements; for integer inputs, see `integer`. */
  data: InputData;
  integer: bigint;
}

/** What an input must be: the method's side, and what the GPU holds of it. */
export interface InputRule {
  /** For errors: "input 0", or "input ids" where the caller gave names. */
  label: string;
  name: string;
  method: MethodInput;
  /** Null where no kernel reads it. */
  device: DType | null;
}

export function dimsOf(shape: { rank: number; dims: number[] }): number[] {
  return shape.dims.slice(0, shape.rank);
}

export function countOf(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

export function textOf(shape: readonly number[]): string {
  return `[${shape.join(", ")}]`;
}

function invalid(message: string): NibbleError {
  return new NibbleError("invalid_argument", message);
}

/** The inputs in the program's order. */
export function checkInputs(inputs: Inputs, rules: readonly InputRule[]): GivenInput[] {
  return inOrder(inputs, rules).map((input, i) => checkInput(input, rules[i]!));
}

function inOrder(inputs: Inputs, rules: readonly InputRule[]): readonly Input[] {
  if (inputs === null || typeof inputs !== "object" || ArrayBuffer.isView(inputs)) {
    throw invalid("the inputs must be given by name, as { name: data }, or in order, as [data]");
  }
  if (Array.isArray(inputs)) {
    if (inputs.length === rules.length) return inputs as readonly Input[];
    const verb = inputs.length === 1 ? "input is" : "inputs are";
    throw invalid(`${inputs.length} ${verb} given, but the program takes ${rules.length}`);
  }
  const given = inputs as Readonly<Record<string, Input>>;
  const names = rules.map(({ name }) => name);
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

function isShaped(input: Input): input is { data: InputData; shape: readonly number[] } {
  return typeof input === "object" && !ArrayBuffer.isView(input) && !Array.isArray(input);
}

function checkInput(input: Input, rule: InputRule): GivenInput {
  const bound = dimsOf(rule.method.shape);
  if (rule.method.isInt) return checkInteger(input, rule);
  if (typeof input === "number" || typeof input === "bigint") {
    if (bound.length !== 0) {
      throw invalid(`${rule.label} is a number, but the program takes a tensor of shape ${textOf(bound)}`);
    }
    return { shape: [], data: [input] as readonly number[] | readonly bigint[], integer: 0n };
  }
  const data = isShaped(input) ? input.data : input;
  if (!ArrayBuffer.isView(data) && !Array.isArray(data)) {
    throw invalid(`${rule.label} is neither a typed array, nor a list of numbers, nor { data, shape }`);
  }
  const dtype = dtypeOf(data);
  const device = rule.device ?? hostDevice(rule.method.dtype);
  if (!converts(device, dtype)) {
    throw invalid(`${rule.label} is ${dtype}, but the program takes ${wantedDTypes(device)}`);
  }
  const { length } = data as ArrayLike<unknown>;
  const shape = isShaped(input) ? [...input.shape] : inferShape(length, bound, rule);
  checkShape(shape, bound, rule);
  if (countOf(shape) !== length) {
    const verb = length === 1 ? "is" : "are";
    throw invalid(
      `${rule.label} has shape ${textOf(shape)} and takes ${countOf(shape)} elements, but ${length} ${verb} given`,
    );
  }
  return { shape, data, integer: 0n };
}

/** An input that no kernel reads still has a type: that of the GPU's closest. */
function hostDevice(host: DType): DType {
  return host === "int64" ? "int32" : host === "float64" ? "float32" : host;
}

function checkShape(shape: readonly number[], bound: readonly number[], rule: InputRule): void {
  const sameRank = shape.length === bound.length;
  const { dynamic } = rule.method;
  const fits =
    sameRank &&
    shape.every((dim, i) => Number.isInteger(dim) && dim >= 0 && (dynamic ? dim <= bound[i]! : dim === bound[i]));
  if (fits) return;
  const atMost = sameRank && dynamic ? "at most " : "";
  throw invalid(`${rule.label} has shape ${textOf(shape)}, but the program takes ${atMost}${textOf(bound)}`);
}

/** Elements alone tell the shape where it is fixed, or where one dimension is all that can vary. */
function inferShape(length: number, bound: readonly number[], rule: InputRule): number[] {
  const free = bound.flatMap((dim, i) => (dim === 1 ? [] : [i]));
  if (length === countOf(bound)) return [...bound];
  if (rule.method.dynamic && free.length === 1) return bound.map((dim, i) => (i === free[0] ? length : dim));
  const verb = length === 1 ? "element" : "elements";
  if (!rule.method.dynamic) {
    throw invalid(`${rule.label} has ${length} ${verb}, but the program takes the shape ${textOf(bound)}`);
  }
  throw invalid(
    `${rule.label} has ${length} ${verb}, which do not tell its shape: pass { data, shape } with a shape of at most ` +
      textOf(bound),
  );
}

function checkInteger(input: Input, rule: InputRule): GivenInput {
  const given: Input | undefined = isShaped(input) ? input.data : input;
  let value: unknown = given;
  if (typeof given === "object") {
    const dtype = dtypeOf(given);
    const { length } = given as ArrayLike<unknown>;
    if (length !== 1 || (dtype !== "int32" && dtype !== "int64" && dtype !== "numbers")) {
      const shape = isShaped(input) ? input.shape : [length];
      throw invalid(`${rule.label} is a ${dtype} tensor of shape ${textOf(shape)}, but the program takes an integer`);
    }
    value = (given as unknown as ArrayLike<unknown>)[0];
  }
  if (typeof value !== "bigint" && !Number.isSafeInteger(value)) {
    throw invalid(`${rule.label} is ${String(value)}, but the program takes an integer`);
  }
  const integer = BigInt(value as number | bigint);
  if (BigInt.asIntN(64, integer) !== integer) {
    throw invalid(`${rule.label} is ${integer}, which does not fit 64 bits`);
  }
  return { shape: [], data: [], integer };
}

/** The place of a flat position: `[1, 3]`, and nothing for a single element. */
export function placeOf(shape: readonly number[], position: number): string {
  const place = [...shape];
  for (let i = shape.length; i-- > 0;) {
    place[i] = position % shape[i]!;
    position = Math.floor(position / shape[i]!);
  }
  return textOf(place);
}

/** Memory of a tensor at its bound. */
export function bytesOf(shape: readonly number[], dtype: DType): number {
  return countOf(shape) * sizeOf(dtype);
}
