/* Two hundred places that allocate. One leaks, one leaves few blocks in many spans, one keeps a cache that holds most
   memory; the others allocate and free. The program starts with the first byte of its input and works in rounds until
   that ends, or for a given number of rounds. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

KEEP void *leak(void) { void *p = malloc(96); memset(p, 1, 96); return p; }
KEEP void *fragment(void) { void *p = malloc(192); memset(p, 2, 192); return p; }
KEEP void *cached(void) { void *p = malloc(512); memset(p, 3, 512); return p; }
KEEP void *temporary(void) { void *p = malloc(192); memset(p, 4, 192); return p; }

#define SITE(n) KEEP void *site_##n(void) { char *p = malloc(32 + n * 8); p[0] = n & 127; return p; }
#define TEN(n) SITE(n##0) SITE(n##1) SITE(n##2) SITE(n##3) SITE(n##4) SITE(n##5) SITE(n##6) SITE(n##7) SITE(n##8) SITE(n##9)
#define ALL(f) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) f(18) f(19)
ALL(TEN)
#define NAME(n) site_##n,
#define NAMES(n) NAME(n##0) NAME(n##1) NAME(n##2) NAME(n##3) NAME(n##4) NAME(n##5) NAME(n##6) NAME(n##7) NAME(n##8) NAME(n##9)
static void *(*const sites[])(void) = {ALL(NAMES)};
enum { SITES = sizeof sites / sizeof *sites, CACHE = 40000, RING = 4000, ROUND = 60000 };

static void *cache[CACHE];
static void *ring[RING];
static void *batch[ROUND];
static void *leaked, *kept;

static void link_to(void **head, void *p) {
    *(void **)p = *head;
    *head = p;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 0;
    unsigned at = 0, replaced = 0;
    char go;
    if (rounds == 0) {
        puts("ready");
        fflush(stdout);
        if (read(0, &go, 1) != 1) return 1;
    }
    for (int i = 0; i < CACHE; i++) cache[i] = cached();
    for (int round = 0; rounds == 0 || round < rounds; round++) {
        for (int i = 0; i < SITES * 40; i++) {
            void **slot = &ring[at++ % RING];
            free(*slot);
            *slot = sites[i % SITES]();
        }
        for (int i = 0; i < 100; i++) {
            void **slot = &cache[replaced++ % CACHE];
            free(*slot);
            *slot = cached();
        }
        for (int i = 0; i < 1000; i++) link_to(&leaked, leak());
        if (round < 4) {
            /* Of a burst, one block in 120 stays: three in each span. */
            for (int i = 0; i < ROUND; i++) batch[i] = i % 120 == 0 ? fragment() : temporary();
            for (int i = 0; i < ROUND; i++) {
                if (i % 120 == 0) link_to(&kept, batch[i]);
                else free(batch[i]);
            }
        }
        struct pollfd in = {0, POLLIN, 0};
        if (rounds == 0 ? poll(&in, 1, 20) != 0 : (usleep(20000), 0)) break;
    }
    return 0;
}
