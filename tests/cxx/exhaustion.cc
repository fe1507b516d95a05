// What operator new does when there is no memory: bad_alloc, the new-handler loop,
// handlers that throw, nothrow.
#include "../c/check.h"

#include <new>
#include <stdexcept>
#include <string_view>
#include <sys/resource.h>

static const std::size_t too_much = PTRDIFF_MAX;
static auto at64 = std::align_val_t(64);

template <class Call> static void expect_bad_alloc(const char *form, Call call) {
    bool caught = false;
    try {
        void *block = call();
        CHECK(false, "%s returned %p", form, block);
    } catch (const std::bad_alloc &error) {
        caught = true;
        CHECK(error.what() != nullptr, "%s", form);
    }
    CHECK(caught, "%s", form);
}

CASE(bad_alloc_is_thrown_by_every_throwing_form) {
    for (int i = 0; i < 100; i++) {
        std::size_t size = hidden(too_much);
        expect_bad_alloc("new", [=] { return ::operator new(size); });
        expect_bad_alloc("new[]", [=] { return ::operator new[](size); });
        expect_bad_alloc("new aligned", [=] { return ::operator new(size, at64); });
        expect_bad_alloc("new[] aligned", [=] { return ::operator new[](size, at64); });
        size = hidden(SIZE_MAX);
        expect_bad_alloc("new of SIZE_MAX", [=] { return ::operator new(size); });
        expect_bad_alloc("new aligned of SIZE_MAX", [=] { return ::operator new(size, at64); });
    }
}

CASE(nothrow_forms_return_null) {
    for (std::size_t size : {too_much, std::size_t(SIZE_MAX), std::size_t(1) << 60}) {
        size = hidden(size);
        CHECK(::operator new(size, std::nothrow) == nullptr, "new");
        CHECK(::operator new[](size, std::nothrow) == nullptr, "new[]");
        CHECK(::operator new(size, at64, std::nothrow) == nullptr, "new aligned");
        CHECK(::operator new[](size, at64, std::nothrow) == nullptr, "new[] aligned");
    }
}

struct Witness {
    static int alive;
    Witness() { alive++; }
    ~Witness() { alive--; }
};
int Witness::alive = 0;

__attribute__((noinline)) static void dive(int depth, std::size_t size) {
    Witness here;
    if (depth > 0) dive(depth - 1, size);
    else hide(::operator new(size));
    hide(&here);
}

CASE(unwinding_runs_the_destructors_of_the_callers) {
    for (int i = 0; i < 50; i++) {
        bool caught = false;
        try {
            dive(20, hidden(too_much));
        } catch (const std::bad_alloc &) {
            caught = true;
        }
        CHECK(caught && Witness::alive == 0, "%d are still alive", Witness::alive);
    }
}

static int calls;

// Three calls that change nothing; at the fourth, the handler removes itself.
static void give_up_after_four() {
    free(malloc(1000)); // a handler may allocate
    if (++calls == 4) std::set_new_handler(nullptr);
}

CASE(new_handler_is_called_until_it_gives_up) {
    for (int form = 0; form < 8; form++) {
        calls = 0;
        std::set_new_handler(give_up_after_four);
        std::size_t size = hidden(too_much);
        bool caught = false;
        void *block = nullptr;
        try {
            switch (form) {
            case 0: block = ::operator new(size); break;
            case 1: block = ::operator new[](size); break;
            case 2: block = ::operator new(size, at64); break;
            case 3: block = ::operator new[](size, at64); break;
            case 4: block = ::operator new(size, std::nothrow); break;
            case 5: block = ::operator new[](size, std::nothrow); break;
            case 6: block = ::operator new(size, at64, std::nothrow); break;
            case 7: block = ::operator new[](size, at64, std::nothrow); break;
            }
        } catch (const std::bad_alloc &) {
            caught = true;
        }
        CHECK(calls == 4, "form %d: %d calls", form, calls);
        CHECK(block == nullptr && caught == (form < 4), "form %d", form);
    }
}

struct OutOfPatience : std::bad_alloc {};
static void throw_at_the_third_call() {
    if (++calls == 3) throw OutOfPatience();
}

CASE(new_handler_may_throw) {
    std::set_new_handler(throw_at_the_third_call);
    for (int round = 0; round < 20; round++) {
        std::size_t size = hidden(too_much);
        calls = 0;
        int caught = 0;
        try {
            Witness here;
            hide(::operator new(size));
        } catch (const OutOfPatience &) {
            caught = 1;
        }
        CHECK(caught && calls == 3 && Witness::alive == 0, "new: %d calls", calls);
        calls = caught = 0;
        try {
            hide(::operator new[](size, at64));
        } catch (const OutOfPatience &) {
            caught = 1;
        }
        CHECK(caught && calls == 3, "new[] aligned: %d calls", calls);
        // The nothrow forms turn a bad_alloc from the handler into NULL.
        calls = 0;
        CHECK(::operator new(size, std::nothrow) == nullptr && calls == 3, "nothrow: %d calls", calls);
        calls = 0;
        CHECK(::operator new[](size, at64, std::nothrow) == nullptr && calls == 3, "nothrow: %d calls", calls);
    }
    std::set_new_handler(nullptr);
}

static void throw_something_else() { throw std::runtime_error("no more"); }

CASE(new_handler_may_throw_another_type) {
    std::set_new_handler(throw_something_else);
    bool caught = false;
    try {
        hide(::operator new(hidden(too_much)));
    } catch (const std::runtime_error &error) {
        caught = std::string_view(error.what()) == "no more";
    }
    CHECK(caught, "the handler's exception did not arrive");
    std::set_new_handler(nullptr);
}

// A handler that really makes room: the loop must try again and succeed.
static void *reserve;
static void release_the_reserve() {
    calls++;
    CHECK(calls < 10, "the reserve did not help");
    free(reserve);
    reserve = nullptr;
    rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &unlimited);
}

CASE(new_handler_that_makes_room_is_rewarded) {
    calls = 0;
    reserve = malloc(1 << 20);
    rlimit tight = {rlim_t(status_field("VmSize:")) * 1024 + (64 << 20), RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &tight) == 0, "setrlimit");
    std::set_new_handler(release_the_reserve);
    // Far more than any allocator caches; possible again once the limit is gone.
    char *block = static_cast<char *>(::operator new(std::size_t(20) << 30));
    CHECK(calls == 1, "%d calls", calls);
    block[0] = block[(std::size_t(20) << 30) - 1] = 1;
    ::operator delete(block);
    std::set_new_handler(nullptr);
}
