#include "backends/cpu/weight_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "backends/cpu/workspace.h"
#include "base/format.h"

namespace octavo::backends::cpu {
namespace {

constexpr int64_t kHugePage = 2 << 20;

// Only what is touched takes memory, so that the end of a piece that nothing fits into costs at
// most a huge page.
constexpr int64_t kPieceBytes = 64 << 20;

struct Piece {
  std::shared_ptr<std::byte> data;
  int64_t size_bytes = 0;
  int64_t used_bytes = 0;
};

// Begins at a huge page.
Result<std::shared_ptr<std::byte>> map_piece(int64_t size_bytes, std::string_view what) {
  const auto mapped_bytes = static_cast<size_t>(size_bytes + kHugePage);
  void* address = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return resource_exhausted(
        format("{}: cannot allocate {} bytes: {}", what, size_bytes, std::strerror(errno)));
  }
  auto* begin = static_cast<std::byte*>(address);
  const auto at = static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) % kHugePage);
  std::byte* aligned = begin + (kHugePage - at) % kHugePage;
  madvise(aligned, static_cast<size_t>(size_bytes), MADV_HUGEPAGE);  // a wish
  return std::shared_ptr<std::byte>(aligned, [=](std::byte*) { munmap(begin, mapped_bytes); });
}

}  // namespace

Result<Buffer> allocate_weights(std::shared_ptr<void>& state, int64_t size_bytes,
                                std::string_view what) {
  if (size_bytes < 0 || size_bytes > std::numeric_limits<int64_t>::max() / 2) {
    return resource_exhausted(format("{}: cannot allocate {} bytes", what, size_bytes));
  }
  if (state == nullptr) state = std::make_shared<Piece>();
  Piece& piece = *static_cast<Piece*>(state.get());
  const int64_t size = round_up(size_bytes, kCacheLine);
  if (piece.size_bytes - piece.used_bytes < size) {
    const int64_t piece_bytes = std::max(kPieceBytes, round_up(size, kHugePage));
    auto data = map_piece(piece_bytes, what);
    if (!data.ok()) return data.status();
    piece = {std::move(data).value(), piece_bytes, 0};
  }
  // Shares the piece's ownership.
  Buffer buffer{{piece.data, piece.data.get() + piece.used_bytes}, size_bytes};
  piece.used_bytes += size;
  return buffer;
}

}  // namespace octavo::backends::cpu
