// What the GPU still works on.

/** Two submissions at most, so that the GPU never idles, and what was submitted ends soon. */
export class InFlight {
  private readonly all: Promise<unknown>[] = [];

  constructor(private readonly queue: GPUQueue) {}

  /** Waits until there is room for one more. */
  async makeRoom(): Promise<void> {
    while (this.all.length > 1) await this.all.shift();
  }

  /** Call it after a submission. A lost device is told elsewhere. */
  add(): void {
    this.all.push(this.queue.onSubmittedWorkDone().catch(() => undefined));
  }

  async drain(): Promise<void> {
    await Promise.all(this.all);
  }
}
