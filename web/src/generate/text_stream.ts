// Bytes of tokens to text: whole characters, and nothing of a stop string. src/generate/text_stream.hpp.

import type { TextModule } from "./text_module.js";

export class TextStream {
  private readonly at: number;

  constructor(
    private readonly text: TextModule,
    stops: readonly string[],
  ) {
    const bytes = stops.map((stop) => new TextEncoder().encode(stop));
    this.at = text.withArrays(bytes, (...places) => {
      const list = Uint32Array.from(places.flatMap((place, i) => [place, bytes[i]!.length]));
      return text.withArrays([list], (at) => text.call((e) => e.nibble_stream_new(at!, stops.length)));
    });
  }

  free(): void {
    this.text.run((e) => e.nibble_stream_free(this.at));
  }

  /** Takes a token's bytes; gives what can be handed out now. */
  push(bytes: Uint8Array): string {
    return this.text.withArrays([bytes], (at) =>
      this.read(this.text.run((e) => e.nibble_stream_push(this.at, at!, bytes.length))),
    );
  }

  /** What was held back. */
  finish(): string {
    return this.read(this.text.run((e) => e.nibble_stream_finish(this.at)));
  }

  /** Whether a stop string ended it. */
  get isStopped(): boolean {
    return this.text.run((e) => e.nibble_stream_stop(this.at)) >= 0;
  }

  private read(count: number): string {
    const at = this.text.run((e) => e.nibble_stream_text(this.at));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.text.bytes(at, count));
  }
}
