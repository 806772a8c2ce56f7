// What holds when the GPU fails, and when it is given away.

import type * as Nibble from "../../src/index.js";
import { failureOf } from "./cases.js";
import { address, bytesOf, type Check, isGood, must, onDevice, runIds, same, says } from "./check.js";
import { faultsOf, makeLife, tryFaults } from "./faults.js";
import { FaultyGpu } from "./faulty_gpu.js";

export const faultChecks: Record<string, Check> = {
  gpu_that_fails_is_told_and_leaves_nothing_behind: async (env) => {
    const life = await makeLife(env, "q4_computed_ids", 2);
    // Node tries all of them.
    const some = faultsOf(life, 1).filter((_, i) => i % 3 === 0);
    must(some.length >= 10, `${some.length} faults are some`);
    await tryFaults(env, "q4_computed_ids", life, some);
  },

  adapter_or_device_that_cannot_be_had_is_told: async (env) => {
    const refuse = (name: string) => async (): Promise<never> => {
      throw new DOMException("", name);
    };
    const gpu = { requestAdapter: refuse("OperationError") } as unknown as GPU;
    says(await failureOf(env, env.nibble.open({ gpu })), "gpu", "could not look for an adapter: OperationError");
    const adapter = { limits: {}, features: new Set(), info: {}, requestDevice: refuse("AbortError") };
    const opening = env.nibble.open({ adapter: adapter as unknown as GPUAdapter });
    says(await failureOf(env, opening), "gpu", "the device GPU could not be opened: AbortError");
    for (const wrong of [3, {}, "gpu"]) {
      const none = env.nibble.open({ adapter: wrong as unknown as GPUAdapter });
      says(await failureOf(env, none), "gpu", "could not be opened");
      says(await failureOf(env, env.nibble.open({ gpu: wrong as unknown as GPU })), "gpu", "could not look for");
    }
    // An adapter gives one device only.
    const once = (await (env.options.gpu ?? navigator.gpu).requestAdapter())!;
    (await env.nibble.open({ ...env.options, adapter: once })).destroy();
    says(await failureOf(env, env.nibble.open({ ...env.options, adapter: once })), "gpu", "could not be opened");
  },

  device_that_was_lost_at_birth_says_so: async (env) => {
    const lost = Promise.resolve({ reason: "unknown", message: "the driver is\nbeing updated" } as GPUDeviceLostInfo);
    const real = (await (env.options.gpu ?? navigator.gpu).requestAdapter())!;
    const requestDevice = async (wanted?: GPUDeviceDescriptor): Promise<GPUDevice> => {
      const handle = await real.requestDevice(wanted);
      Object.defineProperty(handle, "lost", { value: lost });
      return handle;
    };
    const { limits, features, info } = real;
    const adapter = { limits, features, info, requestDevice } as GPUAdapter;
    const device = await env.nibble.open({ ...env.options, adapter });
    const error = await failureOf(env, env.nibble.load(new Uint8Array(8), { device, cache: false }));
    says(error, "device_lost", "is lost: the driver is being updated");
    device.destroy();
    await onDevice(env, async (other) =>
      isGood(env, await runIds(env, address(env, "q4_dynamic_length"), { device: other })),
    );
  },

  fault_that_nobody_read_is_not_told_of_the_next_call: async (env) => {
    const gpu = new FaultyGpu({ site: "mapAsync", way: "rejects", at: 2 });
    const device = await gpu.open(env);
    const model = await env.nibble.load(address(env, "q4_computed_ids"), { device, cache: false });
    const wanted = String((await model.run([[1, 2]])).output0!.data);
    says(await failureOf(env, model.run([[1, 1 << 20]])), "gpu", "running the program failed");
    same(String((await model.run([[1, 2]])).output0!.data), wanted, "what the next call gives");
    says(await failureOf(env, model.run([[1, 1 << 20]])), "out_of_range", "[0, 1] is");
    device.destroy();
  },

  sources_that_lie_are_refused: (env) =>
    onDevice(env, async (device) => {
      const bytes = await bytesOf(env, "q4_dynamic_length");
      const source = (more: object): Nibble.Source => ({
        name: "mine",
        size: bytes.byteLength,
        parallel: 1,
        async *read(offset, count) {
          yield new Uint8Array(bytes.slice(offset, offset + count));
        },
        ...more,
      });
      await isGood(env, await runIds(env, source({}), { device }));
      const refused = async (code: Nibble.ErrorCode, part: string, more: object): Promise<void> =>
        says(await failureOf(env, env.nibble.load(source(more), { device, cache: false })), code, part);
      for (const parallel of [0, -1, NaN, 1.5, "4", undefined]) {
        await refused("invalid_argument", `from 1 on, not ${parallel}`, { parallel });
      }
      for (const size of [NaN, -1, 1.5, 2 ** 60, "8"]) {
        await refused("invalid_argument", `a number of bytes, not ${size}`, { size });
      }
      const gives = (piece: unknown): object => ({
        async *read() {
          yield piece as Uint8Array;
        },
      });
      await refused("invalid_argument", "mine gave 70000 bytes, but was asked for", gives(new Uint8Array(70000)));
      for (const piece of [undefined, "text", new ArrayBuffer(8), [1, 2]]) {
        await refused("invalid_argument", "mine gave a piece that is no Uint8Array", gives(piece));
      }
      await refused("io", "mine ended after", {
        async *read(offset: number, count: number) {
          yield new Uint8Array(bytes.slice(offset, offset + Math.min(count, 1000)));
        },
      });
      const gone = bytes.slice(0);
      structuredClone(gone, { transfer: [gone] });
      const loading = env.nibble.load(gone, { device, cache: false });
      says(await failureOf(env, loading), "invalid_argument", "the bytes of the program cannot be read");
    }),

  arrays_without_memory_and_odd_lists_are_told: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_dynamic_length"), { device, cache: false, inputs: ["ids"] });
      const told = async (inputs: unknown, ...parts: string[]): Promise<void> =>
        says(await failureOf(env, model.run(inputs as Nibble.Inputs)), "invalid_argument", ...parts);
      const gone = new BigInt64Array(3);
      structuredClone(gone.buffer, { transfer: [gone.buffer] });
      await told([gone], "input ids is an array whose memory is gone");
      const Resizable = ArrayBuffer as unknown as new (bytes: number, options: object) => ArrayBuffer;
      const buffer = new Resizable(64, { maxByteLength: 64 }) as ArrayBuffer & { resize?(bytes: number): void };
      if (buffer.resize) {
        const shrinks = new BigInt64Array(buffer, 8, 3);
        buffer.resize(16);
        await told([shrinks], "input ids is an array whose memory is gone");
      }
      await told([,], "input ids is neither a typed array");
      const many: unknown[] = [];
      many.length = 2 ** 32 - 1;
      await told(many, "4294967295 inputs are given, but the program takes 1");
      await told([], "0 inputs are given, but the program takes 1");
      const long: number[] = [];
      long.length = 2 ** 31;
      await told([{ data: [1], shape: long }], "input ids has 2147483648 dimensions, but the most is 8");
      await told([{ data: [1], shape: [1, ,] as number[] }], "has shape [1, undefined], but sizes are whole numbers");
      const mute = Object.create(null) as object;
      await told([[1, mute]], "input ids[0, 1] is an object that cannot be written, but the program takes numbers");
      await told([{ data: [1], shape: [1, mute] }], "cannot be written], but sizes are whole numbers");
      await told([["x".repeat(1 << 20)]], `input ids[0, 0] is ${"x".repeat(100)}, but`);
      const throws = {
        get ids(): never {
          throw mute;
        },
      };
      await told(throws, "the inputs cannot be read: an object that cannot be written");
      await told(
        {
          ids: {
            get data(): never {
              throw new Error("no\ndata");
            },
            shape: [1],
          },
        },
        "cannot be read: no data",
      );
      await told(new Proxy([], { get: () => NaN }), "the inputs");
      const shared = new BigInt64Array(new SharedArrayBuffer(16));
      shared.set([1n, 2n]);
      const wanted = String((await model.run([[1, 2]])).output0!.data);
      same(String((await model.run([shared])).output0!.data), wanted, "what shared memory gives");
    }),

  options_of_wrong_types_are_told_before_anything_is_loaded: (env) =>
    onDevice(env, async (device) => {
      const told = async (options: object, part: string): Promise<void> => {
        const loading = env.nibble.load(address(env, "mul"), { device, cache: false, ...options });
        says(await failureOf(env, loading), "invalid_argument", part);
      };
      for (const wrong of ["no", "", 0])
        await told({ onProgress: wrong }, `onProgress must be a function, not ${wrong}`);
      for (const wrong of ["stop", 0, new EventTarget()])
        await told({ signal: wrong }, "signal must be an AbortSignal");
      await told({ inputs: [Object.create(null)] }, "the names of the inputs must be a list of texts");
    }),
};
