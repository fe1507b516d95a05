// A service in C++: a thread for each connection, sessions that turn over behind locks. A line is a session's number and
// words; the answer is how many words the session has. What one thread keeps, another one frees.
#include <array>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

struct Session {
    std::deque<std::shared_ptr<std::string>> words;
};

struct Shard {
    std::mutex lock;
    std::unordered_map<unsigned, std::unique_ptr<Session>> sessions;
};

static std::array<Shard, 16> shards;

static std::string answer(const std::string &line) {
    std::istringstream stream(line);
    unsigned number = 0;
    stream >> number;
    std::vector<std::shared_ptr<std::string>> words;
    for (std::string word; stream >> word;) words.push_back(std::make_shared<std::string>(word));
    std::size_t count = 0;
    {
        Shard &shard = shards[number % shards.size()];
        std::lock_guard guard(shard.lock);
        auto &session = shard.sessions[number];
        if (!session) session = std::make_unique<Session>();
        for (auto &word : words) session->words.push_back(word);
        while (session->words.size() > 300) session->words.pop_front();
        count = session->words.size();
        if (words.size() % 32 == 31) shard.sessions.erase(number);
    }
    std::ostringstream said;
    said << "ok " << number << ' ' << count;
    for (auto &word : words) said << ' ' << word->size();
    said << '\n';
    return said.str();
}

static void serve(int connection) {
    std::string pending;
    std::vector<char> buffer(1 << 16);
    for (ssize_t got; (got = read(connection, buffer.data(), buffer.size())) > 0;) {
        pending.append(buffer.data(), static_cast<std::size_t>(got));
        for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
            std::string said = answer(pending.substr(0, end));
            for (std::size_t sent = 0; sent < said.size();) {
                ssize_t now = write(connection, said.data() + sent, said.size() - sent);
                if (now <= 0) return;
                sent += static_cast<std::size_t>(now);
            }
        }
    }
    close(connection);
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string path = arguments[1];
    if (path.size() >= sizeof address.sun_path) return 2;
    path.copy(address.sun_path, path.size());
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 || listen(listener, 64) != 0) {
        std::cerr << "cannot listen at " << path << '\n';
        return 1;
    }
    for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0;) std::thread(serve, connection).detach();
}
