#include "shoal/tools/shm_manager/table.h"

#include <algorithm>
#include <utility>

namespace shoal::tools {

std::string painted(std::string_view text, Paint paint, bool colored) {
  if (!colored || paint == Paint::plain || text.empty()) return std::string(text);
  const char* start = paint == Paint::heading    ? "\x1b[1m"
                      : paint == Paint::good     ? "\x1b[32m"
                      : paint == Paint::doubtful ? "\x1b[33m"
                                                 : "\x1b[31m";
  std::string result(start);
  result += text;
  result += "\x1b[0m";
  return result;
}

Table::Table(std::vector<Column> columns, bool colored)
    : columns_(std::move(columns)), colored_(colored) {
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.push_back({column.title, Paint::heading});
  rows_.push_back(std::move(titles));
}

void Table::add(std::vector<Cell> row) {
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].text.size());
  std::string text;
  for (const auto& row : rows_) {
    std::string blanks;  // Kept back until something follows: no line ends in blanks.
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string& cell = row[i].text;
      const std::string fill(widths[i] - cell.size(), ' ');
      if (columns_[i].align == Align::right) blanks += fill;
      if (!cell.empty()) {
        text += blanks + painted(cell, row[i].paint, colored_);
        blanks.clear();
      }
      if (columns_[i].align == Align::left) blanks += fill;
      blanks += "  ";
    }
    text += '\n';
  }
  return text;
}

}  // namespace shoal::tools
