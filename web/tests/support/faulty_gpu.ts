// A GPU that fails on purpose: one call of one function of WebGPU goes wrong, as it would in a browser.

import type * as Nibble from "../../src/index.js";
import type { Environment } from "./cases.js";

/**
 * - `invalid`: a validation error, and an object that is none
 * - `memory`: an out-of-memory error, and a buffer that is none
 * - `throws`, `rejects`: an exception at once, or later
 * - `loses`: the device is lost just before the call
 * - `loses untold`: the same, but the page hears of it only later
 * - `loses after`: the device is lost when the call has succeeded
 */
export type Way = "invalid" | "memory" | "throws" | "rejects" | "loses" | "loses untold" | "loses after";

const lossy: Way[] = ["loses", "loses untold"];

/** What can fail, and how. */
export const sites = {
  createBuffer: ["invalid", "memory", "throws", ...lossy],
  createShaderModule: ["invalid", "loses"],
  createComputePipelineAsync: ["rejects", ...lossy],
  createBindGroupLayout: ["invalid", "loses"],
  createPipelineLayout: ["invalid"],
  createBindGroup: ["invalid", "loses"],
  createCommandEncoder: ["throws", "loses"],
  popErrorScope: ["rejects", ...lossy],
  writeBuffer: ["invalid", "throws", "loses"],
  submit: ["invalid", ...lossy],
  onSubmittedWorkDone: ["rejects", ...lossy, "loses after"],
  mapAsync: ["rejects", ...lossy, "loses after"],
  getMappedRange: ["throws", ...lossy],
} satisfies Record<string, Way[]>;

export type Site = keyof typeof sites;

export interface Fault {
  site: Site;
  way: Way;
  /** Which call of the function fails, from 1 on. */
  at: number;
}

/** How much later the page hears of a loss that is untold: longer than Nibble waits for it. */
const UNTOLD_MS = 80;

type Call = (...parameters: unknown[]) => unknown;

export class FaultyGpu {
  /** How often each function was called. */
  readonly calls: Partial<Record<Site, number>> = {};
  /** Buffers that were made and not destroyed. */
  readonly live = new Set<GPUBuffer>();
  hasFailed = false;
  isLost = false;
  private handle!: GPUDevice;
  private makeBuffer!: GPUDevice["createBuffer"];
  /** Errors that scopes report besides those of the real device; innermost last. */
  private readonly scopes: { filter: GPUErrorFilter; error: GPUError | null }[] = [];

  /** Without a fault it only counts. */
  constructor(readonly fault?: Fault) {}

  /** Opens a device that fails so. */
  async open(env: Environment): Promise<Nibble.Device> {
    const real = (await (env.options.gpu ?? navigator.gpu).requestAdapter())!;
    const { limits, features, info } = real;
    const requestDevice = async (wanted?: GPUDeviceDescriptor): Promise<GPUDevice> =>
      this.attach(await real.requestDevice(wanted));
    return env.nibble.open({ ...env.options, adapter: { limits, features, info, requestDevice } as GPUAdapter });
  }

  private attach(handle: GPUDevice): GPUDevice {
    this.handle = handle;
    this.makeBuffer = handle.createBuffer.bind(handle);
    const told = handle.lost.then(async (info) => {
      if (this.fault?.way === "loses untold" && this.hasFailed) await new Promise((go) => setTimeout(go, UNTOLD_MS));
      return info;
    });
    Object.defineProperty(handle, "lost", { value: told });
    this.keepScopes();
    for (const site of Object.keys(sites) as Site[]) {
      if (site in handle) this.replace(handle, site);
      else if (site in handle.queue) this.replace(handle.queue, site);
    }
    const make = handle.createBuffer.bind(handle);
    handle.createBuffer = (wanted) => this.keepBuffer(make(wanted));
    return handle;
  }

  private keepBuffer(buffer: GPUBuffer): GPUBuffer {
    this.live.add(buffer);
    const destroy = buffer.destroy.bind(buffer);
    buffer.destroy = () => {
      this.live.delete(buffer);
      return destroy();
    };
    this.replace(buffer, "mapAsync");
    this.replace(buffer, "getMappedRange");
    return buffer;
  }

  private keepScopes(): void {
    const { handle, scopes } = this;
    const push = handle.pushErrorScope.bind(handle);
    const pop = handle.popErrorScope.bind(handle);
    handle.pushErrorScope = (filter) => {
      scopes.push({ filter, error: null });
      return push(filter);
    };
    handle.popErrorScope = () => {
      const own = scopes.pop()?.error ?? null;
      return pop().then((error) => own ?? error);
    };
  }

  private replace(object: object, site: Site): void {
    const methods = object as Record<string, Call>;
    const real = methods[site]!.bind(object);
    methods[site] = (...parameters) => {
      const call = (this.calls[site] = (this.calls[site] ?? 0) + 1);
      if (this.fault?.site !== site || this.fault.at !== call) return real(...parameters);
      this.hasFailed = true;
      return this.fail(this.fault.way, site, real, parameters);
    };
  }

  private fail(way: Way, site: Site, real: Call, parameters: unknown[]): unknown {
    switch (way) {
      case "invalid":
        return this.invalid(site, real, parameters[0]);
      case "memory":
        return this.noMemory();
      case "throws":
        throw site === "createBuffer" ? new RangeError("no memory") : failure("OperationError");
      case "rejects":
        // The real call is made where others depend on it.
        if (site === "popErrorScope") void (real() as Promise<unknown>).catch(() => undefined);
        return Promise.reject(failure(site === "createComputePipelineAsync" ? "GPUPipelineError" : "OperationError"));
      case "loses after":
        return (real(...parameters) as Promise<unknown>).then(() => this.lose());
      default:
        this.lose();
        return real(...parameters);
    }
  }

  private lose(): void {
    this.isLost = true;
    this.handle.destroy();
  }

  private invalid(site: Site, real: Call, given: unknown): unknown {
    switch (site) {
      case "createShaderModule":
        return real({ code: "nonsense" });
      case "createBindGroupLayout": {
        const { entries } = given as GPUBindGroupLayoutDescriptor;
        return real({ entries: [...entries, ...entries] });
      }
      case "createPipelineLayout":
        return real({ bindGroupLayouts: Array(9).fill((given as GPUPipelineLayoutDescriptor).bindGroupLayouts[0]) });
      case "createBindGroup":
        return real({ ...(given as GPUBindGroupDescriptor), entries: [] });
      default:
        // A queue leaves out what is invalid.
        return this.brokenBuffer();
    }
  }

  private brokenBuffer(): GPUBuffer {
    return this.makeBuffer({ size: 16, usage: 0xffff });
  }

  /** Memory does not really run out: the buffer is invalid for another reason, which nobody hears. */
  private noMemory(): GPUBuffer {
    const scope = [...this.scopes].reverse().find(({ filter }) => filter === "out-of-memory");
    if (!scope) throw new Error("a buffer is made outside a scope for out-of-memory errors");
    class GPUOutOfMemoryError extends Error {}
    scope.error ??= new GPUOutOfMemoryError("there is no memory left") as GPUError;
    this.handle.pushErrorScope("validation");
    const buffer = this.brokenBuffer();
    const real = Object.getPrototypeOf(this.handle) as GPUDevice;
    this.scopes.pop();
    void real.popErrorScope.call(this.handle);
    return buffer;
  }
}

function failure(name: string): DOMException {
  return new DOMException("it was told to fail", name);
}
