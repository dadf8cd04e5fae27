# roce_test(NAME TIMEOUT_SECONDS LABELS COMMAND...): see tests/CTestTestfile.cmake.in.
roce_test(btl_test 60 btl ${ROCE_BUILD_DIR}/tests/btl/btl_test)
