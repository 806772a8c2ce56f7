// The page that chats: loads a language model, keeps a conversation, and shows answers as they are written.

import { open, type Device, type Progress } from "nibble";
import { LanguageModel, type Generation, type GenerateOptions, type Message } from "nibble/generate";
import { sentenceOf } from "./advice.js";
import { Conversation } from "./conversation.js";
import { element, megabytes, retryButton, showDevice, showFailure, showOpening, showProgress } from "./page.js";
import { keepPage } from "./stored.js";

/** A folder as `nibble import` writes it; the address may name another. */
const FOLDER = new URLSearchParams(location.search).get("model") ?? "chat";
/** Above temperature 0, an answer is drawn from so many tokens. */
const TOP_K = 40;

const composer = element<HTMLFormElement>("composer");
const messageField = element<HTMLTextAreaElement>("message");
const systemField = element<HTMLTextAreaElement>("system");
const schemaField = element<HTMLTextAreaElement>("schema");
const temperatureField = element<HTMLInputElement>("temperature");
const sendButton = element<HTMLButtonElement>("send");
const stopButton = element<HTMLButtonElement>("stop");
const conversation = new Conversation(element("log"), composer);

interface Ready {
  device: Device;
  model: LanguageModel;
}

let ready: Ready | undefined;
/** They outlive a lost device. */
let messages: Message[] = [];
/** The answer that is being written. */
let answering: { stop: AbortController; done: Promise<void> } | undefined;

async function start(): Promise<void> {
  showOpening();
  let device: Device | undefined;
  try {
    device = await open();
    const opened = device;
    showDevice(device);
    const began = performance.now();
    let last: Progress | undefined;
    const model = await LanguageModel.load(FOLDER, {
      device,
      onProgress: (progress) => {
        last = progress;
        showProgress(progress, (performance.now() - began) / 1000);
      },
    });
    ready = { device, model };
    void device.lost.then((error) => {
      if (ready?.device === opened) fail(error);
    });
    element("name").textContent = model.name;
    showFacts(last, (performance.now() - began) / 1000);
    element("loading").hidden = true;
    element("status").textContent = "The model is ready.";
    showTurn();
    await keepPage();
  } catch (error) {
    fail(error);
    device?.destroy();
  }
}

/** Ends what runs, and says what happened and what to do. */
function fail(error: unknown): void {
  answering?.stop.abort();
  const ended = ready;
  ready = undefined;
  ended?.model.dispose();
  showTurn();
  showFailure(error);
}

function showFacts(progress: Progress | undefined, seconds: number): void {
  if (!progress) return;
  const origin = progress.cached === progress.total ? " from this browser's cache" : "";
  element("facts").textContent = ` · ${megabytes(progress.total)} loaded${origin} in ${seconds.toFixed(1)} s`;
}

/** Whose turn it is: one sends, or stops. */
function showTurn(): void {
  const isAnswering = answering !== undefined;
  const [shown, gone] = isAnswering ? [stopButton, sendButton] : [sendButton, stopButton];
  // The one that goes away hands its focus to the one in its place.
  const hadFocus = document.activeElement === gone;
  sendButton.disabled = !ready;
  gone.hidden = true;
  shown.hidden = false;
  if (hadFocus) shown.focus();
}

function showProblem(sentence: string): void {
  element("problem").textContent = sentence;
  element("problem").hidden = sentence === "";
}

function send(): void {
  const text = messageField.value.trim();
  if (text === "" || answering) return;
  if (!ready) {
    element("status").textContent = "The model is not loaded yet.";
    return;
  }
  messageField.value = "";
  showProblem("");
  const stop = new AbortController();
  answering = { stop, done: answer(text, ready, stop.signal) };
  showTurn();
  void answering.done.finally(() => {
    answering = undefined;
    showTurn();
  });
}

/** Takes a message, and keeps it together with the answer, or neither. */
async function answer(text: string, { model }: Ready, signal: AbortSignal): Promise<void> {
  const own = conversation.addOwn(text);
  const writing = conversation.begin("Model");
  const asked: Message[] = [...messages, { role: "user", content: text }];
  element("status").textContent = "Writing an answer.";
  let problem: unknown;
  let written = "";
  let generation: Generation | undefined;
  try {
    generation = model.generate(asked, { ...settings(), signal });
    for await (const piece of generation) {
      written += piece.text;
      writing.add(piece.text);
      showFigures(generation);
    }
    showFigures(generation);
  } catch (error) {
    // What was written until it was stopped stays.
    if (!signal.aborted) problem = error;
  }
  element("status").textContent = "";
  if (problem === undefined && (written !== "" || !signal.aborted)) {
    messages = [...asked, { role: "assistant", content: written }];
    writing.finish(generation ? noteOf(generation, signal) : "");
    if (schemaField.value.trim() !== "") void keepPage(); // what schemas need was fetched just now
    return;
  }
  own.remove();
  writing.remove();
  if (signal.aborted) element("status").textContent = "Stopped before the answer began.";
  // To be sent again, or changed.
  messageField.value = messageField.value === "" ? text : `${text}\n${messageField.value}`;
  if (problem !== undefined && ready?.model === model) showProblem(sentenceOf(problem));
}

function settings(): GenerateOptions {
  const temperature = Number(temperatureField.value);
  const system = systemField.value.trim();
  const schema = schemaField.value.trim();
  return {
    temperature,
    ...(temperature === 0 ? {} : { topK: TOP_K }),
    // A model has a system prompt of its own, unless there is another.
    ...(system === "" ? {} : { system }),
    ...(schema === "" ? {} : { jsonSchema: schema }),
  };
}

/** How an answer ended, if that is not plain. */
function noteOf(generation: Generation, signal: AbortSignal): string {
  if (signal.aborted) return "Stopped.";
  if (generation.finishReason === "length")
    return "The conversation is as long as the model can read: begin a new chat.";
  return generation.text === "" ? "The model has nothing to say." : "";
}

/** So far, or in the end. */
function showFigures({ stats }: Generation): void {
  const seconds = (stats.timeToFirstTokenMs / 1000).toFixed(2);
  const rate = stats.generatedTokensPerSecond;
  const tokens = stats.generatedTokens === 1 ? "1 token" : `${stats.generatedTokens} tokens`;
  element("figures").textContent =
    `${tokens}${rate ? ` at ${rate.toFixed(1)} tokens/s` : ""}, the first after ${seconds} s; ` +
    `${stats.promptTokens} tokens before them, of which ${stats.cachedTokens} were known`;
}

async function beginAnew(): Promise<void> {
  answering?.stop.abort();
  await answering?.done;
  messages = [];
  conversation.clear();
  showProblem("");
  element("figures").textContent = "";
  element("status").textContent = "A new chat.";
  messageField.focus();
}

/** While a word is composed from several keys, each key is part of it. Safari tells so by the number 229. */
function isComposing(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}

messageField.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
  event.preventDefault();
  send();
});
composer.addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !isComposing(event)) answering?.stop.abort();
});
stopButton.addEventListener("click", () => answering?.stop.abort());
element("new").addEventListener("click", () => void beginAnew());
temperatureField.addEventListener("input", showTemperature);
retryButton.addEventListener("click", () => {
  messageField.focus(); // the button goes away
  void start();
});

function showTemperature(): void {
  element("temperature-value").textContent = Number(temperatureField.value).toFixed(1);
}

// A reloaded page keeps what was set.
showTemperature();
void start();
