// A program with its weights on a device: the method's inputs and outputs, and its calls, one after the other.

import type { Layout } from "#wire";
import { messageOf, NibbleError } from "./errors.js";
import type { CallInput, Executor } from "./executor.js";
import type { GpuDevice } from "./device.js";
import { checkInputs, dimsOf, type GivenInput, type InputRule } from "./inputs.js";
import type { Planner } from "./planner.js";
import type { ConstantValue, DType, Inputs, Names, Program, Tensor, TensorData, ValueInfo } from "./types.js";

export class LoadedProgram implements Program {
  readonly method: string;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  readonly constants: Readonly<Record<string, ConstantValue>>;
  private readonly rules: InputRule[];
  /** Per input of the graph: which of the method's it is. */
  private readonly inputOf: number[] = [];
  /** Per output of the graph: as what the caller gets it. */
  private readonly hosts: (DType | undefined)[];
  private last: Promise<unknown> = Promise.resolve();
  private disposed = false;

  constructor(
    readonly device: GpuDevice,
    private readonly planner: Planner,
    private readonly layout: Layout,
    private readonly executor: Executor,
    names: Names,
  ) {
    this.method = layout.method;
    this.inputs = describe(layout.inputs, "input", names.inputs);
    this.outputs = describe(layout.outputs, "output", names.outputs);
    this.constants = Object.fromEntries(layout.constantMethods.map(({ name, values }) => [name, valueOf(values)]));
    this.rules = layout.inputs.map((method, i) => ({
      label: names.inputs ? `input ${this.inputs[i]!.name}` : `input ${i}`,
      name: this.inputs[i]!.name,
      method,
      device: method.used ? layout.graphInputs[method.index]!.dtype : null,
    }));
    layout.inputs.forEach(({ used, index }, i) => {
      if (used) this.inputOf[index] = i;
    });
    this.hosts = layout.graphOutputs.map(
      (_, i) => layout.outputs.find(({ kind, index }) => kind === "graph" && index === i)?.dtype,
    );
  }

  get heapBytes(): number {
    return this.planner.heapBytes;
  }

  run(inputs: Inputs): Promise<Record<string, Tensor>> {
    const call = this.last.then(() => this.call(inputs));
    this.last = call.catch(() => undefined);
    return call;
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    this.executor.destroy();
  }

  private async call(inputs: Inputs): Promise<Record<string, Tensor>> {
    this.checkDisposed();
    this.device.check();
    try {
      const given = checkInputs(inputs, this.rules);
      const passed = this.layout.outputs.map(({ kind, index }) =>
        kind === "input" ? passThrough(given[index]!, this.inputs[index]!) : undefined,
      );
      const call: CallInput[] = this.inputOf.map((i) => ({ given: given[i]!, label: this.rules[i]!.label }));
      const results = await this.executor.run(call, this.hosts);
      return this.collect(results, passed);
    } catch (error) {
      this.checkDisposed();
      if (error instanceof NibbleError) throw error;
      throw new NibbleError("internal", `a call failed: ${messageOf(error)}`, { cause: error });
    }
  }

  private checkDisposed(): void {
    if (this.disposed) throw new NibbleError("invalid_argument", "the program is disposed: load it again");
  }

  private collect(
    results: readonly (Tensor | undefined)[],
    passed: readonly (Tensor | undefined)[],
  ): Record<string, Tensor> {
    const taken = new Set<number>();
    return Object.fromEntries(
      this.layout.outputs.map(({ kind, index, value }, i) => {
        const { name } = this.outputs[i]!;
        if (kind === "constant") return [name, { data: BigInt64Array.of(value), shape: [] }];
        if (kind === "input") return [name, passed[i]!];
        const result = results[index]!;
        // A method may return one output of its graph several times: each is an array of its own.
        const isCopy = taken.has(index);
        taken.add(index);
        return [name, isCopy ? { data: result.data.slice(), shape: [...result.shape] } : result];
      }),
    );
  }
}

function describe(
  values: Layout["inputs"] | Layout["outputs"],
  kind: "input" | "output",
  names: readonly string[] | undefined,
): ValueInfo[] {
  if (names && names.length !== values.length) {
    const verb = names.length === 1 ? "name is" : "names are";
    throw new NibbleError(
      "invalid_argument",
      `${names.length} ${verb} given for the ${kind}s, but the program has ${values.length}`,
    );
  }
  const twice = names?.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new NibbleError("invalid_argument", `two ${kind}s are named ${twice}`);
  return values.map(({ isInt, dtype, shape, dynamic }, i) => ({
    name: names?.[i] ?? `${kind}${i}`,
    dtype,
    shape: dimsOf(shape),
    dynamic,
    isInteger: isInt,
  }));
}

/** Constant methods return a value or several, each as JSON. */
function valueOf(values: readonly string[]): ConstantValue {
  const parsed = values.map((value) => JSON.parse(value) as ConstantValue);
  return parsed.length === 1 ? parsed[0]! : parsed;
}

/** An input that the method hands through, as it was when the call began. */
function passThrough({ data, shape, integer }: GivenInput, { isInteger, dtype }: ValueInfo): Tensor {
  if (isInteger) return { data: BigInt64Array.of(integer), shape: [] };
  if (ArrayBuffer.isView(data)) return { data: (data as TensorData).slice(), shape: [...shape] };
  if (dtype === "int64") return { data: BigInt64Array.from(data as readonly number[], BigInt), shape: [...shape] };
  const Data = { bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, int32: Int32Array }[dtype as "bool"];
  const numbers = (data as readonly number[]).map(Number);
  return { data: (Data ?? (dtype === "float64" ? Float64Array : Float32Array)).from(numbers), shape: [...shape] };
}
