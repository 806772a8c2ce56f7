// The pages' service worker: gives back what a page has kept when its server cannot be reached. Else the server's word
// counts, and renews what was kept, so that whoever builds the pages anew never sees an old one. Files that no page has kept
// are left alone: the same address may serve others another day.

import { findFile, isKeptFile, keepFile } from "./kept_files.js";

declare const self: ServiceWorkerGlobalScope;

self.addEventListener("install", () => void self.skipWaiting());
// The page that is open is the first to be served.
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method === "GET" && isKeptFile(request.url, self.location.origin)) event.respondWith(answer(event));
});

async function answer(event: FetchEvent): Promise<Response> {
  const { request } = event;
  try {
    const response = await fetch(request);
    event.waitUntil(renew(request.url, response.clone()));
    return response;
  } catch (error) {
    const kept = await findFile(request.url);
    if (kept) return kept;
    throw error;
  }
}

/** Not by a file of another kind: networks that want a visitor to log in answer everything with a page of theirs. */
async function renew(address: string, response: Response): Promise<void> {
  const kept = await findFile(address);
  const kind = (one: Response | undefined): string | undefined => one?.headers.get("content-type")?.split(";")[0];
  if (kept && !response.redirected && kind(kept) === kind(response)) await keepFile(address, response);
}
