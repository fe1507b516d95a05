# shellcheck shell=bash
# left_out WHAT WHY: says that a part of a check is left out, and why. ./check lists these lines at its end, by the file that
# MASU_TEST_LEFT_OUT names. With MASU_TEST_ALL=1 that is a failure.
left_out() {
    echo "left out: $1, because $2" | tee -a "${MASU_TEST_LEFT_OUT:-/dev/null}" >&2
    [ -z "${MASU_TEST_ALL-}" ] || exit 1
}
