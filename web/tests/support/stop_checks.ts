// Calls in several submissions, and calls that are aborted.

import type * as Nibble from "../../src/index.js";
import { failureOf } from "./cases.js";
import { address, type Check, must, onKeptDevice, reasonOf, same, says } from "./check.js";

const DECODE = [{ data: [7], shape: [1, 1] }, [3]];
const PROMPT = [{ data: [1, 2, 3], shape: [1, 3] }, [0]];

/** Counts submissions, and calls `then` after each. */
function watchSubmissions(device: Nibble.Device, then: (count: number) => void = () => undefined): { count: number } {
  const { queue } = device.handle;
  const submit = queue.submit.bind(queue);
  const seen = { count: 0 };
  queue.submit = (commands) => {
    submit(commands);
    then(++seen.count);
  };
  return seen;
}

const outputOf = (results: Record<string, Nibble.Tensor>): string => String(results.output0!.data);

export const stopChecks: Record<string, Check> = {
  small_call_is_one_submission_and_many_give_the_same: (env) =>
    onKeptDevice(env, async (device) => {
      const at = address(env, "llm_4w_head_18");
      const model = await env.nibble.load(at, { device, cache: false });
      const inBatches = await env.nibble.load(at, { device, cache: false, maxBatchWork: 1 });
      const seen = watchSubmissions(device);
      const whole = outputOf(await model.run(PROMPT));
      same(seen.count, 1, "submissions of a small call");
      same(outputOf(await inBatches.run(PROMPT)), whole, "the result in many submissions");
      must(seen.count > 10, "each dispatch is submitted by itself");
    }),

  large_dispatch_is_many_submissions_and_can_be_aborted_between_them: (env) =>
    onKeptDevice(env, async (device) => {
      const at = address(env, "linear_q4_dynamic");
      const x = [{ data: Float32Array.from({ length: 40 * 64 }, (_, i) => (i % 23) - 11), shape: [1, 40, 64] }];
      const model = await env.nibble.load(at, { device, cache: false });
      const inPieces = await env.nibble.load(at, { device, cache: false, maxBatchWork: 1 });
      const controller = new AbortController();
      const seen = watchSubmissions(device, (count) => {
        if (count === 3) controller.abort();
      });
      const whole = outputOf(await model.run(x));
      same(seen.count, 1, "submissions of one dispatch");
      must(
        (await reasonOf(inPieces.run(x, { signal: controller.signal }))) === controller.signal.reason,
        "the call is aborted",
      );
      same(seen.count, 3, "submissions until it stopped");
      same(outputOf(await inPieces.run(x)), whole, "the result in pieces");
      must(seen.count >= 3 + 4, "each workgroup is submitted by itself");
    }),

  aborted_call_rejects_with_the_reason_and_can_be_made_again: (env) =>
    onKeptDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "llm_4w_head_18"), { device, cache: false, maxBatchWork: 1 });
      await model.run(PROMPT);
      const expected = outputOf(await (await sessionAfter(model)).run(DECODE));
      const controller = new AbortController();
      const before = watchSubmissions(device, (count) => {
        if (count === 3) controller.abort();
      });
      const reason = await reasonOf(model.run(DECODE, { signal: controller.signal }));
      must(reason === controller.signal.reason, `it rejects with the signal's reason, not with ${String(reason)}`);
      same((reason as DOMException).name, "AbortError", "the reason");
      same(before.count, 3, "submissions until it stopped");
      same(model.states[0]!.rows, 3, "rows in use after an aborted call");
      same(outputOf(await model.run(DECODE)), expected, "the same call again");
    }),

  aborted_signal_submits_nothing: (env) =>
    onKeptDevice(env, async (device) => {
      const model = await env.nibble.load(address(env, "llm_4w_head_18"), { device, cache: false });
      const seen = watchSubmissions(device);
      const why = new Error("not any more");
      must((await reasonOf(model.run(PROMPT, { signal: AbortSignal.abort(why) }))) === why, "the caller's own reason");
      same(seen.count, 0, "submissions");
      // One that waits for its turn.
      const controller = new AbortController();
      const first = model.run(PROMPT);
      const second = reasonOf(model.run(DECODE, { signal: controller.signal }));
      controller.abort(why);
      must((await second) === why, "a call that waits is aborted, too");
      must((await first).output0 !== undefined, "the one before it is not");
      same(seen.count, 1, "submissions of the first");
      for (const wrong of [3, 0, new EventTarget()]) {
        const running = model.run(PROMPT, { signal: wrong as AbortSignal });
        says(await failureOf(env, running), "invalid_argument", "signal must be an AbortSignal");
      }
    }),

  signal_of_another_realm_is_one: (env) =>
    onKeptDevice(env, async (device) => {
      const from = address(env, "llm_4w_head_18");
      const why = new Error("the frame is gone");
      const aborted = { signal: toOtherRealm(AbortSignal.abort(why)) };
      const controller = new AbortController();
      const { signal } = controller;
      toOtherRealm(signal);
      const model = await env.nibble.load(from, { device, cache: false, signal });
      must((await model.run(PROMPT, { signal })).output0 !== undefined, "it runs");
      must((await reasonOf(model.run(PROMPT, aborted))) === why, "a call rejects with the reason");
      must((await reasonOf(env.nibble.load(from, { device, ...aborted }))) === why, "and so does a load");
      const onProgress = (): void => controller.abort(why);
      const loading = env.nibble.load(from, { device, cache: false, signal, onProgress });
      must((await reasonOf(loading)) === why, "a load that has begun, too");
    }),
};

/** Makes a signal what one of a frame is here: it works, but is no instance of this realm's class. */
function toOtherRealm(signal: AbortSignal): AbortSignal {
  const members = Object.getOwnPropertyDescriptors(AbortSignal.prototype);
  Object.setPrototypeOf(signal, Object.create(EventTarget.prototype, members) as object);
  must(!(signal instanceof AbortSignal), "it is of another realm");
  return signal;
}

/** A session that has seen the prompt. */
async function sessionAfter(model: Nibble.Model): Promise<Nibble.Session> {
  const session = await model.session();
  await session.run(PROMPT);
  return session;
}
