#include <shoal/shoal.h>

int main() {
  auto [left, right] = shoal::Channel::pair();
  const auto sent = shoal::Tensor::zeros_shared({2, 3});
  left.send({.tag = "tensor", .tensors = {sent}});
  const auto received = right.receive(shoal::in_seconds(10)).value().tensors.at(0);
  received.at<float>(1, 2) = 7;  // the same bytes, so the sender sees it
  return sent.at<float>(1, 2) == 7 ? 0 : 1;
}
