// What makes a C++ compiler allocate: containers of containers, instantiated by depth.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int Depth> struct Node {
    std::map<std::string, std::tuple<int, std::vector<Node<Depth - 1>>>> children;
    std::variant<int, std::string, std::shared_ptr<Node<Depth - 1>>> value;
    int sum() const {
        int total = Depth;
        for (auto &[key, entry] : children) {
            total += static_cast<int>(key.size()) + std::get<0>(entry);
            for (auto &node : std::get<1>(entry)) total += node.sum();
        }
        return total + std::visit([](auto &held) { return static_cast<int>(sizeof held); }, value);
    }
};
template <> struct Node<0> {
    int sum() const { return 0; }
};
template <int Depth> int run() {
    Node<Depth> node;
    std::unordered_map<int, std::function<int(int)>> functions;
    functions[Depth] = [&](int x) { return x + node.sum(); };
    std::vector<std::pair<int, std::string>> list{{Depth, "n"}, {Depth + 1, "m"}};
    std::sort(list.begin(), list.end());
    return functions[Depth](list.front().first) + run<Depth - 1>();
}
template <> int run<0>() { return 0; }
int main() { return run<5>() == 0; }
