// Tokenizers that the library knows, with what it lacks: a length.

import { Tokenizer } from "@huggingface/tokenizers";

/** A text's tokens, so many at most. */
export type Tokenize = (text: string, most: number) => number[];

/** Of a tokenizer.json. */
export function parseTokenizer(file: string): Tokenize {
  const tokenizer = new Tokenizer(JSON.parse(file) as object, {});
  const bare = (text: string): number[] => tokenizer.encode(text, { add_special_tokens: false }).ids;
  // How many special tokens come before a text.
  const before = tokenizer.encode("a").ids.indexOf(bare("a")[0]!);
  return (text, most) => {
    // The library does so for other Chinese characters only.
    const spaced = text.replace(/[\u{20000}-\u{2fa1f}]/gu, " $& ");
    const { ids } = tokenizer.encode(spaced);
    if (ids.length <= most) return ids;
    // What lies between the special tokens is cut.
    const inside = bare(spaced);
    const after = ids.slice(before + inside.length);
    return [...ids.slice(0, before), ...inside.slice(0, most - before - after.length), ...after];
  };
}
