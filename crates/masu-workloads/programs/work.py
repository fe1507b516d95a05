# Text, tables and objects: most of what a Python service does between two requests.
import hashlib, json, pickle, random, re, zlib
from collections import Counter, defaultdict

random.seed(42)
words = ["".join(random.choices("abcdefghijkl", k=random.randint(1, 30))) for _ in range(80000)]
table = defaultdict(list)
for number, word in enumerate(words):
    table[word[:2]].append({"number": number, "word": word, "half": number / 2})
text = json.dumps(table, sort_keys=True)
assert json.loads(text) == table
print(len(text), hashlib.md5(text.encode()).hexdigest())
print(len(pickle.loads(zlib.decompress(zlib.compress(pickle.dumps(table), 1)))))
print(len(re.findall(r"a[b-f]{3}k", " ".join(words))))
print(Counter(len(word) for word in words).most_common(3))


class Node:
    def __init__(self, value):
        self.value, self.left, self.right = value, None, None

    def add(self, value):
        node = self
        while True:
            side = "left" if value < node.value else "right"
            below = getattr(node, side)
            if below is None:
                return setattr(node, side, Node(value))
            node = below


root = Node("g")
for word in words[:25000]:
    root.add(word)
kept = []
for number in range(200000):
    kept.append("x" * random.randint(1, 400))
    if len(kept) > 2000:
        del kept[random.randrange(len(kept))]
print(sum(map(len, kept)))
