roce_test(verbs_test 60 verbs ${ROCE_BUILD_DIR}/tests/verbs/verbs_test)
roce_test(verbs_behaviour 120 verbs ${ROCE_BUILD_DIR}/tests/verbs/verbs_behaviour_test)
