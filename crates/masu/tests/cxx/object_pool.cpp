// Tests of masu.hpp. Exits with 0 if all is well, else prints what is not.
#include <masu/masu.hpp>

#include <cstdio>
#include <list>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define CHECK(...)                                                                                 \
    do {                                                                                           \
        if (!(__VA_ARGS__)) {                                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #__VA_ARGS__);                 \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static std::atomic<int> live{0};

struct counted {
    std::string text; // a separate heap block, for the leak checker
    int number;
    explicit counted(int n) : text(40, 'x'), number(n) {
        if (n < 0)
            throw std::runtime_error("negative");
        ++live;
    }
    ~counted() {
        CHECK(number >= 0);
        number = -1;
        --live;
    }
};

static void construct_and_destroy() {
    masu::object_pool<counted> pool;
    CHECK(pool.capacity() == 0 && pool.empty());
    std::vector<counted *> objects;
    std::set<counted *> distinct;
    for (int i = 0; i < 1000; ++i) {
        objects.push_back(pool.construct(i));
        distinct.insert(objects.back());
    }
    CHECK(distinct.size() == 1000 && live == 1000 && pool.size() == 1000);
    for (int i = 0; i < 1000; ++i) // nothing has moved
        CHECK(objects[i]->number == i && pool.is_from(objects[i]));

    // Last out, first in.
    pool.destroy(objects[500]);
    pool.destroy(objects[17]);
    CHECK(live == 998);
    CHECK(pool.construct(7) == objects[17]);
    CHECK(pool.construct(8) == objects[500]);

    // Slots are reused, not added to.
    std::size_t capacity = pool.capacity();
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < 1000; i += 2)
            pool.destroy(objects[i]);
        for (int i = 0; i < 1000; i += 2)
            objects[i] = pool.construct(i);
    }
    CHECK(pool.capacity() == capacity);
    pool.destroy(nullptr);

    counted elsewhere(1);
    CHECK(!pool.is_from(&elsewhere));
    CHECK(!pool.is_from(reinterpret_cast<counted *>(reinterpret_cast<char *>(objects[0]) + 8)));
}

static void a_constructor_that_throws_leaves_nothing() {
    masu::object_pool<counted> pool;
    counted *first = pool.construct(1);
    pool.destroy(first);
    bool thrown = false;
    try {
        pool.construct(-1);
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    CHECK(thrown && pool.empty());
    CHECK(pool.construct(2) == first);
}

static void raw_memory_is_not_destroyed() {
    masu::object_pool<counted> pool(4, 8);
    counted *raw = pool.malloc();
    pool.malloc(); // left there: nothing to destroy
    new (raw) counted(3);
    raw->~counted();
    pool.free(raw);
    pool.free(nullptr);
    for (int i = 0; i < 100; ++i) {
        pool.construct(i);
        CHECK(pool.get_next_size() <= 8);
    }
    CHECK(pool.size() == 101);
}

static void handles_and_moves() {
    masu::object_pool<counted> pool;
    counted *left = pool.construct(5);
    { auto handle = pool.make_unique(6); CHECK(handle->number == 6 && live == 2); }
    CHECK(live == 1);
    masu::object_pool<counted> other(std::move(pool));
    CHECK(left->number == 5 && other.is_from(left) && other.size() == 1);
    CHECK(pool.empty() && !pool.is_from(left));
    pool.construct(1);
}

struct alignas(256) wide {
    char byte;
};

static void alignment() {
    masu::object_pool<wide> pool;
    masu::object_pool<char> small;
    for (int i = 0; i < 100; ++i) {
        CHECK(reinterpret_cast<std::uintptr_t>(pool.construct()) % 256 == 0);
        char *c = small.construct('c');
        CHECK(*c == 'c' && small.is_from(c));
    }
    wide *w = pool.construct();
    CHECK(pool.is_from(w));
    pool.destroy(w);
}

static void threads() {
    masu::concurrent_object_pool<counted> pool;
    std::vector<std::thread> workers;
    std::mutex mutex;
    std::vector<counted *> handed; // destroyed by another thread
    for (int t = 0; t < 4; ++t) {
        workers.emplace_back([&, t] {
            std::vector<counted *> own;
            for (int i = 0; i < 5000; ++i) {
                own.push_back(pool.construct(t * 10000 + i));
                if (i % 3 == 0) {
                    std::lock_guard<std::mutex> lock(mutex);
                    handed.push_back(own.back());
                    own.pop_back();
                    if (handed.size() > 10) {
                        pool.destroy(handed.front());
                        handed.erase(handed.begin());
                    }
                } else if (i % 3 == 1) {
                    CHECK(own.back()->number == t * 10000 + i);
                    pool.destroy(own.back());
                    own.pop_back();
                }
            }
            for (counted *object : own)
                CHECK(object->number / 10000 == t);
        });
    }
    for (std::thread &worker : workers)
        worker.join();
    CHECK(pool.size() == static_cast<std::size_t>(live.load()));
    CHECK(pool.is_from(handed.front()));
    bool thrown = false;
    try {
        pool.construct(-1);
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    CHECK(thrown && pool.size() == static_cast<std::size_t>(live.load()));
}

// One thread creates, another destroys: the first must get at the other's slots.
static void made_here_destroyed_there() {
    masu::concurrent_object_pool<int> pool;
    std::set<int *> addresses;
    for (int round = 0; round < 100; ++round) {
        std::vector<int *> objects;
        for (int i = 0; i < 100; ++i) {
            objects.push_back(pool.construct(i));
            addresses.insert(objects.back());
        }
        std::thread([&] {
            for (int *object : objects)
                pool.destroy(object);
        }).join();
    }
    CHECK(addresses.size() < 1000);
}

static void containers() {
    std::vector<int, masu::allocator<int>> numbers;
    for (int i = 0; i < 1000; ++i)
        numbers.push_back(i);
    std::list<wide, masu::allocator<wide>> list(10);
    for (const wide &w : list)
        CHECK(reinterpret_cast<std::uintptr_t>(&w) % 256 == 0);
    bool thrown = false;
    try {
        masu::allocator<int>().allocate(static_cast<std::size_t>(-1) / 2);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
#ifdef MASU_HAS_MEMORY_RESOURCE
    std::pmr::map<int, std::pmr::string> map(masu::memory_resource());
    for (int i = 0; i < 100; ++i)
        map[i] = std::pmr::string(100, 'y');
    CHECK(map[99].size() == 100 && *masu::memory_resource() == *masu::memory_resource());
    for (std::size_t align = 1; align <= 4096; align *= 2)
        for (std::size_t size = 0; size <= 2 * align; size += align > 16 ? align / 4 : 1) {
            void *block = masu::memory_resource()->allocate(size, align);
            CHECK(reinterpret_cast<std::uintptr_t>(block) % align == 0);
            masu::memory_resource()->deallocate(block, size, align);
        }
#endif
}

int main() {
    construct_and_destroy();
    CHECK(live == 0); // the remaining ones went with the pool
    a_constructor_that_throws_leaves_nothing();
    raw_memory_is_not_destroyed();
    CHECK(live == 0);
    handles_and_moves();
    CHECK(live == 0);
    alignment();
    threads();
    CHECK(live == 0);
    made_here_destroyed_there();
    containers();
    return 0;
}
