// What the programs with mistakes share: a heap in use, and a second thread.
#pragma once
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Hides a value from the compiler.
static inline void *hide(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

// C++'s operators, by their names.
extern void *cxx_new(size_t) __asm__("_Znwm");
extern void sized_delete(void *, size_t) __asm__("_ZdlPvm");

// The length of the blocks around the mistake, some of them freed (NULL).
enum { AROUND = 64 };
extern char *around[AROUND];
extern size_t size;

// Which part of a mistake happens on another thread.
enum { NOTHING, FREES, USES };
extern int elsewhere;

char *block_of(size_t n);
// Enough calls that an allocator which looks finds a damaged list: pairs, and then more blocks at once than are free.
void go_on(void);
// Frees a block, on a thread that then exits if frees happen elsewhere; so does the function with that argument.
void release(void *p);
void release_by(void (*act)(void *, size_t), void *p, size_t n);
// Uses a block, on a thread that was there before if uses happen elsewhere: nothing is allocated for it meanwhile.
void use(void (*act)(void *, size_t), void *p, size_t n);

// Stopped by default; for some sizes; with another thread's frees; with another thread's uses; in a hardened process; in
// one above 128 KiB.
enum { SEEN = 1, SOME = 2, FREED = 4, USED = 8, HARD = 16, HARD_LARGE = 32 };
struct mistake {
    const char *name;
    void (*run)(void);
    int flags;
};
#define CASE(name, flags) {#name, name, flags}
// Each ends with a case without a name.
extern const struct mistake calls[], accesses[];
