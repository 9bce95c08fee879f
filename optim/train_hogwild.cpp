#include "shoal/optim/train_hogwild.h"

#include "shoal/autograd/module_spec.h"
#include "shoal/optim/observe.h"
#include "shoal/optim/train_share.h"
#include "shoal/runtime/base/error.h"
#include "shoal/runtime/base/wire.h"

namespace shoal::optim {
namespace {

// A worker's arguments: tensors W, inputs, targets, and the board's two; the rest as bytes.
Message encode_job(autograd::Module& model, const Dataset& data, const HogwildOptions& options,
                   const TrainBoard& board) {
  WireWriter writer;
  writer.put_text(model.spec());
  writer.put(static_cast<const TrainOptions&>(options));
  writer.put(options.strategy);
  writer.put(data.scale);
  writer.put(data.shift);
  Message message{.tag = "hogwild",
                  .bytes = writer.take(),
                  .tensors = {model.flatten().values, data.inputs, data.targets}};
  for (const Tensor& tensor : board.tensors()) message.tensors.push_back(tensor);
  return message;
}

}  // namespace

SHOAL_ENTRY(shoal_hogwild_worker)
int shoal_hogwild_worker(Worker& worker) {
  const std::vector<Tensor>& tensors = worker.args.tensors;
  check(tensors.size() == 5, ErrorKind::malformed, "hogwild worker", tensors.size(),
        " tensors came, not 5");
  WireReader reader(worker.args.bytes);
  const std::string spec = reader.get_text();
  const auto options = reader.get<TrainOptions>();
  set_sharing_strategy(reader.get<SharingStrategy>());
  const Dataset data{.inputs = tensors[1],
                     .targets = tensors[2],
                     .scale = reader.get<double>(),
                     .shift = reader.get<double>()};
  reader.expect_end();

  // The values it draws give way to W; what stays are seeds, of dropout, say.
  Generator unused(options.seed + static_cast<std::uint64_t>(worker.rank));
  const auto model = autograd::make_module(spec, unused, tensors[0].dtype());
  model->flatten_into({.values = tensors[0], .grads = {}});
  const TrainBoard board(tensors[3], tensors[4], options.epochs);
  train_share(*model, data, options, worker.rank, worker.world_size, board);
  return 0;
}

TrainReport train_hogwild(autograd::Module& model, const Dataset& data,
                          const HogwildOptions& options, const TrainObserver& observer) {
  options.validate();
  data.validate();
  check(options.workers >= 1, ErrorKind::invalid_argument, "train_hogwild", options.workers,
        " workers; at least 1 is needed");
  model.share_memory(options.strategy);
  data.inputs.share_memory(options.strategy);
  data.targets.share_memory(options.strategy);
  const TrainBoard board(options.workers, options.epochs, options.strategy);
  const Message job = encode_job(model, data, options, board);

  Observing observing(board, data.size(), observer);
  ProcessContext workers = launch(
      shoal_hogwild_worker, job, {.nprocs = options.workers, .start_method = options.start_method});
  while (!workers.join(in_seconds(Observing::kInterval))) observing.look();
  observing.look();
  return observing.report();
}

}  // namespace shoal::optim
