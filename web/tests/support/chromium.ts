// Debian's Chromium with WebGPU on SwiftShader.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";
import type { Answer, Calls } from "../browser/page.js";

const flags = [
  "--headless=new",
  "--no-sandbox",
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];

export interface Browser {
  context: BrowserContext;
  close(): Promise<void>;
}

/** A browser that nobody has used before. */
export async function launch(...moreFlags: string[]): Promise<Browser> {
  const executablePath = execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
  const profile = mkdtempSync(join(tmpdir(), "nibble-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: false, // the new headless mode, by the flag, is the whole browser
    args: [...flags, ...moreFlags],
    ignoreDefaultArgs: ["--disable-gpu", "--enable-unsafe-swiftshader"],
  });
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** A page of tests: what its calls throw is thrown here. */
export class TestPage {
  private constructor(
    readonly page: Page,
    private readonly how: "answer" | "answerInWorker",
  ) {}

  static async open(context: BrowserContext, base: string, inWorker = false): Promise<TestPage> {
    const page = await context.newPage();
    await page.goto(`${base}/files/pages/page.html`);
    await page.waitForFunction(() => "answer" in globalThis);
    return new TestPage(page, inWorker ? "answerInWorker" : "answer");
  }

  async call<Name extends keyof Calls>(
    name: Name,
    ...parameters: Parameters<Calls[Name]>
  ): Promise<Awaited<ReturnType<Calls[Name]>>> {
    const answer = await this.page.evaluate(
      ([how, message]) => (globalThis as unknown as Record<string, (what: unknown) => Promise<Answer>>)[how]!(message),
      [this.how, { name, parameters }] as const,
    );
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer.result as Awaited<ReturnType<Calls[Name]>>;
  }
}
