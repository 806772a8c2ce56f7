// Chat templates: how a model wants a conversation written. By the library @huggingface/jinja, whose templates reach
// nothing but what they are given.

import { Environment, Interpreter, Template } from "@huggingface/jinja";
import type { Message } from "../generate_types.js";
import { failed } from "./files.js";
import { checkedText, invalid } from "./settings.js";

/** A template's own word against a conversation. */
class Refused extends Error {}

/** What a template may do at most: far more than one needs for all that a context holds. */
const MOST_STEPS = 1_000_000;
const MOST_SIZE = 2 ** 24;

/** Templates come with models: one that would never end, or take all memory, shall not. */
class Bounded extends Interpreter {
  private steps = 0;

  override evaluate(...given: Parameters<Interpreter["evaluate"]>): ReturnType<Interpreter["evaluate"]> {
    if (++this.steps > MOST_STEPS) throw new Error("it takes too many steps");
    const result = super.evaluate(...given);
    const { value } = result as { value: unknown };
    if ((typeof value === "string" || Array.isArray(value)) && value.length > MOST_SIZE) {
      throw new Error("it makes something too large");
    }
    return result;
  }
}

/** A Jinja template of the kind that models carry. One that fails is an error, never another format. */
export class ChatTemplate {
  private readonly parsed: Template["parsed"];

  /** `tokens`: the names of special tokens, such as { bos_token: "<s>" }. */
  constructor(
    text: string,
    private readonly tokens: Readonly<Record<string, string>>,
  ) {
    try {
      this.parsed = new Template(text).parsed;
    } catch (error) {
      throw failed("invalid_program", "the chat template cannot be read", error);
    }
  }

  /** The conversation as the model wants it, up to where its answer begins. */
  render(messages: readonly Message[]): string {
    checkMessages(messages);
    try {
      const environment = new Environment();
      const values = { ...globals, ...this.tokens, messages: structuredClone(messages), add_generation_prompt: true };
      for (const [name, value] of Object.entries(values)) environment.set(name, value);
      return checkedText("it", String((new Bounded(environment).run(this.parsed) as { value: unknown }).value));
    } catch (error) {
      const how = error instanceof Refused ? "refuses" : "fails on";
      throw failed("invalid_argument", `the chat template ${how} these messages`, error);
    }
  }
}

const globals = {
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  raise_exception: (message: string): never => {
    throw new Refused(message);
  },
  range: (first: number, second?: number, step = 1): number[] => {
    const [begin, end] = second === undefined ? [0, first] : [first, second];
    const length = Math.max(0, Math.ceil((end - begin) / step));
    if (length > MOST_SIZE) throw new Error(`range() of ${length} numbers is too large`);
    return Array.from({ length }, (_, i) => begin + i * step);
  },
  strftime_now: (form: string): string => formatDate(form, new Date()),
};

/** As Python writes dates, in English whatever the page's language is. */
function formatDate(form: string, date: Date): string {
  const named = (options: Intl.DateTimeFormatOptions): string => date.toLocaleDateString("en-US", options);
  const two = (number: number): string => String(number).padStart(2, "0");
  const parts: Record<string, () => string> = {
    "%Y": () => String(date.getFullYear()),
    "%y": () => two(date.getFullYear() % 100),
    "%m": () => two(date.getMonth() + 1),
    "%d": () => two(date.getDate()),
    "%B": () => named({ month: "long" }),
    "%b": () => named({ month: "short" }),
    "%A": () => named({ weekday: "long" }),
    "%a": () => named({ weekday: "short" }),
    "%H": () => two(date.getHours()),
    "%M": () => two(date.getMinutes()),
    "%S": () => two(date.getSeconds()),
    "%%": () => "%",
  };
  return form.replace(/%./g, (part) => {
    if (!parts[part]) throw new Error(`strftime_now() does not know ${part}`);
    return parts[part]();
  });
}

/** One sentence about the first message that is none. */
function checkMessages(messages: unknown): asserts messages is readonly Message[] {
  if (!Array.isArray(messages)) throw invalid("messages must be a list");
  if (messages.length === 0) throw invalid("messages must hold at least one message, but it is empty");
  (messages as unknown[]).forEach((message, place) => {
    if (typeof message !== "object" || message === null) {
      throw invalid(`messages[${place}] must be an object, but it is ${message === null ? "null" : typeof message}`);
    }
    const { role, content } = message as Partial<Message>;
    if (typeof role !== "string") throw invalid(`messages[${place}] needs a role, such as 'user'`);
    if (content !== undefined && content !== null && typeof content !== "string" && !Array.isArray(content)) {
      throw invalid(`messages[${place}].content must be text, but it is ${typeof content}`);
    }
  });
}
