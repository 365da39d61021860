// What of the server needs an engine, but no model.
#include "server/app.h"

#include <gtest/gtest.h>

namespace octavo::server {
namespace {

// An engine that answers nothing; it is as well as the test says.
class StubEngine final : public AsyncEngine {
 public:
  Status state;
  EngineStats figures;

  const ModelInfo& info() const override { return info_; }
  const EngineConfig& config() const override { return config_; }
  const Tokenizer* tokenizer() const override { return nullptr; }
  Result<RequestId> submit(EngineRequest, RequestOutputSink) override { return state; }
  void cancel(RequestId) override {}
  EngineStats stats() const override { return figures; }
  Status health() const override { return state; }
  void pause() override {}
  void resume() override {}
  Status drain(double) override { return {}; }
  void shutdown() override {}
  Status reset_prefix_cache() override { return {}; }
  Result<std::vector<PageTableRow>> page_table(RequestId, int32_t) override { return state; }

 private:
  ModelInfo info_;
  EngineConfig config_;
};

TEST(App, IsAsHealthyAsItsEngine) {
  StubEngine engine;
  App app(engine, {.served_model_names = {"m"}});
  EXPECT_TRUE(app.health().ok());
  engine.figures.last_step_age_s = 1000;
  EXPECT_EQ(app.health().code(), StatusCode::kUnavailable);
  app.pause();
  EXPECT_TRUE(app.health().ok());
  app.resume();
  engine.figures.last_step_age_s = 0;
  engine.state = unavailable("the engine stopped: illegal address");
  EXPECT_EQ(app.health().message(), "the engine stopped: illegal address");
  engine.state = {};
  app.set_draining();
  EXPECT_EQ(app.health().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace octavo::server
