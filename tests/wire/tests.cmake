roce_test(wire_test 60 wire ${ROCE_BUILD_DIR}/tests/wire/wire_test)
