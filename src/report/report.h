#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/fields.h"
#include "heads/examination.h"

namespace headloom {

/// Everything that the page shows, measured on a run and a text; JSON that can also be downloaded
/// from the page. `progress` hears what is being measured. A run that is still training can be
/// reported on: the newest checkpoint is what counts.
Json report_data(const std::filesystem::path& run, const QuestionRequest& request,
                 std::int64_t step, const std::function<void(const std::string&)>& progress);

/// One self-contained page: no request, no network. Every `<` of the data is escaped, so that no
/// token can end the script it lies in.
std::string report_page(const Json& data);

/// What was found, in words, one sentence for each head and pattern that passed; then what there is
/// to say about the rest.
std::vector<std::string> findings_in_words(const Examination& examination);

}  // namespace headloom
