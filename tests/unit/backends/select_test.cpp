#include "backends/select.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "backends/registry.h"

namespace octavo::backends {
namespace {

using cpu::Isa;

std::vector<Isa> runnable_sets() {
  std::vector<Isa> sets;
  for (const std::string_view name : cpu::kIsaNames) {
    const Isa isa = *cpu::parse_isa(name);
    if (cpu::isa_supported(isa)) sets.push_back(isa);
  }
  return sets;
}

// The chosen row of each op, by what it does.
const cpu::Kernel* chosen(const Backend& backend, std::string_view what) {
  for (const ChosenKernel& c : chosen_kernels(backend.ops)) {
    if (c.what == what) return c.kernel;
  }
  return nullptr;
}

TEST(Select, TheForcedSetIsWhatRuns) {
  for (const Isa set : runnable_sets()) {
    const Result<Backend> backend = open_cpu(Arithmetic::kAuto, cpu::isa_name(set));
    ASSERT_TRUE(backend.ok()) << backend.status().message();
    EXPECT_EQ(backend->kernels, cpu::isa_name(set));
    // Every pointer is that of a row which the set includes, and of the widest such row.
    const std::vector<ChosenKernel> kernels = chosen_kernels(backend->ops);
    EXPECT_EQ(kernels.size(), 16u + 29u);  // ops and composites, and weight types of linear
    for (const ChosenKernel& c : kernels) {
      EXPECT_LE(c.kernel->isa, set) << c.what;
      for (const cpu::Kernel& row : cpu::kernel_table()) {
        const bool rival = row.op == c.kernel->op && row.weights == c.kernel->weights &&
                           row.arithmetic == c.kernel->arithmetic && row.isa <= set;
        EXPECT_FALSE(rival && row.isa > c.kernel->isa) << c.what << ": " << row.name;
      }
    }
  }
}

// Where integers are asked for, or nothing, types that no integer kernel reads are floats.
TEST(Select, TypesWithoutIntegerKernels) {
  for (const Arithmetic arithmetic : {Arithmetic::kAuto, Arithmetic::kInt8}) {
    const Result<Backend> backend = open_cpu(arithmetic, "");
    for (const char* type : {"nvfp4", "q1_0", "q2_0"}) {
      EXPECT_NE(chosen(*backend, std::string("linear ") + type + " float32"), nullptr) << type;
    }
    EXPECT_NE(chosen(*backend, "linear tq1_0 int8"), nullptr);
  }
}

TEST(Select, ForcedSetsDifferWhereTheyShould) {
  std::set<const cpu::Kernel*> kernels;
  for (const Isa set : runnable_sets()) {
    if (set == Isa::kAvx512) continue;  // its int8 products are AVX2's
    if (set == Isa::kAvx512Bf16) continue;
    const Result<Backend> backend = open_cpu(Arithmetic::kAuto, cpu::isa_name(set));
    const cpu::Kernel* kernel = chosen(*backend, "linear q4_1 int8");
    ASSERT_NE(kernel, nullptr);
    EXPECT_TRUE(kernels.insert(kernel).second) << kernel->name;
  }
}

TEST(Select, TheEnvironmentForcesASet) {
  setenv("OCTAVO_KERNELS", "generic", 1);
  const Result<Backend> backend = open_backend("auto", Arithmetic::kAuto);
  unsetenv("OCTAVO_KERNELS");
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ(backend->name, "cpu");
  EXPECT_EQ(backend->kernels, "generic");
  EXPECT_EQ(backend->kernels_reason, "OCTAVO_KERNELS");
  EXPECT_EQ(chosen(*backend, "attention")->name, "attention_generic");
  EXPECT_EQ(open_backend("cpu", Arithmetic::kAuto)->kernels, cpu::isa_name(cpu::best_isa()));
}

TEST(Select, UnknownSetsAreRefusedWithAList) {
  const Result<Backend> backend = open_cpu(Arithmetic::kAuto, "sse9");
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(backend.status().message().find("'sse9'"), std::string::npos);
  EXPECT_NE(backend.status().message().find("generic"), std::string::npos);
}

TEST(Select, SetsThatThisCpuLacksAreRefused) {
  for (const std::string_view name : cpu::kIsaNames) {
    if (cpu::isa_supported(*cpu::parse_isa(name))) continue;
    const Result<Backend> backend = open_cpu(Arithmetic::kAuto, name);
    ASSERT_FALSE(backend.ok());
    EXPECT_EQ(backend.status().code(), StatusCode::kUnsupported);
  }
}

TEST(Select, Arithmetic) {
  const bool bf16 = cpu::isa_supported(Isa::kAvx512Bf16);
  const Result<Backend> automatic = open_cpu(Arithmetic::kAuto, "");
  EXPECT_EQ(automatic->arithmetic, Arithmetic::kInt8);
  EXPECT_NE(chosen(*automatic, "linear q8_0 int8"), nullptr);
  EXPECT_NE(chosen(*automatic, "linear float16 float32"), nullptr);
  EXPECT_NE(chosen(*automatic, bf16 ? "linear bfloat16 bfloat16" : "linear bfloat16 float32"),
            nullptr);
  const Result<Backend> exact = open_cpu(Arithmetic::kFloat32, "");
  EXPECT_EQ(exact->arithmetic, Arithmetic::kFloat32);
  EXPECT_NE(chosen(*exact, "linear q8_0 float32"), nullptr);
  EXPECT_NE(chosen(*exact, "linear bfloat16 float32"), nullptr);
  EXPECT_EQ(chosen(*exact, "attention")->arithmetic, Arithmetic::kFloat32);
  const Result<Backend> half = open_cpu(Arithmetic::kBFloat16, "");
  EXPECT_NE(chosen(*half, "linear q4_0 bfloat16"), nullptr);
  EXPECT_NE(chosen(*half, "linear float32 bfloat16"), nullptr);
  for (const Result<Backend>* backend : {&automatic, &half}) {
    EXPECT_EQ(chosen(**backend, "attention")->arithmetic,
              bf16 ? Arithmetic::kBFloat16 : Arithmetic::kFloat32);
  }
}

TEST(Registry, NamesAndArithmeticsThatDoNotExist) {
  const Result<Backend> unknown = open_backend("tpu", Arithmetic::kAuto);
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().message().find("'tpu'"), std::string::npos);
  const Result<Backend> gpu = open_backend("cuda", Arithmetic::kFloat32);  // wherever it runs
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(gpu.status().message().find("'cuda'"), std::string::npos) << gpu.status().message();
  EXPECT_EQ(open_backend("ref", Arithmetic::kInt8).status().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(open_backend("ref", Arithmetic::kFloat32).ok());
  const Result<Backend> ref = open_backend("ref", Arithmetic::kAuto);
  ASSERT_TRUE(ref.ok());
  EXPECT_EQ(ref->arithmetic, Arithmetic::kFloat32);
  EXPECT_EQ(describe_kernels(*ref).size(), 1u);
}

TEST(Registry, Descriptions) {
  const Result<Backend> backend = open_cpu(Arithmetic::kAuto, "generic");
  const std::vector<std::string> lines = describe_kernels(*backend);
  EXPECT_NE(std::find(lines.begin(), lines.end(), "linear q4_1 int8: int8_generic"), lines.end());
  EXPECT_FALSE(cpu_model_name().empty());
  EXPECT_FALSE(cpu_features().empty());
  EXPECT_FALSE(describe_gpu().empty());
}

}  // namespace
}  // namespace octavo::backends
