// What holds of text generation, in Node and on a page.

import type { Generation, LanguageModel } from "../../src/generate.js";
import type * as Nibble from "../../src/index.js";
import { type Environment, failureOf, fetchJson } from "./cases.js";
import { type Check, must, onKeptDevice, reasonOf, same, says } from "./check.js";
import { watchBuffers } from "./session_checks.js";
import { folder, loadGolden, tinyOf } from "./tiny_model.js";

const CONTEXT = 256;
const stopIds: number[] = []; // no token ends a generation

async function idsOf(generation: Generation): Promise<readonly number[]> {
  await generation.run();
  return generation.ids;
}

/** What the caller throws. */
function thrown(env: Environment, call: () => unknown): Promise<Nibble.NibbleError> {
  return failureOf(
    env,
    (async () => call())(), // as a rejection
  );
}

/** Calls `then` when the device gets its submission number `count` from now on. */
function onSubmit(device: Nibble.Device, count: number, then: () => void): void {
  const { queue } = device.handle;
  const submit = queue.submit.bind(queue);
  queue.submit = (commands) => {
    if (--count === 0) then();
    if (count <= 0) queue.submit = submit;
    return submit(commands);
  };
}

export const generateChecks: Record<string, Check> = {
  trace_has_a_phase_for_each_token_that_is_chosen: async (env) => {
    const { model, golden } = await tinyOf(env);
    const events: Nibble.TraceEvent[] = [];
    model.device.trace = events;
    const session = model.session();
    await idsOf(session.generate(golden.prompt, { maxTokens: 3, stopIds }));
    session.dispose();
    model.device.trace = undefined;
    const chosen = events.filter(({ name }) => name === "choose token");
    same(chosen.length, 3, "phases");
    const [first] = events.filter(({ name }) => name === "read back");
    must(chosen[0]!.start >= first!.start, "a token is chosen after its logits are there");
  },

  tokens_are_those_of_eager_torch_through_rewind_fork_and_restore: async (env) => {
    const { model, golden } = await tinyOf(env);
    const { prompt, tokens } = golden;
    const session = model.session();
    const first = session.generate(prompt, { maxTokens: 70, stopIds });
    same(await idsOf(first), tokens.slice(0, 70), "the first tokens");
    same(first.usage, { promptTokens: prompt.length, cachedTokens: 0, completionTokens: 70 }, "what it took");
    same(first.stats.calls, Math.ceil(prompt.length / golden.chunk) + 69, "calls: the prompt in chunks, and tokens");
    const { stats } = first;
    must(stats.dispatches > stats.calls, "a call takes several dispatches");
    must(stats.modelBytes > 0 && stats.sessionBytes > 0, "memory is told");
    same([stats.device, stats.engine], [model.device.name, "web"], "where it ran");
    must(stats.modelLoadEndMs > stats.modelLoadStartMs, "loading takes time");
    must(stats.inferenceStartMs >= stats.modelLoadEndMs, "and comes first");
    await session.rewind(prompt.length + 20);
    same(session.tokens, [...prompt, ...tokens.slice(0, 20)], "what is left");
    const rest = session.generate([...prompt, ...tokens.slice(0, 30)], { maxTokens: 50, stopIds });
    same(await idsOf(rest), tokens.slice(30, 80), "tokens after going back");
    same(rest.usage.cachedTokens, prompt.length + 20, "what was not computed again");
    const other = await session.fork();
    same(other.tokens, session.tokens, "the tokens of a fork");
    await idsOf(session.generate([1, 2, 3], { maxTokens: 5, stopIds }));
    const more = other.generate([...prompt, ...tokens.slice(0, 80)], { maxTokens: 60, stopIds });
    same(await idsOf(more), tokens.slice(80, 140), "tokens of a fork");
    same(more.usage.cachedTokens, prompt.length + 79, "what the fork did not compute again");
    const saved = await other.save();
    const third = model.session();
    await third.restore(saved);
    same(third.tokens, [...prompt, ...tokens.slice(0, 139)], "the tokens that were restored");
    const last = third.generate([...prompt, ...tokens.slice(0, 140)], { maxTokens: 60, stopIds });
    same(await idsOf(last), tokens.slice(140, 200), "tokens after restoring");
    same(last.usage.cachedTokens, prompt.length + 139, "what was restored and not computed again");
    for (const one of [session, other, third]) one.dispose();
  },

  sampled_tokens_are_those_of_the_native_library: async (env) => {
    const { model, golden } = await tinyOf(env);
    for (const { settings, ids, logprobs } of golden.sampled) {
      const seed = settings.seed === undefined ? {} : { seed: BigInt(settings.seed) };
      const generation = model.generate(golden.prompt, {
        ...settings,
        ...seed,
        maxTokens: 40,
        stopIds,
        topLogprobs: 2,
      });
      const found: number[] = [];
      for await (const piece of generation) {
        found.push(...piece.logprobs.map((one) => one.logprob));
        must(
          piece.topLogprobs.every((top) => top.length === 2),
          "there are two others for each token",
        );
      }
      same(generation.ids, ids, `tokens with ${JSON.stringify(settings)}`);
      const far = found.filter((one, i) => Math.abs(one - logprobs[i]!) > 1e-4);
      same([found.length, far], [logprobs.length, []], "log-probabilities that differ");
    }
  },

  repeated_request_computes_one_token: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    same(await idsOf(session.generate(golden.prompt, { maxTokens: 2, stopIds })), golden.tokens.slice(0, 2), "it");
    const again = session.generate(golden.prompt, { maxTokens: 1, stopIds });
    same(await idsOf(again), golden.tokens.slice(0, 1), "it again");
    same([again.usage.cachedTokens, again.stats.calls], [golden.prompt.length - 1, 1], "cached tokens and calls");
    session.dispose();
  },

  prompt_longer_than_the_context_is_an_error_with_both_numbers: async (env) => {
    const { model } = await tinyOf(env);
    const error = await thrown(env, () => model.generate(Array<number>(CONTEXT + 1).fill(1)));
    says(error, "invalid_argument", `the prompt has ${CONTEXT + 1} tokens, but the context holds ${CONTEXT}`);
  },

  context_is_filled_to_its_end_and_no_further: async (env) => {
    const { model } = await tinyOf(env);
    const generation = model.generate(Array<number>(CONTEXT - 3).fill(5), { stopIds });
    same([(await idsOf(generation)).length, generation.finishReason], [3, "length"], "tokens and why it ended");
  },

  stop_token_ends_it_and_is_not_handed_out: async (env) => {
    const { model, golden } = await tinyOf(env);
    const end = golden.tokens.indexOf(golden.tokens[9]!);
    const generation = model.generate(golden.prompt, { maxTokens: 20, stopIds: [golden.tokens[9]!] });
    same(await idsOf(generation), golden.tokens.slice(0, end), "tokens before it");
    same([generation.finishReason, generation.text], ["stop", model.tokenizer.decode(generation.ids)], "how it ended");
  },

  stop_string_ends_it_and_half_a_character_is_never_handed_out: async (env) => {
    const { model, golden } = await tinyOf(env);
    const pieces: string[] = [];
    const generation = model.generate(golden.prompt, { maxTokens: 60, stopIds });
    for await (const { text } of generation) pieces.push(text);
    same(pieces.join(""), model.tokenizer.decode(golden.tokens.slice(0, 60)), "the pieces together");
    same(pieces.join(""), generation.text, "the text");
    const stop = [...generation.text].slice(20, 23).join("");
    const shorter = model.generate(golden.prompt, { maxTokens: 60, stopIds, stop: [stop, "never to be seen"] });
    same(await shorter.run(), generation.text.slice(0, generation.text.indexOf(stop)), "the text before a stop string");
    same(shorter.finishReason, "stop", "why it ended");
  },

  abort_ends_the_computing_of_a_prompt_and_the_session_goes_on: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    const long = Array.from({ length: 200 }, (_, i) => (7 * i) % golden.vocabulary);
    const controller = new AbortController();
    const generation = session.generate(long, { maxTokens: 5, stopIds, signal: controller.signal });
    onSubmit(model.device, 3, () => controller.abort(new Error("enough")));
    same(String(await reasonOf(generation.run())), "Error: enough", "what it is rejected with");
    same([generation.finishReason, generation.text, generation.ids], ["cancelled", "", []], "how it ended");
    must(generation.stats.calls <= 3, `${generation.stats.calls} calls were made`);
    same((await generation.next()).done, true, "whether that was all");
    const next = session.generate(golden.prompt, { maxTokens: 3, stopIds });
    same(await idsOf(next), golden.tokens.slice(0, 3), "tokens after that");
    session.dispose();
  },

  abort_ends_an_answer_within_a_step_and_the_session_goes_on: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    const controller = new AbortController();
    const generation = session.generate(golden.prompt, { maxTokens: 50, stopIds, signal: controller.signal });
    const read = async (): Promise<void> => {
      for await (const _ of generation) if (generation.ids.length >= 5) controller.abort();
    };
    same(((await reasonOf(read())) as Error).name, "AbortError", "what the loop throws");
    const { length } = generation.ids;
    must(length >= 5 && length <= 12, `${length} tokens were generated`);
    same([generation.finishReason, generation.text], ["cancelled", model.tokenizer.decode(generation.ids)], "the end");
    const kept = [...golden.prompt, ...golden.tokens.slice(0, length)];
    const next = session.generate(kept, { maxTokens: 3, stopIds });
    same(await idsOf(next), golden.tokens.slice(length, length + 3), "tokens after that");
    must(next.usage.cachedTokens >= kept.length - 2, `${next.usage.cachedTokens} of ${kept.length} tokens were kept`);
    const aborted = session.generate(golden.prompt, { signal: AbortSignal.abort(new Error("before")) });
    same(String(await reasonOf(aborted.run())), "Error: before", "what one that was aborted before throws");
    session.dispose();
  },

  cancelling_and_leaving_the_loop_are_no_errors: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    const generation = session.generate(golden.prompt, { maxTokens: 50, stopIds });
    for await (const _ of generation) generation.cancel();
    same([generation.finishReason, generation.text !== ""], ["cancelled", true], "how it ended");
    const left = session.generate(golden.prompt, { maxTokens: 50, stopIds });
    for await (const _ of left) break;
    same([left.finishReason, (await left.next()).done], ["cancelled", true], "how the other ended");
    same(
      await idsOf(session.generate(golden.prompt, { maxTokens: 3, stopIds })),
      golden.tokens.slice(0, 3),
      "the next",
    );
    session.dispose();
  },

  sessions_that_generate_at_once_do_not_mix: async (env) => {
    const { model, golden } = await tinyOf(env);
    const prompts = [golden.prompt, [9, 8, 5, 4], golden.prompt.slice(0, 20)];
    const options = { maxTokens: 10, stopIds };
    const alone: (readonly number[])[] = [];
    for (const prompt of prompts) alone.push(await idsOf(model.generate(prompt, options)));
    const sessions = prompts.map(() => model.session());
    const together = await Promise.all(sessions.map((one, i) => idsOf(one.generate(prompts[i]!, options))));
    same(together, alone, "what they generate together");
    for (const one of sessions) one.dispose();
  },

  generation_whose_session_has_begun_another_says_so: async (env) => {
    const { model, golden } = await tinyOf(env);
    const first = model.generate(golden.prompt, { maxTokens: 5, stopIds });
    await first.next();
    const second = model.generate(golden.prompt, { maxTokens: 2, stopIds });
    says(await failureOf(env, first.next()), "invalid_argument", "its session has begun another one");
    same(await idsOf(second), golden.tokens.slice(0, 2), "the tokens of the other");
    same(first.usage.promptTokens, golden.prompt.length, "what it took, still");
    // While a step of the first is under way.
    const third = model.generate(Array<number>(200).fill(3), { maxTokens: 5, stopIds });
    const waiting = failureOf(env, third.run());
    await Promise.resolve();
    const fourth = model.generate(golden.prompt, { maxTokens: 2, stopIds });
    same(await idsOf(fourth), golden.tokens.slice(0, 2), "the tokens of the last");
    says(await waiting, "invalid_argument", "its session has begun another one");
    must(third.stats.calls < 5, `${third.stats.calls} calls were made for one that was replaced`);
  },

  next_step_is_submitted_before_a_piece_is_handed_out: async (env) => {
    const { model, golden } = await tinyOf(env);
    let submitted = false;
    let pieces = 0;
    const generation = model.generate(golden.prompt, { maxTokens: 6, stopIds, logprobs: true });
    for await (const _ of generation) {
      if (++pieces > 1 && pieces < 6) must(submitted, `nothing was submitted when piece ${pieces} came`);
      // What is submitted from here on is the step after the next one.
      submitted = false;
      onSubmit(model.device, 1, () => (submitted = true));
    }
    same(pieces, 6, "pieces");
  },

  only_candidates_return_from_the_gpu_and_nothing_is_left_there: (env) =>
    onKeptDevice(env, async (device) => {
      const buffers = watchBuffers(device);
      const golden = await loadGolden(env);
      const model = await env.generate.LanguageModel.load(folder(env), { device, cache: false });
      const session = model.session();
      await session.generate(golden.prompt, { maxTokens: 1, stopIds }).run();
      const { live, made } = buffers;
      buffers.mapped = 0;
      await session.generate(golden.prompt, { maxTokens: 30, stopIds }).run();
      must(buffers.mapped <= 1024, `${buffers.mapped} bytes were read back at once`);
      same([buffers.live, buffers.made], [live, made], "bytes and number of buffers after 30 tokens more");
      await session.generate(golden.prompt, { maxTokens: 2, temperature: 1, stopIds }).run();
      must(buffers.mapped >= 4 * golden.vocabulary, "all logits are read where the candidates do not decide");
      for (let i = 0; i < 12; ++i) {
        const stop = new AbortController();
        const generation = session.generate([...golden.prompt, i], { maxTokens: 9, stopIds, signal: stop.signal });
        if (i % 3 > 0) onSubmit(device, i, () => stop.abort());
        await reasonOf(generation.run());
        if (i % 4 === 0) (await session.fork()).dispose();
      }
      must(buffers.live === live, `${buffers.live - live} bytes are left of generations, some of them aborted`);
      session.dispose();
      model.dispose();
      model.dispose();
      same(buffers.live, 0, "bytes of buffers after all is disposed");
      const told = await thrown(env, () => session.generate("x"));
      says(told, "invalid_argument", "the session is disposed");
    }),

  messages_become_the_tokens_of_the_models_template: async (env) => {
    const { model, golden } = await tinyOf(env);
    same(model.tokensOf(golden.chat.messages), golden.chat.ids, "the tokens of messages");
    const [system, user] = golden.chat.messages;
    const parts = model.tokensOf(user!.content as string, { system: system!.content as string });
    same(parts, golden.chat.ids, "the tokens of a text with a system message");
    same(model.tokensOf("abc", { raw: true }), model.tokenizer.encode("abc"), "the tokens of a raw text");
  },

  template_that_fails_is_an_error: async (env) => {
    const { model } = await tinyOf(env);
    const refused = await thrown(env, () => model.generate([{ role: "robot", content: "x" }]));
    says(refused, "invalid_argument", "the chat template refuses these messages: there is no role robot");
    // On a device that has the kernels already.
    const { device } = model;
    const description = await fetchJson<object>(`${folder(env)}/generation.json`);
    const load = (chat_template: string): Promise<LanguageModel> =>
      env.generate.LanguageModel.load(
        {
          program: `${folder(env)}/model.pte`,
          tokenizer: `${folder(env)}/tokenizer.json`,
          generation: { ...description, chat_template },
        },
        { device, cache: false },
      );
    says(await failureOf(env, load("{% for %}")), "invalid_program", "the chat template cannot be read");
    const broken = await load("{{ messages[0].content.nothing() }}");
    says(await thrown(env, () => broken.generate("x")), "invalid_argument", "the chat template fails on these");
    broken.dispose();
  },

  bad_requests_are_one_sentence_and_the_next_one_works: async (env) => {
    const { model, golden } = await tinyOf(env);
    const wrong: [unknown, object, string][] = [
      [[], {}, "the prompt has no tokens"],
      [[1, golden.vocabulary], {}, `token 1 of the prompt is ${golden.vocabulary}`],
      [[1, 2 ** 40], {}, "token 1 of the prompt is 1099511627776, which is no token id"],
      [[1.5], {}, "a list of token ids"],
      [[1], { temperature: -1 }, "temperature is -1, but it must be a number from 0 on"],
      [[1], { temperature: NaN }, "temperature must be a finite number, but it is NaN"],
      [[1], { topP: 2 }, "topP is 2"],
      [[1], { topK: 1.5 }, "topK must be a whole number, but it is 1.5"],
      [[1], { repetitionPenalty: 0 }, "repetitionPenalty is 0"],
      [[1], { maxTokens: -1 }, "maxTokens is -1, but it must be at least 1; undefined is no limit"],
      [[1], { maxTokens: 0 }, "maxTokens is 0, but it must be at least 1; undefined is no limit"],
      [[1], { logitBias: { [golden.vocabulary]: 1 } }, `token ${golden.vocabulary}`],
      [[1], { stop: "" }, "stop string 0 is empty"],
      [[1], { stop: [3] }, "stop must be a text or a list of texts"],
      [[1], { stopIds: [-1] }, "stopIds must be a list of token ids"],
      [[1], { seed: -1 }, "seed must be a whole number from 0 on"],
      [[1], { temprature: 1 }, "generate() has no setting temprature; there are temperature, topK"],
      [[1], { system: "x" }, "a system message cannot be added to tokens"],
      [[1], { signal: 3 }, "signal must be an AbortSignal"],
      [[{ role: "user", content: "x" }], { raw: true }, "raw is for text"],
      [[{ role: "user" }, 3], {}, "messages[1] must be an object"],
      [[{ content: "x" }], {}, "messages[0] needs a role"],
    ];
    for (const [prompt, options, sentence] of wrong) {
      const error = await thrown(env, () => model.generate(prompt as number[], options));
      must(error.message.includes(sentence) && !error.message.includes("\n"), `"${error.message}" has "${sentence}"`);
    }
    same(await idsOf(model.generate(golden.prompt, { maxTokens: 2, stopIds })), golden.tokens.slice(0, 2), "the next");
  },

  saved_conversation_that_does_not_fit_is_refused_and_nothing_changes: async (env) => {
    const { model, golden } = await tinyOf(env);
    const session = model.session();
    await session.generate(golden.prompt, { maxTokens: 2, stopIds }).run();
    const { tokens } = session;
    const plain = await model.program.session();
    const noted = failureOf(env, session.restore(await plain.save("[1]")));
    says(await noted, "invalid_argument", "it has no token for each row");
    says(
      await failureOf(env, session.restore(await plain.save())),
      "invalid_argument",
      "not saved by a language model",
    );
    plain.dispose();
    says(
      await failureOf(env, session.rewind(tokens.length + 1)),
      "out_of_range",
      `${tokens.length} tokens are computed`,
    );
    says(await failureOf(env, session.rewind(-1)), "invalid_argument", "not to -1");
    same(session.tokens, tokens, "its tokens after that");
    await session.reset();
    same(session.tokens, [], "its tokens after a reset");
    session.dispose();
  },

  program_that_is_no_language_model_is_refused: (env) =>
    onKeptDevice(env, async (device) => {
      const files = {
        program: `${env.base}/files/programs/add/model.pte`,
        tokenizer: `${folder(env)}/tokenizer.json`,
        generation: `${folder(env)}/generation.json`,
      };
      const loading = env.generate.LanguageModel.load(files, { device, cache: false, candidates: 0 });
      says(await failureOf(env, loading), "unsupported", "this program is no language model: its inputs are others");
      const none = env.generate.LanguageModel.load(`${env.base}/files/programs/add`, { device, cache: false });
      says(await failureOf(env, none), "io", "generation.json cannot be read");
    }),
};

/** Those that a browser runs every day: what may differ there. */
export const browserGenerateChecks = [
  "tokens_are_those_of_eager_torch_through_rewind_fork_and_restore",
  "sampled_tokens_are_those_of_the_native_library",
  "abort_ends_an_answer_within_a_step_and_the_session_goes_on",
  "next_step_is_submitted_before_a_piece_is_handed_out",
  "messages_become_the_tokens_of_the_models_template",
];
