// A single-threaded program that lives on `new`: it builds expressions, simplifies them in place,
// copies them, and drops them. About 1.4 million objects each time.
//
//   objects REPETITIONS [thread]
//
// With `thread` it first starts a thread that does nothing and waits for its end. Compiled with
// -DPOOL_BOOST or -DPOOL_MASU, the objects come from a pool that lives as long as the expressions.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>

#if defined(POOL_BOOST)
#include <boost/pool/object_pool.hpp>
#elif defined(POOL_MASU)
#include <masu/masu.hpp>
#endif

namespace {

enum class Kind : std::uint8_t { number, variable, sum, product };

// Together, since Boost's pools construct from three arguments at most.
struct What {
    Kind kind;
    std::uint32_t value;
};

struct Node {
    Node(const What &what, Node *left, Node *right)
        : left(left), right(right), value(what.value), kind(what.kind) {}
    Node *left;
    Node *right;
    std::uint32_t value;
    Kind kind;
};

long objects = 0;

#if defined(POOL_BOOST) || defined(POOL_MASU)
// Objects die one by one, or all at once with the pool.
class Place {
public:
    Node *make(Kind kind, std::uint32_t value, Node *left, Node *right) {
        ++objects;
        return pool.construct(What{kind, value}, left, right);
    }
    void end(Node *node) { pool.destroy(node); }
    void end_tree(Node *) {}

private:
#if defined(POOL_BOOST)
    boost::object_pool<Node> pool;
#else
    masu::object_pool<Node> pool;
#endif
};
#else
class Place {
public:
    Node *make(Kind kind, std::uint32_t value, Node *left, Node *right) {
        ++objects;
        return new Node(What{kind, value}, left, right);
    }
    void end(Node *node) { delete node; }
    void end_tree(Node *node) {
        if (!node) return;
        end_tree(node->left);
        end_tree(node->right);
        delete node;
    }
};
#endif

std::uint64_t state = 42;

std::uint32_t random_below(std::uint32_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<std::uint32_t>((state >> 32) * bound >> 32);
}

// An expression of so many leaves.
Node *build(Place &place, std::uint32_t leaves) {
    if (leaves == 1) {
        if (random_below(3) == 0) return place.make(Kind::variable, random_below(8), nullptr, nullptr);
        return place.make(Kind::number, random_below(4), nullptr, nullptr);
    }
    std::uint32_t left = 1 + random_below(leaves - 1);
    Node *a = build(place, left);
    Node *b = build(place, leaves - left);
    return place.make(random_below(2) ? Kind::sum : Kind::product, 0, a, b);
}

bool is_number(const Node *node, std::uint32_t value) {
    return node->kind == Kind::number && node->value == value;
}

// Folds constants and drops neutral elements.
Node *simplify(Place &place, Node *node) {
    if (node->kind == Kind::number || node->kind == Kind::variable) return node;
    Node *a = node->left = simplify(place, node->left);
    Node *b = node->right = simplify(place, node->right);
    std::uint32_t neutral = node->kind == Kind::sum ? 0 : 1;
    if (a->kind == Kind::number && b->kind == Kind::number) {
        node->value = node->kind == Kind::sum ? a->value + b->value : a->value * b->value;
        node->kind = Kind::number;
        node->left = node->right = nullptr;
        place.end(a);
        place.end(b);
        return node;
    }
    for (int side = 0; side < 2; ++side) {
        Node *rest = side ? a : b;
        Node *other = side ? b : a;
        if (is_number(other, neutral)) {
            place.end(other);
            place.end(node);
            return rest;
        }
    }
    return node;
}

Node *copy(Place &place, const Node *node) {
    Node *a = node->left ? copy(place, node->left) : nullptr;
    Node *b = node->right ? copy(place, node->right) : nullptr;
    return place.make(node->kind, node->value, a, b);
}

std::uint32_t evaluate(const Node *node) {
    switch (node->kind) {
        case Kind::number: return node->value;
        case Kind::variable: return 3 * node->value + 1;
        case Kind::sum: return evaluate(node->left) + evaluate(node->right);
        case Kind::product: return evaluate(node->left) * evaluate(node->right);
    }
    std::abort();
}

// Expressions that are alive together, and how large they are.
constexpr int groups = 16, together = 16;
constexpr std::uint32_t leaves = 1610;

std::uint64_t run() {
    std::uint64_t checksum = 0;
    for (int group = 0; group < groups; ++group) {
        Place place;
        Node *trees[together], *copies[together];
        for (int i = 0; i < together; ++i) {
            trees[i] = build(place, leaves);
            std::uint32_t before = evaluate(trees[i]);
            trees[i] = simplify(place, trees[i]);
            copies[i] = copy(place, trees[i]);
            if (evaluate(copies[i]) != before) std::abort();
            checksum = checksum * 31 + before;
        }
        for (int i = 0; i < together; ++i) {
            place.end_tree(trees[i]);
            place.end_tree(copies[i]);
        }
    }
    return checksum;
}

// The file that serves a function.
const char *server(const char *name) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, name);
    return address && dladdr(address, &info) ? info.dli_fname : "unknown";
}

long peak_kib() {
    char line[256];
    long peak = 0;
    FILE *file = std::fopen("/proc/self/status", "r");
    while (file && std::fgets(line, sizeof line, file)) std::sscanf(line, "VmHWM: %ld", &peak);
    if (file) std::fclose(file);
    return peak;
}

} // namespace

int main(int count, char **words) {
    int repetitions = count > 1 ? std::atoi(words[1]) : 1;
    if (count > 2 && !std::strcmp(words[2], "thread")) std::thread([] {}).join();
    std::uint64_t checksum = 0;
    for (int i = 0; i < repetitions; ++i) {
        state = 42;
        checksum += run();
    }
    std::printf("allocator %s\nfree_by %s\n", server("malloc"), server("free"));
    std::printf("objects %ld\nchecksum %016llx\npeak_kib %ld\n", objects / repetitions,
                static_cast<unsigned long long>(checksum), peak_kib());
}
