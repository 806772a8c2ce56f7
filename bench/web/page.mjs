// Both runtimes, on the page. Each is loaded only when it is asked for.

const address = (path) => `${location.origin}/files/${path}`;

/** Every WebAssembly memory that the page gets to have. */
const memories = new Set();
let peakJs = 0;
let peakWasm = 0;

function keep(value) {
  if (value instanceof WebAssembly.Memory) memories.add(value);
  return value;
}

const { instantiate, instantiateStreaming, Memory } = WebAssembly;
const watch = (result) => {
  const instance = result.instance ?? result;
  Object.values(instance.exports).forEach(keep);
  return result;
};
WebAssembly.instantiate = (...parameters) => instantiate(...parameters).then(watch);
WebAssembly.instantiateStreaming = (...parameters) => instantiateStreaming(...parameters).then(watch);
WebAssembly.Memory = new Proxy(Memory, { construct: (target, parameters) => keep(new target(...parameters)) });

function sample() {
  const wasm = [...memories].reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
  peakWasm = Math.max(peakWasm, wasm);
  peakJs = Math.max(peakJs, performance.memory.usedJSHeapSize);
}
setInterval(sample, 5);

const openers = {
  async nibble() {
    const { open, load } = await import("/files/dist/nibble.js");
    const device = await open();
    const model = await load(address("bench/table.pte"), { device, cache: false });
    return { name: device.name, run: async (ids) => (await model.run([ids])).output0.data };
  },

  async onnxruntime() {
    const ort = await import("/files/ort/ort.webgpu.min.mjs");
    ort.env.wasm.wasmPaths = address("ort/");
    ort.env.logLevel = "error";
    const session = await ort.InferenceSession.create(address("bench/table.onnx"), { executionProviders: ["webgpu"] });
    return {
      name: "onnxruntime-web",
      run: async (ids) => {
        const { rows } = await session.run({ ids: new ort.Tensor("int64", ids, [ids.length]) });
        return rows.getData();
      },
    };
  },
};

function makeIds(count, seed) {
  return BigInt64Array.from({ length: count }, (_, i) => BigInt((i * 7919 + seed * 104729) % 128256));
}

/** From navigation to the first result, and what memory that took. */
async function first(name) {
  const { run } = await openers[name]();
  const row = await run(makeIds(1, 1));
  const milliseconds = performance.now();
  sample();
  return { milliseconds, js: peakJs, wasm: peakWasm, row: Array.from(row.subarray(0, 4)) };
}

/** Times both, call by call in turn. */
async function compare(counts, rounds) {
  const both = { nibble: await openers.nibble(), onnxruntime: await openers.onnxruntime() };
  const results = [];
  for (const count of counts) {
    const times = { nibble: [], onnxruntime: [] };
    for (let round = -5; round < rounds; ++round) {
      const ids = makeIds(count, round + 10);
      const given = {};
      for (const [name, { run }] of Object.entries(both)) {
        const began = performance.now();
        given[name] = await run(ids);
        if (round >= 0) times[name].push(performance.now() - began);
      }
      const worst = given.nibble.reduce((most, value, i) => Math.max(most, Math.abs(value - given.onnxruntime[i])), 0);
      if (given.nibble.length !== given.onnxruntime.length || !(worst <= 1e-5)) {
        throw new Error(`the two differ by ${worst} at ${count} ids`);
      }
    }
    results.push({ count, ...times });
  }
  return { device: both.nibble.name, results };
}

Object.assign(globalThis, { bench: { first, compare } });
