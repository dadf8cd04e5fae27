roce_test(engine_test 60 engine ${ROCE_BUILD_DIR}/tests/engine/engine_test)
