// The page that says what is in a picture, as examples/build_page.py --classify made it: `./test models` runs this, since
// the model's packages are only there.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { DemoPages, type PageOptions, shoot, textOf } from "../support/demo_pages.js";
import { pages as folder } from "../support/places.js";

const skip = process.env.NIBBLE_CLASSIFY === undefined && "only ./test models builds this page";
const pages = new DemoPages(["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]);
const onPage = (use: (page: Page) => Promise<void>, options: PageOptions = {}): Promise<void> =>
  pages.on("classify.html", options, use);

const first = (page: Page, way: string) => page.locator(`#${way} li`).first();
const note = (page: Page): Promise<string> => textOf(page, "#picture-note");

async function says(page: Page, what: string | RegExp): Promise<void> {
  for (const way of ["fp32", "int8"]) await first(page, way).filter({ hasText: what }).waitFor({ timeout: 120_000 });
}

test("page_names_pictures_from_files_and_by_dropping_them", { skip }, () =>
  onPage(async (page) => {
    await says(page, /cat$/);
    for (const way of ["fp32", "int8"]) {
      assert.equal(await page.locator(`#${way} li`).count(), 5);
      assert.match(await textOf(page, `#${way}-time`), /^\d+ ms$/);
    }
    assert.match(await note(page), /^chelsea\.png, 451 × 300$/);
    await shoot(page, "classify");

    await page.locator("#file").setInputFiles(join(folder, "coffee.png"));
    await says(page, "espresso");
    // What nibble.load says to the same pixels.
    assert.match((await first(page, "fp32").textContent()) ?? "", /^95\.\d%/);
    await page.getByRole("button", { name: "A motorcycle" }).click();
    await says(page, "moped");

    await page
      .locator("#file")
      .setInputFiles({ name: "note.png", mimeType: "image/png", buffer: Buffer.from("hello") });
    await page.waitForFunction(() => /no picture/.test(document.getElementById("picture-note")!.textContent ?? ""));
    assert.equal(await note(page), "note.png is no picture that this browser can read.");

    await page.evaluate(async () => {
      const blob = await (await fetch("rocket.jpg")).blob();
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([blob], "dropped.jpg"));
      document.getElementById("frame")!.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
    });
    await says(page, "missile");
    assert.match(await note(page), /^dropped\.jpg, 640 × 427$/);
  }),
);

test("camera_is_looked_at_until_it_is_stopped", { skip }, () =>
  onPage(async (page) => {
    await says(page, /cat$/);
    assert.ok(await page.locator("#no-camera").isHidden());
    await page.locator("#camera").click();
    await page.waitForFunction(() => document.getElementById("picture-note")!.textContent === "From the camera");
    await first(page, "int8").filter({ hasNotText: /cat$/ }).waitFor({ timeout: 120_000 });
    await shoot(page, "classify-camera");
    assert.equal(await page.locator("#camera").textContent(), "Stop the camera");
    assert.ok(await page.locator("#video").isVisible());
    await page.locator("#camera").click();
    assert.equal(await page.locator("#camera").textContent(), "Use the camera");
    assert.ok(await page.locator("#view").isVisible());
    await page.getByRole("button", { name: "Coffee" }).click();
    await says(page, "espresso");
  }),
);

test("page_says_that_there_is_no_camera", { skip }, () => {
  const script = (): void => {
    Object.defineProperty(Navigator.prototype, "mediaDevices", { value: undefined });
  };
  return onPage(
    async (page) => {
      await says(page, /cat$/);
      assert.ok(await page.locator("#camera").isHidden());
      assert.equal(await page.locator("#no-camera").textContent(), "There is no camera here.");
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 360, `the page is ${wide} wide`);
      await shoot(page, "classify-phone");
    },
    { scripts: [script], width: 360, scheme: "dark" },
  );
});
