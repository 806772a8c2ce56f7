// What a visitor can do about an error, by its kind.

import { NibbleError } from "nibble";

export interface Advice {
  title: string;
  /** What happened, in one sentence; empty where the title says it all. */
  detail: string;
  steps: string[];
  /** What the button says that tries again. */
  button: string;
}

/** What an error says, as a sentence. */
export function sentenceOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.charAt(0).toUpperCase() + message.slice(1) + (/[.!?]$/.test(message) ? "" : ".");
}

export function adviceFor(error: unknown): Advice {
  const code = error instanceof NibbleError ? error.code : "";
  // What Nibble says then is for those who write pages.
  return { detail: code === "no_webgpu" ? "" : sentenceOf(error), button: "Try again", ...adviceByCode(code) };
}

function adviceByCode(code: string): { title: string; steps: string[]; button?: string } {
  switch (code) {
    case "no_webgpu":
      return isSecureContext
        ? {
            title: "This browser has no WebGPU",
            steps: [
              "Use a current Chrome or Edge (113 or newer), Safari (26 or newer) or Firefox (141 or newer).",
              "In an older Safari, switch WebGPU on under Settings, Feature Flags.",
            ],
          }
        : {
            title: "WebGPU needs a secure page",
            steps: [`Open this page over https, or from localhost: now it is at ${location.origin}.`],
          };
    case "no_adapter":
      return {
        title: "No GPU can be used",
        steps: [
          "Switch hardware acceleration on in the browser's settings, under System, and restart the browser.",
          "Update the graphics driver; chrome://gpu tells what the browser thinks of it.",
          "On Linux, Chrome may want chrome://flags/#enable-unsafe-webgpu.",
        ],
      };
    case "device_lost":
      return {
        title: "The GPU is gone",
        steps: [
          "Drivers restart, laptops sleep, GPUs are unplugged: reopening is quick, as its files come from this browser's cache.",
          "If it happens again and again, close other pages that use the GPU, or restart the browser.",
        ],
        button: "Reopen",
      };
    case "out_of_memory":
      return {
        title: "There is not enough memory",
        steps: ["Close other tabs and programs that use the GPU, then try again."],
      };
    case "io":
      return {
        title: "A file could not be read",
        steps: ["Check the connection to the server of this page, then try again: what has arrived is kept."],
      };
    case "invalid_program":
      return {
        title: "A file is damaged",
        steps: ["Try again. If it stays so, the server's copy is broken: build the page anew."],
      };
    default:
      return { title: "Something went wrong", steps: ["Try again, or reload the page."] };
  }
}
