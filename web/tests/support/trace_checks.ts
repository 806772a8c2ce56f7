// Checks of traces.

import type * as Nibble from "../../src/index.js";
import { address, type Check, ids, must, onDevice, onKeptDevice, same } from "./check.js";
import { plainAdapter } from "./tune_checks.js";

/** Browsers tell times of the GPU, and some their own, in steps of 0.1 ms. */
const STEP = 200;

const named = (events: readonly Nibble.TraceEvent[], name: string): Nibble.TraceEvent[] =>
  events.filter((event) => event.name === name);

const endOf = ({ start, duration }: Nibble.TraceEvent): number => start + duration;

export const traceChecks: Record<string, Check> = {
  trace_has_the_phases_of_loads_and_calls_and_every_dispatch: (env) =>
    onDevice(env, async (device) => {
      const events: Nibble.TraceEvent[] = [];
      device.trace = events;
      must(device.trace === events, "the list is the device's");
      const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      for (const name of ["read", "plan", "make session", "compile", "upload"])
        same(named(events, name).length, 1, `phases ${name}`);
      events.length = 0;
      const { output0 } = await model.run([ids]);
      for (const name of ["check inputs", "plan", "bind", "upload inputs", "encode", "submit", "wait", "read back"]) {
        same(named(events, name).length, 1, `phases ${name}`);
      }
      const gpu = events.filter(({ thread }) => thread === 0);
      must(gpu.length >= 2, "an embedding and a mean take two dispatches");
      same(
        [...new Set(gpu.map(({ name }) => name))],
        ["et_vk.embedding_q4gsw.default", "aten.mean.dim"],
        "the operators, in their order",
      );
      const [submit] = named(events, "submit");
      const [wait] = named(events, "wait");
      for (const event of gpu) {
        must(event.kernel!.length > 0 && event.node! >= 0, "a dispatch has a kernel and a node");
        must(event.duration >= 0, "a dispatch takes time");
        must(event.start >= submit!.start, "no dispatch begins before it is submitted");
        must(endOf(event) <= endOf(wait!) + STEP, "no dispatch ends after the call");
      }
      device.trace = undefined;
      const count = events.length;
      same(await model.run([ids]), { output0 }, "what an untraced call gives");
      same(events.length, count, "events after the trace");
    }),

  trace_of_a_call_in_batches_has_every_dispatch: (env) =>
    onKeptDevice(env, async (device) => {
      const from = address(env, "llm_4w_head_18");
      const all: string[][] = [];
      for (const maxBatchWork of [0, 1]) {
        const model = await env.nibble.load(from, { device, cache: false, maxBatchWork });
        const events: Nibble.TraceEvent[] = [];
        device.trace = events;
        await model.run([{ data: [1, 2, 3], shape: [1, 3] }, [0]]);
        device.trace = undefined;
        all.push(events.flatMap(({ thread, name, kernel }) => (thread === 0 ? [`${name} ${kernel}`] : [])));
        same(named(events, "submit").length > 1, maxBatchWork === 1, "whether there are several submissions");
        model.dispose();
      }
      must(all[0]!.length > 10, "a language model has many dispatches");
      same(new Set(all[1]).size, new Set(all[0]).size, "how many kernels run in batches");
    }),

  trace_is_a_file_that_viewers_read: async ({ nibble }) => {
    const json = nibble.chromeTrace([
      { name: 'a "plan"\n', thread: 1, start: 10, duration: 5 },
      { name: "op", kernel: "k", node: 3, thread: 0, start: 11, duration: 2 },
      { name: "compile", thread: 2, start: 12, duration: 1 },
    ]);
    const { traceEvents } = JSON.parse(json) as { traceEvents: Record<string, unknown>[] };
    same(
      traceEvents.flatMap(({ ph, args }) => (ph === "M" ? [(args as { name: string }).name] : [])),
      ["host", "GPU", "host 2"],
      "the names of threads",
    );
    const [plan, op] = traceEvents.filter(({ ph }) => ph === "X");
    same([plan!.cat, plan!.name, plan!.ts, plan!.dur], ["host", 'a "plan"\n', 10, 5], "a phase");
    same([op!.cat, op!.name, op!.args], ["gpu", "op", { kernel: "k", node: 3 }], "a dispatch");
    must(plan!.tid !== op!.tid, "host and GPU are two threads");
  },

  trace_of_a_device_without_timestamps_is_the_host_s: async (env) => {
    const device = await env.nibble.open({ ...env.options, adapter: await plainAdapter(env) });
    try {
      const events: Nibble.TraceEvent[] = [];
      device.trace = events;
      const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      await model.run([ids]);
      for (const name of ["compile", "submit", "read back"]) same(named(events, name).length, 1, `phases ${name}`);
      same(
        events.filter(({ thread }) => thread === 0),
        [],
        "what the GPU did",
      );
    } finally {
      device.destroy();
    }
  },
};
