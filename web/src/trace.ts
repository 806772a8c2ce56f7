// What a device's loads and calls did, as a file.

import type { TraceEvent } from "./types.js";

/** A trace in the format that chrome://tracing and Perfetto read. */
export function chromeTrace(events: readonly TraceEvent[]): string {
  // Viewers take thread 0 for an idle processor.
  const tid = (thread: number): number => thread || 1000;
  const threads = [...new Set(events.map(({ thread }) => thread))];
  return JSON.stringify({
    traceEvents: [
      ...threads.map((thread) => {
        const name = thread ? `host${thread > 1 ? ` ${thread}` : ""}` : "GPU";
        return { ph: "M", pid: 1, tid: tid(thread), name: "thread_name", args: { name } };
      }),
      ...events.map(({ name, kernel, node, thread, start, duration }) => {
        const cat = thread ? "host" : "gpu";
        return { ph: "X", pid: 1, tid: tid(thread), ts: start, dur: duration, cat, name, args: { kernel, node } };
      }),
    ],
  });
}
