// Encodes texts with a model's tokenizer, for the scripts that compare it with others:
//
//   tokenizer_bench MODEL TEXTS ids    writes, for each text, the number of its ids and the ids
//   tokenizer_bench MODEL TEXTS time   prints the seconds of loading and of the fastest of 5
//   rounds,
//                                      as the processor counts them
//
// TEXTS is a file: for each text its length in bytes and the bytes. All numbers are 32-bit, little
// endian. Control tokens are recognised; none are put around a text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/model.h"

namespace {

constexpr octavo::EncodeOptions kOptions{.add_special = false, .parse_special = true};

// The processor's time: what else the machine does is not counted.
double now_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "tokenizer_bench: %s\n", message.c_str());
  std::exit(1);
}

std::vector<std::string> read_texts(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> texts;
  for (size_t pos = 0; pos + sizeof(uint32_t) <= content.size();) {
    uint32_t size = 0;
    std::memcpy(&size, content.data() + pos, sizeof(size));
    pos += sizeof(size);
    if (size > content.size() - pos) fail(std::string(path) + " is cut off");
    texts.push_back(content.substr(pos, size));
    pos += size;
  }
  if (texts.empty()) fail(std::string(path) + " holds no texts");
  return texts;
}

std::vector<octavo::TokenId> encode(const octavo::Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.encode(text, kOptions);
  if (!ids.ok()) fail(ids.status().message());
  return std::move(ids).value();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 4 ? argv[3] : "";
  if (mode != "ids" && mode != "time") fail("usage: tokenizer_bench MODEL TEXTS ids|time");
  const double begin_s = now_s();
  const auto loaded = octavo::load_tokenizer(argv[1]);
  const double load_s = now_s() - begin_s;
  if (!loaded.ok()) fail(loaded.status().message());
  const octavo::Tokenizer& tokenizer = **loaded;
  const std::vector<std::string> texts = read_texts(argv[2]);
  if (mode == "ids") {
    for (const std::string& text : texts) {
      const auto ids = encode(tokenizer, text);
      const auto count = static_cast<uint32_t>(ids.size());
      std::fwrite(&count, sizeof(count), 1, stdout);
      std::fwrite(ids.data(), sizeof(ids[0]), ids.size(), stdout);
    }
    return 0;
  }
  double best_s = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double round_s = now_s();
    for (const std::string& text : texts) encode(tokenizer, text);
    best_s = std::min(best_s, now_s() - round_s);
  }
  std::printf("%.6f %.6f\n", load_s, best_s);
  return 0;
}
