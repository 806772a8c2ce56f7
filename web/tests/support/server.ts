// A file server that does what servers do: well, or badly, by the first part of the path.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { open, stat } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import type { AddressInfo } from "node:net";

/**
 * - `files`: ranges and an etag
 * - `untold`: ranges, but nothing that tells versions apart
 * - `hidden`: ranges, but it does not tell which
 * - `shifted-N`: from request number N on a range begins one byte later, and says so
 * - `paged`: ranges in a unit that nobody asked for
 * - `whole`: no ranges
 * - `partial-N`: no ranges, but from request number N on the whole is called a part
 * - `unsized`: no ranges, and no length
 * - `short-N`: only the first N bytes are there, as if that were all
 * - `dropped-N`: the connection ends after N bytes of a range or file
 * - `changing-N`: another etag from the request number N on; requests are counted by address, its query included
 * - `altered-N`: the same etag, but from request number N on every byte is another
 * - `slow`: about a megabyte a second
 */
type Behaviour = { kind: string; number: number };

export interface Served {
  path: string;
  range: string;
  bytes: number;
}

const types: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".wasm": "application/wasm",
};

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed) return resolve();
    const done = (): void => {
      response.off("drain", done).off("close", done);
      resolve();
    };
    response.on("drain", done).on("close", done);
  });
}

export class TestServer {
  /** All requests, in order. */
  readonly log: Served[] = [];
  private readonly counts = new Map<string, number>();
  private readonly server = createServer((request, response) => {
    this.answer(request, response).catch(() => response.destroy());
  });

  /** `folders` are what the second part of a path may be, and where it lies. */
  constructor(private readonly folders: Record<string, string>) {}

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://localhost:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** Bytes of bodies that were sent for paths with `part` since the log had `from` entries. */
  bytesOf(part: string, from = 0): number {
    return this.log.slice(from).reduce((sum, { path, bytes }) => sum + (path.includes(part) ? bytes : 0), 0);
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const [, first = "", folder = "", ...rest] = decodeURIComponent(pathname).split("/");
    const [, kind = "", number = "0"] = /^([a-z]+)(?:-(\d+))?$/.exec(first) ?? [];
    const behaviour = { kind, number: Number(number) };
    const root = this.folders[folder];
    const path = normalize(join(root ?? "/", ...rest));
    const facts = root !== undefined && path.startsWith(root) ? await stat(path).catch(() => undefined) : undefined;
    const entry: Served = { path: pathname, range: request.headers.range ?? "", bytes: 0 };
    this.log.push(entry);
    if (!facts?.isFile()) {
      response.writeHead(404).end("not here");
      return;
    }
    const counted = request.url ?? "";
    const nth = this.counts.get(counted) ?? 0;
    this.counts.set(counted, nth + 1);
    await this.send(request, response, path, facts.size, behaviour, nth, entry);
  }

  private async send(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    fileSize: number,
    { kind, number }: Behaviour,
    nth: number,
    entry: Served,
  ): Promise<void> {
    const size = kind === "short" ? Math.min(number, fileSize) : fileSize;
    const isPartial = kind === "partial" && nth >= number;
    const range = ["whole", "unsized", "partial"].includes(kind) ? null : /^bytes=(\d+)-(\d*)$/.exec(entry.range);
    const from = range ? Number(range[1]) + (kind === "shifted" && nth >= number ? 1 : 0) : 0;
    const to = Math.min(range?.[2] ? Number(range[2]) + 1 : size, size);
    const headers: Record<string, string> = {
      "content-type": types[extname(path)] ?? "application/octet-stream",
      "cache-control": "no-store",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-embedder-policy": "require-corp",
    };
    if (kind !== "untold") headers.etag = kind === "changing" && nth >= number ? '"second"' : '"first"';
    if (range && from >= to) {
      response.writeHead(416, { ...headers, "content-range": `bytes */${size}` }).end();
      return;
    }
    if (kind !== "unsized") headers["content-length"] = String(to - from);
    const unit = kind === "paged" ? "pages" : "bytes";
    if (range && kind !== "hidden") headers["content-range"] = `${unit} ${from}-${to - 1}/${size}`;
    response.writeHead(range || isPartial ? 206 : 200, headers);
    if (request.method === "HEAD") {
      response.end();
      return;
    }
    const step = kind === "slow" ? 1 << 14 : 1 << 18;
    const file = await open(path);
    try {
      for (let at = from; at < to && !response.destroyed;) {
        if (kind === "dropped" && entry.bytes >= number) {
          response.destroy();
          return;
        }
        const most = kind === "dropped" ? Math.min(step, number - entry.bytes) : step;
        const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(most, to - at)), 0, undefined, at);
        if (bytesRead === 0) break;
        const chunk = buffer.subarray(0, bytesRead);
        if (kind === "altered" && nth >= number) for (let i = 0; i < bytesRead; ++i) chunk[i]! ^= 0x11;
        at += bytesRead;
        entry.bytes += bytesRead;
        if (!response.write(chunk)) await drained(response);
        if (kind === "slow") await new Promise((resolve) => setTimeout(resolve, 16));
      }
      response.end();
    } finally {
      await file.close();
    }
  }
}
