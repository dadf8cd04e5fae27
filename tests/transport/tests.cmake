# roce_test(NAME TIMEOUT_SECONDS LABELS COMMAND...): see tests/CTestTestfile.cmake.in.
#   roce_test(transport_test 60 transport ${ROCE_BUILD_DIR}/tests/transport/transport_test)
