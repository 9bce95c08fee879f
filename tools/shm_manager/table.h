#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoal::tools {

// What a piece of text says, by which it is coloured.
enum class Paint { plain, heading, good, doubtful, bad };

[[nodiscard]] std::string painted(std::string_view text, Paint paint, bool colored);

// Lines of text in columns, each as wide as its widest cell. Cells are ASCII.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title{};
    Align align = Align::left;
  };
  struct Cell {
    std::string text{};
    Paint paint = Paint::plain;
  };

  Table(std::vector<Column> columns, bool colored);

  // A cell for each column.
  void add(std::vector<Cell> row);

  // The titles and all rows, a line each.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Column> columns_;
  bool colored_;
  std::vector<std::vector<Cell>> rows_;  // the first are the titles
};

}  // namespace shoal::tools
