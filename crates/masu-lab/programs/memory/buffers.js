// Buffers outside the collected heap: a cache of responses that turns over, compressed on the pool's
// threads, and then dropped. Runs with --expose-gc, so that what is dropped is freed when we say so.
const fs = require('fs');
const zlib = require('zlib');
const { promisify } = require('util');

const deflate = promisify(zlib.deflate);
let seed = 42;
const random = (below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
const line = Buffer.alloc(1);
const mark = (verb, name) => {
  fs.writeSync(1, `${verb} ${name}\n`);
  while (fs.readSync(0, line, 0, 1) === 1 && line[0] !== 10);
};

async function main() {
  const begun = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  const cache = new Map();
  for (let step = 0; step < 3000; step++) {
    const body = Buffer.alloc(200 + random(step % 10 ? 30000 : 400000), step & 255);
    const packed = step % 4 ? Buffer.from(body.subarray(0, body.length >> 1)) : await deflate(body, { level: 1 });
    cache.set(random(1200), [body, packed]);
    if (step % 3 === 0) cache.delete(random(1200));
  }
  const used = process.cpuUsage(cpu);
  fs.writeSync(1, `figure seconds ${Number(process.hrtime.bigint() - begun) / 1e9}\n`);
  fs.writeSync(1, `figure processor ${(used.user + used.system) / 1e6}\n`);
  global.gc();
  mark('mark', 'held');
  cache.clear();
  global.gc();
  mark('mark', 'dropped');
  mark('rest', 'idle');
}
main();
