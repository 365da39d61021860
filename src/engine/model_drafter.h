// ModelDrafter: guesses what a smaller model with the same vocabulary would say, greedily. It has
// blocks and sequences of its own, each of which follows one that the other model generates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/block_manager.h"
#include "engine/drafter.h"
#include "engine/executor.h"
#include "model/rope.h"

namespace octavo::engine {

struct ModelDrafterConfig {
  int64_t num_blocks = 0;
  int64_t block_size = 16;
  bool enable_prefix_caching = true;
  std::vector<AttentionSpan> groups = {AttentionSpan()};
  int64_t max_num_batched_tokens = 512;
  int64_t max_logit_rows = 256;
  int64_t max_model_len = 0;
  int64_t vocab_size = 0;         // of the smaller model
  int64_t target_vocab_size = 0;  // of the other one
  model::RopeParameters rope;
  double relative_cost = 0;
};

class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(ModelDrafterConfig config, std::unique_ptr<Executor> executor);

  Status propose(std::span<const DraftRequest> requests) override;
  void forget(const Sequence& sequence) override;
  void reset_prefix_cache() override;
  double relative_cost() const override { return config_.relative_cost; }

  // The books of the KV cache agree with the sequences.
  bool check_integrity() const;

 private:
  // What it has computed of a sequence: tokens of both, and behind them the last drafts.
  struct Follower : Sequence {
    int64_t num_verified = 0;
    bool foreign = false;  // it has a token that this model does not know
  };
  struct Drafting {
    Follower* follower = nullptr;
    Sequence* target = nullptr;
    int64_t num_left = 0;
  };

  Follower& follow(const Sequence& target);
  void catch_up(Follower& follower, const Sequence& target) const;
  void find_prefix(Follower& follower);
  bool find_room(Follower& follower);
  void give_back(Follower& follower);
  void drop_idle(std::span<const DraftRequest> requests);
  Status compute(std::span<Drafting* const> drafting);
  Status take_tokens(const Plan& plan, const StepOutput& output,
                     std::span<Drafting* const> drafting);
  void settle(Follower& follower);

  ModelDrafterConfig config_;
  std::unique_ptr<Executor> executor_;
  BlockManager blocks_;
  std::unordered_map<const Sequence*, std::unique_ptr<Follower>> followers_;
};

}  // namespace octavo::engine
