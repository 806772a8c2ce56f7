// Makes pictures ready for EfficientNet-Lite0, as examples/pictures.py does.

export const SIZE = 224;
/** The middle of a picture that the model sees: it was trained on 224 of 256 pixels. */
const SHARE = 224 / 256;
const MEAN = 127;
const DEVIATION = 128;

export interface Pixels {
  width: number;
  height: number;
  /** Red, green, blue and alpha, which is taken for opaque. */
  data: Uint8ClampedArray;
}

/** Which of the pixels go into one of 224, and how much of each. */
interface Taps {
  first: number;
  weights: Float64Array;
}

/** The model's input, [1, 3, 224, 224]. */
export function prepare({ width, height, data }: Pixels): Float32Array {
  const side = Math.max(1, roundHalfToEven(Math.min(width, height) * SHARE));
  const top = Math.floor((height - side) / 2);
  const left = Math.floor((width - side) / 2);
  const taps = Array.from({ length: SIZE }, (_, i) => tapsOf(i, side));

  // First along the rows, then along the columns.
  const narrow = new Float32Array(side * SIZE * 3);
  for (let y = 0; y < side; ++y) {
    const row = ((top + y) * width + left) * 4;
    for (const [x, { first, weights }] of taps.entries()) {
      for (let channel = 0; channel < 3; ++channel) {
        let sum = 0;
        for (const [i, weight] of weights.entries()) sum += weight * data[row + (first + i) * 4 + channel]!;
        narrow[(y * SIZE + x) * 3 + channel] = sum;
      }
    }
  }
  const input = new Float32Array(3 * SIZE * SIZE);
  for (const [y, { first, weights }] of taps.entries()) {
    for (let x = 0; x < SIZE; ++x) {
      for (let channel = 0; channel < 3; ++channel) {
        let sum = 0;
        for (const [i, weight] of weights.entries()) sum += weight * narrow[((first + i) * SIZE + x) * 3 + channel]!;
        input[(channel * SIZE + y) * SIZE + x] = (sum - MEAN) / DEVIATION;
      }
    }
  }
  return input;
}

/** A triangle as wide as two pixels, of the larger kind. */
function tapsOf(place: number, side: number): Taps {
  const scale = side / SIZE;
  const reach = Math.max(scale, 1);
  const centre = (place + 0.5) * scale;
  const first = Math.max(0, Math.floor(centre - reach));
  const end = Math.min(side, Math.ceil(centre + reach));
  const weights = Float64Array.from({ length: end - first }, (_, i) =>
    Math.max(0, 1 - Math.abs(first + i + 0.5 - centre) / reach),
  );
  const sum = weights.reduce((a, b) => a + b, 0);
  return { first, weights: weights.map((weight) => weight / sum) };
}

/** As Python rounds. */
function roundHalfToEven(value: number): number {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}
