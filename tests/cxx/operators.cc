// Every form of operator new and delete, called by name: in a new-expression the compiler may
// choose or remove what a test wants to see.
#include "../c/check.h"

#include <malloc.h>
#include <new>
#include <vector>

static const std::size_t sizes[] = {0, 1, 8, 16, 24, 100, 1000, 4097, 8192, 9000, 70000, 1 << 20, 3 << 20};
static const std::size_t alignments[] = {16, 32, 64, 128, 512, 4096, 65536, 2 << 20};

static void *use(void *block, std::size_t size, std::size_t alignment) {
    CHECK(block != nullptr, "%zu bytes", size);
    CHECK(reinterpret_cast<uintptr_t>(block) % alignment == 0, "%p at %zu", block, alignment);
    CHECK(malloc_usable_size(block) >= size, "usable size of %zu", size);
    fill(block, size, size);
    CHECK(first_difference(block, size, size) == size, "content of %zu", size);
    return block;
}

CASE(plain_forms) {
    for (int round = 0; round < 20; round++)
        for (std::size_t size : sizes) {
            ::operator delete(use(::operator new(size), size, 16));
            ::operator delete(use(::operator new(size), size, 16), size);
            ::operator delete[](use(::operator new[](size), size, 16));
            ::operator delete[](use(::operator new[](size), size, 16), size);
        }
}

CASE(nothrow_forms) {
    for (int round = 0; round < 20; round++)
        for (std::size_t size : sizes) {
            ::operator delete(use(::operator new(size, std::nothrow), size, 16), std::nothrow);
            ::operator delete[](use(::operator new[](size, std::nothrow), size, 16), std::nothrow);
            ::operator delete(use(::operator new(size, std::nothrow), size, 16), size);
            ::operator delete[](use(::operator new[](size, std::nothrow), size, 16));
        }
}

CASE(aligned_forms) {
    for (std::size_t alignment : alignments)
        for (std::size_t size : sizes) {
            auto at = std::align_val_t(alignment);
            ::operator delete(use(::operator new(size, at), size, alignment), at);
            ::operator delete(use(::operator new(size, at), size, alignment), size, at);
            ::operator delete[](use(::operator new[](size, at), size, alignment), at);
            ::operator delete[](use(::operator new[](size, at), size, alignment), size, at);
            ::operator delete(use(::operator new(size, at, std::nothrow), size, alignment), at, std::nothrow);
            ::operator delete[](use(::operator new[](size, at, std::nothrow), size, alignment), at, std::nothrow);
        }
}

// Alignments below 16 exist too: an over-aligned type is not the only caller.
CASE(small_alignments) {
    for (std::size_t alignment : {1, 2, 4, 8})
        for (std::size_t size : sizes) {
            auto at = std::align_val_t(alignment);
            ::operator delete(use(::operator new(size, at), size, alignment), at);
            ::operator delete[](use(::operator new[](size, at), size, alignment), size, at);
        }
}

CASE(deleting_null_does_nothing) {
    void *null = hide(nullptr);
    auto at = std::align_val_t(64);
    errno = 4000;
    ::operator delete(null);
    ::operator delete[](null);
    ::operator delete(null, std::size_t(8));
    ::operator delete[](null, std::size_t(8));
    ::operator delete(null, at);
    ::operator delete[](null, at);
    ::operator delete(null, std::size_t(8), at);
    ::operator delete[](null, std::size_t(8), at);
    ::operator delete(null, std::nothrow);
    ::operator delete[](null, std::nothrow);
    ::operator delete(null, at, std::nothrow);
    ::operator delete[](null, at, std::nothrow);
    CHECK(errno == 4000, "errno became %d", errno);
}

// Large batches, so that every form of delete really gives memory back.
template <class Free> static void nothing_is_lost(const char *form, Free release) {
    enum { count = 1000 };
    static void *blocks[count];
    long before = 0;
    for (int round = 0; round < 30; round++) {
        for (void *&block : blocks) {
            block = ::operator new(5000, std::align_val_t(64));
            memset(block, 1, 5000);
        }
        for (void *block : blocks) release(block);
        if (round == 5) before = resident_kib();
    }
    CHECK(resident_kib() < before + 40000, "%s: %ld -> %ld KiB", form, before, resident_kib());
}

CASE(every_delete_gives_memory_back) {
    auto at = std::align_val_t(64);
    nothing_is_lost("aligned", [=](void *p) { ::operator delete(p, at); });
    nothing_is_lost("aligned, sized", [=](void *p) { ::operator delete(p, 5000, at); });
    nothing_is_lost("aligned, nothrow", [=](void *p) { ::operator delete(p, at, std::nothrow); });
    nothing_is_lost("aligned []", [=](void *p) { ::operator delete[](p, at); });
    nothing_is_lost("aligned, sized []", [=](void *p) { ::operator delete[](p, 5000, at); });
    nothing_is_lost("aligned, nothrow []", [=](void *p) { ::operator delete[](p, at, std::nothrow); });
    nothing_is_lost("plain", [](void *p) { ::operator delete(p); });
    nothing_is_lost("sized", [](void *p) { ::operator delete(p, std::size_t(5000)); });
    nothing_is_lost("nothrow", [](void *p) { ::operator delete(p, std::nothrow); });
    nothing_is_lost("plain []", [](void *p) { ::operator delete[](p); });
    nothing_is_lost("sized []", [](void *p) { ::operator delete[](p, std::size_t(5000)); });
    nothing_is_lost("nothrow []", [](void *p) { ::operator delete[](p, std::nothrow); });
}

struct alignas(256) Wide {
    char bytes[300];
};

CASE(expressions_and_containers) {
    for (int i = 1; i < 200; i++) {
        auto *wide = new Wide[i];
        CHECK(reinterpret_cast<uintptr_t>(hide(wide)) % 256 == 0, "%p", static_cast<void *>(wide));
        delete[] wide;
        auto *one = new Wide;
        CHECK(reinterpret_cast<uintptr_t>(hide(one)) % 256 == 0, "%p", static_cast<void *>(one));
        delete one;
        std::vector<Wide> many(i);
        CHECK(reinterpret_cast<uintptr_t>(many.data()) % 256 == 0, "%p", static_cast<void *>(many.data()));
        std::vector<std::vector<int>> nested(i, std::vector<int>(i, 3));
        nested.insert(nested.begin(), std::vector<int>(5000, 4));
        CHECK(nested[0][4999] == 4 && nested[i][i - 1] == 3, "vectors of %d", i);
    }
}

CASE(new_and_free_mix_as_real_programs_do) {
    for (std::size_t size : sizes) {
        free(::operator new(size));
        ::operator delete(malloc(size));
        ::operator delete[](realloc(::operator new(size), size * 2 + 1));
    }
}
