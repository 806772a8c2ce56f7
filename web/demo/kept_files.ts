// Which files of the pages are kept for a visit without their server, and where. The service worker offline.ts and the
// pages themselves share this.

export const PAGES_CACHE = "nibble-pages";

/** Programs are not among them: nibble keeps those itself, in parts. */
export function isKeptFile(address: string, origin: string): boolean {
  const url = new URL(address);
  return url.origin === origin && !url.pathname.endsWith(".pte");
}

/** What a file is kept by: a page is the same whatever its query says. */
export function keyOf(address: string): string {
  const url = new URL(address);
  return url.origin + (url.pathname.endsWith("/") ? `${url.pathname}index.html` : url.pathname);
}

/** Keeps a file if there is room. */
export async function keepFile(address: string, response: Response): Promise<void> {
  if (response.status !== 200) return;
  const cache = await caches.open(PAGES_CACHE);
  // A full disk is no reason to fail: the network still has the file.
  await cache.put(keyOf(address), response).catch(() => undefined);
}

export async function findFile(address: string): Promise<Response | undefined> {
  return (await caches.open(PAGES_CACHE)).match(keyOf(address));
}
