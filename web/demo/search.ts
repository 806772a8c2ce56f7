// Passages of a text, the vectors that stand for them, and which are closest to a question.

/** Lines longer than this are taken sentence by sentence. */
const LONG_LINE = 240;
/** More characters than the program's longest input can stand for. */
const LONGEST = 20_000;

export interface Hit {
  text: string;
  /** The cosine of the angle to the question: 1 is the same direction. */
  score: number;
}

/** What is searched: a text's lines, long ones by sentence, each once. */
export function splitPassages(text: string): string[] {
  const passages = new Set<string>();
  const sentences = new Intl.Segmenter(undefined, { granularity: "sentence" });
  for (const line of text.split(/[\r\n\u2028\u2029]+/)) {
    const parts = line.length > LONG_LINE ? Array.from(sentences.segment(line), ({ segment }) => segment) : [line];
    for (const part of parts) {
      const passage = part.trim().slice(0, LONGEST);
      if (passage !== "") passages.add(passage);
    }
  }
  return [...passages];
}

/** The passages closest to a question, best first; those without a vector are left out. Vectors have length one. */
export function rank(
  question: Float32Array,
  passages: readonly string[],
  vectors: ReadonlyMap<string, Float32Array | undefined>,
  most: number,
): Hit[] {
  const hits: Hit[] = [];
  for (const text of passages) {
    const vector = vectors.get(text);
    if (!vector) continue;
    let score = 0;
    for (let i = 0; i < vector.length; ++i) score += vector[i]! * question[i]!;
    hits.push({ text, score });
  }
  return hits.sort((a, b) => b.score - a.score).slice(0, most);
}
