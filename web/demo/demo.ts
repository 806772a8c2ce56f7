// The page: loads the table once, embeds the text's passages in the background, and ranks them as one types.

import { load, open, type Device, type Model, type Progress } from "nibble";
import sample from "../../examples/lines.txt";
import {
  element,
  fetchFile,
  makeHit,
  megabytes,
  retryButton,
  showDevice,
  showFailure,
  showOpening,
  showProgress,
} from "./page.js";
import { rank, splitPassages, unit } from "./search.js";
import { Tokenizer } from "./tokenizer.js";

const PROGRAM = "wordllama-q4.pte";
const VOCABULARY = "vocabulary.txt";
const FIRST_QUESTION = "How do I keep my plants alive on holiday?";
const MOST_RESULTS = 10;
/** Milliseconds between two looks at a ranking that is still growing. */
const REFRESH = 100;

const questionField = element<HTMLInputElement>("question");
const textField = element<HTMLTextAreaElement>("text");

interface Ready {
  device: Device;
  model: Model;
  tokenizer: Tokenizer;
}

let ready: Ready | undefined;
let vocabulary: Promise<Tokenizer> | undefined;
let passages: string[] = [];
/** Per passage; undefined for those without tokens. They outlive a lost device: the table is the same. */
const vectors = new Map<string, Float32Array | undefined>();
/** What was last asked, once it has its vector. */
let target: { vector: Float32Array; milliseconds: number } | undefined;
/** Counts up, so that what was begun for an older text or question knows that it is old. */
let textVersion = 0;
let questionVersion = 0;

async function start(): Promise<void> {
  showOpening();
  let device: Device | undefined;
  try {
    const tokenizer = fetchVocabulary();
    tokenizer.catch(() => undefined); // reported below, if nothing else fails before
    device = await open();
    const opened = device;
    showDevice(device);
    const began = performance.now();
    let last: Progress | undefined;
    const model = await load(PROGRAM, {
      device,
      inputs: ["ids"],
      outputs: ["mean"],
      onProgress: (progress) => {
        last = progress;
        showProgress(progress, (performance.now() - began) / 1000);
      },
    });
    ready = { device, model, tokenizer: await tokenizer };
    void device.lost.then((error) => {
      if (ready?.device === opened) fail(error);
    });
    showFacts(last, (performance.now() - began) / 1000);
    element("loading").hidden = true;
    // The question first: what was read before a device was lost can be ranked at once.
    await Promise.all([ask(), readText()]);
  } catch (error) {
    ready = undefined;
    fail(error);
    device?.destroy();
  }
}

function fetchVocabulary(): Promise<Tokenizer> {
  const download = async (): Promise<Tokenizer> => Tokenizer.parse(await (await fetchFile(VOCABULARY)).text());
  vocabulary ??= download().catch((error: unknown) => {
    vocabulary = undefined;
    throw error;
  });
  return vocabulary;
}

/** Ends what runs, and says what happened and what to do. */
function fail(error: unknown): void {
  ready?.model.dispose();
  ready = undefined;
  showFailure(error);
}

async function embed(text: string, { model, tokenizer }: Ready): Promise<Float32Array | undefined> {
  const most = model.inputs[0]!.shape[1]!;
  const ids = tokenizer.encode(text).slice(0, most);
  if (ids.length === 0) return undefined;
  const { mean } = await model.run({ ids: { data: ids, shape: [1, ids.length] } });
  return unit(mean!.data as Float32Array);
}

/** Embeds the passages that are new, one at a time, so that a question never waits for more than one. */
async function readText(): Promise<void> {
  const version = ++textVersion;
  passages = splitPassages(textField.value);
  const wanted = new Set(passages);
  for (const passage of vectors.keys()) if (!wanted.has(passage)) vectors.delete(passage);
  let shown = performance.now();
  for (const [i, passage] of passages.entries()) {
    if (vectors.has(passage)) continue;
    const current = ready;
    if (!current) return;
    const vector = await embed(passage, current).catch((error: unknown) => failIn(current, error));
    if (version !== textVersion || ready !== current) return;
    vectors.set(passage, vector);
    if (performance.now() - shown < REFRESH) continue;
    element("text-note").textContent = `Read ${i + 1} of ${passages.length} passages.`;
    showResults();
    shown = performance.now();
  }
  element("text-note").textContent = `${passages.length} ${passages.length === 1 ? "passage" : "passages"}.`;
  showResults();
}

async function ask(): Promise<void> {
  const version = ++questionVersion;
  const current = ready;
  if (!current) return;
  const began = performance.now();
  const question = questionField.value.trim();
  const vector = await embed(question, current).catch((error: unknown) => failIn(current, error));
  // The newest question wins.
  if (version !== questionVersion || ready !== current) return;
  target = vector && { vector, milliseconds: 0 };
  showResults(began);
}

function failIn(current: Ready, error: unknown): undefined {
  if (ready === current) fail(error);
}

/** Ranks what has been read; `began`: when the question was asked. */
function showResults(began?: number): void {
  const hits = target ? rank(target.vector, passages, vectors, MOST_RESULTS) : [];
  if (target && began !== undefined) target.milliseconds = performance.now() - began;
  element("results").replaceChildren(
    ...hits.map(({ text, score }) => {
      const share = Math.max(0, Math.min(1, score)) * 100;
      const item = makeHit(`${share.toFixed(1)}%`, score.toFixed(3), text);
      (item.firstChild as HTMLElement).title = "how close, at most 1";
      return item;
    }),
  );
  element("status").textContent = target
    ? `${hits.length} closest of ${passages.length}, found in ${target.milliseconds.toFixed(1)} ms`
    : "Ask something.";
}

function showFacts(progress: Progress | undefined, seconds: number): void {
  if (!progress) return;
  const origin = progress.cached === progress.total ? " from this browser's cache" : "";
  element("facts").textContent = ` · ${megabytes(progress.total)} loaded${origin} in ${seconds.toFixed(1)} s`;
}

/** Calls once the calls to it pause for that long. */
function debounce(call: () => unknown, milliseconds: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(call, milliseconds);
  };
}

// A reloaded page keeps what was typed.
textField.value ||= sample.trimEnd();
questionField.value ||= FIRST_QUESTION;
questionField.addEventListener("input", debounce(ask, 60));
textField.addEventListener("input", debounce(readText, 250));
retryButton.addEventListener("click", () => {
  questionField.focus(); // the button goes away
  void start();
});
void start();
