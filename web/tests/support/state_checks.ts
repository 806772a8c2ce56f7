// What holds of a session's state between calls, and of outputs that are left out.

import type * as Nibble from "../../src/index.js";
import { type Environment, failureOf } from "./cases.js";
import { address, type Check, must, onDevice, onKeptDevice, same, says } from "./check.js";
import { logits, watchBuffers } from "./session_checks.js";

/** The value of a counter in the program, after one more call. */
async function count(session: Pick<Nibble.Session, "run">): Promise<number> {
  return ((await session.run([new Int32Array(4)])).output0!.data as Int32Array)[0]!;
}

/** A file as save() writes it, with another head and the right checksum. */
async function withHead(saved: Uint8Array, change: (head: string) => string): Promise<Uint8Array> {
  const size = new DataView(saved.buffer).getUint32(12, true);
  const pad = (bytes: number): number => Math.ceil(bytes / 4) * 4;
  const head = new TextEncoder().encode(change(new TextDecoder().decode(saved.subarray(16, 16 + size))));
  const data = saved.subarray(pad(16 + size), -32);
  const file = new Uint8Array(pad(16 + head.length) + data.length + 32);
  file.set(saved.subarray(0, 12));
  new DataView(file.buffer).setUint32(12, head.length, true);
  file.set(head, 16);
  file.set(data, pad(16 + head.length));
  file.set(new Uint8Array(await crypto.subtle.digest("SHA-256", file.subarray(0, -32))), file.length - 32);
  return file;
}

const loadLlm = (env: Environment, device: Nibble.Device, options: Nibble.Options = {}): Promise<Nibble.Model> =>
  env.nibble.load(address(env, "llm_4w_head_18"), { device, cache: false, ...options });

const rowsOf = ({ states }: Nibble.Session): number[] => [...new Set(states.map(({ rows }) => rows))];

export const stateChecks: Record<string, Check> = {
  session_goes_back_forks_saves_and_restores: (env) =>
    onKeptDevice(env, async (device) => {
      const model = await loadLlm(env, device);
      const session = await model.session();
      await logits(session, [1, 2, 3], 0);
      const fourth = await logits(session, [7], 3);
      await session.rewind(3);
      same(rowsOf(session), [3], "rows after going back");
      const fork = await session.fork();
      const saved = await session.save("a note");
      must((await logits(session, [9], 3)) !== fourth, "another token gives something else");
      await session.rewind(3);
      same(await logits(session, [7], 3), fourth, "what the session gives after going back");
      same(rowsOf(fork), [3], "rows of the fork");
      same(await logits(fork, [7], 3), fourth, "what the fork gives");
      const other = await model.session();
      let note = "";
      await other.restore(saved, (text) => (note = text));
      same([note, rowsOf(other)], ["a note", [3]], "what was restored");
      same(await logits(other, [7], 3), fourth, "what the restored one gives");
      await other.reset();
      same(rowsOf(other), [0], "rows after a reset");
      says(await failureOf(env, other.rewind(1)), "out_of_range", "cannot be rewound to row 1: 0 are in use");
      await logits(other, [1, 2, 3], 0);
      same(await logits(other, [7], 3), fourth, "what it gives from the beginning");
      same(model.own.states.length, model.states.length, "states of the model's own session");
    }),

  state_without_rows_is_copied_whole_and_goes_back_to_its_beginning: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "state_counts"), { device, cache: false });
      const session = model.own;
      same([await count(session), await count(session)], [1, 2], "a counter");
      const [fork, saved] = [await session.fork(), await session.save()];
      same([await count(session), await count(fork), await count(fork)], [3, 3, 4], "a counter and its fork");
      await session.restore(saved);
      same(await count(session), 3, "the counter that was restored");
      says(await failureOf(env, session.rewind(1)), "invalid_argument", "can only be rewound to row 0, not to 1");
      await session.rewind(0);
      same(await count(session), 1, "the counter from the beginning");
      const replaced = await env.nibble.load(address(env, "state_is_replaced"), { device, cache: false });
      const input = new Float32Array(6).fill(2);
      const call = async (): Promise<string> => String((await replaced.run([input])).output0!.data);
      const first = await call();
      must((await call()) !== first, "the state changes");
      await replaced.own.reset();
      same(await call(), first, "what a state gives that begins with something else than zeros");
    }),

  saved_session_is_checked_before_anything_changes: (env) =>
    onKeptDevice(env, async (device) => {
      const model = await loadLlm(env, device);
      const session = model.own;
      await logits(session, [1, 2, 3], 0);
      const saved = await session.save();
      const refusal = (file: Uint8Array, to: Nibble.Session = session): Promise<Nibble.NibbleError> =>
        failureOf(env, to.restore(file));
      const damaged = saved.slice();
      damaged[saved.length >> 1]! ^= 1;
      says(await refusal(damaged), "io", "its checksum does not fit its content");
      says(await refusal(saved.subarray(0, -4)), "io", "damaged or cut off");
      says(await refusal(new Uint8Array(100)), "io", "not a saved session");
      says(await refusal([1] as unknown as Uint8Array), "invalid_argument", "from a Uint8Array");
      const newer = saved.slice();
      newer[8] = 9;
      says(await refusal(newer), "io", "of version 9, but this Nibble reads version 1");
      says(await refusal(await withHead(saved, () => "{]")), "io", "the head of the saved session cannot be read");
      const rows = (head: string): string => head.replaceAll('"rows":3', '"rows":4');
      says(await refusal(await withHead(saved, rows)), "io", "bytes of state, but its rows take");
      const far = (head: string): string => head.replaceAll('"rows":3', '"rows":99999');
      says(await refusal(await withHead(saved, far)), "invalid_argument", "there is no row 99999");
      const counter = await env.nibble.load(address(env, "state_counts"), { device, cache: false });
      says(await refusal(saved, counter.own), "invalid_argument", "saved by another program");
      const half = await loadLlm(env, device, { f16Cache: true });
      says(await refusal(saved, half.own), "invalid_argument", "saved with another layout", "f16Cache");
      const fussy = session.restore(saved, () => {
        throw new env.nibble.NibbleError("invalid_argument", "no");
      });
      says(await failureOf(env, fussy), "invalid_argument", "no");
      same(rowsOf(session), [3], "rows after all that");
    }),

  fork_that_fails_leaves_nothing_behind: (env) =>
    onKeptDevice(env, async (device) => {
      const model = await loadLlm(env, device);
      await logits(model, [1, 2, 3], 0);
      const buffers = watchBuffers(device);
      const encoder = device.handle.createCommandEncoder.bind(device.handle);
      device.handle.createCommandEncoder = () => {
        throw new Error("no encoder");
      };
      says(await failureOf(env, model.own.fork()), "gpu", "copying a session's state failed", "no encoder");
      says(await failureOf(env, model.own.reset()), "gpu", "no encoder");
      device.handle.createCommandEncoder = encoder;
      same(buffers.live, 0, "bytes of buffers");
      says(await failureOf(env, logits(model, [7], 3)), "invalid_argument", "this session's state is incomplete");
      await model.own.reset();
      await logits(model, [1, 2, 3], 0);
      const fork = await model.own.fork();
      fork.dispose();
      same(buffers.live, 0, "bytes of buffers after a fork was disposed");
      says(await failureOf(env, fork.save()), "invalid_argument", "the session is disposed");
    }),

  only_the_outputs_that_are_wanted_come_back: (env) =>
    onDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "sym_results"), { device, cache: false });
      const input = { data: new Float32Array(24), shape: [2, 3, 4] };
      const names = Object.keys(await model.run([input]));
      must(names.length > 2, "there are several");
      const some = [names[0]!, names[2]!];
      same(Object.keys(await model.run([input], { outputs: some })), some, "those that are wanted");
      same(await model.run([input], { outputs: [] }), {}, "none");
      const unknown = model.run([input], { outputs: ["x"] });
      says(await failureOf(env, unknown), "invalid_argument", `there is no output x; the program gives ${names[0]}`);
      const wrong = model.run([input], { outputs: "x" as unknown as string[] });
      says(await failureOf(env, wrong), "invalid_argument", "must be a list of names");
    }),
};
