# roce_test(NAME TIMEOUT_SECONDS LABELS COMMAND...): see tests/CTestTestfile.cmake.in.
#   roce_test(wire_test 60 wire ${ROCE_BUILD_DIR}/tests/wire/wire_test)
