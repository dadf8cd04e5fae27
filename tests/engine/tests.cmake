# roce_test(NAME TIMEOUT_SECONDS LABELS COMMAND...): see tests/CTestTestfile.cmake.in.
#   roce_test(engine_test 60 engine ${ROCE_BUILD_DIR}/tests/engine/engine_test)
