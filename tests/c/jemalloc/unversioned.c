/* Another library with jemalloc's names, without versions, as in jemalloc. It is only for linking: no function does
 * anything. */
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
