// masu for C++17: a separate heap for part of a program, as a std::pmr::memory_resource. Header only.
//
//   masu::heap heap(64 << 20);                  at most 64 MiB
//   std::pmr::vector<int> numbers(&heap);
//   heap.allocated();                           bytes in its live blocks
//
// Link the program with masu (pkg-config masu, CMake's masu::masu), or preload masu.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef MASU_HEAP_HPP
#define MASU_HEAP_HPP

#if __cplusplus < 201703L
#error "heap.hpp needs C++17 or later: compile with -std=c++17"
#else

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <masu/masu.h>
#include <memory_resource>
#include <new>
#include <system_error>

namespace masu {

// A heap: blocks that are limited, counted and freed all at once. Any thread may use it. Destroying or resetting it frees
// everything in it without running destructors.
class heap final : public std::pmr::memory_resource {
  public:
    // Makes a heap of at most `limit` bytes in live blocks. Throws std::system_error if memory is out or a thousand heaps
    // are alive.
    explicit heap(std::size_t limit = SIZE_MAX) {
        check(masu_heap_create(&heap_), "masu::heap");
        if (limit != SIZE_MAX)
            set_limit(limit);
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    ~heap() override { masu_heap_destroy(heap_); }

    // Bytes in live blocks, counted by usable size.
    std::size_t allocated() const noexcept { return masu_heap_allocated(heap_); }
    // The limit on the bytes in live blocks; SIZE_MAX means no limit.
    std::size_t limit() const noexcept { return masu_heap_limit(heap_); }
    // Sets that limit. Allocations beyond it throw std::bad_alloc; existing blocks stay.
    void set_limit(std::size_t bytes) { check(masu_heap_set_limit(heap_, bytes), "masu::heap::set_limit"); }
    // Frees all blocks. Nothing in the heap may be used or destroyed afterwards.
    void reset() { check(masu_heap_reset(heap_), "masu::heap::reset"); }
    // Gives the heap's free memory back to the system.
    void trim() noexcept { masu_heap_trim(heap_); }
    // The same heap, for the functions of masu.h.
    masu_heap native_handle() const noexcept { return heap_; }

  private:
    static void check(int error, const char *what) {
        if (error != 0)
            throw std::system_error(error, std::generic_category(), what);
    }
    void *do_allocate(std::size_t size, std::size_t align) override {
        void *block = masu_heap_memalign(heap_, align, size);
        if (block == nullptr)
            throw std::bad_alloc();
        return block;
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override { std::free(block); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

    masu_heap heap_{};
};

} // namespace masu

#endif // C++17
#endif // MASU_HEAP_HPP
