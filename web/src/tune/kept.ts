// Tunings that are kept from visit to visit: in the browser's Cache API, or where the caller says.

import type { Options } from "#wire";
import type { GpuDevice } from "../device.js";
import type { DeviceTuning, TuningFile, TuningStore } from "../types.js";

/** Where a load looks for a tuning. Without a store, and without a Cache API of this name, nothing is kept. */
export interface Place {
  device: GpuDevice;
  options: Options;
  store: TuningStore | undefined;
  cacheName: string | undefined;
}

/** What is kept for a program. */
export interface Kept {
  file: TuningFile | undefined;
  key: string;
  store: TuningStore | undefined;
}

type TunedChoice = DeviceTuning["choices"][number];
type TunedOn = Pick<DeviceTuning, "device" | "driver" | "engine" | "nibble">;

/** As many rows of a device as the planner takes. */
const MOST_ROWS = 4096;

export function tunedOn(device: GpuDevice): TunedOn {
  const { name, driver, engine, nibble } = device.profile();
  return { device: name, driver, engine, nibble };
}

const isOfDevice = (one: TunedOn | null, here: TunedOn): boolean =>
  one?.device === here.device && one.driver === here.driver && one.engine === here.engine;

/** Whether what is kept is of this device and this version. */
export const isOf = (one: TunedOn | null, here: TunedOn): boolean =>
  isOfDevice(one, here) && one?.nibble === here.nibble;

/** `blob`: the program. Its kernels, and so its tunings, depend on the options too. */
export async function findTunings(blob: Uint8Array, { options, ...place }: Place): Promise<Kept> {
  const store = place.store ?? cacheStore(place.cacheName);
  let key = "";
  try {
    const { tuning: _, tune: __, tuneMs: ___, ...others } = options;
    const program = new Blob([blob as Uint8Array<ArrayBuffer>, JSON.stringify(others)]);
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await program.arrayBuffer()));
    key = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const text = await store?.get(key);
    return { file: text ? (JSON.parse(text) as TuningFile) : undefined, key, store };
  } catch {
    return { file: undefined, key, store }; // nothing is kept, or what nobody can read
  }
}

/** Keeps a tuning with what there is of the same device and version, and in place of one of another version. */
export async function keepTuning({ file, key, store }: Kept, tuning: DeviceTuning): Promise<void> {
  if (!store || key === "") return;
  const all = Array.isArray(file?.tunings) ? file.tunings : [];
  const older = all.find((one) => isOf(one, tuning));
  const others = all.filter((one) => !isOfDevice(one, tuning));
  try {
    await store.put(key, JSON.stringify({ tunings: [...others, older ? join(older, tuning) : tuning] }));
  } catch {
    // It is measured again the next time.
  }
}

/** Two of one device: a point that was measured again replaces what there was. As the desktop's tuning_merge.cpp. */
function join(older: DeviceTuning, newer: DeviceTuning): DeviceTuning {
  try {
    const again = new Set(newer.choices.map(placeOf));
    const points = newer.choices.filter(isPoint);
    const stays = older.choices.filter(
      (one) => !again.has(placeOf(one)) && (isPoint(one) || !points.some((point) => refutes(point, one))),
    );
    // Points come before what follows from them, since the first row that fits counts.
    const all = [...newer.choices, ...stays];
    const choices = [...all.filter(isPoint), ...all.filter((one) => !isPoint(one))].slice(0, MOST_ROWS);
    const refused = [...new Set([...newer.refused, ...older.refused])];
    return { ...newer, choices, refused, ended: newer.ended === "stopped" ? older.ended : newer.ended };
  } catch {
    return newer; // the older one is no tuning
  }
}

/** What was measured; rows without times follow from others. */
const isPoint = ({ times }: TunedChoice): boolean => times !== undefined;

const placeOf = ({ choice, rows, width, depth, traits }: TunedChoice): string =>
  JSON.stringify([choice, rows, width, depth, traits]);

/** Whether a point lies where a row says something, and says something else. */
function refutes(point: TunedChoice, row: TunedChoice): boolean {
  const { choice, traits, variant } = row;
  if (point.choice !== choice || point.traits !== traits || point.variant === variant) return false;
  return (["rows", "width", "depth"] as const).every((name) => {
    const [least, most] = row[name] ?? [0, Infinity];
    const [first, last] = point[name] ?? [0, Infinity];
    return least <= first && last <= most;
  });
}

function cacheStore(name: string | undefined): TuningStore | undefined {
  if (name === undefined || typeof caches === "undefined") return undefined;
  const address = (key: string): string => `https://nibble.invalid/tuning/${key}`;
  return {
    get: async (key) => (await (await caches.open(name)).match(address(key)))?.text(),
    put: async (key, text) => (await caches.open(name)).put(address(key), new Response(text)),
  };
}
