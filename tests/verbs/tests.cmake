# roce_test(NAME TIMEOUT_SECONDS LABELS COMMAND...): see tests/CTestTestfile.cmake.in.
#   roce_test(verbs_test 60 verbs ${ROCE_BUILD_DIR}/tests/verbs/verbs_test)
