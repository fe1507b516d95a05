/* Allocates 48 MiB, prints its id, and waits for the end of its input. It frees nothing before it exits: the allocator
   that has served counts it. OWN is the function that allocates, if not malloc. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef OWN
#define OWN malloc
#else
void *OWN(size_t);
#endif

enum { BLOCKS = 48 << 10, BYTES = 1000 };

static void *volatile last;

#ifdef PROBE_JAVA
#include <jni.h>
JNIEXPORT jint JNICALL Java_Probe_allocate(JNIEnv *environment, jclass class)
{
    (void)environment, (void)class;
#else
int main(void)
{
#endif
    for (int i = 0; i < BLOCKS; i++)
        last = OWN(BYTES);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
