// A sentence encoder with its tokenizer: texts to vectors of length one, as nibble.Encoder gives them in Python.

import { load, NibbleError, type Device, type Model, type Progress } from "nibble";
import { parseTokenizer, type Tokenize } from "./library_tokenizer.js";
import { fetchFile } from "./page.js";
import { Tokenizer } from "./tokenizer.js";

/** Texts of one batch differ in length by at most a quarter and this many tokens: padding costs as much as text. */
const SLACK = 8;

/** The models that a page may have, by the names of their folders. */
const TOKENIZERS: Record<string, (folder: string) => Promise<Tokenize>> = {
  wordllama: async (folder) => {
    const tokenizer = Tokenizer.parse(await (await fetchFile(`${folder}/vocabulary.txt`)).text());
    return (text, most) => tokenizer.encode(text).slice(0, most);
  },
  minilm: async (folder) => parseTokenizer(await (await fetchFile(`${folder}/tokenizer.json`)).text()),
};

/** Which texts go together: of like length, at most so many, the longest first. Those without tokens are left out. */
export function planBatches(lengths: readonly number[], most: number): number[][] {
  const order = [...lengths.keys()].filter((i) => lengths[i]! > 0).sort((a, b) => lengths[b]! - lengths[a]!);
  const batches: number[][] = [];
  for (let start = 0; start < order.length;) {
    const shortest = ((lengths[order[start]!]! - SLACK) * 4) / 5;
    const batch = order.slice(start, start + most).filter((i) => lengths[i]! >= shortest);
    batches.push(batch);
    start += batch.length;
  }
  return batches;
}

export class Encoder {
  private constructor(
    readonly name: string,
    private readonly model: Model,
    private readonly tokenizer: Tokenize,
  ) {}

  /** From the folder of this name beside the page. */
  static async load(
    name: string,
    device: Device,
    onProgress: (progress: Progress) => void,
    signal: AbortSignal,
  ): Promise<Encoder> {
    const tokenizerOf = Object.hasOwn(TOKENIZERS, name) ? TOKENIZERS[name] : undefined;
    if (!tokenizerOf) throw new NibbleError("invalid_argument", `there is no model "${name}"`);
    const tokenizer = tokenizerOf(name);
    tokenizer.catch(() => undefined); // reported below, if the program does not fail before
    const options = { device, inputs: ["ids", "mask"], outputs: ["vectors"], onProgress, signal };
    const model = await load(`${name}/model.pte`, options);
    try {
      return new Encoder(name, model, await tokenizer);
    } catch (error) {
      model.dispose();
      throw error;
    }
  }

  /** The most texts of one call. */
  get batch(): number {
    return this.model.inputs[0]!.shape[0]!;
  }

  tokenize(text: string): number[] {
    return this.tokenizer(text, this.model.inputs[0]!.shape[1]!);
  }

  /** A vector for each text, whose tokens these are; each must have some. */
  async encode(texts: readonly (readonly number[])[]): Promise<Float32Array[]> {
    const length = Math.max(...texts.map((ids) => ids.length));
    const shape = [texts.length, length];
    const ids = new Int32Array(texts.length * length);
    const mask = new Float32Array(ids.length);
    for (const [row, text] of texts.entries()) {
      ids.set(text, row * length);
      mask.fill(1, row * length, row * length + text.length);
    }
    const { vectors } = await this.model.run({ ids: { data: ids, shape }, mask: { data: mask, shape } });
    const [all, width] = [vectors!.data as Float32Array, vectors!.shape[1]!];
    return texts.map((_, row) => all.slice(row * width, (row + 1) * width));
  }

  dispose(): void {
    this.model.dispose();
  }
}
