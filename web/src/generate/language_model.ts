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
import { inFolder, readJson } from "./files.js";
import { type Facts, factsOf, Generator } from "./generator.js";
import { invalid } from "./settings.js";
import { ChatTemplate } from "./template.js";
import { TextModule } from "./text_module.js";
import { LoadedTextSession } from "./text_session.js";
import { ModelTokenizer } from "./tokenizer.js";

/** The device returns so many of the likeliest tokens. Most settings need no more; the others read all logits. */
const CANDIDATES = 64;

/** What generation.json says. */
interface Description {
  name?: string;
  program?: string;
  stop_ids: number[];
  /** Files that Python writes have null for what is not there. */
  bos_id?: number | null;
  eos_id?: number | null;
  add_bos?: boolean;
  chat_template?: string;
}

export async function loadLanguageModel(
  from: string | URL | LanguageModelFiles,
  options: LanguageModelOptions = {},
): Promise<LanguageModel> {
  const { device: given, textWasm, constraintWasm, signal, ...rest } = options;
  signal?.throwIfAborted();
  const files = filesOf(from);
  const description = describe(await readJson(files.generation, signal), String(files.generation));
  const program = typeof files.program === "function" ? files.program(description) : files.program;
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
  program: LanguageModelFiles["program"] | ((description: Description) => string);
};

function filesOf(from: string | URL | LanguageModelFiles): Files {
  if (typeof from === "string" || from instanceof URL) {
    const address = String(from);
    const isProgram = address.endsWith(".pte");
    const folder = isProgram ? address.replace(/[^/]*$/, "").replace(/\/$/, "") || "." : address;
    return {
      program: isProgram ? address : ({ program }) => inFolder(folder, program ?? "model.pte"),
      tokenizer: inFolder(folder, "tokenizer.json"),
      generation: inFolder(folder, "generation.json"),
    };
  }
  const { program, tokenizer, generation } = (from ?? {}) as Partial<LanguageModelFiles>;
  if (program === undefined || !tokenizer || !generation) {
    throw invalid("a language model is loaded from a folder's address, or from { program, tokenizer, generation }");
  }
  return { program, tokenizer, generation };
}

function describe(json: Record<string, unknown>, name: string): Description {
  const ids = json.stop_ids;
  if (!Array.isArray(ids) || !ids.every(Number.isSafeInteger)) {
    throw new NibbleError("invalid_program", `${name} must list stop_ids, numbers of tokens`);
  }
  return json as unknown as Description;
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
  private isDisposed = false;

  constructor(
    private readonly parts: Parts,
    readonly program: Model,
    readonly facts: Facts,
    /** A device that is closed with the model. */
    private readonly ownDevice: Device | undefined,
  ) {
    const { description } = parts;
    this.text = parts.text;
    this.tokenizer = parts.tokenizer;
    this.name = description.name ?? "a language model";
    this.stopIds = description.stop_ids;
    const { bos_id: bos, eos_id: eos, chat_template: template } = description;
    this.bos = description.add_bos && typeof bos === "number" ? [bos] : [];
    if (template) this.template = new ChatTemplate(template, this.tokenNames(bos, eos ?? this.stopIds[0]));
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
    return new LoadedTextSession(this, generator, gone);
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
      return Int32Array.from([...this.bos, ...this.tokenizer.encode(prompt)]);
    }
    const messages = typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt;
    if (!isMessages(messages)) {
      if (system !== undefined) throw invalid("a system message cannot be added to tokens");
      return takeTokens(messages);
    }
    if (!this.template) {
      throw new NibbleError("unsupported", "this model has no chat template, so it takes text but no messages");
    }
    const all = system === undefined ? messages : [{ role: "system", content: system }, ...messages];
    const tokens = this.tokenizer.encode(this.template.render(all));
    const hasBos = this.bos.every((token, i) => tokens[i] === token);
    return Int32Array.from(hasBos ? tokens : [...this.bos, ...tokens]);
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.own.dispose();
    this.program.dispose();
    this.ownDevice?.destroy();
  }

  private tokenNames(bos: number | null | undefined, eos: number | undefined): Record<string, string> {
    const names: Record<string, number | null | undefined> = { bos_token: bos, eos_token: eos };
    return Object.fromEntries(
      Object.entries(names).flatMap(([name, id]) =>
        typeof id === "number" ? [[name, this.tokenizer.nameOf(id)]] : [],
      ),
    );
  }
}

function isMessages(prompt: readonly Message[] | readonly number[]): prompt is readonly Message[] {
  return Array.isArray(prompt) && typeof prompt[0] === "object" && prompt[0] !== null;
}

function takeTokens(prompt: unknown): Int32Array {
  const list = Array.isArray(prompt) || ArrayBuffer.isView(prompt) ? Array.from(prompt as number[]) : undefined;
  if (!list?.every((token) => typeof token === "number" && Number.isInteger(token))) {
    throw invalid("a prompt must be text, messages or a list of token ids");
  }
  const place = list.findIndex((token) => token !== (token | 0));
  if (place >= 0) {
    throw new NibbleError("out_of_range", `token ${place} of the prompt is ${list[place]}, which is no token id`);
  }
  return Int32Array.from(list);
}
