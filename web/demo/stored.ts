// What this browser stores of the pages: their files, for visits without a network, and the weights of their models.

import { findFile, isKeptFile, keepFile, PAGES_CACHE } from "./kept_files.js";
import { element, megabytes } from "./page.js";

/** nibble keeps weights under this name unless told otherwise. */
const WEIGHTS_CACHE = "nibble";

const forgetButton = element<HTMLButtonElement>("forget");

/** To be called when the page has fetched all that it needs. */
export async function keepPage(): Promise<void> {
  let isWhole = false;
  try {
    await navigator.serviceWorker?.register("offline.js");
    // What was fetched before the worker was there.
    const fetched = performance.getEntriesByType("resource").map(({ name }) => name);
    isWhole = true;
    for (const address of new Set([location.href, ...fetched])) {
      if (isKeptFile(address, location.origin) && !(await findFile(address))) {
        await keepFile(address, await fetch(address));
      }
      isWhole &&= await isKept(address);
    }
  } catch {
    // Storage may be switched off, and the network gone: then this visit is not kept.
    isWhole = false;
  }
  await showStored(isWhole);
}

/** Whether a file of the page, or a program that was loaded, is stored as a whole. */
async function isKept(address: string): Promise<boolean> {
  if (isKeptFile(address, location.origin)) return (await findFile(address)) !== undefined;
  const { origin, pathname } = new URL(address);
  if (origin !== location.origin || !pathname.endsWith(".pte")) return true;
  // nibble keeps the beginning of a program last.
  const keys = await (await caches.open(WEIGHTS_CACHE)).keys();
  return keys.some(({ url }) => {
    const key = new URL(url);
    return key.pathname === pathname && (key.searchParams.get("nibble-range") ?? "").startsWith("0-");
  });
}

async function showStored(isWhole: boolean): Promise<void> {
  const bytes = await storedBytes().catch(() => 0);
  const what = `This browser stores ${megabytes(bytes)} of these pages and their models`;
  element("stored").textContent =
    bytes === 0
      ? "This browser stores nothing of these pages."
      : isWhole
        ? `${what}: they open without a network.`
        : `${what}, but not all of it: without a network they do not open.`;
  forgetButton.hidden = bytes === 0;
}

async function storedBytes(): Promise<number> {
  let bytes = 0;
  for (const name of [PAGES_CACHE, WEIGHTS_CACHE]) {
    // Opening one that is not there would make it.
    if (!(await caches.has(name))) continue;
    const cache = await caches.open(name);
    for (const request of await cache.keys()) {
      const response = await cache.match(request);
      // Of a file that came compressed, the header has another length.
      const length = response?.headers.has("content-encoding") ? null : response?.headers.get("content-length");
      bytes += length ? Number(length) : ((await response?.blob())?.size ?? 0);
    }
  }
  return bytes;
}

async function forget(): Promise<void> {
  forgetButton.disabled = true;
  try {
    const worker = await navigator.serviceWorker?.getRegistration();
    await worker?.unregister();
    await Promise.all([PAGES_CACHE, WEIGHTS_CACHE].map((name) => caches.delete(name)));
  } catch {
    // Then the sentence still says how much there is.
  }
  forgetButton.disabled = false;
  await showStored(false);
  if (forgetButton.hidden) element("stored").focus(); // else the focus would be nowhere
}

forgetButton.addEventListener("click", () => void forget());
