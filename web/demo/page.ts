// What the pages share: their elements, files, progress and failures.

import { NibbleError, type Device, type Progress } from "nibble";
import { adviceFor } from "./advice.js";

export const element = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;

const progressBar = element<HTMLProgressElement>("progress");
export const retryButton = element<HTMLButtonElement>("retry");

export function make(tag: string, text: string): HTMLElement {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

/** An item of a ranking: its bar, its number, its text. */
export function makeHit(share: string, score: string, text: string): HTMLElement {
  const item = make("li", "");
  item.style.setProperty("--share", share);
  const number = make("span", score);
  number.className = "score";
  item.append(number, make("span", text));
  return item;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export async function fetchFile(name: string): Promise<Response> {
  const response = await fetch(name).catch((error: unknown) => {
    throw new NibbleError("io", `${name} could not be fetched: ${String(error)}`, { cause: error });
  });
  if (!response.ok) throw new NibbleError("io", `the server answered ${response.status} for ${name}`);
  return response;
}

export function showOpening(): void {
  element("error").hidden = true;
  element("loading").hidden = false;
  element("loaded").textContent = "Opening the GPU";
  progressBar.removeAttribute("value");
}

export function showDevice({ name, kind }: Device): void {
  element("device").textContent = `On ${name}${kind === "cpu" ? " (in software)" : ""}`;
}

/** With the speed, if it is told for how long. */
export function showProgress({ loaded, total, cached }: Progress, seconds = 0): void {
  progressBar.max = Math.max(total, 1);
  progressBar.value = loaded;
  const speed = loaded > cached && seconds > 0 ? `, ${megabytes((loaded - cached) / seconds)}/s` : "";
  const origin = cached > 0 ? `, ${megabytes(cached)} from this browser's cache` : "";
  const next = loaded === total ? "; preparing the GPU" : ""; // which takes its time where kernels are new
  element("loaded").textContent = `${megabytes(loaded)} of ${megabytes(total)}${speed}${origin}${next}`;
}

/** Says what happened and what to do. */
export function showFailure(error: unknown): void {
  const advice = adviceFor(error);
  element("error-title").textContent = advice.title;
  element("error-detail").textContent = advice.detail;
  element("error-steps").replaceChildren(...advice.steps.map((step) => make("li", step)));
  retryButton.textContent = advice.button;
  element("loading").hidden = true;
  element("error").hidden = false;
}
