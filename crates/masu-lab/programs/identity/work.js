// Says each moment on a line. At the first and the last it waits for an answer; at the second it works until one comes.
const zlib = require("node:zlib");

const kept = new Map();
let working = false;
let turn = 0;

function work() {
  if (!working) return;
  turn += 1;
  const buffers = Array.from({ length: turn % 100 }, (_, i) => Buffer.alloc(1000 + 97 * i, "x"));
  kept.set(turn % 50, [zlib.gzipSync(Buffer.concat(buffers)), ...buffers]);
  setImmediate(work);
}

const steps = [
  () => { working = true; console.log("load"); setImmediate(work); },
  () => {
    working = false;
    for (const key of [...kept.keys()].slice(10)) kept.delete(key);
    if (globalThis.gc) globalThis.gc();
    console.log("rest");
  },
  () => process.exit(0),
];
process.stdin.on("data", () => steps.shift()());
console.log("start");
