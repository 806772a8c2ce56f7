// What holds of loading, wherever that is done.

import type * as Nibble from "../../src/index.js";
import { failureOf } from "./cases.js";
import { address, bytesOf, type Check, ids, isGood, must, onDevice, reasonOf, runIds, same, says } from "./check.js";

export const loadingChecks: Record<string, Check> = {
  program_comes_from_bytes_a_blob_or_a_source: (env) =>
    onDevice(env, async (device) => {
      const bytes = await bytesOf(env, "q4_dynamic_length");
      let closed = 0;
      const source: Nibble.Source = {
        name: "mine",
        size: bytes.byteLength,
        parallel: 3,
        async *read(offset, count) {
          // Odd pieces: nothing may depend on their size.
          const end = Math.min(offset + count, bytes.byteLength);
          for (let at = offset; at < end; at += 1013) yield new Uint8Array(bytes, at, Math.min(1013, end - at));
        },
        close: () => void ++closed,
      };
      const shifted = new Uint8Array(bytes.byteLength + 1);
      shifted.set(new Uint8Array(bytes), 1);
      for (const from of [bytes, new Blob([bytes]), shifted.subarray(1), source]) {
        await isGood(env, await runIds(env, from, { device, verify: true }));
      }
      same(closed, 1, "how often the source was closed");
    }),

  servers_of_all_kinds_will_do: (env) =>
    onDevice(env, async (device) => {
      for (const kind of ["files", "untold", "whole", "unsized"]) {
        await isGood(env, await runIds(env, address(env, "q4_dynamic_length", kind), { device }));
      }
      // Large enough for several requests, and for a pass that outgrows the first answer.
      for (const kind of ["files", "whole"]) {
        const model = await env.nibble.load(address(env, "q4_mean", kind), { device, cache: false, verify: true });
        same((await model.run([ids])).output0!.shape, [1, 1, 256], "the shape");
      }
    }),

  what_is_no_program_is_refused: (env) =>
    onDevice(env, async (device) => {
      const load = (from: Nibble.ProgramSource): Promise<Nibble.Model> =>
        env.nibble.load(from, { device, cache: false });
      says(await failureOf(env, load(`${env.base}/files/nowhere.pte`)), "io", "nowhere.pte", "404");
      says(await failureOf(env, load("http://localhost:1/x.pte")), "io", "localhost:1");
      says(await failureOf(env, load(new Uint8Array(0))), "invalid_program");
      says(await failureOf(env, load(new Uint8Array(4096))), "invalid_program");
      says(await failureOf(env, load(`${env.base}/files/cases/index.json`)), "invalid_program");
      says(await failureOf(env, load(3 as unknown as string)), "invalid_argument", "an address, a Blob, bytes");
      const nothing = env.nibble.load(new Uint8Array(0), {} as Nibble.LoadOptions);
      says(await failureOf(env, nothing), "invalid_argument", "needs a device");
      const none = env.nibble.load(new Uint8Array(0), null as unknown as Nibble.LoadOptions);
      says(await failureOf(env, none), "invalid_argument", "needs a device");
      const wasm = env.nibble.load(address(env, "mul"), { device, cache: false, wasm: new Uint8Array([1, 2, 3]) });
      says(await failureOf(env, wasm), "io", "the planner given as bytes could not be loaded");
      const named = (inputs: unknown): Promise<Nibble.Model> =>
        env.nibble.load(address(env, "mul"), { device, cache: false, inputs: inputs as string[] });
      for (const names of ["ab", [1, {}], 3]) {
        says(await failureOf(env, named(names)), "invalid_argument", "the names of the inputs must be a list of texts");
      }
      const method = env.nibble.load(address(env, "mul"), { device, cache: false, method: "backward" });
      says(await failureOf(env, method), "invalid_argument", "backward");
    }),

  options_reach_the_planner: (env) =>
    onDevice(env, async (device) => {
      const load = (options: Nibble.Options): Promise<Nibble.Model> =>
        env.nibble.load(address(env, "q4_mean"), { device, cache: false, ...options });
      const failure = async (options: Nibble.Options): Promise<Nibble.NibbleError> => failureOf(env, load(options));
      const variants = { product: "tile", attention: "" };
      const choice = { choice: "product", variant: "tile" };
      // Unknown names are told with those that there are.
      const passes = ["no pass 'gate_down'", "views", "gate_up"];
      says(await failure({ withoutPasses: ["gate_down"] }), "invalid_argument", ...passes);
      says(await failure({ variants: { produce: "tile" } }), "invalid_argument", "no choice 'produce'", "product");
      says(await failure({ variants: { product: "tiles" } }), "invalid_argument", "no variant 'tiles'", "tile, flat");
      const unknown = { choices: [{ ...choice, variant: "brick" }] };
      says(await failure({ tuning: unknown }), "invalid_argument", "no variant 'brick'", "tile, flat");
      says(await failure({ variants }), "invalid_argument", "the choice 'attention' has no variant ''", "row, rows, ");
      const tuning = { choices: [choice, { ...choice, rows: [7, 6] as [number, number] }] };
      says(await failure({ tuning }), "invalid_argument", "choices[1] of the tuning is for rows from 7 to 6");
      says(await failure({ maxShardBytes: -1 }), "invalid_argument", "maxShardBytes must be");
      const model = await load({ withoutPasses: ["views"] });
      same((await model.run([ids])).output0!.shape, [1, 1, 256], "the shape");
      model.dispose();
    }),

  broken_tuning_is_told_by_row_and_field: (env) =>
    onDevice(env, async (device) => {
      const refused = async (tuning: unknown, sentence: string): Promise<void> => {
        const options = { device, cache: false, tuning: tuning as Nibble.Tuning };
        const { code, message } = await failureOf(env, env.nibble.load(address(env, "mul"), options));
        same([code, message], ["invalid_argument", sentence], "the error");
      };
      const good = { choice: "product", variant: "tile" };
      const says = (row: unknown, sentence: string): Promise<void> => refused({ choices: [good, row] }, sentence);
      await refused({}, "the tuning has no list of choices");
      await refused({ choices: { 0: good } }, "the tuning has no list of choices");
      for (const row of [7, null, [good]]) await says(row, "choices[1] of the tuning is not an object");
      await refused({ choices: Array(1) }, "choices[0] of the tuning is not an object");
      await says({ variant: "b" }, "choices[1] of the tuning has no choice");
      await says({ choice: "a", variant: undefined }, "choices[1] of the tuning has no variant");
      await says({ choice: 3, variant: "b" }, "choices[1].choice of the tuning is not a text");
      for (const width of [5, "5", [], [1], [1, 2, 3], [-1, 2], [1, 2.5], [1, "2"], [1, 2n], [1, NaN], null]) {
        await says({ ...good, width }, "choices[1].width of the tuning is not two whole numbers from 0 on");
      }
      const fields = "the fields are choice, variant, rows, width, depth and traits";
      await says({ ...good, row: [1, 2] }, `choices[1] of the tuning has the unknown field 'row'; ${fields}`);
      const tuning = {
        device: "any",
        choices: [good, { ...good, rows: undefined, width: [0, 4096] }],
      } as Nibble.Tuning;
      (await env.nibble.load(address(env, "mul"), { device, cache: false, tuning })).dispose();
    }),

  all_kernel_variants_compute_the_same: (env) =>
    onDevice(env, async (device) => {
      const run = async (options: Nibble.Options): Promise<Float32Array> => {
        const from = address(env, "linear_q4_many_rows");
        const model = await env.nibble.load(from, { device, cache: false, ...options });
        const { shape } = model.inputs[0]!;
        const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => ((i % 17) - 8) / 8);
        const { output0 } = await model.run([{ data, shape }]);
        model.dispose();
        return output0!.data as Float32Array;
      };
      const wanted = await run({});
      const tuning = { choices: [{ choice: "product", variant: "row", rows: [0, 4096] as [number, number] }] };
      for (const options of [{ variants: { product: "tile" } }, { variants: { product: "flat" } }, { tuning }]) {
        const worst = (await run(options)).reduce((most, x, i) => Math.max(most, Math.abs(x - wanted[i]!)), 0);
        must(worst < 1e-3, `with ${JSON.stringify(options)}, results differ by ${worst}`);
      }
    }),

  planner_must_be_the_right_one: (env) =>
    onDevice(env, async (device) => {
      const load = (wasm: Nibble.WasmSource): Promise<Nibble.Model> =>
        env.nibble.load(address(env, "mul"), { device, cache: false, wasm });
      const empty = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
      says(await failureOf(env, load(empty)), "invalid_argument", "not Nibble's planner");
      says(await failureOf(env, load(`${env.base}/files/dist/none.wasm`)), "io", "none.wasm", "404");
      const model = await load(`${env.base}/files/dist/nibble.wasm`);
      model.dispose();
    }),

  truncated_file_is_told: (env) =>
    onDevice(env, async (device) => {
      for (const cut of [7, 100, 3000, 70000, 200000, 900000]) {
        for (const from of [address(env, "q4_mean", `short-${cut}`), (await bytesOf(env, "q4_mean")).slice(0, cut)]) {
          const error = await failureOf(env, env.nibble.load(from, { device, cache: false }));
          must(["io", "invalid_program"].includes(error.code), `${error.code} (${error.message}) at ${cut}`);
          must(/truncated|bytes/.test(error.message), `"${error.message}" tells what is missing`);
        }
      }
    }),

  dropped_connection_is_told: (env) =>
    onDevice(env, async (device) => {
      for (const after of [1024, 300000]) {
        const from = address(env, "q4_mean", `dropped-${after}`);
        says(await failureOf(env, env.nibble.load(from, { device, cache: false })), "io", "model.pte");
      }
    }),

  changed_file_is_told: (env) =>
    onDevice(env, async (device) => {
      const fresh = `?${Math.random()}`;
      const changed = env.nibble.load(address(env, "q4_mean", "changing-1") + fresh, { device, cache: false });
      says(await failureOf(env, changed), "io", "changed while it was being read");
      // The same name for other bytes: the file's own keys find it.
      const other = address(env, "q4_mean", "altered-1") + fresh;
      const altered = env.nibble.load(other, { device, cache: false, verify: true });
      says(await failureOf(env, altered), "invalid_program", "sha256", "damaged");
    }),

  load_can_be_aborted_at_any_time: (env) =>
    onDevice(env, async (device) => {
      const reason = new Error("enough");
      const abortAt = async (bytes: number): Promise<void> => {
        const stop = new AbortController();
        if (bytes < 0) stop.abort(reason);
        const loading = env.nibble.load(address(env, "q4_mean", "slow"), {
          device,
          cache: false,
          signal: stop.signal,
          onProgress: ({ loaded }) => {
            if (loaded >= bytes) stop.abort(reason);
          },
        });
        const caught: unknown = await loading.then(
          () => undefined,
          (error: unknown) => error,
        );
        must(caught === reason, `an aborted load rejects with the signal's reason, not ${String(caught)}`);
      };
      for (const bytes of [-1, 0, 1, 100000]) await abortAt(bytes);
      const stop = new AbortController();
      const loading = reasonOf(
        env.nibble.load(address(env, "q4_mean", "slow"), { device, cache: false, signal: stop.signal }),
      );
      setTimeout(() => stop.abort(reason), 5);
      must((await loading) === reason, "a load can be aborted before its program is read");
      await isGood(env, await runIds(env, address(env, "q4_dynamic_length"), { device }));
    }),

  progress_goes_from_nothing_to_all: (env) =>
    onDevice(env, async (device) => {
      const seen: Nibble.Progress[] = [];
      const onProgress = (progress: Nibble.Progress): void => void seen.push(progress);
      await env.nibble.load(address(env, "q4_mean"), { device, cache: false, onProgress });
      same(seen[0]!.loaded, 0, "the first progress");
      same(seen.at(-1)!.loaded, seen.at(-1)!.total, "the last progress");
      must(seen.at(-1)!.total >= (6000 * 256) / 2 + 6000 * 8 * 4, "all weights are counted");
      must(
        seen.every(({ loaded }, i) => i === 0 || loaded >= seen[i - 1]!.loaded),
        "progress only grows",
      );
    }),

  device_lost_while_loading_is_told: async (env) => {
    const device = await env.nibble.open(env.options);
    const loading = env.nibble.load(address(env, "q4_mean", "slow"), {
      device,
      cache: false,
      onProgress: ({ loaded }) => {
        if (loaded > 50000) device.destroy();
      },
    });
    says(await failureOf(env, loading), "device_lost", "is lost");
  },

  heap_stays_small_whatever_the_weights: (env) =>
    onDevice(env, async (device) => {
      let peak = 0;
      let total = 0;
      const onProgress = (progress: Nibble.Progress): void => {
        peak = Math.max(peak, progress.heapBytes);
        total = progress.total;
      };
      const model = await env.nibble.load(address(env, "q4_llama_group_32"), { device, cache: false, onProgress });
      const { output0 } = await model.run([new BigInt64Array([128255n])]);
      same(output0!.shape, [1, 1, 2048], "the shape");
      peak = Math.max(peak, model.heapBytes);
      must(total >= (128256 * 2048) / 2, `${total} bytes of weights are a table of 131 MB`);
      must(peak < 16e6, `the planner's memory, ${peak} bytes at its peak, is below 16 MB`);
      model.dispose();
    }),
};
