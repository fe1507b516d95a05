/* Another library with jemalloc's names, none of which has a version, as in jemalloc. To link against:
 * no function does anything. */
#define NAME(name)                                                                                 \
    int name(void) {                                                                               \
        return 0;                                                                                  \
    }

NAME(mallocx)
NAME(sallocx)
NAME(dallocx)
NAME(mallctl)
NAME(malloc_stats_print)
void *malloc_message;
