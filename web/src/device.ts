// An open GPU device. It keeps errors, and the pipelines that all programs on it share.

import type { Pipeline, Profile } from "#wire";
import { version } from "../package.json";
import { failure, messageOf, NibbleError } from "./errors.js";
import { now } from "./timer.js";
import type { Device, OpenOptions, TraceEvent } from "./types.js";

/** Features that plans and traces use if the adapter has them. */
const wantedFeatures = ["shader-f16", "subgroups", "timestamp-query"] as const;

/** So many pipelines that nobody uses are kept, so that loading a program again compiles nothing. */
const MOST_UNUSED = 256;

export async function open(given?: OpenOptions): Promise<Device> {
  const options = given ?? {};
  const adapter = options.adapter ?? (await requestAdapter(options));
  try {
    const requiredLimits: Record<string, number> = {};
    // A device has the default limits unless more are requested. They are getters of a prototype, so only for..in finds
    // them.
    for (const name in adapter.limits) {
      const value = adapter.limits[name as keyof GPUSupportedLimits];
      if (typeof value === "number" && !name.includes("Subgroup")) requiredLimits[name] = value;
    }
    const requiredFeatures = wantedFeatures.filter((name) => adapter.features.has(name)) as GPUFeatureName[];
    return new GpuDevice(adapter, await adapter.requestDevice({ requiredLimits, requiredFeatures }), options.gpu);
  } catch (error) {
    throw failure("gpu", `the device ${nameOf(adapter)} could not be opened`, error);
  }
}

async function requestAdapter(options: OpenOptions): Promise<GPUAdapter> {
  const gpu = options.gpu ?? (globalThis.navigator as Navigator | undefined)?.gpu;
  if (!gpu) {
    const insecure = globalThis.isSecureContext === false;
    throw new NibbleError(
      "no_webgpu",
      insecure
        ? "WebGPU is only there on secure pages: serve this one over https or from localhost"
        : "this browser has no WebGPU: use a current Chrome, Edge, Safari or Firefox, or pass open({ gpu }) in Node",
    );
  }
  const request: GPURequestAdapterOptions = {};
  if (options.powerPreference) request.powerPreference = options.powerPreference;
  if (options.forceFallbackAdapter) request.forceFallbackAdapter = true;
  let adapter: GPUAdapter | null;
  try {
    adapter = await gpu.requestAdapter(request);
  } catch (error) {
    throw failure("gpu", "WebGPU could not look for an adapter", error);
  }
  if (!adapter) {
    throw new NibbleError(
      "no_adapter",
      "WebGPU offers no adapter here: the GPU or its driver is not supported, or hardware acceleration is switched off",
    );
  }
  return adapter;
}

function nameOf(adapter: GPUAdapter): string {
  const { description, device, vendor, architecture } = (adapter.info ?? {}) as Partial<GPUAdapterInfo>;
  return description || device || [vendor, architecture].filter(Boolean).join(" ") || "GPU";
}

/** Browsers do not say whether a GPU is discrete or integrated, but software adapters can be recognized. */
function isSoftware(adapter: GPUAdapter): boolean {
  const info = adapter.info as GPUAdapterInfo & { isFallbackAdapter?: boolean };
  const text = `${info.vendor} ${info.architecture} ${info.device} ${info.description}`.toLowerCase();
  return info.isFallbackAdapter === true || /swiftshader|llvmpipe|lavapipe|basic render/.test(text);
}

/** A compute pipeline with the layout of its bindings. */
export interface CompiledPipeline {
  handle: GPUComputePipeline;
  layout: GPUBindGroupLayout;
}

export class GpuDevice implements Device {
  readonly name: string;
  readonly kind: "cpu" | "unknown";
  readonly lost: Promise<NibbleError>;
  /** The least and the most threads of a subgroup; 0 where the browser does not say. */
  private readonly subgroupSizes: [number, number];
  /** What the adapter is, beyond its name. */
  private readonly driver: string;
  private readonly layouts = new Map<string, GPUBindGroupLayout>();
  /** Those that a user left last come last. */
  private readonly pipelines = new Map<string, { made: Promise<CompiledPipeline>; users: Set<symbol> }>();
  trace: TraceEvent[] | undefined;
  /** The error that every later call fails with. */
  private latched: NibbleError | undefined;

  constructor(
    adapter: GPUAdapter,
    readonly handle: GPUDevice,
    /** Kept because in Node a device does not outlive the object that its adapter came from. */
    readonly gpu: GPU | undefined,
  ) {
    this.name = nameOf(adapter);
    this.kind = isSoftware(adapter) ? "cpu" : "unknown";
    const info = adapter.info as GPUAdapterInfo & { subgroupMinSize?: number; subgroupMaxSize?: number };
    this.subgroupSizes = [info.subgroupMinSize ?? 0, info.subgroupMaxSize ?? 0];
    this.driver = [info.vendor, info.architecture, info.device].filter(Boolean).join(" ");
    this.lost = handle.lost.then(({ message }) => {
      const why = message ? `: ${messageOf(message)}` : "";
      this.latched = new NibbleError("device_lost", `the device ${this.name} is lost${why}`);
      return this.latched;
    });
    handle.addEventListener("uncapturederror", (event) => {
      event.preventDefault();
      const { error } = event as GPUUncapturedErrorEvent;
      this.latched ??= new NibbleError(
        codeOf(error),
        `${this.name}: the GPU reported an error: ${messageOf(error.message)}`,
      );
    });
  }

  get features(): ReadonlySet<string> {
    return this.handle.features;
  }

  /** Of WGSL, what this browser has beyond its first version. */
  private get language(): ReadonlySet<string> | undefined {
    return (this.gpu ?? (globalThis.navigator as Navigator | undefined)?.gpu)?.wgslLanguageFeatures;
  }

  get limits(): GPUSupportedLimits {
    return this.handle.limits;
  }

  /** Records a phase that ends now; gives when that is. */
  phase(name: string, start: number, thread = 1): number {
    if (!this.trace) return 0;
    const end = now();
    if (start) this.trace.push({ name, thread, start, duration: end - start }); // else it began before the trace
    return end;
  }

  destroy(): void {
    this.handle.destroy();
  }

  /** Throws the stored error, once the device is lost or an operation failed outside any call. */
  check(): void {
    if (this.latched) throw this.latched;
  }

  /** What a plan, or a tuning, may depend on. */
  profile(): Profile {
    const { limits, features } = this.handle;
    const subgroups = features.has("subgroups");
    const [subgroupMin, subgroupMax] = subgroups ? this.subgroupSizes : [0, 0];
    return {
      name: this.name,
      driver: this.driver,
      engine: "web",
      nibble: version,
      kind: this.kind,
      shaderF16: features.has("shader-f16"),
      packedDot: this.language?.has("packed_4x8_integer_dot_product") ?? false,
      subgroups,
      subgroupMin,
      subgroupMax,
      // Some drivers report 2^31 - 1, but sizes of buffers and copies are multiples of 4.
      maxBufferSize: Math.floor(limits.maxBufferSize / 4) * 4,
      maxStorageBindingSize: Math.floor(limits.maxStorageBufferBindingSize / 4) * 4,
      maxWorkgroupsPerDimension: limits.maxComputeWorkgroupsPerDimension,
      maxWorkgroupInvocations: limits.maxComputeInvocationsPerWorkgroup,
      maxWorkgroupSizeX: limits.maxComputeWorkgroupSizeX,
      maxWorkgroupBytes: limits.maxComputeWorkgroupStorageSize,
    };
  }

  /**
   * Runs `work` inside error scopes. If its WebGPU calls fail, now or later, throws one error that begins with `what`.
   * Scopes are a stack, so `work` must make its WebGPU calls before it first awaits. Its promise is awaited at the end.
   */
  async guard<T>(what: string, work: () => T | Promise<T>): Promise<T> {
    this.check();
    this.handle.pushErrorScope("validation");
    this.handle.pushErrorScope("out-of-memory");
    let result: Promise<T>;
    try {
      result = Promise.resolve(work());
    } catch (error) {
      result = Promise.reject(error);
    }
    const scopes = [this.handle.popErrorScope(), this.handle.popErrorScope()];
    const [done, ...found] = await Promise.allSettled([result, ...scopes]);
    // A scope that cannot tell whether there was an error counts as one that tells of one.
    const [scoped] = found.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : (one.value ?? [])));
    if (scoped !== undefined) throw await this.failure(what, scoped);
    if (done.status === "rejected") throw await this.failure(what, done.reason);
    this.check();
    return done.value;
  }

  /** The error to report: the loss of the device, if that may be the reason. */
  async failure(what: string, reason: unknown): Promise<NibbleError> {
    if (reason instanceof NibbleError) return reason;
    // A lost device may be reported after the call that failed.
    await Promise.race([this.lost, new Promise((resolve) => setTimeout(resolve, 50))]);
    return this.latched ?? failure(codeOf(reason), `${what} failed on ${this.name}`, reason);
  }

  async makeBuffer(bytes: number, usage: GPUBufferUsageFlags, what: string): Promise<GPUBuffer> {
    let made: GPUBuffer | undefined;
    try {
      return await this.guard(what, () => (made = this.handle.createBuffer({ size: bytes, usage })));
    } catch (error) {
      made?.destroy();
      throw error;
    }
  }

  /** The compiled pipeline; all programs on the device share it. It is kept at least until `user` leaves. */
  pipeline(description: Pipeline, user: symbol): Promise<CompiledPipeline> {
    const overrides = description.overrides.map(({ name, value }) => `${name}=${value}`).join(" ");
    const key = `${description.bindings.join(" ")}\n${overrides}\n${description.wgsl}`;
    let one = this.pipelines.get(key);
    if (!one) {
      const added = { made: this.compile(description), users: new Set<symbol>() };
      added.made.catch(() => {
        if (this.pipelines.get(key) !== added) return; // it was let go and made again
        this.pipelines.delete(key);
        this.layouts.delete(description.bindings.join(" ")); // it may be invalid
      });
      this.pipelines.set(key, (one = added));
    }
    one.users.add(user);
    return one.made;
  }

  /** The user needs none of its pipelines any longer. Of those without users the last are kept. */
  leave(user: symbol): void {
    for (const [key, one] of [...this.pipelines]) {
      if (!one.users.delete(user)) continue;
      this.pipelines.delete(key);
      this.pipelines.set(key, one);
    }
    const unused = [...this.pipelines].filter(([, { users }]) => users.size === 0);
    for (const [key] of unused.slice(0, -MOST_UNUSED)) this.pipelines.delete(key);
  }

  private compile(description: Pipeline): Promise<CompiledPipeline> {
    return this.guard(`compiling the kernel ${description.label}`, async () => {
      const layout = this.bindGroupLayout(description.bindings);
      const handle = await this.handle.createComputePipelineAsync({
        label: description.label,
        layout: this.handle.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: {
          module: this.handle.createShaderModule({ label: description.label, code: description.wgsl }),
          entryPoint: "main",
          constants: Object.fromEntries(description.overrides.map(({ name, value }) => [name, value])),
        },
      });
      return { handle, layout };
    });
  }

  /** Binding 0 is a dynamic block of parameters, the rest are storage buffers. The accesses identify a layout. */
  private bindGroupLayout(bindings: Pipeline["bindings"]): GPUBindGroupLayout {
    const key = bindings.join(" ");
    let layout = this.layouts.get(key);
    if (!layout) {
      const visibility = 4; // GPUShaderStage.COMPUTE, which Node has no global for
      layout = this.handle.createBindGroupLayout({
        entries: [
          { binding: 0, visibility, buffer: { type: "uniform", hasDynamicOffset: true } },
          ...bindings.map((access, i) => ({
            binding: i + 1,
            visibility,
            buffer: { type: access === "read" ? ("read-only-storage" as const) : ("storage" as const) },
          })),
        ],
      });
      this.layouts.set(key, layout);
    }
    return layout;
  }
}

function codeOf(error: unknown): "out_of_memory" | "gpu" {
  const kind = (error as object | undefined)?.constructor.name;
  return kind === "GPUOutOfMemoryError" || /out of memory/i.test(messageOf(error)) ? "out_of_memory" : "gpu";
}
