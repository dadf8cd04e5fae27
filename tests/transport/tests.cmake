roce_test(transport_test 300 transport ${ROCE_BUILD_DIR}/tests/transport/transport_test)
