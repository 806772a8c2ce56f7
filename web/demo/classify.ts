// The page that says what is in a picture: from a file, by dropping or pasting one, or from the camera.

import { load, open, type Device, type Model } from "nibble";
import {
  element,
  fetchFile,
  make,
  makeHit,
  retryButton,
  showDevice,
  showFailure,
  showOpening,
  showProgress,
} from "./page.js";
import { prepare, SIZE } from "./pictures.js";
import { keepPage } from "./stored.js";

const WAYS = ["fp32", "int8"] as const;
const SAMPLES = {
  "A cat": "chelsea.png",
  Coffee: "coffee.png",
  "A motorcycle": "motorcycle_left.png",
  "A rocket": "rocket.jpg",
  "An astronaut": "astronaut.png",
};
const TOP = 5;
/** The model sees 224 pixels: larger pictures are shrunk to this first, so that a phone's photograph takes little time. */
const LARGEST_SIDE = 1024;

const view = element<HTMLCanvasElement>("view");
const video = element<HTMLVideoElement>("video");
const fileField = element<HTMLInputElement>("file");
const cameraButton = element<HTMLButtonElement>("camera");
const context = view.getContext("2d", { willReadFrequently: true })!;

interface Ready {
  device: Device;
  models: Record<(typeof WAYS)[number], Model>;
  labels: string[];
}

let ready: Ready | undefined;
/** Counts up, so that what was begun for an older picture knows that it is old. */
let version = 0;
let hasPicture = false;
let camera: MediaStream | undefined;

async function start(): Promise<void> {
  showOpening();
  let device: Device | undefined;
  try {
    const began = performance.now();
    device = await open();
    const opened = device;
    showDevice(device);
    const labels = await fetchLabels();
    // One after the other: each has the whole bar.
    const fp32 = await loadModel("fp32", device);
    const int8 = await loadModel("int8", device);
    ready = { device, models: { fp32, int8 }, labels };
    void device.lost.then((error) => {
      if (ready?.device === opened) fail(error);
    });
    element("facts").textContent = ` · loaded in ${((performance.now() - began) / 1000).toFixed(1)} s`;
    element("loading").hidden = true;
    if (hasPicture) await classify();
    else await showSample("chelsea.png");
    await keepPage();
  } catch (error) {
    ready = undefined;
    fail(error);
    device?.destroy();
  }
}

function loadModel(way: string, device: Device): Promise<Model> {
  element("loading-label").textContent = `Loading the model in ${way}`;
  return load(`${way}.pte`, {
    device,
    inputs: ["picture"],
    outputs: ["logits"],
    onProgress: (progress) => showProgress(progress),
  });
}

async function fetchLabels(): Promise<string[]> {
  return (await (await fetchFile("labels.txt")).text()).split("\n");
}

/** Ends what runs, and says what happened and what to do. */
function fail(error: unknown): void {
  stopCamera();
  for (const way of WAYS) ready?.models[way].dispose();
  ready = undefined;
  showFailure(error);
}

function draw(source: CanvasImageSource, width: number, height: number): void {
  const scale = Math.min(1, LARGEST_SIDE / Math.max(width, height));
  view.width = Math.max(1, Math.round(width * scale));
  view.height = Math.max(1, Math.round(height * scale));
  // What is transparent is white.
  context.fillStyle = "white";
  context.fillRect(0, 0, view.width, view.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(source, 0, 0, view.width, view.height);
  hasPicture = true;
}

async function showPicture(blob: Blob, name: string): Promise<void> {
  stopCamera();
  const mine = ++version;
  // Upright, as a camera's file says.
  const bitmap = await createImageBitmap(blob).catch(() => undefined);
  if (mine !== version) return;
  if (!bitmap) {
    element("picture-note").textContent = `${name} is no picture that this browser can read.`;
    return;
  }
  draw(bitmap, bitmap.width, bitmap.height);
  element("picture-note").textContent = `${name}, ${bitmap.width} × ${bitmap.height}`;
  bitmap.close();
  await classify();
}

async function showSample(name: string): Promise<void> {
  await showPicture(await (await fetchFile(name)).blob(), name);
}

/** Runs both models on what the view shows. */
async function classify(): Promise<void> {
  const mine = ++version;
  const current = ready;
  if (!current) return;
  const data = prepare(context.getImageData(0, 0, view.width, view.height));
  try {
    for (const way of WAYS) {
      const began = performance.now();
      const { logits } = await current.models[way].run({ picture: { data, shape: [1, 3, SIZE, SIZE] } });
      if (mine !== version || ready !== current) return;
      element(`${way}-time`).textContent = `${(performance.now() - began).toFixed(0)} ms`;
      showAnswers(way, logits!.data as Float32Array, current.labels);
    }
  } catch (error) {
    if (ready === current) fail(error);
  }
}

function showAnswers(way: string, logits: Float32Array, labels: string[]): void {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  const order = Array.from(powers.keys()).sort((a, b) => powers[b]! - powers[a]!);
  element(way).replaceChildren(
    ...order.slice(0, TOP).map((index) => {
      const share = `${((powers[index]! / sum) * 100).toFixed(1)}%`;
      return makeHit(share, share, labels[index] ?? `class ${index}`);
    }),
  );
}

async function startCamera(): Promise<void> {
  // A second click while the browser asks for permission would open it twice.
  cameraButton.disabled = true;
  try {
    camera = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    const refused = error instanceof DOMException && error.name === "NotAllowedError";
    element("picture-note").textContent = refused ? "The camera may not be used." : "The camera cannot be opened.";
    return;
  } finally {
    cameraButton.disabled = false;
  }
  const stream = camera;
  stream.getVideoTracks()[0]!.addEventListener("ended", stopCamera);
  cameraButton.textContent = "Stop the camera";
  element("picture-note").textContent = "From the camera";
  video.srcObject = stream;
  showVideo(true);
  try {
    await video.play();
    while (camera === stream) {
      if (video.videoWidth > 0 && !document.hidden) {
        draw(video, video.videoWidth, video.videoHeight);
        await classify();
      }
      await new Promise(requestAnimationFrame);
    }
  } catch (error) {
    if (camera === stream) fail(error);
  }
}

/** The camera's picture moves, whatever a call takes; the view keeps what was looked at last. */
function showVideo(shown: boolean): void {
  video.hidden = !shown;
  view.hidden = shown;
}

function stopCamera(): void {
  if (!camera) return;
  for (const track of camera.getTracks()) track.stop();
  camera = undefined;
  video.srcObject = null;
  showVideo(false);
  cameraButton.textContent = "Use the camera";
}

async function findCamera(): Promise<void> {
  // Only pages of a secure origin are told of cameras.
  const devices = (await navigator.mediaDevices?.enumerateDevices().catch(() => [])) ?? [];
  const found = devices.some(({ kind }) => kind === "videoinput");
  cameraButton.hidden = !found;
  element("no-camera").hidden = found;
}

/** The first picture among files that were dropped or pasted. */
function takeFile(files: FileList | undefined | null): boolean {
  const file = files?.[0];
  if (file) void showPicture(file, file.name);
  return file !== undefined;
}

for (const [title, name] of Object.entries(SAMPLES)) {
  const button = make("button", title) as HTMLButtonElement;
  button.type = "button";
  button.className = "quiet";
  button.addEventListener("click", () => void showSample(name).catch(fail));
  element("samples").append(button);
}
fileField.addEventListener("change", () => {
  takeFile(fileField.files);
  fileField.value = ""; // the same file may be chosen again
});
cameraButton.addEventListener("click", () => (camera ? stopCamera() : void startCamera()));
document.addEventListener("paste", (event) => void takeFile(event.clipboardData?.files));
for (const type of ["dragenter", "dragover", "dragleave", "drop"] as const) {
  document.addEventListener(type, (event) => {
    event.preventDefault(); // else the browser leaves the page for the picture
    element("frame").classList.toggle("over", type === "dragenter" || type === "dragover");
    if (type === "drop" && !takeFile(event.dataTransfer?.files)) {
      element("picture-note").textContent = "What was dropped is no file.";
    }
  });
}
addEventListener("pagehide", stopCamera);
navigator.mediaDevices?.addEventListener("devicechange", () => void findCamera());
retryButton.addEventListener("click", () => void start());
void findCamera();
void start();
