// masu for C++17: pools of objects, and masu's memory for containers. Header only.
//
//   masu::object_pool<T>              objects made and destroyed one by one, or all with the pool
//   masu::concurrent_object_pool<T>   the same for any number of threads
//   masu::allocator<T>                a stateless allocator
//   masu::memory_resource()           a std::pmr::memory_resource
//
// Memory comes from aligned_alloc and free: masu's if masu is linked or preloaded, otherwise those of the
// program's allocator.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef MASU_MASU_HPP
#define MASU_MASU_HPP

#if __cplusplus < 201703L
#error "masu.hpp needs C++17 or later: compile with -std=c++17"
#else

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#if __has_include(<memory_resource>)
#include <memory_resource>
#define MASU_HAS_MEMORY_RESOURCE 1
#endif
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

namespace masu {
namespace detail {

// Returns `size` bytes at a multiple of `align`, a power of two. Throws std::bad_alloc.
inline void *allocate(std::size_t size, std::size_t align) {
    void *p;
    if (align <= alignof(std::max_align_t)) {
        // Some allocators align a smaller block only to its size.
        p = std::malloc(std::max(size, align));
    } else if (size > std::numeric_limits<std::size_t>::max() - align) {
        p = nullptr;
    } else {
        p = std::aligned_alloc(align, (std::max(size, align) + align - 1) & ~(align - 1));
    }
    if (p == nullptr)
        throw std::bad_alloc();
    return p;
}

// The lowest bits of a slot's link give its state:
//   live    0: holds an object
//   raw     2: given out by malloc(), holds what its user put there
//   vacant  odd: the rest points to the next vacant slot
template <typename T> struct slot {
    static constexpr std::uintptr_t live = 0, vacant = 1, raw = 2;

    std::uintptr_t link;
    alignas(T) unsigned char bytes[sizeof(T)];

    T *object() noexcept { return std::launder(reinterpret_cast<T *>(bytes)); }

    static slot *of(T *object) noexcept {
        return reinterpret_cast<slot *>(reinterpret_cast<unsigned char *>(object) -
                                        offsetof_bytes());
    }

  private:
    static constexpr std::size_t offsetof_bytes() noexcept {
        return (sizeof(std::uintptr_t) + alignof(T) - 1) & ~(alignof(T) - 1);
    }
};

// The slots of one pool, or of one shard of it. Chunks double; nothing ever moves.
template <typename T> class slots {
  public:
    using slot_type = slot<T>;

    slots() = default;
    slots(slots &&other) noexcept
        : vacant_(std::exchange(other.vacant_, nullptr)),
          fresh_(std::exchange(other.fresh_, nullptr)), end_(std::exchange(other.end_, nullptr)),
          newest_(std::exchange(other.newest_, nullptr)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    slots &operator=(slots &&) = delete;

    // Returns a vacant or never-used slot; null if there is none without growing.
    slot_type *pop() noexcept {
        if (vacant_ != nullptr) {
            slot_type *found = vacant_;
            vacant_ = reinterpret_cast<slot_type *>(found->link & ~slot_type::vacant);
            return found;
        }
        return fresh_ != end_ ? fresh_++ : nullptr;
    }

    void push(slot_type *gone) noexcept {
        gone->link = reinterpret_cast<std::uintptr_t>(vacant_) | slot_type::vacant;
        vacant_ = gone;
    }

    // Takes all vacant slots of another; returns whether there were any.
    bool take_vacant(slots &other) noexcept {
        vacant_ = std::exchange(other.vacant_, nullptr);
        return vacant_ != nullptr;
    }

    // Adds a chunk of at least `count` slots. The one before must be used up.
    void grow(std::size_t count) {
        if (count > (std::numeric_limits<std::size_t>::max() - offset) / sizeof(slot_type))
            throw std::bad_alloc();
        void *memory = allocate(offset + count * sizeof(slot_type), alignment);
        newest_ = new (memory) chunk{newest_, count};
        fresh_ = first(newest_);
        end_ = fresh_ + count;
        capacity_ += count;
    }

    std::size_t capacity() const noexcept { return capacity_; }

    bool owns(const T *object) const noexcept {
        std::less_equal<const void *> not_above;
        for (chunk *c = newest_; c != nullptr; c = c->older) {
            const auto *begin = reinterpret_cast<const unsigned char *>(first(c));
            const auto *end = begin + c->count * sizeof(slot_type);
            const auto *at = reinterpret_cast<const unsigned char *>(object);
            if (not_above(begin, at) && !not_above(end, at))
                return (static_cast<std::size_t>(at - begin) % sizeof(slot_type)) ==
                       sizeof(slot_type) - tail;
        }
        return false;
    }

    // Destroys every live object, the newest chunk's first, and frees all memory.
    ~slots() {
        slot_type *end = fresh_;
        while (newest_ != nullptr) {
            if constexpr (!std::is_trivially_destructible_v<T>) {
                for (slot_type *s = first(newest_); s != end; ++s)
                    if (s->link == slot_type::live)
                        s->object()->~T();
            }
            chunk *older = newest_->older;
            std::free(newest_);
            newest_ = older;
            end = older != nullptr ? first(older) + older->count : nullptr;
        }
    }

  private:
    struct chunk {
        chunk *older;
        std::size_t count;
    };

    static constexpr std::size_t alignment = std::max(alignof(slot_type), alignof(chunk));
    static constexpr std::size_t offset = (sizeof(chunk) + alignment - 1) & ~(alignment - 1);
    static constexpr std::size_t tail =
        sizeof(slot_type) - ((sizeof(std::uintptr_t) + alignof(T) - 1) & ~(alignof(T) - 1));

    static slot_type *first(chunk *c) noexcept {
        return reinterpret_cast<slot_type *>(reinterpret_cast<unsigned char *>(c) + offset);
    }

    slot_type *vacant_ = nullptr;
    slot_type *fresh_ = nullptr; // never used: fresh_ to end_, in the newest chunk
    slot_type *end_ = nullptr;
    chunk *newest_ = nullptr;
    std::size_t capacity_ = 0;
};

// About a kibibyte, but at least four slots.
template <typename T> constexpr std::size_t first_slots() noexcept {
    return std::clamp<std::size_t>(1024 / sizeof(slot<T>), 4, 64);
}

} // namespace detail

// A pool of objects of one type, at addresses that never change, for one thread at a time. Making and
// destroying an object is O(1). Remaining objects are destroyed with the pool, in no particular order, and
// must not use the pool then.
//
// An object costs its size and one pointer, rounded up to its alignment. The interface resembles that
// of boost::object_pool, whose free() and destroy() walk the free list.
template <typename T> class object_pool {
  public:
    using element_type = T;
    using size_type = std::size_t;

    // Takes no memory. The first chunk will have `next_size` slots (0: about a kibibyte's worth), and
    // each further one as many as all before it, but at most `max_size` (0: no limit).
    explicit object_pool(size_type next_size = 0, size_type max_size = 0) noexcept
        : next_(next_size), max_(max_size) {}

    // Takes over the other pool's objects, which stay where they are. The other pool must have no handles
    // from make_unique: they would still refer to it.
    object_pool(object_pool &&other) noexcept
        : slots_(std::move(other.slots_)), size_(std::exchange(other.size_, 0)),
          next_(other.next_), max_(other.max_) {}
    object_pool(const object_pool &) = delete;
    object_pool &operator=(const object_pool &) = delete;
    object_pool &operator=(object_pool &&) = delete;

    // Makes an object. Throws std::bad_alloc, and what the constructor throws; the pool is then
    // unchanged.
    template <typename... Args> T *construct(Args &&...args) {
        auto *s = take();
        try {
            ::new (static_cast<void *>(s->bytes)) T(std::forward<Args>(args)...);
        } catch (...) {
            slots_.push(s);
            throw;
        }
        s->link = slot::live;
        ++size_;
        return s->object();
    }

    // Destroys an object of this pool. Null is allowed.
    void destroy(T *object) noexcept {
        if (object == nullptr)
            return;
        object->~T();
        slots_.push(slot::of(object));
        --size_;
    }

    // Returns memory for an object that the pool will not destroy. Throws std::bad_alloc.
    T *malloc() {
        auto *s = take();
        s->link = slot::raw;
        ++size_;
        return reinterpret_cast<T *>(s->bytes);
    }

    // Gives back memory from malloc(), or that of an object destroyed by hand. Null is allowed.
    void free(T *memory) noexcept {
        if (memory == nullptr)
            return;
        slots_.push(slot::of(memory));
        --size_;
    }

    struct deleter {
        object_pool *pool;
        void operator()(T *object) const noexcept { pool->destroy(object); }
    };
    using unique_ptr = std::unique_ptr<T, deleter>;

    // Makes an object that its handle destroys. The handle must not outlive the pool.
    template <typename... Args> unique_ptr make_unique(Args &&...args) {
        return unique_ptr(construct(std::forward<Args>(args)...), deleter{this});
    }

    // Whether an address belongs to one of this pool's object slots, occupied or not. O(chunks).
    bool is_from(const T *object) const noexcept { return slots_.owns(object); }

    // Number of objects, including slots given out by malloc().
    size_type size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    size_type capacity() const noexcept { return slots_.capacity(); }

    // Number of slots of the next chunk.
    size_type get_next_size() const noexcept {
        size_type next = next_ != 0 ? next_ : std::max(slots_.capacity(), detail::first_slots<T>());
        return max_ != 0 ? std::min(next, max_) : next;
    }
    // Overrides the doubling, once.
    void set_next_size(size_type next) noexcept { next_ = next; }

  private:
    using slot = detail::slot<T>;

    slot *take() {
        if (auto *s = slots_.pop())
            return s;
        slots_.grow(get_next_size());
        next_ = 0;
        return slots_.pop();
    }

    detail::slots<T> slots_;
    size_type size_ = 0;
    size_type next_;
    size_type max_;
};

// An object_pool that any number of threads use at once. Objects may be destroyed on a thread other
// than the one that made them. Remaining objects are destroyed with the pool, as in object_pool.
//
// Contention is rare: a thread takes slots from, and returns them to, one of eight shards, and tries
// the others' vacant slots before it allocates memory.
template <typename T> class concurrent_object_pool {
  public:
    using element_type = T;
    using size_type = std::size_t;

    concurrent_object_pool() = default;
    concurrent_object_pool(const concurrent_object_pool &) = delete;
    concurrent_object_pool &operator=(const concurrent_object_pool &) = delete;

    // Makes an object. Throws std::bad_alloc, and what the constructor throws; the pool is then
    // unchanged.
    template <typename... Args> T *construct(Args &&...args) {
        auto *s = take();
        try {
            ::new (static_cast<void *>(s->bytes)) T(std::forward<Args>(args)...);
        } catch (...) {
            give_back(s);
            throw;
        }
        s->link = slot::live;
        return s->object();
    }

    // Destroys an object of this pool. Null is allowed.
    void destroy(T *object) noexcept {
        if (object == nullptr)
            return;
        object->~T();
        give_back(slot::of(object));
    }

    // Number of objects a moment ago.
    size_type size() const noexcept {
        std::ptrdiff_t sum = 0;
        for (const shard &each : shards_)
            sum += each.live.load(std::memory_order_relaxed);
        return sum < 0 ? 0 : static_cast<size_type>(sum);
    }

    bool is_from(const T *object) const {
        for (const shard &each : shards_) {
            std::lock_guard<std::mutex> lock(each.mutex);
            if (each.slots.owns(object))
                return true;
        }
        return false;
    }

  private:
    using slot = detail::slot<T>;

    struct alignas(128) shard {
        mutable std::mutex mutex;
        detail::slots<T> slots;
        // Objects made minus destroyed by the threads of this shard: may be negative.
        std::atomic<std::ptrdiff_t> live{0};
    };

    shard &mine() noexcept {
        static thread_local const std::size_t number =
            std::hash<std::thread::id>()(std::this_thread::get_id());
        return shards_[(number * 0x9E3779B97F4A7C15u >> 61) % shards_.size()];
    }

    slot *take() {
        shard &own = mine();
        std::lock_guard<std::mutex> lock(own.mutex);
        slot *s = own.slots.pop();
        if (s == nullptr) {
            for (shard &other : shards_) {
                // Never waits while holding a lock, so shards cannot deadlock.
                if (&other == &own || !other.mutex.try_lock())
                    continue;
                bool found = own.slots.take_vacant(other.slots);
                other.mutex.unlock();
                if (found)
                    break;
            }
            s = own.slots.pop();
        }
        if (s == nullptr) {
            own.slots.grow(std::max(own.slots.capacity(), detail::first_slots<T>()));
            s = own.slots.pop();
        }
        // Until the object is made, the pool's destructor has nothing to destroy here.
        s->link = slot::raw;
        own.live.fetch_add(1, std::memory_order_relaxed);
        return s;
    }

    void give_back(slot *s) noexcept {
        shard &own = mine();
        std::lock_guard<std::mutex> lock(own.mutex);
        own.slots.push(s);
        own.live.fetch_sub(1, std::memory_order_relaxed);
    }

    std::array<shard, 8> shards_;
};

// A stateless allocator for containers.
template <typename T> struct allocator {
    using value_type = T;
    using is_always_equal = std::true_type;

    allocator() = default;
    template <typename U> allocator(const allocator<U> &) noexcept {}

    T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw std::bad_array_new_length();
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
    }
    void deallocate(T *p, std::size_t) noexcept { std::free(p); }

    template <typename U> friend bool operator==(const allocator &, const allocator<U> &) noexcept {
        return true;
    }
    template <typename U> friend bool operator!=(const allocator &, const allocator<U> &) noexcept {
        return false;
    }
};

#ifdef MASU_HAS_MEMORY_RESOURCE
// Returns the memory resource for std::pmr containers. There is one for the whole program, and it
// is never destroyed.
inline std::pmr::memory_resource *memory_resource() noexcept {
    struct resource final : std::pmr::memory_resource {
        void *do_allocate(std::size_t size, std::size_t align) override {
            return detail::allocate(size, align);
        }
        void do_deallocate(void *p, std::size_t, std::size_t) override { std::free(p); }
        bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
            return this == &other;
        }
    };
    // In place, so that it is not destroyed at exit: containers that are destroyed later use it.
    alignas(resource) static unsigned char place[sizeof(resource)];
    static resource *const it = ::new (static_cast<void *>(place)) resource;
    return it;
}
#endif

} // namespace masu

#endif // C++17
#endif // MASU_MASU_HPP
