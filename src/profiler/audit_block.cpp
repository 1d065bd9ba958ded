#include "profiler/audit_block.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/pair_scores.hpp"

namespace rope {

using spectral::EnvelopeTerms;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The lanes that count, closed up.
spectral::CoefficientBatch valid_lanes(const spectral::CoefficientBatch& batch,
                                       const std::vector<std::size_t>& lanes) {
  spectral::CoefficientBatch valid;
  valid.reset(batch.n_freq, lanes.size());
  for (std::size_t n = 0; n < batch.n_freq; ++n) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      valid.re[n * valid.stride + i] = batch.re[n * batch.stride + lanes[i]];
      valid.im[n * valid.stride + i] = batch.im[n * batch.stride + lanes[i]];
    }
  }
  return valid;
}

/// zeta of every lane: fast, and in float64 where that is not sure to lie below the envelope.
std::vector<double> responses(const AuditGrid& grid, const spectral::CoefficientBatch& batch,
                              const std::vector<EnvelopeTerms>& terms, std::int64_t& evaluated_again) {
  spectral::SweepRequest request;
  request.response_max = true;
  spectral::SweepResult swept;
  spectral::sweep_cpu(grid.grid().plan(), batch, request, swept);
  std::vector<double> zeta(batch.n_pairs);
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < zeta.size(); ++i) {
    zeta[i] = swept.response_max[i] / terms[i].norm;
    if (!(zeta[i] < terms[i].envelope() * (1 - kSweepMargin))) near.push_back(i);
  }
  evaluated_again = std::ssize(near);
  if (near.empty()) return zeta;
  const std::vector<double> exact = grid.exact().largest(batch, near);
  for (std::size_t k = 0; k < near.size(); ++k) zeta[near[k]] = exact[k] / terms[near[k]].norm;
  return zeta;
}

BandTally band_tally(const AuditGrid& grid, const spectral::CoefficientBatch& batch,
                     const std::vector<EnvelopeTerms>& terms) {
  BandTally tally;
  const spectral::BandCertificates* band = grid.certificates();
  if (band == nullptr) return tally;
  std::vector<double> high_norm;
  for (const EnvelopeTerms& t : terms) high_norm.push_back(t.high_norm);
  for (const spectral::BandCertificate& c : band->evaluate(batch, high_norm)) {
    if (std::isnan(c.mean_share)) continue;  // U_H = 0
    ++tally.vectors;
    const bool mean = band->mean_holds(c), variance = band->variance_holds(c);
    tally.mean_holds += mean;
    tally.variance_holds += variance;
    tally.mean_share = std::max(tally.mean_share, c.mean_share);
    tally.variance_share = std::max(tally.variance_share, c.variance_share);
    if (grid.separation().proved) tally.violations += !mean + !variance;
  }
  return tally;
}

}  // namespace

AuditGrid::AuditGrid(std::shared_ptr<const WindowedGrid> grid, const spectral::SplitRule& split)
    : grid_(std::move(grid)),
      factors_(spectral::response_factors(grid_->grid().lanes.omega)),
      separation_(
          spectral::check_separation(split, grid_->grid().lanes.omega, grid_->high(), grid_->window())),
      geometric_(spectral::is_geometric(grid_->grid().frequencies.omega)) {
  if (separation_.size > 0)
    certificates_.emplace(grid_->grid().lanes.omega, grid_->high(), grid_->window(),
                          spectral::band_constants(split).epsilon);
}

const spectral::ExactResponse& AuditGrid::exact() const {
  std::call_once(exact_once_, [this] { exact_.emplace(grid_->grid().lanes.omega, grid_->window()); });
  return *exact_;
}

std::shared_ptr<const AuditGrid> AuditGrids::of(const std::shared_ptr<const WindowedGrid>& grid) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const auto& kept) { return &kept->grid() == grid.get(); });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
  } else {
    recent_.push_front(std::make_shared<AuditGrid>(grid, split_));
    if (recent_.size() > kMost) recent_.pop_back();
  }
  return recent_.front();
}

void BandTally::add(const BandTally& other) {
  vectors += other.vectors;
  mean_holds += other.mean_holds;
  variance_holds += other.variance_holds;
  violations += other.violations;
  mean_share = std::max(mean_share, other.mean_share);
  variance_share = std::max(variance_share, other.variance_share);
}

bool EnvelopeTally::add(const EnvelopeTerms& terms, double zeta, std::size_t h) {
  ++pairs;
  const bool response = terms.breaks_envelope(zeta, h), floor = terms.breaks_norm_floor(zeta, h);
  violations_response += response;
  violations_norm_floor += floor;
  largest_response_ratio = std::max(largest_response_ratio, zeta / terms.envelope());
  if (terms.has_floor())
    largest_norm_floor_ratio =
        std::max(largest_norm_floor_ratio, terms.norm_floor(zeta) / terms.norm_share());
  else
    ++without_floor;
  return response || floor;
}

void EnvelopeTally::add(const EnvelopeTally& other) {
  pairs += other.pairs;
  without_floor += other.without_floor;
  violations_response += other.violations_response;
  violations_norm_floor += other.violations_norm_floor;
  largest_response_ratio = std::max(largest_response_ratio, other.largest_response_ratio);
  largest_norm_floor_ratio = std::max(largest_norm_floor_ratio, other.largest_norm_floor_ratio);
  band.add(other.band);
}

std::unique_ptr<AuditBlock> audit_block(const ScanBlock& block,
                                        const std::shared_ptr<const AuditGrid>& grid) {
  auto result = std::make_unique<AuditBlock>();
  result->grid = grid;
  PairPart part = block.job->pair_part(block.index);
  part.usage = part.norm_share = false;
  spectral::CoefficientBatch all;
  const PairBlock scored = std::move(score_pairs({&part, 1}, grid->grid().high(), all).front());
  result->all_pairs = scored.sums.pairs;
  result->undefined = scored.sums.undefined;
  result->non_finite = scored.sums.non_finite;
  std::vector<std::size_t> lanes;
  for (std::size_t lane = 0; lane < scored.norm.size(); ++lane)
    if (scored.norm[lane] != 0) lanes.push_back(lane);
  if (grid->grid().window() < 2) {
    result->without_distance = std::ssize(lanes);
    return result;
  }
  if (lanes.empty()) return result;
  spectral::CoefficientBatch batch = valid_lanes(all, lanes);
  spectral::scale_lanes(batch);
  const std::vector<EnvelopeTerms> terms =
      spectral::envelope_terms(batch, grid->factors(), grid->grid().high());
  const std::vector<double> zeta = responses(*grid, batch, terms, result->evaluated_again);
  result->tally.band = band_tally(*grid, batch, terms);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const EnvelopeTerms& t = terms[i];
    const bool broken = result->tally.add(t, zeta[i], batch.n_freq);
    AuditedPair pair;
    pair.pair = block.first + static_cast<std::int64_t>(lanes[i]);
    pair.response = zeta[i];
    pair.envelope = t.envelope();
    pair.norm_share = t.norm_share();
    pair.norm_floor = t.has_floor() ? t.norm_floor(zeta[i]) : kNaN;
    pair.breaks_response = t.breaks_envelope(zeta[i], batch.n_freq);
    pair.breaks_norm_floor = t.breaks_norm_floor(zeta[i], batch.n_freq);
    result->rows.push_back({pair.norm_share, pair.response, pair.envelope, pair.norm_floor / pair.norm_share,
                            static_cast<std::uint32_t>(block.head), 0});
    if (result->nearest.pair < 0 || pair.ratio() > result->nearest.ratio()) result->nearest = pair;
    if (broken && (result->worst.pair < 0 || pair.ratio() > result->worst.ratio())) result->worst = pair;
  }
  return result;
}

}  // namespace rope
