// The tests as a function, for on_dawn.py.
#include <gtest/gtest.h>

extern "C" [[gnu::visibility("default")]] int nibble_device_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
