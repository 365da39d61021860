#include "cli/token_json.h"

namespace octavo::cli {
namespace {

JsonObject to_json(const Logprob& l) {
  return {{"token_id", l.token_id}, {"logprob", l.logprob}, {"rank", l.rank}};
}

}  // namespace

JsonArray logprobs_json(const std::vector<TokenLogprobs>& positions) {
  JsonArray array;
  for (const TokenLogprobs& position : positions) {
    JsonArray top;
    for (const Logprob& l : position.top) top.push_back(to_json(l));
    JsonObject entry = to_json(position.token);
    entry["top"] = std::move(top);
    array.push_back(std::move(entry));
  }
  return array;
}

}  // namespace octavo::cli
