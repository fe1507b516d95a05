// `operator new` when there is no memory, in a process with or without jemalloc's option
// `experimental_infallible_new`. The argument says what should happen.
#include <jemalloc/jemalloc.h>

#include <cstdio>
#include <cstring>
#include <new>

static int told;

static void tell(const char *message) {
    if (std::strstr(message, "experimental_infallible_new")) told++;
}

static std::size_t volatile too_much = static_cast<std::size_t>(-1) / 2;

static void *every_form(int form) {
    std::align_val_t line{64};
    switch (form) {
    case 0: return ::operator new(too_much);
    case 1: return ::operator new[](too_much);
    case 2: return ::operator new(too_much, std::nothrow);
    case 3: return ::operator new[](too_much, std::nothrow);
    case 4: return ::operator new(too_much, line);
    case 5: return ::operator new[](too_much, line);
    case 6: return ::operator new(too_much, line, std::nothrow);
    default: return ::operator new[](too_much, line, std::nothrow);
    }
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    bool on;
    std::size_t length = sizeof on;
    if (je_mallctl("opt.experimental_infallible_new", &on, &length, nullptr, 0) != 0) return 1;
    if (!std::strcmp(what, "throws")) {
        int thrown = 0;
        for (int form = 0; form < 8; form++) {
            try {
                if (every_form(form)) return 2;
            } catch (const std::bad_alloc &) {
                thrown++;
            }
        }
        if (on || thrown != 4) return 3;
    } else if (!std::strcmp(what, "tells")) {
        void (*hook)(const char *) = tell;
        if (je_mallctl("experimental.hooks.safety_check_abort", nullptr, nullptr, &hook,
            sizeof hook) != 0) return 4;
        for (int form = 0; form < 8; form++)
            if (every_form(form)) return 5;
        if (!on || told != 8) return 6;
        // Possible requests succeed.
        delete new long(4);
    } else {
        every_form(0);
        return 7;
    }
    std::puts("ok");
}
