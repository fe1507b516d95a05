// C++ objects with thread-local and static storage: their destructors allocate and free.
#include "../c/check.h"

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Holds memory of several kinds and, when destroyed, allocates more.
struct Holder {
    std::string text;
    std::map<int, std::string> table;
    std::vector<char> bytes;
    explicit Holder(int seed) : text(100 + seed, 'x'), bytes(50000, char(seed)) {
        for (int i = 0; i < 50; i++) table[i] = std::string(i * 3, 'y');
    }
    ~Holder() {
        CHECK(text[0] == 'x' && table[49].size() == 147 && bytes.size() == 50000, "a member changed");
        std::vector<std::unique_ptr<char[]>> more;
        for (int i = 0; i < 30; i++) more.emplace_back(new char[i * 1000 + 1]);
        table.clear();
        text += std::string(3000, 'z');
        free(realloc(malloc(100), 1 << 20));
    }
};

thread_local Holder first(1);
thread_local Holder second(2);
thread_local std::unique_ptr<Holder> third;

static void touch(int order) {
    switch (order) {
    case 0: first.text += "a"; second.text += "b"; third = std::make_unique<Holder>(3); break;
    case 1: third = std::make_unique<Holder>(3); second.text += "b"; first.text += "a"; break;
    case 2: free(malloc(10)); second.text += "b"; break;
    case 3: third.reset(); break;
    }
}

CASE(thread_local_objects_allocate_while_they_die) {
    for (int round = 0; round < 25; round++)
        for (int order = 0; order < 4; order++) {
            std::thread one(touch, order), two(touch, 3 - order);
            one.join();
            two.join();
        }
}

// Blocks pass from an exiting thread to its successor. Every thread of this file has a testator, as a file's
// thread-local objects are created together, so several may exit at once.
static std::mutex inheriting;
static std::vector<std::unique_ptr<Holder>> inheritance;
struct Testator {
    std::unique_ptr<Holder> estate = std::make_unique<Holder>(5);
    ~Testator() {
        std::lock_guard<std::mutex> alone(inheriting);
        inheritance.push_back(std::move(estate));
    }
};
thread_local Testator testator;

CASE(thread_local_objects_outlive_their_thread) {
    for (int i = 0; i < 60; i++) {
        std::thread([] { testator.estate->text += "!"; }).join();
        if (i % 3 == 2) std::thread([] { inheritance.clear(); }).join();
    }
    inheritance.clear();
}

// Static objects are destroyed after main, in reverse order; this one says so at the end.
struct Farewell {
    Holder holder{7};
    bool wanted = false;
    ~Farewell() {
        if (!wanted) return;
        auto *late = new Holder(8);
        delete late;
        dprintf(1, "static destructor done\n");
    }
};
static Farewell farewell;

CASE(static_objects_die_after_main) {
    farewell.wanted = true;
    static Holder local(9);
    local.text += "x";
    thread_local Holder of_main(10);
    of_main.text += "x";
}

// An exception that crosses threads is created in one and freed in another.
CASE(exceptions_cross_threads) {
    for (int i = 0; i < 200; i++) {
        std::exception_ptr error;
        std::thread([&error, i] {
            try {
                throw std::runtime_error(std::string(i * 10, 'e'));
            } catch (...) {
                error = std::current_exception();
            }
        }).join();
        bool caught = false;
        try {
            std::rethrow_exception(error);
        } catch (const std::runtime_error &back) {
            caught = std::string(back.what()).size() == std::size_t(i) * 10;
        }
        CHECK(caught, "exception %d", i);
    }
}
