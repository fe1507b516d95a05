// The end of a thread: destructors of pthread keys allocate and free, in every order relative to the allocator's own
// clean-up, and no memory is lost.
#include "check.h"
#include "doors.h"

#include <pthread.h>

enum { many = 64 }; // beyond 32 keys, glibc allocates the table of a thread's values
static pthread_key_t keys[many];
static int created;

static void work_a_little(void) {
    static const size_t sizes[] = {1, 24, 300, 5000, 50000, 2 << 20};
    void *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = i % 2 ? malloc(sizes[i]) : calloc(1, sizes[i]);
        CHECK(blocks[i] != NULL, "%zu bytes", sizes[i]);
        memset(blocks[i], 0x77, sizes[i]);
    }
    for (int i = 0; i < 6; i++) {
        blocks[i] = realloc(blocks[i], sizes[i] + 100);
        free(blocks[i]);
    }
}

static void *left_behind[4096];
static int left_count;

static void leave_behind(size_t size) {
    void *block = malloc(size);
    CHECK(block != NULL, "malloc(%zu)", size);
    fill(block, 100, 8);
    int place = __atomic_fetch_add(&left_count, 1, __ATOMIC_RELAXED);
    if (place < 4096) left_behind[place] = block;
    else free(block);
}
static void free_what_was_left(void) {
    for (int i = 0; i < left_count && i < 4096; i++) {
        CHECK(first_difference(left_behind[i], 100, 8) == 100, "what was left behind changed");
        free(left_behind[i]);
    }
    left_count = 0;
}

// The low part of a destructor's value says what it does; the rest, how often it is called again.
enum { only_free, only_allocate, both, leave, actions };
struct value {
    int action, again;
    pthread_key_t key;
    char payload[100];
};

static void destroy(void *pointer) {
    struct value *value = pointer;
    size_t bad = first_difference(value->payload, sizeof value->payload, value->key);
    CHECK(bad == sizeof value->payload, "the value changed at %zu", bad);
    if (value->action != only_free) work_a_little();
    if (value->action == leave) leave_behind(1000);
    if (value->again > 0) {
        struct value *next = malloc(sizeof *next);
        *next = *value;
        next->again--;
        pthread_setspecific(value->key, next);
    }
    free(value);
}

static void set(int key, int action, int again) {
    struct value *value = malloc(sizeof *value);
    value->action = action;
    value->again = again;
    value->key = keys[key];
    fill(value->payload, sizeof value->payload, value->key);
    CHECK(pthread_setspecific(keys[key], value) == 0, "key %d", key);
}

struct plan {
    int first, last, action, again, work_before, work_after;
};

static void *follow(void *argument) {
    struct plan *plan = argument;
    if (plan->work_before) work_a_little();
    for (int key = plan->first; key <= plan->last; key++) set(key, plan->action, plan->again);
    if (plan->work_after) work_a_little();
    return NULL;
}

static void run_plan(struct plan plan) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, follow, &plan) == 0, "thread");
    pthread_join(thread, NULL);
    free_what_was_left();
}

static void create_keys(void) {
    while (created < many) {
        CHECK(pthread_key_create(&keys[created], destroy) == 0, "key %d", created);
        created++;
    }
}

CASE(key_destructors_allocate_and_free_in_every_order) {
    create_keys();
    for (int action = 0; action < actions; action++)
        for (int again = 0; again <= 5; again++)
            for (int order = 0; order < 4; order++) {
                struct plan low = {0, 5, action, again, order & 1, order >> 1};
                struct plan high = {many - 6, many - 1, action, again, order & 1, order >> 1};
                struct plan all = {0, many - 1, action, again, order & 1, order >> 1};
                run_plan(low);
                run_plan(high);
                run_plan(all);
            }
}

// The thread's very first call of the allocator happens in a destructor.
static pthread_key_t late_key;
static void allocate_late(void *unused) {
    (void)unused;
    work_a_little();
    leave_behind(100);
}
static void *touch_nothing(void *unused) {
    pthread_setspecific(late_key, "not from malloc");
    return unused;
}

CASE(first_allocation_in_a_key_destructor) {
    CHECK(pthread_key_create(&late_key, allocate_late) == 0, "key");
    for (int i = 0; i < 500; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, touch_nothing, NULL) == 0, "thread");
        pthread_join(thread, NULL);
    }
    free_what_was_left();
}

// Each exiting thread frees what the previous one allocated while exiting.
static _Atomic(void *) baton;
static void pass_the_baton(void *unused) {
    (void)unused;
    char *mine = malloc(4000);
    fill(mine, 4000, 9);
    char *theirs = __atomic_exchange_n(&baton, mine, __ATOMIC_ACQ_REL);
    if (theirs != NULL) CHECK(first_difference(theirs, 4000, 9) == 4000, "the baton changed");
    free(theirs);
}
static void *runner(void *unused) {
    pthread_setspecific(late_key, "run");
    free(malloc(10));
    return unused;
}

CASE(dying_threads_free_what_dying_threads_allocated) {
    CHECK(pthread_key_create(&late_key, pass_the_baton) == 0, "key");
    for (int round = 0; round < 100; round++) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, runner, NULL) == 0, "thread");
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    free(baton);
}

// Allocating after the allocator's own clean-up must not create new heaps for ever.
static void *die_badly(void *unused) {
    (void)unused;
    // Four rounds of destructors in all: a fifth would never be called, and its value would be lost.
    for (int key = 0; key < many; key += 8) set(key, both, 3);
    return NULL;
}

CASE(thousands_of_deaths_leave_no_memory_behind) {
    create_keys();
    long before = 0;
    for (int i = 0; i < 600; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, die_badly, NULL) == 0, "thread");
        pthread_join(thread, NULL);
        if (i == 100) before = resident_kib();
    }
    CHECK(resident_kib() < before + 3000, "%ld -> %ld KiB", before, resident_kib());
}

// Threads that first free or allocate while they end must not leave a heap each.
static void free_late(void *block) {
    free(block);
    free(malloc(100));
}
static void *only_keep(void *block) {
    pthread_setspecific(late_key, block);
    return NULL;
}

CASE(threads_that_meet_malloc_as_they_end_leave_nothing) {
    CHECK(pthread_key_create(&late_key, free_late) == 0, "key");
    long before = 0;
    for (int i = 0; i < 3000; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, only_keep, malloc(64)) == 0, "thread");
        pthread_join(thread, NULL);
        if (i == 500) before = resident_kib();
    }
    CHECK(resident_kib() < before + 1500, "%ld -> %ld KiB", before, resident_kib());
}

// When a thread ends, the C library frees what it kept of earlier threads, after all destructors.
static _Atomic int asleep;
static void *only_sleep(void *unused) {
    sleep_ms(1);
    asleep--;
    return unused;
}

static pthread_attr_t detached_attributes(void) {
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    return detached;
}

static void start_sleeper(const pthread_attr_t *attributes) {
    pthread_t thread;
    asleep++;
    CHECK(pthread_create(&thread, attributes, only_sleep, NULL) == 0, "thread");
}

CASE(detached_threads_that_never_allocate_leave_nothing) {
    pthread_attr_t detached = detached_attributes();
    long before = 0;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 16; i++) start_sleeper(&detached);
        while (asleep > 0) sleep_ms(1);
        if (round == 40) before = resident_kib();
    }
    CHECK(resident_kib() < before + 1500, "%ld -> %ld KiB", before, resident_kib());
    pthread_attr_destroy(&detached);
}

// The same with many threads at once: the exiting one's stack is so long that the library gives up its cached ones.
static pthread_barrier_t all_run;
static void *only_meet(void *unused) {
    pthread_barrier_wait(&all_run);
    return unused;
}

CASE(a_thread_that_ends_and_frees_what_was_kept_of_many_leaves_nothing) {
    enum { many = 6 };
    pthread_attr_t longest = detached_attributes();
    pthread_attr_setstacksize(&longest, (size_t)39 << 20);
    pthread_barrier_init(&all_run, NULL, many + 1);
    long before = 0;
    for (int round = 0; round < 500; round++) {
        pthread_t threads[many];
        for (int i = 0; i < many; i++) CHECK(pthread_create(&threads[i], NULL, only_meet, NULL) == 0, "thread");
        pthread_barrier_wait(&all_run);
        for (int i = 0; i < many; i++) pthread_join(threads[i], NULL);
        start_sleeper(&longest);
        while (asleep > 0) sleep_ms(1);
        if (round == 100) before = resident_kib();
    }
    CHECK(resident_kib() < before + 1500, "%ld -> %ld KiB", before, resident_kib());
    pthread_attr_destroy(&longest);
}

// All keys of the process are taken before a thread allocates for the first time.
CASE(allocation_works_when_the_program_took_every_key) {
    pthread_key_t key;
    int taken = 0;
    while (pthread_key_create(&key, NULL) == 0) taken++;
    CHECK(taken > 100, "only %d keys", taken);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        struct plan plan = {0, -1, 0, 0, 1, 1};
        CHECK(pthread_create(&thread, NULL, follow, &plan) == 0, "thread");
        pthread_join(thread, NULL);
    }
    work_a_little();
}
