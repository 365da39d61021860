// The oracle: every op as plain loops in float32 with double sums, single-threaded, without regard
// to speed. Fast kernels are tested against these.
#pragma once

#include "ops/ops.h"

namespace octavo::backends::ref {

void embed(ops::ExecContext&, const ops::EmbedArgs&);
void rms_norm(ops::ExecContext&, const ops::RmsNormArgs&);
void linear(ops::ExecContext&, const ops::LinearArgs&);
void prepare_input(ops::ExecContext&, const ops::PrepareInputArgs&);
void rope(ops::ExecContext&, const ops::RopeArgs&);
void write_kv(ops::ExecContext&, const ops::WriteKvArgs&);
void attention(ops::ExecContext&, const ops::AttentionArgs&);
void scale_queries(ops::ExecContext&, const ops::ScaleQueriesArgs&);
void activation_mul(ops::ExecContext&, const ops::ActivationMulArgs&);
void softcap(ops::ExecContext&, const ops::SoftcapArgs&);
void add(ops::ExecContext&, const ops::AddArgs&);
void gather_rows(ops::ExecContext&, const ops::GatherRowsArgs&);
void route(ops::ExecContext&, const ops::RouteArgs&);
void combine_experts(ops::ExecContext&, const ops::CombineExpertsArgs&);
void draw_tokens(ops::ExecContext&, const ops::DrawTokensArgs&);

// All of the above, with the default composites.
ops::Ops make_ops();

}  // namespace octavo::backends::ref
