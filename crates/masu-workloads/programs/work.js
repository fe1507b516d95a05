// Buffers outside the collected heap, JSON, compression, and worker threads.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');

const md5 = (bytes) => crypto.createHash('md5').update(bytes).digest('hex');
let seed = workerData ?? 42;
const random = (below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
const churn = () => {
  const kept = [];
  for (let step = 0; step < 60000; step++) {
    kept.push(Buffer.alloc(1 + random(9000), step & 255));
    if (kept.length > 400) kept.splice(random(400), 1);
  }
  return md5(Buffer.concat(kept));
};

if (!isMainThread) {
  parentPort.postMessage(churn());
} else {
  const words = Array.from({ length: 60000 }, () => 'w'.repeat(1 + random(20)) + random(10000));
  const text = JSON.stringify(Object.fromEntries(words.map((word, i) => [word, { i, word }])));
  console.log(md5(text), JSON.stringify(JSON.parse(text)) === text);
  console.log(zlib.gunzipSync(zlib.gzipSync(text)).length);
  console.log(churn());
  const answers = [1, 2].map((number) => new Promise((done, failed) => {
    const worker = new Worker(__filename, { workerData: number });
    worker.on('message', done).on('error', failed);
  }));
  Promise.all(answers).then((sums) => console.log(sums));
}
