// A typical C++ program for jemalloc: an allocator with a caller's alignment, growth by rallocx,
// statistics by mallctl. Prints "ok".
#include <jemalloc/jemalloc.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

template <class T, std::size_t Align> struct Aligned {
    using value_type = T;
    template <class U> struct rebind { using other = Aligned<U, Align>; };
    Aligned() = default;
    template <class U> Aligned(const Aligned<U, Align> &) {}
    T *allocate(std::size_t n) {
        void *block = je_mallocx(n * sizeof(T), MALLOCX_ALIGN(Align));
        if (!block) throw std::bad_alloc();
        return static_cast<T *>(block);
    }
    void deallocate(T *block, std::size_t n) {
        je_sdallocx(block, n * sizeof(T), MALLOCX_ALIGN(Align));
    }
    template <class U> bool operator==(const Aligned<U, Align> &) const { return true; }
    template <class U> bool operator!=(const Aligned<U, Align> &) const { return false; }
};

struct Buffer {
    std::uint8_t *data = nullptr;
    std::size_t size = 0, capacity = 0;
    void append(const void *from, std::size_t n) {
        if (size + n > capacity) {
            std::size_t wanted = std::max(size + n, capacity * 2);
            void *to = data ? rallocx(data, wanted, MALLOCX_ALIGN(64))
                            : mallocx(wanted, MALLOCX_ALIGN(64));
            if (!to) throw std::bad_alloc();
            data = static_cast<std::uint8_t *>(to);
            capacity = sallocx(to, 0);
        }
        std::memcpy(data + size, from, n);
        size += n;
    }
    ~Buffer() {
        if (data) dallocx(data, 0);
    }
};

int main() {
    std::vector<double, Aligned<double, 64>> numbers;
    for (int i = 0; i < 100000; i++) numbers.push_back(i);
    if (reinterpret_cast<std::uintptr_t>(numbers.data()) % 64) return 1;
    for (int i = 0; i < 100000; i++)
        if (numbers[i] != i) return 2;
    Buffer buffer;
    std::vector<std::uint8_t> piece(8192);
    for (int i = 0; i < 4096; i++) {
        std::memset(piece.data(), i, piece.size());
        buffer.append(piece.data(), piece.size());
        if (reinterpret_cast<std::uintptr_t>(buffer.data) % 64) return 3;
    }
    for (std::size_t i = 0; i < buffer.size; i += 1000)
        if (buffer.data[i] != static_cast<std::uint8_t>(i / 8192)) return 4;
    std::map<std::string, std::string> words;
    for (int i = 0; i < 5000; i++) words[std::to_string(i)] = std::string(i % 300, 'x');
    std::uint64_t epoch = 1;
    std::size_t length = sizeof epoch;
    if (mallctl("epoch", &epoch, &length, &epoch, length)) return 5;
    std::size_t allocated = 0;
    length = sizeof allocated;
    if (mallctl("stats.allocated", &allocated, &length, nullptr, 0)) return 6;
    if (allocated < buffer.capacity) return 7;
    const char *version = nullptr;
    length = sizeof version;
    if (mallctl("version", &version, &length, nullptr, 0)) return 8;
    if (std::strncmp(version, JEMALLOC_VERSION, 4)) return 9;
    std::puts("ok");
}
