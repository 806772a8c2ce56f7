// The cache of pipelines, on a GPU that only counts what it compiles.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Layout, Pipeline } from "#wire";
import { GpuDevice } from "../../src/device.js";
import type { Planner } from "../../src/planner.js";
import { Resources } from "../../src/resources.js";

const MOST_UNUSED = 256;

/** A device, and the labels of what it compiled. */
function makeDevice(): { device: GpuDevice; compiled: string[] } {
  const compiled: string[] = [];
  const handle = {
    lost: new Promise(() => undefined),
    addEventListener: () => undefined,
    pushErrorScope: () => undefined,
    popErrorScope: async () => null,
    createBindGroupLayout: () => ({}),
    createPipelineLayout: () => ({}),
    createShaderModule: () => ({}),
    createComputePipelineAsync: async ({ label }: { label: string }) => {
      compiled.push(label);
      if (label === "bad") throw new Error("it does not compile");
      return {};
    },
  };
  const device = new GpuDevice({ info: {} } as GPUAdapter, handle as unknown as GPUDevice, undefined);
  return { device, compiled };
}

const kernel = (label: string): Pipeline => ({
  label,
  wgsl: `// ${label}`,
  bindings: ["read"],
  overrides: [],
  reportsFaults: false,
});

/** What a model with these kernels has on the device. */
async function load(device: GpuDevice, ...labels: string[]): Promise<Resources> {
  const layout = { buffers: [], pipelines: labels.map(kernel) } as unknown as Layout;
  const resources = await Resources.make(device, {} as Planner, { layout, fingerprint: "" });
  await resources.compile();
  return resources;
}

const numbered = (first: number, count: number): string[] => Array.from({ length: count }, (_, i) => `k${first + i}`);

/** Loads and disposes a model for each kernel. */
async function pass(device: GpuDevice, labels: readonly string[]): Promise<void> {
  for (const label of labels) (await load(device, label)).release();
}

test("pipelines_that_nobody_uses_leave_the_cache", async () => {
  const { device, compiled } = makeDevice();
  const used = await load(device, "used", "used");
  const many = MOST_UNUSED + 40;
  await pass(device, numbered(0, many));
  assert.equal(compiled.length, 1 + many);
  // What is in use stays, and so do those that were left last.
  await load(device, "used", ...numbered(40, MOST_UNUSED));
  assert.equal(compiled.length, 1 + many);
  await pass(device, numbered(0, 40));
  assert.deepEqual(compiled.slice(1 + many), numbered(0, 40));
  used.release();
});

test("pipeline_counts_as_unused_from_its_last_user_on", async () => {
  const { device, compiled } = makeDevice();
  const first = await load(device, "shared");
  const second = await load(device, "shared");
  second.acquire(); // a session
  first.release();
  second.release();
  await pass(device, numbered(0, MOST_UNUSED));
  second.release();
  // It is the last of the unused now, though it was compiled first.
  await pass(device, numbered(MOST_UNUSED, MOST_UNUSED - 1));
  const before = compiled.length;
  await pass(device, ["shared"]);
  assert.equal(compiled.length, before);
  await pass(device, numbered(0, MOST_UNUSED));
  await pass(device, ["shared"]);
  assert.equal(compiled.at(-1), "shared");
});

test("load_that_fails_leaves_its_pipelines", async () => {
  const { device, compiled } = makeDevice();
  const layout = { buffers: [], pipelines: ["good", "bad"].map(kernel) } as unknown as Layout;
  const resources = await Resources.make(device, {} as Planner, { layout, fingerprint: "" });
  const compiling = assert.rejects(resources.compile(), { code: "gpu", message: /compiling the kernel bad failed/ });
  resources.release(); // it may fail before all is compiled
  await compiling;
  await pass(device, ["good"]);
  assert.deepEqual(compiled, ["good", "bad"]);
  await assert.rejects(load(device, "bad"));
  assert.equal(compiled.length, 3);
  await pass(device, numbered(0, MOST_UNUSED));
  await pass(device, ["good"]);
  assert.equal(compiled.at(-1), "good");
});
