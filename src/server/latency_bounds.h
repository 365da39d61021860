// The buckets of latencies that vLLM made common, and the reasons for which requests end.
#pragma once

#include <vector>

namespace octavo::server {

inline const std::vector<double> kFirstTokenBounds{.001, .005, .01, .02, .04, .06, .08, .1,
                                                   .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                                   20,   40,   80,  160, 640, 2560};
inline const std::vector<double> kTokenBounds{.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                              .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
inline const std::vector<double> kRequestBounds{.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                                30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};

inline constexpr const char* kFinishedReasons[] = {"stop", "length", "abort", "error"};

}  // namespace octavo::server
