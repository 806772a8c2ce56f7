// Every kernel that plans ask for, on devices of all kinds.

import type { Pipeline, Profile } from "#wire";
import { GpuDevice } from "../../src/device.js";
import type { Device, Options } from "../../src/index.js";
import { planProgram } from "../../src/loader.js";
import { optionsRecord } from "../../src/options.js";
import { Planner } from "../../src/planner.js";
import { openSource, type ProgramSource } from "../../src/source.js";

const limits = {
  maxBufferSize: 268435456,
  maxStorageBindingSize: 134217728,
  maxWorkgroupsPerDimension: 65535,
  maxWorkgroupInvocations: 256,
  maxWorkgroupSizeX: 256,
  maxWorkgroupBytes: 16384,
};

/** Kinds and features in all combinations, with the least and with more than the least that devices have. */
export const profiles: Profile[] = [false, true].flatMap((shaderF16) =>
  [false, true].flatMap((subgroups) =>
    (["cpu", "discrete"] as const).map((kind) => ({
      name: "",
      driver: "",
      engine: "",
      nibble: "",
      kind,
      shaderF16,
      packedDot: subgroups,
      subgroups,
      subgroupMin: subgroups ? 32 : 0,
      subgroupMax: subgroups ? 32 : 0,
      ...limits,
      ...(kind === "cpu" ? {} : { maxBufferSize: 2 ** 31 - 4, maxStorageBindingSize: 2 ** 31 - 4 }),
    })),
  ),
);

/** The kernels of a program's plan. */
export async function plan(
  module: WebAssembly.Module,
  from: ProgramSource,
  profile: Profile,
  options: Options,
): Promise<Pipeline[]> {
  const { signal } = new AbortController();
  const source = await openSource(from, signal);
  try {
    const planner = await Planner.create(module);
    const device = { profile: () => profile, phase: () => 0 };
    return (await planProgram(source, planner, device, optionsRecord(options), signal)).layout.pipelines;
  } finally {
    source.close?.();
  }
}

/** Plans a program for every profile, whole and in shards; adds the kernels that are new in more than their workgroup. */
export async function collect(
  kernels: Map<string, Pipeline>,
  module: WebAssembly.Module,
  from: ProgramSource,
  shardBytes: number,
): Promise<void> {
  for (const profile of profiles) {
    for (const maxShardBytes of shardBytes > 0 ? [0, shardBytes] : [0]) {
      for (const one of await plan(module, from, profile, { maxShardBytes })) {
        const overrides = one.overrides.filter(({ name }) => name !== "WG");
        kernels.set(JSON.stringify([one.wgsl, one.bindings, overrides]), one);
      }
    }
  }
}

type Use = (device: GpuDevice, kernel: Pipeline) => Promise<unknown>;

/** Reads and checks a kernel's text, which takes a fraction of compiling it. */
export const check: Use = async (device, { label, wgsl }) => {
  const { messages } = await device.handle.createShaderModule({ label, code: wgsl }).getCompilationInfo();
  const wrong = messages.find(({ type }) => type === "error");
  if (wrong) throw new Error(`${label}, line ${wrong.lineNum}: ${wrong.message}`);
};

export const compile: Use = (device, kernel) => device.pipeline(kernel, Symbol());

/** Does this with all kernels but for those that need what the device lacks; gives how many. */
export async function useAll(device: Device, kernels: readonly Pipeline[], use: Use): Promise<number> {
  if (!(device instanceof GpuDevice)) throw new Error("this device was opened by another copy of the package");
  const possible = kernels.filter(({ wgsl }) => device.features.has("shader-f16") || !wgsl.includes("enable f16;"));
  await Promise.all(possible.map((kernel) => use(device, kernel)));
  return possible.length;
}
