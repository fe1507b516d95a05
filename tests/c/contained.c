// What Docker's and Podman's filters alike refuse a container, and what they allow it. The kernel itself refuses none of this.
#include "check.h"

#include <sys/personality.h>
#include <sys/syscall.h>

static int error_of(long result) { return result == -1 ? errno : 0; }

CASE(an_argument_decides) {
    CHECK(error_of(personality(0xffffffff)) == 0, "personality: %s", strerror(errno));
    int error = error_of(personality(PER_SVR4));
    CHECK(error == EPERM || error == ENOSYS, "another personality: %s", strerror(error));
}

CASE(a_capability_decides) {
    enum { KCMP_FILE = 0 };
    long self = getpid();
    int error = error_of(syscall(SYS_kcmp, self, self, KCMP_FILE, 1, 1));
    CHECK(error == EPERM, "kcmp, which takes CAP_SYS_PTRACE: %s", strerror(error));
    if (geteuid() == 0) CHECK(error_of(chroot("/")) == 0, "chroot, which takes what containers have: %s", strerror(errno));
}
