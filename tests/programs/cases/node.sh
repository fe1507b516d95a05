packages=nodejs
needs=node
maps=node

prepare() {
    cat >work.js <<'JS'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFileSync } = require('child_process');
const crypto = require('crypto'), zlib = require('zlib');
const md5 = (x) => crypto.createHash('md5').update(x).digest('hex');
let seed = workerData ?? 42;
const rand = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
const churn = () => {
  const kept = [];
  for (let i = 0; i < 30000; i++) {
    kept.push(Buffer.alloc(1 + rand(9000), i & 255));
    if (kept.length > 400) kept.splice(rand(400), 1);
  }
  return md5(Buffer.concat(kept));
};
if (!isMainThread) {
  parentPort.postMessage(churn());
} else {
  const words = Array.from({ length: 80000 }, () => 'w'.repeat(1 + rand(20)) + rand(10000));
  const text = JSON.stringify(Object.fromEntries(words.map((w, i) => [w, { i, w, half: i / 2 }])));
  console.log(md5(text), JSON.stringify(JSON.parse(text)) === text);
  console.log(zlib.gunzipSync(zlib.gzipSync(text)).length, zlib.brotliCompressSync(text.slice(0, 200000)).length);
  console.log(md5(crypto.pbkdf2Sync('x', 'salt', 20000, 64, 'sha512')), churn());
  let grown = Buffer.alloc(0);
  for (let i = 0; i < 60; i++) grown = Buffer.concat([grown, Buffer.alloc(100000, i)]);
  console.log(grown.length, md5(grown));
  console.log(execFileSync(process.execPath, ['-p', '"child " + 6 * 7']).toString().trim());
  Promise.all([1, 2, 3, 4].map((n) => new Promise((ok, bad) => {
    const worker = new Worker(__filename, { workerData: n });
    worker.on('message', ok).on('error', bad);
  }))).then((sums) => {
    console.log(sums);
    process.exitCode = 4;
  });
}
JS
}

measure() { node "$shared/work.js" || echo "exit $?"; }
