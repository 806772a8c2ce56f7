// One user's state of a model. Its calls run one after the other.

import type { Layout, TakenInput } from "#wire";
import { failure, invalid, NibbleError } from "./errors.js";
import type { Executor } from "./executor.js";
import { describeInputs, dimsOf, type Given } from "./inputs.js";
import type { LoadedModel } from "./model.js";
import { signalOf } from "./options.js";
import type { DType, Inputs, RunOptions, Session, State, Tensor, TensorData, ValueInfo } from "./types.js";

export class LoadedSession implements Session {
  private readonly layout: Layout;
  /** Per output of the graph: the type that the caller gets. */
  private readonly hosts: readonly (DType | undefined)[];
  private last: Promise<unknown> = Promise.resolve();
  private disposed = false;

  constructor(
    readonly model: LoadedModel,
    private readonly executor: Executor,
    /** The error of calls after dispose(). */
    private readonly gone: string,
  ) {
    this.layout = model.resources.layout;
    this.hosts = this.layout.graphOutputs.map(
      (_, i) => this.layout.outputs.find(({ kind, index }) => kind === "graph" && index === i)?.dtype,
    );
  }

  get states(): State[] {
    this.checkDisposed();
    return this.layout.states.map(({ role, dtype, shape, hasRowAxis, rowAxis }, i) => ({
      role,
      dtype,
      shape: dimsOf(shape),
      rowAxis: hasRowAxis ? rowAxis : null,
      rows: this.executor.stateRows[i]!,
    }));
  }

  run(inputs: Inputs, options?: RunOptions): Promise<Record<string, Tensor>> {
    const call = this.last.then(() => this.call(inputs, signalOf(options)));
    this.last = call.catch(() => undefined);
    return call;
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    this.executor.destroy();
    // A running call still reads the planner's memory.
    this.last = this.last.then(() => this.executor.free());
  }

  private async call(inputs: Inputs, signal?: AbortSignal): Promise<Record<string, Tensor>> {
    signal?.throwIfAborted();
    this.checkDisposed();
    this.model.device.check();
    try {
      const names = this.model.inputs.map(({ name }) => name);
      const given = describeInputs(inputs, names, this.model.labels);
      this.executor.stepper.take(given);
      const passed = this.layout.outputs.map(({ kind, index }) =>
        kind === "input" ? this.passThrough(given[index]!, index) : undefined,
      );
      const results = await this.executor.run(given, this.hosts, signal);
      return this.collect(results, passed);
    } catch (error) {
      this.checkDisposed();
      if (error instanceof NibbleError || (signal?.aborted && error === signal.reason)) throw error;
      throw failure("internal", "a call failed", error);
    }
  }

  checkDisposed(): void {
    if (this.disposed) throw invalid(this.gone);
  }

  /** A copy of an input that the method returns as an output. */
  private passThrough(given: Given, input: number): Tensor {
    return copyOf(given, this.executor.stepper.takenInput(input), this.model.inputs[input]!);
  }

  private collect(
    results: readonly (Tensor | undefined)[],
    passed: readonly (Tensor | undefined)[],
  ): Record<string, Tensor> {
    const taken = new Set<number>();
    return Object.fromEntries(
      this.layout.outputs.map(({ kind, index, value }, i) => {
        const { name } = this.model.outputs[i]!;
        if (kind === "constant") return [name, { data: BigInt64Array.of(value), shape: [] }];
        if (kind === "input") return [name, passed[i]!];
        const result = results[index]!;
        // A method may return one output of its graph several times. Each result gets its own array.
        const isCopy = taken.has(index);
        taken.add(index);
        return [name, isCopy ? { data: result.data.slice(), shape: [...result.shape] } : result];
      }),
    );
  }
}

function copyOf({ data }: Given, taken: TakenInput, { isInteger, dtype }: ValueInfo): Tensor {
  if (isInteger) return { data: BigInt64Array.of(taken.integer), shape: [] };
  const shape = dimsOf(taken.shape);
  if (ArrayBuffer.isView(data)) return { data: (data as TensorData).slice(), shape };
  if (dtype === "int64") return { data: BigInt64Array.from(data as readonly number[], BigInt), shape };
  const Data = { bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, int32: Int32Array }[dtype as "bool"];
  const numbers = (data as readonly number[]).map(Number);
  return { data: (Data ?? (dtype === "float64" ? Float64Array : Float32Array)).from(numbers), shape };
}
