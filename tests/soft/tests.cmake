# roce_test(NAME TIMEOUT_SECONDS LABELS COMMAND...): see tests/CTestTestfile.cmake.in.
roce_test(soft_udp_port 120 soft ${ROCE_BUILD_DIR}/tests/soft/udp_port_test)
roce_test(soft_verbs_rc 120 soft ${ROCE_BUILD_DIR}/tests/soft/verbs_rc_test)
roce_test(soft_verbs_objects 120 soft ${ROCE_BUILD_DIR}/tests/soft/verbs_objects_test)
roce_test(soft_verbs_ud 120 soft ${ROCE_BUILD_DIR}/tests/soft/verbs_ud_test)
roce_test(soft_verbs_events 240 soft ${ROCE_BUILD_DIR}/tests/soft/verbs_events_test)
roce_test(soft_verbs_events_long 1800 "soft;long" env ROCE_TEST_LONG=1 ${ROCE_BUILD_DIR}/tests/soft/verbs_events_test)
