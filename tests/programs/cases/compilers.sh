# The same source must become the same object file, byte for byte.
packages='gcc g++ clang binutils'
needs='gcc g++ clang clang++ cargo'
maps='gcc g++ cc1 cc1plus as ld collect2 clang'
limit=240

prepare() {
    # Hundreds of instantiations, which make compilers allocate.
    cat >templates.cc <<'CC'
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Node {
    std::map<std::string, std::tuple<int, std::vector<Node<N - 1>>>> children;
    std::variant<int, std::string, std::shared_ptr<Node<N - 1>>> value;
    int sum() const {
        int total = N;
        for (auto &[key, entry] : children) {
            total += static_cast<int>(key.size()) + std::get<0>(entry);
            std::for_each(std::get<1>(entry).begin(), std::get<1>(entry).end(), [&](auto &n) { total += n.sum(); });
        }
        return total + std::visit([](auto &v) { return static_cast<int>(sizeof v); }, value);
    }
};
template <> struct Node<0> { int sum() const { return 0; } };
template <int N> int run() {
    Node<N> node;
    std::unordered_map<int, std::function<int(int)>> functions;
    functions[N] = [&](int x) { return x + node.sum(); };
    std::vector<std::pair<int, std::string>> list{{N, "n"}, {N + 1, "m"}};
    std::sort(list.begin(), list.end());
    return functions[N](list.front().first) + (std::regex_search("abc", std::regex("a.c")) ? 1 : 0) + run<N - 1>();
}
template <> int run<0>() { return 0; }
int main() { return run<DEPTH>() == 0; }
CC
    sed -i "s/DEPTH/$(amount 3 10)/" templates.cc
    # SQLite's Rust bindings contain it in one file of a quarter of a million lines.
    mkdir -p fetch/src && touch fetch/src/lib.rs
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2024"\n[dependencies]\nlibsqlite3-sys = "=0.30.1"\n[workspace]\n' >fetch/Cargo.toml
    (cd fetch && cargo vendor --quiet >/dev/null)
    cp fetch/vendor/libsqlite3-sys/sqlite3/sqlite3.c fetch/vendor/libsqlite3-sys/sqlite3/sqlite3.h .
}

measure() {
    cp "$shared"/templates.cc "$shared"/sqlite3.[ch] .
    gcc -c -g sqlite3.c -o sqlite-gcc.o
    g++ -std=c++17 -c -O1 -g templates.cc -o templates-gcc.o
    clang -c -g -w sqlite3.c -o sqlite-clang.o
    clang++ -std=c++17 -c -O1 -g templates.cc -o templates-clang.o
    g++ templates-gcc.o -o templates
    ar rcsD all.a ./*.o && ranlib all.a
    # The debugging information contains the build's directory.
    strip --strip-debug ./*.o
    md5sum ./*.o
    ./templates && echo ran
    gcc -c -std=c11 -xc /dev/null -include no-such.h -o /dev/null || echo "exit $?"
}
