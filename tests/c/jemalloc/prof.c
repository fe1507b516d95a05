// Profiles as jemalloc's manual has them: names of threads, and files and messages that nobody asked for one by one.
// MALLOC_CONF is set by the test that runs a case, and the working directory is its own.
#include "door.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

// The files here whose names have this in them.
static int files(const char *part) {
    int count = 0;
    DIR *here = opendir(".");
    for (struct dirent *entry; (entry = readdir(here));) count += strstr(entry->d_name, part) != NULL;
    closedir(here);
    return count;
}

// A file here, whole.
static const char *text_of(const char *name) {
    static char text[1 << 20];
    FILE *file = fopen(name, "r");
    CHECK(file, "%s", name);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static void dump(const char *name) {
    CHECK(WRITE("prof.dump", name) == 0, "%s", name);
}

// The line of all.
static unsigned long bytes_in_use(void) {
    unsigned long bytes;
    dump("use.heap");
    CHECK(sscanf(text_of("use.heap"), "heap_v2/%*u t*: %*u: %lu", &bytes) == 1, "form");
    return bytes;
}

static __attribute__((noinline)) void *kept(size_t size) {
    void *volatile block = malloc(size);
    CHECK(block, "%zu", size);
    return block;
}

CASE(a_thread_has_the_name_that_it_was_given) {
    const char *name = "?";
    READ("thread.prof.name", &name);
    CHECK(name[0] == 0, "%s", name);
    char own[] = "a thread";
    const char *given = own;
    CHECK(WRITE("thread.prof.name", given) == 0, "given");
    strcpy(own, "another");
    READ("thread.prof.name", &name);
    CHECK(strcmp(name, "a thread") == 0, "%s", name);
    given = "all!\tof~ them";
    CHECK(WRITE("thread.prof.name", given) == 0, "graphic and blank characters");
    READ("thread.prof.name", &name);
    CHECK(strcmp(name, given) == 0, "%s", name);
    // A reset of the profile changes nothing.
    CHECK(act("prof.reset") == 0, "reset");
    READ("thread.prof.name", &name);
    CHECK(strcmp(name, given) == 0, "%s", name);
    given = "";
    CHECK(WRITE("thread.prof.name", given) == 0, "none");
    READ("thread.prof.name", &name);
    CHECK(name[0] == 0, "%s", name);
    given = "longer than sixteen bytes";
    CHECK(WRITE("thread.prof.name", given) == 0, "long");
    READ("thread.prof.name", &name);
    // jemalloc 5.3.0 keeps it all.
    CHECK(strncmp(name, given, 15) == 0 && (!is_masu() || strlen(name) == 15), "%s", name);
}

// jemalloc 5.3.0 answers EFAULT to a name that it does not like, as later ones and masu answer EINVAL.
static bool is_refusal(int error) { return error == EINVAL || (!is_masu() && error == EFAULT); }

CASE(a_call_for_a_threads_name_reads_or_writes) {
    const char *name = "one", *old = NULL;
    CHECK(WRITE("thread.prof.name", name) == 0, "one");
    size_t length = sizeof old;
    CHECK(mallctl("thread.prof.name", &old, &length, &name, sizeof name) == EPERM, "both");
    CHECK(mallctl("thread.prof.name", &old, &length, NULL, sizeof name) == EPERM, "both");
    CHECK(mallctl("thread.prof.name", NULL, NULL, &name, 4) == EINVAL, "half a pointer");
    length = 4;
    CHECK(mallctl("thread.prof.name", &old, &length, NULL, 0) == EINVAL, "half a pointer");
    CHECK(mallctl("thread.prof.name", NULL, NULL, NULL, 0) == 0, "neither");
    const char *none = NULL, *line = "two\nlines", *bell = "\a", *foreign = "\xc3\xa4";
    CHECK(is_refusal(WRITE("thread.prof.name", none)), "null");
    CHECK(is_refusal(WRITE("thread.prof.name", line)), "two lines");
    CHECK(is_refusal(WRITE("thread.prof.name", bell)), "a control character");
    CHECK(is_refusal(WRITE("thread.prof.name", foreign)), "beyond ASCII");
    READ("thread.prof.name", &old);
    CHECK(strcmp(old, "one") == 0, "%s", old);
}

enum { BLOCKS = 1000, SIZE = 640 };
static void *of_thread[2][BLOCKS];

static void *allocate(void *number) {
    bool is_second = number != NULL;
    const char *name = is_second ? "second" : "first";
    CHECK(WRITE("thread.prof.name", name) == 0, "%s", name);
    for (int i = 0; i < BLOCKS; i++) of_thread[is_second][i] = kept(SIZE);
    // The second gives back what the first has.
    for (int i = 0; is_second && i < BLOCKS / 2; i++) free(of_thread[0][i]);
    return NULL;
}

// A line that begins with a thread and ends with its name: blocks and bytes.
static bool line_of(const char *text, const char *name, unsigned long *blocks, unsigned long *bytes) {
    char end[32];
    snprintf(end, sizeof end, "] %s\n", name);
    const char *line = strstr(text, end);
    if (!line) return false;
    while (line > text && line[-1] != '\n') line--;
    return sscanf(line, "  t%*u: %lu: %lu [", blocks, bytes) == 2;
}

CASE(a_dump_has_what_each_thread_has) {
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&thread, NULL, allocate, i ? &thread : NULL) == 0, "a thread");
        CHECK(pthread_join(thread, NULL) == 0, "its end");
    }
    const char *mine = "the main one";
    CHECK(WRITE("thread.prof.name", mine) == 0, "named");
    void *volatile block = kept(1 << 20);
    (void)block;
    dump("threads.heap");
    const char *text = text_of("threads.heap");
    unsigned long rate, blocks, bytes, sum = 0, all;
    CHECK(sscanf(text, "heap_v2/%lu\n  t*: %*u: %lu", &rate, &all) == 2, "%.100s", text);
    static const char *const names[] = {"first", "second", "the main one"};
    static const unsigned long expected[][2] = {{BLOCKS / 2, SIZE}, {BLOCKS, SIZE}, {1, 1 << 20}};
    for (int i = 0; i < 3; i++) {
        CHECK(line_of(text, names[i], &blocks, &bytes), "%s in %.500s", names[i], text);
        unsigned long least = expected[i][0], most = least + 20;
        CHECK(blocks >= least && blocks <= most, "%s: %lu blocks", names[i], blocks);
        unsigned long size = expected[i][1];
        CHECK(bytes >= least * size && bytes <= (least * size + 8192) * 9 / 8, "%s: %lu bytes",
              names[i], bytes);
        sum += bytes;
    }
    CHECK(sum <= all && sum + 65536 > all, "%lu of %lu", sum, all);
    // Each stack has lines of threads behind that of all: the two threads share one.
    const char *stack = strstr(text, "\n@ ");
    int of_all = 0, of_threads = 0, shared = 0;
    for (const char *line = stack; (line = strchr(line, '\n')) && strncmp(line, "\n\n", 2); line++) {
        unsigned long n;
        if (strncmp(line, "\n@ ", 3) == 0) of_threads = 0;
        else if (strncmp(line, "\n  t*: ", 7) == 0) of_all++;
        else if (sscanf(line, "\n  t%*u: %lu: %*u [%*u: %*u]", &n) == 1) shared += ++of_threads == 2;
        else CHECK(false, "%.80s", line);
    }
    CHECK(of_all >= 2 && shared >= 1, "%d stacks, %d shared", of_all, shared);
}

// Without names, and with one thread, the form is the same.
CASE(a_single_thread_has_a_line) {
    for (int i = 0; i < 100; i++) kept(3000);
    dump("one.heap");
    unsigned long all, one;
    const char *text = text_of("one.heap");
    CHECK(sscanf(text, "heap_v2/%*u t*: %lu: %*u [%*u: %*u] t%*u: %lu: %*u [%*u: %*u] @ ", &all, &one) == 2,
          "%.200s", text);
    CHECK(all == one && all >= 100, "%lu %lu", all, one);
}

static void allocated_and_freed(size_t bytes) {
    for (size_t done = 0; done < bytes; done += 4096) free(kept(4096));
}

CASE(an_interval_of_allocations_ends_with_a_dump) {
    uint64_t interval;
    READ("prof.interval", &interval);
    CHECK(interval == 1 << 20, "%lu", interval);
    ssize_t lg;
    READ("opt.lg_prof_interval", &lg);
    CHECK(lg == 20, "%zd", lg);
    allocated_and_freed(64 << 20);
    int found = files(".heap");
    CHECK(found >= 50 && found <= 70, "%d dumps", found);
    char name[64];
    snprintf(name, sizeof name, "jeprof.%d.0.i0.heap", (int)getpid());
    CHECK(strncmp(text_of(name), "heap_v2/", 8) == 0, "%s", name);
    snprintf(name, sizeof name, "jeprof.%d.7.i7.heap", (int)getpid());
    CHECK(access(name, R_OK) == 0, "%s", name);
    // Requested dumps have a number of their own, but one sequence with these.
    const char *none = NULL;
    CHECK(WRITE("prof.dump", none) == 0, "dump");
    CHECK(files(".m0.heap") == 1, "one requested");
    // Another prefix is in force at once; an empty one ends such dumps.
    const char *other = "other", *empty = "";
    CHECK(WRITE("prof.prefix", other) == 0, "prefix");
    allocated_and_freed(8 << 20);
    found = files("other.");
    CHECK(found >= 5, "%d dumps", found);
    CHECK(WRITE("prof.prefix", empty) == 0, "no prefix");
    allocated_and_freed(8 << 20);
    CHECK(files("other.") == found, "%d dumps", files("other."));
    // And so does a profile that is off.
    bool off = false;
    CHECK(WRITE("prof.prefix", other) == 0 && WRITE("prof.active", off) == 0, "off");
    found = files("other.");
    allocated_and_freed(8 << 20);
    CHECK(files("other.") == found, "%d dumps", files("other."));
}

CASE(there_are_no_dumps_of_intervals_by_default) {
    uint64_t interval = 1;
    READ("prof.interval", &interval);
    CHECK(interval == 0, "%lu", interval);
    ssize_t lg;
    READ("opt.lg_prof_interval", &lg);
    CHECK(lg == -1, "%zd", lg);
    allocated_and_freed(16 << 20);
    CHECK(files(".heap") == 0, "%d dumps", files(".heap"));
}

static void *allocates(void *bytes) {
    allocated_and_freed((size_t)bytes);
    return NULL;
}

// Threads dump while others allocate, and children are forked meanwhile.
CASE(threads_and_forks_get_along_with_dumps) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, allocates, (void *)(8ul << 20));
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            allocated_and_freed(2 << 20);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "%x", status);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    char own[32];
    snprintf(own, sizeof own, "jeprof.%d.", (int)getpid());
    int found = files(own), all = files(".heap");
    CHECK(found >= 24 && all > found, "%d of %d dumps", found, all);
}

CASE(dumps_that_cannot_be_written_stop_nothing) {
    errno = 7;
    allocated_and_freed(8 << 20);
    CHECK(errno == 7 || !is_masu(), "%d", errno);
    const char *none = NULL;
    CHECK(WRITE("prof.dump", none) == EFAULT, "a directory that is not there");
    CHECK(files(".heap") == 0, "%d dumps", files(".heap"));
}

CASE(a_profile_that_waits_is_empty) {
    bool on = true, active;
    void *before = kept(1 << 20);
    READ("prof.active", &active);
    CHECK(!active, "prof.active");
    for (int i = 0; i < 2; i++) {
        dump("waits.heap");
        unsigned long blocks = 1, bytes = 1;
        CHECK(sscanf(text_of("waits.heap"), "heap_v2/1 t*: %lu: %lu", &blocks, &bytes) == 2, "form");
        CHECK(blocks == 0 && bytes == 0, "%lu blocks, %lu bytes", blocks, bytes);
        CHECK(act("prof.reset") == 0, "reset");
    }
    READ("prof.active", &active);
    CHECK(!active, "still");
    CHECK(WRITE("prof.active", on) == 0, "on");
    void *after = kept(1 << 20);
    unsigned long bytes = bytes_in_use();
    CHECK(bytes >= 1 << 20 && bytes < 2 << 20, "%lu", bytes);
    free(before);
    free(after);
}

CASE(each_new_maximum_is_dumped) {
    bool on;
    READ("opt.prof_gdump", &on);
    CHECK(on, "opt.prof_gdump");
    READ("prof.gdump", &on);
    CHECK(on, "prof.gdump");
    void *first = kept(8 << 20);
    int one = files(".heap");
    CHECK(one >= 1 && files(".u0.heap") == 1, "%d dumps", one);
    void *second = kept(8 << 20);
    int two = files(".heap");
    CHECK(two > one, "%d dumps", two);
    // Within that there is nothing new.
    free(first);
    free(second);
    for (int i = 0; i < 10; i++) free(kept(4 << 20));
    CHECK(files(".heap") == two, "%d dumps", files(".heap"));
    bool off = false, old = false, yes = true;
    size_t length = sizeof old;
    CHECK(mallctl("prof.gdump", &old, &length, &off, sizeof off) == 0 && old, "off");
    void *third = kept(32 << 20);
    CHECK(files(".heap") == two, "%d dumps", files(".heap"));
    // The maximum was seen meanwhile.
    CHECK(WRITE("prof.gdump", yes) == 0, "on");
    free(third);
    third = kept(16 << 20);
    CHECK(files(".heap") == two, "%d dumps", files(".heap"));
    void *fourth = kept(64 << 20);
    CHECK(files(".heap") > two, "%d dumps", files(".heap"));
    free(third);
    free(fourth);
    CHECK(mallctl("prof.gdump", NULL, NULL, &old, 8) == EINVAL, "a bool of eight bytes");
}

CASE(leaks_are_options) {
    bool leak, error, final;
    READ("opt.prof_leak", &leak);
    READ("opt.prof_leak_error", &error);
    READ("opt.prof_final", &final);
    printf("%d %d %d\n", leak, error, final);
}

CASE(a_program_leaks) {
    for (int i = 0; i < 10; i++) kept(100000);
    printf("flushed\n");
    fflush(stdout);
}

static void *reads_active(void *active) {
    READ("thread.prof.active", (bool *)active);
    kept(3 << 20);
    return NULL;
}

CASE(threads_begin_as_is_wanted) {
    bool init, active, off = false, on = true;
    READ("opt.prof_thread_active_init", &init);
    CHECK(!init, "opt.prof_thread_active_init");
    READ("prof.thread_active_init", &init);
    CHECK(!init, "prof.thread_active_init");
    READ("thread.prof.active", &active);
    CHECK(!active, "the first thread");
    kept(3 << 20);
    for (int i = 0; i < 4; i++) {
        bool is_on = i % 2 != 0, before;
        size_t length = sizeof before;
        CHECK(mallctl("prof.thread_active_init", &before, &length, is_on ? &on : &off, 1) == 0, "set");
        CHECK(before == (i == 2), "%d", before);
        pthread_t thread;
        pthread_create(&thread, NULL, reads_active, &active);
        pthread_join(thread, NULL);
        CHECK(active == is_on, "thread %d", i);
        unsigned long bytes = bytes_in_use(), least = (3ul << 20) * ((i + 1) / 2);
        CHECK(bytes >= least && bytes < least + (1 << 20), "%lu after thread %d", bytes, i);
    }
    CHECK(WRITE("thread.prof.active", on) == 0, "on");
    unsigned long before = bytes_in_use();
    kept(3 << 20);
    CHECK(bytes_in_use() >= before + (3 << 20), "the first thread takes part");
}

CASE(the_prefix_of_the_options_can_be_read) {
    const char *prefix, *other = "other";
    READ("opt.prof_prefix", &prefix);
    CHECK(strcmp(prefix, getenv("PREFIX")) == 0, "%s", prefix);
    CHECK(WRITE("prof.prefix", other) == 0, "prefix");
    READ("opt.prof_prefix", &prefix);
    CHECK(strcmp(prefix, getenv("PREFIX")) == 0, "%s", prefix);
}
