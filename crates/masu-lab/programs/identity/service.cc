// A service in C++: four workers answer requests of four clients and keep sessions. Says each moment on a line. At the
// first and the last it waits for an answer; at the second it works until one comes.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct Request {
    std::uint64_t session;
    std::vector<std::string> words;
};

class Worker {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::unique_ptr<Request>> queue;
    bool closed = false;

  public:
    std::unordered_map<std::uint64_t, std::vector<std::string>> sessions;

    void send(std::unique_ptr<Request> request) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return queue.size() < 64; });
        queue.push_back(std::move(request));
        changed.notify_all();
    }

    void close() {
        std::lock_guard lock(mutex);
        closed = true;
        changed.notify_all();
    }

    void serve() {
        for (;;) {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return closed || !queue.empty(); });
            if (queue.empty()) break;
            auto request = std::move(queue.front());
            queue.pop_front();
            changed.notify_all();
            lock.unlock();
            auto &session = sessions[request->session];
            for (auto &word : request->words) session.push_back(word + word);
            if (session.size() > 400) sessions.erase(request->session);
        }
        std::erase_if(sessions, [](auto &session) { return session.first % 5 != 0; });
    }
};

int main() {
    std::string line;
    std::cout << "start" << std::endl;
    std::getline(std::cin, line);
    Worker workers[4];
    std::atomic<bool> end = false;
    std::vector<std::thread> serving, asking;
    for (auto &worker : workers) serving.emplace_back([&] { worker.serve(); });
    for (std::uint64_t from = 1; from < 5; from++) {
        asking.emplace_back([&, state = from]() mutable {
            while (!end) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                auto request = std::make_unique<Request>();
                request->session = state >> 48 & 0xfff;
                for (std::uint64_t i = 0; i <= (state >> 40 & 63); i++) request->words.emplace_back(5 + i % 45, 'w');
                workers[request->session % 4].send(std::move(request));
            }
        });
    }
    std::cout << "load" << std::endl;
    std::getline(std::cin, line);
    end = true;
    for (auto &thread : asking) thread.join();
    for (auto &worker : workers) worker.close();
    for (auto &thread : serving) thread.join();
    std::cout << "rest" << std::endl;
    std::getline(std::cin, line);
}
