// SHA-256 piece by piece, for weights that should not be in memory at once. The platform's own cannot do this.

// The first 32 bits of the fractional parts of the square and cube roots of the first primes.
const initial = new Int32Array(8);
const constants = new Int32Array(64);
for (let count = 0, n = 2; count < 64; ++n) {
  let isPrime = true;
  for (let d = 2; d * d <= n; ++d) if (n % d === 0) isPrime = false;
  if (!isPrime) continue;
  if (count < 8) initial[count] = fraction(n ** (1 / 2));
  constants[count++] = fraction(n ** (1 / 3));
}

function fraction(root: number): number {
  return ((root - Math.floor(root)) * 0x100000000) | 0;
}

export class Sha256 {
  private readonly state = initial.slice();
  private readonly schedule = new Int32Array(64);
  private readonly block = new Uint8Array(64);
  private readonly blockView = new DataView(this.block.buffer);
  private length = 0;

  update(bytes: Uint8Array): this {
    let at = 0;
    const held = this.length % 64;
    this.length += bytes.length;
    if (held !== 0) {
      at = Math.min(64 - held, bytes.length);
      this.block.set(bytes.subarray(0, at), held);
      if (held + at < 64) return this;
      this.compress(this.blockView, 0);
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (; at + 64 <= bytes.length; at += 64) this.compress(view, at);
    this.block.set(bytes.subarray(at));
    return this;
  }

  /** The digest in hex. Nothing can be added after. */
  digest(): string {
    const bits = this.length * 8;
    const padding = new Uint8Array((this.length % 64 < 56 ? 56 : 120) - (this.length % 64) + 8);
    padding[0] = 0x80;
    const view = new DataView(padding.buffer);
    view.setUint32(padding.length - 8, Math.floor(bits / 0x100000000));
    view.setUint32(padding.length - 4, bits >>> 0);
    this.update(padding);
    return Array.from(this.state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  private compress(view: DataView, at: number): void {
    const w = this.schedule;
    const k = constants;
    const { state } = this;
    for (let i = 0; i < 16; ++i) w[i] = view.getInt32(at + i * 4);
    for (let i = 16; i < 64; ++i) {
      const x = w[i - 15]!;
      const y = w[i - 2]!;
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0;
    }
    let a = state[0]!;
    let b = state[1]!;
    let c = state[2]!;
    let d = state[3]!;
    let e = state[4]!;
    let f = state[5]!;
    let g = state[6]!;
    let h = state[7]!;
    for (let i = 0; i < 64; ++i) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + (g ^ (e & (f ^ g))) + k[i]! + w[i]!) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) | (c & (a | b)))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    state[0] = (state[0]! + a) | 0;
    state[1] = (state[1]! + b) | 0;
    state[2] = (state[2]! + c) | 0;
    state[3] = (state[3]! + d) | 0;
    state[4] = (state[4]! + e) | 0;
    state[5] = (state[5]! + f) | 0;
    state[6] = (state[6]! + g) | 0;
    state[7] = (state[7]! + h) | 0;
  }
}
