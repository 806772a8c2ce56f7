// Files that lie, callers that do what nobody should, and what is said about it: always one sentence.

import type { Generation, LanguageModel } from "../../src/generate.js";
import type * as Nibble from "../../src/index.js";
import { type Environment, failureOf, fetchJson } from "./cases.js";
import { type Check, must, same, says } from "./check.js";
import { folder, tinyOf } from "./tiny_model.js";

const stopIds: number[] = [];

/** What a call throws, or what its promise is rejected with. */
async function refused(env: Environment, call: () => unknown): Promise<Nibble.NibbleError> {
  const error = await failureOf(
    env,
    (async () => call())(), // as a rejection
  );
  must(!error.message.includes("\n") && error.message.length < 1000, `one sentence: "${error.message}"`);
  return error;
}

/** The tiny model's files, of which some are given. */
async function load(env: Environment, changes: object): Promise<LanguageModel> {
  const { device } = (await tinyOf(env)).model; // which has its kernels already
  const files = {
    program: `${folder(env)}/model.pte`,
    tokenizer: `${folder(env)}/tokenizer.json`,
    generation: `${folder(env)}/generation.json`,
    ...changes,
  };
  return env.generate.LanguageModel.load(files, { device, cache: false });
}

async function isUsable(model: LanguageModel, prompt: number[], wanted: readonly number[]): Promise<void> {
  const next = model.generate(prompt, { maxTokens: 2, stopIds });
  await next.run();
  same(next.ids, wanted.slice(0, 2), "what comes next");
}

export const hostileChecks: Record<string, Check> = {
  files_that_are_cut_or_no_json_are_one_sentence: async (env) => {
    const cut = `${env.base}/short-20/cases/generate/tiny`;
    for (const file of ["generation", "tokenizer"]) {
      const error = await refused(env, () => load(env, { [file]: `${cut}/${file}.json` }));
      says(error, "invalid_program", `${file}.json is no JSON`);
      const program = await refused(env, () => load(env, { [file]: `${folder(env)}/model.pte` }));
      says(program, "invalid_program", "is no JSON");
    }
    const program = await refused(env, () => load(env, { program: `${cut}/model.pte` }));
    must(["io", "invalid_program"].includes(program.code), program.message);
    const dropped = `${env.base}/dropped-100/cases/generate/tiny/tokenizer.json`;
    says(await refused(env, () => load(env, { tokenizer: dropped })), "io", "tokenizer.json cannot be read");
  },

  tokens_that_the_model_does_not_have_are_told: async (env) => {
    const good = await fetchJson<{ added_tokens: object[] }>(`${folder(env)}/tokenizer.json`);
    const far = (id: number): object => ({
      tokenizer: {
        ...good,
        added_tokens: [...good.added_tokens, { ...good.added_tokens[0], id, content: "<|far|>" }],
      },
    });
    const model = await load(env, far(5000));
    says(await refused(env, () => model.generate("<|far|>", { raw: true })), "out_of_range", "but the vocabulary has");
    model.dispose();
  },

  settings_of_other_kinds_are_one_sentence_and_change_nothing: async (env) => {
    const { model, golden } = await tinyOf(env);
    const wrong: object[] = [
      { stop: 5 },
      { stop: [1] },
      { stop: { a: 1 } },
      { stop: ["\ud800"] },
      { stop: [""] },
      { stopIds: 5 },
      { stopIds: "12" },
      { stopIds: [1.5] },
      { stopIds: [null] },
      { stopIds: [2 ** 40] },
      { temperature: "0.7" },
      { temperature: true },
      { temperature: [1] },
      { temperature: Infinity },
      { topK: "9" },
      { topK: 1e30 },
      { topK: 9n },
      { maxTokens: 0 },
      { maxTokens: -1 },
      { maxTokens: 1.5 },
      { maxTokens: Infinity },
      { maxTokens: "5" },
      { maxTokens: 5n },
      { seed: 2n ** 64n },
      { seed: 1.5 },
      { logitBias: [1, 2] },
      { logitBias: 3 },
      { logitBias: { "": 2 } },
      { logitBias: { "0x1": 2 } },
      { logitBias: { 1: "x" } },
      { logitBias: { 1: NaN } },
      { logitBias: { 1: null } },
      { logitBias: { "-1": 1 } },
      { topLogprobs: -1 },
      { system: 3 },
      { system: "\udc00" },
      { signal: {} },
      { jsonSchema: 3 },
      { jsonSchema: "[".repeat(100_000) },
      { jsonSchema: { type: "no such type" } },
      { regex: 3 },
      { regex: "(".repeat(1000) },
      { grammar: new Uint8Array(1) },
    ];
    for (const options of wrong) await refused(env, () => model.generate("system" in options ? "x" : [1], options));
    for (const options of [null, { maxTokens: null, temperature: null, stop: undefined, jsonSchema: null }]) {
      model.generate([1], options as never).cancel();
    }
    await isUsable(model, golden.prompt, golden.tokens);
  },

  prompts_of_other_kinds_are_one_sentence: async (env) => {
    const { model, golden } = await tinyOf(env);
    const wrong: unknown[] = [
      null,
      undefined,
      5,
      1.5,
      {},
      { role: "user" },
      ["x"],
      [[1]],
      [null],
      [true],
      [2 ** 63],
      [1, "x"],
    ];
    wrong.push("\ud800", [{ role: "user", content: 5 }], [{ role: 1 }], [{ role: "user", content: "\udfff" }], [1n]);
    wrong.push(new DataView(new ArrayBuffer(4)), new BigInt64Array(1), [{ role: "user", content: "x" }, null]);
    wrong.push([{ role: "user", content: "x", call: (): void => undefined }], Symbol("x"), () => "x");
    for (const prompt of wrong) await refused(env, () => model.generate(prompt as string));
    for (const prompt of [Int32Array.of(1, 2), Uint8Array.of(1, 2)]) model.generate(prompt as never).cancel();
    await isUsable(model, golden.prompt, golden.tokens);
  },

  loop_that_throws_ends_its_generation_and_the_session_goes_on: async (env) => {
    const { model, golden } = await tinyOf(env);
    const generation = model.generate(golden.prompt, { maxTokens: 50, stopIds });
    let caught: unknown;
    try {
      for await (const _ of generation) throw new Error("mine");
    } catch (error) {
      caught = error;
    }
    same([String(caught), generation.finishReason], ["Error: mine", "cancelled"], "what is caught, and how it ended");
    await isUsable(model, golden.prompt, golden.tokens);
  },

  generation_that_was_replaced_does_not_end_the_other_one: async (env) => {
    const { model, golden } = await tinyOf(env);
    const first = model.generate(golden.prompt, { maxTokens: 5, stopIds });
    await first.next();
    const second = model.generate(golden.prompt, { maxTokens: 4, stopIds });
    await second.next();
    says(await refused(env, () => first.next()), "invalid_argument", "its session has begun another one");
    same([(await first.next()).done, first.finishReason], [true, "cancelled"], "what follows");
    first.cancel();
    await first.return!();
    await second.run();
    same([second.ids, second.finishReason], [golden.tokens.slice(0, 4), "length"], "the other one");
  },

  pieces_that_are_asked_for_at_once_come_in_order: async (env) => {
    const { model, golden } = await tinyOf(env);
    const generation = model.generate(golden.prompt, { maxTokens: 6, stopIds, logprobs: true });
    const pieces = await Promise.all(Array.from({ length: 8 }, () => generation.next()));
    const ids = pieces.flatMap(({ value }) => value?.ids ?? []);
    same(ids, golden.tokens.slice(0, 6), "their tokens");
    same(pieces.map(({ done }) => done).slice(-2), [true, true], "whether the last are the end");
  },

  session_is_saved_forked_and_taken_back_while_it_generates: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    const generation = session.generate(golden.prompt, { maxTokens: 12, stopIds });
    const ids: number[] = [];
    let saved: Uint8Array | undefined;
    let fork: Awaited<ReturnType<typeof session.fork>> | undefined;
    for await (const piece of generation) {
      ids.push(...piece.ids);
      saved ??= await session.save();
      fork ??= await session.fork();
    }
    same(ids, golden.tokens.slice(0, 12), "what it generates meanwhile");
    same(fork!.tokens.slice(0, golden.prompt.length), golden.prompt, "the tokens of the fork");
    await fork!.restore(saved!);
    const more = fork!.generate([...golden.prompt, ...golden.tokens.slice(0, 1)], { maxTokens: 3, stopIds });
    await more.run();
    same(more.ids, golden.tokens.slice(1, 4), "what the fork generates");
    const taken = session.generate(golden.prompt, { maxTokens: 12, stopIds });
    await taken.next();
    await session.reset();
    same([(await taken.next()).done, taken.finishReason], [true, "cancelled"], "one whose session was reset");
    for (const one of [session, fork!]) one.dispose();
  },

  what_is_disposed_says_so_and_others_go_on: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    const generation = session.generate(golden.prompt, { maxTokens: 50, stopIds });
    await generation.next();
    const fork = await session.fork();
    const waiting = generation.run();
    session.dispose();
    session.dispose();
    const end = await waiting.catch((error: unknown) => error);
    must(end instanceof env.nibble.NibbleError || end === generation.text, `it ends with ${String(end)}`);
    const uses: (() => unknown)[] = [
      () => session.generate("x"),
      () => session.tokens,
      () => session.fork(),
      () => session.save(),
      () => session.reset(),
      () => session.rewind(0),
      () => session.restore(new Uint8Array(4)),
      () => generation.next(),
    ];
    for (const use of uses) says(await refused(env, use), "invalid_argument", "the session is disposed: make another");
    generation.cancel();
    same([generation.finishReason, generation.usage.promptTokens], ["cancelled", golden.prompt.length], "what is left");
    const next = fork.generate(golden.prompt, { maxTokens: 3, stopIds });
    await next.run();
    same(next.ids, golden.tokens.slice(0, 3), "what its fork generates");
    fork.dispose();
    // Before it is made.
    const early = model.session();
    early.dispose();
    says(await refused(env, () => early.fork()), "invalid_argument", "the session is disposed");
  },

  model_that_is_disposed_leaves_its_sessions_usable: async (env) => {
    const { golden } = await tinyOf(env);
    const model = await load(env, {});
    const session = model.session();
    await session.reset();
    let running: Generation | undefined = model.generate(golden.prompt, { maxTokens: 9, stopIds });
    await running.next();
    model.dispose();
    says(await refused(env, () => running!.next()), "invalid_argument", "the model is disposed: load it again");
    says(await refused(env, () => model.generate("x")), "invalid_argument", "the model is disposed: load it again");
    running = undefined;
    const fork = await session.fork();
    const next = fork.generate(golden.prompt, { maxTokens: 3, stopIds, jsonSchema: undefined as never });
    await next.run();
    same(next.ids, golden.tokens.slice(0, 3), "what a fork of another session generates");
    for (const one of [session, fork]) one.dispose();
    says(await refused(env, () => model.session().fork()), "invalid_argument", "disposed");
  },

  saved_bytes_that_were_cut_or_changed_are_refused: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    await session.generate(golden.prompt.slice(0, 9), { maxTokens: 2, stopIds }).run();
    const saved = await session.save();
    const { tokens } = session;
    const changed = (at: number): Uint8Array => {
      const copy = saved.slice();
      copy[at]! ^= 1;
      return copy;
    };
    const wrong: unknown[] = [null, undefined, "saved", {}, saved.buffer, new Uint8Array(0), new Uint8Array(1000)];
    wrong.push(
      saved.slice(0, -1),
      saved.slice(1),
      saved.slice(0, 40),
      changed(0),
      changed(8),
      changed(12),
      changed(300),
    );
    wrong.push(changed(saved.length - 1), changed(saved.length >> 1));
    for (const bytes of wrong) await refused(env, () => session.restore(bytes as Uint8Array));
    for (const count of [-1, 1.5, "1", null, NaN, 2 ** 60, true]) {
      await refused(env, () => session.rewind(count as number));
    }
    same(session.tokens, tokens, "what it holds after that");
    await session.restore(saved);
    session.dispose();
  },
};
