# Measures calls on command: "fire 1000" prints the nanoseconds of each of 1000.

require "stapsdt"

$stdout.sync = true
app = Stapsdt::Provider.new("languages")
probe = app.probe("bench", path: :string, number: :int32)
app.load

def nothing(text, number)
end

measures = {
  "empty" => ->(calls) { calls.times { |i| nothing("/index.html", i) } },
  "enabled" => ->(calls) { calls.times { probe.enabled? } },
  "fire" => ->(calls) { calls.times { |i| probe.fire("/index.html", i) } },
}

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

puts "ready"
$stdin.each_line do |line|
  name, calls = line.split
  start = now
  measures[name].call(calls.to_i)
  puts "took #{(now - start) / calls.to_f}"
end
