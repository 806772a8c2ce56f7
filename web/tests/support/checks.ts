// What the package promises, checked the same way in Node, on a page and in a worker. A check's name says what holds.

import type * as Nibble from "../../src/index.js";
import { failureOf, fetchNpy } from "./cases.js";
import { address, type Check, ids, isGood, must, onDevice, runIds, same, says } from "./check.js";
import { faultChecks } from "./fault_checks.js";
import { loadingChecks } from "./loading_checks.js";
import { sessionChecks } from "./session_checks.js";
import { stateChecks } from "./state_checks.js";
import { stopChecks } from "./stop_checks.js";
import { traceChecks } from "./trace_checks.js";
import { tuneChecks } from "./tune_checks.js";

const callChecks: Record<string, Check> = {
  device_tells_its_name_and_kind: (env) =>
    onDevice(env, async (device) => {
      must(device.name.length > 0, "a device has a name");
      same(device.kind, "cpu", "the kind of SwiftShader");
      must(device.limits.maxStorageBufferBindingSize > 134217728, "the adapter's limits are asked for");
    }),

  no_adapter_is_an_error_of_its_own: async (env) => {
    const gpu = { requestAdapter: async () => null } as unknown as GPU;
    says(await failureOf(env, env.nibble.open({ gpu })), "no_adapter", "no adapter");
  },

  model_tells_its_inputs_and_outputs: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_dynamic_two"), { device, cache: false });
      const { inputs, outputs } = model;
      same(inputs, [{ name: "input0", dtype: "int64", shape: [5, 64], dynamic: true, isInteger: false }], "inputs");
      same(
        outputs.map(({ name, dtype, shape }) => [name, dtype, shape]),
        [["output0", "float32", [5, 64, 64]]],
        "",
      );
      same(model.method, "forward", "the method");
    }),

  inputs_come_by_name_or_in_order_and_in_many_types: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, "q4_dynamic_length");
      const names = { inputs: ["ids"], outputs: ["rows"] };
      const model = await env.nibble.load(from, { device, cache: false, ...names });
      const wanted = await fetchNpy(`${env.base}/files/programs/q4_dynamic_length/torch0_0.npy`);
      const given = await fetchNpy(`${env.base}/files/programs/q4_dynamic_length/in0_0.npy`);
      const numbers = Array.from(given.data as BigInt64Array, Number);
      const ways: Nibble.Inputs[] = [
        { ids: given.data as BigInt64Array },
        { ids: { data: given.data as BigInt64Array, shape: [1, 5] } },
        { ids: numbers },
        { ids: numbers.map(BigInt) },
        [Int32Array.from(numbers)],
        [{ data: numbers, shape: [1, 5] }],
      ];
      for (const way of ways) {
        const { rows } = await model.run(way);
        same(rows!.shape, [1, 5, 96], "the shape");
        same(Array.from(rows!.data as Float32Array), Array.from(wanted.data as Float32Array), "the rows");
      }
    }),

  wrong_names_are_told: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, "forced_half");
      const model = await env.nibble.load(from, { device, cache: false, inputs: ["a", "b"] });
      const a = { data: new Float32Array(15), shape: [3, 5] };
      says(await failureOf(env, model.run({ a })), "invalid_argument", "input b is not given", "takes a, b");
      const more = model.run({ a, b: new Float32Array(5), c: a });
      says(await failureOf(env, more), "invalid_argument", "no input c", "takes a, b");
      says(await failureOf(env, model.run({ a, b: new Int32Array(5) })), "invalid_argument", "input b is int32");
      const names = env.nibble.load(from, { device, cache: false, inputs: ["a"] });
      says(await failureOf(env, names), "invalid_argument", "1 name is given for the inputs", "has 2");
      const twice = env.nibble.load(from, { device, cache: false, inputs: ["a", "a"] });
      says(await failureOf(env, twice), "invalid_argument", "two inputs are named a");
    }),

  plain_numbers_are_checked: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_computed_ids"), { device, cache: false });
      says(await failureOf(env, model.run([[1, 2.5]])), "invalid_argument", "input 0[0, 1] is 2.5", "integers");
      says(await failureOf(env, model.run([[2 ** 40]])), "out_of_range", "input 0[0, 0] is 1099511627776");
      says(await failureOf(env, model.run([[1, NaN]])), "invalid_argument", "input 0[0, 1] is NaN");
      same((await model.run([[1, 2]])).output0!.shape, [1, 2, 64], "the shape after errors");
      const two = await env.nibble.load(address(env, "q4_dynamic_two"), { device, cache: false });
      says(
        await failureOf(env, two.run([[1, 2]])),
        "invalid_argument",
        "input 0 has 2 elements, but no shape",
        "at most [5, 64]",
      );
    }),

  values_that_are_no_inputs_are_told: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_dynamic_length"), { device, cache: false, inputs: ["ids"] });
      const told = async (input: unknown): Promise<string> =>
        (await failureOf(env, model.run([input as Nibble.Input]))).message;
      for (const nothing of [null, undefined, "ids", {}, { data: [1, 2] }, { data: "1", shape: [1] }]) {
        same(
          await told(nothing),
          "input ids is neither a typed array, nor a list of numbers, nor { data, shape }",
          "it",
        );
      }
      same(
        await told({ data: [1, 2], shape: [1, 1.5] }),
        "input ids has shape [1, 1.5], but sizes are whole numbers",
        "",
      );
      same(await told({ data: [1], shape: Array(9).fill(1) }), "input ids has 9 dimensions, but the most is 8", "");
      same(await told(new Uint32Array(2)), "input ids is uint32, but the program takes int32 or int64", "");
      same(
        await told(new DataView(new ArrayBuffer(8))),
        "input ids is dataview, but the program takes int32 or int64",
        "",
      );
      same(await told(1.5), "input ids is a number, but the program takes a tensor of shape [1, 64]", "");
      same(
        await told({ data: [1, 2, 3], shape: [1, 2] }),
        "input ids has shape [1, 2] and takes 2 elements, but 3 are given",
        "",
      );
      same(
        await told({ data: [1], shape: [1, -1] }),
        "input ids has shape [1, -1], but the program takes at most [1, 64]",
        "",
      );
      same(await told([1, "2"]), "input ids[0, 1] is 2, but the program takes numbers", "");
      same((await model.run([[1, 2]])).output0!.shape, [1, 2, 96], "the shape after errors");
    }),

  integers_come_as_int64: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "sym_results"), { device, cache: false });
      const out = await model.run([{ data: new Float32Array(24), shape: [2, 3, 4] }]);
      same(
        [out.output1, out.output2, out.output3].map((one) => one!.data[0]),
        [4n, 4n, 2n],
        "the integers",
      );
    }),

  calls_are_made_in_order: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "state_counts"), { device, cache: false });
      const calls = Array.from({ length: 5 }, () => model.run([new Int32Array(4)]));
      const values = (await Promise.all(calls)).map((out) => (out.output0!.data as Int32Array)[0]);
      same(values, [1, 2, 3, 4, 5], "a counter in the program");
    }),

  models_do_not_disturb_each_other: (env) =>
    onDevice(env, async (device) => {
      const names = ["q4_dynamic_length", "q4_mean", "embedding_dynamic"];
      const loading = names.map((name) => env.nibble.load(address(env, name), { device, cache: false }));
      const models = await Promise.all(loading);
      const few = new BigInt64Array([1n, 2n]);
      const alone: string[] = [];
      for (const model of models) alone.push(String((await model.run([few])).output0!.data));
      const calls = [0, 1, 2, 0, 1, 2].map((i) => models[i]!.run([few]));
      const together = (await Promise.all(calls)).map((out) => String(out.output0!.data));
      same(together, [...alone, ...alone], "what they give together");
    }),

  disposed_model_says_so: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      const running = failureOf(env, model.run([ids]));
      model.dispose();
      says(await running, "invalid_argument", "the model is disposed: load it again");
      says(await failureOf(env, model.run([ids])), "invalid_argument", "the model is disposed");
      model.dispose();
      await isGood(env, await runIds(env, address(env, "q4_dynamic_length"), { device }));
    }),

  limits_that_are_too_small_are_told: (env) =>
    onDevice(env, async (device) => {
      const loading = env.nibble.load(address(env, "q4_mean"), { device, cache: false, maxShardBytes: 16 });
      const error = await failureOf(env, loading);
      says(error, "unsupported", "bytes");
    }),

  buffer_that_the_gpu_refuses_is_named: (env) =>
    onDevice(env, async (device) => {
      const { handle } = device;
      const make = handle.createBuffer.bind(handle);
      handle.createBuffer = (wanted) => make(wanted.size === 6000 * 128 ? { ...wanted, size: 2 ** 42 } : wanted);
      const error = await failureOf(env, env.nibble.load(address(env, "q4_mean"), { device, cache: false }));
      must(["gpu", "out_of_memory"].includes(error.code), `the code is ${error.code}`);
      must(error.message.includes("making a constant buffer of 768000 bytes failed"), error.message);
      must(!error.message.includes("\n"), "a message is one line");
      handle.createBuffer = make;
      await isGood(env, await runIds(env, address(env, "q4_dynamic_length"), { device }));
    }),

  kernel_that_does_not_compile_is_named: (env) =>
    onDevice(env, async (device) => {
      const { handle } = device;
      const make = handle.createShaderModule.bind(handle);
      handle.createShaderModule = (wanted) => make({ ...wanted, code: `${wanted.code}\nnonsense` });
      const error = await failureOf(env, env.nibble.load(address(env, "q4_mean"), { device, cache: false }));
      says(error, "gpu", "compiling the kernel", device.name);
      handle.createShaderModule = make;
      const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      same((await model.run([ids])).output0!.shape, [1, 1, 256], "the shape after that");
    }),

  error_that_nobody_waited_for_is_not_lost: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      const told = new Promise((resolve) => device.handle.addEventListener("uncapturederror", resolve));
      device.handle.createBuffer({ size: 16, usage: 0xffff });
      device.handle.queue.submit([]);
      await told;
      says(await failureOf(env, model.run([ids])), "gpu", "the GPU reported an error");
    }),

  lost_device_ends_calls_with_one_error: async (env) => {
    const device = await env.nibble.open(env.options);
    const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
    await model.run([ids]);
    const running = failureOf(env, model.run([ids]));
    await Promise.resolve();
    device.handle.destroy();
    says(await running, "device_lost", "is lost");
    const lost = await device.lost;
    says(lost, "device_lost", device.name);
    must((await failureOf(env, model.run([ids]))) === lost, "later calls fail with the same error");
    const again = env.nibble.load(address(env, "q4_mean"), { device, cache: false });
    must((await failureOf(env, again)) === lost, "later loads fail with the same error");
    await onDevice(env, async (other) =>
      isGood(env, await runIds(env, address(env, "q4_dynamic_length"), { device: other })),
    );
  },
};

export const checks: Record<string, Check> = {
  ...loadingChecks,
  ...callChecks,
  ...sessionChecks,
  ...stateChecks,
  ...faultChecks,
  ...stopChecks,
  ...traceChecks,
  ...tuneChecks,
};
