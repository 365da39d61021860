// How fast this machine reads memory, for what is measured against it.
#pragma once

namespace octavo::cli {

// Reads 256 MiB, more than most caches hold, with `threads` threads; the best of some passes in
// bytes/s.
double measure_read_bandwidth(int threads);

}  // namespace octavo::cli
