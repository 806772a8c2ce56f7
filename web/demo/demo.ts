// The page that searches: loads an encoder, turns the text's passages into vectors in the background, and ranks them as
// one types.

import { open, type Device, type Progress } from "nibble";
import sample from "../../examples/lines.txt";
import { Encoder, planBatches } from "./encoder.js";
import {
  element,
  makeHit,
  megabytes,
  retryButton,
  showDevice,
  showFailure,
  showOpening,
  showProgress,
} from "./page.js";
import { rank, splitPassages } from "./search.js";
import { keepPage } from "./stored.js";

const FIRST_QUESTION = "How do I keep my plants alive on holiday?";
const MOST_RESULTS = 10;
/** Milliseconds between two looks at a ranking that is still growing. */
const REFRESH = 100;
/** A question waits for at most one batch. */
const BATCH = 8;
/** Passages are sorted by length among this many at a time, so that the first results come soon. */
const WINDOW = 256;

const modelField = element<HTMLSelectElement>("model");
const questionField = element<HTMLInputElement>("question");
const textField = element<HTMLTextAreaElement>("text");

interface Ready {
  device: Device;
  encoder: Encoder;
}

let ready: Ready | undefined;
/** Ends the load that is under way. */
let loading = new AbortController();
let passages: string[] = [];
/** Per passage; undefined for those without tokens. They outlive a lost device, but not another model. */
const vectors = new Map<string, Float32Array | undefined>();
/** The model that they are from. */
let vectorsModel = "";
/** What was last asked, once it has its vector. */
let target: { vector: Float32Array; milliseconds: number } | undefined;
/** Counts up, so that what was begun for an older text or question knows that it is old. */
let textVersion = 0;
let questionVersion = 0;

async function start(): Promise<void> {
  end();
  const { signal } = (loading = new AbortController());
  showOpening();
  const name = modelField.value;
  element("loading-label").textContent = `Loading ${name}`;
  if (vectorsModel !== name) {
    vectors.clear();
    element("results").replaceChildren();
  }
  vectorsModel = name;
  let device: Device | undefined;
  try {
    device = await open();
    const opened = device;
    showDevice(device);
    const began = performance.now();
    let last: Progress | undefined;
    const onProgress = (progress: Progress): void => {
      last = progress;
      showProgress(progress, (performance.now() - began) / 1000);
    };
    const encoder = await Encoder.load(name, device, onProgress, signal);
    signal.throwIfAborted();
    ready = { device, encoder };
    void device.lost.then((error) => {
      if (ready?.device === opened) fail(error);
    });
    showFacts(last, (performance.now() - began) / 1000);
    element("loading").hidden = true;
    // The question first: what was read before a device was lost can be ranked at once.
    await Promise.all([ask(), readText()]);
    await keepPage();
  } catch (error) {
    if (!signal.aborted) fail(error);
    device?.destroy();
  }
}

/** Ends what runs. */
function end(): void {
  loading.abort();
  const ended = ready;
  ready = target = undefined;
  ended?.encoder.dispose();
  ended?.device.destroy();
}

/** Ends what runs, and says what happened and what to do. */
function fail(error: unknown): void {
  end();
  showFailure(error);
}

/** Turns the passages that are new into vectors, a few at a time. */
async function readText(): Promise<void> {
  const version = ++textVersion;
  passages = splitPassages(textField.value);
  const wanted = new Set(passages);
  for (const passage of vectors.keys()) if (!wanted.has(passage)) vectors.delete(passage);
  const unread = passages.filter((passage) => !vectors.has(passage));
  let shown = performance.now();
  for (let start = 0; start < unread.length; start += WINDOW) {
    const current = ready;
    if (!current) return;
    const texts = unread.slice(start, start + WINDOW);
    const tokens = texts.map((text) => current.encoder.tokenize(text));
    for (const [i, ids] of tokens.entries()) if (ids.length === 0) vectors.set(texts[i]!, undefined);
    const most = Math.min(BATCH, current.encoder.batch);
    for (const batch of planBatches(
      tokens.map(({ length }) => length),
      most,
    )) {
      const made = await encodeIn(
        current,
        batch.map((i) => tokens[i]!),
      );
      if (!made || version !== textVersion || ready !== current) return;
      for (const [i, row] of batch.entries()) vectors.set(texts[row]!, made[i]);
      if (performance.now() - shown < REFRESH) continue;
      element("text-note").textContent = `Read ${vectors.size} of ${passages.length} passages.`;
      showResults();
      shown = performance.now();
    }
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
  const tokens = question === "" ? [] : current.encoder.tokenize(question);
  const made = tokens.length > 0 ? await encodeIn(current, [tokens]) : [];
  // The newest question wins.
  if (!made || version !== questionVersion || ready !== current) return;
  target = made[0] && { vector: made[0], milliseconds: 0 };
  showResults(began);
}

/** Undefined if it failed, which has been told then. */
async function encodeIn(current: Ready, texts: number[][]): Promise<Float32Array[] | undefined> {
  try {
    return await current.encoder.encode(texts);
  } catch (error) {
    if (ready === current) fail(error);
    return undefined;
  }
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

/** The address names the model, so that it can be kept and sent. */
function takeModelFromAddress(): void {
  const wanted = new URLSearchParams(location.search).get("model");
  const options = Array.from(modelField.options, ({ value }) => value);
  modelField.value = wanted !== null && options.includes(wanted) ? wanted : options[0]!;
}

takeModelFromAddress();
// A reloaded page keeps what was typed.
textField.value ||= sample.trimEnd();
questionField.value ||= FIRST_QUESTION;
modelField.addEventListener("change", () => {
  history.replaceState(null, "", `?model=${modelField.value}`);
  void start();
});
questionField.addEventListener(
  "input",
  debounce(() => ask().catch(fail), 60),
);
textField.addEventListener(
  "input",
  debounce(() => readText().catch(fail), 250),
);
retryButton.addEventListener("click", () => {
  questionField.focus(); // the button goes away
  void start();
});
void start();
