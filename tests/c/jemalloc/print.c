// malloc_stats_print, malloc_message, and the configuration that a program or its environment gives.
#include "door.h"

static char text[1 << 20];
static size_t length;
static int calls;
static void *opaque;

static void collect(void *to, const char *string) {
    opaque = to;
    calls++;
    size_t more = strlen(string);
    CHECK(length + more < sizeof text, "%zu", length + more);
    memcpy(text + length, string, more + 1);
    length += more;
}

static const char *print(const char *opts) {
    length = calls = 0;
    text[0] = 0;
    malloc_stats_print(collect, &length, opts);
    CHECK(calls > 0 && opaque == &length, "%d calls with %p", calls, opaque);
    return text;
}

CASE(text_has_a_beginning_an_end_and_the_figures_between) {
    const char *all = print(NULL);
    CHECK(strstr(all, "___ Begin jemalloc statistics ___") == all, "%.60s", all);
    const char *wanted[] = {"--- End jemalloc statistics ---", "Allocated: ", "resident: ",
                            "opt.dirty_decay_ms", "config.stats"};
    for (int w = 0; w < 5; w++) CHECK(strstr(all, wanted[w]), "no %s in %.2000s", wanted[w], all);
}

CASE(json_is_printed_in_one_object) {
    const char *json = print("J");
    const char *start = "{\"jemalloc\":{\"version\"";
    CHECK(strncmp(json, start, strlen(start)) == 0, "%.60s", json);
    fwrite(json, 1, length, stdout);
    // Before the runner writes, which uses no buffer.
    fflush(stdout);
}

CASE(json_with_every_letter_is_printed) {
    fputs(print("Jgmdablxeh"), stdout);
    fflush(stdout);
}

CASE(letters_leave_sections_out) {
    CHECK(!strstr(print("g"), "opt.narenas"), "general: %.500s", text);
    CHECK(!strstr(print("ma"), "Merged arenas"), "merged: %.500s", text);
    CHECK(strstr(print("b"), "Merged arenas") && !strstr(text, "curregs"), "bins: %.500s", text);
    CHECK(strstr(print("xlehd"), "Allocated: "), "%.500s", text);
}

CASE(messages_go_where_the_program_says) {
    malloc_message = collect;
    length = calls = 0;
    malloc_stats_print(NULL, &calls, "gmab");
    CHECK(calls > 0 && opaque == &calls, "%d calls", calls);
    CHECK(strstr(text, "Allocated: "), "%.200s", text);
    malloc_message = NULL;
}

CASE(a_thread_may_allocate_while_it_prints) {
    for (int i = 0; i < 100; i++) {
        free(hide(malloc(100 + (size_t)i * 100)));
        print("J");
    }
}

static long decay(void) {
    ssize_t milliseconds;
    READ("arenas.dirty_decay_ms", &milliseconds);
    return milliseconds;
}

// Run with MALLOC_CONF and MASU_DECAY as the last part of the name says.
CASE(conf_decay_is_default) { CHECK(decay() == 500, "%ld", decay()); }
CASE(conf_decay_is_1234) { CHECK(decay() == 1234, "%ld", decay()); }
CASE(conf_decay_is_never) { CHECK(decay() == -1, "%ld", decay()); }
CASE(conf_background_is_off) {
    bool on;
    READ("opt.background_thread", &on);
    CHECK(!on, "on");
}
