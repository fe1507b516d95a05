// A service on Node: items as JSON, a cache of their texts as buffers, answers of up to 256 KiB.
const http = require('http');
const zlib = require('zlib');

const items = new Map();
const cache = new Map();
const words = (id) => `word${id % 97} `.repeat(1 + ((id * 7919) % 400));
for (let id = 0; id < 2000; id++) items.set(id, { id, tags: ['a', `b${id % 7}`], text: words(id) });

const answer = (response, status, body) => {
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length });
  response.end(body);
};
const json = (response, value, status = 200) => answer(response, status, Buffer.from(JSON.stringify(value)));

const get = (url, response) => {
  const parts = url.pathname.split('/');
  if (parts[1] === 'buffer') {
    return answer(response, 200, Buffer.alloc(Math.min(+url.searchParams.get('size'), 1 << 20), 120));
  }
  if (parts[2]) return json(response, items.get(+parts[2] % 2000));
  const page = +url.searchParams.get('page');
  const found = Array.from({ length: 20 }, (_, at) => items.get((page * 20 + at) % 2000));
  json(response, found.map((item) => ({ ...item, words: item.text.split(' ').length })));
};

const post = (request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks);
    const item = JSON.parse(body);
    items.set(item.id % 2000, item);
    zlib.deflate(body, { level: 1 }, (error, packed) => {
      if (error) return answer(response, 500, Buffer.alloc(0));
      cache.set(item.id % 1200, [body, packed]);
      json(response, { id: item.id, packed: packed.length }, 201);
    });
  });
};

const server = http.createServer((request, response) => {
  if (request.method === 'POST') return post(request, response);
  get(new URL(request.url, 'http://lab'), response);
});
server.keepAliveTimeout = 0;
server.listen(process.argv[2]);
