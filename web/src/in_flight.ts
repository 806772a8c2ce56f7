// What the GPU still works on.

import type { GpuDevice } from "./device.js";

/** Two submissions at most, so that the GPU never idles, and what was submitted ends soon. */
export class InFlight {
  private readonly all: Promise<unknown>[] = [];

  /** What fails is told as a failure of `what`. */
  constructor(
    private readonly device: GpuDevice,
    private readonly what: string,
  ) {}

  /** Waits until there is room for one more. */
  async makeRoom(): Promise<void> {
    while (this.all.length > 1) await this.done(this.all.shift()!);
  }

  /** Call it after a submission. */
  add(): void {
    const done = this.device.handle.queue.onSubmittedWorkDone();
    done.catch(() => undefined); // if nobody waits for it any longer
    this.all.push(done);
  }

  async drain(): Promise<void> {
    for (const one of this.all) await this.done(one);
  }

  private async done(one: Promise<unknown>): Promise<void> {
    await one.catch(async (reason: unknown) => {
      throw await this.device.failure(this.what, reason);
    });
  }
}
