#include "report/report.h"

#include "report/page.h"

namespace headloom {
namespace {

/// Puts `text` in place of the first `mark`. The template has each mark once.
void fill(std::string& page, const std::string& mark, const std::string& text) {
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string report_page(const Json& data) {
  // ASCII alone, and no "<": nothing in a token can end the script that holds it.
  const std::string json =
      data.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  std::string escaped;
  escaped.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  std::string page = kPageHtml;
  fill(page, "/*STYLE*/", kPageCss);
  fill(page, "/*SCRIPT*/", kPageJs);
  fill(page, "/*DATA*/", escaped);
  return page;
}

}  // namespace headloom
