// Objects until memory runs out: the exception arrives, and can be reported.
#include <iostream>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

int main() {
    std::vector<std::unique_ptr<char[]>> blocks;
    try {
        for (;;) blocks.emplace_back(new char[100000]);
    } catch (const std::bad_alloc &error) {
        std::ostringstream text;
        text << error.what() << " after " << blocks.size() * 100000 / (1 << 20) << " MiB";
        std::cout << text.str() << std::endl;
    }
    return 0;
}
