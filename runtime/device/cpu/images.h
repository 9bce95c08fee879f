#pragma once

// Windows over images. Included as spans.h is.

#include <cstring>

#include "shoal/runtime/device/cpu/spans.h"
#include "shoal/runtime/device/device.h"

namespace shoal::SHOAL_CPU_SET {

// Of the out_w places in a row of windows, those for which column `q` of the kernel is in the image
// and not in the padding: [first, last).
struct Inside {
  std::int64_t first = 0, last = 0;
};
inline Inside inside(std::int64_t q, std::int64_t size, std::int64_t places, const Windows& s) {
  const std::int64_t before = s.padding - q;  // j * stride >= before
  const std::int64_t after = size + s.padding - q;
  Inside in{before <= 0 ? 0 : (before + s.stride - 1) / s.stride,
            after <= 0 ? 0 : (after + s.stride - 1) / s.stride};
  if (in.last > places) in.last = places;
  if (in.first > in.last) in.first = in.last;
  return in;
}

// What lies under one element of the kernel: `rows` by `columns` places that are in the image, the
// first of which is element `from` of the image and `to` of the columns.
struct Patch {
  std::int64_t rows = 0, columns = 0, from = 0, to = 0;
};

// Calls f(patch, first of the columns) for each element of the kernel, under which lie all places
// from the first on, patch or padding.
template <class F>
void for_each_patch(const Windows& s, F f) {
  std::int64_t first = 0;
  for (std::int64_t channel = 0; channel < s.channels; ++channel) {
    for (std::int64_t p = 0; p < s.kh; ++p) {
      const Inside down = inside(p, s.h, s.out_h, s);
      const std::int64_t y = down.first * s.stride + p - s.padding;
      for (std::int64_t q = 0; q < s.kw; ++q, first += s.places()) {
        const Inside across = inside(q, s.w, s.out_w, s);
        const std::int64_t x = across.first * s.stride + q - s.padding;
        f(Patch{.rows = down.last - down.first,
                .columns = across.last - across.first,
                .from = (channel * s.h + y) * s.w + x,
                .to = first + down.first * s.out_w + across.first},
          first);
      }
    }
  }
}

// Elements that are copied or added at a time: rows are short, so that the ends of a loop over
// whole registers would cost more than the rest.
constexpr std::int64_t kGroup = 8;

template <class T>
using Group = Eigen::Array<T, kGroup, 1>;

// How far apart, in elements, the neighbours of a grid are down and across.
struct Grid {
  std::int64_t down = 0, across = 0;
};

// Calls f(to, from) for each of rows by kColumns elements, or `columns` where that is 0, that lie
// side by side; for a group of them at a time as far as they go.
template <class T, std::int64_t kColumns, class F>
void zip_rows(T* to, std::int64_t to_down, const T* from, std::int64_t from_down, std::int64_t rows,
              std::int64_t columns, F f) {
  for (std::int64_t i = 0; i < rows; ++i, to += to_down, from += from_down) {
    const std::int64_t count = kColumns == 0 ? columns : kColumns;
    std::int64_t j = 0;
    for (; j + kGroup <= count; j += kGroup)
      f(Eigen::Map<Group<T>>(to + j), Eigen::Map<const Group<T>>(from + j));
    for (; j < count; ++j) f(to[j], from[j]);
  }
}

// Calls f.operator()<kColumns>() with the number of columns, where that is common, or 0.
template <class F>
void with_columns(std::int64_t columns, F f) {
  switch (columns) {
    case 8:
      return f.template operator()<8>();
    case 16:
      return f.template operator()<16>();
    case 24:
      return f.template operator()<24>();
    default:
      return f.template operator()<0>();
  }
}

// Calls f(to, from) for each of rows by columns elements of two grids.
template <class T, class F>
void zip(T* to, const Grid& to_grid, const T* from, const Grid& from_grid, std::int64_t rows,
         std::int64_t columns, F f) {
  if (to_grid.across == 1 && from_grid.across == 1) {
    with_columns(columns, [&]<std::int64_t kColumns>() {
      zip_rows<T, kColumns>(to, to_grid.down, from, from_grid.down, rows, columns, f);
    });
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i, to += to_grid.down, from += from_grid.down)
    for (std::int64_t j = 0; j < columns; ++j)
      f(to[j * to_grid.across], from[j * from_grid.across]);
}

template <class T>
void unfold(T* columns, const T* x, const Windows& s) {
  const Grid places{.down = s.out_w, .across = 1},
      image{.down = s.stride * s.w, .across = s.stride};
  for_each_patch(s, [&](const Patch& patch, std::int64_t first) {
    if (patch.rows * patch.columns < s.places()) span_of<T>(columns + first, s.places()).setZero();
    zip(columns + patch.to, places, x + patch.from, image, patch.rows, patch.columns,
        [](auto&& to, const auto& from) { to = from; });
  });
}

template <class T>
void fold(T* x, const T* columns, const Windows& s) {
  const Grid places{.down = s.out_w, .across = 1},
      image{.down = s.stride * s.w, .across = s.stride};
  for_each_patch(s, [&](const Patch& patch, std::int64_t /*first*/) {
    zip(x + patch.from, image, columns + patch.to, places, patch.rows, patch.columns,
        [](auto&& to, const auto& from) { to += from; });
  });
}

#ifdef __AVX2__
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

// A register of kLanes elements, as the compiler knows them; comparisons give integers as wide.
template <class T, int kLanes>
struct Register {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));  // NOLINT: takes no alias
};

template <class T>
T load(const void* from) {
  T loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return loaded;
}

// A NaN, which differs from itself, is above all others, but not above another.
template <class V>
auto is_above(const V& value, const V& most) {
  return (value > most) | ((value != value) & (most == most));  // NOLINT(misc-redundant-expression)
}

// kLanes places in a row of windows of 2 by 2, at stride 2: the most used. `x` is the first element
// under them; `corner`, where it is in its plane.
template <class T, int kLanes>
void max_pool_pairs(T* y, std::int64_t* index, const T* x, std::int64_t corner, std::int64_t w) {
  using Lanes = typename Register<T, kLanes>::type;
  // Which of two neighbours, and where.
  Lanes most[2];
  decltype(most[0] > most[1]) column[2];
  for (int row = 0; row < 2; ++row) {
    const auto a = load<Lanes>(x + row * w), b = load<Lanes>(x + row * w + kLanes);
    Lanes left, right;
    if constexpr (kLanes == 8) {
      left = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
      right = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
    } else if constexpr (kLanes == 4) {
      left = __builtin_shufflevector(a, b, 0, 2, 4, 6);
      right = __builtin_shufflevector(a, b, 1, 3, 5, 7);
    } else {
      left = __builtin_shufflevector(a, b, 0, 2);
      right = __builtin_shufflevector(a, b, 1, 3);
    }
    column[row] = is_above(right, left);  // -1 where it is the right one
    most[row] = column[row] ? right : left;
  }
  const auto lower = is_above(most[1], most[0]);
  const Lanes largest = lower ? most[1] : most[0];
  std::memcpy(y, &largest, sizeof largest);
  for (int j = 0; j < kLanes; ++j) {
    const auto in_row = lower[j] ? column[1][j] : column[0][j];
    index[j] = corner + 2 * j - in_row - lower[j] * w;
  }
}

// One place.
template <class T>
void max_pool_window(T* y, std::int64_t* index, const T* plane, std::int64_t corner,
                     const Windows& s) {
  std::int64_t best = corner;
  for (std::int64_t p = 0; p < s.kh; ++p) {
    for (std::int64_t at = corner + p * s.w; at < corner + p * s.w + s.kw; ++at)
      best = is_above(plane[at], plane[best]) ? at : best;
  }
  *y = plane[best];
  *index = best;
}

template <class T>
void max_pool(T* y, std::int64_t* index, const T* x, const Windows& s) {
  const bool in_pairs = s.kh == 2 && s.kw == 2 && s.stride == 2;
  for (std::int64_t plane = 0; plane < s.n * s.channels; ++plane, x += s.h * s.w) {
    for (std::int64_t i = 0; i < s.out_h; ++i) {
      std::int64_t corner = i * s.stride * s.w, left = s.out_w;
      const auto pairs = [&]<int kCount>() {
        for (; in_pairs && left >= kCount; left -= kCount) {
          max_pool_pairs<T, kCount>(y, index, x + corner, corner, s.w);
          y += kCount;
          index += kCount;
          corner += 2 * kCount;
        }
      };
      constexpr int kLanes = kRegisterBytes / sizeof(T);
      pairs.template operator()<kLanes>();
      if constexpr (kLanes > 2) pairs.template operator()<kLanes / 2>();
      for (; left > 0; --left, corner += s.stride) max_pool_window(y++, index++, x, corner, s);
    }
  }
}

template <class T>
void max_pool_backward(T* dx, const T* dy, const std::int64_t* index, const Windows& s) {
  for (std::int64_t plane = 0; plane < s.n * s.channels; ++plane, dx += s.h * s.w)
    for (std::int64_t place = 0; place < s.places(); ++place) dx[*index++] += *dy++;
}

}  // namespace shoal::SHOAL_CPU_SET
