# Python's own regression tests, with all objects from malloc where that is what is tested.
packages="python3 libpython$(apt-cache policy python3 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9]*\.[0-9]*\).*/\1/p')-testsuite"
needs='/usr/bin/python3 /usr/lib/python3*/test/test_threading.py'
maps=python3
limit=${MASU_TEST_LONG:+1800}
limit=${limit:-300}
stderr=varies

clean() {
    sed -E 's/[0-9]+:[0-9]+:[0-9]+ //; s/load avg: [0-9.]+ //; s/in [0-9.]+ ?(ms|sec|s|min [0-9]+ sec|min)//; /^(Total duration|Using random seed|== )/d'
}

measure() {
    tests='test_json test_gc test_ctypes test_bytes test_dict test_array test_zlib test_threading'
    if [ -n "${MASU_TEST_LONG-}" ]; then
        tests="$tests test_subprocess test_multiprocessing_fork test_multiprocessing_spawn
            test_multiprocessing_forkserver test_concurrent_futures test_asyncio"
    fi
    # shellcheck disable=SC2086 # a list of words on purpose
    PYTHONMALLOC=malloc /usr/bin/python3 -m test --randseed 1 $tests
    # The loader's notes hold a file open, and these tests count open files.
    unset LD_DEBUG LD_DEBUG_OUTPUT
    /usr/bin/python3 -m test test_subprocess -m '*POSIXProcessTestCase*' -i '*leak*'
    /usr/bin/python3 -m test test_multiprocessing_fork -m '*TestPool.*' -m '*TestQueue.*' -m '*TestShar*'
}
