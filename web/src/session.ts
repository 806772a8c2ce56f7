// One user's state of a model. Its calls run one after the other.

import type { Layout, TakenInput } from "#wire";
import { failure, invalid, NibbleError, textOf } from "./errors.js";
import { Executor } from "./executor.js";
import { describeInputs, dimsOf, type Given } from "./inputs.js";
import type { LoadedModel } from "./model.js";
import { signalOf } from "./options.js";
import { readSaved, writeSaved } from "./saved.js";
import type { DType, Inputs, RunOptions, Session, State, Tensor, TensorData, ValueInfo } from "./types.js";

/** The error of calls on a session after dispose(). */
export const GONE = "the session is disposed: make another";

export class LoadedSession implements Session {
  private readonly layout: Layout;
  private last: Promise<unknown> = Promise.resolve();
  private disposed = false;

  constructor(
    readonly model: LoadedModel,
    private readonly executor: Executor,
    /** The error of calls after dispose(). */
    private readonly gone: string,
  ) {
    this.layout = model.resources.layout;
  }

  get states(): State[] {
    this.checkDisposed();
    return this.layout.states.map(({ role, dtype, shape, hasRowAxis, rowAxis }, i) => ({
      role,
      dtype,
      shape: dimsOf(shape),
      rowAxis: hasRowAxis ? rowAxis : null,
      rows: this.executor.state.rows[i]!,
    }));
  }

  get dispatches(): number {
    return this.executor.dispatchCount;
  }

  async run(inputs: Inputs, options?: RunOptions): Promise<Record<string, Tensor>> {
    const signal = signalOf(options);
    return this.enqueue("a call", () => this.call(inputs, this.wantedOutputs(options?.outputs), signal), signal);
  }

  rewind(rows: number): Promise<void> {
    return this.enqueue("rewinding a session", () => this.executor.state.rewind(rows));
  }

  reset(): Promise<void> {
    return this.enqueue("resetting a session", () => this.executor.state.reset());
  }

  fork(): Promise<Session> {
    return this.enqueue("forking a session", async () => {
      this.executor.state.check();
      const executor = await Executor.make(this.model.resources);
      const session = new LoadedSession(this.model, executor, GONE);
      try {
        await this.executor.state.copyTo(executor.state);
        return session;
      } catch (error) {
        session.dispose();
        throw error;
      }
    });
  }

  save(note = ""): Promise<Uint8Array> {
    return this.enqueue("saving a session", () => {
      const { state } = this.executor;
      state.check();
      const { fingerprint } = this.model.resources;
      return writeSaved(this.layout, fingerprint, textOf(note), state.rows, state.bytes(), (to) => state.read(to));
    });
  }

  restore(saved: Uint8Array, accept?: (note: string, rows: readonly number[]) => void): Promise<void> {
    return this.enqueue("restoring a session", async () => {
      const { state } = this.executor;
      const { note, rows, data } = await readSaved(saved, this.layout, this.model.resources.fingerprint);
      const wanted = state.bytes(rows);
      if (wanted !== data.length) {
        throw new NibbleError("io", `the saved session has ${data.length} bytes of state, but its rows take ${wanted}`);
      }
      accept?.(note, rows);
      await state.write(rows, data);
    });
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    this.executor.destroy();
    // A running call still reads the planner's memory.
    this.last = this.last.then(() => this.executor.free());
  }

  /** Lets `work` run when all that was asked for before is done. */
  private enqueue<T>(what: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const done = this.last.then(async () => {
      signal?.throwIfAborted();
      this.checkDisposed();
      this.model.device.check();
      try {
        return await work();
      } catch (error) {
        this.checkDisposed();
        if (error instanceof NibbleError || (signal?.aborted && error === signal.reason)) throw error;
        throw failure("internal", `${what} failed`, error);
      }
    });
    this.last = done.catch(() => undefined);
    return done;
  }

  private async call(
    inputs: Inputs,
    isWanted: readonly boolean[],
    signal: AbortSignal | undefined,
  ): Promise<Record<string, Tensor>> {
    const names = this.model.inputs.map(({ name }) => name);
    const given = describeInputs(inputs, names, this.model.labels);
    this.executor.stepper.take(given);
    const passed = this.layout.outputs.map(({ kind, index }, i) =>
      kind === "input" && isWanted[i] ? this.passThrough(given[index]!, index) : undefined,
    );
    const results = await this.executor.run(given, this.hostsOf(isWanted), signal);
    return this.collect(results, passed, isWanted);
  }

  /** Per output of the method: whether the caller wants it. */
  private wantedOutputs(names: unknown): boolean[] {
    const { outputs } = this.model;
    if (names === undefined || names === null) return outputs.map(() => true);
    if (!Array.isArray(names)) throw invalid("the outputs that are wanted must be a list of names");
    const unknown = names.find((name) => !outputs.some((output) => output.name === name)) as unknown;
    if (unknown !== undefined) {
      const all = outputs.map(({ name }) => name).join(", ");
      throw invalid(`there is no output ${textOf(unknown)}; the program gives ${all}`);
    }
    return outputs.map(({ name }) => names.includes(name));
  }

  /** Per output of the graph: the type that the caller gets, or undefined if it is not wanted. */
  private hostsOf(isWanted: readonly boolean[]): (DType | undefined)[] {
    return this.layout.graphOutputs.map(
      (_, i) =>
        this.layout.outputs.find(({ kind, index }, output) => kind === "graph" && index === i && isWanted[output])
          ?.dtype,
    );
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
    isWanted: readonly boolean[],
  ): Record<string, Tensor> {
    const taken = new Set<number>();
    const all: Record<string, Tensor> = {};
    this.layout.outputs.forEach(({ kind, index, value }, i) => {
      if (!isWanted[i]) return;
      const { name } = this.model.outputs[i]!;
      if (kind === "constant") all[name] = { data: BigInt64Array.of(value), shape: [] };
      else if (kind === "input") all[name] = passed[i]!;
      else {
        const result = results[index]!;
        // A method may return one output of its graph several times. Each result gets its own array.
        all[name] = taken.has(index) ? { data: result.data.slice(), shape: [...result.shape] } : result;
        taken.add(index);
      }
    });
    return all;
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
