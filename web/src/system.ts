// The system calls that the planner makes: its C++ library says why it aborts, and a tuner asks for the time.

export class System {
  memory: WebAssembly.Memory | undefined;
  /** What the planner wrote to its standard output and error. */
  lastWords = "";

  imports(): WebAssembly.ModuleImports {
    return {
      fd_write: (_file: number, list: number, count: number, written: number) => this.write(list, count, written),
      clock_time_get: (_clock: number, _precision: bigint, time: number) => {
        this.view.setBigUint64(time, BigInt(Math.round(performance.now() * 1e6)), true);
        return 0;
      },
    };
  }

  private get view(): DataView {
    return new DataView(this.memory!.buffer);
  }

  private write(list: number, count: number, written: number): number {
    const { view } = this;
    let bytes = 0;
    for (let i = 0; i < count; ++i) {
      const length = view.getUint32(list + i * 8 + 4, true);
      const text = new Uint8Array(view.buffer, view.getUint32(list + i * 8, true), length);
      this.lastWords = (this.lastWords + new TextDecoder().decode(text)).slice(-1000);
      bytes += length;
    }
    view.setUint32(written, bytes, true);
    return 0;
  }
}
