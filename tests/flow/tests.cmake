roce_test(flow_test 60 flow ${ROCE_BUILD_DIR}/tests/flow/flow_test)
