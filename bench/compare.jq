# From what sharing_bench and the peers print, of all rounds, to one row for each piece of work.
# Input: an array of Google Benchmark's reports and of objects {name, ns}.

def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;

def nanoseconds: {ns: 1, us: 1e3, ms: 1e6, s: 1e9}[.time_unit] * .real_time;

# Google Benchmark appends to a name how it was measured.
def samples:
  if has("benchmarks")
  then .benchmarks[] | {name: (.name | sub("(/iterations:[0-9]+)?/(real|manual)_time$"; "")),
                        ns: nanoseconds}
  else . end;

def digits($n): . * pow(10; $n) | round / pow(10; $n);
def rounded: if . >= 100 then round elif . >= 10 then digits(1) else digits(2) end | tostring;
def as_time:
  if . == null then "-"
  elif . < 1e3 then "\(rounded) ns"
  elif . < 1e6 then "\(. / 1e3 | rounded) us"
  else "\(. / 1e6 | rounded) ms" end;
def as_ratio: if . == null then "-" else rounded end;
def over($b): if . == null or $b == null then null else . / $b end;

[.[] | samples] as $samples
| (reduce $samples[] as $s ({}; .[$s.name] += [$s.ns]) | map_values(median)) as $medians
| {$machine,
   rows: [
     (reduce $samples[].name as $name ([]; if index($name) then . else . + [$name] end))[]
     | select(startswith("shoal/"))
     | $medians[.] as $shoal
     | (split("/")[1:]) as [$work, $size, $strategy, $cold]
     # The floor of a round trip is the same for all sizes.
     | ($medians["raw/\($work)/\($size)"] // $medians["raw/\($work)"]) as $raw
     | $medians["torch/\($work)/\($size)/\($strategy)"] as $torch
     | ([$medians | to_entries[] | select(.key | startswith("torch/\($work)/\($size)/")) | .value]
        | min) as $best
     | {name: ltrimstr("shoal/"), shoal_ns: $shoal, raw_ns: $raw, torch_ns: $torch,
        over_raw: ($shoal | over($raw)), speedup: ($torch | over($shoal)),
        best_speedup: ($best | over($shoal))}
     | .text = {shoal: (.shoal_ns | as_time), raw: (.raw_ns | as_time),
                torch: (.torch_ns | as_time), over_raw: (.over_raw | as_ratio),
                speedup: (.speedup | as_ratio), best_speedup: (.best_speedup | as_ratio)}]}
