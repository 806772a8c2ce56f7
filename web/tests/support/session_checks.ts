// What holds of a model's sessions.

import type * as Nibble from "../../src/index.js";
import { failureOf, fetchNpy } from "./cases.js";
import { address, type Check, ids, must, onDevice, onKeptDevice, runIds, same, says } from "./check.js";

/** Counts the buffers that are made from now on, the bytes of those not destroyed yet, and the most read back at once. */
export function watchBuffers(device: Nibble.Device): { live: number; made: number; mapped: number } {
  const { handle } = device;
  const make = handle.createBuffer.bind(handle);
  const seen = { live: 0, made: 0, mapped: 0 };
  handle.createBuffer = (wanted) => {
    const buffer = make(wanted);
    const destroy = buffer.destroy.bind(buffer);
    const map = buffer.mapAsync.bind(buffer);
    let isThere = true;
    seen.live += wanted.size;
    ++seen.made;
    buffer.destroy = () => {
      if (isThere) seen.live -= wanted.size;
      isThere = false;
      return destroy();
    };
    buffer.mapAsync = (mode, offset, size) => {
      seen.mapped = Math.max(seen.mapped, size ?? wanted.size);
      return map(mode, offset, size);
    };
    return buffer;
  };
  return seen;
}

type Runner = Pick<Nibble.Session, "run">;

/** What a language model gives for tokens at a position. */
export async function logits(session: Runner, tokens: number[], position: number): Promise<string> {
  return String((await session.run([{ data: tokens, shape: [1, tokens.length] }, [position]])).output0!.data);
}

export const sessionChecks: Record<string, Check> = {
  sessions_of_a_language_model_do_not_see_each_others_caches: (env) =>
    onKeptDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "llm_4w_head_18"), { device, cache: false });
      const prompts = [
        [1, 2, 3],
        [9, 8, 5],
      ];
      const alone: string[] = [];
      for (const prompt of prompts) {
        const session = await model.session();
        await logits(session, prompt, 0);
        alone.push(await logits(session, [7], 3));
        session.dispose();
      }
      must(alone[0] !== alone[1], "the caches matter");
      const sessions: Runner[] = [model, await model.session()];
      await Promise.all(sessions.map((session, i) => logits(session, prompts[i]!, 0)));
      const together = await Promise.all(sessions.map((session) => logits(session, [7], 3)));
      same(together, alone, "what two sessions say at once");
    }),

  program_that_is_loaded_again_compiles_nothing: (env) =>
    onDevice(env, async (device) => {
      const { handle } = device;
      const compile = handle.createComputePipelineAsync.bind(handle);
      let compiled = 0;
      handle.createComputePipelineAsync = (wanted) => {
        ++compiled;
        return compile(wanted);
      };
      const first = await runIds(env, address(env, "q4_dynamic_length"), { device });
      const once = compiled;
      must(once > 0, "it has kernels");
      same(await runIds(env, address(env, "q4_dynamic_length"), { device }), first, "what it gives again");
      same(compiled, once, "how many kernels were compiled");
    }),

  session_tells_what_its_caches_hold: (env) =>
    onKeptDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "llm_4w_head_18"), { device, cache: false });
      const { get_max_context_len: places, get_n_layers: layers } = model.constants;
      same(model.states.length, 2 * (layers as number), "how many caches there are");
      for (const { role, dtype, shape, rowAxis, rows } of model.states) {
        must(["key_cache", "value_cache"].includes(role), `a cache is called ${role}`);
        same([dtype, shape[rowAxis!], rows], ["float32", places, 0], `type and rows of a ${role}`);
      }
      const rowsOf = ({ states }: Nibble.Model | Nibble.Session): number[] => [...new Set(states.map((s) => s.rows))];
      const other = await model.session();
      await logits(model, [1, 2, 3], 0);
      same(rowsOf(model), [3], "rows in use after a prompt");
      await logits(model, [7], 3);
      same(rowsOf(model), [4], "rows in use after another token");
      same(rowsOf(other), [0], "rows in use in another session");
      await logits(other, [9, 8], 0);
      same([rowsOf(model), rowsOf(other)], [[4], [2]], "rows in use in both sessions");
      // A call that fails changes nothing.
      await failureOf(env, model.run([{ data: [7], shape: [1, 1] }, [places as number]]));
      same(rowsOf(model), [4], "rows in use after a call that failed");
      other.dispose();
      let told: unknown;
      try {
        told = other.states;
      } catch (error) {
        told = error;
      }
      says(told as Nibble.NibbleError, "invalid_argument", "the session is disposed");
    }),

  state_without_rows_and_no_state_are_told: (env) =>
    onDevice(env, async (device) => {
      const counter = await env.nibble.load(address(env, "state_counts"), { device, cache: false });
      await counter.run([new Int32Array(4)]);
      same(
        counter.states.map(({ dtype, shape, rowAxis, rows }) => [dtype, shape, rowAxis, rows]),
        [["int32", [1], null, 0]],
        "the state of a counter",
      );
      const table = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      same(table.states, [], "the state of a table");
      same((await table.session()).states, [], "the state of a session of a table");
    }),

  session_begins_as_the_program_does: (env) =>
    onDevice(env, async (device) => {
      // Zeros, and something else.
      for (const name of ["state_accumulates", "state_is_replaced", "state_counts"]) {
        const model = await env.nibble.load(address(env, name), { device, cache: false });
        const { data, shape } = await fetchNpy(`${env.base}/files/programs/${name}/in0_0.npy`);
        const call = async (session: Runner): Promise<string> =>
          String((await session.run([{ data: data as Nibble.InputData, shape }])).output0!.data);
        const firsts = [await call(model), await call(model)];
        must(firsts[0] !== firsts[1], `${name} has state`);
        const session = await model.session();
        same([await call(session), await call(session)], firsts, `the first calls of another session of ${name}`);
      }
    }),

  further_session_compiles_nothing_and_makes_no_weights: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      const wanted = (await model.run([ids])).output0!;
      const compile = device.handle.createComputePipelineAsync.bind(device.handle);
      let compiled = 0;
      device.handle.createComputePipelineAsync = (one) => {
        ++compiled;
        return compile(one);
      };
      const buffers = watchBuffers(device);
      const session = await model.session();
      must(session.model === model, "a session knows its model");
      same(String((await session.run([ids])).output0!.data), String(wanted.data), "what the session gives");
      same(compiled, 0, "kernels compiled for it");
      must(buffers.live > 0 && buffers.live < 6000 * 128, `${buffers.live} bytes are no copy of the table`);
    }),

  disposed_session_gives_its_memory_back: (env) =>
    onKeptDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "llm_4w_head_18"), { device, cache: false });
      const buffers = watchBuffers(device);
      const round = async (): Promise<void> => {
        const session = await model.session();
        await logits(session, [1, 2], 0);
        session.dispose();
        session.dispose();
        says(await failureOf(env, session.run([[1], [2]])), "invalid_argument", "the session is disposed");
      };
      await round();
      await round();
      const { heapBytes } = model;
      for (let i = 0; i < 12; ++i) await round();
      same(buffers.live, 0, "bytes of buffers of disposed sessions");
      same(model.heapBytes, heapBytes, "the planner's memory");
      await logits(model, [1, 2], 0);
    }),

  call_of_a_session_that_is_disposed_meanwhile_fails: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      const session = await model.session();
      const running = [session.run([ids]), session.run([ids])].map((call) => failureOf(env, call));
      await Promise.resolve();
      session.dispose();
      for (const error of await Promise.all(running)) says(error, "invalid_argument", "the session is disposed");
      same((await model.run([ids])).output0!.shape, [1, 1, 256], "the shape that the model gives");
    }),

  session_outlives_its_model: (env) =>
    onDevice(env, async (device) => {
      const buffers = watchBuffers(device);
      const model = await env.nibble.load(address(env, "state_is_replaced"), { device, cache: false });
      const session = await model.session();
      model.dispose();
      model.dispose();
      const input = new Float32Array(6);
      says(await failureOf(env, model.run([input])), "invalid_argument", "the model is disposed: load it again");
      says(await failureOf(env, model.session()), "invalid_argument", "the model is disposed: load it again");
      same((await session.run([input])).output0!.data.length, 6, "elements of a result");
      must(buffers.live > 0, "the session has memory");
      session.dispose();
      same(buffers.live, 0, "bytes of buffers after all is disposed");
    }),

  failed_session_leaves_nothing_behind: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "q4_mean"), { device, cache: false });
      const refuse = device.handle.createBuffer.bind(device.handle);
      const buffers = watchBuffers(device);
      const make = device.handle.createBuffer;
      device.handle.createBuffer = (wanted) => (wanted.usage & 1 ? refuse({ ...wanted, size: 2 ** 42 }) : make(wanted));
      const error = await failureOf(env, model.session());
      must(error.message.includes("making a readback buffer"), error.message);
      same(buffers.live, 0, "bytes of buffers");
      device.handle.createBuffer = make;
      const session = await model.session();
      same((await session.run([ids])).output0!.shape, [1, 1, 256], "the shape after that");
    }),
};
