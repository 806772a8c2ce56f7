// The pages of web/demo in Chromium, as examples/build_page.py made them; screenshots are kept in build/web/screenshots.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after } from "node:test";
import type { Page } from "playwright-core";
import { type Browser, launch } from "./chromium.js";
import { makeServer, root } from "./places.js";

export const screenshots = join(root, "build", "web", "screenshots");

export interface PageOptions {
  /** Run before the page's own script. */
  scripts?: (() => void)[];
  /** Another server. */
  base?: string;
  width?: number;
  scheme?: "light" | "dark";
}

export interface OpenPage {
  page: Page;
  complaints: string[];
}

/** A browser and a server for the tests of a file, from the first that needs them. */
export class DemoPages {
  readonly server = makeServer();
  private started: Promise<{ browser: Browser; base: string }> | undefined;

  constructor(private readonly flags: readonly string[] = []) {
    after(async () => {
      await (await this.started)?.browser.close();
      this.server.stop();
    });
  }

  private async start(): Promise<{ browser: Browser; base: string }> {
    mkdirSync(screenshots, { recursive: true });
    return { base: await this.server.start(), browser: await launch(...this.flags) };
  }

  /** Opens an address of the pages' folder. `complaints`: the page must not fail, nor ask anyone else. */
  async open(address: string, options: PageOptions = {}): Promise<OpenPage> {
    const started = await (this.started ??= this.start());
    const base = options.base ?? started.base;
    const page = await started.browser.context.newPage();
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => {
      const url = request.url();
      if (!/^(data|blob):/.test(url) && !url.startsWith(base)) complaints.push(`a request to ${url}`);
    });
    await page.setViewportSize({ width: options.width ?? 1100, height: 900 });
    await page.emulateMedia({ colorScheme: options.scheme ?? "light" });
    for (const script of options.scripts ?? []) await page.addInitScript(script);
    await page.goto(`${base}/files/demo/${address}`);
    return { page, complaints };
  }

  /** A page of another server. */
  async blank(address: string): Promise<Page> {
    const { browser } = await (this.started ??= this.start());
    const page = await browser.context.newPage();
    await page.goto(address);
    return page;
  }

  /** Opens a page, does something there, and closes it. */
  async on(address: string, options: PageOptions, use: (page: Page) => Promise<void>): Promise<void> {
    const { page, complaints } = await this.open(address, options);
    try {
      await use(page);
      assert.deepEqual(complaints, []);
    } finally {
      await page.close();
    }
  }
}

/** For `PageOptions.scripts`: leaves the device that the page opened last as `lastDevice`. */
export function exposeDevice(): void {
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...parameters) {
    const device = await request.apply(this, parameters);
    Object.assign(globalThis, { lastDevice: device });
    return device;
  };
}

/** For `PageOptions.scripts`: results come back slowly, so that there is time to look at an answer, and to stop it. */
export function slowDevice(): void {
  const map = GPUBuffer.prototype.mapAsync;
  GPUBuffer.prototype.mapAsync = async function (...parameters) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    return map.apply(this, parameters);
  };
}

export async function loseDevice(page: Page): Promise<void> {
  await page.evaluate(() => (globalThis as unknown as { lastDevice: GPUDevice }).lastDevice.destroy());
}

export const textOf = async (page: Page, selector: string): Promise<string> =>
  (await page.locator(selector).textContent()) ?? "";

export function shoot(page: Page, name: string): Promise<Buffer> {
  return page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true });
}

/** What makes a page unreadable: it is wider than the window, its fields make phones zoom, text or edges are pale. */
export async function checkReadable(page: Page, field: string): Promise<void> {
  const { wide, window, size, pale } = await page.evaluate(findUnreadable, field);
  assert.ok(wide <= window, `the page is ${wide} wide, but the window ${window}`);
  assert.ok(size >= 16, `text fields of ${size} px make phones zoom`);
  assert.deepEqual(pale, []);
}

/** Runs on the page. */
function findUnreadable(field: string): { wide: number; window: number; size: number; pale: string[] } {
  const channelsOf = (colour: string): number[] => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const isClear = (colour: string): boolean => colour === "transparent" || channelsOf(colour)[3] === 0;
  const luminance = (colour: string): number => {
    const [red, green, blue] = channelsOf(colour)
      .slice(0, 3)
      .map((channel) => {
        const value = channel / 255;
        return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
      });
    return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
  };
  const contrast = (one: string, other: string): number => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light! + 0.05) / (dark! + 0.05);
  };
  const groundOf = (start: Element | null): string => {
    for (let at = start; at; at = at.parentElement) {
      const { backgroundColor } = getComputedStyle(at);
      if (!isClear(backgroundColor)) return backgroundColor;
    }
    return "rgb(255, 255, 255)";
  };
  const pale: string[] = [];
  const check = (element: Element, what: string, value: number, least: number): void => {
    if (!(value >= least))
      pale.push(`${what} of ${element.tagName}#${element.id} has a contrast of ${value.toFixed(2)}`);
  };
  for (const element of document.querySelectorAll<HTMLElement>("body, body *")) {
    if (!element.checkVisibility() || element.matches(":disabled")) continue;
    const { color, borderTopColor, borderTopWidth } = getComputedStyle(element);
    const hasText = Array.from(element.childNodes).some(
      (node) => node.nodeType === Node.TEXT_NODE && node.textContent!.trim(),
    );
    if (hasText || element.matches("input, textarea, select"))
      check(element, "the text", contrast(color, groundOf(element)), 4.5);
    if (
      element.matches("textarea, select, input:not([type=range], [type=file]), button.quiet") &&
      parseFloat(borderTopWidth) > 0
    ) {
      check(element, "the edge", contrast(borderTopColor, groundOf(element.parentElement)), 3);
    }
  }
  return {
    wide: document.documentElement.scrollWidth,
    window: innerWidth,
    size: parseFloat(getComputedStyle(document.querySelector(field)!).fontSize),
    pale,
  };
}
