// A model's tokenizer, by the library @huggingface/tokenizers, and the bytes that each token stands for.

import { Tokenizer as Library } from "@huggingface/tokenizers";
import { NibbleError } from "#nibble";
import type { Tokenizer } from "../generate_types.js";
import { failed } from "./files.js";
import { invalid } from "./settings.js";

interface Added {
  id: number;
  content: string;
  special?: boolean;
}

type ToBytes = (word: string) => Uint8Array;

const encoder = new TextEncoder();
const nothing = new Uint8Array(0);

export class ModelTokenizer implements Tokenizer {
  private readonly library: Library;
  private readonly added: Map<number, Added>;
  private readonly toBytes: ToBytes;
  private readonly known = new Map<number, Uint8Array>();

  /** `described` is a tokenizer.json; `name` what errors call it. */
  constructor(described: Record<string, unknown>, name: string) {
    try {
      checkVocabulary(described.model);
      // Unlike Python's library it wants to be told what is not there.
      const all = { normalizer: null, post_processor: null, decoder: null, ...described };
      this.library = new Library({ ...all, pre_tokenizer: mended(described.pre_tokenizer) ?? null }, {});
      this.library.encode("a");
      this.added = addedOf(described.added_tokens);
      this.toBytes = wayToBytes(described.decoder, name);
    } catch (error) {
      if (error instanceof NibbleError) throw error;
      throw failed("invalid_program", `${name} is no tokenizer`, error);
    }
  }

  encode(text: string): number[] {
    const ids = this.idsOf(text);
    const place = ids.findIndex((id) => !Number.isSafeInteger(id) || id < 0 || id >= 2 ** 31);
    if (place < 0) return ids;
    throw invalid(`the tokenizer has no token for a part of this text: number ${place} of its tokens`);
  }

  private idsOf(text: string): number[] {
    try {
      return [...this.library.encode(text, { add_special_tokens: false }).ids];
    } catch (error) {
      throw failed("invalid_argument", "the tokenizer fails on this text", error);
    }
  }

  /** What a token adds to the text: nothing for a special one, or one that the tokenizer does not know. */
  bytesOf(token: number): Uint8Array {
    let bytes = this.known.get(token);
    if (!bytes) this.known.set(token, (bytes = this.makeBytes(token)));
    return bytes;
  }

  /** Those of all tokens below a number. */
  allBytes(count: number): Uint8Array[] {
    return Array.from({ length: count }, (_, token) => this.makeBytes(token));
  }

  private makeBytes(token: number): Uint8Array {
    const added = this.added.get(token);
    if (added) return added.special ? nothing : encoder.encode(added.content);
    const word = this.library.id_to_token(token);
    return word === undefined ? nothing : this.toBytes(word);
  }

  decode(tokens: readonly number[]): string {
    const parts = tokens.map((token) => this.bytesOf(token));
    const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  }

  /** A token as people write it, special ones too. */
  nameOf(token: number): string {
    return this.library.id_to_token(token) ?? `<${token}>`;
  }
}

/** Whether each word has a number, or as SentencePiece has it, a score. */
function checkVocabulary(model: unknown): void {
  const { vocab } = (model ?? {}) as { vocab?: unknown };
  const words = typeof vocab === "object" && vocab !== null ? Object.values(vocab) : [];
  const isWord = Array.isArray(vocab) ? Array.isArray : Number.isSafeInteger;
  if (words.length === 0 || !words.every(isWord)) throw new Error("its model has no vocabulary");
}

function addedOf(given: unknown): Map<number, Added> {
  const list = given ?? [];
  const isAdded = (one: unknown): one is Added =>
    Number.isSafeInteger((one as Partial<Added> | null)?.id) && typeof (one as Added).content === "string";
  if (!Array.isArray(list) || !list.every(isAdded)) throw new Error("its added_tokens are no list of tokens");
  return new Map(list.map((token) => [token.id, token]));
}

interface PreTokenizer {
  type?: string;
  individual_digits?: boolean;
  add_prefix_space?: boolean;
  use_regex?: boolean;
  pretokenizers?: unknown[];
}

/** The rule of ByteLevel. */
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const isolate = (Regex: string): object => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false });

/**
 * Rules of which the library has its own idea, as patterns, which it reads as Python's does: its Digits know no numerals
 * such as ² and ½, and the spaces of its ByteLevel are those of JavaScript, with U+FEFF and without U+0085.
 */
function mended(given: unknown): unknown {
  const { type, individual_digits, add_prefix_space, use_regex, pretokenizers } = (given ?? {}) as PreTokenizer;
  if (type === "Sequence") return { ...(given as object), pretokenizers: pretokenizers?.map(mended) };
  if (type === "Digits") return isolate(individual_digits ? "\\p{N}" : "\\p{N}+");
  if (type !== "ByteLevel" || use_regex === false || add_prefix_space) return given;
  return { type: "Sequence", pretokenizers: [isolate(GPT2), { ...(given as object), use_regex: false }] };
}

/** A function from a token's word to its bytes, as the tokenizer's decoder has it. */
function wayToBytes(decoder: unknown, name: string): ToBytes {
  const { type, decoders } = (decoder ?? {}) as { type?: string; decoders?: { type: string }[] };
  const kinds = type === "Sequence" ? (decoders ?? []).map((part) => part.type) : type === undefined ? [] : [type];
  if (kinds.includes("ByteLevel")) return byteLevel;
  if (kinds.includes("ByteFallback") || kinds.includes("Metaspace")) return sentencePiece;
  throw new NibbleError(
    "unsupported",
    `${name} has a decoder of kind ${[...new Set(kinds)].sort().join(", ") || "none"}, but it must be ByteLevel, ` +
      "ByteFallback or Metaspace",
  );
}

/** Byte-level tokenizers write each byte as a letter: printable ones as themselves, the others from U+0100 on. */
const bytesOfLetters = ((): Map<string, number> => {
  const isPlain = (byte: number): boolean =>
    (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte < 0xad) || (byte > 0xad && byte < 0x100);
  const bytes = Array.from({ length: 256 }, (_, byte) => byte);
  const others = bytes.filter((byte) => !isPlain(byte));
  return new Map(bytes.map((byte) => [String.fromCharCode(isPlain(byte) ? byte : 0x100 + others.indexOf(byte)), byte]));
})();

function byteLevel(word: string): Uint8Array {
  const bytes = Array.from(word, (letter) => bytesOfLetters.get(letter));
  return bytes.every((byte) => byte !== undefined) ? Uint8Array.from(bytes) : encoder.encode(word);
}

function sentencePiece(word: string): Uint8Array {
  const byte = /^<0x([0-9a-f]{2})>$/i.exec(word);
  return byte ? Uint8Array.of(parseInt(byte[1]!, 16)) : encoder.encode(word.replaceAll("\u2581", " "));
}
