// Language models: a program with its tokenizer and its chat template.

import { load, NibbleError, open } from "#nibble";
import type {
  GenerateOptions,
  Generation,
  LanguageModel,
  LanguageModelFiles,
  LanguageModelOptions,
  Message,
  Prompt,
  TextSession,
} from "../generate_types.js";
import type { Device, Model, WasmSource } from "../types.js";
import { type Constraint, Constraints } from "./constraint_module.js";
import { describe, type Description } from "./description.js";
import { inFolder, readJson } from "./files.js";
import { type Facts, factsOf, Generator } from "./generator.js";
import { checkedText, invalid } from "./settings.js";
import { ChatTemplate } from "./template.js";
import { TextModule } from "./text_module.js";
import { LoadedTextSession } from "./text_session.js";
import { ModelTokenizer } from "./tokenizer.js";

/** The device returns so many of the likeliest tokens. Most settings need no more; the others read all logits. */
const CANDIDATES = 64;

export async function loadLanguageModel(
  from: string | URL | LanguageModelFiles,
  options: LanguageModelOptions = {},
): Promise<LanguageModel> {
  const { device: given, textWasm, constraintWasm, signal, ...rest } = options;
  signal?.throwIfAborted();
  const files = filesOf(from);
  const description = describe(await readJson(files.generation, signal), files.place, files.name);
  const program = typeof files.program === "function" ? files.program(description.program) : files.program;
  const [text, tokenizer] = await Promise.all([TextModule.load(textWasm), readJson(files.tokenizer, signal)]);
  const named = typeof files.tokenizer === "string" ? files.tokenizer : "the tokenizer";
  const parts = { text, description, tokenizer: new ModelTokenizer(tokenizer, named), constraintWasm };
  const device = given ?? (await open());
  let model: Model | undefined;
  try {
    const candidates = rest.candidates ?? CANDIDATES;
    model = await load(program, { ...rest, ...(signal ? { signal } : {}), device, candidates });
    return new LoadedLanguageModel(parts, model, factsOf(model, candidates), given ? undefined : device);
  } catch (error) {
    model?.dispose();
    if (!given) device.destroy();
    throw error;
  }
}

type Files = Omit<LanguageModelFiles, "program"> & {
  program: LanguageModelFiles["program"] | ((name: string) => string);
  /** The program's name, if the caller gave it. */
  name?: string;
  /** What errors call generation.json. */
  place: string;
};

function filesOf(from: string | URL | LanguageModelFiles): Files {
  if (typeof from === "string" || from instanceof URL) {
    const address = String(from);
    const name = /[^/]*\.pte$/.exec(address)?.[0];
    const folder = name === undefined ? address : address.slice(0, -name.length).replace(/\/$/, "") || ".";
    const generation = inFolder(folder, "generation.json");
    return {
      program: name === undefined ? (own) => inFolder(folder, own) : address,
      tokenizer: inFolder(folder, "tokenizer.json"),
      generation,
      place: generation,
      ...(name === undefined ? {} : { name }),
    };
  }
  const { program, tokenizer, generation } = (from ?? {}) as Partial<LanguageModelFiles>;
  if (program === undefined || !tokenizer || !generation) {
    throw invalid("a language model is loaded from a folder's address, or from { program, tokenizer, generation }");
  }
  const isPlace = typeof generation === "string" || generation instanceof URL;
  return { program, tokenizer, generation, place: isPlace ? String(generation) : "the description" };
}

/** What a model is made of, beside its program. */
interface Parts {
  text: TextModule;
  description: Description;
  tokenizer: ModelTokenizer;
  constraintWasm: WasmSource | undefined;
}

export class LoadedLanguageModel implements LanguageModel {
  readonly name: string;
  readonly tokenizer: ModelTokenizer;
  readonly stopIds: readonly number[];
  readonly text: TextModule;
  private readonly bos: readonly number[];
  private readonly template: ChatTemplate | undefined;
  private readonly own: LoadedTextSession;
  private constraints: Promise<Constraints> | undefined;
  /** How many sessions are not disposed yet. */
  private open = 0;
  private isDisposed = false;

  constructor(
    private readonly parts: Parts,
    readonly program: Model,
    readonly facts: Facts,
    /** A device that is closed with the model's last session. */
    private readonly ownDevice: Device | undefined,
  ) {
    const { description } = parts;
    this.text = parts.text;
    this.tokenizer = parts.tokenizer;
    const { name, stopIds, bosId, eosId, addsBos, chatTemplate } = description;
    this.name = name;
    this.stopIds = stopIds;
    this.bos = addsBos ? [bosId!] : [];
    if (chatTemplate !== undefined) this.template = new ChatTemplate(chatTemplate, this.tokenNames(bosId, eosId));
    const generator = new Generator(this.text, facts, program.own);
    this.own = this.adopt(Promise.resolve(generator), "the model is disposed: load it again");
  }

  get context(): number {
    return this.facts.context;
  }

  get device(): Device {
    return this.program.device;
  }

  generate(prompt: Prompt, options?: GenerateOptions): Generation {
    return this.own.generate(prompt, options);
  }

  session(): TextSession {
    const made = this.program.session().then((session) => new Generator(this.text, this.facts, session));
    return this.adopt(made);
  }

  adopt(generator: Promise<Generator>, gone = "the session is disposed: make another"): LoadedTextSession {
    ++this.open;
    return new LoadedTextSession(this, generator, gone);
  }

  /** A session is disposed. */
  release(): void {
    if (--this.open === 0) this.ownDevice?.destroy();
  }

  /** Loads what it needs when it is first asked for, and again after a failure. */
  async constrain(grammar: string): Promise<Constraint> {
    const { vocabulary } = this.facts;
    const load = (): Promise<Constraints> =>
      Constraints.load(this.parts.constraintWasm, this.tokenizer.allBytes(vocabulary), this.stopIds);
    try {
      return (await (this.constraints ??= load())).make(grammar);
    } catch (error) {
      const loaded = await this.constraints?.catch(() => undefined);
      if (!loaded || loaded.isStopped) this.constraints = undefined;
      throw error;
    }
  }

  tokensOf(prompt: Prompt, options: Pick<GenerateOptions, "system" | "raw"> = {}): number[] {
    return Array.from(this.promptOf(prompt, options));
  }

  promptOf(prompt: Prompt, { system, raw }: { system?: string | undefined; raw?: boolean | undefined }): Int32Array {
    if (typeof prompt === "string" && (raw || !this.template)) {
      if (system !== undefined) {
        throw invalid("a system message needs a chat template, which this prompt does not use");
      }
      return takeTokens([...this.bos, ...this.tokenizer.encode(checkedText("the prompt", prompt))]);
    }
    const messages = typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt;
    if (!isMessages(messages)) {
      if (system !== undefined) throw invalid("a system message cannot be added to tokens");
      return takeTokens(messages);
    }
    if (raw) throw invalid("messages are written by the chat template: raw is for text");
    if (!this.template) {
      throw new NibbleError("unsupported", "this model has no chat template, so it takes text but no messages");
    }
    const all = system === undefined ? messages : [{ role: "system", content: system }, ...messages];
    const tokens = this.tokenizer.encode(this.template.render(all));
    const hasBos = this.bos.every((token, i) => tokens[i] === token);
    return takeTokens(hasBos ? tokens : [...this.bos, ...tokens]);
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.own.dispose();
    this.program.dispose();
  }

  private tokenNames(bos: number | undefined, eos: number | undefined): Record<string, string> {
    const names: Record<string, string> = {};
    if (bos !== undefined) names.bos_token = this.tokenizer.nameOf(bos);
    if (eos !== undefined) names.eos_token = this.tokenizer.nameOf(eos);
    return names;
  }
}

function isMessages(prompt: readonly Message[] | readonly number[]): prompt is readonly Message[] {
  return Array.isArray(prompt) && typeof prompt[0] === "object" && prompt[0] !== null;
}

function takeTokens(prompt: unknown): Int32Array {
  const isList = Array.isArray(prompt) || (ArrayBuffer.isView(prompt) && !(prompt instanceof DataView));
  const list = isList ? Array.from(prompt as readonly number[]) : undefined;
  if (!list?.every((token) => typeof token === "number" && Number.isInteger(token))) {
    throw invalid("a prompt must be text, messages or a list of token ids");
  }
  const place = list.findIndex((token) => token !== (token | 0));
  if (place >= 0) {
    throw new NibbleError("out_of_range", `token ${place} of the prompt is ${list[place]}, which is no token id`);
  }
  return Int32Array.from(list);
}
