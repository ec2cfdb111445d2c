#pragma once

#include "base/fields.h"
#include "heads/examination.h"

namespace headloom {

/// {"mean", "low", "high", "p", "rows"}.
Json estimate_json(const Estimate& estimate);

/// Everything an examination found, head by head.
Json examination_json(const Examination& examination);

}  // namespace headloom
