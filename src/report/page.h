#pragma once

namespace headloom {

/// The files of src/report/page as the build embeds them.
extern const char* const kPageHtml;
extern const char* const kPageCss;
extern const char* const kPageJs;

}  // namespace headloom
