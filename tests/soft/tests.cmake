# roce_test(NAME TIMEOUT_SECONDS LABELS COMMAND...): see tests/CTestTestfile.cmake.in.
#   roce_test(soft_test 60 soft ${ROCE_BUILD_DIR}/tests/soft/soft_test)
roce_test(soft_verbs_rc 60 soft ${ROCE_BUILD_DIR}/tests/soft/verbs_rc_test)
