// Mostly a test that everything {fmt} needs is linked: each kind of argument once.
#include "base/format.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

TEST(Format, EveryKindOfArgument) {
  EXPECT_EQ(format("{} of {}", 3, std::string("four")), "3 of four");
  EXPECT_EQ(format("{:.2f} {:5.1f} {:e} {}", 1.005, 2.25f, 12345.678, 0.1),
            "1.00   2.2 1.234568e+04 0.1");
  EXPECT_EQ(format("{:#x} {:08b} {:>4}|{:<4}|{:^4}", 255, 5, 'a', true, "b"),
            "0xff 00000101    a|true| b  ");
  EXPECT_EQ(format("{{}} {1} {0}", uint64_t{18446744073709551615u}, int64_t{-1}),
            "{} -1 18446744073709551615");
}

}  // namespace
}  // namespace octavo
