#include "cli/trace.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/check.h"
#include "base/format.h"
#include "base/json.h"
#include "base/rng.h"

namespace octavo::cli {
namespace {

constexpr int64_t kHashBlock = 512;

Result<TraceRequest> read_csv_line(const std::string& line, const std::string& source) {
  int day = 0, hour = 0, minute = 0;
  double second = 0;
  long long input = 0, output = 0;
  if (std::sscanf(line.c_str(), "%*d-%*d-%d %d:%d:%lf,%lld,%lld", &day, &hour, &minute, &second,
                  &input, &output) != 6) {
    return data_loss(format("{}: '{}' is not time, input length, output length", source, line));
  }
  return TraceRequest{((day * 24.0 + hour) * 60 + minute) * 60 + second, input, output, {}};
}

Result<TraceRequest> read_json_line(const std::string& line, const std::string& source) {
  const Json json = OCTAVO_TRY(parse_json(line, source));
  TraceRequest request;
  request.arrival_s = OCTAVO_TRY(json_double(json, "timestamp", source)) / 1000;
  request.input_length = OCTAVO_TRY(json_int(json, "input_length", source));
  request.output_length = OCTAVO_TRY(json_int(json, "output_length", source));
  for (const Json& id : *OCTAVO_TRY(json_array(json, "hash_ids", source))) {
    if (!id.is_int64()) return data_loss(format("{}: a hash id is no integer", source));
    request.hash_ids.push_back(id.as_int64());
  }
  return request;
}

}  // namespace

Result<std::vector<TraceRequest>> read_trace(const std::string& path, int64_t limit) {
  std::ifstream file(path);
  if (!file) return not_found(format("{}: cannot be read", path));
  std::vector<TraceRequest> requests;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (limit > 0 && static_cast<int64_t>(requests.size()) == limit) break;
    if (line.empty() || line.starts_with("TIMESTAMP")) continue;
    const std::string source = format("{}:{}", path, number);
    requests.push_back(OCTAVO_TRY(line.front() == '{' ? read_json_line(line, source)
                                                      : read_csv_line(line, source)));
    const TraceRequest& request = requests.back();
    if (request.input_length < 1 || request.input_length > (1 << 24) || request.output_length < 0 ||
        request.output_length > (1 << 24)) {
      return data_loss(format("{}: a length is out of range", source));
    }
    requests.back().output_length = std::max<int64_t>(1, request.output_length);
  }
  if (requests.empty()) return data_loss(format("{}: holds no request", path));
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.arrival_s < b.arrival_s; });
  const double start = requests.front().arrival_s;
  for (TraceRequest& request : requests) request.arrival_s -= start;
  return requests;
}

std::vector<TokenId> make_prompt(const TraceRequest& request, int64_t index) {
  std::vector<TokenId> tokens;
  tokens.reserve(request.input_length);
  for (int64_t block = 0; static_cast<int64_t>(tokens.size()) < request.input_length; ++block) {
    const bool known = block < static_cast<int64_t>(request.hash_ids.size());
    Rng rng(known ? static_cast<uint64_t>(request.hash_ids[block])
                  : ~(static_cast<uint64_t>(index) << 20 | static_cast<uint64_t>(block)));
    const int64_t end = std::min((block + 1) * kHashBlock, request.input_length);
    while (static_cast<int64_t>(tokens.size()) < end) {
      tokens.push_back(static_cast<TokenId>(rng.next_u64() & 0x7FFFFFFF));
    }
  }
  return tokens;
}

}  // namespace octavo::cli
