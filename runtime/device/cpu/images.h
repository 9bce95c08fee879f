#pragma once

// Windows over images. Included as spans.h is.

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

// Calls f(row of columns, row of the image, count, first place, first element) for each piece of
// the columns that is in the image, and z(row of columns, first, last) for each that is not.
template <class F, class Z>
void for_each_piece(const Windows& s, F f, Z z) {
  std::int64_t row = 0;
  for (std::int64_t channel = 0; channel < s.channels; ++channel) {
    for (std::int64_t p = 0; p < s.kh; ++p) {
      const Inside down = inside(p, s.h, s.out_h, s);
      for (std::int64_t q = 0; q < s.kw; ++q, ++row) {
        const Inside across = inside(q, s.w, s.out_w, s);
        const std::int64_t at = row * s.places();
        z(at, at + down.first * s.out_w);
        for (std::int64_t i = down.first; i < down.last; ++i) {
          const std::int64_t line = at + i * s.out_w;
          const std::int64_t y = i * s.stride + p - s.padding;
          const std::int64_t x = across.first * s.stride + q - s.padding;
          z(line, line + across.first);
          f(line + across.first, across.last - across.first, (channel * s.h + y) * s.w + x);
          z(line + across.last, line + s.out_w);
        }
        z(at + down.last * s.out_w, at + s.places());
      }
    }
  }
}

template <class T>
void unfold(T* columns, const T* x, const Windows& s) {
  for_each_piece(
      s,
      [&](std::int64_t to, std::int64_t count, std::int64_t from) {
        if (s.stride == 1) {
          for (std::int64_t j = 0; j < count; ++j) columns[to + j] = x[from + j];
        } else {
          for (std::int64_t j = 0; j < count; ++j) columns[to + j] = x[from + j * s.stride];
        }
      },
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t j = first; j < last; ++j) columns[j] = T{0};
      });
}

template <class T>
void fold(T* x, const T* columns, const Windows& s) {
  for_each_piece(
      s,
      [&](std::int64_t from, std::int64_t count, std::int64_t to) {
        if (s.stride == 1) {
          for (std::int64_t j = 0; j < count; ++j) x[to + j] += columns[from + j];
        } else {
          for (std::int64_t j = 0; j < count; ++j) x[to + j * s.stride] += columns[from + j];
        }
      },
      [](std::int64_t, std::int64_t) {});
}

template <class T>
void max_pool(T* y, std::int64_t* index, const T* x, const Windows& s) {
  for (std::int64_t plane = 0; plane < s.n * s.channels; ++plane) {
    const T* from = x + plane * s.h * s.w;
    for (std::int64_t i = 0; i < s.out_h; ++i) {
      for (std::int64_t j = 0; j < s.out_w; ++j, ++y, ++index) {
        std::int64_t best = i * s.stride * s.w + j * s.stride;
        T most = from[best];
        for (std::int64_t p = 0; p < s.kh; ++p) {
          const std::int64_t line = (i * s.stride + p) * s.w + j * s.stride;
          for (std::int64_t at = line; at < line + s.kw; ++at) {
            const bool above = from[at] > most || (from[at] != from[at] && most == most);
            most = above ? from[at] : most;
            best = above ? at : best;
          }
        }
        *y = most;
        *index = best;
      }
    }
  }
}

template <class T>
void max_pool_backward(T* dx, const T* dy, const std::int64_t* index, const Windows& s) {
  for (std::int64_t plane = 0; plane < s.n * s.channels; ++plane, dx += s.h * s.w)
    for (std::int64_t place = 0; place < s.places(); ++place) dx[*index++] += *dy++;
}

}  // namespace shoal::SHOAL_CPU_SET
