// A loaded program: its inputs and outputs, its own session, and further ones.

import type { BufferRole, Layout } from "#wire";
import { invalid } from "./errors.js";
import { Executor } from "./executor.js";
import type { GpuDevice } from "./device.js";
import { dimsOf } from "./inputs.js";
import type { Resources } from "./resources.js";
import { GONE, LoadedSession } from "./session.js";
import type { ConstantValue, Inputs, Model, Names, RunOptions, Session, State, Tensor, ValueInfo } from "./types.js";

export class LoadedModel implements Model {
  readonly device: GpuDevice;
  readonly method: string;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  readonly constants: Readonly<Record<string, ConstantValue>>;
  /** The inputs' names in errors. */
  readonly labels: readonly string[];
  readonly own: LoadedSession;
  readonly modelBytes: number;
  readonly sessionBytes: number;
  loadEndMs = 0;
  private disposed = false;

  /** `executor` belongs to the model's own session. */
  constructor(
    readonly resources: Resources,
    executor: Executor,
    names: Names,
    readonly notes: readonly string[],
    readonly loadStartMs: number,
  ) {
    const { layout, planner } = resources;
    this.device = resources.device;
    this.method = layout.method;
    this.inputs = describe(layout.inputs, "input", names.inputs);
    this.outputs = describe(layout.outputs, "output", names.outputs);
    this.constants = Object.fromEntries(layout.constantMethods.map(({ name, values }) => [name, valueOf(values)]));
    names.inputs?.forEach((name, i) => planner.nameInput(i, name));
    this.labels = this.inputs.map(({ name }, i) => `input ${names.inputs ? name : i}`);
    const bytesOf = (...roles: BufferRole[]): number =>
      layout.buffers.reduce((sum, { role, bytes }) => sum + (roles.includes(role) ? bytes : 0), 0);
    this.modelBytes = bytesOf("constant");
    this.sessionBytes = bytesOf("state", "slot") + layout.stagingBytes;
    this.own = new LoadedSession(this, executor, "the model is disposed: load it again");
  }

  get heapBytes(): number {
    return this.resources.planner.heapBytes;
  }

  get states(): State[] {
    return this.own.states;
  }

  run(inputs: Inputs, options?: RunOptions): Promise<Record<string, Tensor>> {
    return this.own.run(inputs, options);
  }

  async session(): Promise<Session> {
    this.own.checkDisposed();
    this.device.check();
    const executor = await Executor.make(this.resources);
    const session = new LoadedSession(this, executor, GONE);
    try {
      this.own.checkDisposed();
      await this.resources.beginState(executor.buffers);
      return session;
    } catch (error) {
      session.dispose();
      throw error;
    }
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    this.own.dispose();
    this.resources.release();
  }
}

function describe(
  values: Layout["inputs"] | Layout["outputs"],
  kind: "input" | "output",
  names: readonly string[] | undefined,
): ValueInfo[] {
  const given: unknown = names;
  if (given !== undefined && !(Array.isArray(given) && given.every((name) => typeof name === "string"))) {
    throw invalid(`the names of the ${kind}s must be a list of texts`);
  }
  if (names && names.length !== values.length) {
    const verb = names.length === 1 ? "name is" : "names are";
    throw invalid(`${names.length} ${verb} given for the ${kind}s, but the program has ${values.length}`);
  }
  const twice = names?.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw invalid(`two ${kind}s are named ${twice}`);
  return values.map(({ isInt, dtype, shape, dynamic }, i) => ({
    name: names?.[i] ?? `${kind}${i}`,
    dtype,
    shape: dimsOf(shape),
    dynamic,
    isInteger: isInt,
  }));
}

/** A constant method's value, or a list if there are several. Each is given as JSON. */
function valueOf(values: readonly string[]): ConstantValue {
  const parsed = values.map((value) => JSON.parse(value) as ConstantValue);
  return parsed.length === 1 ? parsed[0]! : parsed;
}
