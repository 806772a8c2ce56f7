/**
 * The kind of a failure; the message has the details.
 *
 * - `invalid_program`: the file is broken or inconsistent
 * - `unsupported`: the program is valid but needs something that Nibble or the device lacks
 * - `invalid_argument`: an input is wrong (count, name, dtype, rank, size, value)
 * - `out_of_range`: an index, position or number is out of its range
 * - `out_of_memory`: host or device memory
 * - `gpu`: the GPU reported an error
 * - `device_lost`: the device is gone; every later call on it fails the same way
 * - `io`: the file could not be read
 * - `internal`: a bug in Nibble
 * - `cancelled`: somebody wanted the call to stop; here such a call rejects with the reason of its signal instead
 * - `no_webgpu`: this browser or page has no WebGPU
 * - `no_adapter`: WebGPU is there, but offers no adapter
 */
export type ErrorCode =
  | "invalid_program"
  | "unsupported"
  | "invalid_argument"
  | "out_of_range"
  | "out_of_memory"
  | "gpu"
  | "device_lost"
  | "io"
  | "internal"
  | "cancelled"
  | "no_webgpu"
  | "no_adapter";

/** Every failure of Nibble: a code for programs and one sentence for people. */
export class NibbleError extends Error {
  override readonly name = "NibbleError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export function invalid(message: string): NibbleError {
  return new NibbleError("invalid_argument", message);
}

/** A failure whose cause was caught. */
export function failure(code: ErrorCode, what: string, cause: unknown): NibbleError {
  return new NibbleError(code, `${what}: ${messageOf(cause)}`, { cause });
}

/** The message of anything that was thrown, in one line: drivers' may have several. A DOMException may have none. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? textOf(error.message) || textOf(error.name) : textOf(error);
  return text.replace(/\s+/g, " ").trim();
}

/** Any value as a text; some objects have none. */
export function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return "an object that cannot be written";
  }
}
