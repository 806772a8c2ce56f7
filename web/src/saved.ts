// A saved session: a head that says which program's and which state's, the bytes that count, and their SHA-256.

import type { DType, Layout } from "#wire";
import { invalid, NibbleError } from "./errors.js";
import { dimsOf } from "./inputs.js";
import { isSize } from "./options.js";

const MAGIC = "NIBSAVED";
const VERSION = 1;
/** The magic, the version and the size of the head. */
const BEGIN = 16;
const HASH = 32;

/** What is saved of a state beside its bytes. */
interface SavedState {
  role: string;
  dtype: DType;
  shape: number[];
  rowAxis: number | null;
  rows: number;
}

interface Head {
  program: string;
  note: string;
  states: SavedState[];
}

/** Makes the file. `fill` puts the bytes of the state where they belong. */
export async function writeSaved(
  layout: Layout,
  program: string,
  note: string,
  rows: readonly number[],
  bytes: number,
  fill: (to: Uint8Array) => Promise<void>,
): Promise<Uint8Array> {
  const head: Head = { program, note, states: describeStates(layout, rows) };
  const text = new TextEncoder().encode(JSON.stringify(head));
  // The state begins at a multiple of 4, as a queue wants what it writes.
  const begin = Math.ceil((BEGIN + text.length) / 4) * 4;
  const file = new Uint8Array(begin + bytes + HASH);
  file.set(new TextEncoder().encode(MAGIC));
  const view = new DataView(file.buffer);
  view.setUint32(8, VERSION, true);
  view.setUint32(12, text.length, true);
  file.set(text, BEGIN);
  await fill(file.subarray(begin, begin + bytes));
  file.set(await sha256(file.subarray(0, -HASH)), file.length - HASH);
  return file;
}

export interface Saved {
  note: string;
  rows: number[];
  data: Uint8Array;
}

/** Checks that a file is whole, and that it belongs to this program and these states. */
export async function readSaved(file: unknown, layout: Layout, program: string): Promise<Saved> {
  if (!(file instanceof Uint8Array)) throw invalid("a session is restored from a Uint8Array, as save() gives it");
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const isSaved = file.length >= BEGIN + HASH && new TextDecoder().decode(file.subarray(0, 8)) === MAGIC;
  if (!isSaved) throw broken("these bytes are not a saved session");
  const version = view.getUint32(8, true);
  if (version !== VERSION) {
    throw broken(`this is a saved session of version ${version}, but this Nibble reads version ${VERSION}`);
  }
  const hash = await sha256(file.subarray(0, -HASH));
  if (hash.some((byte, i) => byte !== file[file.length - HASH + i])) {
    throw broken("the saved session is damaged or cut off: its checksum does not fit its content");
  }
  const size = view.getUint32(12, true);
  const begin = Math.ceil((BEGIN + size) / 4) * 4;
  const head = begin <= file.length - HASH ? parseHead(file.subarray(BEGIN, BEGIN + size)) : undefined;
  if (!head) throw broken("the head of the saved session cannot be read");
  if (head.program !== program) {
    throw invalid("the session was saved by another program, or by one with other weights");
  }
  checkStates(head.states, layout);
  return { note: head.note, rows: head.states.map(({ rows }) => rows), data: file.subarray(begin, file.length - HASH) };
}

function parseHead(bytes: Uint8Array): Head | undefined {
  try {
    const head = JSON.parse(new TextDecoder().decode(bytes)) as Head;
    const isHead = typeof head.note === "string" && head.states.every(({ rows }) => isSize(rows));
    return isHead ? head : undefined;
  } catch {
    return undefined;
  }
}

function describeStates(layout: Layout, rows: readonly number[]): SavedState[] {
  return layout.states.map(({ role, dtype, shape, hasRowAxis, rowAxis }, i) => ({
    role,
    dtype,
    shape: dimsOf(shape),
    rowAxis: hasRowAxis ? rowAxis : null,
    rows: rows[i]!,
  }));
}

function checkStates(saved: readonly SavedState[], layout: Layout): void {
  const another = "the session was saved with another layout";
  if (saved.length !== layout.states.length) {
    throw invalid(`${another}: it has ${saved.length} states, but there are ${layout.states.length} here`);
  }
  const here = describeStates(
    layout,
    saved.map(({ rows }) => rows),
  );
  here.forEach(({ role, dtype, shape }, i) => {
    if (JSON.stringify(here[i]) === JSON.stringify(saved[i])) return;
    throw invalid(
      `${another}: its state ${i} is not ${role} of type ${dtype} and shape [${shape.join(", ")}] as here; were ` +
        "options such as f16Cache the same?",
    );
  });
}

async function sha256(bytes: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>));
}

function broken(message: string): NibbleError {
  return new NibbleError("io", message);
}
