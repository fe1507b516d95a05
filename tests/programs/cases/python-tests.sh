# Python's own regression tests, with all objects from malloc where malloc is tested.
packages="python3 libpython$(apt-cache policy python3 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9]*\.[0-9]*\).*/\1/p')-testsuite"
needs='/usr/bin/python3 /usr/lib/python3*/test/test_threading.py'
maps=python3
limit=${MASU_TEST_LONG:+3600}
limit=${limit:-600}
stderr=varies
waits=yes

# Python names the tests that take half a minute.
clean() {
    sed -E '/^(running: |test_[a-z_]+ passed in )/d; s/[0-9]+:[0-9]+:[0-9]+ //; s/load avg: [0-9.]+ //; s/in [0-9.]+ ?(ms|sec|s|min [0-9]+ sec|min)//; /^(Total duration|Using random seed|== )/d'
}

measure() {
    PYTHONMALLOC=malloc /usr/bin/python3 -m test --randseed 1 \
        test_json test_gc test_ctypes test_bytes test_dict test_array test_zlib test_threading
    # The loader's notes hold a file open, and these tests count open files.
    unset LD_DEBUG LD_DEBUG_OUTPUT
    if [ -n "${MASU_TEST_LONG-}" ]; then
        /usr/bin/python3 -m test --randseed 1 test_subprocess test_multiprocessing_fork \
            test_multiprocessing_spawn test_multiprocessing_forkserver test_concurrent_futures test_asyncio
    else
        /usr/bin/python3 -m test test_subprocess -m '*POSIXProcessTestCase*'
        /usr/bin/python3 -m test test_multiprocessing_fork -m '*TestPool.*' -m '*TestQueue.*' -m '*TestShar*'
    fi
}
