// Checks of tunings: what is measured here, what is kept, and what comes from elsewhere.

import type * as Nibble from "../../src/index.js";
import { type Environment, failureOf } from "./cases.js";
import { address, type Check, ids, isGood, must, onDevice, reasonOf, same, says } from "./check.js";

const PROGRAM = "q4_dynamic_length";
/** Longer than it takes on any machine. */
const tuneMs = 600_000;

/** What the program gives must be right, whatever variants it takes. */
async function runsWell(env: Environment, model: Nibble.Model): Promise<void> {
  await isGood(env, (await model.run([ids])).output0!);
}

/** Runs with planners whose memory grows in the first calls of each of their functions. */
async function whileMemoryGrows(run: () => Promise<void>): Promise<void> {
  const real = WebAssembly.instantiate;
  const calls = new Map<string, number>();
  const growing = (exports: WebAssembly.Exports): WebAssembly.Exports =>
    Object.fromEntries(
      Object.entries(exports).map(([name, one]) => {
        if (typeof one !== "function") return [name, one];
        const grow = (...values: unknown[]): unknown => {
          const result = (one as (...values: unknown[]) => unknown)(...values);
          const count = (calls.get(name) ?? 0) + 1;
          calls.set(name, count);
          if (count <= 3) (exports.memory as WebAssembly.Memory).grow(1);
          return result;
        };
        return [name, grow];
      }),
    );
  const instantiate = async (module: WebAssembly.Module, imports: WebAssembly.Imports): Promise<object> => ({
    exports: growing((await real(module, imports)).exports),
  });
  WebAssembly.instantiate = instantiate as typeof real;
  try {
    await run();
  } finally {
    WebAssembly.instantiate = real;
  }
  for (const name of ["nibble_tuning_cases", "nibble_tuning_next", "nibble_tuning_rows"]) {
    must(calls.has(name), `${name} is called`);
  }
}

/** Keeps tunings in memory. */
class Store implements Nibble.TuningStore {
  readonly kept = new Map<string, string>();

  get(key: string): string | undefined {
    return this.kept.get(key);
  }

  put(key: string, tuning: string): void {
    this.kept.set(key, tuning);
  }

  get tunings(): Nibble.DeviceTuning[] {
    return [...this.kept.values()].flatMap((text) => (JSON.parse(text) as { tunings: Nibble.DeviceTuning[] }).tunings);
  }
}

export const tuneChecks: Record<string, Check> = {
  tuning_measures_what_a_program_chooses: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, PROGRAM);
      const seen: number[] = [];
      const onTuning = (done: number, cases: number): void => void (seen.push(done), must(cases >= done, "progress"));
      const { tunings } = await env.nibble.tune(from, { device, cache: false, tuneMs, onTuning });
      const [one] = tunings;
      same(tunings.length, 1, "how many devices there are");
      same([one!.device, one!.engine], [device.name, "web"], "what it was measured on");
      same(one!.refused, [], "what is refused");
      must(one!.cases > 0, "there is something to measure");
      same([one!.measured, one!.ended], [one!.cases, "complete"], "how many cases are measured");
      must(seen.length >= one!.measured, "progress is told");
      const measured = one!.choices.filter(({ times }) => times !== undefined);
      must(measured.length > 0, "there are times");
      for (const { variant, before, times } of measured) {
        must(variant in times! && before! in times!, "a point has the times of its variants");
        for (const time of Object.values(times!)) must(time > 0, "a variant takes time");
      }
      const model = await env.nibble.load(from, { device, cache: false, tuning: { tunings } });
      same(model.notes, [], "notes");
      await runsWell(env, model);
    }),

  what_a_caller_forces_is_not_what_the_table_prefers: (env) =>
    onDevice(env, async (device) => {
      const before = async (variants: Record<string, string>): Promise<string[]> => {
        const from = address(env, PROGRAM);
        const { tunings } = await env.nibble.tune(from, { device, cache: false, tuneMs, variants });
        return tunings[0]!.choices.flatMap(({ choice, before }) => (before ? [`${choice}=${before}`] : [])).sort();
      };
      const usual = await before({});
      must(usual.length > 0, "there is something to measure");
      same(await before({ embedding_q4gsw: "word" }), usual, "what the table prefers");
      same(await before({ embedding_q4gsw: "any" }), usual, "what the table prefers");
    }),

  tuning_reads_records_where_the_memory_grows: (env) =>
    onDevice(env, async (device) => {
      const options = { device, cache: false, tune: true, tuneMs, tunings: new Store() };
      await whileMemoryGrows(async () => runsWell(env, await env.nibble.load(address(env, PROGRAM), options)));
      same(options.tunings.tunings[0]!.refused, [], "what is refused");
      same(options.tunings.tunings[0]!.ended, "complete", "why it ended");
    }),

  search_for_what_there_is_to_measure_ends_in_time: (env) =>
    onDevice(env, async (device) => {
      // Whoever asks for the time is told of a second more.
      let seconds = 0;
      performance.now = () => 1000 * ++seconds;
      try {
        const { tunings } = await env.nibble.tune(address(env, PROGRAM), { device, cache: false, tuneMs: 2000 });
        same([tunings[0]!.cases, tunings[0]!.ended], [0, "out of time"], "what was found");
      } finally {
        Reflect.deleteProperty(performance, "now");
      }
    }),

  variant_that_does_not_compile_is_refused_alone: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, PROGRAM);
      const { handle } = device;
      const make = handle.createShaderModule.bind(handle);
      const own = new Set<string>();
      handle.createShaderModule = (wanted) => (own.add(wanted.code), make(wanted));
      await env.nibble.load(from, { device, cache: false });
      // The first kernel that is not what the program takes by itself.
      let broken: string | undefined;
      handle.createShaderModule = (wanted) => {
        if (!own.has(wanted.code)) broken ??= wanted.code;
        return make(wanted.code === broken ? { ...wanted, code: "nonsense" } : wanted);
      };
      const [one] = (await env.nibble.tune(from, { device, cache: false, tuneMs })).tunings;
      same(one!.refused.length, 1, "how many are refused");
      must(/: \w+=\w+: compiling the kernel \w+ failed/.test(one!.refused[0]!), one!.refused[0]!);
      same([one!.measured, one!.ended], [one!.cases, "complete"], "how many cases are measured");
      const refused = /(\w+)=(\w+): /.exec(one!.refused[0]!)!;
      const times = one!.choices.filter(({ choice, times }) => choice === refused[1] && times);
      must(times.length > 0, "the others of its choice are measured");
      must(!times.some((point) => refused[2]! in point.times!), "and it is not");
    }),

  tuned_load_keeps_what_it_measured: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, PROGRAM);
      const tunings = new Store();
      const options = { device, cache: false, tune: true, tuneMs, tunings };
      await runsWell(env, await env.nibble.load(from, options));
      same(tunings.tunings.length, 1, "how many tunings are kept");
      const [text] = tunings.kept.values();
      let measured = 0;
      const onTuning = (): void => void ++measured;
      await runsWell(env, await env.nibble.load(from, { ...options, onTuning }));
      same(measured, 0, "cases that are measured again");
      same([...tunings.kept.values()], [text], "what is kept");
      // What is kept for another device, or was damaged, is measured again.
      const [key] = tunings.kept.keys();
      tunings.put(key!, JSON.stringify({ tunings: [{ ...tunings.tunings[0], device: "another" }] }));
      await env.nibble.load(from, { ...options, onTuning });
      must(measured > 0, "another device's is of no use");
      same(tunings.tunings.map(({ device }) => device).sort(), ["another", device.name].sort(), "the devices");
      tunings.put(key!, "{");
      await env.nibble.load(from, options);
      same(tunings.tunings.length, 1, "how many tunings are kept in the place of a damaged one");
    }),

  tuning_that_is_stopped_keeps_what_it_has: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, PROGRAM);
      const stop = new AbortController();
      const onTuning = (done: number): void => void (done === 1 && stop.abort());
      const options = { device, cache: false, tuneMs, signal: stop.signal, onTuning };
      const { tunings } = await env.nibble.tune(from, options);
      same(tunings[0]!.measured, 1, "how many cases are measured");
      same(tunings[0]!.ended, "stopped", "why it ended");
      must(tunings[0]!.cases > 1, "there were more");
      must(tunings[0]!.choices.length > 0, "what was measured is told");
      const again = new AbortController();
      const store = new Store();
      const loading = env.nibble.load(from, {
        ...options,
        signal: again.signal,
        tune: true,
        tunings: store,
        onTuning: () => again.abort("enough"),
      });
      same(await reasonOf(loading), "enough", "the reason of a load that is stopped");
      same(store.tunings[0]!.measured, 1, "what it keeps");
      await env.nibble.load(from, { device, cache: false, tuneMs, tune: true, tunings: store });
      same(store.tunings[0]!.measured, store.tunings[0]!.cases, "what the next load measures");
      const gone = failureOf(env, env.nibble.tune(from, { ...options, device: undefined as unknown as Nibble.Device }));
      says(await gone, "invalid_argument", "tune() needs a device");
    }),

  tuning_that_is_stopped_again_keeps_what_the_first_had: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, PROGRAM);
      const store = new Store();
      const stopped = async (more: Nibble.Options = {}): Promise<void> => {
        const stop = new AbortController();
        const options = { device, cache: false, tune: true, tuneMs, tunings: store, signal: stop.signal };
        await reasonOf(env.nibble.load(from, { ...options, ...more, onTuning: () => stop.abort() }));
      };
      await stopped();
      const [key] = store.kept.keys();
      const [first] = store.tunings;
      // As if another case had been measured, and the first with another result.
      const [point] = first!.choices.filter(({ times }) => times);
      const elsewhere = { ...point!, rows: [77, 77] as const, times: { [point!.variant]: 1 } };
      const older = { ...first!, choices: [elsewhere, { ...point!, times: {} }], refused: ["a sentence"] };
      const other = { ...older, driver: "another" };
      const old = { ...older, driver: first!.driver, nibble: "0.0.1" };
      store.put(key!, JSON.stringify({ tunings: [other, old, older] }));
      await stopped();
      same([...store.kept.keys()], [key], "what tunings are kept by");
      same(store.tunings.length, 2, "how many are kept: that of another version goes");
      same(store.tunings[0], other, "that of another driver");
      const joined = store.tunings[1]!;
      const rows = joined.choices.map(({ rows }) => rows![0]);
      same(rows.filter((one) => one === 77).length, 1, "how often there is the point that was not measured again");
      const again = joined.choices.filter(({ rows, times }) => rows![0] === point!.rows![0] && times);
      same(again.length, first!.choices.filter(({ times }) => times).length, "how often there is the one that was");
      must(Object.keys(again[0]!.times!).length > 0, "its new times count");
      same([joined.ended, joined.refused], ["stopped", ["a sentence"]], "the rest of it");
      // Other options make other kernels.
      await stopped({ f16Products: true });
      same(store.kept.size, 2, "how many programs with options there are");
    }),

  tuning_of_another_driver_is_not_this_device_s: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, PROGRAM);
      const store = new Store();
      const options = { device, cache: false, tune: true, tuneMs, tunings: store };
      await env.nibble.load(from, options);
      const [key] = store.kept.keys();
      const [own] = store.tunings;
      const other = { ...own!, driver: "another", ended: "stopped" };
      store.put(key!, JSON.stringify({ tunings: [other, own] }));
      let measured = 0;
      await env.nibble.load(from, { ...options, onTuning: () => void ++measured });
      same(measured, 0, "cases that are measured again, because another driver's was stopped");
    }),

  stop_is_heard_while_a_variant_is_tried: (env) =>
    onDevice(env, async (device) => {
      const stop = new AbortController();
      const { handle } = device;
      const [bind, submit] = [handle.createBindGroup.bind(handle), handle.queue.submit.bind(handle.queue)];
      let bound = 0;
      let submitted = 0;
      // The second variant is bound before it is first submitted.
      handle.createBindGroup = (wanted) => {
        if (++bound === 2) stop.abort();
        return bind(wanted);
      };
      handle.queue.submit = (commands) => {
        if (stop.signal.aborted) ++submitted;
        return submit(commands);
      };
      const options = { device, cache: false, tuneMs, signal: stop.signal };
      const [one] = (await env.nibble.tune(address(env, PROGRAM), options)).tunings;
      same([one!.measured, one!.ended, one!.refused], [0, "stopped", []], "what is told");
      same(submitted, 1, "how often it is submitted");
    }),

  device_without_timestamps_is_tuned_by_the_clock: async (env) => {
    const device = await env.nibble.open({ ...env.options, adapter: await plainAdapter(env) });
    try {
      must(!device.features.has("timestamp-query"), "it has none");
      const stop = new AbortController();
      const options = { device, cache: false, tuneMs, signal: stop.signal, onTuning: () => stop.abort() };
      const { tunings } = await env.nibble.tune(address(env, PROGRAM), options);
      same(tunings[0]!.measured, 1, "how many cases are measured");
    } finally {
      device.destroy();
    }
  },

  tuning_of_another_device_is_ignored_with_a_word: (env) =>
    onDevice(env, async (device) => {
      const from = address(env, PROGRAM);
      const choices = [{ choice: "embedding_q4gsw", variant: "any" }];
      const told = console.warn;
      const words: unknown[] = [];
      console.warn = (word) => words.push(word);
      try {
        const other = { device: "another", driver: "", engine: "dawn", nibble: "0.0.1", choices };
        const rest = { milliseconds: 1, cases: 1, measured: 1, ended: "complete" as const, refused: [] };
        const tunings = [{ ...other, ...rest }];
        const model = await env.nibble.load(from, { device, cache: false, tuning: { tunings } });
        same(model.notes.length, 1, "how much there is to say");
        must(
          model.notes[0]!.startsWith("the tuning is ignored: it is for another (any driver, dawn) and Nibble 0.0.1"),
          model.notes[0]!,
        );
        same(words, [`nibble: ${model.notes[0]}`], "what the console is told");
        await runsWell(env, model);
        const { driver: _, ...less } = other;
        const wrong = { tunings: [less] } as unknown as Nibble.Tuning;
        const error = await failureOf(env, env.nibble.load(from, { device, cache: false, tuning: wrong }));
        says(error, "invalid_argument", "a tuning does not say for which driver it is");
        const unread = { tunings: [{ ...other, choices: 3 }] } as unknown as Nibble.Tuning;
        const loaded = await env.nibble.load(from, { device, cache: false, tuning: unread });
        same(loaded.notes, model.notes, "what is said of a version that may have other fields");
        const bad = { tunings: [{ ...other, nibble: "", choices: 3 }] } as unknown as Nibble.Tuning;
        const none = await failureOf(env, env.nibble.load(from, { device, cache: false, tuning: bad }));
        says(none, "invalid_argument", "the tuning has no list of choices");
      } finally {
        console.warn = told;
      }
    }),
};

/** The adapter as it would be without timestamps. */
export async function plainAdapter(env: Environment): Promise<GPUAdapter> {
  const adapter = (await (env.options.gpu ?? navigator.gpu).requestAdapter())!;
  const features = new Set([...adapter.features].filter((name) => name !== "timestamp-query"));
  return new Proxy(adapter, {
    get: (from, name) => {
      if (name === "features") return features;
      const value = Reflect.get(from, name) as unknown;
      return typeof value === "function" ? (value as () => void).bind(from) : value;
    },
  });
}
