// The tokenizer of the table that the page searches with: byte-pair encoding over a whole text, words and all.
//
// The vocabulary alone is enough: two neighbours may become one piece if that piece is in the vocabulary, and which goes
// first follows from the pieces' ids. (build_page.py checks that, where it writes the vocabulary.)

/** Pieces that stand for themselves where a text has them; their ids are 0, 1 and 2. */
const SPECIAL = ["<unk>", "<s>", "</s>"];
/** Then come the 256 bytes, for characters that are no piece. */
const FIRST_BYTE = SPECIAL.length;
const FIRST_PIECE = FIRST_BYTE + 256;
const SPACE = "\u2581";

/** A merge is one number: the pieces' order, the left piece's id, the place; the smallest is next. 53 bits in all. */
const IDS = 2 ** 15;
const PLACES = 2 ** 22;

export class Tokenizer {
  private readonly ids = new Map<string, number>();
  /** Per piece: when it is made. Runs of spaces come after everything else. */
  private readonly order: Int32Array;

  /** All pieces, by id. */
  constructor(private readonly pieces: readonly string[]) {
    if (pieces.length > IDS) throw new RangeError(`a vocabulary has at most ${IDS} pieces, this one ${pieces.length}`);
    this.order = new Int32Array(pieces.length);
    for (let id = FIRST_PIECE; id < pieces.length; ++id) {
      const piece = pieces[id]!;
      this.ids.set(piece, id);
      this.order[id] = piece.replaceAll(SPACE, "") === "" ? IDS + id : id;
    }
  }

  /** From a file with one piece per line. */
  static parse(file: string): Tokenizer {
    return new Tokenizer(file.split("\n"));
  }

  encode(text: string): number[] {
    const parts = text.split(/(<unk>|<s>|<\/s>)/).filter((part) => part !== "");
    return parts.flatMap((part) => {
      const special = SPECIAL.indexOf(part);
      return special >= 0 ? [special] : this.merge(this.split(SPACE + part.replaceAll(" ", SPACE)));
    });
  }

  /** Characters, and the bytes of those that are no piece. */
  private split(text: string): number[] {
    const ids: number[] = [];
    for (const character of text) {
      const id = this.ids.get(character);
      if (id !== undefined) ids.push(id);
      else for (const byte of new TextEncoder().encode(character)) ids.push(FIRST_BYTE + byte);
    }
    return ids;
  }

  private merge(symbols: number[]): number[] {
    const count = symbols.length;
    if (count > PLACES) throw new RangeError(`a text has at most ${PLACES} characters, this one ${count}`);
    const gone = -1;
    const next = Int32Array.from(symbols, (_, i) => i + 1);
    const previous = Int32Array.from(symbols, (_, i) => i - 1);
    const waiting = new Heap();

    const mergedAt = (place: number): number | undefined => {
      const after = next[place]!;
      if (after >= count) return undefined;
      return this.ids.get(this.pieces[symbols[place]!]! + this.pieces[symbols[after]!]!);
    };
    const keyOf = (place: number, merged: number): number =>
      (this.order[merged]! * IDS + symbols[place]!) * PLACES + place;
    const offer = (place: number): void => {
      const merged = mergedAt(place);
      if (merged !== undefined) waiting.push(keyOf(place, merged));
    };

    for (let place = 0; place < count; ++place) offer(place);
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
      const place = key % PLACES;
      if (symbols[place] === gone) continue;
      const merged = mergedAt(place);
      // What stood here when the merge was offered may have become part of another piece.
      if (merged === undefined || keyOf(place, merged) !== key) continue;
      const taken = next[place]!;
      symbols[place] = merged;
      symbols[taken] = gone;
      next[place] = next[taken]!;
      if (next[place]! < count) previous[next[place]!] = place;
      offer(place);
      if (previous[place]! >= 0) offer(previous[place]!);
    }
    return symbols.filter((symbol) => symbol !== gone);
  }
}

/** Gives back its smallest number first. */
class Heap {
  private readonly keys: number[] = [];

  push(key: number): void {
    const { keys } = this;
    let at = keys.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (keys[parent]! <= key) break;
      keys[at] = keys[parent]!;
      at = parent;
    }
    keys[at] = key;
  }

  pop(): number | undefined {
    const { keys } = this;
    const smallest = keys[0];
    const key = keys.pop();
    if (key === undefined || keys.length === 0) return smallest;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= keys.length) break;
      if (child + 1 < keys.length && keys[child + 1]! < keys[child]!) ++child;
      if (keys[child]! >= key) break;
      keys[at] = keys[child]!;
      at = child;
    }
    keys[at] = key;
    return smallest;
  }
}
